//! What a record says about an edit of it: whether the edited fields changed meanwhile, and what follows. Pure.
//!
//! Values are compared as the mirror's columns have them, by what they mean: decimals by number, timestamps as finely as
//! a column holds them.
//!
//! # Every order of events
//! - 412 on a first sending: others changed the record. Where they left the edited fields alone, the edit is sent again,
//!   on the new version and under a new key; a field that already has our value needs nothing; else it is a conflict.
//! - 412 on a retry: the service looks for a stored answer first, so this says that the first sending never came
//!   through. Were a service to look at the version first, our own update would have moved it: then the record shows our
//!   values, and the edit is applied.
//! - An answer was lost, and the key is forgotten: all values ours, applied; none of them changed, not carried out, sent
//!   again; some ours and some as before, somebody changed a part of it after us: a conflict, since sending it again would
//!   undo that.
//!
//! # What nobody can see
//! An update that was carried out, whose answer was lost, whose key is forgotten, and whose every field somebody set
//! back to what it was before: the record looks as if it had never come through, and it is sent again. Where the mirror
//! saw our values in between, they are in its history, and the edit counts as applied: see [`SendEvidence::seen`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::check;
use crate::model::{Editable, EditedFields};

/// How one edited field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStanding {
    /// It has our value.
    Ours,
    /// It is as it was when the edit was made.
    Unchanged,
    /// Somebody else changed it.
    Theirs,
}

/// Whether two values of a column mean the same. A column that can no longer be edited is compared as it is.
pub fn same(field: Option<&Editable>, a: &Value, b: &Value) -> bool {
    match field {
        Some(field) => check::same(field, a, b),
        None => a == b,
    }
}

/// How a field stands, given what the record has now.
pub fn standing(field: Option<&Editable>, (before, after): (&Value, &Value), now: &Value) -> FieldStanding {
    if same(field, now, after) {
        FieldStanding::Ours
    } else if same(field, now, before) {
        FieldStanding::Unchanged
    } else {
        FieldStanding::Theirs
    }
}

/// What is known beside the record itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendEvidence {
    /// Whether the request may have been carried out.
    pub doubt: bool,
    /// Whether the mirror saw our values since the request was first sent.
    pub seen: bool,
}

/// What becomes of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service has it.
    Applied,
    /// It is sent, or sent again, on the version that the record has now.
    Send,
    /// It waits for a person.
    Conflict,
}

/// Decides, from how each of its fields stands.
pub fn verdict(standings: &[FieldStanding], evidence: SendEvidence) -> Verdict {
    let has = |standing| standings.contains(&standing);
    if evidence.doubt && evidence.seen || !has(FieldStanding::Unchanged) && !has(FieldStanding::Theirs) {
        return Verdict::Applied;
    }
    if has(FieldStanding::Theirs) || evidence.doubt && has(FieldStanding::Ours) {
        return Verdict::Conflict;
    }
    Verdict::Send
}

/// How each field of an edit stands to a record's values; a column that the record does not have is null.
pub fn standings(
    fields: &EditedFields,
    editable: &BTreeMap<String, Editable>,
    now: &BTreeMap<String, Value>,
) -> Vec<FieldStanding> {
    fields
        .iter()
        .map(|(column, (before, after))| {
            let now = now.get(column).unwrap_or(&Value::Null);
            standing(editable.get(column), (before, after), now)
        })
        .collect()
}

/// What the edited columns hold at the service, for a person who decides.
pub fn theirs(fields: &EditedFields, now: &BTreeMap<String, Value>) -> String {
    let held: serde_json::Map<String, Value> =
        fields.keys().map(|column| (column.clone(), now.get(column).cloned().unwrap_or_default())).collect();
    Value::from(held).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CustomTarget, DataType, EditTarget, FieldKey, Object};
    use FieldStanding::{Ours, Theirs, Unchanged};
    use serde_json::json;

    #[test]
    fn every_mixture_has_its_verdict() {
        let sure = SendEvidence::default();
        let doubt = SendEvidence { doubt: true, seen: false };
        for (standings, when_sure, in_doubt) in [
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
            assert_eq!(verdict(&standings, sure), when_sure, "{standings:?}");
            assert_eq!(verdict(&standings, doubt), in_doubt, "{standings:?} in doubt");
        }
    }

    #[test]
    fn values_that_the_mirror_saw_in_between_settle_a_doubt_and_nothing_else() {
        let seen = |doubt| SendEvidence { doubt, seen: true };
        for standings in [[Unchanged], [Theirs]] {
            assert_eq!(verdict(&standings, seen(true)), Verdict::Applied);
        }
        assert_eq!(verdict(&[Unchanged], seen(false)), Verdict::Send);
    }

    #[test]
    fn values_are_compared_by_what_they_mean() {
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
            assert_eq!(standing(Some(&field(data_type)), (&before, &after), &now), is, "{data_type:?} {now}");
        }
        assert_eq!(standing(None, (&json!("a"), &json!("b")), &json!("c")), Theirs);
    }
}
