//! Views, triggers and indexes that users add to the file.
//!
//! SQLite cannot rename or drop a column while any view or trigger does not compile. Therefore users' views are removed before
//! such a change and restored after it, in the same transaction: no reader sees the file without them.
//!
//! # Invariants
//! - No object of a user makes a run fail.
//! - The text of a view never changes. One that names a missing column works again once the column is back.
//! - Users' triggers and indexes are dropped when they are in the way, with a warning, and never recreated.

pub(in crate::store) mod files;
pub(in crate::store) mod objects;
pub mod report;
