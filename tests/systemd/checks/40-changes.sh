# What an administrator changes while it runs: the configuration, the key, the package.

process="$(main_process)"
before="$(place)"
configure "$never" /etc/crm-mirror/rotating.key
install -m 640 /dev/stdin "$tree/etc/crm-mirror/rotating.key" <<<"$api_key"
inside chgrp crmmirror /etc/crm-mirror/rotating.key
inside systemctl reload crm-mirror.service || fail "it cannot be reloaded"
until_ 10 "the end of the reload" says "$before" "The configuration was read again"
is ActiveState active || fail "after a reload it is $(property ActiveState)"
[ "$(main_process)" = "$process" ] || fail "a reload started another process"
until_ 10 "a word that there is no schedule" is StatusText "Up to date; no schedule; runs on request"
ok "SIGHUP: the new schedule is in force, in the same process"

# The new key sees less: which key was used shows in what is missing.
echo narrow >"$tree/etc/crm-mirror/rotating.key"
inside crm-mirror sync >"$work/sync" 2>&1 || fail "crm-mirror sync: $(cat "$work/sync")"
grep -qF 'the key lacks `companies:read`' "$work/sync" || fail "the new key was not used: $(cat "$work/sync")"
echo wrong >"$tree/etc/crm-mirror/rotating.key"
code=0
inside crm-mirror sync >"$work/sync" 2>&1 || code=$?
[ "$code" = 77 ] || fail "with a key that is refused sync ends with $code: $(cat "$work/sync")"
is ActiveState active || fail "a key that is refused ended the daemon"
echo "$api_key" >"$tree/etc/crm-mirror/rotating.key"
inside crm-mirror sync >"$work/sync" 2>&1 || fail "crm-mirror sync: $(cat "$work/sync")"
! grep -qF 'the key lacks' "$work/sync" || fail "the old key was not used again: $(cat "$work/sync")"
[ "$(main_process)" = "$process" ] || fail "another key started another process"
ok "a key that takes the place of another is used by the next run, without a restart; a refused one ends nothing"

before="$(place)"
sed -i 's/^jitter = .*/jiter = "0s"/' "$tree/etc/crm-mirror/config.toml"
inside systemctl reload crm-mirror.service || fail "it cannot be reloaded"
until_ 10 "a word about the mistake" says "$before" "The new configuration is invalid"
is ActiveState active || fail "a mistake in the configuration ended it"
ok "a mistake in the configuration changes nothing, and is told"

configure "$often"
rows="$(ask 'SELECT count(*) FROM sync_runs')"
inside dpkg --install /crm-mirror.deb >"$work/upgraded" 2>&1 || fail "$(cat "$work/upgraded")"
is ActiveState active || fail "it does not run after an upgrade"
[ "$(main_process)" != "$process" ] || fail "the old program still runs after an upgrade"
[ "$(ask 'SELECT count(*) FROM sync_runs')" -ge "$rows" ] || fail "an upgrade lost the mirror"
[ "$(cat "$tree/etc/crm-mirror/api-key")" = "$api_key" ] || fail "an upgrade lost the key"
grep -qF "$often" "$tree/etc/crm-mirror/config.toml" || fail "an upgrade lost the configuration"
ok "an upgrade starts the new program, and keeps mirror, configuration and key"

# As the README says it.
inside systemd-creds encrypt --name=api-key /etc/crm-mirror/api-key /etc/crm-mirror/api-key.cred 2>"$work/encrypted" ||
    fail "the key cannot be encrypted: $(cat "$work/encrypted")"
inside mkdir -p /etc/systemd/system/crm-mirror.service.d
cat >"$tree/etc/systemd/system/crm-mirror.service.d/key.conf" <<'UNIT'
[Service]
LoadCredential=
LoadCredentialEncrypted=api-key:/etc/crm-mirror/api-key.cred
UNIT
mv "$tree/etc/crm-mirror/api-key" "$work/"
inside systemctl daemon-reload
inside systemctl restart crm-mirror.service || fail "it does not start with an encrypted key"
before="$(place)"
until_ 20 "a run with an encrypted key" has 1 "$before" CRM_OUTCOME=done
mv "$work/api-key" "$tree/etc/crm-mirror/"
rm -r "$tree/etc/systemd/system/crm-mirror.service.d" "$tree/etc/crm-mirror/api-key.cred"
inside systemctl daemon-reload
inside systemctl restart crm-mirror.service
ok "an encrypted key is as good as a plain one"
