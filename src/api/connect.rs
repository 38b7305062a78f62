//! Why no connection came about, as far as that decides whether another attempt makes sense.
//!
//! A name that does not resolve and a certificate that is not accepted stay so for minutes at least; a refused connection
//! or a resolver that asks to try again may pass within seconds.

use std::error::Error;
use std::io;

use super::error::ConnectFailure;

/// The failure that another attempt at once would not change, if it is one.
pub(super) fn connect_failure(error: &(dyn Error + 'static)) -> Option<ConnectFailure> {
    let causes = || std::iter::successors(Some(error), |error| cause(*error));
    let is_tls = |error: &(dyn Error + 'static)| error.is::<rustls::Error>();
    if causes().any(is_tls) {
        return Some(ConnectFailure::Certificate);
    }
    // The types are private; their texts are the only mark of a name that does not resolve, or that is none.
    let resolving = causes().any(|error| matches!(error.to_string().as_str(), "dns error" | "invalid dns name"));
    let temporary = causes().any(|error| error.to_string().contains("Temporary failure"));
    (resolving && !temporary).then_some(ConnectFailure::UnknownHost)
}

/// The next cause. An `io::Error` gives the cause of what it wraps as its own, and so hides what it wraps.
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
    struct Layer {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn certificates_and_unknown_hosts_are_told_from_what_may_pass() {
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let resolver = |text: &'static str| Layer { text: "dns error", source: io::Error::other(text) };
        let wrapped = |source| Layer { text: "client error (Connect)", source };
        for (error, failure) in [
            (wrapped(io::Error::other(expired)), Some(ConnectFailure::Certificate)),
            (wrapped(io::Error::other(resolver("Name or service not known"))), Some(ConnectFailure::UnknownHost)),
            (wrapped(io::Error::other(resolver("Temporary failure in name resolution"))), None),
            (wrapped(io::Error::from(io::ErrorKind::ConnectionRefused)), None),
        ] {
            assert_eq!(connect_failure(&error), failure, "{error:?}");
        }
    }
}
