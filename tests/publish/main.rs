//! Publishing: whatever happens on either side, the tables in PostgreSQL end equal to the mirror.
//!
//! Every test publishes to a real PostgreSQL server, which it starts in a temporary directory and stops at its end.
//! Where Debian's package `postgresql` is not installed, the tests print a note and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends there")]

#[path = "../cli/documented.rs"]
mod documented;
#[path = "../support/mod.rs"]
mod support;

mod background_task;
mod changes;
mod clusters;
mod equal;
mod histories;
mod hostile;
mod others;
mod owed;
mod reconcile;
mod refusals;
mod reloads;
mod server;
mod silent_server;
mod stream;
mod stream_cursors;
mod theirs;
mod tls;
mod verify;
