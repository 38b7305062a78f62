//! What a person decides about an edit: try it again, give it up, or end a conflict one way or the other.
//!
//! # Always true
//! - What was sent and may have been carried out is not given up: it finds out first what became of it.
//! - A conflict that is decided for the edit holds only against what the person saw. Where the record changed once more
//!   since, it is a conflict again.

use super::check;
use super::queue::{self, EditRequest, QueueError};
use super::typed::Given;
use crate::model::{EditState, EditedFields, Instant, RecordId};
use crate::store::outbox_report::{self, EditLine};
use crate::store::{EditStep, MirrorTx, StoreError};

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try it again, as it is.
    Retry,
    /// Give it up.
    Drop,
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
    pub anew: Option<i64>,
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
    /// It cannot be queued anew.
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
    use EditState::{Applied, Conflict, Dropped, Queued, Rejected, Sending};
    match (decision, line.state) {
        (Decision::Retry, Rejected | Dropped) => again(tx, &line, now),
        (Decision::Retry, Conflict) => step(tx, &line, Queued, "tried again by hand", line.fields.clone(), now),
        (Decision::Drop, Queued | Conflict) => step(tx, &line, Dropped, "given up by hand", EditedFields::new(), now),
        (Decision::Theirs, Conflict) => {
            let why = "decided by hand: what the service has stays";
            step(tx, &line, Dropped, why, EditedFields::new(), now)
        }
        (Decision::Mine, Conflict) => mine(tx, &line, now),
        (Decision::Retry | Decision::Drop, Applied) => wrong("is applied already: the service has it"),
        (Decision::Retry, Queued | Sending) => wrong("waits to be sent: `crm-mirror push` sends it"),
        (Decision::Drop, Sending) => {
            wrong("may have been carried out already: the next run finds out, and it cannot be given up before")
        }
        (Decision::Drop, Rejected | Dropped) => wrong("is at its end already: nothing more becomes of it"),
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
    Ok(Decided { edit: line.id, state: to, anew: None, fields })
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
    let held = tx.held(line.object, &record, &[])?;
    let etag = held.and_then(|held| held.etag);
    let kept = if left.is_empty() { &fields } else { &left };
    tx.set_edited_fields(line.id, kept, etag.as_ref())?;
    let why = "decided by hand: it replaces what the service has";
    step(tx, line, EditState::Queued, why, left, now)
}

/// An edit that is at its end stays there; another one takes its place, judged anew.
fn again(tx: &MirrorTx<'_>, line: &EditLine, now: Instant) -> Result<Decided, DecideError> {
    let changes = line.fields.iter().map(|(column, (_, after))| (column.clone(), Given::Column(after.clone())));
    let request = EditRequest {
        object: line.object,
        record: RecordId::new(line.record.as_str()),
        changes: changes.collect(),
        if_match: None,
    };
    let why = format!("edit {} tried again by hand", line.id);
    let (anew, prepared) = queue::queue_as(tx, &request, &line.source, &why, now).map_err(|error| match error {
        QueueError::Store(error) => DecideError::Store(error),
        source => DecideError::NotAgain { edit: line.id, source },
    })?;
    Ok(Decided { edit: line.id, state: line.state, anew, fields: prepared.fields })
}
