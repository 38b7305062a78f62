//! What can be wrong with the configuration: one sentence, and where there is one, a next move.

use std::io;
use std::path::PathBuf;

use crate::api::key::NotAKey;

/// A configuration that cannot be used. Every one of them ends the program with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("could not read the configuration file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is not TOML.
    #[error("{place} is not TOML: {reason}")]
    Syntax {
        /// The file.
        place: String,
        /// Where and why, without the line itself.
        reason: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` {place}{}", .meant.as_ref().map(|m| format!("; did you mean `{m}`?")).unwrap_or_default())]
    Unknown {
        /// The key, section included.
        key: String,
        /// The file or the variable.
        place: String,
        /// The key that looks most like it.
        meant: Option<String>,
    },
    /// A secret in the configuration file.
    #[error("`{key}` {place} is a secret, which does not belong in the configuration")]
    SecretInFile {
        /// The key.
        key: &'static str,
        /// Where it is.
        place: String,
    },
    /// A value that cannot be used.
    #[error("`{key}` {place} {reason}")]
    Value {
        /// The key, section included.
        key: String,
        /// The file or the variable.
        place: String,
        /// What it must be.
        reason: String,
    },
    /// A status page that others can reach, and nobody said who may look.
    #[error("`daemon.http` is {address}, which other machines could reach, and the page asks nobody for a password")]
    NotLoopback {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// No address.
    #[error("`api.base_url` is not set")]
    NoBaseUrl,
    /// No key.
    #[error("there is no API key")]
    NoKey,
    /// A key file that cannot be read.
    #[error("could not read the API key from {path}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key that is none.
    #[error("the API key from {place} cannot be used")]
    BadKey {
        /// The file or the variable.
        place: String,
        /// What is wrong with it.
        source: NotAKey,
    },
    /// No database to publish to.
    #[error("no database is configured to publish to")]
    NoPublishUrl,
    /// A file of a URL that cannot be read.
    #[error("could not read the URL of the database from {path}")]
    PublishUrlFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ConfigError {
    /// A next move for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ConfigError::File { .. } => Some("`crm-mirror init` writes a commented file"),
            ConfigError::Unknown { .. } => Some("`crm-mirror init --stdout` prints every key"),
            ConfigError::SecretInFile { .. } => {
                Some("put it in a file of its own, and name that file with the key in `_file`")
            }
            ConfigError::NotLoopback { .. } => Some(
                "name the networks that may look in `daemon.http_allow`; or listen on 127.0.0.1 and use `ssh -L` from elsewhere",
            ),
            ConfigError::NoBaseUrl => Some(
                "set it in the configuration file that `--config` names, or CRM_MIRROR_API__BASE_URL in the environment",
            ),
            ConfigError::NoKey => Some(
                "name its file in `api.key_file`, load the systemd credential `api-key`, or set CRM_MIRROR_API__KEY",
            ),
            ConfigError::NoPublishUrl => {
                Some("name the file that holds its URL in `publish.url_file`, or set CRM_MIRROR_PUBLISH__URL")
            }
            ConfigError::KeyFile { .. } | ConfigError::PublishUrlFile { .. } => {
                Some("it must exist and be readable by the user that runs this")
            }
            ConfigError::BadKey { .. } => Some("it must hold the key and nothing else, on one line"),
            ConfigError::Syntax { .. } | ConfigError::Value { .. } => None,
        }
    }
}
