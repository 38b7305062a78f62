//! Decides on the next request of a record, and builds its body. Pure.
//!
//! # Invariants
//! - Edits of one record are sent strictly in order, what is being sent first. One that is being sent or in conflict
//!   blocks the later ones, whatever their columns: a person who resolves the conflict finds them unsent.
//! - Edits that wait for the same reason are merged into one request. An edit that the service refused together with
//!   others is sent alone.
//! - Nothing of an edit is sent that later edits of its request replace: it ends as `replaced`. So a request has the last
//!   value of each column, and its edits never cancel each other.
//! - Held edits are skipped: none of their columns is part of another unsent edit.
//! - A request contains at most 100 custom keys, and nothing that the service is known to refuse. It can be sent.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_verdict::{self, FieldState};
use super::patch_answer;
use super::validate;
use crate::api::Client;
use crate::model::{EditState, Editable, EditedFields, Etag, MirroredRecord, Object};
use crate::store::Edit;

#[derive(Clone, Debug, PartialEq)]
pub enum RecordStep {
    /// Nothing: no edit waits, or the first one needs a decision.
    Nothing,
    /// Read the record: the mirror does not have enough data to decide.
    Read,
    /// The request of this edit is fixed: repeat it, or determine its outcome.
    Resume(i64),
    /// The record already has the values of this edit.
    Settled(i64),
    Refuse(i64, String),
    /// Somebody else changed a field of this edit.
    Conflict(i64),
    Gone(i64),
    /// Later edits replace all that is left of this one.
    Replaced(i64),
    Send(PatchRequest),
}

#[derive(Clone, Debug, PartialEq)]
pub struct PatchRequest {
    /// What it carries of each edit, from the record's value to the one that it sends; of one whose values the record has
    /// already, nothing.
    pub carried: Vec<(i64, EditedFields)>,
    pub body: String,
    pub if_match: Etag,
}

/// Decides on the next action, from the record's open edits in order. `custom` says whether custom values can be
/// written, as far as known; `just_read` whether the record was read for this decision.
pub fn next(
    object: Object,
    edits: &[Edit],
    held: Option<&MirroredRecord>,
    editable: &BTreeMap<String, Editable>,
    (custom, just_read): (bool, bool),
) -> RecordStep {
    // One that changes nothing was made while another was being sent: what the record has depends on what became of that.
    let is_proven = |edit: &Edit, held: &MirroredRecord| {
        let mut known = edit.fields.iter().filter(|(column, _)| editable.contains_key(*column));
        known.all(|(column, (before, after))| held.proves(column, just_read) && (just_read || before != after))
    };
    let mut edits = edits.iter().filter(|edit| edit.merged_into.is_none() && edit.state != EditState::Held);
    let Some(first) = edits.next() else { return RecordStep::Nothing };
    // What is being sent comes first, although one that was retried or released since may be older.
    let sent = [first].into_iter().chain(edits.clone()).find(|edit| edit.state == EditState::Sending);
    match (first.state, sent) {
        (EditState::Queued | EditState::Sending, Some(sent)) => return RecordStep::Resume(sent.id),
        (EditState::Queued, None) => {}
        _ => return RecordStep::Nothing,
    }
    let Some(held) = held else { return RecordStep::Gone(first.id) };
    // Nothing is fixed that cannot be a request: its history would say that it was sent.
    if let Err(why) = Client::check_update(object, &first.record, held.etag.as_ref()) {
        return RecordStep::Refuse(first.id, format!("{why}: crm-mirror refused it, and nothing was sent"));
    }
    let Some(etag) = held.etag.as_ref().filter(|_| is_proven(first, held)) else { return RecordStep::Read };
    if let Err(why) = sendable(object, &first.fields, editable) {
        return RecordStep::Refuse(first.id, why);
    }
    let states = field_verdict::field_states(&first.fields, editable, &held.values);
    match field_verdict::deciding(&states) {
        FieldState::Ours => return RecordStep::Settled(first.id),
        FieldState::Theirs => return RecordStep::Conflict(first.id),
        FieldState::Unchanged => {}
    }
    if !custom && has_custom(&first.fields, editable) {
        return RecordStep::Nothing;
    }
    let mut group = vec![first];
    let mut wanted = first.fields.clone();
    let alone = |edit: &Edit| edit.status.is_some_and(patch_answer::is_refusal_of_content);
    for edit in edits {
        let fits = edit.state == EditState::Queued
            && !alone(first)
            && !alone(edit)
            && is_proven(edit, held)
            && (custom || !has_custom(&edit.fields, editable))
            && sendable(object, &edit.fields, editable).is_ok();
        let together = fits.then(|| joined(&wanted, &edit.fields, editable, held)).flatten();
        let Some(together) = together.filter(|both| sendable(object, both, editable).is_ok()) else { break };
        group.push(edit);
        wanted = together;
    }
    let is_left = |(column, (before, after)): &(&String, &(Value, Value))| {
        let now = held.values.get(*column).unwrap_or(&Value::Null);
        field_verdict::field_state(editable.get(*column), (before, after), now) != FieldState::Ours
    };
    for (place, edit) in group.iter().enumerate() {
        let later = |column: &String| group[place + 1..].iter().any(|later| later.fields.contains_key(column));
        let mut left = edit.fields.iter().filter(is_left).map(|(column, _)| column).peekable();
        if left.peek().is_some() && left.all(later) {
            return RecordStep::Replaced(edit.id);
        }
    }
    wanted.retain(|column, change| is_left(&(column, &*change)));
    let submitted = wanted.iter().map(|(column, (_, after))| (column.as_str(), after));
    let body = match body(object, submitted, editable) {
        Ok(body) => body,
        Err(why) => return RecordStep::Refuse(first.id, why),
    };
    // An edit keeps what a later one of the request replaces: if that one is refused, this one is sent without it.
    let carries = |edit: &&Edit| {
        let own = edit.fields.iter().filter(|change| wanted.contains_key(change.0) && is_left(change));
        (edit.id, own.map(|(column, change)| (column.clone(), change.clone())).collect())
    };
    let carried = group.iter().map(carries).collect();
    RecordStep::Send(PatchRequest { carried, body, if_match: etag.clone() })
}

/// Merges edits, each column from first to last; `None` if one was made on other values than those before leave.
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
            Some((first, last))
                if field_verdict::same(field, before, first) || field_verdict::same(field, before, last) =>
            {
                first.clone()
            }
            Some(_) => return None,
            None => {
                let now = held.values.get(column).unwrap_or(&Value::Null);
                if field_verdict::field_state(field, (before, after), now) == FieldState::Theirs {
                    return None;
                }
                before.clone()
            }
        };
        joined.insert(column.clone(), (first_before, after.clone()));
    }
    Some(joined)
}

/// The changed fields of several edits of one request: each column from before the first to the last.
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

fn has_custom(fields: &EditedFields, editable: &BTreeMap<String, Editable>) -> bool {
    fields.keys().any(|column| editable.get(column).is_some_and(|field| field.data_type.is_some()))
}

/// Whether the service accepts these values, as far as known.
fn sendable(object: Object, fields: &EditedFields, editable: &BTreeMap<String, Editable>) -> Result<(), String> {
    let values = fields.iter().map(|(column, (_, after))| (column.as_str(), after));
    body(object, values, editable).map(drop)
}

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
    Ok(Value::from(validate::request(object, fields)?).to_string())
}

#[cfg(test)]
#[path = "patch_request_tests.rs"]
mod tests;
