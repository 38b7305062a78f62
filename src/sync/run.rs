//! One run: what it was asked to do, and what it has done and learnt so far.
//!
//! A [`Run`] is made for each run and dropped with it, so nothing of one run is left over in the next. Walks and checks
//! are methods of it; they share it, also side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checks::findings::Findings;
use super::engine::Engine;
use super::error::SyncError;
use super::events::RunEvent;
use super::job::Job;
use super::state::Outage;
use crate::api::ErrorClass;
use crate::model::{Instant, Object, RecordId, Resource, Ru};
use crate::outbox::PushTally;
use crate::store::Tally;

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) job: &'a Job,
    /// Whether a person asked for it, or a schedule.
    pub(super) by_person: bool,
    /// What was ever spent when the run began.
    spent_before: Ru,
    results: Mutex<RunResults>,
    /// Whether this run has read the definitions; held while they are read.
    pub(super) definitions_read: tokio::sync::Mutex<bool>,
}

/// What a run has done and learnt.
#[derive(Debug, Default)]
pub(super) struct RunResults {
    /// Rows and changes.
    pub(super) tally: Tally,
    /// What became of local edits.
    pub(super) pushed: PushTally,
    /// What the key may not read, with the scope that is missing.
    pub(super) skipped: BTreeMap<Resource, &'static str>,
    /// What the key may not write, with the scope that is missing.
    pub(super) unwritable: BTreeMap<Resource, &'static str>,
    /// What was read to its end.
    pub(super) served: BTreeSet<Resource>,
    /// Scopes that were enough for an update.
    pub(super) writable: BTreeSet<&'static str>,
    /// Objects whose removals were refused.
    pub(super) outages: Vec<(Object, Outage)>,
    /// What a verification found.
    pub(super) findings: Vec<(Object, Findings)>,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
    /// A record of each object that answers by id are asked together with; `Some(None)` where the service lists none.
    pub(super) witnesses: [Option<Option<RecordId>>; 2],
    /// Whether an answer lacked the witness that the mirror named.
    pub(super) withdrawn_witness: [bool; 2],
    /// Records of each object that came in an older version than the mirror has, with that version.
    pub(super) older: [BTreeMap<RecordId, Option<Instant>>; 2],
    /// Rows of the sweep under way.
    swept: u64,
}

impl<'a> Run<'a> {
    /// A run that has done nothing.
    pub(super) fn new(engine: &'a Engine, job: &'a Job, trigger: &str) -> Run<'a> {
        Run {
            engine,
            job,
            by_person: trigger != "schedule",
            spent_before: engine.meter.ledger().total,
            results: Mutex::default(),
            definitions_read: tokio::sync::Mutex::new(false),
        }
    }

    /// What it has done so far.
    pub(super) fn results(&self) -> MutexGuard<'_, RunResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has done, at its end.
    pub(super) fn into_results(self) -> RunResults {
        let spent = self.spent();
        let mut results = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.tally.ru = spent;
        results
    }

    /// Passes over a missing scope: the resource is skipped, the rest goes on.
    pub(super) fn guard<T>(&self, resource: Resource, result: Result<T, SyncError>) -> Result<Option<T>, SyncError> {
        match result {
            Ok(value) => {
                self.results().served.insert(resource);
                Ok(Some(value))
            }
            Err(error) if self.skip(resource, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes that the key may not read a resource, if that is what the error says.
    pub(super) fn skip(&self, resource: Resource, error: &SyncError) -> bool {
        let missing = error.class() == Some(ErrorClass::SkipObject);
        if missing {
            self.results().skipped.insert(resource, resource.read_scope());
        }
        missing
    }

    pub(super) fn is_skipped(&self, resource: Resource) -> bool {
        self.results().skipped.contains_key(&resource)
    }

    /// Fails if the key may read nothing of what was asked for. What was not due, and not tried, says nothing about the
    /// key.
    pub(super) fn expect_a_scope(&self) -> Result<(), SyncError> {
        let results = self.results();
        let (skipped, served) = (&results.skipped, &results.served);
        if !skipped.is_empty() && served.iter().all(|resource| skipped.contains_key(resource)) {
            let scopes: Vec<&str> = skipped.values().copied().collect();
            return Err(SyncError::NoScope { scopes: scopes.join(", ") });
        }
        Ok(())
    }

    /// Adds to the run's tally.
    pub(super) fn count(&self, tally: &Tally) {
        self.results().tally.add(tally);
    }

    /// Says something that a person should know, once.
    pub(super) fn warn(&self, warning: String) {
        let mut results = self.results();
        if !results.warnings.contains(&warning) {
            results.warnings.push(warning.clone());
            self.engine.observer.on(RunEvent::Warning(warning));
        }
    }

    /// Adds to the rows of the sweep under way, whose slices are read side by side, and gives their sum.
    pub(super) fn swept(&self, rows: u64) -> u64 {
        let mut results = self.results();
        results.swept += rows;
        results.swept
    }

    /// Sets the rows that a sweep had read before this run.
    pub(super) fn set_swept(&self, rows: u64) {
        self.results().swept = rows;
    }

    pub(super) fn begins(&self, resource: Resource, work: &'static str, total: Option<u64>) {
        self.engine.observer.on(RunEvent::Begins { resource, work, total });
    }

    pub(super) fn ends(&self, resource: Resource) {
        self.engine.observer.on(RunEvent::Ends { resource });
    }

    /// Request units spent by this run.
    pub(super) fn spent(&self) -> Ru {
        self.engine.meter.ledger().total.saturating_sub(self.spent_before)
    }
}
