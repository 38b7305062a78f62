//! Edits in the file: the triggers that queue them, their states and delays, and how people read them.

pub mod beside;
mod brake;
pub mod delays;
pub mod editable;
pub mod edits;
mod guards;
mod last_word;
pub mod queue;
pub mod report;
pub mod steps;
pub(in crate::store) mod takes;
mod triggers;
