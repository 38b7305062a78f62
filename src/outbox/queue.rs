//! Puts an edit into the outbox, for `crm-mirror edit`, and those that a program proposes. The triggers of the views queue
//! edits made with SQL.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::typed_values::Given;
use super::validate;
use crate::model::editable::{Editability, Editable};
use crate::model::{EditState, EditedFields, Etag, Instant, Object, RecordId};
use crate::store::queue::{self as stored, NewEdit, QueuedValues};
use crate::store::{EditStep, MirrorTx, ReadTx, StoreError, editable};

#[derive(Clone, Debug, PartialEq)]
pub struct EditRequest {
    pub object: Object,
    pub record: RecordId,
    /// Columns of the `_full` view, and their new values.
    pub changes: Vec<(String, Given)>,
}

/// The request that an edit would become, were it sent now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prepared {
    /// The version that it is made on; `None` if the record must be read before it is sent.
    #[serde(rename = "if_match")]
    pub base_etag: Option<Etag>,
    pub body: Map<String, Value>,
    /// The actual changes; empty if the record already has these values.
    pub fields: EditedFields,
    /// Columns that keep their value although a waiting edit would change them: that edit is cancelled.
    #[serde(rename = "cancelled", serialize_with = "columns")]
    pub taken_back: EditedFields,
}

fn columns<S: Serializer>(fields: &EditedFields, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(fields.keys())
}

/// Validates an edit against the current record and definitions.
pub fn prepare(tx: &ReadTx<'_>, request: &EditRequest) -> Result<Prepared, StoreError> {
    let (object, record) = (request.object, &request.record);
    let fields = fields(tx, request)?;
    let columns: Vec<&str> = fields.iter().map(|(field, _)| &*field.column).collect();
    let seen = editable::seen(tx, object, record, &columns)?;
    let seen = seen.ok_or_else(|| StoreError::Refused(format!("there is no {object} `{record}` in the mirror")))?;
    // Every value is validated, even if it changes nothing.
    for (field, value) in &fields {
        validate::field(field, value).map_err(StoreError::Refused)?;
    }
    let pending = editable::pending_columns(tx, object, record, false)?;
    let (mut changes, mut taken_back, mut body) = (EditedFields::new(), EditedFields::new(), Map::new());
    let mut changed: Vec<(&Editable, Value)> = Vec::new();
    for (field, value) in &fields {
        let before = seen.shown(&field.column);
        if !validate::same(field, &before, value) {
            let after = validate::settled(field, value);
            changes.insert(field.column.to_string(), (before, after.clone()));
            changed.push((field, after));
        } else if pending.contains(&*field.column) {
            taken_back.insert(field.column.to_string(), (before.clone(), before));
        }
    }
    if !changed.is_empty() {
        let values = changed.iter().map(|(field, after)| (*field, after));
        body = validate::request(object, values).map_err(StoreError::Refused)?;
    }
    let is_proven = changed.iter().all(|(field, _)| seen.proves(&field.column, false));
    Ok(Prepared { base_etag: seen.etag.filter(|_| is_proven), body, fields: changes, taken_back })
}

/// Validates an edit and queues it, in the caller's transaction.
pub fn queue(tx: &MirrorTx<'_>, request: &EditRequest, now: Instant) -> Result<QueuedValues, StoreError> {
    queue_from(tx, request, ("edit", "changed with `crm-mirror edit`"), now)
}

/// `source` is the text in `outbox`, `why` the reason of the first step.
fn queue_from(
    tx: &MirrorTx<'_>,
    request: &EditRequest,
    (source, why): (&str, &str),
    now: Instant,
) -> Result<QueuedValues, StoreError> {
    let Prepared { base_etag, mut fields, taken_back, .. } = prepare(tx, request)?;
    fields.extend(taken_back);
    if fields.is_empty() {
        return Ok(QueuedValues::default());
    }
    let (record, base_etag) = (&request.record, base_etag.as_ref());
    let edit = NewEdit { object: request.object, record, source, fields: &fields, base_etag, undoes: None };
    stored::insert(tx, &edit, why, now)
}

/// Validates an edit of a program and queues it as held: it is never sent before a person releases it.
pub fn propose(tx: &MirrorTx<'_>, request: &EditRequest, now: Instant) -> Result<QueuedValues, StoreError> {
    let EditRequest { object, record, .. } = request;
    // A proposal must neither replace nor cancel an edit that a person queued.
    if !tx.edits_of(*object, record)?.is_empty() {
        let why = format!("the {object} `{record}` has pending edits: a person must send, release or drop them first");
        return Err(StoreError::Refused(why));
    }
    let queued = queue_from(tx, request, ("assistant", "proposed by an assistant"), now)?;
    if let Some(id) = queued.edit {
        let why = "held until a person releases it: `crm-mirror outbox release`, or drops it: `crm-mirror outbox drop`";
        tx.edits().take_step(id, &EditStep::new(EditState::Queued, EditState::Held, why), now)?;
    }
    Ok(queued)
}

/// The fields of a request, with their values in the form of the columns.
fn fields(tx: &ReadTx<'_>, request: &EditRequest) -> Result<Vec<(Editable, Value)>, StoreError> {
    let object = request.object;
    let mut columns: BTreeMap<String, Editability> = editable::editability(tx, object)?.into_iter().collect();
    let mut fields: Vec<(Editable, Value)> = Vec::new();
    for (name, given) in &request.changes {
        if fields.iter().any(|(other, _)| *other.column == **name) {
            return Err(StoreError::Refused(format!("`{name}` is given twice")));
        }
        let unknown = || Err(format!("is not a column of {}", object.full_view()));
        let field = columns.remove(name).unwrap_or_else(unknown);
        let field = field.map_err(|why| StoreError::Refused(format!("`{name}` {why}")))?;
        let value = given.column(&field);
        fields.push((field, value));
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
