//! What a person decides about an edit: try it again, give it up, let it go, take it back, or end a conflict one way or the
//! other.
//!
//! # Always true
//! - A request that may have been carried out is never forgotten silently: whoever gives up one of its edits is told so, and
//!   the others are settled by reading the record.
//! - A conflict that is decided for the edit holds only against what the person saw. Where the record changed once more
//!   since, it is a conflict again.
//! - What is taken back is sent only if the record still holds what the edit wrote.

use std::collections::BTreeMap;

use super::check;
use super::queue::{self, EditRequest, QueueError};
use super::typed::Given;
use crate::model::{EditState, EditedFields, Instant, Object, RecordId};
use crate::store::outbox_report::{self, EditLine};
use crate::store::queue::{self as stored, NewEdit};
use crate::store::{EditStep, MirrorTx, StoreError};

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try it again, as it is.
    Retry,
    /// Give it up.
    Drop,
    /// Let it go although it is one of many.
    Release,
    /// In a conflict: the edit replaces what the service has.
    Mine,
    /// In a conflict: what the service has stays.
    Theirs,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The edit that was decided on.
    pub edit: i64,
    /// Its state now.
    pub state: EditState,
    /// The edit that takes its place, where it was at its end already.
    pub replacement: Option<i64>,
    /// What is to change; empty where nothing is.
    pub fields: EditedFields,
}

/// Why a decision could not be carried out; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such edit.
    #[error("there is no edit {0}")]
    NoEdit(i64),
    /// It is in a state that leaves nothing to decide.
    #[error("edit {edit} {why}")]
    Wrong {
        /// The edit.
        edit: i64,
        /// Its state, and what does not go with it.
        why: &'static str,
    },
    /// It cannot be queued again.
    #[error("edit {edit} cannot be tried again")]
    NotAgain {
        /// The edit.
        edit: i64,
        /// Why.
        source: QueueError,
    },
    /// The mirror's file.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Carries a decision out, in the caller's transaction.
///
/// # Errors
/// [`DecideError`] says what stands against it.
pub fn decide(tx: &MirrorTx<'_>, edit: i64, decision: Decision, now: Instant) -> Result<Decided, DecideError> {
    let (line, _) = outbox_report::edit(tx, edit)?.ok_or(DecideError::NoEdit(edit))?;
    let wrong = |why| Err(DecideError::Wrong { edit, why });
    use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Replaced, Sending};
    match (decision, line.state) {
        (Decision::Retry, Rejected | Dropped | Replaced) => again(tx, &line, now),
        (Decision::Retry, Conflict) => step(tx, &line, Queued, "tried again by hand", line.fields.clone(), now),
        (Decision::Retry, Queued | Sending) => {
            tx.shorten_delay(line.object, &RecordId::new(line.record.as_str()), now)?;
            Ok(Decided { edit, state: line.state, replacement: None, fields: line.fields })
        }
        (Decision::Drop, Queued | Held | Conflict) => {
            step(tx, &line, Dropped, "given up by hand", EditedFields::new(), now)
        }
        (Decision::Drop, Sending) => give_up(tx, &line, now),
        (Decision::Release, Held) => {
            tx.note_released(edit, now)?;
            step(tx, &line, Queued, "released by hand", line.fields.clone(), now)
        }
        (Decision::Theirs, Conflict) => {
            let why = "decided by hand: what the service has stays";
            step(tx, &line, Dropped, why, EditedFields::new(), now)
        }
        (Decision::Mine, Conflict) => mine(tx, &line, now),
        (Decision::Retry | Decision::Drop, Applied) => wrong("is applied already: the service has it"),
        (Decision::Retry, Held) => wrong("waits for `crm-mirror outbox release`"),
        (Decision::Drop, Rejected | Dropped | Replaced) => wrong("is at its end already: nothing more becomes of it"),
        (Decision::Release, _) => wrong("is not held"),
        (Decision::Mine | Decision::Theirs, _) => wrong("is in no conflict"),
    }
}

/// Takes a step that was decided on the state as it was read in this transaction.
fn step(
    tx: &MirrorTx<'_>,
    line: &EditLine,
    to: EditState,
    why: &str,
    fields: EditedFields,
    now: Instant,
) -> Result<Decided, DecideError> {
    tx.take_step(line.id, &EditStep::new(line.state, to, why), now)?;
    Ok(Decided { edit: line.id, state: to, replacement: None, fields })
}

/// Gives up an edit whose request was sent. The other edits of the request are settled by reading the record.
fn give_up(tx: &MirrorTx<'_>, line: &EditLine, now: Instant) -> Result<Decided, DecideError> {
    let record = RecordId::new(line.record.as_str());
    let carrier = line.merged_into.unwrap_or(line.id);
    let (edits, _) = tx.edits_of(line.object, &record)?;
    let others: Vec<i64> = edits
        .iter()
        .filter(|edit| edit.state == EditState::Sending && edit.id != line.id)
        .filter(|edit| edit.id == carrier || edit.merged_into == Some(carrier))
        .map(|edit| edit.id)
        .collect();
    tx.give_up_request(&others, true)?;
    let why = "given up by hand: it may have been carried out";
    step(tx, line, EditState::Dropped, why, EditedFields::new(), now)
}

