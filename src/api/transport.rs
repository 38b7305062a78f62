//! One attempt: one request, and its answer.
//!
//! No redirect is followed, so the key is sent to the configured address only. The body is read in pieces, after
//! decompression, so that neither a huge answer nor a small one that expands to a huge one fills the memory.

use std::error::Error;
use std::io;
use std::sync::Once;
use std::time::Duration;

use hyper::body::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};

use super::admission::AttemptOutcome;
use super::error::{ApiError, ConnectFailure, Rejection, shown};
use super::key::ApiKey;
use super::requested_wait::requested_wait;
use super::settings::ClientSettings;
use crate::model::Instant;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A request that can be repeated byte for byte.
pub(crate) struct HttpRequest {
    pub method: Method,
    pub url: Url,
    /// Headers other than the key.
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    /// Whether an answer that cannot be read is final.
    pub once: bool,
}

/// An answer with a success status.
pub(crate) struct HttpReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl HttpReply {
    pub(crate) fn date(&self) -> Option<Instant> {
        date(&self.headers)
    }
}

fn date(headers: &HeaderMap) -> Option<Instant> {
    headers.get(DATE)?.to_str().ok().and_then(Instant::from_http_date)
}

pub(crate) struct HttpAttempt {
    pub outcome: AttemptOutcome,
    /// A wait that the answer requests: how long, if it says so.
    pub hold: Option<Option<Duration>>,
    pub result: Result<HttpReply, ApiError>,
}

pub(crate) struct HttpTransport {
    http: reqwest::Client,
    key: ApiKey,
    authorization: HeaderValue,
    timeout: Duration,
    max_body: usize,
}

impl HttpTransport {
    pub(crate) fn new(settings: &ClientSettings, key: ApiKey) -> Result<HttpTransport, ApiError> {
        install_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("crm-mirror/", env!("CARGO_PKG_VERSION")))
            .timeout(settings.timeout)
            .connect_timeout(CONNECT_WITHIN.min(settings.timeout))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // Retries are made by the client: each one is admitted and recorded in the ledger. Only what HTTP/2 guarantees
            // unprocessed, this library sends again at once, at most twice.
            .gzip(true);
        if settings.base_url.is_loopback() {
            builder = builder.no_proxy();
        }
        if !settings.base_url.is_encrypted() {
            // Decoding the machine's certificates takes time, and none of them is looked at.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|e| ApiError::Setup { why: shown(&deepest(&e), &key) })?;
        let authorization = key.header().ok_or(ApiError::Unsendable { what: "API key" })?;
        Ok(HttpTransport { http, key, authorization, timeout: settings.timeout, max_body: settings.max_body })
    }

