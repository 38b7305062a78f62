//! One attempt: one request, and its answer.
//!
//! No redirect is followed, so the key is sent to the configured address only. The body is read in pieces, after
//! decompression, so that neither a huge answer nor a small one that expands to a huge one fills the memory.

use std::error::Error;
use std::io;
use std::sync::Once;
use std::time::Duration;

use hyper::body::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, DATE, ETAG, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Url};

use super::admission::AttemptOutcome;
use super::decode::{self, NotUnderstood};
use super::error::{ApiError, PROXY_LOGIN, Rejection, UNREACHABLE, shown};
use super::error_class::ErrorClass;
use super::key::ApiKey;
use super::requested_wait::requested_wait;
use super::settings::ClientSettings;
use crate::model::{Etag, Instant, Layout, Object, Record, RecordId, RequestStamp};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

const CERTIFICATE: &str = "check `api.base_url`, the clock of this machine and its CA certificates";
const NO_TLS: &str = "this port does not speak TLS: check the `https://` and the port of `api.base_url`";

/// A good answer, of the class 2xx: validated, but not decoded.
#[derive(Clone, Debug)]
pub struct ServiceAnswer {
    pub status: u16,
    /// For [`decode::page`] or [`decode::detail`]. That of an update is a compact confirmation.
    pub body: Bytes,
    /// The service's clock when it answered (`Date` header).
    pub date: Option<Instant>,
    /// The `ETag` header, its quotes included.
    pub etag: Option<Etag>,
    /// Whether the service had applied this update before (`Idempotent-Replayed`); `None` if it does not say.
    pub replayed: Option<bool>,
    pub asked: RequestStamp,
    /// How many attempts failed before it; those that a hold refused do not count.
    pub failed: u32,
}

impl ServiceAnswer {
    /// The record that was asked for.
    pub fn record(&self, object: Object, id: &RecordId, layout: &Layout) -> Result<Record, NotUnderstood> {
        let mut record = decode::detail(object.resource(), &self.body, layout)?;
        if record.id != *id {
            return Err(NotUnderstood("the service answered with a different record".into()));
        }
        if let Some(etag) = &self.etag {
            record.take_header_etag(object, etag.as_str());
        }
        Ok(record)
    }
}

pub(crate) struct HttpAttempt {
    pub outcome: AttemptOutcome,
    /// A wait that the answer requests: how long, if it says so.
    pub hold: Option<Option<Duration>>,
    pub result: Result<ServiceAnswer, ApiError>,
}

pub(crate) struct HttpTransport {
    http: reqwest::Client,
    key: ApiKey,
    authorization: HeaderValue,
    pub settings: ClientSettings,
}

impl HttpTransport {
    pub(crate) fn new(settings: ClientSettings, key: ApiKey) -> Result<HttpTransport, ApiError> {
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
        if !settings.base_url.as_str().starts_with("https:") {
            // Decoding the machine's certificates takes time, and none of them is looked at.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|e| ApiError::Setup { why: shown(&deepest(&e), &key) })?;
        let authorization = key.header().ok_or(ApiError::Unsendable { what: "API key" })?;
        Ok(HttpTransport { http, key, authorization, settings })
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url).header(ACCEPT, "application/json");
        request.header(AUTHORIZATION, self.authorization.clone())
    }

