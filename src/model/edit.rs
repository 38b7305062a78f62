//! A local edit of one record, as the mirror's `outbox` keeps it.

use std::collections::BTreeMap;

use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::catalogue::Object;
use super::ids::{Etag, RecordId};
use super::instant::Instant;

/// How far an edit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum EditState {
    /// It waits to be sent.
    Queued,
    /// It is one of too many new edits: it waits until a person releases it.
    Held,
    /// Its request is fixed, and may have been carried out.
    Sending,
    /// The service has it.
    Applied,
    /// Another changed the same field: a person decides.
    Conflict,
    /// The service does not take it.
    Rejected,
    /// A person gave it up.
    Dropped,
    /// A later edit of the same columns took its place before it was sent.
    Replaced,
}

impl EditState {
    /// All of them.
    pub const ALL: [EditState; 8] = [
        EditState::Queued,
        EditState::Held,
        EditState::Sending,
        EditState::Applied,
        EditState::Conflict,
        EditState::Rejected,
        EditState::Dropped,
        EditState::Replaced,
    ];

    /// The text in `outbox` and `outbox_events`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether nothing more becomes of the edit.
    pub const fn is_final(self) -> bool {
        matches!(self, EditState::Applied | EditState::Rejected | EditState::Dropped | EditState::Replaced)
    }

    /// Whether an edit may go from this state to another. What is final stays; what was sent is never held or replaced.
    pub const fn may_become(self, next: EditState) -> bool {
        use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
        match self {
            Queued => matches!(next, Held | Sending | Applied | Conflict | Rejected | Dropped | Replaced),
            Held => matches!(next, Queued | Rejected | Dropped | Replaced),
            Sending => matches!(next, Sending | Queued | Applied | Conflict | Rejected | Dropped),
            Conflict => matches!(next, Queued | Applied | Rejected | Dropped),
            Applied | Rejected | Dropped | Replaced => false,
        }
    }
}

/// What an edit does to its columns: the value that whoever made it saw, and the value wanted.
pub type EditedFields = BTreeMap<String, (Value, Value)>;

/// An edit that is not at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Its number; edits of one record go in this order.
    pub id: i64,
    /// Whose record it is of.
    pub object: Object,
    /// The record.
    pub record: RecordId,
    /// How far it is.
    pub state: EditState,
    /// What it changes.
    pub fields: EditedFields,
    /// The request's body, once it is fixed.
    pub body: Option<String>,
    /// The version that the request replaces.
    pub if_match: Option<Etag>,
    /// The request's key.
    pub idempotency_key: Option<String>,
    /// When the fixed request was first sent.
    pub first_sent_at: Option<Instant>,
    /// The status of the last answer.
    pub status: Option<u16>,
    /// The edit that carries this one along.
    pub merged_into: Option<i64>,
    /// The version that it was made on; `None` where it touches what was never read here.
    pub base_etag: Option<Etag>,
}

/// What waits before another request is made for edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DelayScope {
    /// The edits of one record.
    Record,
    /// Every edit of an object: the key lacks the scope, or the service fails for record after record.
    Object,
    /// The edits of an object's custom fields: the plan does not let them be written.
    CustomFields,
}

impl DelayScope {
    /// The text in `outbox_delays`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Requests that were made without success, and until when no other follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryDelay {
    /// Requests since an edit last came to its end.
    pub requests: u32,
    /// Those of them since the last pause of an hour.
    pub recent: u32,
    /// When the last of them was made.
    pub last_at: Instant,
    /// When the next request may be made.
    pub not_before: Instant,
}

/// What the mirror has of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct MirroredRecord {
    /// The record's version.
    pub etag: Option<Etag>,
    /// Whether the detail is of that version too.
    pub details_current: bool,
    /// The columns that were asked for and exist.
    pub values: BTreeMap<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_transitions() {
        use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
        let allowed = [
            (Queued, vec![Held, Sending, Applied, Conflict, Rejected, Dropped, Replaced]),
            (Held, vec![Queued, Rejected, Dropped, Replaced]),
            (Sending, vec![Queued, Sending, Applied, Conflict, Rejected, Dropped]),
            (Conflict, vec![Queued, Applied, Rejected, Dropped]),
            (Applied, vec![]),
            (Rejected, vec![]),
            (Dropped, vec![]),
            (Replaced, vec![]),
        ];
        for (from, to) in allowed {
            for next in EditState::ALL {
                assert_eq!(from.may_become(next), to.contains(&next), "{from:?} to {next:?}");
            }
            assert_eq!(from.is_final(), to.is_empty(), "{from:?}");
            assert_eq!(from.as_str().parse(), Ok(from));
        }
        assert!("Queued".parse::<EditState>().is_err());
    }
}
