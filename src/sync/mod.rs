//! Brings the mirror up to date with the service.
//!
//! [`Engine::run`] carries out a [`Plan`]. The decisions are pure and stand by themselves: [`walk`] (what to ask next
//! and what a page means), [`changes::lower_bound`] (where changes begin), [`span`] (what to count), [`removals`] (what may
//! go). The awaits stand in `pages.rs`, `details.rs` and their neighbours, which never decide.
//!
//! # Always true
//! - A request's RU are noted before it is sent; a page's rows and checkpoint are one transaction. So a kill repeats at
//!   most one page, and never under-counts.
//! - A watermark moves only when its walk is finished.
//! - Nothing is removed that the service did not confirm by id.

mod audit;
pub mod changes;
mod definitions;
mod details;
mod edits;
pub mod engine;
pub mod error;
mod fill;
pub mod findings;
pub mod forecast;
mod identity;
pub mod meter;
pub mod observe;
mod oddity;
mod pages;
pub mod plan;
mod progress;
mod range;
pub mod removals;
mod run_line;
pub mod setup;
pub mod span;
pub mod state;
pub mod status;
pub mod summary;
pub mod sweep;
mod tally;
pub mod verify;
pub mod walk;

pub use engine::Engine;
pub use error::{Pause, SyncError};
pub use findings::Findings;
pub use forecast::Forecast;
pub use meter::BudgetMeter;
pub use plan::{Plan, Report, Settings};
pub use run_line::RUN_LINE;
pub use setup::Setup;
pub use summary::{Ran, Summary};
pub use verify::Verify;

pub use crate::outbox::PushTally;
