# Without an address or a key the daemon exits with 78 and is not restarted; with both it becomes ready and follows its
# schedule.

serve --contacts 3000 --companies 200 --fault latency:100ms

# Root can read every file, and the service cannot: a check says so before the first start.
cp "$tree/etc/crm-mirror/config.toml" "$work/packaged.toml"
configure "$often" /etc/crm-mirror/own.key
printf '[publish]\nurl_file = "/etc/crm-mirror/publish-url"\n' >>"$tree/etc/crm-mirror/config.toml"
for name in own.key publish-url; do
    install -m 600 /dev/stdin "$tree/etc/crm-mirror/$name" <<<"postgres://crm@127.0.0.1:1/none"
done
chmod 600 "$tree/etc/crm-mirror/config.toml"
inside crm-mirror check --offline >"$work/check" 2>&1 && fail "a configuration that only root can read passes the check"
grep -q 'FAIL .*config.toml.*ermission denied' "$work/check" || fail "crm-mirror check: $(cat "$work/check")"
chmod 644 "$tree/etc/crm-mirror/config.toml"
for name in own.key publish-url; do
    inside crm-mirror check --offline >"$work/check" 2>&1 && fail "a $name that only root can read passes the check"
    grep -q "FAIL  .*/etc/crm-mirror/$name.*ermission denied" "$work/check" || fail "crm-mirror check: $(cat "$work/check")"
    inside install -o root -g crmmirror -m 640 "/etc/crm-mirror/$name" /etc/crm-mirror/given
    inside mv /etc/crm-mirror/given "/etc/crm-mirror/$name"
done
inside crm-mirror check --offline >"$work/check" 2>&1 || fail "files of the group fail the check: $(cat "$work/check")"
[ ! -e "$tree/var/lib/crm-mirror" ] || fail "crm-mirror check made the folder of the mirror"
rm "$tree/etc/crm-mirror/own.key" "$tree/etc/crm-mirror/publish-url"
cp "$work/packaged.toml" "$tree/etc/crm-mirror/config.toml"
ok "crm-mirror check by root names each file that the service cannot read"

ends_with_78() {
    local since errors
    since="$(place)"
    inside systemctl start crm-mirror.service 2>/dev/null && fail "it starts $1"
    is ExecMainStatus 78 || fail "$1 it ends with $(property ExecMainStatus), not with 78"
    # A pending restart would be `activating (auto-restart)`.
    is SubState failed || fail "$1 it is $(property SubState), not failed"
    logged "$since" "$2" || fail "$1 it does not log: $2"
    errors="$(journal "$since" PRIORITY=3 | wc -l)"
    [ "$errors" -ge 1 ] || fail "$1 it logs no error"
    inside systemctl reset-failed crm-mirror.service
}
ends_with_78 "without an address" 'api.base_url'
configure "$often"
ends_with_78 "without a key" 'api-key'
mv "$tree/etc/crm-mirror/api-key" "$work/"
ends_with_78 "without the key's file" 'api-key'
mv "$work/api-key" "$tree/etc/crm-mirror/"
[ ! -e "$tree/var/lib/crm-mirror/mirror.db" ] || fail "it made a mirror without a key"
ok "without an address or a key it exits with 78, names what is missing, and is not restarted"

echo "$api_key" >"$tree/etc/crm-mirror/api-key"
inside crm-mirror check >"$work/check" 2>&1 || fail "crm-mirror check: $(cat "$work/check")"
grep -q 'ok    service.contacts  *readable' "$work/check" || fail "crm-mirror check sent no request: $(cat "$work/check")"
grep -q 'ok    key.source  *from /etc/crm-mirror/api-key, which crm-mirror.service loads' "$work/check" ||
    fail "crm-mirror check by root did not find the unit's key: $(cat "$work/check")"
! grep -q FAIL "$work/check" || fail "crm-mirror check fails: $(cat "$work/check")"
[ -z "$(find "$tree/var/lib/crm-mirror" -type f 2>/dev/null)" ] || fail "crm-mirror check left files owned by root"
ok "crm-mirror check by root: $(grep '^verdict: ' "$work/check")"

start="$(place)"
inside systemctl enable --now crm-mirror.service 2>"$work/enabled" || fail "$(cat "$work/enabled")"
is ActiveState active || fail "it is not active"
[ -n "$(property StatusText)" ] || fail "systemctl status has no status text"
ok "it is ready; systemctl status shows: $(property StatusText)"

until_ 60 "the first copy" has 1 "$start" CRM_OUTCOME=done
[ "$(ask 'SELECT count(*) FROM contacts')" = 3000 ] || fail "$(ask 'SELECT count(*) FROM contacts') contacts, not 3000"
until_ 20 "two more runs by the schedule" has 3 "$start" CRM_OUTCOME=done CRM_TRIGGER=schedule
ok "it copied 3,000 contacts, and runs every two seconds"

line="$(journal "$start" CRM_OUTCOME=done | tail -n 1)"
for field in CRM_RUN CRM_KIND CRM_TRIGGER CRM_RU; do
    grep -q "\"$field\":\"[a-z0-9]" <<<"$line" || fail "the line of a run has no $field: $line"
done
grep -q '"PRIORITY":"6"' <<<"$line" || fail "the line of a run has another priority: $line"
grep -q '"SYSLOG_IDENTIFIER":"crm-mirror"' <<<"$line" || fail "the line of a run is not crm-mirror's: $line"
grep -qE '"MESSAGE":"sync, run [0-9]+ \(schedule\): done after .* RU spent, [0-9]+ left"' <<<"$line" ||
    fail "the message of a run lacks its numbers: $line"
numbers="$(journal "$start" CRM_KIND=sync | sed -n 's/.*"CRM_RUN":"\([0-9]*\)".*/\1/p')"
[ "$numbers" = "$(seq "$(wc -l <<<"$numbers")")" ] || fail "the runs do not have one line each, in order: $numbers"
ok "each run is one line in the journal, with its numbers in the message"

status="$(inside cat "/proc/$(main_process)/status")"
for expected in $'NoNewPrivs:\t1' $'Seccomp:\t2' $'CapEff:\t0000000000000000' $'CapBnd:\t0000000000000000'; do
    grep -qF -- "$expected" <<<"$status" || fail "the process is not confined as its unit requires: no $expected"
done
for file in mirror.db mirror.db-wal mirror.db-shm; do
    mode="$(inside stat -c '%U:%G %a' "/var/lib/crm-mirror/$file")"
    [ "$mode" = "crmmirror:crmmirror 640" ] || fail "$file is $mode"
done
[ "$(inside stat -c '%U:%G %a' /var/lib/crm-mirror)" = "crmmirror:crmmirror 750" ] || fail "the folder of the mirror is open"
[ "$(inside stat -c '%U %a' /run/crm-mirror/control.sock)" = "crmmirror 600" ] || fail "the control socket is open"
ok "the process is confined, and its files belong to it and its group"
