//! What a run reports when it ends.

use super::checks::findings::Findings;
use super::error::Suspension;
use super::state::Outage;
use crate::model::{Object, Resource};
use crate::outbox::PushTally;
use crate::store::{RunOutcome, Tally};

/// How a run ended and what it did.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The run's number in `sync_runs`.
    pub run: i64,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why it was suspended, if it was.
    pub suspension: Option<Suspension>,
    /// What it did.
    pub tally: Tally,
    /// What became of local edits.
    pub push: PushTally,
    /// Resources that the key may not read or write, with the scope that is missing.
    pub missing_scopes: Vec<(Resource, &'static str)>,
    /// Objects whose removals were refused.
    pub outages: Vec<(Object, Outage)>,
    /// What a verification found, object by object.
    pub findings: Vec<(Object, Findings)>,
    /// Details still due.
    pub pending_details: u64,
    /// What a person should know.
    pub warnings: Vec<String>,
}
