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
}

impl EditState {
    /// All of them.
    pub const ALL: [EditState; 6] = [
        EditState::Queued,
        EditState::Sending,
        EditState::Applied,
        EditState::Conflict,
        EditState::Rejected,
        EditState::Dropped,
    ];

    /// The text in `outbox` and `outbox_events`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether nothing more becomes of the edit.
    pub const fn is_final(self) -> bool {
        matches!(self, EditState::Applied | EditState::Rejected | EditState::Dropped)
    }

    /// Whether an edit may go from this state to another. What is final stays; a request that may have been carried
    /// out cannot be given up.
    pub const fn may_become(self, next: EditState) -> bool {
        use EditState::{Applied, Conflict, Dropped, Queued, Rejected, Sending};
        match self {
            Queued => matches!(next, Sending | Applied | Conflict | Rejected | Dropped),
            Sending => matches!(next, Sending | Queued | Applied | Conflict | Rejected),
            Conflict => matches!(next, Queued | Applied | Rejected | Dropped),
            Applied | Rejected | Dropped => false,
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
    /// How often a request with it was sent.
    pub attempts: u32,
    /// When the fixed request was first sent.
    pub first_sent_at: Option<Instant>,
    /// The status of the last answer.
    pub status: Option<u16>,
    /// The edit that carries this one along.
    pub merged_into: Option<i64>,
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
        use EditState::{Applied, Conflict, Dropped, Queued, Rejected, Sending};
        let allowed = [
            (Queued, vec![Sending, Applied, Conflict, Rejected, Dropped]),
            (Sending, vec![Queued, Sending, Applied, Conflict, Rejected]),
            (Conflict, vec![Queued, Applied, Rejected, Dropped]),
            (Applied, vec![]),
            (Rejected, vec![]),
            (Dropped, vec![]),
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
