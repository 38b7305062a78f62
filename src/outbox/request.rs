//! Which request comes next for a record, and its body: pure.
//!
//! # Always true
//! - Edits of one record go strictly in order. One that is being sent, or that is in conflict, holds every later edit of
//!   the same record, whatever columns they touch: whoever decides about a conflict finds the later edits still there,
//!   and nothing overtakes.
//! - Edits that wait behind each other become one request, whose value for a column is the last one wanted. An edit that
//!   the service refused together with others goes alone.
//! - Edits that a person has to release are passed over: no column of theirs stands in another edit that was not sent.
//! - A request holds at most 100 custom keys, and nothing that the service would refuse as far as can be known here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::answer;
use super::check;
use super::rebase::{self, FieldStanding, Verdict};
use crate::model::{Edit, EditState, Editable, EditedFields, Etag, MirroredRecord, Object};

/// What is to be done next for a record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordStep {
    /// Nothing: no edit waits, or what is in front has to be decided first.
    Nothing,
    /// The record has to be read: what the mirror has is not enough to decide.
    Read,
    /// This edit's request is fixed: it is sent again, or what became of it is found out.
    Resume(i64),
    /// The service has what this edit wants.
    Settled(i64),
    /// The service will not take this edit.
    Refuse(i64, String),
    /// Somebody else changed what this edit changes.
    Conflict(i64),
    /// The record is not here.
    Gone(i64),
    /// A new request for these edits, the first of which carries the others.
    Send(PatchRequest),
}

/// A request to be fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchRequest {
    /// The edits, in order.
    pub edits: Vec<i64>,
    /// The body.
    pub body: String,
    /// The version that it replaces.
    pub if_match: Etag,
}

/// Decides what comes next, from the record's open edits in order. `custom` says whether custom values may be written,
/// as far as is known.
pub fn next(
    object: Object,
    edits: &[Edit],
    held: Option<&MirroredRecord>,
    editable: &BTreeMap<String, Editable>,
    custom: bool,
) -> RecordStep {
    let mut edits = edits.iter().filter(|edit| edit.merged_into.is_none() && edit.state != EditState::Held);
    let Some(first) = edits.next() else { return RecordStep::Nothing };
    match first.state {
        EditState::Sending => return RecordStep::Resume(first.id),
        EditState::Queued => {}
        _ => return RecordStep::Nothing,
    }
    let Some(held) = held else { return RecordStep::Gone(first.id) };
    if held.etag.is_none() || !held.details_current && needs_detail(first, editable) {
        return RecordStep::Read;
    }
    if let Err(why) = sendable(object, &first.fields, editable) {
        return RecordStep::Refuse(first.id, why);
    }
    let standings = rebase::standings(&first.fields, editable, &held.values);
    match rebase::verdict(&standings, rebase::SendEvidence::default()) {
        Verdict::Applied => return RecordStep::Settled(first.id),
        Verdict::Conflict => return RecordStep::Conflict(first.id),
        Verdict::Send => {}
    }
    if !custom && has_custom(&first.fields, editable) {
        return RecordStep::Nothing;
    }
    let mut group = vec![first.id];
    let mut wanted = first.fields.clone();
    let alone = |edit: &Edit| edit.status.is_some_and(answer::is_refusal_of_content);
    if !alone(first) {
        for edit in edits {
            let fits = edit.state == EditState::Queued
                && !alone(edit)
                && (held.details_current || !needs_detail(edit, editable))
                && (custom || !has_custom(&edit.fields, editable))
                && sendable(object, &edit.fields, editable).is_ok();
            let Some(together) = fits.then(|| joined(&wanted, &edit.fields, editable, held)).flatten() else {
                break;
            };
            if sendable(object, &together, editable).is_err() {
                break;
            }
            group.push(edit.id);
            wanted = together;
        }
    }
    let submitted = wanted.iter().filter(|(column, (before, after))| {
        let now = held.values.get(*column).unwrap_or(&Value::Null);
        rebase::standing(editable.get(*column), (before, after), now) != FieldStanding::Ours
    });
    let submitted = submitted.map(|(column, (_, after))| (column.as_str(), after));
    match (body(object, submitted, editable), &held.etag) {
        (Ok(body), Some(etag)) => RecordStep::Send(PatchRequest { edits: group, body, if_match: etag.clone() }),
        // Together they undo each other: the first goes alone.
        _ if group.len() > 1 => next(object, std::slice::from_ref(first), Some(held), editable, custom),
        (Err(why), _) => RecordStep::Refuse(first.id, why),
        (Ok(_), None) => RecordStep::Read,
    }
}

/// Several edits as one: each column from what it was before the first to what the last wants. `None` where an edit was
/// made on other values than those in front of it leave.
fn joined(
    wanted: &EditedFields,
    more: &EditedFields,
    editable: &BTreeMap<String, Editable>,
    held: &MirroredRecord,
) -> Option<EditedFields> {
    let mut joined = wanted.clone();
    for (column, (before, after)) in more {
        let field = editable.get(column);
        let first_before = match wanted.get(column) {
            Some((first, last)) if rebase::same(field, before, first) || rebase::same(field, before, last) => {
                first.clone()
            }
            Some(_) => return None,
            None => {
                let now = held.values.get(column).unwrap_or(&Value::Null);
                if rebase::standing(field, (before, after), now) == FieldStanding::Theirs {
                    return None;
                }
                before.clone()
            }
        };
        joined.insert(column.clone(), (first_before, after.clone()));
    }
    Some(joined)
}

/// The edited fields of several edits of one request: each column from before the first to the last.
pub fn union<'a>(edits: impl IntoIterator<Item = &'a Edit>) -> EditedFields {
    let mut fields = EditedFields::new();
    for (column, (before, after)) in edits.into_iter().flat_map(|edit| &edit.fields) {
        fields
            .entry(column.clone())
            .and_modify(|(_, last)| last.clone_from(after))
            .or_insert_with(|| (before.clone(), after.clone()));
    }
    fields
}

fn needs_detail(edit: &Edit, editable: &BTreeMap<String, Editable>) -> bool {
    edit.fields.keys().any(|column| editable.get(column).is_some_and(Editable::detail_only))
}

fn has_custom(fields: &EditedFields, editable: &BTreeMap<String, Editable>) -> bool {
    fields.keys().any(|column| editable.get(column).is_some_and(|field| field.key().is_some()))
}

/// Whether the service can take these values, as far as can be known here.
fn sendable(object: Object, fields: &EditedFields, editable: &BTreeMap<String, Editable>) -> Result<(), String> {
    let values = fields.iter().map(|(column, (_, after))| (column.as_str(), after));
    body(object, values, editable).map(drop)
}

/// The body that gives these columns these values.
///
/// # Errors
/// Why the service would not take it, in a sentence.
pub fn body<'a>(
    object: Object,
    values: impl Iterator<Item = (&'a str, &'a Value)>,
    editable: &BTreeMap<String, Editable>,
) -> Result<String, String> {
    let fields: Vec<(&Editable, &Value)> = values
        .map(|(column, value)| {
            let field = editable.get(column);
            let field =
                field.ok_or_else(|| format!("`{column}` cannot be edited: no writable field has this column now"))?;
            Ok((field, value))
        })
        .collect::<Result<_, String>>()?;
    let body = check::request(object, fields).map_err(|refusal| refusal.to_string())?;
    Ok(Value::from(body).to_string())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
