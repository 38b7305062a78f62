//! What `check` says: one line per thing that was looked at, and the verdict.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::ui::output::plain;
use crate::exit::Exit;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but somebody should know.
    Warn,
    /// It does not work.
    Fail,
    /// It was not looked at; the line says why.
    Skip,
}

impl State {
    const fn mark(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
            State::Skip => "skip",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What it is: its group and its own name, as in `key.permissions`.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub says: String,
    /// How to fix it; only where there is something to fix.
    pub fix: Option<String>,
    /// The code of a failure.
    #[serde(skip)]
    pub exit: Exit,
}

impl Line {
    /// As it should be.
    pub fn ok(name: &'static str, says: impl Into<String>) -> Line {
        Line { name, state: State::Ok, says: says.into(), fix: None, exit: Exit::Done }
    }

    /// It works, but somebody should know.
    pub fn warn(name: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { state: State::Warn, fix: Some(fix.into()), ..Line::ok(name, says) }
    }

    /// It does not work.
    pub fn fail(name: &'static str, exit: Exit, says: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { state: State::Fail, exit, ..Line::warn(name, says, fix) }
    }

    /// It was not looked at.
    pub fn skip(name: &'static str, why: impl Into<String>) -> Line {
        Line { state: State::Skip, ..Line::ok(name, why) }
    }

    fn group(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    fn own_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, own)| own)
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// What was looked at, in order.
    pub checks: Vec<Line>,
    /// The worst of them.
    pub verdict: State,
}

/// The codes of failures, the one to fix first in front.
const IMPORTANCE: [Exit; 5] = [Exit::Config, Exit::KeyRefused, Exit::Unavailable, Exit::Storage, Exit::Paused];

impl Findings {
    /// Sums up what was looked at.
    pub fn new(checks: Vec<Line>) -> Findings {
        let any = |state| checks.iter().any(|line| line.state == state);
        let verdict = if any(State::Fail) {
            State::Fail
        } else if any(State::Warn) {
            State::Warn
        } else {
            State::Ok
        };
        Findings { checks, verdict }
    }

    /// The code to end with: that of the failure to fix first.
    pub fn exit(&self) -> Exit {
        let mut failed = self.checks.iter().filter(|line| line.state == State::Fail);
        let known =
            IMPORTANCE.into_iter().find(|exit| self.checks.iter().any(|l| l.state == State::Fail && l.exit == *exit));
        known.or(failed.next().map(|line| line.exit)).unwrap_or(Exit::Done)
    }

    /// For people: a group after the other, what is not as it should be with its fix.
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
            let _ = writeln!(text, "  {mark:<4}  {name:<width$}  {}", plain(&line.says));
            if let Some(fix) = &line.fix {
                let _ = writeln!(text, "  {:<4}  {:<width$}  fix: {}", "", "", plain(fix));
            }
        }
        let _ = writeln!(text, "\n{}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        let count = |state| self.checks.iter().filter(|line| line.state == state).count();
        let told = |number: usize, one: &str| match number {
            1 => format!("1 {one}"),
            number => format!("{number} {one}s"),
        };
        let skipped = match count(State::Skip) {
            0 => String::new(),
            number => format!(", {number} not looked at"),
        };
        match (count(State::Fail), count(State::Warn)) {
            (0, 0) => format!("verdict: ok{skipped}"),
            (0, warnings) => format!("verdict: it works, with {}{skipped}", told(warnings, "warning")),
            (failures, 0) => format!("verdict: FAIL, {}{skipped}", told(failures, "failure")),
            (failures, warnings) => {
                format!("verdict: FAIL, {}, {}{skipped}", told(failures, "failure"), told(warnings, "warning"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_to_fix_first_gives_the_code() {
        let fail = |exit| Line::fail("a.b", exit, "broken", "fix it");
        let warn = Line::warn("a.c", "odd", "fix it");
        for (lines, exit) in [
            (vec![], Exit::Done),
            (vec![warn.clone()], Exit::Done),
            (vec![fail(Exit::Paused), fail(Exit::Storage)], Exit::Storage),
            (vec![fail(Exit::Storage), fail(Exit::Unavailable)], Exit::Unavailable),
            (vec![fail(Exit::KeyRefused), fail(Exit::Config)], Exit::Config),
            (vec![warn, fail(Exit::Internal)], Exit::Internal),
        ] {
            assert_eq!(Findings::new(lines.clone()).exit(), exit, "{lines:?}");
        }
    }

    #[test]
    fn the_text_is_grouped_and_says_how_to_fix() {
        let findings = Findings::new(vec![
            Line::ok("key.source", "from a file"),
            Line::warn("key.permissions", "open to all", "chmod 600 key"),
            Line::skip("service.clock", "--offline"),
        ]);
        assert_eq!(
            findings.text(),
            "key\n  ok    source       from a file\n  warn  permissions  open to all\n                     fix: chmod 600 key\n\
             service\n  skip  clock        --offline\n\nverdict: it works, with 1 warning, 1 not looked at\n"
        );
    }
}
