# Monitoring from another address: a probe and a scrape through a network namespace of their own.

if ! command -v ip >/dev/null || ! ip netns add "crm-$$" 2>/dev/null; then
    echo "SKIPPED: there is no other network namespace to look from"
else
    ip link add "crm$$" type veth peer name eth0 netns "crm-$$"
    ip addr add 10.213.77.1/24 dev "crm$$"
    ip link set "crm$$" up
    ip -n "crm-$$" addr add 10.213.77.2/24 dev eth0
    ip -n "crm-$$" link set eth0 up
    from_there() {
        ip netns exec "crm-$$" python3 -I -c '
import sys, urllib.request, urllib.error
try:
    answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1], method=sys.argv[2]), timeout=10)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode())' "http://10.213.77.1:18787$1" "${2:-GET}"
    }
    configure "$often"
    printf 'http = "10.213.77.1:18787"\nhttp_allow = ["10.213.77.0/24"]\n' >>"$tree/etc/crm-mirror/config.toml"
    inside systemctl restart crm-mirror.service
    ready() { [ "$(from_there /readyz | head -n 1)" = 200 ]; }
    until_ 60 "an answer of /readyz from another address" ready
    [ "$(from_there /healthz | head -n 1)" = 200 ] || fail "/healthz says $(from_there /healthz)"
    from_there /metrics >"$work/metrics"
    grep -q '^crm_mirror_rows{object="contacts",workspace="config",config="/etc/crm-mirror/config.toml"} 3000$' "$work/metrics" || fail "the scrape: $(head -n 20 "$work/metrics")"
    [ "$(from_there /status POST | head -n 1)" = 405 ] || fail "a POST from another address is answered"
    if command -v promtool >/dev/null; then
        tail -n +2 "$work/metrics" | promtool check metrics >"$work/promtool" 2>&1 || fail "promtool: $(cat "$work/promtool")"
    fi
    printf 'http_allow = ["10.99.0.0/16"]\n' >"$work/allow"
    sed -i 's|^http_allow = .*|http_allow = ["10.99.0.0/16"]|' "$tree/etc/crm-mirror/config.toml"
    inside systemctl restart crm-mirror.service
    refused() { [ "$(from_there /healthz 2>/dev/null | head -n 1)" != 200 ]; }
    until_ 20 "the end of what was allowed" refused
    configure "$often"
    inside systemctl restart crm-mirror.service
    ip netns del "crm-$$"
    ok "a probe and a scrape from another address are answered where they are allowed, and nowhere else"
fi
