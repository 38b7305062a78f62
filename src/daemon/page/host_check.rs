//! Which requests the status page accepts.
//!
//! A loopback address can be reached by every user of the machine, and by every web page in a browser on it. Three
//! things keep web pages out: the Host must be a name of this machine or an address (else a foreign name that resolves
//! to it could read the answers), the browser must not mark the request as cross-site, and no request can change
//! anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, Uri, header};

/// The monitoring endpoints: only numbers, so any host name is accepted.
const MONITORING: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServedAt {
    pub at: SocketAddr,
    /// Whether other machines may connect: then any address counts as this machine's, and monitoring may use any name.
    pub beyond_loopback: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostRefusal {
    Host,
    /// The request comes from another site.
    Site,
}

pub(super) fn host_check(uri: &Uri, headers: &HeaderMap, served: ServedAt) -> Option<HostRefusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Some(HostRefusal::Host),
    };
    let addressed = uri.authority().is_none_or(|authority| is_ours(authority.as_str(), served));
    let is_monitoring = served.beyond_loopback && MONITORING.contains(&uri.path());
    if !is_monitoring && (!addressed || !is_ours(host, served)) {
        return Some(HostRefusal::Host);
    }
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match header(SITE) {
        None | Some("same-origin" | "none") => None,
        // A link on another site may open the page itself.
        Some(_) if uri.path() == "/" && header(MODE) == Some("navigate") => None,
        Some(_) => Some(HostRefusal::Site),
    }
}

/// Whether a Host is a name of this machine with the page's port.
fn is_ours(host: &str, ServedAt { at, beyond_loopback }: ServedAt) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
        // A browser omits the default port.
        _ => (host, Some(80)),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let ip: Option<IpAddr> = match bare {
        Some(name) => name.parse().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    let ours = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), at.ip()];
    port == Some(at.port())
        && (name.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| beyond_loopback || ours.contains(&ip)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> ServedAt {
        ServedAt { at: (Ipv4Addr::LOCALHOST, port).into(), beyond_loopback: false }
    }

    fn asked(uri: &str, headers: &[(HeaderName, &'static str)]) -> Option<HostRefusal> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        host_check(&uri.parse().unwrap(), &headers, at(8787))
    }

    #[test]
    fn only_names_of_this_machine_with_the_pages_port_are_accepted() {
        for host in ["127.0.0.1:8787", "localhost:8787", "LocalHost:8787", "[::1]:8787"] {
            assert!(is_ours(host, at(8787)), "{host}");
        }
        for host in [
            "evil.example:8787",
            "localhost.evil.example:8787",
            "127.0.0.1.evil.example:8787",
            "127.0.0.1",
            "localhost",
            "localhost:87870",
            "127.0.0.1:8788",
            "[::1]",
            "::1",
            "",
            ":8787",
            "0.0.0.0:8787",
            "[::ffff:127.0.0.1]:8787",
            "localhost:8787@evil.example",
        ] {
            assert!(!is_ours(host, at(8787)), "{host}");
        }
        for host in ["127.0.0.1", "localhost", "[::1]", "localhost:80"] {
            assert!(is_ours(host, at(80)), "{host}");
        }
    }

    #[test]
    fn exactly_one_host_is_required_and_the_request_line_counts() {
        let ours = (header::HOST, "localhost:8787");
        assert_eq!(asked("/", std::slice::from_ref(&ours)), None);
        assert_eq!(asked("/", &[]), Some(HostRefusal::Host));
        assert_eq!(asked("http://evil.example/", &[ours]), Some(HostRefusal::Host));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost:8787".parse().unwrap());
        twice.append(header::HOST, "evil.example".parse().unwrap());
        assert_eq!(host_check(&"/".parse().unwrap(), &twice, at(8787)), Some(HostRefusal::Host));
    }

    #[test]
    fn other_sites_may_link_to_the_page_and_nothing_else() {
        let ask = |path, site, mode| asked(path, &[(header::HOST, "localhost:8787"), (SITE, site), (MODE, mode)]);
        assert_eq!(ask("/status", "same-origin", "cors"), None);
        assert_eq!(ask("/status", "none", "navigate"), None);
        assert_eq!(ask("/", "cross-site", "navigate"), None);
        for (path, site, mode) in [
            ("/", "cross-site", "no-cors"),
            ("/status", "cross-site", "navigate"),
            ("/status", "same-site", "no-cors"),
            ("/events", "cross-site", "cors"),
        ] {
            assert_eq!(ask(path, site, mode), Some(HostRefusal::Site), "{path} {site} {mode}");
        }
    }

    #[test]
    fn beyond_loopback_addresses_are_accepted_and_names_serve_only_monitoring() {
        let served = ServedAt { at: "0.0.0.0:8787".parse().unwrap(), beyond_loopback: true };
        let ask = |path: &str, host: &'static str| {
            let headers = [(header::HOST, host.parse().unwrap())].into_iter().collect();
            host_check(&path.parse().unwrap(), &headers, served)
        };
        for host in ["10.1.2.3:8787", "[fd00::7]:8787", "localhost:8787"] {
            assert_eq!(ask("/status", host), None, "{host}");
        }
        assert_eq!(ask("/status", "crm-mirror:8787"), Some(HostRefusal::Host));
        assert_eq!(ask("/", "evil.example:8787"), Some(HostRefusal::Host));
        for path in ["/metrics", "/healthz", "/readyz"] {
            assert_eq!(ask(path, "crm-mirror.example:80"), None, "{path}");
        }
    }
}
