//! `outbox` and `outbox_events`: the steps of edits, and their history.
//!
//! # Invariants
//! - A step and its history entry are one transaction; write it with [`Store::write_durably`](crate::store::Store).
//! - A step is taken only from the state that it was decided on: other processes queue and drop edits too.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;
use serde_json::Value;

use crate::model::editable::Editability;
use crate::model::{EditState, Editable, EditedFields, Etag, Instant, MirroredRecord, Object, RecordId};
use crate::store::error::StoreError;
use crate::store::outbox::edits::UnreadableEdit;
use crate::store::outbox::{OPEN, editable, known_values};
use crate::store::statements::Statements;
use crate::store::statements::json_list;
use crate::store::tx::EditsTx;

const READ: &str = "read the outbox";
const WRITE: &str = "write the outbox";

/// One more attempt. A number that was written by hand may be as large as an integer can be.
const ONE_MORE_ATTEMPT: &str = "attempts = min(attempts, 9223372036854775806) + 1";

/// The reason of an edit that ends because its record was removed.
pub const RECORD_REMOVED: &str = "the service no longer has the record";

/// The same for an edit in this state: what was sent may have been applied before.
pub const fn record_removed(state: EditState) -> &'static str {
    match state {
        EditState::Sending => "the service no longer has the record; the edit may have been applied before",
        _ => RECORD_REMOVED,
    }
}

#[derive(Clone, Copy, Debug)]
pub struct EditStep<'a> {
    pub from: EditState,
    pub to: EditState,
    /// The reason, as a sentence.
    pub why: &'a str,
    /// The status of the answer that led to it.
    pub status: Option<u16>,
    /// The service's answer, or why the edit was refused here, as JSON.
    pub answer: Option<&'a str>,
    /// The service's values of the edited columns, as JSON.
    pub theirs: Option<&'a str>,
}