    /// Sends the request once and reads the whole answer. A wait until a date is measured from `now` if the answer has
    /// no date of its own.
    pub(crate) async fn attempt(&self, request: &HttpRequest, now: Instant) -> HttpAttempt {
        let mut sent = self
            .http
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, self.authorization.clone());
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let mut response = match sent.send().await {
            Ok(response) => response,
            Err(e) => {
                let never_arrived = e.is_connect() || is_unprocessed(&e);
                let outcome = if never_arrived { AttemptOutcome::NotSent } else { AttemptOutcome::Unknown };
                return HttpAttempt { outcome, hold: None, result: Err(self.no_answer(&e)) };
            }
        };
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let now = date(&headers).unwrap_or(now);
        if status.is_success() {
            // Some services send a wait with every answer; a wait of zero is none.
            let wait = requested_wait(b"", header, now).filter(|wait| !wait.is_zero());
            let result = self.read(&mut response, self.max_body).await;
            let result = result.map(|body| HttpReply { status: status.as_u16(), headers, body });
            return HttpAttempt { outcome: AttemptOutcome::Charged, hold: wait.map(Some), result };
        }
        let status = status.as_u16();
        // The status decides; an unreadable body only leaves out details.
        let body = self.read(&mut response, self.max_body).await.unwrap_or_default();
        let wait = requested_wait(&body, header, now);
        let hold = wait.map(Some).or((status == 429).then_some(None));
        let error = if matches!(status, 301..=303 | 307 | 308) {
            ApiError::Redirected { status }
        } else {
            ApiError::Status(Box::new(Rejection::read(status, &body, &self.key)))
        };
        let outcome = if error.is_of_gateway() { AttemptOutcome::Unknown } else { AttemptOutcome::Failed };
        HttpAttempt { outcome, hold, result: Err(error) }
    }

    async fn read(&self, response: &mut reqwest::Response, limit: usize) -> Result<Bytes, ApiError> {
        let announced = response.content_length().unwrap_or(0);
        if announced > limit as u64 {
            return Err(ApiError::TooLarge { limit });
        }
        let mut body = Vec::with_capacity(announced.min(256 * 1024) as usize);
        while let Some(piece) = response.chunk().await.map_err(|e| self.broken(&e))? {
            if body.len() + piece.len() > limit {
                return Err(ApiError::TooLarge { limit });
            }
            body.extend_from_slice(&piece);
        }
        // A byte-order mark may be ignored (RFC 8259, section 8.1).
        let mark = if body.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        Ok(Bytes::from(body).slice(mark..))
    }

    fn no_answer(&self, e: &reqwest::Error) -> ApiError {
        let why = || shown(&deepest(e), &self.key);
        if let Some(cause) = connect_failure(e) {
            ApiError::NotConnectable { cause, why: why() }
        } else if e.is_connect() {
            ApiError::Unreachable { tries: 1, why: why() }
        } else if e.is_timeout() {
            self.timed_out()
        } else {
            ApiError::NoAnswer { tries: 1, why: why() }
        }
    }

    fn broken(&self, e: &reqwest::Error) -> ApiError {
        if e.is_timeout() {
            self.timed_out()
        } else {
            ApiError::Broken { tries: 1, why: shown(&deepest(e), &self.key) }
        }
    }

    fn timed_out(&self) -> ApiError {
        ApiError::Timeout { tries: 1, after: self.timeout }
    }
}

/// Installs ring as the TLS provider of this process: without a provider, building a client panics, even for plain
/// http.
pub(crate) fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails only if the program that uses this library already installed a provider: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The innermost cause. The outer ones contain the address, which may contain a record's identifier.
fn deepest(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The failure that an immediate retry would not change, if it is one: an unknown host name or an invalid certificate
/// persists for minutes at least; a refused connection or a temporary resolver error may pass within seconds.
fn connect_failure(error: &(dyn Error + 'static)) -> Option<ConnectFailure> {
    let causes = || std::iter::successors(Some(error), |error| cause(*error));
    match causes().find_map(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => return Some(ConnectFailure::NoTls),
        Some(_) => return Some(ConnectFailure::Certificate),
        None => {}
    }
    if causes().any(|error| error.to_string().contains("proxy authorization required")) {
        return Some(ConnectFailure::ProxyLogin);
    }
    // The types are private; only their texts show that a name does not resolve or is invalid.
    let resolving = causes().any(|error| matches!(error.to_string().as_str(), "dns error" | "invalid dns name"));
    let temporary = causes().any(|error| error.to_string().contains("Temporary failure"));
    (resolving && !temporary).then_some(ConnectFailure::UnknownHost)
}

/// Whether HTTP/2 guarantees that the service has not processed the request: its stream was refused, or the connection was
/// being closed before it.
fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| cause(*error));
    causes.filter_map(|error| error.downcast_ref::<h2::Error>()).any(|error| {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let closed = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (refused || closed)
    })
}

/// The next cause. An `io::Error` returns the source of the error that it wraps, and so hides the wrapped error.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct WrappedError {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn certificate_errors_and_unknown_hosts_are_permanent() {
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let plain = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let resolver = |text: &'static str| WrappedError { text: "dns error", source: io::Error::other(text) };
        let wrapped = |source| WrappedError { text: "client error (Connect)", source };
        for (error, failure) in [
            (wrapped(io::Error::other(expired)), Some(ConnectFailure::Certificate)),
            (wrapped(io::Error::other(plain)), Some(ConnectFailure::NoTls)),
            (wrapped(io::Error::other(resolver("Name or service not known"))), Some(ConnectFailure::UnknownHost)),
            (wrapped(io::Error::other(resolver("Temporary failure in name resolution"))), None),
            (wrapped(io::Error::other("proxy authorization required")), Some(ConnectFailure::ProxyLogin)),
            (wrapped(io::Error::from(io::ErrorKind::ConnectionRefused)), None),
        ] {
            assert_eq!(connect_failure(&error), failure, "{error:?}");
        }
    }
}
