//! The command line: parses the arguments, runs the verb, and reports what failed.
//!
//! - [`verbs`]: one thin file per verb.
//! - [`check`]: the probes of `crm-mirror check`.
//! - [`mcp`]: the Model Context Protocol server.
//! - [`ui`]: tables, progress and texts.
//! - `program` parses the command line and reports how it ended.
//! - [`args`]: options of every verb; [`failure`]: errors as text with a hint; [`logging`], [`session`]
//!   and [`remote`]: helpers of several verbs. `identity` is whom a process of root acts as.
//!
//! # Invariants
//! - stdout contains the output of the verb and nothing else; progress, logs and errors go to stderr.
//! - If the reader of stdout closes it, the program ends silently.

pub mod args;
pub mod check;
pub mod failure;
mod identity;
pub mod logging;
pub mod mcp;
mod program;
pub mod recipes;
pub mod remote;
pub mod session;
pub mod ui;
pub mod verbs;

pub use args::Global;
pub use failure::Failure;
pub use program::main;
pub use verbs::Cli;
