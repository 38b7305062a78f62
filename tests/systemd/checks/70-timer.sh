# Without the daemon: timers.

inside systemctl stop crm-mirror.service
runs() { ask "SELECT count(*) FROM sync_runs WHERE kind = '$1' AND outcome = 'done'"; }
configure "$often"
before="$(runs sync)"
since="$(place)"
inside systemctl enable --now crm-mirror-sync.timer crm-mirror-resync.timer 2>"$work/enabled" || fail "$(cat "$work/enabled")"
for timer in crm-mirror-sync.timer crm-mirror-resync.timer; do
    is ActiveState active "$timer" || fail "$timer is $(property ActiveState "$timer")"
    [ -n "$(property NextElapseUSecRealtime "$timer")" ] || fail "$timer is never due"
done
inside systemctl start crm-mirror-sync.service || fail "a run of the timer fails: $(inside systemctl status crm-mirror-sync.service)"
is Result success crm-mirror-sync.service || fail "the run ends with $(property Result crm-mirror-sync.service)"
[ "$(runs sync)" -gt "$before" ] || fail "no run was made"
[ "$(inside stat -c %U "$mirror")" = crmmirror ] || fail "the mirror belongs to $(inside stat -c %U "$mirror")"
of=crm-mirror-sync.service until_ 10 "the line of the run in the journal" has 1 "$since" CRM_KIND=sync CRM_OUTCOME=done CRM_TRIGGER=schedule
ok "without the daemon a timer starts crm-mirror sync as crmmirror, and the journal has its line"

inside systemctl start --no-block crm-mirror-resync.service
under_way() { inside test -d /run/crm-mirror-resync && [ "$(property SubState crm-mirror-resync.service)" = start ]; }
until_ 20 "a resync by its unit" under_way
inside systemctl start crm-mirror-sync.service || fail "a run during a resync fails"
is ConditionResult no crm-mirror-sync.service || fail "a run was started during a resync"
over() { is SubState dead crm-mirror-resync.service; }
until_ 60 "the end of the resync" over
is Result success crm-mirror-resync.service || fail "the resync ends with $(property Result crm-mirror-resync.service)"
inside systemctl start crm-mirror-sync.service || fail "after the resync no run is started"
is ConditionResult yes crm-mirror-sync.service || fail "after the resync the run is still passed over"
inside systemctl disable --now crm-mirror-sync.timer crm-mirror-resync.timer 2>/dev/null
inside systemctl start crm-mirror.service
ok "a run that is due during a resync is passed over, and the next one is not"

inside systemctl start crm-mirror-backup.service || fail "the backup fails: $(inside systemctl status crm-mirror-backup.service)"
copies() { inside find /var/lib/crm-mirror/backup -name 'mirror-*Z.db' -user crmmirror -perm 640; }
[ "$(copies | wc -l)" = 1 ] || fail "the copies are: $(inside ls -l /var/lib/crm-mirror/backup)"
ok "crm-mirror-backup.service makes a copy beside the running daemon, as crmmirror"

# As in docs/operations.md: another workspace. A mirror that is not there is not passed over.
inside systemctl stop crm-mirror.service
inside sh -c 'mkdir /var/lib/crm-mirror/aside && mv /var/lib/crm-mirror/mirror.db* /var/lib/crm-mirror/aside/'
inside systemctl start crm-mirror-backup.service 2>/dev/null && fail "the backup of no mirror succeeds"
is Result exit-code crm-mirror-backup.service || fail "without a mirror the backup ends with $(property Result crm-mirror-backup.service)"
inside mkdir -p /etc/systemd/system/crm-mirror-backup.service.d
cat >"$tree/etc/systemd/system/crm-mirror-backup.service.d/acme.conf" <<'UNIT'
[Service]
StateDirectory=crm-mirror/backup/acme
ExecStart=
ExecStart=/usr/bin/crm-mirror -c /etc/crm-mirror/acme.toml backup --keep 7 /var/lib/crm-mirror/backup/acme
UNIT
inside systemctl daemon-reload
inside systemctl start crm-mirror-backup.service || fail "the backup of another workspace fails: $(inside systemctl status crm-mirror-backup.service)"
[ "$(copies | wc -l)" = 2 ] || fail "there is no copy of the other workspace: $(inside ls -lR /var/lib/crm-mirror/backup)"
inside rm -r /etc/systemd/system/crm-mirror-backup.service.d
inside systemctl daemon-reload
inside sh -c 'mv /var/lib/crm-mirror/aside/* /var/lib/crm-mirror/ && rmdir /var/lib/crm-mirror/aside'
inside systemctl start crm-mirror.service
ok "the backup fails where there is no mirror, and copies that of another workspace where it is told to"
