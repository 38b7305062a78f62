//! The mirror itself: whatever the service does, and whatever happens to the process, the file ends equal to the service.
//!
//! Every test drives the real engine against a sandbox over HTTP on loopback, with a real SQLite file in a temporary
//! folder; a file here is one subject.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends there")]

#[path = "../support/mod.rs"]
mod support;

mod audits;
mod broken_rules;
mod budget;
mod changes;
mod definitions_over_time;
mod evidence;
mod feed;
mod first_copy;
mod histories;
mod holds;
mod hostile_keys;
mod identity;
mod indexes;
mod kills;
mod odd_answers;
mod older_answers;
mod outbox_bench;
mod outbox_check;
mod outbox_exact;
mod outbox_histories;
mod outbox_limits;
mod outbox_local;
mod outbox_others;
mod outbox_push;
mod random_worlds;
mod readers;
mod resync;
mod schema_upgrades;
mod search;
mod stock_sqlite;
