//! Edits in the file: the triggers that queue them, their states, and how people read them.

pub mod beside;
pub mod editable;
pub mod report;
pub mod steps;
mod triggers;
