//! The log line at the end of every run.
//!
//! It has its own module so that the log filter can select it: a person who watches the run sees a summary instead. Its
//! numbers are fields for programs, and part of the message for people.

use std::time::Duration;

use super::error::SyncError;
use super::run::RunReport;
use crate::error_chain::error_chain;
use crate::model::Ru;
use crate::outbox::PushTally;
use crate::store::RunOutcome;

/// The target of the line, for the log filter.
pub const RUN_LINE: &str = module_path!();

pub(super) struct RunLine<'a> {
    pub report: &'a RunReport,
    pub kind: &'a str,
    pub trigger: &'a str,
    pub ru_left: Ru,
    pub took: Duration,
}

impl RunLine<'_> {
    /// Logs the run, and why it failed.
    pub(super) fn log(&self, failure: Option<&SyncError>) {
        let RunReport { run, outcome, tally, push, .. } = self.report;
        let (error, hint) = (failure.map(error_chain), failure.and_then(SyncError::hint));
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    run,
                    kind = self.kind,
                    trigger = self.trigger,
                    outcome = <&str>::from(outcome),
                    error = error.as_deref(),
                    hint,
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
                    took_ms = self.took.as_millis() as u64,
                    "{}",
                    self.words(error.as_deref(), hint)
                )
            };
        }
        match outcome {
            // What failed before and was not tried again is known.
            RunOutcome::Failed | RunOutcome::Refused if !failure.is_some_and(SyncError::is_not_due) => line!(warn),
            _ => line!(info),
        }
    }

    fn words(&self, error: Option<&str>, hint: Option<&str>) -> String {
        let RunLine { kind, trigger, .. } = self;
        let RunReport { run, outcome, tally, push, .. } = self.report;
        let mut edits = String::new();
        if *push != PushTally::default() {
            edits = format!(
                "{} edits applied, {} in conflict, {} rejected, {} waiting; ",
                push.applied, push.conflicts, push.rejected, push.waiting
            );
        }
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let why = error.map(|error| format!(": {error}{hint}")).unwrap_or_default();
        format!(
            "{kind}, run {run} ({trigger}): {} after {} ms; {} new, {} changed, {} removed, {} details; {edits}{} RU spent, \
             {} left{why}",
            <&str>::from(outcome),
            self.took.as_millis(),
            tally.inserted,
            tally.updated,
            tally.removed,
            tally.details,
            tally.ru.get(),
            self.ru_left.get(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Tally;

    #[test]
    fn message_has_every_number() {
        let tally = Tally { rows: 10, inserted: 1, updated: 4, removed: 2, details: 5, warnings: 0, ru: Ru::new(7) };
        let report = RunReport {
            run: 3,
            outcome: RunOutcome::Done,
            suspension: None,
            tally,
            push: PushTally::default(),
            missing_scopes: Vec::new(),
            outages: Vec::new(),
            definitions: Default::default(),
            findings: Vec::new(),
            pending_details: 0,
            warnings: Vec::new(),
        };
        let words = |report: &RunReport, error, hint| {
            let (ru_left, took) = (Ru::new(93), Duration::from_millis(1_250));
            RunLine { report, kind: "sync", trigger: "schedule", ru_left, took }.words(error, hint)
        };
        assert_eq!(
            words(&report, None, None),
            "sync, run 3 (schedule): done after 1250 ms; 1 new, 4 changed, 2 removed, 5 details; \
             7 RU spent, 93 left"
        );
        let push = PushTally { applied: 6, conflicts: 1, ..PushTally::default() };
        let edited = words(&RunReport { push, ..report.clone() }, None, None);
        assert!(
            edited.ends_with("; 6 edits applied, 1 in conflict, 0 rejected, 0 waiting; 7 RU spent, 93 left"),
            "{edited}"
        );
        let (error, hint) = (Some("could not reach the service"), Some("check the network"));
        let failed = words(&RunReport { outcome: RunOutcome::Failed, ..report }, error, hint);
        assert!(failed.ends_with("7 RU spent, 93 left: could not reach the service (check the network)"), "{failed}");
        assert_eq!(RUN_LINE, "crm_mirror::sync::run_line");
    }
}
