//! Compares a record with an edit of it: whether the edited fields changed meanwhile, and what follows. Pure.
//!
//! Values are compared in the form of the mirror's columns, by meaning: decimals as numbers, timestamps in the column's
//! precision, the options of a multi-select in any order.
//!
//! # Cases
//! - A request that was surely not carried out, because its version was refused: if the edited fields are unchanged, the
//!   edit is sent again, on the new version and with a new key; a field that already has our value needs nothing; else
//!   it is a conflict.
//! - A request in doubt, because its answer was lost or did not show the update: see [`after_doubt`]. It is never
//!   carried out again: neither a clock nor fields with their previous values prove that it was not applied, since
//!   somebody may have set them back.
//!
//! # Values
//! The value before an edit is what its author saw. An unknown one equals an empty value only, and a value that does
//! not fit its column equals nothing but itself, by its source text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{patch_answer, trail, validate};
use crate::model::{EditState, Editable, EditedFields, field_value, is_unknown};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldState {
    Ours,
    /// It has the value from before the edit.
    Unchanged,
    /// Somebody else changed it.
    Theirs,
}

/// Whether two values of a column are equivalent. A column that can no longer be edited is compared verbatim.
pub fn same(field: Option<&Editable>, a: &Value, b: &Value) -> bool {
    match field {
        Some(field) => validate::same(field, a, b),
        None => a == b,
    }
}

/// Whether two values are equivalent, or the same one in another spelling, as the mirror compares them.
pub fn alike(field: Option<&Editable>, a: &Value, b: &Value) -> bool {
    let of = field.and_then(|field| field.data_type);
    let texts = of.zip(a.as_str()).zip(b.as_str());
    same(field, a, b) || texts.is_some_and(|((of, a), b)| field_value::is_same(of, a, b))
}

pub fn field_state(field: Option<&Editable>, (before, after): (&Value, &Value), now: &Value) -> FieldState {
    let before = if is_unknown(before) { &Value::Null } else { before };
    if same(field, now, after) {
        FieldState::Ours
    } else if alike(field, now, before) {
        // An edit of nothing but the order is one, too.
        FieldState::Unchanged
    } else if alike(field, now, after) {
        FieldState::Ours
    } else {
        FieldState::Theirs
    }
}

/// What decides on an edit: somebody else's change of a field, or else a field that has its value from before. Nothing of
/// an edit whose fields are all ours is left to send.
pub fn deciding(states: &[FieldState]) -> FieldState {
    states.iter().copied().max().unwrap_or(FieldState::Ours)
}

/// Decides on a request in doubt whose record was read back: `ours` if the record has all its values; `unchanged` if it
/// still has the version that the request replaces, with the values from before. `None`: the same request is sent again,
/// and if it was carried out, the service says so, or refuses its version. No clock is asked: whether the service still
/// keeps the answer of the first attempt, only its answer to the same request shows.
///
/// A request that is not `stored` any more is not repeated: the service refuses it for good, or a part of it was
/// discarded. `status` is that of its last answer.
pub fn after_doubt(
    stored: bool,
    status: Option<u16>,
    ours: bool,
    unchanged: bool,
) -> Option<(EditState, &'static str)> {
    // It was repeated, or answered at once, and the answer does not show that it was carried out.
    let is_unconfirmed = matches!(status, Some(200..=299 | 412));
    let is_refused = status.is_some_and(|status| status == 409 || patch_answer::is_refusal_of_content(status));
    Some(match (ours, stored, unchanged) {
        (true, ..) => (EditState::Applied, trail::FOUND),
        (false, true, _) if unchanged || !is_unconfirmed => return None,
        // That answer may lag behind, so it may have been carried out.
        (false, false, true) if is_refused => (EditState::Rejected, trail::REFUSED_AGAIN),
        (false, false, true) => (EditState::Queued, trail::NOT_DONE),
        // It may have been carried out: a person decides.
        (false, _, _) => (EditState::Conflict, trail::UNCERTAIN),
    })
}

