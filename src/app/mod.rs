//! The assembled program without an interface: an open mirror that runs jobs, and its status as data.
//!
//! This room returns values and typed errors; the command line and the daemon turn them into text.
//!
//! # Invariants
//! - The address and the key are checked before the mirror's file is touched: an unusable configuration creates no file.
//! - A mirror that was replaced on disk is reopened before a run writes to it. A mirror that was deleted while it was in
//!   use is not created again.

pub mod ages;
mod mirror;
pub mod reserves;
mod settings;
pub mod status;
pub mod summary;
mod user_names;

pub use mirror::{EngineSettings, Mirror, MirrorError, RunResult, assemble_engine};
pub use reserves::{EditBudget, edit_budget};
pub use settings::{MirrorSettings, limits, publish_settings};
pub use summary::{MissingScope, Summary};
pub use user_names::{ids_of, person};
