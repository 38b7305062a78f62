# Expected and unexpected ends: SIGTERM and SIGKILL in the middle of a page, and a blocked loop.

# Starts a resync and waits until it is running.
begin_a_resync() {
    local runs
    runs="$(ask "SELECT count(*) FROM sync_runs WHERE kind = 'resync'")"
    inside crm-mirror resync >"$work/resync" 2>&1 &
    under_way() { [ "$(ask "SELECT count(*) FROM sync_runs WHERE kind = 'resync' AND finished_at IS NULL AND id > (SELECT max(id) - 1 FROM sync_runs)")" = 1 ]; }
    until_ 20 "a resync" under_way
    [ "$(ask "SELECT count(*) FROM sync_runs WHERE kind = 'resync'")" -gt "$runs" ] || fail "no resync began"
}

exact() {
    inside crm-mirror verify --full >"$work/verify" 2>&1 || fail "$1 the mirror is not exact: $(cat "$work/verify")"
}

begin_a_resync
asked="$(date +%s%N)"
inside systemctl stop crm-mirror.service
took=$((($(date +%s%N) - asked) / 1000000))
[ "$took" -lt 5000 ] || fail "SIGTERM took $took ms"
is ExecMainStatus 0 && is ExecMainCode 1 && is Result success || fail "SIGTERM: $(property Result), $(property ExecMainStatus)"
wait -n 2>/dev/null || true
[ ! -e "$tree/run/crm-mirror/control.sock" ] || fail "it left its socket"
[ "$(as reader sqlite3 -readonly "$mirror" 'SELECT count(*) FROM contacts_full')" = 3000 ] ||
    fail "after a stop a member of the group cannot read the mirror"
ok "SIGTERM in the middle of a page: ended with 0 after $took ms, and the mirror is still there to read"

inside systemctl start crm-mirror.service || fail "it does not start again"
begin_a_resync
process="$(main_process)"
asked=$SECONDS
inside systemctl kill --signal KILL crm-mirror.service
# The process first: the old one may end between the two calls.
back() {
    local now
    now="$(main_process)"
    [ "$now" != 0 ] && [ "$now" != "$process" ] && is ActiveState active
}
# The unit restarts after 30 s.
until_ 90 "the restart after SIGKILL" back
is NRestarts 1 || fail "after one SIGKILL it was restarted $(property NRestarts) times"
exact "after SIGKILL"
ok "SIGKILL in the middle of a page: back after $((SECONDS - asked)) s, and verify --full finds no difference"

mkdir -p "$tree/run/systemd/system/crm-mirror.service.d"
inside mkdir -p /run/systemd/system/crm-mirror.service.d
inside sh -c 'printf "[Service]\nWatchdogSec=2s\nRestartSec=1s\n" >/run/systemd/system/crm-mirror.service.d/soon.conf'
inside systemctl daemon-reload
inside systemctl restart crm-mirror.service
process="$(main_process)"
before="$(place)"
# Longer than the watchdog's timeout, which must not end a running loop.
until_ 20 "two runs" has 2 "$before" CRM_OUTCOME=done
sleep 3
[ "$(main_process)" = "$process" ] || fail "the watchdog ended a working daemon"
inside kill -STOP "$process"
until_ 30 "the restart by the watchdog" back
logged "$before" "Watchdog timeout" || fail "it was not the watchdog"
exact "after the watchdog"
inside rm /run/systemd/system/crm-mirror.service.d/soon.conf
inside systemctl daemon-reload
ok "the watchdog restarts a blocked daemon, and verify --full finds no difference"
