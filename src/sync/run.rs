//! One run: its job, and its results so far.
//!
//! A [`Run`] is created for each run and dropped with it, so no state is carried over to the next. Walks and checks are
//! functions of it; they share it, also concurrently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::checks::findings::Findings;
use super::engine::Engine;
use super::error::{Suspension, SyncError};
use super::events::RunEvent;
use super::job::Job;
use super::plan::Step;
use super::step_failures::{StepCost, StepEnd, StepFailures};
use crate::api::{ErrorClass, PageSize};
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, RecordId, Resource, Ru, ServiceTime, TimeField};
use crate::outbox::PushTally;
use crate::store::{
    DefinitionChanges, MirrorTx, ReadTx, RefusedRemovals, RemovalGuard, RunOutcome, Store, StoreError, Tally,
    UnprovenRanges,
};
use crate::sync::walks::walk::Anomaly;

pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) job: &'a Job,
    /// Its number in `sync_runs`: a cursor is of the run that received it.
    pub(super) id: i64,
    /// Whether a person requested it, or the schedule.
    pub(super) by_person: bool,
    /// What requests had cost when the run started.
    pub(super) began_at: StepCost,
    /// The failures whose delays this run observes.
    pub(super) failures: OnceLock<StepFailures>,
    results: Mutex<RunResults>,
    /// Whether this run has read the definitions; locked while they are read.
    pub(super) definitions_read: tokio::sync::Mutex<bool>,
    /// Held by who reads the values that lists omitted: others have noted some of them as well.
    pub(super) omitted_read: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct RunResults {
    pub(super) report: RunReport,
    /// Why the run leaves work although it goes on: edits wait, as what is left of the budget is reserved for it, or changes that
    /// do not end.
    pub(super) left: Option<SyncError>,
    pub(super) skipped: BTreeMap<Resource, &'static str>,
    pub(super) unwritable: BTreeMap<Resource, &'static str>,
    /// The resources that were read completely.
    pub(super) served: BTreeSet<Resource>,
    /// Scopes that were sufficient for an update.
    pub(super) writable: BTreeSet<&'static str>,
    pub(super) steps: BTreeMap<Step, StepEnd>,
    /// The errors of the steps that failed or were not due, alone or as a part of others, which went on: the definitions that
    /// an unknown key asked for, counts. A failure is the step's own: no other step depends on it.
    pub(super) errors: BTreeMap<Step, SyncError>,
    /// The objects that the service did not count: they are not counted again in this run.
    pub(super) uncounted: BTreeSet<Object>,
    /// The objects whose lookups by id failed with a count, and are made without one.
    pub(super) uncounted_lookups: BTreeSet<Object>,
    /// The objects of whose recent changes more than a page was here, and not read again.
    pub(super) left_out: BTreeMap<Object, Instant>,
    /// The counts that walks owed and that this run has made, by what they divide records by.
    pub(super) counted: BTreeMap<(Object, TimeField), UnprovenRanges>,
    /// The witness of each object, which is part of every lookup by id; `Some(None)` if the service lists no record.
    pub(super) witnesses: [Option<Option<RecordId>>; 2],
    /// Whether an answer lacked the witness from the mirror.
    pub(super) withdrawn_witness: [bool; 2],
    pub(super) service_time: ServiceTime,
    /// The page size that fits, of the resources with rows so large that a full page is not read.
    pub(super) page_sizes: BTreeMap<Resource, PageSize>,
    /// How many records it could not read and searched for.
    pub(super) passed_over: u32,
    /// Rows of the current step.
    pub(super) stored: u64,
}

#[derive(Clone, Debug, Default)]
pub struct RunReport {
    pub run: i64,
    pub outcome: RunOutcome,
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

impl<'a> Run<'a> {
    pub(super) fn new(engine: &'a Engine, job: &'a Job, (run, trigger): (i64, &str)) -> Run<'a> {
        Run {
            engine,
            job,
            id: run,
            by_person: trigger != "schedule",
            began_at: StepCost { spent: engine.meter.ledger().total, answered: engine.client.answered() },
            failures: OnceLock::new(),
            results: Mutex::new(RunResults {
                report: RunReport { run, ..RunReport::default() },
                ..RunResults::default()
            }),
            definitions_read: tokio::sync::Mutex::new(false),
            omitted_read: tokio::sync::Mutex::default(),
        }
    }

    pub(super) const fn store(&self) -> &Store {
        &self.engine.store
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SyncError> {
        Ok(self.engine.store.read(work).await?)
    }

    /// Writes to the mirror, in one transaction.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MirrorTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SyncError> {
        Ok(self.engine.store.write(work).await?)
    }

