//! The sandbox on a socket. Answers may be damaged on purpose.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, Response, header};
use futures_util::{StreamExt, stream};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::admin;
use super::exchange::{IncomingRequest, JSON, RequestLine, Served, answer, put};
use super::fault::Fault;
use super::handle::{Sandbox, locked};

type Connections = Arc<Mutex<JoinSet<()>>>;

/// Dropping it stops the server and breaks its connections.
pub struct SandboxServer {
    /// The base URL, `/v1` included.
    pub base_url: String,
    sandbox: Sandbox,
    connections: Connections,
    accepting: JoinHandle<()>,
}

impl SandboxServer {
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Drop for SandboxServer {
    fn drop(&mut self) {
        self.accepting.abort();
        locked(&self.connections).abort_all();
    }
}

impl Sandbox {
    /// Serves on 127.0.0.1; port 0 picks a free one. The sandbox can be served more than once, also after a stop.
    pub async fn start(&self, port: u16) -> io::Result<SandboxServer> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        let connections = Connections::default();
        let accepting = tokio::spawn(accept(self.clone(), listener, connections.clone()));
        let base_url = format!("http://127.0.0.1:{port}/v1");
        Ok(SandboxServer { base_url, sandbox: self.clone(), connections, accepting })
    }
}

async fn accept(sandbox: Sandbox, listener: TcpListener, connections: Connections) {
    loop {
        // A connection that fails before it is accepted is ignored.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let mut connections = locked(&connections);
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(sandbox.clone(), stream));
    }
}

async fn serve(sandbox: Sandbox, stream: TcpStream) {
    // Answers are small: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        Box::pin(respond(sandbox.clone(), request.map(Body::new)))
    });
    // The `Date` header is set by the settings.
    let mut connection = http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(stream), service);
    let ended = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if ended.is_err() {
        // The peer sees a reset.
        let _ = connection.into_parts().io.inner().set_zero_linger();
    }
}

const MAX_BODY: usize = 16 << 20;
/// Bodies up to this size are not worth compressing.
const SMALL: usize = 256;

/// An error closes the connection without an answer.
async fn respond(sandbox: Sandbox, http: Request<Body>) -> io::Result<Response<Body>> {
    let (head, body) = http.into_parts();
    // Longer than any valid update: a truncated body is not valid JSON, and is refused.
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if head.uri.path().starts_with(admin::PREFIX) {
        let answered = admin::answer(&sandbox, head.method.as_str(), head.uri.path(), &body);
        let answer = answered.map_or_else(|error| error.answer(0), |data| answer(200, JSON, data.to_string()));
        return Ok(answer.map(Body::from));
    }
    let served = sandbox.serve(incoming(&head, body.to_vec()));
    if !served.drag.is_zero() {
        let clock = sandbox.clock();
        clock.sleep_until(clock.now().plus(served.drag)).await;
    }
    if !served.slow.is_zero() {
        tokio::time::sleep(served.slow).await;
    }
    let date = served.date.at(sandbox.clock().now());
    let gzip = served.is_gzip_allowed && accepts_gzip(&head.headers);
    let mut response = deliver(served, gzip).ok_or(ErrorKind::ConnectionReset)?;
    if let Some(date) = date {
        put(response.headers_mut(), header::DATE, &date);
    }
    Ok(response)
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

fn deliver(served: Served, gzip: bool) -> Option<Response<Body>> {
    let (mut head, body) = served.answer?.into_parts();
    let body = match served.fault {
        Some(Fault::Truncated) => {
            put(&mut head.headers, header::CONTENT_LENGTH, &body.len().to_string());
            broken(&body)
        }
        Some(Fault::TruncatedChunked) => broken(&body),
        Some(Fault::TruncatedGzip) => {
            let mut bytes = compressed(body.as_bytes()).ok()?;
            bytes.truncate(bytes.len() / 2);
            put(&mut head.headers, header::CONTENT_ENCODING, "gzip");
            Body::from(bytes)
        }
        _ if served.padding > 0 => padded(&body, served.padding),
        _ if gzip && body.len() > SMALL => {
            put(&mut head.headers, header::CONTENT_ENCODING, "gzip");
            Body::from(compressed(body.as_bytes()).ok()?)
        }
        _ => Body::from(body),
    };
    Some(Response::from_parts(head, body))
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Half of the body, then a broken connection.
fn broken(body: &str) -> Body {
    let half = Bytes::copy_from_slice(&body.as_bytes()[..body.len() / 2]);
    let end = stream::once(async {
        // The first half leaves before the connection breaks: hyper flushes when the body is not ready.
        tokio::task::yield_now().await;
        Err(io::Error::from(ErrorKind::ConnectionReset))
    });
    Body::from_stream(stream::iter([Ok(half)]).chain(end))
}

/// The body with padding before its last brace; the padding is never held in memory.
fn padded(body: &str, bytes: u64) -> Body {
    const BLOCK: &[u8] = &[b' '; 64 << 10];
    let end = body.len().saturating_sub(1);
    let (front, back) = (Bytes::from(body[..end].to_string()), Bytes::from(body[end..].to_string()));
    let block = move |at: u64| Bytes::from_static(&BLOCK[..(bytes - at).min(BLOCK.len() as u64) as usize]);
    let blocks = (0..bytes).step_by(BLOCK.len()).map(block);
    let parts = std::iter::once(front).chain(blocks).chain(std::iter::once(back));
    Body::from_stream(stream::iter(parts.map(Ok::<_, io::Error>)))
}
