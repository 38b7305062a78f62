//! The daemon from end to end: the real program with a service in this process, so that every request is counted; and,
//! where days have to pass, the daemon itself in this process, with a clock that is set by hand.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as its tests do")]

#[path = "../cli/binary.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod binary;
#[path = "../support/mod.rs"]
mod support;

mod control;
mod days;
mod edits;
mod inside;
mod locked;
mod metrics;
mod quiet;
mod reload;
mod scene;
mod schedule;
mod shape;
mod socket;
mod stops;
mod systemd;
mod trouble;
mod verbs;
