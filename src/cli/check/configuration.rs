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
    let variables: Vec<&str> = sources.environment.settings().collect();
    let mut lines = vec![Finding::ok("config.settings", from(&files(sources), &variables))];
    lines.push(match config.base_url() {
        Some(url) => Finding::ok("config.base_url", url.as_str()),
        None => {
            let error = ConfigError::NoBaseUrl;
            Finding::fail("config.base_url", Exit::Config, error.to_string(), error.hint().unwrap_or_default())
        }
    });
    lines
}

/// The files that were read, the main one first.
fn files(sources: &Sources) -> Vec<String> {
    let files = sources.files().unwrap_or_default();
    files.iter().map(|(path, _)| path.display().to_string()).collect()
}

fn from(files: &[String], variables: &[&str]) -> String {
    let base = match files {
        [] => "the built-in defaults".into(),
        files => files.join(", "),
    };
    match variables {
        [] => format!("from {base}"),
        variables => format!("from {base}, overridden by {}", variables.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_named() {
        let files = ["/c.toml".to_string(), "/c.d/a.toml".to_string()];
        assert_eq!(from(&files[..1], &[]), "from /c.toml");
        assert_eq!(from(&files, &["A", "B"]), "from /c.toml, /c.d/a.toml, overridden by A, B");
        assert_eq!(from(&[], &["A"]), "from the built-in defaults, overridden by A");
    }
}
