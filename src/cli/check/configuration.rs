//! The configuration: its sources, and whether it is valid; the API key: its source, and who else can read it, but never itself;
//! the unit that reads both: what its user can access, when root runs the check; and whether the database of `[publish]` can
//! be reached.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::Finding;
use super::facts::CheckFacts;
use crate::app::publish_settings;
use crate::cli::session;
use crate::config::{Config, ConfigError, KeyPlace, Sources, UnitCredential};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::publish::{self, PublishError, PublishUrl};

pub(super) fn check(sources: &Sources, read: &Result<Config, ConfigError>) -> Vec<Finding> {
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            let fix = error.hint().unwrap_or("correct it; `crm-mirror init --full --stdout` explains every key");
            return vec![Finding::fail("config.settings", Exit::Config, error_chain(error), fix)];
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

pub(super) fn check_key(config: &Config) -> Vec<Finding> {
    let place = config.key_place();
    let mut lines = vec![match config.api_key() {
        Ok(_) => Finding::ok("key.source", source(place)),
        Err(error) => {
            let fix = error.hint().unwrap_or("create a new key in the workspace console");
            Finding::fail("key.source", Exit::Config, error_chain(&error), fix)
        }
    }];
    // systemd controls who can read what it passes to a unit.
    let file = place.path().filter(|_| !matches!(place, KeyPlace::Credential(_)));
    if let Some((path, meta)) = file.and_then(|path| Some((path, std::fs::metadata(path).ok()?))) {
        lines.push(permissions("key.permissions", path, meta.permissions().mode()));
    }
    lines
}

fn source(place: &KeyPlace) -> String {
    let variable = KeyPlace::VARIABLE;
    match place {
        KeyPlace::Variable { instead_of: None } => format!("from the variable {variable}"),
        KeyPlace::Variable { instead_of: Some(file) } => {
            format!("from the variable {variable}, which overrides {}", file.display())
        }
        KeyPlace::File(path) => format!("from {}", path.display()),
        KeyPlace::Credential(path) => format!("from the systemd credential {}", path.display()),
        KeyPlace::Unit(unit, UnitCredential { path, is_encrypted }) => {
            let then = if *is_encrypted { " and systemd decrypts" } else { "" };
            format!("from {}, which {unit} loads{then}", path.display())
        }
        KeyPlace::Nowhere => "nowhere".into(),
    }
}

/// A file with a secret should be readable by its owner, and by a group that it was given to, only.
fn permissions(name: &'static str, path: &Path, mode: u32) -> Finding {
    let mode = mode & 0o777;
    let (message, fix) = match (mode & 0o007, mode & 0o030, mode & 0o040) {
        (0, 0, 0) => return Finding::ok(name, format!("only its owner can read it ({mode:04o})")),
        (0, 0, _) => {
            return Finding::ok(name, format!("its owner and its group can read it ({mode:04o})"));
        }
        (0, _, _) => ("its group can write", "chmod 640"),
        _ => ("every user of this machine has access to", "chmod o="),
    };
    Finding::warn(name, format!("{message} {} ({mode:04o})", path.display()), format!("{fix} {}", path.display()))
}

pub(super) fn check_unit(facts: &CheckFacts<'_>, sources: &Sources) -> Vec<Finding> {
    let Some(user) = &facts.unit else { return Vec::new() };
    let (unit, name) = (&user.unit, &user.unit.user);
    if !user.exists() {
        let message = format!("{} runs as {name}, which does not exist", unit.name);
        let fix = "create it with `systemd-sysusers crm-mirror.conf`, or reinstall the package";
        return vec![Finding::fail("unit.user", Exit::Config, message, fix)];
    }
    let mut findings = vec![Finding::ok("unit.user", format!("{} runs as {name}", unit.name))];
    let place = facts.config.key_place();
    if let KeyPlace::Variable { .. } = place {
        let variable = KeyPlace::VARIABLE;
        let message =
            format!("the key is from the variable {variable} of this shell, which {} does not have", unit.name);
        let fix = "`env -u CRM_MIRROR_API__KEY crm-mirror check` checks the key of the unit";
        findings.push(Finding::warn("unit.key", message, fix));
    }
    let files = sources.files().unwrap_or_default();
    let mut needed: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
    if let KeyPlace::File(path) = place {
        needed.push(path.clone());
    }
    needed.extend(facts.config.publish.url_file().map(Path::to_path_buf));
    let refused = needed.iter().find(|path| path.exists() && user.may(Access::READ_OK, path) == Some(false));
    findings.push(match refused {
        None => Finding::ok("unit.files", format!("{name} can read the configuration")),
        Some(path) => {
            let shown = path.display();
            let fix = format!("chgrp {name} {shown} && chmod 640 {shown}");
            Finding::fail("unit.files", Exit::Config, format!("{name} cannot read {shown}"), fix)
        }
    });
    findings
}

pub(super) fn check_publish(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let config = &facts.config.publish;
    if !config.is_on() {
        return Vec::new();
    }
    let unreadable = |error: ConfigError| {
        let fix = error.hint().unwrap_or("correct `publish.url_file`");
        Finding::fail("publish.url", Exit::Config, error_chain(&error), fix)
    };
    let url = config.url().map_err(unreadable);
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
    let settings = publish_settings(facts.config);
    findings.push(match session::runtime().map(|runtime| runtime.block_on(publish::probe(&url, &settings))) {
        Ok(Ok(())) => Finding::ok("publish.database", "it answers, and the schema can be used"),
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
        let place = KeyPlace::Variable { instead_of: Some("/k".into()) };
        assert_eq!(source(&place), "from the variable CRM_MIRROR_API__KEY, which overrides /k");
    }
}
