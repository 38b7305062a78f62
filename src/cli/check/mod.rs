//! The probes of `crm-mirror check`, from the configuration to the disk.
//!
//! [`probes`] is a table: each probe has a name, declares what it needs, and evaluates the facts that `facts`
//! collected. A failure does not end the check: the other probes still run. To add a probe, add a function from
//! [`CheckFacts`] to findings, and a line in the table.
//!
//! # Invariants
//! - For root, the check also covers the unit that reads the configuration: its user, its credential, its directory.
//! - Nothing is changed and no file is created. The cost of requests (1 RU per resource) is recorded in the mirror's
//!   ledger; if that is not possible, no request is sent: while another process writes the mirror, and during a hold.
//! - Every warning and every failure has a fix.

mod budget;
mod configuration;
mod facts;
pub mod finding;
mod http;
mod key;
mod meter;
mod mirror;
pub mod probes;
mod publish;
mod readers;
mod schedule;
mod service;
mod space;
mod unit;
mod unit_user;
mod workspace;

pub use facts::CheckFacts;
pub use probes::run;
