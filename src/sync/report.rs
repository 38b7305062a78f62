//! The report of a run.

use super::checks::findings::Findings;
use super::error::Suspension;
use crate::model::{Object, Resource};
use crate::outbox::PushTally;
use crate::store::{DefinitionChanges, RefusedRemovals, RunOutcome, Tally};

/// The report of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The run's number in `sync_runs`.
    pub run: i64,
    /// Its outcome.
    pub outcome: RunOutcome,
    /// Why it was suspended, if it was.
    pub suspension: Option<Suspension>,
    /// Its counters.
    pub tally: Tally,
    /// The results of local edits.
    pub push: PushTally,
    /// Resources that the key cannot read or write, with the missing scope.
    pub missing_scopes: Vec<(Resource, &'static str)>,
    /// Resources whose removals were refused.
    pub outages: Vec<(Resource, RefusedRemovals)>,
    /// The changes of definitions and options.
    pub definitions: DefinitionChanges,
    /// The findings of a verification, object by object.
    pub findings: Vec<(Object, Findings)>,
    /// Details still due.
    pub pending_details: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}
