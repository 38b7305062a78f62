//! The daemon end to end: the real program with a service in this process, so that every request is counted. Where days
//! have to pass, the daemon itself runs in this process with a manual clock.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as its tests do")]

#[path = "../cli/binary.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod binary;
#[path = "../cli/documented.rs"]
mod documented;
#[path = "../publish/server.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod postgres;
#[path = "../support/mod.rs"]
mod support;

mod alerts;
mod alerts_publish;
mod control;
mod days;
mod disk_errors;
mod edits;
mod fixture;
mod idle;
mod inside;
mod locked;
mod metrics;
mod neighbours;
mod notification;
mod reload;
mod schedule;
mod shape;
mod socket;
mod stops;
mod storage;
mod systemd;
mod trouble;
mod verbs;
