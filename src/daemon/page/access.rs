//! Who may connect to the status page, and what it may ask.
//!
//! There is a bounded number of connections, from the allowed networks. A newcomer always gets a place, so that a probe is
//! answered however many connections others keep open, and whatever they send or do not send: where there is none, an older
//! connection is closed. An address that has its share of the places gives up its own oldest one.
//!
//! A loopback address can be reached by every user of the machine, and by every web page in a browser on it. Three
//! things keep web pages out: the Host must be a name of this machine or an address (else a foreign name that resolves
//! to it could read the answers), the browser must not mark a request cross-site, and no request can change anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use tokio::task::AbortHandle;

use crate::config::Network;

/// The maximum number of connections: a page needs two or three. More would use up file descriptors of the daemon.
const MAX_CONNECTIONS: usize = 64;

/// The maximum number of connections of an address. All of this machine count as one.
const SHARE: usize = 16;

/// How long a connection may live, and after that only to answer. A browser and a probe open another one.
pub(super) const LIFE: Duration = Duration::from_secs(600);

pub(super) fn is_allowed(from: IpAddr, allowed: &[Network]) -> bool {
    let from = from.to_canonical();
    from.is_loopback() || allowed.iter().any(|network| network.contains(from))
}

#[derive(Debug, Default)]
pub(super) struct Places(Vec<(IpAddr, AbortHandle)>);

impl Places {
    /// Gives a new connection a place, if need be that of another one.
    pub(super) fn take(&mut self, from: IpAddr, connection: AbortHandle) {
        let from = Some(from.to_canonical()).filter(|from| !from.is_loopback()).unwrap_or(Ipv4Addr::LOCALHOST.into());
        self.0.retain(|(_, known)| !known.is_finished());
        let count = |address: IpAddr| self.0.iter().filter(|(known, _)| *known == address).count();
        let loser = if count(from) >= SHARE {
            Some(from)
        } else if self.0.len() >= MAX_CONNECTIONS {
            self.0.iter().map(|(address, _)| *address).max_by_key(|address| count(*address))
        } else {
            None
        };
        if let Some(oldest) = self.0.iter().position(|(address, _)| Some(*address) == loser) {
            self.0.remove(oldest).1.abort();
        }
        self.0.push((from, connection));
    }
}

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

const OTHER_HOST: &str = "host name not allowed";
const OTHER_SITE: &str = "cross-site requests are not allowed";

pub(super) fn host_check(uri: &Uri, headers: &HeaderMap, served: ServedAt) -> Result<(), &'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(OTHER_HOST),
    };
    let addressed = uri.authority().is_none_or(|authority| is_ours(authority.as_str(), served));
    let is_monitoring = served.beyond_loopback && MONITORING.contains(&uri.path());
    if !is_monitoring && (!addressed || !is_ours(host, served)) {
        return Err(OTHER_HOST);
    }
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match header(SITE) {
        None | Some("same-origin" | "none") => Ok(()),
        // A link on another site may open the page itself.
        Some(_) if uri.path() == "/" && header(MODE) == Some("navigate") => Ok(()),
        Some(_) => Err(OTHER_SITE),
    }
}

