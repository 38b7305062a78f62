//! The sandbox on a socket: accepts connections, and answers requests until they, or the server, are closed. Answers may be
//! damaged on purpose.
//!
//! Every connection has a switch; a handler that flips it makes the next write fail, so that hyper drops the socket
//! without sending a byte of the answer, and the peer sees a reset.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use futures_util::{StreamExt, stream};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::admin;
use super::exchange::{ErrorAnswer, IncomingRequest, RequestLine, Served, Success};
use super::fault::Fault;
use super::handle::Sandbox;
use super::service::INJECTED;

/// A running sandbox server. Dropping it stops the server and breaks its connections.
pub struct SandboxServer {
    /// The base URL, `/v1` included.
    pub base_url: String,
    sandbox: Sandbox,
    stop: Switch,
    serving: tokio::task::JoinHandle<()>,
}

impl SandboxServer {
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Drop for SandboxServer {
    fn drop(&mut self) {
        self.stop.cut();
        self.serving.abort();
    }
}

impl Sandbox {
    /// Serves on 127.0.0.1; port 0 picks a free one. The sandbox can be served more than once, also after a stop.
    pub async fn start(&self, port: u16) -> io::Result<SandboxServer> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        let stop = Switch::default();
        let serving = tokio::spawn(accept(self.clone(), listener, stop.clone()));
        Ok(SandboxServer { base_url: format!("http://127.0.0.1:{port}/v1"), sandbox: self.clone(), stop, serving })
    }
}

async fn accept(sandbox: Sandbox, listener: TcpListener, stop: Switch) {
    loop {
        // A connection that fails before it is accepted is ignored.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(serve(sandbox.clone(), stream, stop.clone()));
    }
}

async fn serve(sandbox: Sandbox, stream: TcpStream, stop: Switch) {
    // Answers are small: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let switch = Switch::default();
    let wire = Wire { stream, switch: switch.clone(), stop };
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        answer(sandbox.clone(), switch.clone(), request.map(Body::new))
    });
    // The `Date` header is set by the settings. A broken connection is noticed by the peer.
    let _ = http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(wire), service).await;
}

const MAX_BODY: usize = 16 << 20;
/// Bodies up to this size are not worth compressing.
const SMALL: usize = 256;

/// Answers one request, after the delay of its fault.
pub(crate) async fn answer(
    sandbox: Sandbox,
    switch: Switch,
    http: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = http.into_parts();
    // Longer than any valid update: a truncated body is not valid JSON, and is refused.
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if head.uri.path().starts_with(admin::PREFIX) {
        return Ok(admin_response(&admin::answer(&sandbox, head.method.as_str(), head.uri.path(), &body)));
    }
    let request = incoming(&head, body.to_vec());
    let (served, number) = sandbox.serve(&request);
    if !served.drag.is_zero() {
        let clock = sandbox.clock();
        clock.sleep_until(clock.now().plus(served.drag)).await;
    }
    let settings = sandbox.settings();
    let wait: Duration = settings.latency + served.slow;
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let gzip = settings.gzip && accepts_gzip(&head.headers);
    let mut response = response(&served, number, gzip, &switch);
    if let Some(date) = served.date.at(sandbox.clock().now()) {
        put(&mut response, header::DATE, &date);
    }
    Ok(response)
}

