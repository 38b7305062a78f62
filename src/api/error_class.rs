//! The class of an error answer: one table.
//!
//! The class depends on the status and on whether the body is the service's own error envelope (reference, *Errors*).
//! Gateways, proxies and captive portals answer 401, 403 and 404 as well; their pages say nothing about the key or the
//! record, so they count as temporary failures.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The service asked to wait: every request of this process and of the next one waits.
    Hold,
    /// The same request may succeed later; the client's own retries are exhausted.
    Retry,
    /// The service cannot be reached as configured (unknown host, invalid certificate): an immediate retry is no help.
    Unavailable,
    /// The service reports that the record does not exist. That nominates it for removal, and proves nothing.
    Gone,
    /// The key may not do this to this object; the rest of the run continues.
    SkipObject,
    /// This one record cannot be requested; the rest of the run continues.
    SkipRecord,
    /// The key is refused: every other request will be refused too.
    StopAll,
    /// The request is refused in this form. A walk that sent a cursor restarts without it; an id list is halved.
    BadRequest,
    /// This request fails, now and when it is repeated; others may succeed.
    Failed,
    /// The configured address is not that of the service: a person must correct it.
    Configuration,
    /// The budget, a hold or shutdown ends the run: what is stored so far is resumed later.
    Pause,
    /// None of the above: the run ends with this error.
    StopRun,
}

/// The class of an error status. `envelope`: the body is the service's error envelope.
pub const fn classify(status: u16, envelope: bool) -> ErrorClass {
    match status {
        401 if envelope => ErrorClass::StopAll,
        403 if envelope => ErrorClass::SkipObject,
        404 if envelope => ErrorClass::Gone,
        302..=304 | 307 | 401 | 403 | 404 | 408 | 425 => ErrorClass::Retry,
        301 | 308 | 407 => ErrorClass::Configuration,
        // 414 and 431: the address or the headers are too long for a server in between, and a shorter request may pass.
        400 | 414 | 431 => ErrorClass::BadRequest,
        429 => ErrorClass::Hold,
        500 | 502..=504 | 506..=599 => ErrorClass::Retry,
        _ => ErrorClass::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_class() {
        for (status, envelope) in (100..=599).flat_map(|status| [(status, true), (status, false)]) {
            let expected = match status {
                302..=304 | 307 | 408 | 425 => ErrorClass::Retry,
                401 | 403 | 404 if !envelope => ErrorClass::Retry,
                501 | 505 => ErrorClass::Failed,
                500..=599 => ErrorClass::Retry,
                429 => ErrorClass::Hold,
                301 | 308 | 407 => ErrorClass::Configuration,
                400 | 414 | 431 => ErrorClass::BadRequest,
                401 => ErrorClass::StopAll,
                403 => ErrorClass::SkipObject,
                404 => ErrorClass::Gone,
                _ => ErrorClass::Failed,
            };
            assert_eq!(classify(status, envelope), expected, "{status}, envelope: {envelope}");
        }
    }
}
