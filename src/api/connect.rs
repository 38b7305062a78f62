//! Why a connection failed, as far as it decides whether a retry makes sense.
//!
//! An unknown host name or an invalid certificate persists for minutes at least; a refused connection or a temporary
//! resolver error may pass within seconds.

use std::error::Error;
use std::io;

use super::error::ConnectFailure;

/// The failure that an immediate retry would not change, if it is one.
pub(super) fn connect_failure(error: &(dyn Error + 'static)) -> Option<ConnectFailure> {
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
pub(super) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
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