/// Whether a Host is a name of this machine with the page's port.
fn is_ours(host: &str, ServedAt { at, beyond_loopback }: ServedAt) -> bool {
    let Ok(host) = host.parse::<Authority>() else { return false };
    let name = host.host();
    let ip: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let ours = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), at.ip()];
    // A browser omits the default port.
    let port = host.port().map_or(Some(80), |port| port.as_str().parse().ok());
    port == Some(at.port())
        && (name.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| beyond_loopback || ours.contains(&ip)))
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::daemon::http_server;

    fn serve(listener: TcpListener, router: Router, ends: watch::Receiver<bool>, idle: Duration) -> JoinHandle<()> {
        let mut places = Places::default();
        let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
        http_server::spawn(listener, router, ends, (idle, LIFE), |from| is_allowed(from.ip(), &[]), begun)
    }

    /// What a server of the page answers to these bytes.
    async fn exchange(at: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A connection that the server resets has answered all that it will.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn idle_connections_keep_nobody_out_and_no_other_protocol_is_spoken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "page" }));
        let (end, ends) = watch::channel(false);
        let idle = Duration::from_millis(100);
        let serving = serve(listener, router, ends, idle);
        let mut idle_connections = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle_connections.push(TcpStream::connect(at).await.unwrap());
        }
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = exchange(at, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("page"), "{answer}");
        let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
        let answer = exchange(at, upgrade.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer = exchange(at, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer:?}");
        drop(idle_connections);
        end.send_replace(true);
        http_server::finish(serving).await;
    }

    /// A request on a connection that stays open, and the head of its answer.
    async fn ask(stream: &mut TcpStream) -> io::Result<String> {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let mut answer = [0; 4_096];
        match stream.read(&mut answer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => Ok(String::from_utf8_lossy(&answer[..length]).into_owned()),
        }
    }

    #[tokio::test]
    async fn connections_that_ask_slowly_or_politely_keep_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "page" }));
        let (end, ends) = watch::channel(false);
        let serving = serve(listener, router, ends, http_server::IDLE);
        let mut polite = Vec::new();
        for _ in 0..3 {
            for _ in 0..MAX_CONNECTIONS {
                let mut stream = TcpStream::connect(at).await.unwrap();
                ask(&mut stream).await.unwrap();
                polite.push(stream);
            }
            let mut served = 0;
            for stream in &mut polite {
                // Those that lost their places notice it here.
                served += usize::from(ask(stream).await.is_ok());
                // A request that does not end.
                let _ = stream.write_all(b"GET / HT").await;
            }
            let probe = exchange(at, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
            assert!(probe.ends_with("page"), "{probe}");
            assert!(served <= SHARE, "{served}");
        }
        end.send_replace(true);
        http_server::finish(serving).await;
    }

    #[tokio::test]
    async fn address_with_its_share_gives_up_its_own_place_and_a_full_house_that_of_the_greediest() {
        let mut places = Places::default();
        let address = |n: usize| IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()]);
        let connection = || tokio::spawn(std::future::pending::<()>()).abort_handle();
        for n in 0..MAX_CONNECTIONS {
            places.take(address(n / SHARE), connection());
        }
        let count = |places: &Places, n| places.0.iter().filter(|(known, _)| *known == address(n)).count();
        let oldest = places.0[0].1.clone();
        places.take(address(0), connection());
        tokio::task::yield_now().await;
        assert!(oldest.is_finished(), "the oldest of the same address");
        places.take(address(9), connection());
        assert_eq!((count(&places, 9), places.0.len()), (1, MAX_CONNECTIONS));
        // One that has ended has no place.
        places.0[0].1.abort();
        tokio::task::yield_now().await;
        places.take(address(9), connection());
        assert_eq!((count(&places, 9), places.0.len()), (2, MAX_CONNECTIONS));
    }

    #[test]
    fn this_machine_and_the_named_networks_are_allowed() {
        let allowed: Vec<Network> = ["10.0.0.0/8", "fd00::/8"].map(|text| text.parse().unwrap()).to_vec();
        for (from, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.200.3.4", true),
            ("::ffff:10.200.3.4", true),
            ("fd12::1", true),
            ("11.0.0.1", false),
            ("192.168.1.1", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_allowed(from.parse().unwrap(), &allowed), may, "{from}");
        }
        assert!(!is_allowed("10.200.3.4".parse().unwrap(), &[]));
    }

    fn at(port: u16) -> ServedAt {
        ServedAt { at: (Ipv4Addr::LOCALHOST, port).into(), beyond_loopback: false }
    }

    fn asked(uri: &str, headers: &[(HeaderName, &'static str)]) -> Result<(), &'static str> {
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
        assert_eq!(asked("/", std::slice::from_ref(&ours)), Ok(()));
        assert_eq!(asked("/", &[]), Err(OTHER_HOST));
        assert_eq!(asked("http://evil.example/", &[ours]), Err(OTHER_HOST));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost:8787".parse().unwrap());
        twice.append(header::HOST, "evil.example".parse().unwrap());
        assert_eq!(host_check(&"/".parse().unwrap(), &twice, at(8787)), Err(OTHER_HOST));
    }

    #[test]
    fn other_sites_may_link_to_the_page_and_nothing_else() {
        let ask = |path, site, mode| asked(path, &[(header::HOST, "localhost:8787"), (SITE, site), (MODE, mode)]);
        assert_eq!(ask("/status", "same-origin", "cors"), Ok(()));
        assert_eq!(ask("/status", "none", "navigate"), Ok(()));
        assert_eq!(ask("/", "cross-site", "navigate"), Ok(()));
        for (path, site, mode) in [
            ("/", "cross-site", "no-cors"),
            ("/status", "cross-site", "navigate"),
            ("/status", "same-site", "no-cors"),
            ("/metrics", "cross-site", "cors"),
        ] {
            assert_eq!(ask(path, site, mode), Err(OTHER_SITE), "{path} {site} {mode}");
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
            assert_eq!(ask("/status", host), Ok(()), "{host}");
        }
        assert_eq!(ask("/status", "crm-mirror:8787"), Err(OTHER_HOST));
        assert_eq!(ask("/", "evil.example:8787"), Err(OTHER_HOST));
        for path in ["/metrics", "/healthz", "/readyz"] {
            assert_eq!(ask(path, "crm-mirror.example:80"), Ok(()), "{path}");
        }
    }
}
