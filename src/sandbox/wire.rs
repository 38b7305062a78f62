//! Connections that can be cut: an answer is lost on the wire, not in a client's imagination.
//!
//! The server's listener hands every connection a switch; a handler that flips it makes the next write fail, so that
//! hyper drops the socket without a byte of the answer, and the peer sees a reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Cuts one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A listener whose connections can be cut.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) listener: TcpListener,
    /// Cuts every connection at once.
    pub(crate) stop: Switch,
}

/// A connection that can be cut.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    switch: Switch,
    stop: Switch,
}

impl Listener for Wire {
    type Io = Line;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Line, Self::Addr) {
        let (stream, addr) = Listener::accept(&mut self.listener).await;
        // Answers are small: waiting to fill a packet would only slow the tests down.
        let _ = stream.set_nodelay(true);
        let switch = Switch::default();
        let stop = self.stop.clone();
        (Line { stream, switch, stop }, addr)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Wire>> for Switch {
    fn connect_info(stream: IncomingStream<'_, Wire>) -> Switch {
        stream.io().switch.clone()
    }
}

impl Line {
    fn check(&self) -> io::Result<()> {
        if !self.switch.is_cut() && !self.stop.is_cut() {
            return Ok(());
        }
        let _ = self.stream.set_zero_linger();
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // An idle connection is woken by its next request, and must not take it after the stop.
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.check()?;
        polled
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
