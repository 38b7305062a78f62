//! The reasons in an edit's history, and the service's answers as JSON.

use serde_json::json;

use crate::api::ApiError;
use crate::model::Etag;
use crate::store::{RECORD_REMOVED, outbox_report};

pub(super) const CONFIRMED: &str = "the service confirmed it";
pub(super) const REPLAYED: &str = "the service confirmed that an earlier attempt was applied";
pub(super) const SHOWN: &str = outbox_report::SHOWN;
pub(super) const FOUND: &str = "no answer confirmed it, and the record has these values";
pub(super) const NOT_SENT: &str = "not sent yet";
/// Somebody else changed the record, but not these fields.
pub(super) const REBASED: &str = "the record changed; the edit was rebased on its new version";
/// A request that cannot be repeated, of a record that has the version that it was to replace.
pub(super) const NOT_DONE: &str = "the record is unchanged, so nothing was applied: sent again";
/// A request of a copy, of a version that another one of the record has just replaced.
pub(super) const OVERTAKEN: &str = "another edit replaced the version that it was made for, so nothing was applied";
pub(super) const NOT_SHOWN: &str =
    "the answer was lost, and the record does not show the field any more: the edit may have been applied";
pub(super) const CONFLICT: &str = "somebody else changed the same fields";
/// The record was read for the decision, and the answer lacks a field of the edit.
pub(super) const UNSHOWN: &str =
    "the service's answer does not show what the field has: the edit could replace a value that nobody has seen";
/// Nothing confirms the update, and the record does not have all values of the request. A person who decides has to know
/// that the edit may have been applied, whatever its fields show: they may have been changed or archived since.
pub(super) const UNCERTAIN: &str = "no answer confirmed it, and the record changed since: the edit may have been applied before somebody else's change";
/// The record that was read back has the version that the answer to its update showed.
pub(super) const STORED_OTHERWISE: &str =
    "the service accepted it, and stored another value than was sent; nobody has changed the record since";
pub(super) const READ_FIRST: &str = "the record is read before anything else is sent";
pub(super) const UNCONFIRMED: &str =
    "the service did not show the update in its answer: it may have been applied; the record is read back";
pub(super) const OTHER_VERSION: &str =
    "the service has another version of the record, and no answer of an earlier attempt; the record is read back";
pub(super) const IN_DOUBT: &str = "it may have been applied: the record is read back first";
pub(super) const REFUSED: &str = "the service refused it";
/// The service refused the content of a repeated request, and an answer that may lag behind shows the version that it was
/// to replace.
pub(super) const REFUSED_AGAIN: &str =
    "the service refused it after an attempt whose answer was lost: the edit may have been applied";
pub(super) const NOT_FOUND: &str = "the service answered 404; the removal must be confirmed first";
pub(super) const GONE: &str = RECORD_REMOVED;
pub(super) const REPLACED: &str = "replaced by a later edit before it was sent";
pub(super) const ALONE: &str = "refused together with other edits: sent by itself";

/// The service's answer, as far as it was kept, or the text of another error, as JSON.
pub(super) fn of_error(error: &ApiError) -> String {
    match error {
        ApiError::Status(rejection) => serde_json::to_value(rejection).unwrap_or_default().to_string(),
        other => of_text(&other.to_string()),
    }
}

/// A message of crm-mirror, as JSON.
pub(super) fn of_text(message: &str) -> String {
    json!({ "message": message }).to_string()
}

/// A success that does not show the update, and the new version of the record, if it shows one.
pub(super) fn of_success(status: u16, version: Option<&Etag>) -> String {
    let message = format!("status {status}, without the updated record");
    json!({ "message": message, "etag": version.map(Etag::as_str) }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_stored_as_json() {
        assert_eq!(of_text("a \"b\""), r#"{"message":"a \"b\""}"#);
    }
}
