# Removing the package keeps what people would miss; a purge takes everything but the user.

inside dpkg --remove crm-mirror >"$work/removed" 2>&1 || fail "$(cat "$work/removed")"
[ ! -e "$tree/usr/bin/crm-mirror" ] || fail "the program is still there"
inside pgrep -x crm-mirror >/dev/null && fail "the daemon still runs"
[ ! -e "$tree/run/crm-mirror" ] || fail "the runtime folder is still there"
for kept in /var/lib/crm-mirror/mirror.db /etc/crm-mirror/config.toml /etc/crm-mirror/api-key; do
    inside test -s "$kept" || fail "removing took $kept away"
done
ok "removing stops the daemon and keeps mirror, configuration and key"

inside dpkg --purge crm-mirror >"$work/purged" 2>&1 || fail "$(cat "$work/purged")"
for gone in /var/lib/crm-mirror /etc/crm-mirror /etc/systemd/system/multi-user.target.wants/crm-mirror.service; do
    if inside test -e "$gone" || inside test -L "$gone"; then fail "a purge left $gone"; fi
done
[ -z "$(inside find /etc/systemd /var/lib/systemd -name '*crm-mirror*')" ] || fail "a purge left traces with systemd"
ok "a purge takes mirror, configuration and key away"