fn admin_response(answered: &Result<Value, ErrorAnswer>) -> Response<Body> {
    let (status, body) = match answered {
        Ok(data) => (200, data.to_string()),
        Err(error) => (error.status, error.body(0)),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(&mut response, header::CONTENT_TYPE, "application/json; charset=utf-8");
    response
}

fn incoming(head: &Parts, body: Vec<u8>) -> IncomingRequest {
    let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
    IncomingRequest {
        asked: RequestLine::new(head.method.as_str(), head.uri.path(), head.uri.query().unwrap_or_default()),
        authorization: text("authorization"),
        // Etags may contain any character; the bytes of the header are compared.
        if_match: head.headers.get("if-match").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        idempotency_key: text("idempotency-key"),
        content_type: text("content-type"),
        body,
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().starts_with("gzip") && !coding.contains("q=0"))
}

fn response(served: &Served, number: u64, gzip: bool, switch: &Switch) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let status = served.status().unwrap_or(500);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match &served.fault {
        Some(Fault::Reset | Fault::ResetAfterApply) => {
            switch.cut();
            return response;
        }
        Some(Fault::Html(_) | Fault::StatusAfterApply(_) | Fault::NotJson) => {
            put(&mut response, header::CONTENT_TYPE, "text/html");
            *response.body_mut() = Body::from("<html><body><h1>Scheduled maintenance</h1></body></html>");
            return response;
        }
        Some(Fault::Redirect { location, .. }) => {
            put(&mut response, header::LOCATION, location);
            return response;
        }
        _ => put(&mut response, header::CONTENT_TYPE, "application/json; charset=utf-8"),
    }
    let body = match &served.result {
        Ok(_) if matches!(served.fault, Some(Fault::ErrorAfterApply(_))) => {
            ErrorAnswer::new(status, INJECTED).body(number)
        }
        Ok(Success { body, etag, replayed, .. }) => {
            if let Some(etag) = etag {
                put(&mut response, header::ETAG, etag);
            }
            if let Some(replayed) = replayed {
                put(&mut response, header::HeaderName::from_static("idempotent-replayed"), &replayed.to_string());
            }
            body.clone()
        }
        Err(refusal) => {
            if let (_, Some(seconds)) = refusal.retry_after {
                put(&mut response, header::RETRY_AFTER, &seconds.to_string());
            }
            refusal.body(number)
        }
    };
    *response.body_mut() = deliver(&mut response, served, body, gzip);
    response
}

fn deliver(response: &mut Response<Body>, served: &Served, body: String, gzip: bool) -> Body {
    match &served.fault {
        Some(Fault::Truncated) => {
            put(response, header::CONTENT_LENGTH, &body.len().to_string());
            broken(&body)
        }
        Some(Fault::TruncatedChunked) => broken(&body),
        Some(Fault::TruncatedGzip) => {
            let mut bytes = compressed(body.as_bytes()).unwrap_or_default();
            bytes.truncate(bytes.len() / 2);
            put(response, header::CONTENT_ENCODING, "gzip");
            Body::from(bytes)
        }
        Some(Fault::HugeBody(bytes)) => padded(&body, *bytes),
        Some(Fault::HeavyRows(bytes)) => {
            padded(&body, bytes.saturating_mul(served.result.as_ref().map_or(0, |success| success.rows)))
        }
        _ if gzip && body.len() > SMALL => match compressed(body.as_bytes()) {
            Ok(bytes) => {
                put(response, header::CONTENT_ENCODING, "gzip");
                Body::from(bytes)
            }
            Err(_) => Body::from(body),
        },
        _ => Body::from(body),
    }
}

fn put(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        response.headers_mut().insert(name, value);
    }
}

pub(crate) fn compressed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Half of the body, then a broken connection.
pub(crate) fn broken(body: &str) -> Body {
    let half = Bytes::copy_from_slice(&body.as_bytes()[..body.len() / 2]);
    Body::from_stream(stream::unfold(Some(half), |left| async move {
        match left {
            Some(half) if !half.is_empty() => Some((Ok(half), Some(Bytes::new()))),
            Some(_) => {
                // The first half leaves before the connection breaks: hyper flushes when the body is not ready.
                tokio::task::yield_now().await;
                Some((Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)), None))
            }
            None => None,
        }
    }))
}

/// The body with padding before its last brace; the padding is never held in memory.
fn padded(body: &str, bytes: u64) -> Body {
    const BLOCK: &[u8] = &[b' '; 64 << 10];
    let end = body.len().saturating_sub(1);
    let (front, back) = (body[..end].to_string(), body[end..].to_string());
    let spaces = stream::unfold(bytes, |left| async move {
        let block = left.min(BLOCK.len() as u64);
        (block > 0).then(|| (Ok(Bytes::from_static(&BLOCK[..block as usize])), left - block))
    });
    let parts = stream::iter([Ok(Bytes::from(front))]);
    let tail = stream::iter([Ok::<_, std::io::Error>(Bytes::from(back))]);
    Body::from_stream(parts.chain(spaces).chain(tail))
}

/// Cuts one connection, or all of a server.
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

/// A connection that can be cut by its own switch and by its server's.
#[derive(Debug)]
struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) switch: Switch,
    pub(crate) stop: Switch,
}

impl Wire {
    fn check(&self) -> io::Result<()> {
        if !self.switch.is_cut() && !self.stop.is_cut() {
            return Ok(());
        }
        let _ = self.stream.set_zero_linger();
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // An idle connection is woken by its next request, and must not process it after the stop.
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.check()?;
        polled
    }
}

impl AsyncWrite for Wire {
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
