//! The page's door: whose request is answered, and how many may stand in it at once.
//!
//! Everything on loopback can be reached by every user of the machine, and by every web page that a browser on it shows.
//! Three things keep web pages out: the Host must be a name of ours (else a foreign name that was made to lead here
//! could read the answers), the browser must not say that another site asks, and nothing here can change anything.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once: a page takes two or three. More would take files from the daemon, whoever it is that asks.
const MOST: usize = 64;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was sent to a name that is not ours.
    Host,
    /// Another site's page asks.
    Site,
}

/// Looks at a request's headers. `at` is where the page is served.
pub fn refuses(uri: &Uri, headers: &HeaderMap, at: SocketAddr) -> Option<Refused> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Some(Refused::Host),
    };
    let addressed = uri.authority().is_none_or(|authority| is_ours(authority.as_str(), at));
    if !addressed || !is_ours(host, at) {
        return Some(Refused::Host);
    }
    let said = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match said(SITE) {
        None | Some("same-origin" | "none") => None,
        // A link may lead to the page itself.
        Some(_) if uri.path() == "/" && said(MODE) == Some("navigate") => None,
        Some(_) => Some(Refused::Site),
    }
}

/// Whether a Host names this machine itself and the page's port.
fn is_ours(host: &str, at: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
        // A browser leaves the port out where it is the usual one.
        _ => (host, Some(80)),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let ip: Option<IpAddr> = match bare {
        Some(name) => name.parse().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    let ours = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), at.ip()];
    port == Some(at.port()) && (name.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| ours.contains(&ip)))
}

/// A listener that lets a bounded number in; the others wait outside.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Door {
    /// A door for everybody who connects to `listener`.
    pub fn of(listener: TcpListener) -> Door {
        Door { listener, places: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Door {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        // The semaphore is never closed.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Visit { stream, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, and its place.
#[derive(Debug)]
pub struct Visit {
    stream: TcpStream,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Visit {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Visit {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    fn asked(uri: &str, headers: &[(HeaderName, &'static str)]) -> Option<Refused> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        refuses(&uri.parse().unwrap(), &headers, at(8787))
    }

    #[test]
    fn only_names_of_this_machine_and_the_pages_port_are_ours() {
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
    fn one_host_is_needed_and_the_address_line_counts_too() {
        let ours = (header::HOST, "localhost:8787");
        assert_eq!(asked("/", std::slice::from_ref(&ours)), None);
        assert_eq!(asked("/", &[]), Some(Refused::Host));
        assert_eq!(asked("http://evil.example/", &[ours]), Some(Refused::Host));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost:8787".parse().unwrap());
        twice.append(header::HOST, "evil.example".parse().unwrap());
        assert_eq!(refuses(&"/".parse().unwrap(), &twice, at(8787)), Some(Refused::Host));
    }

    #[test]
    fn another_sites_page_may_link_here_and_nothing_else() {
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
            assert_eq!(ask(path, site, mode), Some(Refused::Site), "{path} {site} {mode}");
        }
    }
}
