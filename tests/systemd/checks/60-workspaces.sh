# Several workspaces, each with a unit, a mirror and a socket of its own.

inside systemctl is-active --quiet crm-mirror.service || fail "it does not run"
one="$base_url"
serve --contacts 200 --companies 20 --seed 9
configure "$often" "" acme.toml crm-mirror/acme
install -m 600 /dev/stdin "$tree/etc/crm-mirror/acme.key" <<<"$api_key"
inside systemctl enable --now crm-mirror@acme.service 2>"$work/enabled" || fail "$(cat "$work/enabled")"
acme=/var/lib/crm-mirror/acme/mirror.db
copied() { [ "$(ask 'SELECT count(*) FROM contacts' "$acme")" = 200 ]; }
until_ 20 "the copy of the second workspace" copied
[ "$(as reader sqlite3 -readonly "$acme" 'SELECT count(*) FROM contacts')" = 200 ] ||
    fail "a member of the group cannot read the second mirror"
[ "$(ask 'SELECT count(*) FROM contacts')" = 3000 ] || fail "the workspaces are mixed up"
inside systemctl stop crm-mirror.service
inside crm-mirror --config /etc/crm-mirror/acme.toml resync >"$work/resync" 2>&1 ||
    fail "when one stops the other's socket is gone: $(cat "$work/resync")"
inside systemctl start crm-mirror.service
ok "a second workspace has its own mirror, and does not mind when the first one stops"
base_url="$one"

names="$(ask "SELECT name FROM contacts WHERE name IS NOT NULL UNION SELECT email FROM contacts WHERE email IS NOT NULL")"
[ "$(wc -l <<<"$names")" -gt 100 ] || fail "there are no names to look for"
inside journalctl --no-pager --output json >"$work/journal"
for key in "$api_key" "$(sed -n 's/^api_key: //p' "$work/sandbox.0")"; do
    ! grep -qF -- "$key" "$work/journal" || fail "a key is in the journal"
done
! grep -qwF -- "$names" "$work/journal" || fail "a name or an address is in the journal: $(grep -owF -- "$names" "$work/journal" | head -n 3)"
ok "neither a key nor a name nor an address is in the journal ($(wc -l <"$work/journal") lines)"
