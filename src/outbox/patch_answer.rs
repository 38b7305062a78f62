//! The effect of an answer on the edits of its request: one table.
//!
//! # Why an update is never applied twice
//! - A retry repeats body, `If-Match` and `Idempotency-Key`, stored before the first byte. An update changes the
//!   version that it replaces, so it cannot be applied twice, whether the service still keeps its answer or not.
//! - A new key is made only once an answer shows that the old request was not applied, never because time has passed.
//!
//! # Confirmation
//! A status of the class 2xx confirms nothing by itself: see [`new_version`].
//!
//! # Doubt
//! A request is in doubt if one of its attempts had no answer, or an inconclusive one (408, 5xx, a success that does not
//! show the update). A refused retry does not clear the doubt: the reference does not say when a service looks up a
//! stored answer, and 401, 403 and 429 may come before that. So a request in doubt is repeated, or the record is read.

use crate::api::ApiError;
use crate::model::Etag;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredRequest {
    pub carrier: i64,
    pub edits: Vec<i64>,
    pub body: String,
    pub if_match: Etag,
    pub key: String,
    /// Whether an earlier attempt may have been applied.
    pub doubt: bool,
    /// The status of the answer to the previous request, which had a different key.
    pub last_status: Option<u16>,
    pub custom: bool,
    /// Whether its object's delay counts it: it tests whether updates are still refused.
    pub tests_object: bool,
    pub number: u64,
}

/// What became of a request that no answer confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchOutcome {
    /// A success that shows no new version of the record.
    Unconfirmed(u16),
    /// A success with a new version of the record, in which not every value is as it was sent. The service accepts updates.
    StoredOtherwise,
    Refused(u16),
    Silence,
    /// It cannot be sent.
    NotSent,
    /// The budget, a hold or the end of the run kept it here: that is no failure.
    NotAdmitted,
}

impl PatchOutcome {
    pub(super) fn of(error: &ApiError, unanswered: bool) -> PatchOutcome {
        match (error, error.status()) {
            // A gateway's answer says nothing about the edit, nor about the record.
            (ApiError::Status(rejection), _) if unanswered && !rejection.envelope => PatchOutcome::Silence,
            (_, Some(status)) => PatchOutcome::Refused(status),
            (ApiError::NotAdmitted(_), _) => PatchOutcome::NotAdmitted,
            _ if unanswered => PatchOutcome::Silence,
            _ => PatchOutcome::NotSent,
        }
    }

    pub(super) const fn status(self) -> Option<u16> {
        match self {
            PatchOutcome::Unconfirmed(status) | PatchOutcome::Refused(status) => Some(status),
            PatchOutcome::StoredOtherwise => Some(200),
            PatchOutcome::Silence | PatchOutcome::NotSent | PatchOutcome::NotAdmitted => None,
        }
    }

