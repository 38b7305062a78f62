//! Puts an edit into the outbox, for `crm-mirror edit` and for the control socket, and those that a program proposes. The
//! triggers of the views queue edits made with SQL.
//!
//! An edit is validated in the transaction that queues it, against the current record and definitions.

use serde_json::{Map, Value};

use super::typed_values::Given;
use super::validate::{self, EditRefusal};
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
    /// The version that the record must have in the mirror.
    pub if_match: Option<Etag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditSource {
    Edit,
    Socket,
}

impl EditSource {
    /// The text in `outbox`, and the reason of the first step.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            EditSource::Edit => ("edit", "changed with `crm-mirror edit`"),
            EditSource::Socket => ("socket", "changed through the control socket"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The actual changes; empty if the record already has these values.
    pub fields: EditedFields,
    /// Columns that keep their value although a waiting edit would change them: that edit is cancelled.
    pub taken_back: EditedFields,
    pub body: Map<String, Value>,
    /// The version that it is made on; `None` if the record must be read before it is sent.
    pub base_etag: Option<Etag>,
}

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("there is no {object} `{record}` in the mirror")]
    NoRecord { object: Object, record: RecordId },
    #[error("`{column}` is not a column of {}", object.full_view())]
    NoColumn { object: Object, column: String },
    #[error("`{column}` {why}")]
    Fixed { column: String, why: String },
    #[error("`{0}` is given twice")]
    Twice(String),
    #[error(transparent)]
    Refused(#[from] EditRefusal),
    #[error("the {object} has the version {here} in the mirror, not {asked}")]
    OtherVersion { object: Object, here: String, asked: Etag },
    /// A proposal must neither replace nor cancel an edit that a person queued.
    #[error("the {object} `{record}` has pending edits: a person must send, release or drop them first")]
    Waiting { object: Object, record: RecordId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub fn prepare(tx: &ReadTx<'_>, request: &EditRequest) -> Result<Prepared, QueueError> {
    let object = request.object;
    let fields = fields(tx, request)?;
    let seen = editable::seen(tx, object, &request.record, fields.iter().map(|(field, _)| field))?;
    let seen = seen.ok_or_else(|| QueueError::NoRecord { object, record: request.record.clone() })?;
    if let Some(asked) = request.if_match.as_ref().filter(|asked| seen.etag.as_ref() != Some(asked)) {
        return Err(QueueError::OtherVersion {
            object,
            here: seen.etag.map_or_else(|| "null".into(), |etag| etag.to_string()),
            asked: asked.clone(),
        });
    }
    // Every value is validated, even if it changes nothing.
    let values: Vec<(&Editable, Value)> = fields.iter().map(|(field, given)| (field, given.column(field))).collect();
    for (field, value) in &values {
        validate::field(field, value)?;
    }
    let pending = editable::pending_columns(tx, object, &request.record)?;
    let (mut changes, mut taken_back) = (EditedFields::new(), EditedFields::new());
    let mut changed: Vec<(&Editable, Value)> = Vec::new();
    for (field, value) in values {
        let before = seen.shown(&field.column);
        if !validate::same(field, &before, &value) {
            let after = validate::settled(field, &value);
            changes.insert(field.column.to_string(), (before, after.clone()));
            changed.push((field, after));
        } else if pending.contains(&*field.column) {
            taken_back.insert(field.column.to_string(), (before.clone(), before));
        }
    }
    let body = match changed.is_empty() {
        true => Map::new(),
        false => validate::request(object, changed.iter().map(|(field, after)| (*field, after)))?,
    };
    let is_proven = changed.iter().all(|(field, _)| seen.proves(&field.column, false));
    Ok(Prepared { fields: changes, taken_back, body, base_etag: seen.etag.filter(|_| is_proven) })
}

/// Validates an edit and queues it, in the caller's transaction.
pub fn queue(
    tx: &MirrorTx<'_>,
    request: &EditRequest,
    source: EditSource,
    now: Instant,
) -> Result<(QueuedValues, Prepared), QueueError> {
    queue_as(tx, request, source.texts(), None, now)
}

/// Validates an edit of a program and queues it as held: it is never sent before a person releases it.
pub fn propose(tx: &MirrorTx<'_>, request: &EditRequest, now: Instant) -> Result<QueuedValues, QueueError> {
    if !tx.edits_of(request.object, &request.record)?.is_empty() {
        return Err(QueueError::Waiting { object: request.object, record: request.record.clone() });
    }
    let (queued, _) = queue_as(tx, request, ("assistant", "proposed by an assistant"), None, now)?;
    if let Some(id) = queued.edit {
        let why = "held until a person releases it: `crm-mirror outbox release`, or drops it: `crm-mirror outbox drop`";
        tx.edits().take_step(id, &EditStep::new(EditState::Queued, EditState::Held, why), now)?;
    }
    Ok(queued)
}

/// Like [`queue()`], with a different source and reason, and the finished edit that it repeats, with its changes: the
/// values before it are those that its author was shown, so another one ends in conflict.
pub(super) fn queue_as(
    tx: &MirrorTx<'_>,
    request: &EditRequest,
    (source, why): (&str, &str),
    repeats: Option<(i64, &EditedFields)>,
    now: Instant,
) -> Result<(QueuedValues, Prepared), QueueError> {
    let mut prepared = prepare(tx, request)?;
    for (column, (before, _)) in &mut prepared.fields {
        if let Some((shown, _)) = repeats.and_then(|(_, fields)| fields.get(column)) {
            before.clone_from(shown);
        }
    }
    if prepared.fields.is_empty() && prepared.taken_back.is_empty() {
        return Ok((QueuedValues::default(), prepared));
    }
    let mut fields = prepared.fields.clone();
    fields.extend(prepared.taken_back.clone());
    let edit = NewEdit {
        object: request.object,
        record: &request.record,
        source,
        fields: &fields,
        base_etag: prepared.base_etag.as_ref(),
        undoes: None,
        repeats: repeats.map(|(edit, _)| edit),
    };
    Ok((stored::insert(tx, &edit, why, now)?, prepared))
}

fn fields<'a>(tx: &ReadTx<'_>, request: &'a EditRequest) -> Result<Vec<(Editable, &'a Given)>, QueueError> {
    let object = request.object;
    let columns = editable::editability(tx, object)?;
    let mut fields: Vec<(Editable, &Given)> = Vec::new();
    for (name, given) in &request.changes {
        let editability = columns.iter().find(|(column, _)| column == name).map(|(_, editability)| editability);
        let field = match editability {
            Some(Editability::Editable(field)) => field,
            Some(fixed) => {
                return Err(QueueError::Fixed { column: name.clone(), why: fixed.refusal().unwrap_or_default() });
            }
            None => return Err(QueueError::NoColumn { object, column: name.clone() }),
        };
        if fields.iter().any(|(other, _)| other.column == field.column) {
            return Err(QueueError::Twice(name.clone()));
        }
        fields.push((field.clone(), given));
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
