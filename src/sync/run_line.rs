//! The one line in the log that every run ends with.
//!
//! It stands apart so that the log can name it: a person who watches the run sees a summary instead. Its numbers are
//! fields for programs, and words in its message for people.

use std::time::Duration;

use crate::model::Ru;
use crate::outbox::PushTally;
use crate::store::{RunOutcome, Tally};

/// Where the line comes from, as the log's filter spells it.
pub const RUN_LINE: &str = module_path!();

/// A run that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRun<'a> {
    /// Its number in `sync_runs`.
    pub run: i64,
    /// What it was.
    pub kind: &'a str,
    /// Who asked for it.
    pub trigger: &'a str,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it did and cost.
    pub tally: &'a Tally,
    /// What became of edits.
    pub push: PushTally,
    /// Request units that are left in the window.
    pub ru_left: Ru,
    /// How long it took.
    pub took: Duration,
}

impl EndedRun<'_> {
    /// Writes the line.
    pub(super) fn log(&self) {
        let (tally, push, took_ms) = (self.tally, self.push, self.took.as_millis() as u64);
        tracing::info!(
            run = self.run,
            kind = self.kind,
            trigger = self.trigger,
            outcome = self.outcome.as_str(),
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
        );
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
        format!(
            "{kind}, run {run} ({trigger}): {outcome} after {} ms; {} rows read, {} new, {} changed, {} removed, \
             {} details; {edits}{} RU spent, {left} left",
            self.took.as_millis(),
            tally.rows,
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
    fn the_message_has_every_number() {
        let tally = Tally { rows: 10, inserted: 1, updated: 4, removed: 2, details: 5, warnings: 0, ru: Ru::new(7) };
        let ended = EndedRun {
            run: 3,
            kind: "sync",
            trigger: "schedule",
            outcome: RunOutcome::Done,
            tally: &tally,
            push: PushTally::default(),
            ru_left: Ru::new(93),
            took: Duration::from_millis(1_250),
        };
        assert_eq!(
            ended.words(),
            "sync, run 3 (schedule): done after 1250 ms; 10 rows read, 1 new, 4 changed, 2 removed, 5 details; \
             7 RU spent, 93 left"
        );
        let push = PushTally { applied: 6, conflicts: 1, ..PushTally::default() };
        let words = EndedRun { push, ..ended }.words();
        assert!(
            words.ends_with("; 6 edits applied, 1 in conflict, 0 rejected, 0 waiting; 7 RU spent, 93 left"),
            "{words}"
        );
        assert_eq!(RUN_LINE, "crm_mirror::sync::run_line");
    }
}
