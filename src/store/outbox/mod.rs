//! Edits in the file: the triggers that queue them, their states and delays, and their display.

pub(in crate::store) mod accepted_values;
pub(super) mod concurrent;
pub mod delays;
pub mod editable;
pub(super) mod edits;
mod guards;
pub(in crate::store) mod hold_open;
mod new_edits;
pub mod queue;
mod queue_statements;
pub mod report;
pub(super) mod steps;
mod triggers;
