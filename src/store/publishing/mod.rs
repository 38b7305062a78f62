//! What followers of the mirror need from the file: which records changed, and rows as plain values.
//!
//! [`queue`] is the writer's side: every transaction that changes a record enters the record's id into `changed_records`,
//! in that transaction. [`source`] is the follower's side: it reads pages in short snapshots, so that a slow reader never
//! holds the WAL back.
//!
//! # Always true
//! - Once somebody follows, a record that changed after a number has a higher one in `changed_records`, whatever changed
//!   it: also an etag or the first reading of a detail, of which the feed says nothing.
//! - An entry moves and is never deleted, so any number of followers remember their own place.

pub mod queue;
pub mod source;
