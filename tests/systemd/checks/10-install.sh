# Installing creates the user and the key's file, and starts nothing.

cp "$deb" "$tree/crm-mirror.deb"
inside dpkg --install /crm-mirror.deb >"$work/installed" 2>&1 || {
    cat "$work/installed" >&2
    fail "the package cannot be installed"
}
[ "$(inside id -nG crmmirror)" = crmmirror ] || fail "there is no user crmmirror with a group of its own"
[ "$(inside stat -c '%U:%G %a %s' /etc/crm-mirror/api-key)" = "root:root 600 0" ] || fail "the key's file is not owned by root"
[ "$(inside systemctl is-enabled crm-mirror.service || true)" = disabled ] || fail "it is enabled without a key"
[ "$(inside systemctl is-active crm-mirror.service || true)" = inactive ] || fail "it runs without a key"
ok "the package is installed: a user, an empty file for the key, nothing started"

inside systemd-analyze verify --man=no crm-mirror.service >"$work/verified" 2>&1 || fail "$(cat "$work/verified")"
! grep -F crm-mirror "$work/verified" || fail "systemd-analyze reports the unit"
ok "systemd-analyze accepts the installed unit"
