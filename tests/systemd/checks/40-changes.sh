# Changes by an administrator while the daemon runs: the configuration, the key, the package.

process="$(main_process)"
before="$(place)"
configure "$never" /etc/crm-mirror/rotating.key
install -m 640 /dev/stdin "$tree/etc/crm-mirror/rotating.key" <<<"$api_key"
inside chgrp crmmirror /etc/crm-mirror/rotating.key
inside systemctl reload crm-mirror.service || fail "it cannot be reloaded"
until_ 10 "the end of the reload" logged "$before" "Configuration reloaded"
is ActiveState active || fail "after a reload it is $(property ActiveState)"
[ "$(main_process)" = "$process" ] || fail "a reload started another process"
until_ 10 "the status without a schedule" is StatusText "Idle; no schedule; runs on request"
ok "SIGHUP: the new schedule applies in the same process"

# The refusal shows that the new key was used.
echo wrong >"$tree/etc/crm-mirror/rotating.key"
code=0
inside crm-mirror sync >"$work/sync" 2>&1 || code=$?
[ "$code" = 77 ] || fail "with a key that is refused sync ends with $code: $(cat "$work/sync")"
is ActiveState active || fail "a key that is refused ended the daemon"
echo "$api_key" >"$tree/etc/crm-mirror/rotating.key"
inside crm-mirror sync >"$work/sync" 2>&1 || fail "crm-mirror sync: $(cat "$work/sync")"
[ "$(main_process)" = "$process" ] || fail "another key started another process"
ok "the next run uses a replaced key without a restart; a refused key does not end the daemon"

before="$(place)"
sed -i 's/^details = .*/detials = "off"/' "$tree/etc/crm-mirror/config.toml"
inside systemctl reload crm-mirror.service || fail "it cannot be reloaded"
until_ 10 "the message about the mistake" logged "$before" "The new configuration is not active"
is ActiveState active || fail "a mistake in the configuration ended it"
ok "a mistake in the configuration changes nothing and is logged"

configure "$often"
rows="$(ask 'SELECT count(*) FROM sync_runs')"
inside dpkg --install /crm-mirror.deb >"$work/upgraded" 2>&1 || fail "$(cat "$work/upgraded")"
is ActiveState active || fail "it does not run after an upgrade"
[ "$(main_process)" != "$process" ] || fail "the old program still runs after an upgrade"
[ "$(ask 'SELECT count(*) FROM sync_runs')" -ge "$rows" ] || fail "an upgrade lost the mirror"
[ "$(cat "$tree/etc/crm-mirror/api-key")" = "$api_key" ] || fail "an upgrade lost the key"
grep -qF "$often" "$tree/etc/crm-mirror/config.toml" || fail "an upgrade lost the configuration"
ok "an upgrade starts the new program, and keeps mirror, configuration and key"

# A unit that failed is started again by an upgrade, one that was stopped is not.
inside systemctl stop crm-mirror.service
inside dpkg --install /crm-mirror.deb >"$work/upgraded" 2>&1 || fail "$(cat "$work/upgraded")"
is ActiveState inactive || fail "an upgrade starts what was stopped: it is $(property ActiveState)"
mv "$tree/etc/crm-mirror/config.toml" "$work/config.toml"
echo 'nonsense' >"$tree/etc/crm-mirror/config.toml"
inside systemctl start crm-mirror.service 2>/dev/null && fail "it starts with a configuration that is none"
is ActiveState failed || fail "with a configuration that is none it is $(property ActiveState)"
mv "$work/config.toml" "$tree/etc/crm-mirror/config.toml"
inside dpkg --install /crm-mirror.deb >"$work/upgraded" 2>&1 || fail "$(cat "$work/upgraded")"
until_ 20 "a start by the upgrade" is ActiveState active
ok "an upgrade starts a unit that had failed, and leaves alone one that was stopped"

# As in the README.
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
ok "an encrypted key works like a plain one"
