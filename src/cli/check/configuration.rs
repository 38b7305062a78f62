//! The configuration: its sources and validity; the source of the API key, never the key; who else can read secrets.

use super::{Excess, Finding, access};
use crate::config::{Config, ConfigError, SecretPlace, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::publish::PublishUrl;

pub(super) fn check(sources: &Sources, read: &Result<Config, ConfigError>) -> Vec<Finding> {
    let config = match read {
        Ok(config) => config,
        Err(error) => return vec![failed_to_configure("config.settings", error)],
    };
    let file = Some(sources.main_file()).filter(|file| file.exists());
    let mut from = file.map_or("from the built-in defaults".into(), |file| format!("from {}", file.display()));
    let variables: Vec<&str> = sources.environment.values().map(|(name, _)| name).collect();
    if !variables.is_empty() {
        from.push_str(&format!(", overridden by {}", variables.join(", ")));
    }
    let address = match &config.api.base_url {
        Some(url) => Finding::ok("config.base_url", url.as_str()),
        None => failed_to_configure("config.base_url", &ConfigError::NoBaseUrl),
    };
    vec![Finding::ok("config.settings", from), address]
}

fn failed_to_configure(name: &'static str, error: &ConfigError) -> Finding {
    let fix = error.hint().unwrap_or("correct it; `crm-mirror init --full --stdout` explains every key");
    Finding::fail(name, Exit::Config, error_chain(error), fix)
}

pub(super) fn check_secrets(config: &Config) -> Vec<Finding> {
    let place = &config.key.place;
    let mut lines = vec![match config.api_key() {
        Ok(_) => Finding::ok("key.source", source(place)),
        Err(error) => failed_to_configure("key.source", &error),
    }];
    if config.publish.is_on() {
        lines.push(match config.publish.url().map(|url| PublishUrl::new(&url)) {
            Ok(Ok(url)) => Finding::ok("publish.url", &url.place),
            Ok(Err(error)) => {
                let fix = error.hint().unwrap_or_default();
                Finding::fail("publish.url", Exit::of_publish(&error), error_chain(&error), fix)
            }
            Err(error) => failed_to_configure("publish.url", &error),
        });
    }
    let secrets = [("key.permissions", place.path()), ("publish.permissions", config.publish.url.place.path())];
    lines.extend(secrets.into_iter().filter_map(|(name, path)| access(name, path?, OF_SECRETS)));
    lines
}

fn source(place: &SecretPlace) -> String {
    match place {
        SecretPlace::Variable => "from the variable CRM_MIRROR_API__KEY".into(),
        SecretPlace::File(path) => format!("from {}", path.display()),
        SecretPlace::Unit(unit, credential) => format!("from {}, which {unit} loads", credential.path.display()),
        SecretPlace::Nowhere => "nowhere".into(),
    }
}

/// A file with a secret should be readable by its owner, and by a group that it was given to, only.
pub(super) const OF_SECRETS: Excess = (0o037, "others can read or change it", "g-wx,o=");
