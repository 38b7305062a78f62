//! Errors of the configuration, each with a message and a hint.

use std::io;
use std::path::PathBuf;

/// A configuration that cannot be used. Each of these ends the program with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("could not read the configuration file {path}")]
    File { path: PathBuf, source: io::Error },
    /// A file of the current directory that belongs to another user, and was not named.
    #[error("{path} in this directory belongs to another user")]
    ForeignFile { path: PathBuf },
    /// `reason` says where and why, without the line itself.
    #[error("{place} is not TOML: {reason}")]
    Syntax { place: String, reason: String },
    #[error("unknown key `{key}` {place}")]
    Unknown { key: String, place: String },
    #[error("`{key}` {place} is a secret, which does not belong in the configuration")]
    SecretInFile { key: &'static str, place: String },
    #[error("`{key}` {place} {reason}")]
    Value { key: String, place: String, reason: String },
    #[error("`api.base_url` is not set")]
    NoBaseUrl,
    #[error("there is no API key")]
    NoKey,
    #[error("the API key from {place} cannot be used: it {why}")]
    BadKey { place: String, why: &'static str },
    #[error("no database is configured to publish to")]
    NoPublishUrl,
    #[error("could not read the secret in {path}")]
    SecretFile { path: PathBuf, source: io::Error },
}

impl ConfigError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ConfigError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`crm-mirror init FILE` writes one")
            }
            ConfigError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("check its permissions: it exists, and the current user cannot read it")
            }
            ConfigError::File { .. } => Some("it must be a file of UTF-8 text; `crm-mirror init FILE` writes one"),
            ConfigError::ForeignFile { .. } => Some(
                "if you trust it, name it: `--config crm-mirror.toml`; it decides which addresses and commands are used",
            ),
            ConfigError::Unknown { .. } => Some("`crm-mirror init --full --stdout` prints every key"),
            ConfigError::SecretInFile { .. } => {
                Some("put it in a file of its own, and set the key that ends in `_file` to that file")
            }
            ConfigError::NoBaseUrl => {
                Some("`crm-mirror init --base-url URL` writes a configuration file; or set CRM_MIRROR_API__BASE_URL")
            }
            ConfigError::NoKey => {
                Some("set `api.key_file`, load the systemd credential `api-key`, or set CRM_MIRROR_API__KEY")
            }
            ConfigError::NoPublishUrl => {
                Some("set `publish.url_file` to a file with its URL, or set CRM_MIRROR_PUBLISH__URL")
            }
            ConfigError::SecretFile { .. } => Some("the file must exist and be readable by the current user"),
            ConfigError::BadKey { .. } => Some("it must contain the key and nothing else, on one line"),
            ConfigError::Syntax { .. } | ConfigError::Value { .. } => None,
        }
    }
}
