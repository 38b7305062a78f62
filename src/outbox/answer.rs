//! What an answer means for the edits that its request carried: one table.
//!
//! # What makes a second update impossible
//! - Body, `If-Match` and `Idempotency-Key` are stored before the first byte is sent, and a retry repeats all three. The
//!   service keeps its answer for 24 hours, so until then a retry finds out what became of the first sending.
//! - What may have been carried out is read back first. Where the record does not show it, and the service still remembers
//!   the key, the same request finds out; after that the record alone decides. A request names the version that it replaces:
//!   an update that was carried out moved it, so the same request cannot be carried out twice.
//! - A new key is made only once it is known that the old request was not carried out, or that it no longer can be.
//!
//! # Doubt
//! A request is in doubt where this or an earlier sending of it had no answer, or one that says nothing about what was
//! done (408, 5xx). No refusal of a retry clears that: when a service looks for a stored answer is not documented, and 401,
//! 403 and 429 may come before it does. So a request in doubt is sent again, or the record is read.

use std::time::Duration;

use crate::model::Instant;

/// How long the service keeps the answer to a key (reference, *Limits*).
pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How much earlier a key counts as forgotten: the last sending takes its time, and two clocks differ.
pub const MARGIN: Duration = Duration::from_secs(10 * 60);

/// What a request brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchOutcome {
    /// It is done, now or by an earlier sending.
    Done,
    /// An error status.
    Refused(u16),
    /// No answer, or a broken one.
    Silence,
    /// It was not sent: the budget, a hold, the end of the program.
    NotSent,
}

/// What is known of the request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// Whether an earlier sending of the same request may have been carried out.
    pub doubt: bool,
    /// How many edits it carries.
    pub edits: usize,
    /// The status of the answer to the request before it, under another key.
    pub last_status: Option<u16>,
}

/// What becomes of the edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The service has them.
    Applied,
    /// The record is read, and what it shows decides.
    Read,
    /// The service does not take it.
    Rejected,
    /// The record is gone.
    Gone,
    /// One of several is refused, and which is not known for sure: each is sent by itself.
    Alone,
    /// The same request is sent again later.
    Again,
    /// Nothing was done: they wait as if they had never been sent.
    Back,
}

/// The table.
pub fn after(answered: PatchOutcome, sent: SentRequest) -> AfterAnswer {
    let again_or_back = if sent.doubt { AfterAnswer::Again } else { AfterAnswer::Back };
    match answered {
        PatchOutcome::Done => AfterAnswer::Applied,
        PatchOutcome::Silence => AfterAnswer::Again,
        PatchOutcome::NotSent => again_or_back,
        PatchOutcome::Refused(status) => match status {
            404 => AfterAnswer::Gone,
            412 => AfterAnswer::Read,
            // The key was used with another request (reference, *Errors*). With a key of 128 random bits that is no
            // accident of ours, but a request that was altered on its way may have been carried out: look first. A
            // second one under a fresh key says that the service means something else by it.
            409 if sent.last_status == Some(409) && !sent.doubt => AfterAnswer::Rejected,
            409 => AfterAnswer::Read,
            300..=399 | 401 | 403 | 425 | 429 => again_or_back,
            status if may_be_carried_out(status) => AfterAnswer::Again,
            _ if sent.doubt => AfterAnswer::Read,
            _ if sent.edits > 1 => AfterAnswer::Alone,
            _ => AfterAnswer::Rejected,
        },
    }
}

/// Whether a status says nothing about what was done: a gateway gave up waiting, or the service failed on its way. 501 and
/// 505 refuse the request itself.
pub const fn may_be_carried_out(status: u16) -> bool {
    matches!(status, 408 | 500..) && !matches!(status, 501 | 505)
}

/// Whether a status says that one edit was refused for what it says, so that others are better sent without it.
pub const fn is_refusal_of_content(status: u16) -> bool {
    !matches!(status, 0..=399 | 401 | 403 | 404 | 408 | 409 | 412 | 425 | 429 | 500..)
}