/// The state of each field of an edit. What the record does not have of a column is unknown, and counts as changed.
pub fn field_states(
    fields: &EditedFields,
    editable: &BTreeMap<String, Editable>,
    now: &BTreeMap<String, Value>,
) -> Vec<FieldState> {
    fields
        .iter()
        .map(|(column, (before, after))| {
            let state = |now| field_state(editable.get(column), (before, after), now);
            now.get(column).map_or(FieldState::Theirs, state)
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
    use crate::model::DataType;

    #[test]
    fn person_sees_the_values_of_the_edited_columns() {
        let fields: EditedFields = serde_json::from_str(r#"{"a":[1,2],"b":["x","y"]}"#).unwrap();
        let now: BTreeMap<String, Value> = serde_json::from_str(r#"{"a":7,"c":8}"#).unwrap();
        assert_eq!(theirs(&fields, &now), r#"{"a":7,"b":null}"#);
    }
    use crate::model::{Object, unfit_value, unknown_value};
    use FieldState::{Ours, Theirs, Unchanged};
    use serde_json::json;

    #[test]
    fn every_combination_has_a_verdict() {
        for (states, expected) in [
            (vec![Ours], Ours),
            (vec![Ours, Ours], Ours),
            (vec![Unchanged], Unchanged),
            (vec![Unchanged, Unchanged], Unchanged),
            (vec![Ours, Unchanged], Unchanged),
            (vec![Theirs], Theirs),
            (vec![Ours, Theirs], Theirs),
            (vec![Unchanged, Theirs], Theirs),
            (vec![], Ours),
        ] {
            assert_eq!(deciding(&states), expected, "{states:?}");
        }
    }

    #[test]
    fn every_doubt_has_a_verdict_and_none_is_to_begin_anew() {
        let conflict = Some((EditState::Conflict, trail::UNCERTAIN));
        let rejected = Some((EditState::Rejected, trail::REFUSED_AGAIN));
        for (stored, status, unchanged, changed) in [
            (true, None, None, None),
            (true, Some(503), None, None),
            (true, Some(200), None, conflict),
            (true, Some(412), None, conflict),
            (false, Some(409), rejected, conflict),
            (false, Some(422), rejected, conflict),
            (false, None, Some((EditState::Queued, trail::NOT_DONE)), conflict),
            (false, Some(412), Some((EditState::Queued, trail::NOT_DONE)), conflict),
        ] {
            for (is_unchanged, expected) in [(true, unchanged), (false, changed)] {
                let decided = |ours| after_doubt(stored, status, ours, is_unchanged);
                assert_eq!(decided(false), expected, "{stored} {status:?} {is_unchanged}");
                let applied = Some((EditState::Applied, trail::FOUND));
                assert_eq!(decided(true), applied, "{stored} {status:?} {is_unchanged}");
            }
        }
    }

    #[test]
    fn unknown_value_equals_an_empty_one_only() {
        let position = Editable::standard(Object::Contact, "position").unwrap();
        for (now, is) in [
            (json!(null), Unchanged),
            (json!(""), Unchanged),
            (json!("x"), Theirs),
            (json!("new"), Ours),
            (unfit_value("7"), Theirs),
            (unknown_value(), Theirs),
        ] {
            assert_eq!(field_state(Some(&position), (&unknown_value(), &json!("new")), &now), is, "{now}");
        }
        let seen = unfit_value("7");
        for (now, is) in [(unfit_value("7"), Unchanged), (unfit_value("8"), Theirs), (json!(null), Theirs)] {
            assert_eq!(field_state(Some(&position), (&seen, &json!("new")), &now), is, "{now}");
        }
    }

    #[test]
    fn column_that_the_record_does_not_have_is_not_empty() {
        let fields: EditedFields = serde_json::from_str(r#"{"a":[1,null]}"#).unwrap();
        assert_eq!(field_states(&fields, &BTreeMap::new(), &BTreeMap::new()), [Theirs]);
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let field = |data_type| Editable {
            object: Object::Contact,
            column: "cf_x".into(),
            wire: "x".into(),
            data_type: Some(data_type),
            clearable: true,
            detail_only: data_type.detail_only(),
            options: vec!["a".into(), "b".into()],
        };
        for (data_type, before, after, now, is) in [
            (DataType::Decimal, json!("1.5"), json!("2.50"), json!("2.5"), Ours),
            (DataType::Decimal, json!("1.50"), json!("2"), json!("1.5"), Unchanged),
            (DataType::Decimal, json!(null), json!("2"), json!("1.5"), Theirs),
            (DataType::ShortText, json!("x"), json!(""), json!(null), Ours),
            (DataType::MultiSelect, json!(null), json!("[ \"a\" ]"), json!("[\"a\"]"), Ours),
            (DataType::MultiSelect, json!(null), json!(r#"["b","a"]"#), json!(r#"["a","b"]"#), Ours),
            (DataType::MultiSelect, json!(r#"["a","b"]"#), json!(null), json!(r#"["b","a"]"#), Unchanged),
            (DataType::MultiSelect, json!(r#"["a","b"]"#), json!(r#"["b","a"]"#), json!(r#"["a","b"]"#), Unchanged),
            (DataType::MultiSelect, json!(r#"["a","b"]"#), json!(r#"["b","a"]"#), json!(r#"["b","a"]"#), Ours),
            (DataType::MultiSelect, json!(r#"["a"]"#), json!(r#"["b"]"#), json!(r#"["a","b"]"#), Theirs),
            (DataType::ShortText, json!(null), json!(r#"["b","a"]"#), json!(r#"["a","b"]"#), Theirs),
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