    pub(super) const fn was_sent(self) -> bool {
        !matches!(self, PatchOutcome::NotSent | PatchOutcome::NotAdmitted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The request is discarded: the record is read, and its values decide.
    Reread,
    /// The request is kept: the record is read back at once.
    ReadBack,
    Rejected,
    /// One answer says that the record does not exist: the edits wait until that is confirmed or refuted.
    NotFound,
    /// One of several edits is refused, and it is not certain which: each is sent by itself.
    SendAlone,
    /// The same request is repeated later.
    SendAgain,
    /// Nothing was applied: the edits wait as if they had never been sent.
    Requeue,
}

pub(super) fn classify(answered: PatchOutcome, sent: &StoredRequest) -> AfterAnswer {
    let again_or_back = if sent.doubt { AfterAnswer::SendAgain } else { AfterAnswer::Requeue };
    match answered {
        PatchOutcome::Unconfirmed(_) | PatchOutcome::StoredOtherwise => AfterAnswer::ReadBack,
        PatchOutcome::Silence => AfterAnswer::SendAgain,
        PatchOutcome::NotSent | PatchOutcome::NotAdmitted => again_or_back,
        PatchOutcome::Refused(status) => match status {
            404 => AfterAnswer::NotFound,
            412 if sent.doubt => AfterAnswer::ReadBack,
            412 => AfterAnswer::Reread,
            // The key was used with a different request (reference, *Errors*): one that was altered in transit, which
            // may have been applied. A second 409 under a new key: the service uses the status for something else.
            409 if sent.last_status == Some(409) && !sent.doubt => AfterAnswer::Rejected,
            409 => AfterAnswer::Reread,
            300..=399 | 401 | 403 | 425 | 429 => again_or_back,
            // Inconclusive: a gateway timed out, or the service failed during the request. 501 and 505 refuse the request itself.
            408 | 500 | 502..=504 | 506.. => AfterAnswer::SendAgain,
            _ if sent.doubt => AfterAnswer::Reread,
            _ if sent.edits.len() > 1 => AfterAnswer::SendAlone,
            _ => AfterAnswer::Rejected,
        },
    }
}

/// Whether a status refuses the content of one edit, so that the others should be sent without it.
pub const fn is_refusal_of_content(status: u16) -> bool {
    !matches!(status, 0..=399 | 401 | 403 | 404 | 408 | 409 | 412 | 425 | 429 | 500..)
}

/// The version of this record that an answer shows, if the update may have made it. With the values that were sent, that
/// confirms the update.
pub fn new_version(status: u16, etag: Option<Etag>, if_match: &Etag) -> Option<Etag> {
    etag.filter(|etag| status == 200 && etag != if_match)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(doubt: bool, edits: i64, last_status: Option<u16>) -> StoredRequest {
        StoredRequest {
            carrier: 1,
            edits: (1..=edits).collect(),
            body: String::new(),
            if_match: Etag::new("v1"),
            key: String::new(),
            doubt,
            last_status,
            custom: false,
            tests_object: false,
            number: 0,
        }
    }

    #[test]
    fn answers_have_the_documented_effect() {
        let (sure, doubtful) = (sent(false, 1, None), sent(true, 1, None));
        for (answered, when_sure, in_doubt) in [
            (PatchOutcome::Unconfirmed(202), AfterAnswer::ReadBack, AfterAnswer::ReadBack),
            (PatchOutcome::StoredOtherwise, AfterAnswer::ReadBack, AfterAnswer::ReadBack),
            (PatchOutcome::Silence, AfterAnswer::SendAgain, AfterAnswer::SendAgain),
            (PatchOutcome::NotSent, AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::NotAdmitted, AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(400), AfterAnswer::Rejected, AfterAnswer::Reread),
            (PatchOutcome::Refused(422), AfterAnswer::Rejected, AfterAnswer::Reread),
            (PatchOutcome::Refused(428), AfterAnswer::Rejected, AfterAnswer::Reread),
            (PatchOutcome::Refused(405), AfterAnswer::Rejected, AfterAnswer::Reread),
            (PatchOutcome::Refused(302), AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(401), AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(403), AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(404), AfterAnswer::NotFound, AfterAnswer::NotFound),
            (PatchOutcome::Refused(409), AfterAnswer::Reread, AfterAnswer::Reread),
            (PatchOutcome::Refused(412), AfterAnswer::Reread, AfterAnswer::ReadBack),
            (PatchOutcome::Refused(429), AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(500), AfterAnswer::SendAgain, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(408), AfterAnswer::SendAgain, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(425), AfterAnswer::Requeue, AfterAnswer::SendAgain),
            (PatchOutcome::Refused(501), AfterAnswer::Rejected, AfterAnswer::Reread),
            (PatchOutcome::Refused(503), AfterAnswer::SendAgain, AfterAnswer::SendAgain),
        ] {
            assert_eq!(classify(answered, &sure), when_sure, "{answered:?}");
            assert_eq!(classify(answered, &doubtful), in_doubt, "{answered:?} in doubt");
        }
    }

    #[test]
    fn refusal_of_several_edits_splits_them() {
        for (status, next) in [
            (400, AfterAnswer::SendAlone),
            (422, AfterAnswer::SendAlone),
            (404, AfterAnswer::NotFound),
            (412, AfterAnswer::Reread),
            (403, AfterAnswer::Requeue),
        ] {
            for edits in [2, 3] {
                assert_eq!(classify(PatchOutcome::Refused(status), &sent(false, edits, None)), next, "{status}");
            }
            assert_eq!(is_refusal_of_content(status), next == AfterAnswer::SendAlone, "{status}");
        }
    }

    #[test]
    fn second_key_conflict_in_a_row_rejects_the_edit() {
        assert_eq!(classify(PatchOutcome::Refused(409), &sent(false, 1, Some(409))), AfterAnswer::Rejected);
        for last_status in [409, 412] {
            assert_eq!(classify(PatchOutcome::Refused(409), &sent(true, 1, Some(last_status))), AfterAnswer::Reread);
        }
    }

    #[test]
    fn only_a_success_shows_a_new_version() {
        let (old, new) = (Etag::new("v1"), Etag::new("v2"));
        assert_eq!(new_version(200, Some(new.clone()), &old), Some(new.clone()));
        for (status, etag) in [(202, Some(&new)), (204, Some(&new)), (200, None), (200, Some(&old))] {
            assert_eq!(new_version(status, etag.cloned(), &old), None, "{status} {etag:?}");
        }
    }
}