/// Whether the same request may be sent again, or the record has to be read first.
pub fn may_repeat(first_sent_at: Option<Instant>, now: Instant) -> bool {
    first_sent_at.is_some_and(|first| now.since(first) < RETENTION.saturating_sub(MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(doubt: bool, edits: usize, last_status: Option<u16>) -> SentRequest {
        SentRequest { doubt, edits, last_status }
    }

    #[test]
    fn the_table_of_answers() {
        let (sure, doubtful) = (sent(false, 1, None), sent(true, 1, None));
        for (answered, when_sure, in_doubt) in [
            (PatchOutcome::Done, AfterAnswer::Applied, AfterAnswer::Applied),
            (PatchOutcome::Silence, AfterAnswer::Again, AfterAnswer::Again),
            (PatchOutcome::NotSent, AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(400), AfterAnswer::Rejected, AfterAnswer::Read),
            (PatchOutcome::Refused(422), AfterAnswer::Rejected, AfterAnswer::Read),
            (PatchOutcome::Refused(428), AfterAnswer::Rejected, AfterAnswer::Read),
            (PatchOutcome::Refused(405), AfterAnswer::Rejected, AfterAnswer::Read),
            (PatchOutcome::Refused(302), AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(401), AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(403), AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(404), AfterAnswer::Gone, AfterAnswer::Gone),
            (PatchOutcome::Refused(409), AfterAnswer::Read, AfterAnswer::Read),
            (PatchOutcome::Refused(412), AfterAnswer::Read, AfterAnswer::Read),
            (PatchOutcome::Refused(429), AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(500), AfterAnswer::Again, AfterAnswer::Again),
            (PatchOutcome::Refused(408), AfterAnswer::Again, AfterAnswer::Again),
            (PatchOutcome::Refused(425), AfterAnswer::Back, AfterAnswer::Again),
            (PatchOutcome::Refused(501), AfterAnswer::Rejected, AfterAnswer::Read),
            (PatchOutcome::Refused(503), AfterAnswer::Again, AfterAnswer::Again),
        ] {
            assert_eq!(after(answered, sure), when_sure, "{answered:?}");
            assert_eq!(after(answered, doubtful), in_doubt, "{answered:?} in doubt");
        }
    }

    #[test]
    fn a_refusal_of_several_edits_lets_each_go_alone() {
        for (status, next) in [
            (400, AfterAnswer::Alone),
            (422, AfterAnswer::Alone),
            (404, AfterAnswer::Gone),
            (412, AfterAnswer::Read),
            (403, AfterAnswer::Back),
        ] {
            assert_eq!(after(PatchOutcome::Refused(status), sent(false, 3, None)), next, "{status}");
            assert_eq!(is_refusal_of_content(status), next == AfterAnswer::Alone, "{status}");
        }
    }

    #[test]
    fn a_second_conflict_of_keys_in_a_row_is_no_accident() {
        assert_eq!(after(PatchOutcome::Refused(409), sent(false, 1, Some(409))), AfterAnswer::Rejected);
        assert_eq!(after(PatchOutcome::Refused(409), sent(true, 1, Some(412))), AfterAnswer::Read);
    }

    #[test]
    fn a_key_is_used_again_only_while_the_service_remembers_it() {
        let first = Instant::EPOCH.plus(Duration::from_secs(1_000_000));
        for (minutes, may) in [(0, true), (60, true), (23 * 60 + 49, true), (23 * 60 + 50, false), (48 * 60, false)] {
            let now = first.plus(Duration::from_secs(minutes * 60));
            assert_eq!(may_repeat(Some(first), now), may, "{minutes} minutes");
        }
        assert!(may_repeat(Some(first), first.minus(Duration::from_secs(5))), "a clock that was set back");
        assert!(!may_repeat(None, first), "nobody knows when");
    }
}
