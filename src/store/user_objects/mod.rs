//! Views, triggers and indexes that users add to the file.
//!
//! SQLite parses every view and trigger of the file when a column is renamed or dropped, and fails if one of them does
//! not compile at that moment. Therefore all objects that are not the program's own are removed before such a change
//! and restored after it, in the same transaction and with their own text: no reader sees the file without them.
//!
//! # Invariants
//! - No object of a user makes a run fail. An object that cannot be restored is kept in the state, retried after each
//!   change, and named in `status` and `check`.
//! - An index of a user that could make a write fail is dropped before anything is written, see `index_guard`.
//! - The text of a view or trigger never changes. One that names a missing column works again once the column is back.

mod detach;
mod files;
mod index_guard;
pub(in crate::store) mod objects;
pub mod report;
mod state_entry;
mod trigger_report;
