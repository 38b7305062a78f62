//! The configuration: defaults, files, environment and flags, checked once into plain types.
//!
//! `config/default.toml` contains every default. [`Config`] is what the program uses. The API key is read only when it is
//! needed, so `status` and `sql` work without one.
//!
//! To add a key, add a field to its section, and a paragraph with its default to `config/default.toml`.
//!
//! # Invariants
//! - The same file means the same mirror, whoever runs the program and wherever: what no setting names follows from the
//!   file, or from the unit that is installed for it, and not from the current directory or the user.
//! - Every error names the key and the file or the variable; no error shows a value of `[api]`.
//! - Secrets pass through no layer, because layers guess types and quote what they reject.
//! - A relative path in a file is relative to that file.

mod cron;
mod error;
mod layers;
mod network;
mod secret;
mod sections;
mod settings;
mod sources;
pub mod unit;
mod values;

pub use crate::model::duration::duration;
pub use cron::{ChangesSchedule, Cron};
pub use error::ConfigError;
pub use network::Network;
pub use secret::{Secret, SecretPlace};
pub use sections::{
    ApiConfig, BudgetConfig, DaemonConfig, HistoryConfig, LogConfig, LogFormat, McpConfig, NotifyConfig, PublishConfig,
    SyncConfig, WriteBackConfig,
};
pub use settings::Config;
pub use sources::{Environment, LOCAL_FILE, Sources, files_in};
pub use unit::{ServiceUnit, UnitCredential};

/// Every setting with its meaning and default, as `init --full` prints it.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

#[cfg(test)]
mod tests;