impl<'a> EditStep<'a> {
    pub const fn new(from: EditState, to: EditState, why: &'a str) -> EditStep<'a> {
        EditStep { from, to, why, status: None, answer: None, theirs: None }
    }

    #[must_use]
    pub const fn answered(mut self, status: Option<u16>, answer: Option<&'a str>) -> EditStep<'a> {
        self.status = status;
        self.answer = answer;
        self
    }

    #[must_use]
    pub const fn theirs(mut self, theirs: &'a str) -> EditStep<'a> {
        self.theirs = Some(theirs);
        self
    }
}

impl EditsTx<'_> {
    /// The record in the mirror, with those of the columns that exist; `None` if the record is not mirrored.
    pub fn mirrored(
        &self,
        object: Object,
        id: &RecordId,
        columns: &[&str],
    ) -> Result<Option<MirroredRecord>, StoreError> {
        known_values::mirrored(&self.tx.conn, &self.tx.shapes(), object, id, columns)
    }

    /// Whether the mirror's history has these values of a record, all at one moment, since a version was replaced. The times
    /// of the entries do not show what came first: the clock may have been set back.
    pub fn saw_values(
        &self,
        object: Object,
        id: &RecordId,
        replaced: &Etag,
        is_value: impl Fn(&str, &Value) -> bool,
        columns: usize,
    ) -> Result<bool, StoreError> {
        let rows: Vec<String> = self.tx.conn.column(
            "SELECT fields FROM changes WHERE object_type = ?1 AND record_id = ?2 ORDER BY seq",
            params![object, id],
            READ,
        )?;
        let (mut since, mut seen, mut together) = (false, BTreeSet::new(), false);
        for text in rows {
            let fields: BTreeMap<String, (Value, Value)> = serde_json::from_str(&text).unwrap_or_default();
            if let Some((old, new)) = fields.get("etag") {
                let is_version = |etag: &Value| etag.as_str() == Some(replaced.as_str());
                // If the record had the version several times, only what followed the last time counts.
                if is_version(old) || is_version(new) {
                    since = is_version(old);
                    (seen, together) = (BTreeSet::new(), false);
                }
            }
            for (column, (_, new)) in fields.into_iter().filter(|_| since) {
                if is_value(&column, &new) {
                    seen.insert(column);
                } else {
                    seen.remove(&column);
                }
            }
            together |= columns > 0 && seen.len() == columns;
        }
        Ok(together)
    }

    /// The fields of an object that can be edited, by column.
    pub fn editable(&self, object: Object) -> Result<BTreeMap<String, Editable>, StoreError> {
        let columns = editable::columns(&self.tx.conn, object, &self.tx.shapes())?;
        let fields = columns.into_iter().filter_map(|(column, editability)| match editability {
            Editability::Editable(field) => Some((column, field)),
            _ => None,
        });
        Ok(fields.collect())
    }

    /// Stores a request: the first edit holds it, the others are sent with it. The time is that of both clocks.
    pub fn fix_request(
        &self,
        edits: &[i64],
        body: &str,
        if_match: &Etag,
        key: &str,
        (now, steady): (Instant, Instant),
    ) -> Result<(), StoreError> {
        let Some(carrier) = edits.first() else { return Ok(()) };
        for edit in edits {
            let why = match edit == carrier {
                true => "sent".into(),
                false => format!("sent together with edit {carrier}"),
            };
            self.take_step(*edit, &EditStep::new(EditState::Queued, EditState::Sending, &why), now)?;
            let sql = format!(
                "UPDATE outbox SET {ONE_MORE_ATTEMPT}, status = NULL, first_sent_at = ?2, last_sent_at = ?2,
                     tried_at = coalesce(tried_at, ?4), merged_into = CASE WHEN id <> ?3 THEN ?3 END WHERE id = ?1"
            );
            self.tx.conn.run(&sql, params![edit, now, carrier, steady], WRITE)?;
        }
        self.tx.conn.run(
            "UPDATE outbox SET body = ?2, if_match = ?3, idempotency_key = ?4 WHERE id = ?1",
            params![carrier, body, if_match, key],
            WRITE,
        )
    }

    /// Stores a request for an edit that is in doubt without one: the original of this copy may have sent it.
    pub fn fix_doubtful_request(&self, edit: i64, body: &str, key: &str) -> Result<(), StoreError> {
        self.tx.conn.run(
            "UPDATE outbox SET body = ?2, idempotency_key = ?3, status = NULL WHERE id = ?1 AND body IS NULL",
            params![edit, body, key],
            WRITE,
        )
    }

    pub fn send_again(&self, carrier: i64, now: Instant) -> Result<(), StoreError> {
        let again = EditStep::new(EditState::Sending, EditState::Sending, "sent again, the same request");
        self.take_step(carrier, &again, now)?;
        let sql = format!(
            "UPDATE outbox SET {ONE_MORE_ATTEMPT}, status = NULL, last_sent_at = ?2 WHERE id = ?1 OR merged_into = ?1"
        );
        self.tx.conn.run(&sql, params![carrier, now], WRITE)
    }

    /// Takes a step of an edit, with its history entry. Returns whether the edit was in the state that the step was
    /// decided on. An edit that returns to the queue, or needs a decision, discards its request. One that may have been
    /// carried out keeps when it was sent, unless it returns to the queue: whoever begins it anew is asked.
    pub fn take_step(&self, edit: i64, step: &EditStep<'_>, now: Instant) -> Result<bool, StoreError> {
        debug_assert!(step.from.may_become(step.to), "{step:?}");
        let taken = self.tx.conn.change(
            "UPDATE outbox SET state = ?3, status = coalesce(?4, status), answer = coalesce(?5, answer),
                        theirs = coalesce(?6, theirs), finished_at = ?7 WHERE id = ?1 AND state = ?2",
            params![edit, step.from, step.to, step.status, step.answer, step.theirs, step.to.is_final().then_some(now)],
            WRITE,
        )?;
        if taken == 0 {
            return Ok(false);
        }
        if matches!(step.to, EditState::Queued | EditState::Conflict | EditState::Dropped) {
            self.tx.conn.run(
                "UPDATE outbox SET body = NULL, if_match = NULL, idempotency_key = NULL, merged_into = NULL,
                            first_sent_at = CASE WHEN ?2 THEN first_sent_at END WHERE id = ?1",
                params![edit, step.to != EditState::Queued],
                WRITE,
            )?;
        }
        self.tx.conn.run(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, who, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![edit, now, step.from, step.to, *self.tx.author.borrow(), step.why],
            WRITE,
        )?;
        Ok(true)
    }

    /// Reverts the record that an edit was sent: the request did not leave this machine.
    pub fn unsend(&self, edit: i64) -> Result<(), StoreError> {
        self.tx.conn.run(
            "UPDATE outbox SET attempts = max(attempts - 1, 0), tried_at = CASE WHEN attempts > 1 THEN tried_at END
                 WHERE id = ?1",
            [edit],
            WRITE,
        )
    }

    /// Discards the request of edits that are being sent: the record is read before anything else. `doubt` says whether
    /// it may have been applied; then the version that it replaces is kept. The first of the edits holds the request.
    pub fn give_up_request(&self, edits: &[i64], doubt: bool) -> Result<(), StoreError> {
        let Some(carrier) = edits.first() else { return Ok(()) };
        for edit in edits {
            self.tx.conn.run(
                "UPDATE outbox SET body = NULL, idempotency_key = NULL,
                     if_match = CASE WHEN ?3 THEN coalesce(if_match,
                         (SELECT c.if_match FROM outbox AS c WHERE c.id = outbox.merged_into)) END,
                     first_sent_at = CASE WHEN ?3 THEN first_sent_at END,
                     merged_into = CASE WHEN id <> ?2 THEN ?2 END WHERE id = ?1",
                params![edit, carrier, doubt],
                WRITE,
            )?;
        }
        Ok(())
    }

    /// Ends the open edits of records whose removal is confirmed. Returns their numbers.
    pub fn reject_edits_of_removed(
        &self,
        object: Object,
        records: &[RecordId],
        now: Instant,
    ) -> Result<Vec<i64>, StoreError> {
        let edits: Vec<(i64, String)> = self.tx.conn.rows(
            &format!(
                "SELECT id, state FROM outbox WHERE object_type = ?1 AND {OPEN}
                       AND record_id IN (SELECT value FROM json_each(?2)) ORDER BY id"
            ),
            params![object, json_list(records)],
            READ,
            |row| row.try_into(),
        )?;
        let mut ended = Vec::new();
        for (edit, state) in edits {
            // A row that was changed by hand may be finished and not say when.
            let open = state.parse().ok().filter(|state: &EditState| state.may_become(EditState::Rejected));
            let Some(state) = open else { continue };
            if self.take_step(edit, &EditStep::new(state, EditState::Rejected, record_removed(state)), now)? {
                ended.push(edit);
            }
        }
        Ok(ended)
    }

    /// Rejects an edit that cannot be read, whatever its state.
    pub fn reject_unreadable(&self, edit: &UnreadableEdit, answer: &str, now: Instant) -> Result<(), StoreError> {
        self.tx.conn.run(
            "UPDATE outbox SET state = 'rejected', finished_at = ?2, answer = ?3, merged_into = NULL WHERE id = ?1",
            params![edit.id, now, answer],
            WRITE,
        )?;
        self.tx.conn.run(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why) VALUES (?1, ?2, ?3, 'rejected', ?4)",
            params![edit.id, now, edit.state, edit.why],
            WRITE,
        )
    }

    /// Deletes edits that finished before an instant, and their history.
    pub fn forget_edits_before(&self, cutoff: Instant) -> Result<(), StoreError> {
        let ended = "SELECT o.id FROM outbox AS o WHERE o.state IN ('rejected', 'applied', 'dropped', 'replaced')
             AND o.finished_at < ?1 AND NOT EXISTS (SELECT 1 FROM outbox AS p WHERE p.merged_into = o.id
               AND p.finished_at IS NULL)";
        for sql in [
            format!("DELETE FROM outbox_events WHERE outbox_id IN ({ended})"),
            format!("DELETE FROM outbox WHERE id IN ({ended})"),
        ] {
            self.tx.conn.run(&sql, [cutoff], "delete old edits")?;
        }
        Ok(())
    }

    /// Replaces the changes of a waiting edit, because the values before it have changed.
    pub fn set_edited_fields(&self, edit: i64, fields: &EditedFields, base: Option<&Etag>) -> Result<(), StoreError> {
        let text =
            serde_json::to_string(fields).map_err(|source| StoreError::State { name: "outbox".into(), source })?;
        self.tx.conn.run(
            "UPDATE outbox SET fields = ?2, base_etag = coalesce(?3, base_etag) WHERE id = ?1",
            params![edit, text, base.map(Etag::as_str)],
            WRITE,
        )
    }
}
