//! What `crm-mirror check` looks at, from the configuration to the disk.
//!
//! [`probes`] is a table: each probe has a name, says what it needs, and judges facts that `facts` collected. A failure
//! ends nothing: whatever can still be looked at is. To add a probe: a function from [`CheckFacts`] to findings, and a line in
//! the table.
//!
//! # Always true
//! - Nothing is changed and no file is made. What is asked of the service (1 RU per resource) is entered in the mirror's
//!   ledger; where it could not be, nothing is asked: while another process writes the mirror, and during a hold.
//! - Every warning and every failure has a fix.

mod budget;
mod configuration;
mod facts;
pub mod finding;
mod key;
mod meter;
mod mirror;
pub mod probes;
mod publish;
mod readers;
mod schedule;
mod service;
mod space;
mod workspace;

pub use facts::CheckFacts;
pub use probes::run;
