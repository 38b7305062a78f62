//! Compares a record with an edit of it: whether the edited fields changed meanwhile, and what follows. Pure.
//!
//! Values are compared in the form of the mirror's columns, by meaning: decimals as numbers, timestamps in the column's
//! precision.
//!
//! # Cases
//! - 412 on a first attempt: somebody else changed the record. If the edited fields are unchanged, the edit is sent
//!   again, on the new version and with a new key; a field that already has our value needs nothing; else it is a
//!   conflict.
//! - 412 on a retry: the service looks for a stored answer first, so the first attempt was never applied. If a service
//!   checked the version first, our own update would have changed it: then the record has our values, and the edit is
//!   applied.
//! - An answer was lost, and the key has expired: if all values are ours, the edit is applied; if the record has the
//!   version that the request was to replace, it was not applied and is sent again; else it is a conflict. Fields that
//!   have their previous values prove nothing then: the update may have been applied, and somebody set them back, which
//!   sending it again would undo.
//!   If the mirror saw our values in between, they are in its history, and the edit counts as applied: see
//!   [`SendEvidence::seen`]. Only entries that follow the version that the request replaces count, because the clock may
//!   have been set back.
//!
//! # What cannot be detected
//! That somebody set the fields back, if an edit of the same request was dropped within the day, or if a lagging replica
//! shows the version that the request was to replace after the key has expired: then the edit is sent again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check;
use crate::model::{Editable, EditedFields};

/// The state of one edited field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldState {
    /// It has our value.
    Ours,
    /// It has the value from before the edit.
    Unchanged,
    /// Somebody else changed it.
    Theirs,
}

/// Whether two values of a column are equivalent. A column that can no longer be edited is compared verbatim.
pub fn same(field: Option<&Editable>, a: &Value, b: &Value) -> bool {
    match field {
        Some(field) => check::same(field, a, b),
        None => a == b,
    }
}

/// The state of a field, given the record's current value.
pub fn field_state(field: Option<&Editable>, (before, after): (&Value, &Value), now: &Value) -> FieldState {
    if same(field, now, after) {
        FieldState::Ours
    } else if same(field, now, before) {
        FieldState::Unchanged
    } else {
        FieldState::Theirs
    }
}

/// Evidence in addition to the record itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendEvidence {
    /// Whether the request may have been applied.
    pub doubt: bool,
    /// Whether the mirror saw our values since the version that the request replaces.
    pub seen: bool,
    /// Whether the key has expired, and the record has another version than the one that the request replaces.
    pub superseded: bool,
}

/// The verdict on an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is applied.
    Applied,
    /// It is sent, or sent again, on the record's current version.
    Send,
    /// It needs a decision.
    Conflict,
}

/// Decides, from the state of each of its fields.
pub fn verdict(states: &[FieldState], evidence: SendEvidence) -> Verdict {
    let has = |state| states.contains(&state);
    if evidence.doubt && evidence.seen || !has(FieldState::Unchanged) && !has(FieldState::Theirs) {
        return Verdict::Applied;
    }
    if has(FieldState::Theirs) || evidence.doubt && (has(FieldState::Ours) || evidence.superseded) {
        return Verdict::Conflict;
    }
    Verdict::Send
}

/// The state of each field of an edit; a column that the record does not have counts as null.
pub fn field_states(
    fields: &EditedFields,
    editable: &BTreeMap<String, Editable>,
    now: &BTreeMap<String, Value>,
) -> Vec<FieldState> {
    fields
        .iter()
        .map(|(column, (before, after))| {
            let now = now.get(column).unwrap_or(&Value::Null);
            field_state(editable.get(column), (before, after), now)
        })
        .collect()
}

