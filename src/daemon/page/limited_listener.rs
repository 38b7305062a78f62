//! The status page's listener: a bounded number of connections, from the allowed networks.
//!
//! A newcomer always gets a place, so that a probe is answered however many connections others keep open, and whatever
//! they send or do not send: where there is none, the connection that has been idle for longest loses its own, or that
//! whose request is the oldest. An address that has its share of the places gives up one of its own.
//!
//! # Invariants
//! - There are at most [`MAX_CONNECTIONS`] connections, and at most [`SHARE`] of an address.
//! - A connection is idle from its answer to its next request, and before its first. One that is idle ends after [`LIFE`].

use std::cmp::Reverse;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::serve::Listener;
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::config::Network;

/// The maximum number of connections: a page needs two or three. More would use up file descriptors of the daemon.
const MAX_CONNECTIONS: usize = 64;

/// The maximum number of connections of an address. All of this machine count as one.
const SHARE: usize = 16;

/// How long a connection may live. A browser and a probe open another one.
const LIFE: Duration = Duration::from_secs(600);

/// A listener that accepts a bounded number of connections.
#[derive(Debug)]
pub(super) struct LimitedListener {
    listener: TcpListener,
    places: Places,
    allowed: Arc<[Network]>,
}

impl LimitedListener {
    /// A listener for this machine and the named networks.
    pub(super) fn new(listener: TcpListener, allowed: Arc<[Network]>) -> LimitedListener {
        LimitedListener { listener, places: Places::default(), allowed }
    }
}

/// Whether an address is allowed: this machine, and the named networks.
pub(super) fn is_allowed(from: IpAddr, allowed: &[Network]) -> bool {
    let from = from.to_canonical();
    from.is_loopback() || allowed.iter().any(|network| network.contains(from))
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        loop {
            let (stream, from) = Listener::accept(&mut self.listener).await;
            if !is_allowed(from.ip(), &self.allowed) {
                continue;
            }
            let place = self.places.take(from.ip());
            return (LimitedStream { stream, place, places: self.places.clone() }, from);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<Vec<Arc<Place>>>>);

#[derive(Debug)]
struct Place {
    from: IpAddr,
    born: Instant,
    state: Mutex<PlaceState>,
    task: AtomicWaker,
}

#[derive(Clone, Copy, Debug)]
struct PlaceState {
    /// Whether something was received since the last answer.
    is_asked: bool,
    since: Instant,
    is_lost: bool,
}

impl PlaceState {
    /// Something was received, or sent. What a slow client adds to its request makes it no newer.
    fn turn(&mut self, is_asked: bool) {
        if !(is_asked && self.is_asked) {
            (self.is_asked, self.since) = (is_asked, Instant::now());
        }
    }
}

impl Place {
    fn state(&self) -> std::sync::MutexGuard<'_, PlaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection is to end now; otherwise the task is woken when another one takes the place.
    fn has_ended(&self, cx: &mut Context<'_>) -> bool {
        self.task.register(cx.waker());
        let state = self.state();
        state.is_lost || (!state.is_asked && self.born.elapsed() > LIFE)
    }
}

impl Places {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, if need be that of another one.
    fn take(&self, from: IpAddr) -> Arc<Place> {
        let from = Some(from.to_canonical()).filter(|from| !from.is_loopback()).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let mut all = self.all();
        let count = |address: IpAddr| all.iter().filter(|place| place.from == address).count();
        let has_share = count(from) >= SHARE;
        if has_share || all.len() >= MAX_CONNECTIONS {
            // Who has the most connections gives up one.
            let may_lose = all.iter().enumerate().filter(|(_, place)| !has_share || place.from == from);
            let lost = may_lose.min_by_key(|(_, place)| {
                let state = place.state();
                (Reverse(count(place.from)), state.is_asked, state.since)
            });
            if let Some(lost) = lost.map(|(n, _)| n) {
                let lost = all.swap_remove(lost);
                lost.state().is_lost = true;
                lost.task.wake();
            }
        }
        let now = Instant::now();
        let state = Mutex::new(PlaceState { is_asked: false, since: now, is_lost: false });
        let place = Arc::new(Place { from, born: now, state, task: AtomicWaker::new() });
        all.push(place.clone());
        place
    }
}

/// A connection that has a place while it is open.
#[derive(Debug)]
pub(super) struct LimitedStream {
    stream: TcpStream,
    place: Arc<Place>,
    places: Places,
}

impl Drop for LimitedStream {
    fn drop(&mut self) {
        self.places.all().retain(|place| !Arc::ptr_eq(place, &self.place));
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.place.has_ended(cx) {
            // As if the client had closed it.
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.place.state().turn(true);
        }
        read
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.place.has_ended(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        // Whether the client takes the answer is its own affair: it is bounded by this idle time.
        self.place.state().turn(false);
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
    use std::time::Duration;

    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::watch;

    use super::*;
    use crate::daemon::http_server;

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
        let serving = http_server::spawn(LimitedListener::new(listener, Arc::new([])), router, ends, idle);
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
        let listener = LimitedListener::new(listener, Arc::new([]));
        let places = listener.places.clone();
        let serving = http_server::spawn(listener, router, ends, http_server::IDLE);
        let mut polite = Vec::new();
        for _ in 0..3 {
            for _ in 0..MAX_CONNECTIONS {
                let mut stream = TcpStream::connect(at).await.unwrap();
                ask(&mut stream).await.unwrap();
                polite.push(stream);
            }
            for stream in &mut polite {
                // Those that lost their places notice it here.
                let _ = ask(stream).await;
                // A request that does not end.
                let _ = stream.write_all(b"GET / HT").await;
            }
            let probe = exchange(at, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
            assert!(probe.ends_with("page"), "{probe}");
            assert!(places.all().len() <= SHARE);
        }
        end.send_replace(true);
        http_server::finish(serving).await;
    }

    #[test]
    fn address_with_its_share_gives_up_its_own_place_and_a_full_house_that_of_the_greediest() {
        let places = Places::default();
        let address = |n: usize| IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()]);
        for n in 0..MAX_CONNECTIONS {
            places.take(address(n / SHARE));
        }
        let first = places.all()[0].clone();
        places.take(address(0));
        assert!(first.state().is_lost, "the oldest of the same address");
        let count = |n| places.all().iter().filter(|place| place.from == address(n)).count();
        places.take(address(9));
        assert_eq!(count(9), 1);
        assert_eq!(places.all().len(), MAX_CONNECTIONS);
        // One that asks loses its place only if all others of its address ask, too.
        let asks = places.all().iter().find(|place| place.from == address(0)).unwrap().clone();
        asks.state().turn(true);
        for _ in 0..SHARE {
            places.take(address(0));
        }
        assert!(!asks.state().is_lost);
        places.all().iter().for_each(|place| place.state().turn(true));
        places.take(address(0));
        assert!(asks.state().is_lost);
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
}
