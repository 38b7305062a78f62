//! The report of a run.

use super::checks::findings::Findings;
use super::error::Suspension;
use crate::model::{Object, Resource};
use crate::outbox::PushTally;
use crate::store::{DefinitionChanges, RefusedRemovals, RunOutcome, Tally};

#[derive(Clone, Debug)]
pub struct RunReport {
    pub run: i64,
    pub outcome: RunOutcome,
    /// Why it was suspended, if it was.
    pub suspension: Option<Suspension>,
    pub tally: Tally,
    pub push: PushTally,
    /// Resources that the key cannot read or write, with the missing scope.
    pub missing_scopes: Vec<(Resource, &'static str)>,
    pub outages: Vec<(Resource, RefusedRemovals)>,
    pub definitions: DefinitionChanges,
    /// The findings of a verification, object by object.
    pub findings: Vec<(Object, Findings)>,
    pub pending_details: u64,
    pub warnings: Vec<String>,
}
