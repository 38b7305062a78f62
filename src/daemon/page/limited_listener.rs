//! The status page's listener: a bounded number of connections, from the allowed networks.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Network;

/// The maximum number of connections: a page needs two or three. More would use up file descriptors of the daemon.
const MOST: usize = 64;

/// A listener that accepts a bounded number of connections; others wait in the system's queue.
#[derive(Debug)]
pub(super) struct LimitedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    allowed: Arc<[Network]>,
}

impl LimitedListener {
    /// A listener for this machine and the named networks.
    pub(super) fn new(listener: TcpListener, allowed: Arc<[Network]>) -> LimitedListener {
        LimitedListener { listener, permits: Arc::new(Semaphore::new(MOST)), allowed }
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
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        loop {
            let (stream, from) = Listener::accept(&mut self.listener).await;
            if is_allowed(from.ip(), &self.allowed) {
                return (LimitedStream { stream, _permit: permit }, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that counts while it is open.
#[derive(Debug)]
pub(super) struct LimitedStream {
    stream: TcpStream,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for LimitedStream {
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
        for _ in 0..MOST {
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
