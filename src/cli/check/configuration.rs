//! The configuration: which sources it was read from, and whether it can be used.

use std::path::Path;

use super::line::Line;
use crate::config::{Config, ConfigError, Sources};
use crate::exit::Exit;

/// Where `init` writes the file that nobody reads unless it is named.
const WRITTEN: &str = "./crm-mirror.toml";

/// Looks at what was read, and from where.
pub fn check(sources: &Sources, read: &Result<Config, ConfigError>) -> Vec<Line> {
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            let fix = error.hint().unwrap_or("correct it; `crm-mirror init --stdout` explains every key");
            return vec![Line::fail("config.settings", Exit::Config, crate::error_chain::error_chain(error), fix)];
        }
    };
    let variables: Vec<&str> = sources.environment.settings().collect();
    let mut lines = vec![Line::ok("config.settings", from(file(sources).as_deref(), &variables))];
    lines.push(match config.base_url() {
        Some(url) => Line::ok("config.base_url", url.as_str()),
        None => {
            let error = ConfigError::NoBaseUrl;
            let forgotten = file(sources).is_none() && Path::new(WRITTEN).exists();
            let fix = match error.hint().unwrap_or_default() {
                _ if forgotten => format!("{WRITTEN} is here and was not read: add `--config {WRITTEN}`"),
                hint => hint.into(),
            };
            Line::fail("config.base_url", Exit::Config, error.to_string(), fix)
        }
    });
    lines
}

/// The file that was read, if there was one.
fn file(sources: &Sources) -> Option<String> {
    let default = || sources.default_file.exists().then(|| sources.default_file.clone());
    let file = sources.file.clone().or_else(default)?;
    Some(file.display().to_string())
}

fn from(file: Option<&str>, variables: &[&str]) -> String {
    match (file, variables) {
        (Some(file), []) => format!("from {file}"),
        (Some(file), variables) => format!("from {file}, and over it {}", variables.join(", ")),
        (None, []) => "no file: the defaults".into(),
        (None, variables) => format!("no file: the defaults, and over them {}", variables.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_named() {
        assert_eq!(from(Some("/c.toml"), &[]), "from /c.toml");
        assert_eq!(from(Some("/c.toml"), &["A", "B"]), "from /c.toml, and over it A, B");
        assert_eq!(from(None, &["A"]), "no file: the defaults, and over them A");
    }
}
