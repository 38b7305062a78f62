//! Brings the mirror up to date with the service.
//!
//! [`Engine::run`] executes a [`Job`]. [`walks`] read the service's records, [`checks`] compare the mirror with them.
//! The decisions are pure: [`walks::walk`] (what to request next and what a page means),
//! [`walks::changes::lower_bound`] (where changes begin), [`ServiceTime`](crate::model::ServiceTime) (the lower bound of the service's time),
//! `walks::range` (what to list and to count), `checks::decide_doubts` (what may be removed).
//!
//! # Invariants
//! - A request's RU are recorded before it is sent; a page's rows and checkpoint are one transaction. So a kill repeats
//!   at most one page, or the search for one unreadable record, and never under-counts.
//! - A watermark moves only when its walk is finished.
//! - Nothing is removed that the service did not confirm by id.

mod apply;
pub mod budget_meter;
pub mod checks;
mod edits_in_run;
pub mod engine;
pub mod error;
pub mod events;
pub mod forecast;
pub mod job;
pub mod plan;
mod run;
mod run_line;
mod run_steps;
pub mod step_failures;
pub mod walks;

pub use budget_meter::BudgetMeter;
pub use checks::findings::{self, Findings};
pub use engine::{Engine, ListSchedule, SyncSettings};
pub use error::{Suspension, SyncError};
pub use forecast::Forecast;
pub use job::{Job, JobKind};
pub use run::RunReport;
pub use run_line::RUN_LINE;

pub use crate::outbox::PushTally;
pub use events::{RunEvent, RunObserver, Silent};
