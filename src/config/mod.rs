//! The configuration: defaults, files, environment and flags, checked once into plain types.
//!
//! - `config/default.toml` is embedded: it holds every default, and it is the manual that `crm-mirror init` prints.
//! - [`sources`](Sources) says where values are read from; `layers` merges them (defaults < file < drop-ins < environment <
//!   flags) and turns what `figment` reports into a [`ConfigError`] with key and place.
//! - `sections` has a serde type per section, with the bounds of each key; `values` reads one value into one type.
//! - [`Config`] is what the program uses. The API key is read only when it is needed, so `status` and `sql` work without one.
//!
//! To add a key: a field in its section, and a paragraph with its default in `config/default.toml`.
//!
//! # Always true
//! - Every error names the key and the file or the variable; no error shows a value of `[api]`.
//! - A secret passes through no layer: layers guess types and quote what they reject.
//! - A relative path in a file is relative to that file.

mod api_key;
mod cron;
mod error;
mod keys;
mod layers;
mod network;
mod publish_target;
mod sections;
mod settings;
mod sources;
mod values;

pub use crate::model::duration::duration;
pub use api_key::KeyPlace;
pub use cron::Cron;
pub use error::ConfigError;
pub use network::Network;
pub use publish_target::PublishConfig;
pub use sections::{BudgetConfig, LogConfig, LogFormat, SyncConfig};
pub use settings::{ApiConfig, Config};
pub use sources::{Environment, Sources};

/// Every setting with its meaning and default, as `init` prints it.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

#[cfg(test)]
mod tests;
