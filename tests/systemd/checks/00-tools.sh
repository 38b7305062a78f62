# What the checks ask the container with.

mirror=/var/lib/crm-mirror/mirror.db

# Asks the mirror as its daemon's user may.
ask() { inside sqlite3 -readonly "${2:-$mirror}" "$1"; }

# A property of a unit.
property() { inside systemctl show --value --property "$1" "${2:-crm-mirror.service}"; }

is() { [ "$(property "$1" "${3:-crm-mirror.service}")" = "$2" ]; }

main_process() { property MainPID "$@"; }

# The journal of the daemon from a place in it on, as documents: `journal CURSOR [FIELD=VALUE…]`. Chosen from here:
# journalctl of systemd 252 skips the first of those that it is asked to choose after a cursor.
journal() {
    local after="$1" documents match
    shift
    documents="$(inside journalctl --quiet --no-pager --output json --after-cursor "$after")"
    for match in _SYSTEMD_UNIT=crm-mirror.service "$@"; do
        documents="$(grep -F -- "\"${match%%=*}\":\"${match#*=}\"" <<<"$documents" || true)"
    done
    [ -z "$documents" ] || echo "$documents"
}

# The place in the journal now.
place() { inside journalctl --quiet --lines 1 --show-cursor | sed -n 's/^-- cursor: //p'; }

# Whether the journal has so many documents, or more: `has 2 CURSOR FIELD=VALUE…`.
has() {
    local least="$1"
    shift
    [ "$(journal "$@" | wc -l)" -ge "$least" ]
}

# Whether the journal has a message with a text: `says CURSOR TEXT`.
says() { inside journalctl --quiet --no-pager --output cat --after-cursor "$1" | grep -qF -- "$2"; }

# Writes the configuration: `configure SCHEDULE [KEY_FILE [FILE [FOLDER]]]`. Other runs than those of the schedule would
# disturb what is counted; details would take their time.
configure() {
    local folder="${4:-crm-mirror}" key_file=
    [ -z "${2:-}" ] || key_file="key_file = \"$2\""
    cat >"$tree/etc/crm-mirror/${3:-config.toml}" <<TOML
[api]
base_url = "$base_url"
$key_file
[database]
path = "/var/lib/$folder/mirror.db"
[sync]
schedule = "$1"
audit_schedule = "off"
sweep_schedule = "off"
details = "off"
jitter = "0s"
[daemon]
socket = "/run/$folder/control.sock"
TOML
}

often="*/2 * * * * *"
never="off"
