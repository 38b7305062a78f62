//! Holds the open edits of a mirror that they were not made for: of a copy, or of a mirror that becomes that of another
//! workspace.
//!
//! # Invariants
//! - No edit reaches a service that its author did not mean, unless a person releases it there.
//! - A held edit keeps its new and old values; its request and an earlier release are discarded.

use rusqlite::{Connection, params};

use crate::model::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "hold the open edits";

/// Holds every edit that is queued or being sent, with an entry in its history. Returns their number.
pub(in crate::store) fn hold_open_edits(conn: &Connection, why: &str, now: Instant) -> Result<u64, StoreError> {
    conn.execute(
        "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
         SELECT id, ?1, state, 'held', ?2 || CASE state WHEN 'sending' THEN '; it may have been applied before' ELSE '' END
         FROM outbox WHERE state IN ('queued', 'sending')",
        params![now.to_string(), why],
    )
    .doing(DOING)?;
    let held = conn
        .execute(
            "UPDATE outbox SET state = 'held', body = NULL, if_match = NULL, idempotency_key = NULL,
                    first_sent_at = NULL, merged_into = NULL WHERE state IN ('queued', 'sending')",
            [],
        )
        .doing(DOING)?;
    conn.execute("UPDATE outbox SET released_at = NULL WHERE state = 'held'", []).doing(DOING)?;
    Ok(held as u64)
}

impl MirrorTx<'_> {
    /// Holds every edit that is queued or being sent, because the mirror becomes that of another workspace, and notes that
    /// those that were applied before were applied in the other one. Returns the number of held edits. Write it with
    /// [`Store::write_durably`](crate::store::Store::write_durably).
    pub fn hold_for_another_workspace(&self, now: Instant) -> Result<u64, StoreError> {
        let last: i64 =
            self.conn.query_row("SELECT coalesce(max(id), 0) FROM outbox_events", [], |row| row.get(0)).doing(DOING)?;
        self.set_state(&StateKey::AcceptedAfter, &last)?;
        let why = "held because another workspace was accepted: the edit was made before";
        hold_open_edits(&self.conn, why, now)
    }
}
