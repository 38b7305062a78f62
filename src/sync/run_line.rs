//! The log line at the end of every run.
//!
//! It has its own module so that the log filter can select it: a person who watches the run sees a summary instead. Its
//! numbers are fields for programs, and part of the message for people.

use std::time::Duration;

use crate::model::Ru;
use crate::outbox::PushTally;
use crate::store::{RunOutcome, Tally};

/// The target of the line, for the log filter.
pub const RUN_LINE: &str = module_path!();

#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRun<'a> {
    pub run: i64,
    pub kind: &'a str,
    pub trigger: &'a str,
    pub outcome: RunOutcome,
    /// Why it failed; a suspension is no failure.
    pub error: Option<&'a str>,
    pub hint: Option<&'a str>,
    /// Whether it failed for what failed before and was not tried again.
    pub is_known: bool,
    pub tally: &'a Tally,
    pub push: PushTally,
    pub ru_left: Ru,
    pub took: Duration,
}

impl EndedRun<'_> {
    pub(super) fn log(&self) {
        let (tally, push, took_ms) = (self.tally, self.push, self.took.as_millis() as u64);
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    run = self.run,
                    kind = self.kind,
                    trigger = self.trigger,
                    outcome = self.outcome.as_str(),
                    error = self.error,
                    hint = self.hint,
                    rows = tally.rows,
                    inserted = tally.inserted,
                    updated = tally.updated,
                    removed = tally.removed,
                    details = tally.details,
                    warnings = tally.warnings,
                    edits_applied = push.applied,
                    edits_conflicts = push.conflicts,
                    edits_rejected = push.rejected,
                    edits_waiting = push.waiting,
                    ru = tally.ru.get(),
                    ru_left = self.ru_left.get(),
                    took_ms,
                    "{}",
                    self.words()
                )
            };
        }
        match self.outcome {
            RunOutcome::Failed | RunOutcome::Refused if !self.is_known => line!(warn),
            _ => line!(info),
        }
    }

    fn words(&self) -> String {
        let EndedRun { run, kind, trigger, push, .. } = self;
        let mut edits = String::new();
        if *push != PushTally::default() {
            edits = format!(
                "{} edits applied, {} in conflict, {} rejected, {} waiting; ",
                push.applied, push.conflicts, push.rejected, push.waiting
            );
        }
        let (tally, outcome, left) = (self.tally, self.outcome.as_str(), self.ru_left.get());
        let hint = self.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let why = self.error.map(|error| format!(": {error}{hint}")).unwrap_or_default();
        format!(
            "{kind}, run {run} ({trigger}): {outcome} after {} ms; {} new, {} changed, {} removed, \
             {} details; {edits}{} RU spent, {left} left{why}",
            self.took.as_millis(),
            tally.inserted,
            tally.updated,
            tally.removed,
            tally.details,
            tally.ru.get(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_every_number() {
        let tally = Tally { rows: 10, inserted: 1, updated: 4, removed: 2, details: 5, warnings: 0, ru: Ru::new(7) };
        let ended = EndedRun {
            run: 3,
            kind: "sync",
            trigger: "schedule",
            outcome: RunOutcome::Done,
            error: None,
            hint: None,
            is_known: false,
            tally: &tally,
            push: PushTally::default(),
            ru_left: Ru::new(93),
            took: Duration::from_millis(1_250),
        };
        assert_eq!(
            ended.words(),
            "sync, run 3 (schedule): done after 1250 ms; 1 new, 4 changed, 2 removed, 5 details; \
             7 RU spent, 93 left"
        );
        let push = PushTally { applied: 6, conflicts: 1, ..PushTally::default() };
        let words = EndedRun { push, ..ended }.words();
        assert!(
            words.ends_with("; 6 edits applied, 1 in conflict, 0 rejected, 0 waiting; 7 RU spent, 93 left"),
            "{words}"
        );
        let (error, hint) = (Some("could not reach the service"), Some("check the network"));
        let failed = EndedRun { outcome: RunOutcome::Failed, error, hint, ..ended }.words();
        assert!(failed.ends_with("7 RU spent, 93 left: could not reach the service (check the network)"), "{failed}");
        assert_eq!(RUN_LINE, "crm_mirror::sync::run_line");
    }
}
