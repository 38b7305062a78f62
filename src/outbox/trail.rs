//! The words of the trail: why an edit took a step, and what the service said, as JSON.

use serde_json::json;

use crate::api::{ApiError, Rejection};

/// The service has it, by its own answer.
pub const CONFIRMED: &str = "the service confirmed it";
/// The service has it, by the answer to an earlier sending.
pub const REPLAYED: &str = "the service confirmed that an earlier sending was carried out";
/// The record shows it.
pub const SHOWN: &str = "the record already has these values";
/// The record showed it after a lost answer.
pub const FOUND: &str = "the answer was lost, and the record has these values";
/// Nothing was done, so it waits.
pub const NOT_SENT: &str = "not sent yet: it waits";
/// Others changed the record, but not these fields.
pub const REBASED: &str = "the record changed elsewhere: sent again on its new version";
/// The answer was lost, and the record shows that nothing was done.
pub const NOT_DONE: &str = "the answer was lost, and the record is as before: sent again";
/// Somebody else changed these fields.
pub const CONFLICT: &str = "somebody else changed what this edit changes";
/// The answer asks for a reading.
pub const READ_FIRST: &str = "the record is read before anything else is sent";
/// The request may have been carried out.
pub const IN_DOUBT: &str = "it may have been carried out: the record is read back first";
/// The service refused the content.
pub const REFUSED: &str = "the service does not take it";
/// The record is gone.
pub const GONE: &str = "the service no longer has the record";
/// One of several was refused.
pub const ALONE: &str = "refused together with other edits: sent by itself";

/// What the service said, whole as far as it was kept: `{"status": …, "error": …, "message": …, "details": […]}`.
pub fn said(rejection: &Rejection) -> String {
    let details = rejection.details.iter().map(|detail| json!({ "field": detail.field, "message": detail.message }));
    json!({
        "status": rejection.status,
        "error": rejection.error,
        "message": rejection.message,
        "details": details.collect::<Vec<_>>(),
        "request_id": rejection.request_id,
    })
    .to_string()
}

/// What an error says, as JSON.
pub fn of_error(error: &ApiError) -> String {
    match error {
        ApiError::Status(rejection) => said(rejection),
        other => of_text(&other.to_string()),
    }
}

/// A sentence of our own, as JSON.
pub fn of_text(message: &str) -> String {
    json!({ "message": message }).to_string()
}
