# Users: members of the group can read, root can request runs, others have no access.

inside useradd --groups crmmirror reader
inside useradd stranger
as() { inside setpriv --reuid "$1" --regid "$1" --init-groups "${@:2}"; }

[ "$(as reader sqlite3 -readonly "$mirror" 'SELECT count(*) FROM contacts_full')" = 3000 ] ||
    fail "a member of the group cannot read the mirror"
as reader crm-mirror status >"$work/status" 2>&1 || fail "a member of the group gets no status: $(cat "$work/status")"
as reader touch /var/lib/crm-mirror/trace 2>/dev/null && fail "a member of the group may write beside the mirror"
as stranger sqlite3 -readonly "$mirror" 'SELECT count(*) FROM contacts_full' >/dev/null 2>&1 && fail "a stranger reads the mirror"
for file in /etc/crm-mirror/api-key /run/credentials/crm-mirror.service/api-key; do
    as reader cat "$file" >/dev/null 2>&1 && fail "a member of the group reads the key in $file"
done
ok "a member of the group reads the mirror and its status while it is written; a stranger reads nothing"

before="$(place)"
inside crm-mirror resync contacts >"$work/resync" 2>&1 || fail "crm-mirror resync: $(cat "$work/resync")"
grep -q '^resync finished in ' "$work/resync" || fail "$(cat "$work/resync")"
has 1 "$before" CRM_KIND=resync CRM_TRIGGER=manual "_PID=$(main_process)" || fail "the daemon did not run the resync"
ok "crm-mirror resync is run by the daemon: $(head -n 1 <<<"$(grep '^resync finished' "$work/resync")")"
