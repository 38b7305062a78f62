# Upgrades without a person, a newer mirror that is refused, and the way back.

# An older package: it has another default, and it shipped the configuration file, which the administrator edited.
older="$work/older"
dpkg-deb --raw-extract "$deb" "$older"
sed -i 's/^Version: .*/Version: 0.0.9-1/' "$older/DEBIAN/control"
LC_ALL=C sed -i 's/^limit = 10000$/limit = 20000/' "$older/usr/bin/crm-mirror"
mkdir -p "$older/etc/crm-mirror"
sed 's/^# .*/# Another text./' "$older/usr/share/crm-mirror/config.toml" >"$older/etc/crm-mirror/config.toml"
echo /etc/crm-mirror/config.toml >"$older/DEBIAN/conffiles"
dpkg-deb -Znone --build --root-owner-group "$older" "$tree/older.deb" >/dev/null
rm -r "$older"
configure "$often"
inside dpkg --force-confold --install /older.deb >"$work/older.log" 2>&1 || fail "the older package: $(cat "$work/older.log")"
# What dpkg put beside the edited file.
rm -f "$tree"/etc/crm-mirror/*.dpkg-*
limit() { inside crm-mirror status --json | tr -d ' \n' | sed -n 's/.*"ru":{[^}]*"limit":\([0-9]*\).*/\1/p'; }
[ "$(limit)" = 20000 ] || fail "the older program has the limit $(limit)"
until_ 30 "a run of the older program" is ActiveState active

edited="$(cat "$tree/etc/crm-mirror/config.toml")"
since="$(place)"
inside DEBIAN_FRONTEND=noninteractive dpkg --install /crm-mirror.deb </dev/null >"$work/upgraded" 2>&1 ||
    fail "an unattended upgrade stops: $(cat "$work/upgraded")"
! grep -qi 'conffile\|configuration file' "$work/upgraded" || fail "the upgrade asks: $(cat "$work/upgraded")"
[ "$(cat "$tree/etc/crm-mirror/config.toml")" = "$edited" ] || fail "the upgrade changed the configuration"
[ -z "$(find "$tree/etc/crm-mirror" -name '*dpkg*')" ] || fail "the upgrade left $(find "$tree/etc/crm-mirror" -name '*dpkg*')"
is ActiveState active || fail "after the upgrade it is $(property ActiveState)"
[ "$(limit)" = 10000 ] || fail "the new default is not in force: the limit is $(limit)"
until_ 30 "a run after the upgrade" has 1 "$since" CRM_OUTCOME=done
ok "an unattended upgrade with an edited configuration asks nothing, runs, and its new defaults are in force"

inside crm-mirror backup /var/lib/crm-mirror/before.db >"$work/backup" 2>&1 || fail "crm-mirror backup: $(cat "$work/backup")"
inside systemctl stop crm-mirror.service
schema="$(ask 'PRAGMA user_version')"
# As a newer program leaves it.
inside sqlite3 "$mirror" 'PRAGMA user_version = 9999' || fail "the schema cannot be set"
sum="$(inside sha256sum "$mirror")"
since="$(place)"
inside systemctl start crm-mirror.service 2>/dev/null && fail "it starts with a mirror of a newer program"
is ExecMainStatus 74 || fail "with a mirror of a newer program it ends with $(property ExecMainStatus)"
# Not `activating`: no restart is scheduled.
is ActiveState failed || fail "with a mirror of a newer program it is $(property ActiveState)"
logged "$since" "newer" || fail "it does not say that the mirror is newer"
code=0
inside crm-mirror status >"$work/status" 2>&1 || code=$?
[ "$code" = 74 ] || fail "status ends with $code: $(cat "$work/status")"
grep -q 'hint: install the newer crm-mirror' "$work/status" || fail "$(cat "$work/status")"
inside systemctl stop crm-mirror.service
[ "$(inside sha256sum "$mirror")" = "$sum" ] || fail "the mirror of a newer program was changed"
ok "a mirror of a newer program is refused with 74, left alone, and systemd does not restart the daemon"

# The way back, as docs/operations.md has it.
inside sh -c 'cd /var/lib/crm-mirror && mkdir aside && mv mirror.db* aside/ && install -o crmmirror -g crmmirror -m 640 before.db mirror.db'
[ "$(ask 'PRAGMA user_version')" = "$schema" ] || fail "the backup has another schema"
since="$(place)"
inside systemctl start crm-mirror.service || fail "it does not start with the backup"
until_ 30 "a run on the backup" has 1 "$since" CRM_OUTCOME=done
inside crm-mirror verify --full >"$work/verify" 2>&1 || fail "after the way back the mirror is not exact: $(cat "$work/verify")"
inside rm -r /var/lib/crm-mirror/aside /var/lib/crm-mirror/before.db
ok "the way back: a backup takes the place of the mirror, and verify --full finds no difference"