/// The service's values of the edited columns, for the person who decides.
pub fn theirs(fields: &EditedFields, now: &BTreeMap<String, Value>) -> String {
    let held: serde_json::Map<String, Value> =
        fields.keys().map(|column| (column.clone(), now.get(column).cloned().unwrap_or_default())).collect();
    Value::from(held).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_sees_the_values_of_the_edited_columns() {
        let fields: EditedFields = serde_json::from_str(r#"{"a":[1,2],"b":["x","y"]}"#).unwrap();
        let now: BTreeMap<String, Value> = serde_json::from_str(r#"{"a":7,"c":8}"#).unwrap();
        assert_eq!(theirs(&fields, &now), r#"{"a":7,"b":null}"#);
    }
    use crate::model::{CustomTarget, DataType, EditTarget, FieldKey, Object};
    use FieldState::{Ours, Theirs, Unchanged};
    use serde_json::json;

    #[test]
    fn every_combination_has_a_verdict() {
        let sure = SendEvidence::default();
        let doubt = SendEvidence { doubt: true, ..sure };
        let superseded = SendEvidence { superseded: true, ..doubt };
        for (states, when_sure, in_doubt) in [
            (vec![Ours], Verdict::Applied, Verdict::Applied),
            (vec![Ours, Ours], Verdict::Applied, Verdict::Applied),
            (vec![Unchanged], Verdict::Send, Verdict::Send),
            (vec![Unchanged, Unchanged], Verdict::Send, Verdict::Send),
            (vec![Ours, Unchanged], Verdict::Send, Verdict::Conflict),
            (vec![Theirs], Verdict::Conflict, Verdict::Conflict),
            (vec![Ours, Theirs], Verdict::Conflict, Verdict::Conflict),
            (vec![Unchanged, Theirs], Verdict::Conflict, Verdict::Conflict),
            (vec![], Verdict::Applied, Verdict::Applied),
        ] {
            assert_eq!(verdict(&states, sure), when_sure, "{states:?}");
            assert_eq!(verdict(&states, doubt), in_doubt, "{states:?} in doubt");
            let unless_sent = if in_doubt == Verdict::Send { Verdict::Conflict } else { in_doubt };
            assert_eq!(verdict(&states, superseded), unless_sent, "{states:?} in doubt, and of another version");
            let known = SendEvidence { superseded: true, ..sure };
            assert_eq!(verdict(&states, known), when_sure, "{states:?} of another version");
        }
    }

    #[test]
    fn seen_values_settle_only_a_doubt() {
        let seen = |doubt| SendEvidence { doubt, seen: true, superseded: true };
        for states in [[Unchanged], [Theirs]] {
            assert_eq!(verdict(&states, seen(true)), Verdict::Applied);
        }
        assert_eq!(verdict(&[Unchanged], seen(false)), Verdict::Send);
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let field = |data_type| Editable {
            object: Object::Contact,
            column: "cf_x".into(),
            target: EditTarget::Custom(CustomTarget {
                key: FieldKey::new("x"),
                data_type,
                clearable: true,
                options: vec!["a".into(), "b".into()],
            }),
        };
        for (data_type, before, after, now, is) in [
            (DataType::Decimal, json!("1.5"), json!("2.50"), json!("2.5"), Ours),
            (DataType::Decimal, json!("1.50"), json!("2"), json!("1.5"), Unchanged),
            (DataType::Decimal, json!(null), json!("2"), json!("1.5"), Theirs),
            (DataType::ShortText, json!("x"), json!(""), json!(null), Ours),
            (DataType::MultiSelect, json!(null), json!("[ \"a\" ]"), json!("[\"a\"]"), Ours),
            (
                DataType::DateTime,
                json!(null),
                json!("2026-01-02T03:04:05+00:00"),
                json!("2026-01-02T03:04:05.000000Z"),
                Ours,
            ),
            (DataType::Boolean, json!(0), json!(1), json!(0), Unchanged),
        ] {
            assert_eq!(field_state(Some(&field(data_type)), (&before, &after), &now), is, "{data_type:?} {now}");
        }
        assert_eq!(field_state(None, (&json!("a"), &json!("b")), &json!("c")), Theirs);
    }
}