    /// Sends the request once and reads the whole answer. A wait until a date is measured from when it was asked for, if the
    /// answer has no date of its own.
    pub(crate) async fn attempt(&self, request: RequestBuilder, asked: &RequestStamp) -> HttpAttempt {
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(e) => {
                let never_arrived = e.is_connect() || is_unprocessed(&e);
                let outcome = if never_arrived { AttemptOutcome::NotSent } else { AttemptOutcome::Unknown };
                return HttpAttempt { outcome, hold: None, result: Err(self.no_answer(&e)) };
            }
        };
        let (is_success, status) = (response.status().is_success(), response.status().as_u16());
        let headers = std::mem::take(response.headers_mut());
        let header =
            |name| headers.get(name).and_then(|value: &HeaderValue| std::str::from_utf8(value.as_bytes()).ok());
        let (after, date) = (header(RETRY_AFTER.as_str()), header(DATE.as_str()).and_then(Instant::from_http_date));
        let now = date.unwrap_or(asked.at.wall);
        let body = self.read(&mut response).await;
        if is_success {
            // Some services send a wait with every answer; a wait of zero is none.
            let wait = requested_wait(b"", after, now).filter(|wait| !wait.is_zero());
            let result = body.map(|body| ServiceAnswer {
                status,
                body,
                date,
                etag: header(ETAG.as_str()).filter(|etag| !etag.is_empty()).map(Etag::from),
                replayed: header("idempotent-replayed").and_then(|value| value.to_ascii_lowercase().parse().ok()),
                asked: asked.clone(),
                failed: 0,
            });
            return HttpAttempt { outcome: AttemptOutcome::Charged, hold: wait.map(Some), result };
        }
        // The status decides; an unreadable body only leaves out details.
        let body = body.unwrap_or_default();
        let wait = requested_wait(&body, after, now);
        let hold = wait.map(Some).or((status == 429).then_some(None));
        let error = if matches!(status, 301..=303 | 307 | 308) {
            ApiError::Redirected { status }
        } else {
            ApiError::Status(Box::new(Rejection::read(status, &body, &self.key)))
        };
        let outcome = if error.is_of_gateway() { AttemptOutcome::Unknown } else { AttemptOutcome::Failed };
        HttpAttempt { outcome, hold, result: Err(error) }
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Bytes, ApiError> {
        let limit = self.settings.max_body;
        let announced = response.content_length().unwrap_or(0);
        if announced > limit as u64 {
            return Err(ApiError::TooLarge { limit });
        }
        let broken = |e: reqwest::Error| match e.is_timeout() {
            true => ApiError::Timeout { tries: 1, after: self.settings.timeout },
            false => ApiError::Broken { tries: 1, why: shown(&deepest(&e), &self.key) },
        };
        let mut body = Vec::with_capacity(announced.min(256 * 1024) as usize);
        while let Some(piece) = response.chunk().await.map_err(broken)? {
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
        if let Some((class, hint)) = connect_failure(e) {
            ApiError::NotConnectable { class, hint, why: why() }
        } else if e.is_connect() {
            ApiError::Unreachable { tries: 1, why: why() }
        } else if e.is_timeout() {
            ApiError::Timeout { tries: 1, after: self.settings.timeout }
        } else {
            ApiError::NoAnswer { tries: 1, why: why() }
        }
    }
}

/// Installs ring as the TLS provider of this process: without one, building a client panics, even for plain http.
pub(crate) fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails only if the program that uses this library already installed a provider: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The innermost cause. The outer ones contain the address, which may contain a record's identifier.
fn deepest(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// The class of a failure that an immediate retry would not change, and what to do about it: an unknown host name or an
/// invalid certificate persists for minutes; a refused connection or a resolver's temporary error may pass in seconds.
fn connect_failure(error: &(dyn Error + 'static)) -> Option<(ErrorClass, &'static str)> {
    let has_text = |is_it: fn(&str) -> bool| causes(error).any(|error| is_it(&error.to_string()));
    match causes(error).find_map(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => return Some((ErrorClass::Unavailable, NO_TLS)),
        Some(_) => return Some((ErrorClass::Unavailable, CERTIFICATE)),
        None => {}
    }
    if has_text(|text| text.contains("proxy authorization required")) {
        return Some((ErrorClass::Configuration, PROXY_LOGIN));
    }
    // The types are private; only their texts show that a name does not resolve or is invalid.
    let resolving = has_text(|text| matches!(text, "dns error" | "invalid dns name"));
    let temporary = has_text(|text| text.contains("Temporary failure"));
    (resolving && !temporary).then_some((ErrorClass::Unavailable, UNREACHABLE))
}

/// Whether HTTP/2 guarantees that the request was not processed: its stream was refused, or the connection was closing.
fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    causes(error).filter_map(|error| error.downcast_ref::<h2::Error>()).any(|error| {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let closed = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (refused || closed)
    })
}

/// An error and its causes. An `io::Error` returns the source of the error that it wraps, and so hides the wrapped error.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
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
            (wrapped(io::Error::other(expired)), Some(CERTIFICATE)),
            (wrapped(io::Error::other(plain)), Some(NO_TLS)),
            (wrapped(io::Error::other(resolver("Name or service not known"))), Some(UNREACHABLE)),
            (wrapped(io::Error::other(resolver("Temporary failure in name resolution"))), None),
            (wrapped(io::Error::other("proxy authorization required")), Some(PROXY_LOGIN)),
            (wrapped(io::Error::from(io::ErrorKind::ConnectionRefused)), None),
        ] {
            assert_eq!(connect_failure(&error).map(|(_, hint)| hint), failure, "{error:?}");
        }
    }
}
