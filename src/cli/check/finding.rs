//! A finding of `check`, and the report of all of them with its verdict.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::ui::output::plain;
use crate::exit::Exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    Ok,
    /// It works, but there is a problem.
    Warn,
    /// It does not work.
    Fail,
    /// It was not checked; the message says why.
    Skip,
}

impl FindingState {
    const fn mark(self) -> &'static str {
        match self {
            FindingState::Ok => "ok",
            FindingState::Warn => "warn",
            FindingState::Fail => "FAIL",
            FindingState::Skip => "skip",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its group and its own name, as in `key.permissions`.
    pub name: &'static str,
    pub state: FindingState,
    pub message: String,
    pub fix: Option<String>,
    #[serde(skip)]
    pub exit: Exit,
}

impl Finding {
    pub fn ok(name: &'static str, message: impl Into<String>) -> Finding {
        Finding { name, state: FindingState::Ok, message: message.into(), fix: None, exit: Exit::Done }
    }

    pub fn warn(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Warn, fix: Some(fix.into()), ..Finding::ok(name, message) }
    }

    pub fn fail(name: &'static str, exit: Exit, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Fail, exit, ..Finding::warn(name, message, fix) }
    }

    pub fn skip(name: &'static str, why: impl Into<String>) -> Finding {
        Finding { state: FindingState::Skip, ..Finding::ok(name, why) }
    }

    fn group(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    fn own_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, own)| own)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    pub checks: Vec<Finding>,
    pub verdict: FindingState,
}

/// The exit codes of failures, the one to fix first in front.
const IMPORTANCE: [Exit; 5] = [Exit::Config, Exit::KeyRefused, Exit::Unavailable, Exit::Storage, Exit::Paused];

impl CheckReport {
    pub fn new(checks: Vec<Finding>) -> CheckReport {
        let any = |state| checks.iter().any(|line| line.state == state);
        let verdict = if any(FindingState::Fail) {
            FindingState::Fail
        } else if any(FindingState::Warn) {
            FindingState::Warn
        } else {
            FindingState::Ok
        };
        CheckReport { checks, verdict }
    }

    /// The exit code: that of the failure to fix first.
    pub fn exit(&self) -> Exit {
        let mut failed = self.checks.iter().filter(|line| line.state == FindingState::Fail);
        let known = IMPORTANCE
            .into_iter()
            .find(|exit| self.checks.iter().any(|l| l.state == FindingState::Fail && l.exit == *exit));
        known.or(failed.next().map(|line| line.exit)).unwrap_or(Exit::Done)
    }

    /// The report as text: the findings by group, problems with their fix.
    pub fn text(&self) -> String {
        let width = self.checks.iter().map(|line| line.own_name().len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut group = "";
        for line in &self.checks {
            if line.group() != group {
                group = line.group();
                let _ = writeln!(text, "{group}");
            }
            let (mark, name) = (line.state.mark(), line.own_name());
            let _ = writeln!(text, "  {mark:<4}  {name:<width$}  {}", plain(&line.message));
            if let Some(fix) = &line.fix {
                let _ = writeln!(text, "  {:<4}  {:<width$}  fix: {}", "", "", plain(fix));
            }
        }
        let _ = writeln!(text, "\n{}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        let count = |state| self.checks.iter().filter(|line| line.state == state).count();
        let counted = |number: usize, one: &str| match number {
            1 => format!("1 {one}"),
            number => format!("{number} {one}s"),
        };
        let skipped = match count(FindingState::Skip) {
            0 => String::new(),
            number => format!(", {number} skipped"),
        };
        match (count(FindingState::Fail), count(FindingState::Warn)) {
            (0, 0) => format!("verdict: ok{skipped}"),
            (0, warnings) => format!("verdict: ok, with {}{skipped}", counted(warnings, "warning")),
            (failures, 0) => format!("verdict: FAIL, {}{skipped}", counted(failures, "failure")),
            (failures, warnings) => {
                format!("verdict: FAIL, {}, {}{skipped}", counted(failures, "failure"), counted(warnings, "warning"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_to_fix_first_determines_the_exit_code() {
        let fail = |exit| Finding::fail("a.b", exit, "broken", "fix it");
        let warn = Finding::warn("a.c", "bad", "fix it");
        for (lines, exit) in [
            (vec![], Exit::Done),
            (vec![warn.clone()], Exit::Done),
            (vec![fail(Exit::Paused), fail(Exit::Storage)], Exit::Storage),
            (vec![fail(Exit::Storage), fail(Exit::Unavailable)], Exit::Unavailable),
            (vec![fail(Exit::KeyRefused), fail(Exit::Config)], Exit::Config),
            (vec![warn, fail(Exit::Internal)], Exit::Internal),
        ] {
            assert_eq!(CheckReport::new(lines.clone()).exit(), exit, "{lines:?}");
        }
    }

    #[test]
    fn text_is_grouped_and_shows_fixes() {
        let findings = CheckReport::new(vec![
            Finding::ok("key.source", "from a file"),
            Finding::warn("key.permissions", "open to all", "chmod 600 key"),
            Finding::skip("service.clock", "--offline"),
        ]);
        assert_eq!(
            findings.text(),
            "key\n  ok    source       from a file\n  warn  permissions  open to all\n                     fix: chmod 600 key\n\
             service\n  skip  clock        --offline\n\nverdict: ok, with 1 warning, 1 skipped\n"
        );
    }
}
