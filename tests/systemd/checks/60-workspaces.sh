# Several workspaces, each with its own unit, mirror and socket.

inside systemctl is-active --quiet crm-mirror.service || fail "it does not run"
one="$base_url"
serve --contacts 200 --companies 20 --seed 9
# By name: the sandbox of the unit must permit name resolution.
base_url="${base_url/127.0.0.1/localhost}"
inside crm-mirror init /etc/crm-mirror/acme.toml >"$work/init" || fail "crm-mirror init: $(cat "$work/init")"
[ "$(inside stat -c '%U:%G %a' /etc/crm-mirror/acme.toml)" = "root:crmmirror 640" ] ||
    fail "init makes a file that the service cannot read: $(inside ls -l /etc/crm-mirror)"
grep -qF 'crm-mirror -c /etc/crm-mirror/acme.toml check' "$work/init" || fail "init names another file: $(cat "$work/init")"
configure "$often" "" acme.toml
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
ok "a second workspace has its own mirror, and is not affected when the first one stops"

serve --contacts 1500 --companies 1 --fault latency:100ms
configure "$often" "" long.toml
sed -i 's/^details = .*/details = "all"/' "$tree/etc/crm-mirror/long.toml"
install -m 600 /dev/stdin "$tree/etc/crm-mirror/long.key" <<<"$api_key"
since="$(place)"
inside systemctl start crm-mirror@long.service || fail "it does not start"
until_ 40 "the progress of a first copy in the journal" logged "$since" "details of contacts: "
inside systemctl stop crm-mirror@long.service
ok "the journal shows the progress of a first copy: $(inside journalctl --quiet --no-pager --output cat --after-cursor "$since" | grep -F "details of contacts: " | head -n 1)"

serve --contacts 10 --companies 1 --fault latency:1m
configure "$often" "" slow.toml
install -m 600 /dev/stdin "$tree/etc/crm-mirror/slow.key" <<<"$api_key"
inside systemctl start crm-mirror@slow.service || fail "it does not start with a slow service"
first_run() { [ "$(ask 'SELECT count(*) FROM sync_runs' /var/lib/crm-mirror/slow/mirror.db)" = 1 ]; }
until_ 20 "a run of the slow workspace" first_run
asked="$(date +%s%N)"
inside systemctl stop crm-mirror@slow.service
took=$((($(date +%s%N) - asked) / 1000000))
[ "$took" -lt 5000 ] || fail "SIGTERM took $took ms while it waited for an answer"
is ExecMainStatus 0 crm-mirror@slow.service || fail "it ended with $(property ExecMainStatus crm-mirror@slow.service)"
is Result success crm-mirror@slow.service || fail "it ended with $(property Result crm-mirror@slow.service)"
ok "SIGTERM while waiting for an answer that takes a minute: ended with 0 after $took ms"
base_url="$one"

names="$(ask "SELECT name FROM contacts WHERE name IS NOT NULL UNION SELECT email FROM contacts WHERE email IS NOT NULL")"
[ "$(wc -l <<<"$names")" -gt 100 ] || fail "there are no names to look for"
inside journalctl --no-pager --output json >"$work/journal"
for key in "$api_key" "$(sed -n 's/^api_key: //p' "$work/sandbox.0")"; do
    ! grep -qF -- "$key" "$work/journal" || fail "a key is in the journal"
done
# By a file: as an argument they would be too long.
found="$(grep -owFf <(cat <<<"$names") "$work/journal" || [ $? = 1 ])" || fail "the journal cannot be searched for names"
[ -z "$found" ] || fail "a name or an address is in the journal: $(head -n 3 <<<"$found")"
ok "neither a key nor a name nor an address is in the journal ($(wc -l <"$work/journal") lines)"
