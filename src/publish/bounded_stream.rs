//! A connection to a PostgreSQL server that keeps its time and its size, whatever the server does.
//!
//! The server may accept and be silent, answer a byte now and then, send without end, or announce a message of two
//! gigabytes, for which the library would reserve memory. This stream lies between the library and the connection, above
//! TLS: it reads the lengths of the messages before the library does, and knows when an answer is complete.
//!
//! # Invariants
//! - From the first byte of a request to the end of its answer (`ReadyForQuery`), at most [`StreamLimits::answer`] passes,
//!   and a second more for each [`StreamLimits::rate`] bytes that the server takes from us.
//! - No message and no answer is larger than its limit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    pub answer: Duration,
    /// The bytes per second that a server takes at least.
    pub rate: u64,
    pub message: u64,
    /// The largest answer, in bytes. Rows are read in pages, which are far smaller.
    pub bytes: u64,
}

impl Default for StreamLimits {
    fn default() -> StreamLimits {
        StreamLimits { answer: Duration::from_secs(300), rate: 64 << 10, message: 64 << 20, bytes: 256 << 20 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    /// TLS, above which there is another of these streams.
    Cipher,
    /// One byte that says whether the server speaks TLS.
    TlsOrNot,
    /// A message: these first bytes of its head, so many of them.
    Head([u8; 5], usize),
    Body(u8, u64),
}

impl Expected {
    pub(super) const MESSAGE: Expected = Expected::Head([0; 5], 0);
}

const READY_FOR_QUERY: u8 = b'Z';

/// A request whose answer is not complete.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    begun: Instant,
    sent: u64,
    received: u64,
}

pub(super) struct BoundedStream<S> {
    inner: S,
    limits: StreamLimits,
    expected: Expected,
    exchange: Option<Exchange>,
    timer: Pin<Box<Sleep>>,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(inner: S, expected: Expected, limits: StreamLimits) -> BoundedStream<S> {
        BoundedStream { inner, limits, expected, exchange: None, timer: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn deadline(&self) -> Option<Instant> {
        let exchange = self.exchange?;
        Some(exchange.begun + self.limits.answer + Duration::from_secs(exchange.sent / self.limits.rate))
    }

    /// Fails if an answer takes too long; otherwise the task is woken when it does.
    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(deadline) = self.deadline() else { return Ok(()) };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                let seconds = self.limits.answer.as_secs_f32();
                let why = format!("the database did not complete its answer within {seconds} seconds");
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }

    fn count_sent(&mut self, bytes: usize) {
        if bytes > 0 && !matches!(self.expected, Expected::Cipher) {
            let new = Exchange { begun: Instant::now(), sent: 0, received: 0 };
            self.exchange.get_or_insert(new).sent += bytes as u64;
        }
    }

    fn count_received(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if let Some(exchange) = self.exchange.as_mut().filter(|_| !matches!(self.expected, Expected::Cipher)) {
            exchange.received += bytes.len() as u64;
            if exchange.received > self.limits.bytes {
                return refused(format!("the database sent an answer of more than {} bytes", self.limits.bytes));
            }
        }
        while let [first, rest @ ..] = bytes {
            (self.expected, bytes) = match self.expected {
                Expected::Cipher => return Ok(()),
                Expected::TlsOrNot if *first == b'S' => (Expected::Cipher, rest),
                Expected::TlsOrNot => (Expected::MESSAGE, rest),
                Expected::Head(mut head, known) => {
                    head[known] = *first;
                    if known + 1 < head.len() {
                        (Expected::Head(head, known + 1), rest)
                    } else {
                        let [kind, length @ ..] = head;
                        // The length counts its own four bytes.
                        let length = u64::from(u32::from_be_bytes(length)).saturating_sub(4);
                        if length > self.limits.message {
                            return refused(format!("the database announced a message of {length} bytes"));
                        }
                        (self.after(kind, length), rest)
                    }
                }
                Expected::Body(kind, left) => {
                    let here = left.min(bytes.len() as u64);
                    // Not more than the length of a slice.
                    let rest = &bytes[usize::try_from(here).unwrap_or(bytes.len())..];
                    (self.after(kind, left - here), rest)
                }
            };
        }
        Ok(())
    }

    fn after(&mut self, kind: u8, left: u64) -> Expected {
        if left > 0 {
            return Expected::Body(kind, left);
        }
        if kind == READY_FOR_QUERY {
            self.exchange = None;
        }
        Expected::MESSAGE
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.count_received(&buf.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.in_time(cx)?;
        let bytes = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.count_sent(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: TlsStream + Unpin> TlsStream for BoundedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner.channel_binding()
    }
}

/// Begins TLS, and puts the limits above it.
pub(super) struct BoundedTls<T>(pub T, pub StreamLimits);

impl<S, T> TlsConnect<S> for BoundedTls<T>
where
    T: TlsConnect<S>,
    T::Stream: Send,
    T::Future: Send + 'static,
{
    type Stream = BoundedStream<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, T::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let (beginning, limits) = (self.0.connect(stream), self.1);
        Box::pin(async move { Ok(BoundedStream::new(beginning.await?, Expected::MESSAGE, limits)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio_postgres::NoTls;

    const LIMITS: StreamLimits =
        StreamLimits { answer: Duration::from_millis(300), rate: 1 << 20, message: 1_000, bytes: 10_000 };

    /// The answer to the startup message: the password is not asked for.
    const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

    /// A server that lets the client in, reads its first statement, and then does as it likes.
    async fn ended<F: Future<Output = ()> + Send + 'static>(
        misbehave: impl FnOnce(DuplexStream) -> F + Send + 'static,
    ) -> String {
        let (ours, mut theirs) = tokio::io::duplex(4_096);
        let server = tokio::spawn(async move {
            let mut request = [0; 4_096];
            assert!(theirs.read(&mut request).await.unwrap() > 0);
            theirs.write_all(WELCOME).await.unwrap();
            assert!(theirs.read(&mut request).await.unwrap() > 0);
            misbehave(theirs).await;
        });
        let mut config = tokio_postgres::Config::new();
        config.user("u").ssl_mode(tokio_postgres::config::SslMode::Disable);
        let stream = BoundedStream::new(ours, Expected::MESSAGE, LIMITS);
        let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        assert!(client.batch_execute("SELECT 1").await.is_err());
        let error = connection.await.unwrap().unwrap_err();
        server.abort();
        crate::error_chain::error_chain(&error)
    }

    #[tokio::test]
    async fn server_that_is_silent_drips_or_takes_nothing_is_given_up() {
        let silent = ended(|server| async move {
            let _open = server;
            std::future::pending().await
        });
        assert!(silent.await.contains("did not complete its answer"));
        // A notice of a byte every moment, for ever.
        let dripping = ended(|mut server| async move {
            server.write_all(b"N\0\0\x03\xe8").await.unwrap();
            while server.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(dripping.await.contains("did not complete its answer"));
    }

    #[tokio::test]
    async fn message_or_answer_that_is_too_large_is_refused_before_memory_is_reserved() {
        let announced = ended(|mut server| async move {
            server.write_all(b"D\x7f\xff\xff\xff").await.unwrap();
            let _ = server.read(&mut [0]).await;
        });
        assert!(announced.await.contains("announced a message of 2147483643 bytes"));
        let flood = ended(|mut server| async move {
            let row = [b"D\0\0\x01\x06\0\x01\0\0\0\xfc".as_slice(), &[b'x'; 252]].concat();
            while server.write_all(&row).await.is_ok() {}
        });
        assert!(flood.await.contains("sent an answer of more than 10000 bytes"));
    }

    #[tokio::test]
    async fn time_between_statements_does_not_count() {
        let (ours, mut theirs) = tokio::io::duplex(4_096);
        let mut stream = BoundedStream::new(ours, Expected::TlsOrNot, LIMITS);
        let mut answer = [0; 4_096];
        stream.write_all(b"Q").await.unwrap();
        theirs.write_all(b"N").await.unwrap();
        theirs.write_all(WELCOME).await.unwrap();
        let mut read = 0;
        while read < 1 + WELCOME.len() {
            read += stream.read(&mut answer).await.unwrap();
        }
        assert!(stream.exchange.is_none());
        stream.write_all(b"Q").await.unwrap();
        assert!(stream.exchange.is_some_and(|exchange| exchange.sent == 1));
    }
}
