//! The status page's listener: a bounded number of connections, from the networks that may look.

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

/// Connections at once: a page takes two or three. More would take file descriptors from the daemon.
const MOST: usize = 64;

/// A listener that accepts a bounded number of connections; the others wait in the system's queue.
#[derive(Debug)]
pub struct LimitedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    allowed: Arc<[Network]>,
}

impl LimitedListener {
    /// A listener for this machine itself and for the networks that are named.
    pub fn new(listener: TcpListener, allowed: Arc<[Network]>) -> LimitedListener {
        LimitedListener { listener, permits: Arc::new(Semaphore::new(MOST)), allowed }
    }
}

/// Whether an address may look: this machine itself, and whatever is in a network that is named.
pub fn may_look(from: IpAddr, allowed: &[Network]) -> bool {
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
            if may_look(from.ip(), &self.allowed) {
                return (LimitedStream { stream, _permit: permit }, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that counts for as long as it is open.
#[derive(Debug)]
pub struct LimitedStream {
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
    use super::*;

    #[test]
    fn this_machine_and_the_named_networks_may_look() {
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
            assert_eq!(may_look(from.parse().unwrap(), &allowed), may, "{from}");
        }
        assert!(!may_look("10.200.3.4".parse().unwrap(), &[]));
    }
}
