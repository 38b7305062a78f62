//! The data for followers of the mirror: which records changed, and rows as plain values.
//!
//! [`queue`] is the writer's side: every transaction that changes a record enters the record's id into
//! `changed_records`. [`source`] is the follower's side: it reads pages in short snapshots, so that a slow reader does
//! not prevent checkpoints.
//!
//! # Invariants
//! - Once there is a follower, every change of a record gives it a higher number in `changed_records`, including
//!   changes that are not in the feed, such as a new etag or the first reading of a detail.
//! - An entry moves and is never deleted, so any number of followers can store their own position.

pub mod queue;
pub mod source;
