//! The probes of `crm-mirror check`, from the configuration to the disk.
//!
//! Each probe evaluates the facts that `facts` collected. A failure does not end the check: the other probes still run.
//! What a person can do nothing about is no finding: `status` shows it.
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
mod mirror;
mod notify;
mod probes;
mod publish;
mod readers;
mod service;
mod socket;
mod space;
mod unit;
mod unit_user;
mod workspace;

pub use probes::run;
