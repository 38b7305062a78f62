//! The sandbox on a socket. Answers may be damaged on purpose.

use std::io::{self, ErrorKind};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use futures_util::{StreamExt, stream};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::admin;
use super::exchange::{Answer, IncomingRequest, RequestLine};
use super::fault::Fault;
use super::handle::Sandbox;

/// Dropping it stops the server and breaks its connections.
pub struct SandboxServer {
    /// The base URL, `/v1` included.
    pub base_url: String,
    pub sandbox: Sandbox,
    _accepting: JoinSet<()>,
}

impl Sandbox {
    /// Serves on 127.0.0.1; port 0 picks a free one. The sandbox can be served more than once, also after a stop.
    pub async fn start(&self, port: u16) -> io::Result<SandboxServer> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let base_url = format!("http://127.0.0.1:{}/v1", listener.local_addr()?.port());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(self.clone(), listener));
        Ok(SandboxServer { base_url, sandbox: self.clone(), _accepting: accepting })
    }
}

async fn accept(sandbox: Sandbox, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        // A connection that fails before it is accepted is ignored.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
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

/// An error closes the connection without an answer.
async fn respond(sandbox: Sandbox, http: Request<Body>) -> io::Result<Response<Body>> {
    let (head, body) = http.into_parts();
    let (method, path) = (head.method.as_str(), head.uri.path());
    // Longer than any valid update: a truncated body is not valid JSON, and is refused.
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if path.starts_with(admin::PREFIX) {
        let answered = admin::answer(&sandbox, method, path, &body);
        let answer = answered.map_or_else(|refusal| refusal, |data| Answer::json(200, &data.to_string()));
        return Ok(message(answer, None));
    }
    let asked = RequestLine::new(method, path, head.uri.query().unwrap_or_default());
    let request = IncomingRequest { asked, headers: head.headers, body: body.to_vec() };
    let (answer, faults, settings) = sandbox.serve(request);
    let clock = sandbox.clock();
    match faults.delay {
        Some(Fault::Drag(time)) => clock.sleep_until(clock.now().plus(time)).await,
        Some(Fault::Slow(low, high)) => tokio::time::sleep(low + (high - low).mul_f64(fastrand::f64())).await,
        _ => {}
    }
    let answer = answer.ok_or(ErrorKind::ConnectionReset)?;
    let date = match &faults.date {
        Some(Fault::Date(date)) => date.at(clock.now()),
        _ => Some(clock.now().to_http_date()).filter(|_| !settings.undated),
    };
    Ok(message(answer.with("date", date), faults.answer.as_ref()))
}

/// The answer as HTTP, with what its fault does to the body.
fn message(mut answer: Answer, fault: Option<&Fault>) -> Response<Body> {
    let text = std::mem::take(&mut answer.body);
    let body = match fault {
        Some(Fault::Truncated) => {
            answer = answer.with("content-length", Some(text.len()));
            broken(&text)
        }
        Some(Fault::TruncatedChunked) => broken(&text),
        _ => Body::from(text),
    };
    let mut message = Response::new(body);
    *message.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &answer.headers {
        // An etag that no header can carry is left out.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            message.headers_mut().insert(*name, value);
        }
    }
    message
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
