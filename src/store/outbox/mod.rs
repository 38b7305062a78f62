//! Edits in the file: the triggers that queue them, their states and delays, and their display.

pub(in crate::store) mod accepted_values;
pub mod delays;
pub mod editable;
pub(in crate::store) mod hold_edits;
pub(in crate::store) mod known_values;
pub mod queue;
pub mod report;
#[cfg(test)]
mod scale_tests;
pub(super) mod steps;
mod triggers;

/// The condition of the index of open edits. A statement uses the index only if it has this very condition. A list of
/// states would cost a temporary table for each row that a trigger writes.
pub(in crate::store) const OPEN: &str = "finished_at IS NULL";

/// The condition of an edit that was never sent, by the index of those, proposals that no person has released aside.
pub(in crate::store) const NEW: &str = "finished_at IS NULL AND tried_at IS NULL AND state IN ('queued', 'held')
    AND (state = 'queued' OR source IS NOT 'assistant' OR released_at IS NOT NULL)";

/// The fields of an edit as rows; none if they are not JSON.
fn fields_of(edit: &str) -> String {
    format!("json_each(CASE WHEN json_valid({edit}.fields) THEN {edit}.fields ELSE '{{}}' END)")
}
