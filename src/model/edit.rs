//! What a local edit of one record may become, and what its columns hold.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::ids::Etag;
use super::instant::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantNames, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum EditState {
    Queued,
    /// Waiting until a person releases it; its history says why.
    Held,
    /// The request is fixed, and may have been carried out.
    Sending,
    Applied,
    /// Somebody else changed the same field: a person decides.
    Conflict,
    Rejected,
    Dropped,
    /// A later edit of the same columns replaced it before it was sent.
    Replaced,
}

impl EditState {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub const fn is_final(self) -> bool {
        matches!(self, EditState::Applied | EditState::Rejected | EditState::Dropped | EditState::Replaced)
    }

    /// A rejected edit is counted until a person drops it or has it sent again, as one that was dropped or replaced may be,
    /// too. An edit that was sent is never replaced, and is held only in a copy of the mirror, with its request.
    pub const fn may_become(self, next: EditState) -> bool {
        use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
        match self {
            Queued => matches!(next, Held | Sending | Applied | Conflict | Rejected | Dropped | Replaced),
            Held => matches!(next, Queued | Sending | Rejected | Dropped | Replaced),
            Sending => matches!(next, Sending | Held | Queued | Applied | Conflict | Rejected | Dropped),
            Conflict => matches!(next, Queued | Applied | Rejected | Dropped),
            Rejected => matches!(next, Dropped | Queued),
            Dropped | Replaced => matches!(next, Queued),
            Applied => false,
        }
    }
}

/// What a person can do about held edits. Every notice of some names all of it: often the edits are an accident.
pub const HELD_COMMANDS: &str = "`crm-mirror outbox list` shows them, `crm-mirror outbox drop --all` discards them, \
     `crm-mirror outbox release --all` sends them";

/// What an edit does to its columns: the value before it, as its author saw it, and the value wanted. An object,
/// which no column holds, stands for a value that the mirror does not have there: [`unknown_value`], [`unfit_value`].
pub type EditedFields = BTreeMap<String, (Value, Value)>;

/// The member that marks a value that does not fit its column.
const UNFIT: &str = "unfit";

/// The value before an edit whose author did not see it: it was not read, or does not fit the column. Such an edit
/// replaces nothing but an empty value.
pub fn unknown_value() -> Value {
    serde_json::json!({ "unknown": true })
}

/// The service's value of a column that cannot hold it, by its source text.
pub fn unfit_value(source: &str) -> Value {
    serde_json::json!({ UNFIT: source })
}

/// Whether an edit's author did not see this value.
pub fn is_unknown(value: &Value) -> bool {
    value.is_object() && value.get(UNFIT).is_none()
}

pub fn unfit_source(value: &Value) -> Option<&str> {
    value.get(UNFIT)?.as_str()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DelayScope {
    Record,
    /// Every edit of an object: the key lacks the scope, or the service fails for one record after another.
    Object,
    /// Instead of that, every edit of the records of an object that seem to be removed, while a person has to decide it.
    Missed,
    /// The edits of an object's custom fields: the plan does not allow them to be written.
    CustomFields,
}

impl DelayScope {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RetryDelay {
    /// Requests since an edit last finished.
    pub requests: u32,
    /// Those of them since the last gap of an hour.
    pub recent: u32,
    pub last_at: Instant,
    pub not_before: Instant,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MirroredRecord {
    pub etag: Option<Etag>,
    /// Whether the detail has that version too.
    pub details_current: bool,
    /// The requested columns that exist; one that cannot hold the service's value has an [`unfit_value`].
    pub values: BTreeMap<String, Value>,
    /// Those of them that are NULL because no answer with them was read.
    pub unread: BTreeSet<String>,
    /// Those of them whose value may be of another version than the record: a request needs a read first.
    pub unproven: BTreeSet<String>,
}

impl MirroredRecord {
    /// What a person sees in a column, for the "before" of an edit.
    pub fn shown(&self, column: &str) -> Value {
        match self.values.get(column) {
            Some(value) if value.is_object() || self.unread.contains(column) => unknown_value(),
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }

    /// Whether a column has the service's value at the record's version. `just_read`: the detail was read a moment ago,
    /// with every column that there is now.
    pub fn proves(&self, column: &str, just_read: bool) -> bool {
        !self.unproven.contains(column) || just_read && self.details_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_table_is_complete() {
        use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
        let allowed = [
            (Queued, vec![Held, Sending, Applied, Conflict, Rejected, Dropped, Replaced]),
            (Held, vec![Queued, Sending, Rejected, Dropped, Replaced]),
            (Sending, vec![Queued, Held, Sending, Applied, Conflict, Rejected, Dropped]),
            (Conflict, vec![Queued, Applied, Rejected, Dropped]),
            (Applied, vec![]),
            (Rejected, vec![Dropped, Queued]),
            (Dropped, vec![Queued]),
            (Replaced, vec![Queued]),
        ];
        for (from, to) in &allowed {
            for (next, _) in &allowed {
                assert_eq!(from.may_become(*next), to.contains(next), "{from:?} to {next:?}");
            }
            assert_eq!(from.is_final(), matches!(from, Applied | Rejected | Dropped | Replaced), "{from:?}");
            assert_eq!(from.as_str().parse(), Ok(*from));
        }
        assert!("Queued".parse::<EditState>().is_err());
    }
}