    pub(super) fn now(&self) -> Instant {
        self.engine.clock.now()
    }

    /// The ledger's steady clock, which measures days.
    pub(super) fn steady_time(&self) -> Instant {
        self.engine.meter.ledger().steady_time()
    }

    pub(super) fn results(&self) -> MutexGuard<'_, RunResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_results(self) -> RunResults {
        let (spent, answered) = (self.spent(), self.was_answered());
        let mut results = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.report.tally.ru = spent;
        // Nothing but an answer ends what the service failed at.
        results.steps.retain(|step, end| answered || *step != Step::Identity || *end != StepEnd::Answered);
        results
    }

    /// Records that the key cannot read a resource, if the error says so: it is skipped, and the others continue.
    pub(super) fn skip(&self, resource: Resource, error: &SyncError) -> bool {
        let missing = error.class() == Some(ErrorClass::SkipObject);
        if missing {
            self.results().skipped.insert(resource, resource.read_scope());
        }
        missing
    }

    /// Fails if the key cannot read any of the requested resources; those that were not due and not tried are left out.
    pub(super) fn expect_a_scope(&self) -> Result<(), SyncError> {
        let results = self.results();
        let (skipped, served) = (&results.skipped, &results.served);
        if !skipped.is_empty() && served.iter().all(|resource| skipped.contains_key(resource)) {
            let scopes: Vec<&str> = skipped.values().copied().collect();
            return Err(SyncError::NoScope { scopes: scopes.join(", ") });
        }
        Ok(())
    }

    pub(super) fn count(&self, tally: &Tally) {
        self.results().report.tally.add(tally);
    }

    pub(super) fn warn(&self, warning: String) {
        let warnings = &mut self.results().report.warnings;
        if !warnings.contains(&warning) {
            warnings.push(warning.clone());
            self.engine.observer.on(RunEvent::Warning { text: warning });
        }
    }

    /// Adds rows to those of the current step, whose parts may be read concurrently, and notifies the observer.
    pub(super) fn stored(&self, resource: Resource, rows: u64) {
        self.results().stored += rows;
        let rows = self.results().stored;
        self.engine.observer.on(RunEvent::Stored { resource, rows, ru: self.spent() });
    }

    /// Records an anomaly outside of a page's transaction, and counts it.
    pub(super) async fn note_anomaly(&self, anomaly: Anomaly, resource: Resource) -> Result<(), SyncError> {
        let now = self.now();
        self.write(move |tx| anomaly.enter(tx, resource, now)).await?;
        self.count(&Tally { warnings: 1, ..Tally::default() });
        Ok(())
    }

    pub(super) fn removal_guard(&self) -> RemovalGuard {
        RemovalGuard { most: self.engine.settings.most_removals, accepted: self.job.accept_removals }
    }

    pub(super) fn report_outage(&self, resource: Resource, outage: RefusedRemovals) {
        self.withdraw_outage(resource);
        self.results().report.outages.push((resource, outage));
    }

    /// What an earlier step refused, a later one has decided.
    pub(super) fn withdraw_outage(&self, resource: Resource) {
        self.results().report.outages.retain(|(of, _)| *of != resource);
    }

    /// Whether it makes sense to ask the service for a number of records that nothing depends on.
    pub(super) fn may_count(&self, object: Object) -> bool {
        !self.results().uncounted.contains(&object) && self.not_due(Step::Total(object)).is_none()
    }

    /// Notes that the service does not count an object: what counts would have shown is unknown; nothing else fails.
    pub(super) fn mark_uncounted(&self, object: Object, error: &SyncError) {
        if self.results().uncounted.insert(object) {
            let why = error_chain(error);
            tracing::info!(%object, "{} could not be counted: {why}", object.resource());
            self.record_failure(Step::Total(object), why, Ru::GET);
        }
    }

    pub(super) fn begins(&self, resource: Resource, work: &'static str, total: Option<u64>) {
        self.results().stored = 0;
        self.engine.observer.on(RunEvent::Begins { resource, work: work.into(), total });
    }

    pub(super) fn ends(&self, resource: Resource) {
        self.engine.observer.on(RunEvent::Ends { resource });
    }

    pub(super) fn spent(&self) -> Ru {
        self.cost().since(self.began_at).spent
    }

    /// Whether any request of this run had a good answer.
    pub(super) fn was_answered(&self) -> bool {
        self.cost().since(self.began_at).answered > Ru::ZERO
    }

    /// What requests have cost so far, of this run and those before it.
    pub(super) fn cost(&self) -> StepCost {
        StepCost { spent: self.engine.meter.ledger().total, answered: self.engine.client.answered() }
    }
}