/// The edit counts as made on what the person saw of the service.
fn mine(tx: &MirrorTx<'_>, line: &EditLine, now: Instant) -> Result<Decided, DecideError> {
    let editable = tx.editable(line.object)?;
    let theirs = line.theirs.clone().unwrap_or_default();
    let mut fields = line.fields.clone();
    for (column, (before, _)) in &mut fields {
        if let Some(there) = theirs.get(column) {
            before.clone_from(there);
        }
    }
    // Where both want the same, nothing is left to send.
    let differ = |column: &str, before, after| match editable.get(column) {
        Some(field) => !check::same(field, before, after),
        None => before != after,
    };
    let left: EditedFields = fields
        .iter()
        .filter(|(column, (before, after))| differ(column, before, after))
        .map(|(column, values)| (column.clone(), values.clone()))
        .collect();
    let record = RecordId::new(line.record.as_str());
    let etag = tx.mirrored(line.object, &record, &[])?.and_then(|record| record.etag);
    let kept = if left.is_empty() { &fields } else { &left };
    tx.set_edited_fields(line.id, kept, etag.as_ref())?;
    let why = "decided by hand: it replaces what the service has";
    step(tx, line, EditState::Queued, why, left, now)
}

/// An edit that is at its end stays there; another one takes its place, and is judged like any other.
fn again(tx: &MirrorTx<'_>, line: &EditLine, now: Instant) -> Result<Decided, DecideError> {
    let changes = line.fields.iter().map(|(column, (_, after))| (column.clone(), Given::Column(after.clone())));
    let request = EditRequest {
        object: line.object,
        record: RecordId::new(line.record.as_str()),
        changes: changes.collect(),
        if_match: None,
    };
    let why = format!("edit {} tried again by hand", line.id);
    let (replacement, prepared) =
        queue::queue_as(tx, &request, &line.source, &why, now).map_err(|error| match error {
            QueueError::Store(error) => DecideError::Store(error),
            source => DecideError::NotAgain { edit: line.id, source },
        })?;
    Ok(Decided { edit: line.id, state: line.state, replacement, fields: prepared.fields })
}

/// An edit that takes others back.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoEdit {
    /// Its number; `None` where nothing is left to send.
    pub edit: Option<i64>,
    /// The edits that it takes back, the oldest first.
    pub undoes: Vec<i64>,
    /// Whose record it is of.
    pub object: Object,
    /// The record.
    pub record: RecordId,
    /// What it changes: what the edits wrote, and what was there before them.
    pub fields: EditedFields,
}

/// What would take applied edits back: one edit per record, from what the last of them wrote to what was there before the
/// first. Nothing is queued.
///
/// # Errors
/// [`DecideError`] where an edit is not there, or was not applied.
pub fn plan_undo(tx: &MirrorTx<'_>, edits: &[i64]) -> Result<Vec<UndoEdit>, DecideError> {
    let mut ids = edits.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut undo: BTreeMap<(Object, RecordId), UndoEdit> = BTreeMap::new();
    for id in ids {
        let (line, _) = outbox_report::edit(tx, id)?.ok_or(DecideError::NoEdit(id))?;
        if line.state != EditState::Applied {
            return Err(DecideError::Wrong { edit: id, why: "was not applied: there is nothing to take back" });
        }
        let record = RecordId::new(line.record.as_str());
        let of_record = undo.entry((line.object, record.clone())).or_insert_with(|| UndoEdit {
            edit: None,
            undoes: Vec::new(),
            object: line.object,
            record,
            fields: EditedFields::new(),
        });
        of_record.undoes.push(id);
        for (column, (before, after)) in line.fields {
            of_record
                .fields
                .entry(column)
                .and_modify(|(written, _)| written.clone_from(&after))
                .or_insert((after, before));
        }
    }
    Ok(undo.into_values().collect())
}

/// Queues the opposite of applied edits. A person has asked for exactly these, so the brake does not hold them.
///
/// # Errors
/// As [`plan_undo`].
pub fn undo(tx: &MirrorTx<'_>, edits: &[i64], now: Instant) -> Result<Vec<UndoEdit>, DecideError> {
    let mut undo = plan_undo(tx, edits)?;
    for of_record in &mut undo {
        // What the record holds is compared with what the edits wrote, whatever its version.
        let etag = tx.mirrored(of_record.object, &of_record.record, &[])?.and_then(|record| record.etag);
        let edit = NewEdit {
            object: of_record.object,
            record: &of_record.record,
            source: "undo",
            fields: &of_record.fields,
            base_etag: etag.as_ref(),
            undoes: of_record.undoes.last().copied(),
        };
        let why = match of_record.undoes.as_slice() {
            [only] => format!("takes edit {only} back"),
            several => format!("takes {} edits back, the last of them {}", several.len(), several.last().unwrap_or(&0)),
        };
        of_record.edit = stored::insert(tx, &edit, &why, now)?;
        if let Some(id) = of_record.edit {
            tx.note_released(id, now)?;
        }
    }
    Ok(undo)
}
