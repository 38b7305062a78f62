//! What an answer means for the edits that its request carried: one table.
//!
//! # What makes a second update impossible
//! - Body, `If-Match` and `Idempotency-Key` are stored before the first byte is sent, and a retry repeats all three. The
//!   service keeps its answer for 24 hours, so until then a retry finds out what became of the first sending.
//! - After that the record is read before anything is sent. And a request still names the version that it replaces: an
//!   update that was carried out moved it, so the same request cannot be carried out twice.
//! - A new key is made only once it is known that the old request was not carried out, or that it no longer can be.
//!
//! # Doubt
//! A request is in doubt where this or an earlier sending of it had no answer, or one that says nothing about what was
//! done (5xx). No refusal of a retry clears that: when a service looks for a stored answer is not documented, and 401,
//! 403 and 429 may come before it does. So a request in doubt is sent again, or the record is read.

use std::time::Duration;

use crate::model::Instant;

/// How long the service keeps the answer to a key (reference, *Limits*).
pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How much earlier a key counts as forgotten: the last sending takes its time, and two clocks differ.
pub const MARGIN: Duration = Duration::from_secs(10 * 60);

/// What a request brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
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
pub struct Sent {
    /// Whether an earlier sending of the same request may have been carried out.
    pub doubt: bool,
    /// How many edits it carries.
    pub edits: usize,
    /// The status of the answer to the request before it, under another key.
    pub last_status: Option<u16>,
}

/// What becomes of the edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
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
pub fn after(answered: Answered, sent: Sent) -> Next {
    let again_or_back = if sent.doubt { Next::Again } else { Next::Back };
    match answered {
        Answered::Done => Next::Applied,
        Answered::Silence => Next::Again,
        Answered::NotSent => again_or_back,
        Answered::Refused(status) => match status {
            404 => Next::Gone,
            412 => Next::Read,
            // The key was used with another request (reference, *Errors*). With a key of 128 random bits that is no
            // accident of ours, but a request that was altered on its way may have been carried out: look first. A
            // second one under a fresh key says that the service means something else by it.
            409 if sent.last_status == Some(409) && !sent.doubt => Next::Rejected,
            409 => Next::Read,
            300..=399 | 401 | 403 | 429 => again_or_back,
            500.. => Next::Again,
            _ if sent.doubt => Next::Read,
            _ if sent.edits > 1 => Next::Alone,
            _ => Next::Rejected,
        },
    }
}

/// Whether a status says that one edit was refused for what it says, so that others are better sent without it.
pub const fn is_refusal_of_content(status: u16) -> bool {
    !matches!(status, 0..=399 | 401 | 403 | 404 | 409 | 412 | 429 | 500..)
}

/// Whether the same request may be sent again, or the record has to be read first.
pub fn may_repeat(first_sent_at: Option<Instant>, now: Instant) -> bool {
    first_sent_at.is_some_and(|first| now.since(first) < RETENTION.saturating_sub(MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(doubt: bool, edits: usize, last_status: Option<u16>) -> Sent {
        Sent { doubt, edits, last_status }
    }

    #[test]
    fn the_table_of_answers() {
        let (sure, doubtful) = (sent(false, 1, None), sent(true, 1, None));
        for (answered, when_sure, in_doubt) in [
            (Answered::Done, Next::Applied, Next::Applied),
            (Answered::Silence, Next::Again, Next::Again),
            (Answered::NotSent, Next::Back, Next::Again),
            (Answered::Refused(400), Next::Rejected, Next::Read),
            (Answered::Refused(422), Next::Rejected, Next::Read),
            (Answered::Refused(428), Next::Rejected, Next::Read),
            (Answered::Refused(405), Next::Rejected, Next::Read),
            (Answered::Refused(302), Next::Back, Next::Again),
            (Answered::Refused(401), Next::Back, Next::Again),
            (Answered::Refused(403), Next::Back, Next::Again),
            (Answered::Refused(404), Next::Gone, Next::Gone),
            (Answered::Refused(409), Next::Read, Next::Read),
            (Answered::Refused(412), Next::Read, Next::Read),
            (Answered::Refused(429), Next::Back, Next::Again),
            (Answered::Refused(500), Next::Again, Next::Again),
            (Answered::Refused(501), Next::Again, Next::Again),
            (Answered::Refused(503), Next::Again, Next::Again),
        ] {
            assert_eq!(after(answered, sure), when_sure, "{answered:?}");
            assert_eq!(after(answered, doubtful), in_doubt, "{answered:?} in doubt");
        }
    }

    #[test]
    fn a_refusal_of_several_edits_lets_each_go_alone() {
        for (status, next) in
            [(400, Next::Alone), (422, Next::Alone), (404, Next::Gone), (412, Next::Read), (403, Next::Back)]
        {
            assert_eq!(after(Answered::Refused(status), sent(false, 3, None)), next, "{status}");
            assert_eq!(is_refusal_of_content(status), next == Next::Alone, "{status}");
        }
    }

    #[test]
    fn a_second_conflict_of_keys_in_a_row_is_no_accident() {
        assert_eq!(after(Answered::Refused(409), sent(false, 1, Some(409))), Next::Rejected);
        assert_eq!(after(Answered::Refused(409), sent(true, 1, Some(412))), Next::Read);
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
