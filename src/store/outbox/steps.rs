//! `outbox` and `outbox_events`: the edits of a record, their steps, and their history.
//!
//! # Invariants
//! - A step and its history entry are one transaction; write it with [`Store::write_durably`](crate::store::Store).
//! - A step is taken only from the state that it was decided on: other processes queue and drop edits too.

use std::collections::BTreeMap;

use crate::model::{DelayScope, EditState, Editable, EditedFields, Etag, Instant, MirroredRecord, Object, RecordId};
use crate::store::outbox::report;
use crate::store::records::removals::AWAITS_REMOVAL;
use crate::store::{Edit, EditsTx, OPEN, ReadTx, Result, Statements, editable, json, json_list, known_values};
use rusqlite::params;

/// One more attempt. A number that was written by hand may be as large as an integer can be.
const ONE_MORE_ATTEMPT: &str = "attempts = min(attempts, 9223372036854775806) + 1";

pub const RECORD_REMOVED: &str = "the service no longer has the record";

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
    pub why: &'a str,
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
}

impl EditsTx<'_> {
    pub fn mirrored(&self, object: Object, id: &RecordId, columns: &[&str]) -> Result<Option<MirroredRecord>> {
        known_values::mirrored(self.tx, &self.tx.shapes(), object, id, columns)
    }

    pub fn editable(&self, object: Object) -> Result<BTreeMap<String, Editable>> {
        let columns = editable::columns(&self.tx.conn, object, &self.tx.shapes())?;
        Ok(columns.into_iter().filter_map(|(column, editability)| Some((column, editability.ok()?))).collect())
    }

    /// Stores a request: the first edit holds it, the others are sent with it. The time is that of both clocks.
    pub fn fix_request(
        &self,
        edits: &[i64],
        body: &str,
        if_match: &Etag,
        key: &str,
        (now, steady): (Instant, Instant),
    ) -> Result<()> {
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
            self.run(&sql, params![edit, now, carrier, steady])?;
        }
        self.run(
            "UPDATE outbox SET body = ?2, if_match = ?3, idempotency_key = ?4 WHERE id = ?1",
            params![carrier, body, if_match, key],
        )
    }

    /// Stores a request for an edit that is in doubt without one: the original of this copy may have sent it.
    pub fn fix_doubtful_request(&self, edit: i64, body: &str, key: &str) -> Result<()> {
        self.run(
            "UPDATE outbox SET body = ?2, idempotency_key = ?3, status = NULL WHERE id = ?1 AND body IS NULL",
            params![edit, body, key],
        )
    }

    pub fn send_again(&self, carrier: i64, now: Instant) -> Result<()> {
        let again = EditStep::new(EditState::Sending, EditState::Sending, "sent again, the same request");
        self.take_step(carrier, &again, now)?;
        let sql = format!(
            "UPDATE outbox SET {ONE_MORE_ATTEMPT}, status = NULL, last_sent_at = ?2
                 WHERE (id = ?1 OR merged_into = ?1) AND state = 'sending'"
        );
        self.run(&sql, params![carrier, now])
    }

    /// The new version of the record that the last answer to a request showed, if that did not show the update.
    pub fn answered_version(&self, carrier: i64) -> Result<Option<Etag>> {
        self.value("SELECT iif(json_valid(answer), answer ->> '$.etag', NULL) FROM outbox WHERE id = ?1", [carrier])
    }

    /// Takes a step of an edit, with its history entry. Returns whether the edit was in the state that the step was
    /// decided on. An edit that returns to the queue, or needs a decision, discards its request, and one that is finished
    /// its body; one that is applied keeps nothing of an earlier refusal. One that may have been carried out keeps when it
    /// was sent, unless it returns to the queue: whoever begins it again is asked.
    pub fn take_step(&self, edit: i64, step: &EditStep<'_>, now: Instant) -> Result<bool> {
        debug_assert!(step.from.may_become(step.to), "{step:?}");
        let ended = step.to.is_final().then_some(now);
        let discards = matches!(step.to, EditState::Queued | EditState::Conflict | EditState::Dropped);
        let taken = self.change(
            "UPDATE outbox SET state = ?3, status = coalesce(?4, status), finished_at = ?7,
                        answer = iif(?3 = 'applied', NULL, coalesce(?5, answer)),
                        theirs = iif(?3 = 'applied', NULL, coalesce(?6, theirs)),
                        body = iif(?7 IS NOT NULL OR ?8, NULL, body), if_match = iif(?8, NULL, if_match),
                        idempotency_key = iif(?8, NULL, idempotency_key), merged_into = iif(?8, NULL, merged_into),
                        first_sent_at = iif(?3 = 'queued', NULL, first_sent_at)
                 WHERE id = ?1 AND state = ?2",
            params![edit, step.from, step.to, step.status, step.answer, step.theirs, ended, discards],
        )?;
        if taken == 0 {
            return Ok(false);
        }
        self.run(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, who, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![edit, now, step.from, step.to, *self.tx.author.borrow(), step.why],
        )?;
        Ok(true)
    }

    /// Adds to the history of an edit that has ended what became of its request since.
    pub fn note(&self, edit: i64, why: &str, now: Instant) -> Result<()> {
        self.run(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
             SELECT id, ?2, state, state, ?3 FROM outbox WHERE id = ?1",
            params![edit, now, why],
        )
    }

    /// Reverts the record that an edit was sent: the request did not leave this machine.
    pub fn unsend(&self, edit: i64) -> Result<()> {
        self.run(
            "UPDATE outbox SET attempts = max(attempts - 1, 0), tried_at = CASE WHEN attempts > 1 THEN tried_at END
                 WHERE id = ?1",
            [edit],
        )
    }

    /// Discards the request of edits that are being sent: the record is read before anything else. `doubt` says whether
    /// it may have been applied. The version that it replaces is kept. The first of the edits holds the request.
    pub fn give_up_request(&self, edits: &[i64], doubt: bool) -> Result<()> {
        self.run(
            "UPDATE outbox SET body = NULL, idempotency_key = NULL,
                 if_match = coalesce(if_match, (SELECT c.if_match FROM outbox AS c WHERE c.id = outbox.merged_into)),
                 first_sent_at = CASE WHEN ?3 THEN first_sent_at END,
                 merged_into = CASE WHEN id <> ?2 THEN ?2 END
             WHERE id IN (SELECT value FROM json_each(?1))",
            params![serde_json::json!(edits).to_string(), edits.first(), doubt],
        )
    }

    pub fn reject_edits_of_removed(&self, object: Object, records: &[RecordId], now: Instant) -> Result<Vec<i64>> {
        let edits: Vec<(i64, String)> = self.tuples(
            &format!(
                "SELECT id, state FROM outbox WHERE object_type = ?1 AND {OPEN}
                       AND record_id IN (SELECT value FROM json_each(?2)) ORDER BY id"
            ),
            params![object, json_list(records)],
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
        if let (false, Some(record)) = (ended.is_empty(), records.first()) {
            // What was not found was gone indeed, which says nothing about the others of its object.
            self.end_delay(object, DelayScope::Object, record)?;
        }
        Ok(ended)
    }

    pub fn forget_edits_before(&self, cutoff: Instant) -> Result<()> {
        let ended = "SELECT o.id FROM outbox AS o WHERE o.state IN ('rejected', 'applied', 'dropped', 'replaced')
             AND o.finished_at < ?1 AND NOT EXISTS (SELECT 1 FROM outbox AS p WHERE p.merged_into = o.id
               AND p.finished_at IS NULL)";
        self.run(&format!("DELETE FROM outbox_events WHERE outbox_id IN ({ended})"), [cutoff])?;
        self.run(&format!("DELETE FROM outbox WHERE id IN ({ended})"), [cutoff])
    }

    /// Replaces the changes of a waiting edit, because the values before it have changed.
    pub fn set_edited_fields(&self, edit: i64, fields: &EditedFields, base: Option<&Etag>) -> Result<()> {
        self.run(
            "UPDATE outbox SET fields = ?2, base_etag = coalesce(?3, base_etag) WHERE id = ?1",
            params![edit, json("outbox", fields)?, base],
        )
    }
}

