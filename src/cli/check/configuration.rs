//! The configuration: its sources, and whether it is valid.

use super::finding::Finding;
use crate::config::{Config, ConfigError, Sources};
use crate::exit::Exit;

pub(super) fn check(sources: &Sources, read: &Result<Config, ConfigError>) -> Vec<Finding> {
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            let fix = error.hint().unwrap_or("correct it; `crm-mirror init --full --stdout` explains every key");
            return vec![Finding::fail("config.settings", Exit::Config, crate::error_chain::error_chain(error), fix)];
        }
    };
    let files = sources.files().unwrap_or_default();
    let files: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    let mut from =
        if files.is_empty() { "from the built-in defaults".into() } else { format!("from {}", files.join(", ")) };
    let variables: Vec<&str> = sources.environment.settings().collect();
    if !variables.is_empty() {
        from.push_str(&format!(", overridden by {}", variables.join(", ")));
    }
    let mut lines = vec![Finding::ok("config.settings", from)];
    lines.push(match config.base_url() {
        Some(url) => Finding::ok("config.base_url", url.as_str()),
        None => {
            let error = ConfigError::NoBaseUrl;
            Finding::fail("config.base_url", Exit::Config, error.to_string(), error.hint().unwrap_or_default())
        }
    });
    lines
}
