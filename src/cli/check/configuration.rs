//! The configuration: its sources, and whether it is valid; the API key: its source, and who else can read it, but never itself;
//! and whether the database of `[publish]` can be reached.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Finding;
use super::facts::CheckFacts;
use crate::cli::session;
use crate::config::{Config, ConfigError, SecretPlace, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::publish::{PublishError, PublishUrl};

pub(super) fn check(sources: &Sources, read: &Result<Config, ConfigError>) -> Vec<Finding> {
    let config = match read {
        Ok(config) => config,
        Err(error) => return vec![failed_to_configure("config.settings", error)],
    };
    let file = Some(sources.main_file()).filter(|file| file.exists());
    let mut from = file.map_or("from the built-in defaults".into(), |file| format!("from {}", file.display()));
    let variables: Vec<&str> = sources.environment.settings().collect();
    if !variables.is_empty() {
        from.push_str(&format!(", overridden by {}", variables.join(", ")));
    }
    let address = match config.base_url() {
        Some(url) => Finding::ok("config.base_url", url.as_str()),
        None => failed_to_configure("config.base_url", &ConfigError::NoBaseUrl),
    };
    vec![Finding::ok("config.settings", from), address]
}

fn failed_to_configure(name: &'static str, error: &ConfigError) -> Finding {
    let fix = error.hint().unwrap_or("correct it; `crm-mirror init --full --stdout` explains every key");
    Finding::fail(name, Exit::Config, error_chain(error), fix)
}

pub(super) fn check_key(config: &Config) -> Vec<Finding> {
    let place = config.key_place();
    let mut lines = vec![match config.api_key() {
        Ok(_) => Finding::ok("key.source", source(place)),
        Err(error) => failed_to_configure("key.source", &error),
    }];
    // systemd controls who can read what it passes to a unit.
    let file = place.path().filter(|_| !matches!(place, SecretPlace::Credential(_)));
    if let Some((path, meta)) = file.and_then(|path| Some((path, std::fs::metadata(path).ok()?))) {
        lines.push(permissions("key.permissions", path, meta.permissions().mode()));
    }
    lines
}

fn source(place: &SecretPlace) -> String {
    let variable = "CRM_MIRROR_API__KEY";
    match place {
        SecretPlace::Variable { instead_of: None } => format!("from the variable {variable}"),
        SecretPlace::Variable { instead_of: Some(file) } => {
            format!("from the variable {variable}, which overrides {}", file.display())
        }
        SecretPlace::File(path) => format!("from {}", path.display()),
        SecretPlace::Credential(path) => format!("from the systemd credential {}", path.display()),
        SecretPlace::Unit(unit, credential) => format!("from {}, which {unit} loads", credential.path.display()),
        SecretPlace::Nowhere => "nowhere".into(),
    }
}

/// A file with a secret should be readable by its owner, and by a group that it was given to, only.
fn permissions(name: &'static str, path: &Path, mode: u32) -> Finding {
    let mode = mode & 0o777;
    let (message, fix) = match (mode & 0o007, mode & 0o030) {
        (0, 0) => {
            let who = if mode & 0o040 == 0 { "only its owner" } else { "its owner and its group" };
            return Finding::ok(name, format!("{who} can read it ({mode:04o})"));
        }
        (0, _) => ("its group can write", "chmod 640"),
        _ => ("every user of this machine has access to", "chmod o="),
    };
    Finding::warn(name, format!("{message} {} ({mode:04o})", path.display()), format!("{fix} {}", path.display()))
}

pub(super) fn check_publish(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let config = &facts.config.publish;
    if !config.is_on() {
        return Vec::new();
    }
    let url = config.url().map_err(|error| failed_to_configure("publish.url", &error));
    let url = match url.and_then(|url| PublishUrl::new(&url).map_err(|error| failed("publish.url", &error))) {
        Ok(url) => url,
        Err(finding) => return vec![finding],
    };
    let mut findings = vec![Finding::ok("publish.url", url.place())];
    if let Some((path, meta)) = config.url_file().and_then(|path| Some((path, std::fs::metadata(path).ok()?))) {
        findings.push(permissions("publish.permissions", path, meta.permissions().mode()));
    }
    if facts.offline {
        findings.push(Finding::skip("publish.database", "not connected: --offline"));
        return findings;
    }
    findings.push(match session::runtime().map(|runtime| runtime.block_on(url.probe())) {
        Ok(Ok(())) => Finding::ok("publish.database", "it answers"),
        Ok(Err(error)) => failed("publish.database", &error),
        Err(_) => Finding::skip("publish.database", "not connected: the system cannot create threads"),
    });
    findings
}

fn failed(name: &'static str, error: &PublishError) -> Finding {
    let fix = error.hint().unwrap_or("run `crm-mirror publish` for details");
    Finding::fail(name, Exit::of_publish(error), error_chain(error), fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::FindingState;

    #[test]
    fn key_that_others_can_read_is_a_warning() {
        for (mode, state, part) in [
            (0o100600, FindingState::Ok, "(0600)"),
            (0o100400, FindingState::Ok, "(0400)"),
            (0o100640, FindingState::Ok, "its owner and its group can read it (0640)"),
            (0o100660, FindingState::Warn, "its group can write"),
            (0o100604, FindingState::Warn, "every user"),
            (0o100666, FindingState::Warn, "every user"),
        ] {
            let line = permissions("key.permissions", Path::new("k"), mode);
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
        let open = permissions("key.permissions", Path::new("k"), 0o644);
        assert_eq!(open.fix.as_deref(), Some("chmod o= k"));
    }

    #[test]
    fn variable_that_overrides_a_file_is_reported() {
        let place = SecretPlace::Variable { instead_of: Some("/k".into()) };
        assert_eq!(source(&place), "from the variable CRM_MIRROR_API__KEY, which overrides /k");
    }
}
