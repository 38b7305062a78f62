//! The log line at the end of every run.
//!
//! It has its own module so that the log filter can select it: a person who watches the run sees a summary instead.

use std::time::Duration;

use super::error::SyncError;
use super::run::RunReport;
use crate::error_chain::error_chain;
use crate::format::counted;
use crate::model::Ru;
use crate::outbox::PushTally;
use crate::store::RunOutcome;

/// The target of the line, for the log filter.
pub const RUN_LINE: &str = module_path!();

/// Logs a run, and why it failed.
pub(super) fn log(
    report: &RunReport,
    (kind, trigger): (&str, &str),
    ru_left: Ru,
    took: Duration,
    failure: Option<&SyncError>,
) {
    let (run, outcome, ru) = (report.run, <&str>::from(&report.outcome), report.tally.ru.get());
    let error = failure.map(error_chain);
    let error = error.as_deref();
    let hint = failure.and_then(SyncError::hint).map(|hint| format!(" ({hint})")).unwrap_or_default();
    let why = error.map(|error| format!(": {error}{hint}")).unwrap_or_default();
    let words = words(report, (kind, trigger), ru_left, took, &why);
    // What failed before and was not tried again is known.
    let is_known = failure.is_some_and(SyncError::is_not_due);
    if matches!(report.outcome, RunOutcome::Failed | RunOutcome::Refused) && !is_known {
        tracing::warn!(run, kind, trigger, outcome, error, ru, "{words}");
    } else {
        tracing::info!(run, kind, trigger, outcome, error, ru, "{words}");
    }
}

fn words(report: &RunReport, (kind, trigger): (&str, &str), ru_left: Ru, took: Duration, why: &str) -> String {
    let RunReport { run, outcome, tally, push, .. } = report;
    let mut edits = String::new();
    if *push != PushTally::default() {
        let PushTally { applied, conflicts, rejected, waiting, .. } = push;
        let applied = counted(*applied, "edit", "edits");
        edits = format!("{applied} applied, {conflicts} in conflict, {rejected} rejected, {waiting} waiting; ");
    }
    format!(
        "{kind}, run {run} ({trigger}): {} after {} ms; {} new, {} changed, {} removed, {} details; {edits}{} RU spent, \
         {} left{why}",
        <&str>::from(outcome),
        took.as_millis(),
        tally.inserted,
        tally.updated,
        tally.removed,
        tally.details,
        tally.ru.get(),
        ru_left.get(),
    )
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
        let words = |report: &RunReport, why| {
            words(report, ("sync", "schedule"), Ru::new(93), Duration::from_millis(1_250), why)
        };
        assert_eq!(
            words(&report, ""),
            "sync, run 3 (schedule): done after 1250 ms; 1 new, 4 changed, 2 removed, 5 details; \
             7 RU spent, 93 left"
        );
        let push = PushTally { applied: 6, conflicts: 1, ..PushTally::default() };
        let edited = words(&RunReport { push, ..report.clone() }, "");
        assert!(
            edited.ends_with("; 6 edits applied, 1 in conflict, 0 rejected, 0 waiting; 7 RU spent, 93 left"),
            "{edited}"
        );
        let failed = words(&RunReport { outcome: RunOutcome::Failed, ..report }, ": could not reach the service");
        assert!(failed.ends_with("7 RU spent, 93 left: could not reach the service"), "{failed}");
        assert_eq!(RUN_LINE, "crm_mirror::sync::run_line");
    }
}
