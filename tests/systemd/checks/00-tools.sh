# Helpers of the checks.

mirror=/var/lib/crm-mirror/mirror.db

# Queries the mirror as the daemon's user.
ask() { inside sqlite3 -readonly "${2:-$mirror}" "$1"; }

# A property of a unit.
property() { inside systemctl show --value --property "$1" "${2:-crm-mirror.service}"; }

is() { [ "$(property "$1" "${3:-crm-mirror.service}")" = "$2" ]; }

main_process() { property MainPID "$@"; }

# The journal of the daemon, or of the unit `$of`, after a cursor, as documents: `journal CURSOR [FIELD=VALUE…]`. Filtered here,
# because journalctl of systemd 252 skips the first match after a cursor.
journal() {
    local after="$1" documents match
    shift
    documents="$(inside journalctl --quiet --no-pager --output json --after-cursor "$after")"
    for match in "_SYSTEMD_UNIT=${of:-crm-mirror.service}" "$@"; do
        documents="$(grep -F -- "\"${match%%=*}\":\"${match#*=}\"" <<<"$documents" || true)"
    done
    [ -z "$documents" ] || echo "$documents"
}

# The current cursor of the journal.
place() { inside journalctl --quiet --lines 1 --show-cursor | sed -n 's/^-- cursor: //p'; }

# Whether the journal has at least so many documents: `has 2 CURSOR FIELD=VALUE…`.
has() {
    local least="$1"
    shift
    [ "$(journal "$@" | wc -l)" -ge "$least" ]
}

# Whether the journal has a message with a text: `logged CURSOR TEXT`.
logged() { inside journalctl --quiet --no-pager --output cat --after-cursor "$1" | grep -qF -- "$2"; }

# Writes the configuration: `configure SCHEDULE [KEY_FILE [FILE]]`. Only the given schedule, so that runs can be counted,
# and no details, which take long. It names no path: every verb finds those of the unit.
configure() {
    local key_file=
    [ -z "${2:-}" ] || key_file="key_file = \"$2\""
    cat >"$tree/etc/crm-mirror/${3:-config.toml}" <<TOML
[api]
base_url = "$base_url"
$key_file
[sync]
schedule = "$1"
audit_schedule = "off"
sweep_schedule = "off"
details = "off"
[daemon]
TOML
}

often="*/2 * * * * *"
never="off"
