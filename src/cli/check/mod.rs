//! `crm-mirror check`: finds problems, from the configuration to the disk, and shows how to fix them.
//!
//! A failure does not end the check: the other probes still run. They look at the setup, and at what no verb would say as
//! well; what becomes of it (the daemon, the budget's window, the published copy) is in `status`.
//!
//! # Invariants
//! - Root checks as the user who owns the mirror's folder, or whom the unit names, with the key that the unit loads: what the
//!   service cannot read fails here, too.
//! - Nothing is changed and no file is created. The cost of requests (1 RU per resource) is recorded in the mirror's
//!   ledger; if that is not possible, no request is sent: while another process writes the mirror, and during a hold.
//! - Every warning and every failure has a fix.

mod configuration;
mod mirror;
mod service;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::cli::args::as_owner;
use crate::cli::{Failure, Global, logging, output};
use crate::config::{Config, ServiceUnit, unit};
use crate::exit::Exit;
use crate::format::plain;
use crate::model::Instant;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror check\n  crm-mirror check --offline\n  \
                        crm-mirror check --json | jq '.checks[] | select(.state != \"ok\")'")]
pub struct CheckArgs {
    /// Do not contact the service; no RU is spent.
    #[arg(long)]
    offline: bool,
}

pub fn run(global: &Global, args: &CheckArgs) -> Result<Exit, Failure> {
    let sources = global.sources();
    let unit = unit::of_file(sources.main_file());
    let read = match Config::load(&sources) {
        Ok(config) => {
            let config = as_owner(config, unit.as_ref())?;
            // Again, as the service.
            unit.as_ref().map_or(Ok(()), |_| sources.read().map(drop)).map(|()| config)
        }
        Err(error) => Err(error),
    };
    let mut findings = configuration::check(&sources, &read);
    if let Ok(config) = &read {
        logging::start(&config.log);
        findings.extend(of_setup(config, unit.as_ref(), args.offline)?);
    }
    let verdict = findings.iter().map(|finding| finding.state).max().unwrap_or(FindingState::Ok);
    let document = json!({"checks": findings, "verdict": verdict});
    output::report(global.json, &document, || output::complete(&text(&findings, verdict)))?;
    Ok(exit(&findings))
}

fn of_setup(config: &Config, unit: Option<&ServiceUnit>, offline: bool) -> Result<Vec<Finding>, Failure> {
    let now = Instant::system_now();
    let mirror = mirror::read(config, now);
    let mut findings = configuration::check_secrets(config);
    findings.extend(if offline { service::skipped("--offline") } else { service::ask(config, &mirror)? });
    findings.extend(mirror::check(&mirror));
    findings.extend(mirror::check_disk(&config.database, unit));
    findings.push(mirror::price(config, &mirror, now));
    Ok(findings)
}

/// The states, the worst one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FindingState {
    /// It was not checked; the message says why.
    Skip,
    Ok,
    Warn,
    #[strum(serialize = "FAIL")]
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its group and its own name, as in `key.permissions`.
    pub name: String,
    pub state: FindingState,
    pub message: String,
    pub fix: Option<String>,
    #[serde(skip)]
    pub exit: Exit,
}

impl Finding {
    pub fn ok(name: &str, message: impl Into<String>) -> Finding {
        Finding { name: name.into(), state: FindingState::Ok, message: message.into(), fix: None, exit: Exit::Done }
    }

    pub fn warn(name: &str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Warn, fix: Some(fix.into()), ..Finding::ok(name, message) }
    }

    pub fn fail(name: &str, exit: Exit, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Fail, exit, ..Finding::warn(name, message, fix) }
    }

    pub fn skip(name: &str, why: impl Into<String>) -> Finding {
        Finding { state: FindingState::Skip, ..Finding::ok(name, why) }
    }
}

/// The exit code of the first failure.
fn exit(findings: &[Finding]) -> Exit {
    let failed = findings.iter().find(|finding| finding.state == FindingState::Fail);
    failed.map_or(Exit::Done, |finding| finding.exit)
}

fn text(findings: &[Finding], verdict: FindingState) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { name, state, message, fix, .. } in findings {
        let _ = writeln!(text, "{state:<4}  {name:<width$}  {}", plain(message));
        if let Some(fix) = fix {
            let _ = writeln!(text, "{:<4}  {:<width$}  fix: {}", "", "", plain(fix));
        }
    }
    let _ = writeln!(text, "\nverdict: {verdict}");
    text
}

/// What others than the owner may not do with a file or a folder: the bits of the mode, what they could do, and what `chmod`
/// takes away.
type Excess = (u32, &'static str, &'static str);

fn access(name: &str, path: &Path, (excess, what, change): Excess) -> Option<Finding> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let shown = format!("{} ({:04o})", path.display(), mode & 0o7777);
    Some(match mode & excess {
        0 => Finding::ok(name, shown),
        _ => Finding::warn(name, format!("{what}: {shown}"), format!("chmod {change} {}", path.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};

    #[test]
    fn files_to_which_others_have_too_much_access_are_warnings() {
        use FindingState::{Ok, Warn};
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("d"), dir.path().join("k"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        for (path, rule, mode, state) in [
            (&file, configuration::OF_SECRETS, 0o600, Ok),
            (&file, configuration::OF_SECRETS, 0o400, Ok),
            (&file, configuration::OF_SECRETS, 0o640, Ok),
            (&file, configuration::OF_SECRETS, 0o660, Warn),
            (&file, configuration::OF_SECRETS, 0o604, Warn),
            (&file, configuration::OF_SECRETS, 0o666, Warn),
            (&folder, mirror::OF_FOLDER, 0o755, Ok),
            (&file, mirror::OF_FILE, 0o640, Ok),
            (&file, mirror::OF_FILE, 0o660, Warn),
            (&folder, mirror::OF_FOLDER, 0o2770, Warn),
            (&folder, mirror::OF_FOLDER, 0o1777, Warn),
        ] {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let line = access("a.b", path, rule).unwrap();
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.ends_with(&format!("{} ({mode:04o})", path.display())), "{}", line.message);
        }
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let open = access("a.b", &file, configuration::OF_SECRETS).unwrap();
        assert_eq!(open.fix, Some(format!("chmod g-wx,o= {}", file.display())));
        assert_eq!(access("a.b", &dir.path().join("gone"), configuration::OF_SECRETS), None);
    }

    #[test]
    fn first_failure_determines_the_exit_code() {
        let fail = |exit| Finding::fail("a.b", exit, "broken", "fix it");
        let warn = Finding::warn("a.c", "bad", "fix it");
        for (lines, exit) in [
            (vec![], Exit::Done),
            (vec![warn.clone()], Exit::Done),
            (vec![warn, fail(Exit::Storage), fail(Exit::Unavailable)], Exit::Storage),
        ] {
            assert_eq!(super::exit(&lines), exit, "{lines:?}");
        }
    }
}
