//! The sandbox behind a socket: headers in, headers out, compression, and answers that are cut on purpose.

use std::io::Write;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use futures_util::stream;

use super::asked::Asked;
use super::handle::Sandbox;
use super::service::{Request, Served, Success, Transport};
use super::wire::{Switch, Wire};

/// The largest body of a PATCH.
const MAX_BODY: usize = 16 << 20;

pub(crate) async fn run(sandbox: Sandbox, wire: Wire) -> std::io::Result<()> {
    let router = Router::new().fallback(answer).with_state(sandbox);
    axum::serve(wire, router.into_make_service_with_connect_info::<Switch>()).await
}

async fn answer(
    State(sandbox): State<Sandbox>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    http: HttpRequest,
) -> Response<Body> {
    let (head, body) = http.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
    let request = Request {
        asked: Asked::new(head.method.as_str(), head.uri.path(), head.uri.query().unwrap_or_default()),
        authorization: text("authorization"),
        // Etags may hold any character; the header's bytes are compared as they are.
        if_match: head.headers.get("if-match").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        idempotency_key: text("idempotency-key"),
        content_type: text("content-type"),
        body: match axum::body::to_bytes(body, MAX_BODY).await {
            Ok(bytes) => bytes.to_vec(),
            // Longer than any update: what is left is no JSON, and is refused as such.
            Err(_) => Vec::new(),
        },
    };
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
    let date = settings.date_header.unwrap_or_else(|| sandbox.clock().now().to_http_date());
    put(&mut response, header::DATE, &date);
    response
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
    let (status, body) = match &served.result {
        Ok(Success { body, .. }) => (200, body.clone()),
        Err(refusal) => (refusal.status, refusal.body(number)),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(&mut response, header::CONTENT_TYPE, "application/json; charset=utf-8");
    if let Ok(success) = &served.result {
        if let Some(etag) = &success.etag {
            put(&mut response, header::ETAG, etag);
        }
        if let Some(replayed) = success.replayed {
            put(&mut response, header::HeaderName::from_static("idempotent-replayed"), &replayed.to_string());
        }
    }
    if let Some(seconds) = served.retry_after_header {
        put(&mut response, header::RETRY_AFTER, &seconds.to_string());
    }
    *response.body_mut() = match served.transport {
        Transport::Whole if gzip && body.len() > 256 => match compressed(body.as_bytes()) {
            Ok(bytes) => {
                put(&mut response, header::CONTENT_ENCODING, "gzip");
                Body::from(bytes)
            }
            Err(_) => Body::from(body),
        },
        Transport::Whole => Body::from(body),
        Transport::Lost => {
            switch.cut();
            Body::empty()
        }
        Transport::Truncated => {
            put(&mut response, header::CONTENT_LENGTH, &body.len().to_string());
            broken(&body)
        }
        Transport::TruncatedChunked => broken(&body),
        Transport::Html => {
            put(&mut response, header::CONTENT_TYPE, "text/html");
            Body::from("<html><body><h1>Scheduled maintenance</h1></body></html>")
        }
        Transport::Padded(bytes) => padded(&body, bytes),
    };
    response
}

fn put(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        response.headers_mut().insert(name, value);
    }
}

fn compressed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Half of the body, then a broken connection.
fn broken(body: &str) -> Body {
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

/// The body with so much white space before its last brace, without ever holding it.
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
    Body::from_stream(futures_util::StreamExt::chain(parts, futures_util::StreamExt::chain(spaces, tail)))
}
