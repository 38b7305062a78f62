//! What publishing the mirror to another database needs from the file: which records it does not have yet, and rows as
//! plain values.
//!
//! [`queue`] is the writer's side: every transaction that changes a record enters the record's id into `unpublished`, in
//! that transaction. [`source`] is the publisher's side: it reads pages in short snapshots, so that a slow database never
//! holds the WAL back.
//!
//! # Always true
//! - While the mirror is published, a record that differs from what was published is in `unpublished`, whatever changed
//!   it: also an etag or a detail's age, of which the feed says nothing.
//! - A record leaves `unpublished` only with the number that the publisher read it at: a change made meanwhile has a
//!   higher one and stays.

pub mod queue;
pub mod source;