impl ReadTx<'_> {
    /// Records with edits to send, those with the fewest failures first.
    pub fn edited_records(&self) -> Result<Vec<(Object, RecordId, DelayScope)>> {
        let rows: Vec<(String, String, bool)> = self.rows(
            &format!(
                "SELECT object_type, record_id, {AWAITS_REMOVAL} AS missed FROM outbox AS o
                     WHERE {OPEN} AND state IN ('queued', 'sending')
                     GROUP BY object_type, record_id ORDER BY missed, max(attempts), min(id)"
            ),
            [],
            |row| Ok((report::text(row, 0)?, report::text(row, 1)?, row.get(2)?)),
        )?;
        let scope = |missed| if missed { DelayScope::Missed } else { DelayScope::Object };
        let named = rows
            .into_iter()
            .filter_map(|(object, id, missed)| Some((object.parse().ok()?, RecordId::new(id), scope(missed))));
        Ok(named.collect())
    }

    /// A record's unfinished edits, in order.
    pub fn edits_of(&self, object: Object, id: &RecordId) -> Result<Vec<Edit>> {
        let of_record = format!(
            "o.object_type = ?1 AND o.record_id = ?2 AND o.{OPEN} AND o.state IN ('queued', 'held', 'sending', 'conflict')
             ORDER BY o.id"
        );
        report::edits_where(self, &of_record, params![object, id])
    }
}
