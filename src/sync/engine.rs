//! A run: what is asked of the mirror, in which order, and how it ended.
//!
//! Order is priority: identity, definitions where they are due, changes, sweeps, columns to fill, details. What one
//! object's key may not do is skipped and named; a key that is refused stops everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::SyncError;
use super::meter::BudgetMeter;
use super::observe::{Event, Observer};
use super::plan::{Plan, Report, Settings};
use super::run_line::EndedRun;
use super::span::Dimension;
use super::state::{Fresh, MissingScopes, Sweep};
use crate::api::{Client, ErrorClass};
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant, Object, Resource, Ru};
use crate::outbox::{Keys, PushTally};
use crate::store::{Phase, RunOutcome, Store, Tally};
use crate::sync::checks::removals::Removals;
use crate::sync::walks::fill::wanted_sweep;
use crate::sync::walks::sweep::Outage;
use crate::sync::walks::walk::{Range, Walk};

/// What a piece of work that came to its end has to say.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Objects whose sweep looked like an outage.
    pub(super) outages: Vec<(Object, Outage)>,
}

/// Everything that a run needs.
pub struct Engine {
    pub(super) client: Client,
    pub(super) store: Store,
    pub(super) meter: Arc<BudgetMeter>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) settings: Settings,
    pub(super) keys: Keys,
    pub(super) refreshed: tokio::sync::Mutex<bool>,
    tally: Mutex<Tally>,
    pub(super) pushed: Mutex<PushTally>,
    pub(super) unwritable: Mutex<BTreeMap<Resource, &'static str>>,
    pub(super) writable: Mutex<BTreeSet<&'static str>>,
    swept: Mutex<u64>,
    spent_before: Mutex<Ru>,
    skipped: Mutex<BTreeMap<Resource, &'static str>>,
    served: Mutex<BTreeSet<Resource>>,
    warnings: Mutex<Vec<String>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine for runs one after the other.
    pub fn new(
        client: Client,
        store: Store,
        meter: Arc<BudgetMeter>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        settings: Settings,
    ) -> Engine {
        Engine {
            client,
            store,
            meter,
            clock,
            observer,
            settings,
            keys: Keys::system(),
            refreshed: tokio::sync::Mutex::new(false),
            tally: Mutex::default(),
            pushed: Mutex::default(),
            unwritable: Mutex::default(),
            writable: Mutex::default(),
            swept: Mutex::default(),
            spent_before: Mutex::default(),
            skipped: Mutex::default(),
            served: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// With idempotency keys from another source than the system's randomness.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Engine {
        Engine { keys, ..self }
    }

    /// The mirror's file.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Carries out a run and enters it in `sync_runs`.
    ///
    /// # Errors
    /// [`SyncError`] for what ended the run and will not mend itself by waiting; a pause is a report.
    pub async fn run(&self, plan: &Plan, trigger: &'static str) -> Result<Report, SyncError> {
        self.recorded(plan.kind(), trigger, self.carry_out(plan)).await
    }

    /// Enters a piece of work in `sync_runs`: that it began, how it ended, and what it did and cost.
    pub(super) async fn recorded(
        &self,
        kind: &'static str,
        trigger: &'static str,
        work: impl Future<Output = Result<Ended, SyncError>>,
    ) -> Result<Report, SyncError> {
        *lock(&self.tally) = Tally::default();
        *lock(&self.pushed) = PushTally::default();
        lock(&self.unwritable).clear();
        lock(&self.writable).clear();
        lock(&self.skipped).clear();
        lock(&self.served).clear();
        lock(&self.warnings).clear();
        *self.refreshed.lock().await = false;
        let began = self.clock.now();
        let before = self.meter.ledger().total;
        *lock(&self.spent_before) = before;
        let write_back = self.settings.write_back;
        let run = self
            .store
            .write(move |tx| {
                tx.set_write_back(write_back)?;
                tx.begin_run(kind, trigger, began)
            })
            .await?;
        let result = work.await;
        let tally = Tally { ru: self.meter.ledger().total.saturating_sub(before), ..*lock(&self.tally) };
        let (outcome, pause) = match &result {
            Ok(ended) if !ended.outages.is_empty() => (RunOutcome::Refused, None),
            Ok(_) => (RunOutcome::Done, None),
            Err(error) => match error.pause() {
                Some(pause) => (RunOutcome::Paused, Some(pause)),
                None => (RunOutcome::Failed, None),
            },
        };
        let error = result.as_ref().err().map(error_chain);
        let (ended, retention, meter) = (self.clock.now(), self.settings.retention, self.meter.clone());
        let details = self.settings.details;
        let skipped = lock(&self.skipped).clone();
        let (writable, unwritable) = (lock(&self.writable).clone(), lock(&self.unwritable).clone());
        let mut served = lock(&self.served).clone();
        if matches!(outcome, RunOutcome::Paused | RunOutcome::Failed) {
            // Not everything was tried to its end.
            served.clear();
        }
        let pending_details = self
            .store
            .write(move |tx| {
                MissingScopes::after_run(tx, &served, &skipped)?;
                MissingScopes::after_push(tx, &writable, &unwritable)?;
                tx.end_run(run, ended, outcome, &tally, error.as_deref())?;
                meter.enter(tx)?;
                if let Some(retention) = retention {
                    tx.forget_before(ended.minus(retention))?;
                }
                // Counting reads every row; where details are not read at all, none is pending.
                if !details {
                    return Ok(0);
                }
                Ok(tx.count_due_details(Object::Contact)? + tx.count_due_details(Object::Company)?)
            })
            .await?;
        if let Err(error) = self.store.settle().await {
            // Everything is stored; whatever lasts, the next write meets too.
            tracing::warn!(%error, "The WAL could not be emptied after the run: {error}");
        }
        EndedRun {
            run,
            kind,
            trigger,
            outcome,
            tally: &tally,
            push: *lock(&self.pushed),
            ru_left: self.meter.limits().limit.saturating_sub(self.meter.ledger().used),
            took: ended.since(began),
        }
        .tell();
        let outages = match result {
            Ok(ended) => ended.outages,
            Err(_) if pause.is_some() => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Report {
            run,
            outcome,
            pause,
            tally,
            push: *lock(&self.pushed),
            missing_scopes: lock(&self.skipped)
                .iter()
                .chain(lock(&self.unwritable).iter())
                .map(|(resource, scope)| (*resource, *scope))
                .collect(),
            outages,
            pending_details,
            warnings: lock(&self.warnings).clone(),
        })
    }

    async fn carry_out(&self, plan: &Plan) -> Result<Ended, SyncError> {
        self.check_identity().await?;
        if self.settings.write_back {
            self.push_edits().await?;
        } else if plan.only_push {
            self.warn("edits wait: `write_back.enabled` is off".into());
        }
        if plan.only_push {
            return Ok(Ended::default());
        }
        let objects: Vec<Object> = Object::ALL.into_iter().filter(|object| plan.wants(object.resource())).collect();
        if plan.resync {
            self.want_sweeps(&objects, plan.accept_removals).await?;
        }
        self.lists(plan, !objects.is_empty()).await?;
        let mut ended = Ended::default();
        let mut to_sweep = Vec::new();
        for object in objects.iter().copied() {
            let resource = object.resource();
            let phase = self.store.write(move |tx| tx.phase(object)).await?;
            let mut sweep = plan.resync || phase == Phase::FirstCopy || self.is_sweeping(object).await?;
            if phase == Phase::Kept {
                self.guard(resource, self.walk_changes(object).await)?;
            }
            if !self.is_skipped(resource) {
                self.guard(resource, self.fill_columns(object).await)?;
                sweep |= self
                    .store
                    .write(move |tx| {
                        let wanted: Option<bool> = tx.state(&wanted_sweep(object))?;
                        let asked: Option<bool> = tx.state(&Sweep::asked(object))?;
                        Ok(wanted.or(asked) == Some(true))
                    })
                    .await?;
            }
            if !self.is_skipped(resource) && phase == Phase::Kept {
                self.guard(resource, self.carry_out_checks(object, Dimension::UpdatedAt).await)?;
                self.guard(resource, self.carry_out_checks(object, Dimension::CreatedAt).await)?;
            }
            if sweep {
                to_sweep.push(object);
            }
        }
        let removals = Removals { most: self.settings.most_removals, accepted: plan.accept_removals };
        for object in to_sweep {
            if self.is_skipped(object.resource()) {
                continue;
            }
            if let Some(Some(outage)) = self.guard(object.resource(), self.sweep(object, removals).await)? {
                ended.outages.push((object, outage));
            }
        }
        if self.settings.details {
            for object in objects.iter().copied().filter(|object| !self.is_skipped(object.resource())) {
                self.guard(object.resource(), self.read_details(object).await)?;
            }
            for object in objects.iter().copied().filter(|object| !self.is_skipped(object.resource())) {
                self.guard(object.resource(), self.refresh_details(object).await)?;
            }
        }
        self.nothing_skipped_or_something_done()?;
        Ok(ended)
    }

    /// Definitions and team members, where they are due, asked for by name, or a sweep is to come.
    async fn lists(&self, plan: &Plan, any_object: bool) -> Result<(), SyncError> {
        let fields = plan.names(Resource::CustomFields)
            || plan.wants(Resource::CustomFields) && plan.resync
            || any_object && (plan.resync || self.is_due(Fresh::DEFINITIONS).await?);
        if fields {
            self.guard(Resource::CustomFields, self.refresh_definitions().await)?;
            *self.refreshed.lock().await = true;
        }
        let team = plan.names(Resource::TeamMembers)
            || plan.wants(Resource::TeamMembers) && (plan.resync || self.is_due(Fresh::TEAM).await?);
        if team {
            self.guard(Resource::TeamMembers, self.refresh_team().await)?;
        }
        Ok(())
    }

    /// Lets a missing scope pass: the object is skipped, the rest goes on.
    pub(super) fn guard<T>(&self, resource: Resource, result: Result<T, SyncError>) -> Result<Option<T>, SyncError> {
        match result {
            Ok(value) => {
                lock(&self.served).insert(resource);
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
            lock(&self.skipped).insert(resource, resource.read_scope());
        }
        missing
    }

    pub(super) fn is_skipped(&self, resource: Resource) -> bool {
        lock(&self.skipped).contains_key(&resource)
    }

    /// Of what was asked for, some may be not due and was not tried: it says nothing about the key.
    fn nothing_skipped_or_something_done(&self) -> Result<(), SyncError> {
        let (skipped, served) = (lock(&self.skipped), lock(&self.served));
        if !skipped.is_empty() && served.iter().all(|resource| skipped.contains_key(resource)) {
            let scopes: Vec<&str> = skipped.values().copied().collect();
            return Err(SyncError::NoScope { scopes: scopes.join(", ") });
        }
        Ok(())
    }

    /// Adds to the run's tally.
    pub(super) fn count(&self, tally: &Tally) {
        lock(&self.tally).add(tally);
    }

    pub(super) fn warn(&self, warning: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&warning) {
            warnings.push(warning.clone());
            self.observer.on(Event::Warning(warning));
        }
    }

    /// Adds to the rows of the sweep under way, whose slices are read side by side, and gives their sum.
    pub(super) fn swept(&self, rows: u64) -> u64 {
        let mut swept = lock(&self.swept);
        *swept += rows;
        *swept
    }

    /// Sets the rows that a sweep had read before this run.
    pub(super) fn set_swept(&self, rows: u64) {
        *lock(&self.swept) = rows;
    }

    pub(super) fn begins(&self, resource: Resource, work: &'static str, total: Option<u64>) {
        self.observer.on(Event::Begins { resource, work, total });
    }

    pub(super) fn ends(&self, resource: Resource) {
        self.observer.on(Event::Ends { resource });
    }

    pub(super) fn spent(&self) -> Ru {
        self.meter.ledger().total.saturating_sub(*lock(&self.spent_before))
    }

    pub(super) fn workers(&self) -> usize {
        self.settings.concurrency.max(1) as usize
    }

    /// Whether the first page of a walk is asked for a total: only where one is shown, and only for a whole list.
    pub(super) fn shows_totals(&self, walk: &Walk) -> bool {
        walk.range == Range::All && self.observer.wants_totals()
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}
