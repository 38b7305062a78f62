//! Brings the mirror up to date with the service.
//!
//! [`Engine::run`] carries out a [`Job`]. [`walks`] read what the service has, [`checks`] hold the mirror against it.
//! The decisions are pure: [`walks::walk`] (what to ask next and what a page means), [`walks::changes::lower_bound`] (where
//! changes begin), [`time_range`] (what to count), `checks::removals` (what may be removed).
//!
//! # Always true
//! - A request's RU are noted before it is sent; a page's rows and checkpoint are one transaction. So a kill repeats at
//!   most one page, and never under-counts.
//! - A watermark moves only when its walk is finished.
//! - Nothing is removed that the service did not confirm by id.

pub mod checks;
mod edits;
pub mod engine;
pub mod error;
pub mod events;
mod execute;
pub mod forecast;
pub mod job;
pub mod meter;
pub mod plan;
pub mod report;
mod run;
mod run_line;
pub mod state;
pub mod summary;
mod tally;
pub mod time_range;
pub mod walks;

pub use checks::findings::{self, Findings};
pub use engine::{Engine, SyncSettings};
pub use error::{Suspension, SyncError};
pub use forecast::Forecast;
pub use job::{Acceptance, Job, Selection};
pub use meter::BudgetMeter;
pub use report::RunReport;
pub use run_line::RUN_LINE;
pub use summary::{Ran, Summary};

pub use crate::outbox::PushTally;
