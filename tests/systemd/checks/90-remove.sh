# Removing the package keeps the user's data; a purge removes everything except the user, mirrors with unsent edits, and backups.

# An edit that nobody sends: the daemon, which lets the mirror take it, is stopped before it could.
inside systemctl stop crm-mirror.service
printf '\n[write_back]\nenabled = true\n' >>"$tree/etc/crm-mirror/config.toml"
inside systemctl start crm-mirror.service || fail "it does not start with edits"
inside systemctl stop crm-mirror.service
cat >"$tree/edit.sql" <<'SQL'
UPDATE contacts_full SET position = 'never sent' WHERE id = (SELECT min(id) FROM contacts);
SQL
chmod 644 "$tree/edit.sql"
inside runuser -u crmmirror -- sqlite3 "$mirror" ".read /edit.sql" >"$work/edited" 2>&1 || fail "$(cat "$work/edited")"
[ "$(ask "SELECT count(*) FROM outbox WHERE state = 'queued'")" = 1 ] || fail "no edit waits: $(cat "$work/edited")"

# Wherever the mirror is.
elsewhere=/var/lib/crm-mirror/de/ep.db
inside runuser -u crmmirror -- sh -c 'mkdir /var/lib/crm-mirror/de && cd /var/lib/crm-mirror && cp mirror.db de/ep.db'

inside dpkg --remove crm-mirror >"$work/removed" 2>&1 || fail "$(cat "$work/removed")"
[ ! -e "$tree/usr/bin/crm-mirror" ] || fail "the program is still there"
inside pgrep -x crm-mirror >/dev/null && fail "the daemon still runs"
[ ! -e "$tree/run/crm-mirror" ] || fail "the runtime folder is still there"
for kept in /var/lib/crm-mirror/mirror.db /etc/crm-mirror/config.toml /etc/crm-mirror/api-key; do
    inside test -s "$kept" || fail "removing took $kept away"
done
ok "removing stops the daemon and keeps mirror, configuration and key"

inside dpkg --purge crm-mirror >"$work/purged" 2>&1 || fail "$(cat "$work/purged")"
for named in "$mirror" "$elsewhere"; do
    grep -qF "$named" "$work/purged" || fail "a purge does not name $named, which has an unsent edit: $(cat "$work/purged")"
done
[ "$(ask "SELECT count(*) FROM outbox WHERE state = 'queued'")" = 1 ] || fail "a purge took an unsent edit away"
[ ! -e "$tree/etc/crm-mirror" ] || fail "a purge left /etc/crm-mirror"
ok "a purge keeps a mirror with an edit that was never sent, and says so"

# Once the edit is gone, nothing keeps it.
inside dpkg --install /crm-mirror.deb >"$work/installed" 2>&1 || fail "$(cat "$work/installed")"
inside runuser -u crmmirror -- env CRM_MIRROR_DATABASE__PATH="$mirror" crm-mirror outbox drop --all --yes \
    >"$work/dropped" 2>&1 || fail "$(cat "$work/dropped")"
inside rm -r /var/lib/crm-mirror/de
inside dpkg --purge crm-mirror >"$work/purged" 2>&1 || fail "$(cat "$work/purged")"
[ "$(copies | wc -l)" = 2 ] || fail "a purge took backups away"
grep -qF /var/lib/crm-mirror/backup "$work/purged" || fail "a purge does not name the backups: $(cat "$work/purged")"
[ "$(inside ls -A /var/lib/crm-mirror)" = backup ] || fail "a purge left $(inside ls -A /var/lib/crm-mirror)"
for gone in /etc/crm-mirror /etc/systemd/system/multi-user.target.wants/crm-mirror.service; do
    if inside test -e "$gone" || inside test -L "$gone"; then fail "a purge left $gone"; fi
done
[ -z "$(inside find /etc/systemd /var/lib/systemd -name '*crm-mirror*')" ] || fail "a purge left traces with systemd"
ok "a purge removes mirror, configuration and key, and keeps and names backups"
