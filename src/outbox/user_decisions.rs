//! A person's decisions about an edit: retry it, drop it, release it, undo it, or resolve a conflict.
//!
//! # Invariants
//! - A request that may have been applied is never dropped silently: a person who drops one of its edits is informed.
//! - Resolving a conflict in favour of the edit applies only to the values that the person saw. If the record has
//!   changed again since, it is a conflict again.
//! - An undo is sent only if the record still has the values of the edit, and to the workspace that the edit was applied
//!   in. It reverts what was applied, no value that somebody else set in between, and no edit that waits.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::edit_tx::idempotency_key;
use super::field_verdict::{self, FieldState};
use super::patch_request;
use crate::model::{EditState, Editable, EditedFields, Instant, Object, RecordId, is_unknown};
use crate::store::outbox_report::{self, AppliedEdit};
use crate::store::queue::{self as stored, NewEdit};
use crate::store::{Edit, EditStep, MirrorTx, StoreError, editable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Retry,
    Drop,
    /// Release the edit although it is one of many.
    Release,
    /// In a conflict: the edit replaces the service's value.
    Mine,
    /// In a conflict: the service's value is kept.
    Theirs,
}

impl Decision {
    /// Whether it applies to an edit that is not named, as one of all. One that was sent must be named, and one that an
    /// assistant proposed, to be released.
    pub fn means(self, edit: &Edit) -> bool {
        match self {
            Decision::Release => edit.state == EditState::Held && edit.source != "assistant",
            _ => matches!(edit.state, EditState::Queued | EditState::Held | EditState::Conflict),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decided {
    pub edit: i64,
    pub state: EditState,
    /// Whether it was dropped although it may have been applied.
    pub in_doubt: bool,
    /// The changes that will be sent; empty if there are none.
    pub fields: EditedFields,
}

impl Decided {
    fn new(edit: i64, state: EditState, fields: EditedFields) -> Decided {
        Decided { edit, state, in_doubt: false, fields }
    }
}

pub fn decide(tx: &MirrorTx<'_>, edit: i64, decision: Decision, now: Instant) -> Result<Decided, StoreError> {
    use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
    let line = outbox_report::edit_line(tx, edit)?;
    let wrong = |why| Err(StoreError::Refused(format!("edit {edit} {why}")));
    let of = DecidedEdit { tx, line: &line, now };
    match (decision, line.state) {
        (Decision::Retry, Rejected | Dropped | Replaced) => of.again(),
        (Decision::Retry, Conflict) => of.step(Queued, "retried by a person", line.fields.clone()),
        (Decision::Retry, Queued | Sending) => {
            tx.edits().shorten_delays(edit, now)?;
            Ok(Decided::new(edit, line.state, line.fields))
        }
        (Decision::Drop, Queued | Held | Sending | Conflict | Rejected) => of.discard(),
        (Decision::Release, Held) => of.release(),
        // It was released with another edit of its request.
        (Decision::Release, Sending) => Ok(Decided::new(edit, Sending, line.fields)),
        (Decision::Theirs, Conflict) => {
            of.step(Dropped, "resolved by a person: the service's value is kept", EditedFields::new())
        }
        (Decision::Mine, Conflict) => of.mine(),
        (Decision::Retry | Decision::Drop, Applied) => wrong("is already applied"),
        (Decision::Retry, Held) => wrong("is held: use `crm-mirror outbox release` or `drop`"),
        (Decision::Drop, Dropped | Replaced) => wrong("is already finished"),
        (Decision::Release, _) => wrong("is not held"),
        (Decision::Mine | Decision::Theirs, _) => wrong("is not in conflict"),
    }
}

/// Decides on all edits that a person was shown, except those that were sent or decided on meanwhile.
pub fn decide_all(
    tx: &MirrorTx<'_>,
    shown: &[i64],
    decision: Decision,
    now: Instant,
) -> Result<Vec<Decided>, StoreError> {
    let (shown, open): (BTreeSet<&i64>, _) = (shown.iter().collect(), outbox_report::edits(tx, false)?);
    let still = open.iter().filter(|line| shown.contains(&line.id) && decision.means(line));
    still.map(|line| decide(tx, line.id, decision, now)).collect()
}

struct DecidedEdit<'a, 'b> {
    tx: &'a MirrorTx<'b>,
    line: &'a Edit,
    now: Instant,
}

impl DecidedEdit<'_, '_> {
    fn step(&self, to: EditState, why: &str, fields: EditedFields) -> Result<Decided, StoreError> {
        self.tx.edits().take_step(self.line.id, &EditStep::new(self.line.state, to, why), self.now)?;
        Ok(Decided::new(self.line.id, to, fields))
    }

    /// The edits of its request, if it was sent: they are being sent, or held in a copy.
    fn request(&self) -> Result<Vec<Edit>, StoreError> {
        let carrier = self.line.merged_into.unwrap_or(self.line.id);
        let mut edits = self.tx.edits_of(self.line.object, &self.line.record)?;
        edits.retain(|edit| {
            edit.unreadable.is_none()
                && edit.state == self.line.state
                && (edit.state == EditState::Sending || edit.first_sent_at.is_some())
                && (edit.id == carrier || edit.merged_into == Some(carrier))
        });
        Ok(edits)
    }

    /// Drops it. If its request was sent, the outcome of the request's other edits is determined by reading the record.
    fn discard(&self) -> Result<Decided, StoreError> {
        let is_sent = matches!(self.line.state, EditState::Sending | EditState::Held);
        let request = if is_sent { self.request()? } else { Vec::new() };
        let others: Vec<i64> = request.iter().map(|edit| edit.id).filter(|id| *id != self.line.id).collect();
        self.tx.edits().give_up_request(&others, true)?;
        let in_doubt = self.line.in_doubt() || request.iter().any(|edit| edit.first_sent_at.is_some());
        let why = if in_doubt { "dropped by a person: it may have been applied" } else { "dropped by a person" };
        Ok(Decided { in_doubt, ..self.step(EditState::Dropped, why, EditedFields::new())? })
    }

    /// Releases it. What the original of this copy sent, or may send, resumes with its whole request.
    fn release(&self) -> Result<Decided, StoreError> {
        let (edits, fields) = (self.tx.edits(), self.line.fields.clone());
        let request = self.request()?;
        for edit in &request {
            if let (None, None, Some(body)) = (&edit.body, edit.merged_into, body_in_a_copy(self.tx, edit)?) {
                edits.fix_doubtful_request(edit.id, &body, &idempotency_key())?;
            }
            edits.mark_released(edit.id, self.now)?;
            let why = "released by a person: the record is read back, then the same request is sent";
            edits.take_step(edit.id, &EditStep::new(EditState::Held, EditState::Sending, why), self.now)?;
        }
        if !request.is_empty() {
            return Ok(Decided::new(self.line.id, EditState::Sending, fields));
        }
        edits.mark_released(self.line.id, self.now)?;
        self.step(EditState::Queued, "released by a person", fields)
    }

    /// Rebases it on the service's values that the person saw.
    fn mine(&self) -> Result<Decided, StoreError> {
        let editable = self.tx.edits().editable(self.line.object)?;
        let mut fields = self.line.fields.clone();
        for (column, there) in self.line.theirs.iter().flatten() {
            if let Some((before, _)) = fields.get_mut(column) {
                before.clone_from(there);
            }
        }
        // If both want the same value, nothing is left to send.
        let mut left = fields.clone();
        left.retain(|column, (before, after)| !field_verdict::same(editable.get(column), before, after));
        let mirrored = self.tx.edits().mirrored(self.line.object, &self.line.record, &[])?;
        let kept = if left.is_empty() { &fields } else { &left };
        self.tx.edits().set_edited_fields(self.line.id, kept, mirrored.and_then(|record| record.etag).as_ref())?;
        self.step(EditState::Queued, "resolved by a person: it replaces the service's value", left)
    }

    /// Queues a finished edit again, with the values before that its author was shown. The last edit of a field counts, so
    /// it does not take the place of one that waits.
    fn again(&self) -> Result<Decided, StoreError> {
        let pending = editable::pending_columns(self.tx, self.line.object, &self.line.record, true)?;
        if self.line.fields.keys().any(|column| pending.contains(column)) {
            let why = "has a field that a waiting edit changes: `crm-mirror outbox list` shows it";
            return Err(StoreError::Refused(format!("edit {} {why}", self.line.id)));
        }
        self.step(EditState::Queued, "retried by a person", self.line.fields.clone())
    }
}

/// The body of an edit of a copy that was not sent here: a request that replaces the version that the record had when the
/// file was copied cannot be carried out if the original's was. `None` if the record is not known well enough: then it is
/// read, and the edit ends in conflict if it has another version.
fn body_in_a_copy(tx: &MirrorTx<'_>, edit: &Edit) -> Result<Option<String>, StoreError> {
    let columns: Vec<&str> = edit.fields.keys().map(String::as_str).collect();
    let Some(record) = tx.edits().mirrored(edit.object, &edit.record, &columns)? else { return Ok(None) };
    let editable = tx.edits().editable(edit.object)?;
    let is_proven = columns.iter().all(|column| record.proves(column, false));
    let states = field_verdict::field_states(&edit.fields, &editable, &record.values);
    if record.etag != edit.if_match || !is_proven || field_verdict::deciding(&states) != FieldState::Unchanged {
        return Ok(None);
    }
    let values = edit.fields.iter().map(|(column, (_, after))| (column.as_str(), after));
    Ok(patch_request::body(edit.object, values, &editable).ok())
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndoEdit {
    /// Its id; `None` if nothing is left to send.
    pub edit: Option<i64>,
    /// The edits that it reverts, the oldest first.
    pub undoes: Vec<i64>,
    pub object: Object,
    #[serde(rename = "id")]
    pub record: RecordId,
    /// Its changes: from the values of the edits to the values before them.
    pub fields: EditedFields,
    /// The columns that have another value by now, as far as the mirror knows: with one, the undo ends in conflict.
    pub changed: Vec<String>,
    /// The columns that are not reverted, because another edit of them waits.
    pub waiting: Vec<String>,
}

/// Plans an undo: one edit per record, from the values of the last edit to the values before the first of those that
/// followed each other. Nothing is queued.
pub fn plan_undo(tx: &MirrorTx<'_>, edits: &[i64]) -> Result<Vec<UndoEdit>, StoreError> {
    let mut applied: BTreeMap<(Object, RecordId), Vec<AppliedEdit>> = BTreeMap::new();
    for id in edits.iter().copied().collect::<BTreeSet<i64>>() {
        let edit = outbox_report::applied_by(tx, outbox_report::edit_line(tx, id)?)?;
        applied.entry((edit.line.object, edit.line.record.clone())).or_default().push(edit);
    }
    let mut undo = Vec::new();
    for ((object, record), mut edits) in applied {
        // An edit that was retried was applied after later ones.
        edits.sort_by_key(|edit| edit.step);
        let editable = tx.edits().editable(object)?;
        let mut fields = reverting(&edits, &editable);
        let pending = editable::pending_columns(tx, object, &record, true)?;
        let waiting: Vec<String> = fields.keys().filter(|column| pending.contains(*column)).cloned().collect();
        fields.retain(|column, (written, restored)| {
            !pending.contains(column) && !field_verdict::same(editable.get(column), written, restored)
        });
        // What was reverted already is left as it is.
        if fields.is_empty() && waiting.is_empty() {
            continue;
        }
        let columns: Vec<&str> = fields.keys().map(String::as_str).collect();
        let now = tx.edits().mirrored(object, &record, &columns)?;
        let states = field_verdict::field_states(&fields, &editable, &now.map(|now| now.values).unwrap_or_default());
        let changed = fields.keys().zip(states).filter(|(_, state)| *state == FieldState::Theirs);
        let changed = changed.map(|(column, _)| column.clone()).collect();
        let undoes = edits.iter().map(|edit| edit.line.id).collect();
        undo.push(UndoEdit { edit: None, undoes, object, record, fields, changed, waiting });
    }
    Ok(undo)
}

/// The changes that revert these edits of a record, which are in the order in which they were applied.
fn reverting(edits: &[AppliedEdit], editable: &BTreeMap<String, Editable>) -> EditedFields {
    let known = |value: &Value| if is_unknown(value) { Value::Null } else { value.clone() };
    let mut fields = EditedFields::new();
    for (place, edit) in edits.iter().enumerate() {
        for (column, (before, after)) in &edit.line.fields {
            let (field, before) = (editable.get(column), known(before));
            let alike = |value: &Value| field_verdict::alike(field, &before, value);
            let was_there = || {
                let mut earlier = edits[..place].iter().filter_map(|earlier| earlier.line.fields.get(column));
                earlier.any(|(before, _)| field_verdict::alike(field, &known(before), after))
            };
            match fields.get_mut(column) {
                // It has reverted these, and edits before them, which are not to come back.
                Some((written, _)) if edit.line.undoes.is_some() && alike(written) && !was_there() => {
                    fields.remove(column);
                }
                Some((written, restored)) if alike(written) || alike(restored) => written.clone_from(after),
                // Somebody else, or an edit that is not among these, set it in between: what came after is reverted.
                _ if edit.has_changed => _ = fields.insert(column.clone(), (after.clone(), before)),
                _ => {}
            }
        }
    }
    fields
}

/// Queues the undo of applied edits. A person requested exactly these, so the limit on new edits does not apply.
pub fn undo(tx: &MirrorTx<'_>, edits: &[i64], now: Instant) -> Result<Vec<UndoEdit>, StoreError> {
    let mut undo = plan_undo(tx, edits)?;
    for of_record in &mut undo {
        // The record is compared with the values of the edits, whatever its version.
        let etag = tx.edits().mirrored(of_record.object, &of_record.record, &[])?.and_then(|record| record.etag);
        let edit = NewEdit {
            object: of_record.object,
            record: &of_record.record,
            source: "undo",
            fields: &of_record.fields,
            base_etag: etag.as_ref(),
            undoes: of_record.undoes.last().copied(),
        };
        let why = match of_record.undoes.as_slice() {
            [only] => format!("reverts edit {only}"),
            several => format!("reverts {} edits, the last of them {}", several.len(), several.last().unwrap_or(&0)),
        };
        of_record.edit = stored::insert(tx, &edit, &why, now)?.edit;
        if let Some(id) = of_record.edit {
            tx.edits().mark_released(id, now)?;
        }
    }
    Ok(undo)
}

#[cfg(test)]
#[path = "user_decisions_tests.rs"]
mod tests;
