//! Holds edits until a person releases them: new ones if there are too many, and the open ones of a mirror that they
//! were not made for: of a copy, or of a mirror that becomes that of another workspace.
//!
//! # Invariants
//! - No edit reaches a service that its author did not mean, unless a person releases it there.
//! - A held edit keeps its new and old values; an earlier release is discarded. In a copy it also keeps its request,
//!   which a release resumes: another workspace has no use for it.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::model::Instant;
use crate::store::outbox::NEW;
use crate::store::{EditsTx, OPEN, ReadTx, Result, Statements};

/// Holds every open edit of a copy, with its request, to be resumed. An edit that was not sent is in doubt from now on, too:
/// the original may send it. If it does, the record gets another version than it has here. Returns the number of those
/// that were queued or being sent.
pub(in crate::store) fn hold_in_a_copy(conn: &Connection, now: Instant) -> Result<u64> {
    let why = "held in a copy of the mirror: the original may have sent it, or may still do so";
    let doubted = "first_sent_at = coalesce(first_sent_at, queued_at), if_match = coalesce(if_match, CASE object_type
               WHEN 'contact' THEN (SELECT etag FROM contacts WHERE id = record_id)
               ELSE (SELECT etag FROM companies WHERE id = record_id) END, base_etag)";
    // The original may release or resolve these too.
    let others = format!("UPDATE outbox SET {doubted} WHERE {OPEN} AND state IN ('held', 'conflict')");
    conn.run(&others, [])?;
    hold_open_edits(conn, doubted, why, now)
}

fn hold_open_edits(conn: &Connection, sets: &str, why: &str, now: Instant) -> Result<u64> {
    let held = hold_where(conn, &format!("{OPEN} AND state IN ('queued', 'sending')"), sets, why, now)?;
    conn.run(&format!("UPDATE outbox SET released_at = NULL WHERE {OPEN} AND state = 'held'"), [])?;
    Ok(held)
}

/// Holds the edits under a condition, with an entry in the history of each. Returns their number.
fn hold_where(conn: &Connection, condition: &str, sets: &str, why: &str, now: Instant) -> Result<u64> {
    let note = format!(
        "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
         SELECT id, ?1, state, 'held', ?2 || CASE state WHEN 'sending' THEN '; it may have been applied before' ELSE '' END
         FROM outbox WHERE {condition}"
    );
    conn.run(&note, params![now, why])?;
    Ok(conn.change(&format!("UPDATE outbox SET state = 'held', {sets} WHERE {condition}"), [])? as u64)
}

/// The time within which edits that were sent still count as new.
const WINDOW: Duration = Duration::from_secs(3600);

impl ReadTx<'_> {
    /// Whether a push holds the new edits: those that were never sent, held ones included, or were first sent within an
    /// hour that has elapsed by the steady clock, are more than `most`.
    pub fn holds_new_edits(&self, steady: Instant, most: u64) -> Result<bool> {
        let enough = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE {NEW} LIMIT ?2))
          + (SELECT count(*) FROM (SELECT 1 FROM outbox
             WHERE tried_at IS NOT NULL AND tried_at >= ?1 LIMIT ?2))"
        );
        Ok(self.count(&sql, params![steady.minus(WINDOW), enough])? > most)
    }
}

impl EditsTx<'_> {
    /// Holds every edit that is queued or being sent, because the mirror becomes that of another workspace, and notes
    /// that those that were applied before were applied in the other one. Returns the number of held edits. Write it
    /// with [`Store::write_durably`](crate::store::Store::write_durably).
    pub fn hold_for_another_workspace(&self, now: Instant) -> Result<u64> {
        let accepted = "INSERT OR REPLACE INTO goals (object, kind, open)
             SELECT '', 'accepted', coalesce(max(id), 0) FROM outbox_events";
        self.run(accepted, [])?;
        let why = "held because another workspace was accepted: the edit was made before";
        let discarded =
            "body = NULL, if_match = NULL, idempotency_key = NULL, first_sent_at = NULL, merged_into = NULL";
        hold_open_edits(&self.tx.conn, discarded, why, now)
    }

    pub fn any_unreleased(&self, edits: &[i64]) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE id IN (SELECT value FROM json_each(?1))
                   AND tried_at IS NULL AND released_at IS NULL)";
        self.value(sql, [serde_json::json!(edits).to_string()])
    }

    /// Holds every edit that was neither sent nor released. Returns their number.
    pub fn hold_new_edits(&self, why: &str, now: Instant) -> Result<u64> {
        let new = format!("{NEW} AND state = 'queued' AND released_at IS NULL");
        hold_where(&self.tx.conn, &new, "released_at = NULL", why, now)
    }

    pub fn mark_released(&self, edit: i64, now: Instant) -> Result<()> {
        self.run("UPDATE outbox SET released_at = ?2 WHERE id = ?1", params![edit, now])
    }
}
