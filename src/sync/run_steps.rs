//! Executes a run: asks [`plan`](super::plan) for each step, and records the run in `sync_runs`. It decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::engine::{DEFINITIONS_SHARE, Engine, TEAM_SHARE, TOTAL_SHARE};
use super::error::{Suspension, SyncError};
use super::job::{Job, JobKind};
use super::plan::{self, Knowledge, ObjectKnowledge, Step};
use super::run::{Run, RunReport, RunResults};
use super::run_line;
use super::step_failures::{StepCost, StepEnd, StepFailures, limits_of};
use super::walks::sweep::Sweep;
use crate::budget::Limits;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource, Ru};
use crate::store::{Goal, LastRead, ReadTx, RemovalGuard, RunOutcome, StateKey, StoreError, WholeListKind, unread};
use crate::sync::checks::{audit, compare, decide_doubts, identity, owed_counts};
use crate::sync::walks::{back_fill, changes, definitions, details, service_clock, sweep};

/// How often an object is counted between its audits: so soon a removal shows.
const TOTAL_INTERVAL: Duration = Duration::from_secs(3_600);

/// So long after the changes were read, an audit of the schedule reads none: both are often due at the same time.
const CAUGHT_UP: Duration = Duration::from_secs(60);

impl Engine {
    /// Executes a job and records the run in `sync_runs`.
    ///
    /// # Errors
    /// Returns the [`SyncError`] that ended the run and that waiting does not fix. A suspended run is a report.
    pub async fn run(&self, job: &Job, trigger: &'static str) -> Result<RunReport, SyncError> {
        let (id, began) = self.begin(job, trigger).await?;
        let run = Run::new(self, job, (id, trigger));
        let result = run.carry_out().await;
        let results = run.into_results();
        self.end(job, (trigger, began), result, results).await
    }

    async fn begin(&self, job: &Job, trigger: &'static str) -> Result<(i64, Instant), SyncError> {
        let (kind, at, write_back) = (job.name(), self.clock.now(), self.settings.write_back);
        let meter = self.meter.clone();
        let begun = self.store.begin(move |tx| {
            tx.edits().set_write_back(write_back)?;
            let set_back = meter.date_claims_back(tx)?;
            // A restart loses the monotonic clock, and with it by how much.
            tx.claims().withdraw_future_claims(at)?;
            Ok((tx.begin_run(kind, trigger, at)?, set_back))
        });
        // A transaction that failed leaves it to the next run.
        let (id, set_back) = begun.await?;
        self.meter.claims_are_dated_back(set_back);
        Ok((id, at))
    }

    async fn end(
        &self,
        job: &Job,
        (trigger, began): (&str, Instant),
        result: Result<(), SyncError>,
        mut results: RunResults,
    ) -> Result<RunReport, SyncError> {
        // What was refused is worth more to say than that changes go on.
        let result = match result {
            Err(SyncError::ConstantChanges { .. }) if !results.report.outages.is_empty() => Ok(()),
            result => result,
        };
        let suspension = result.as_ref().err().and_then(SyncError::suspension);
        results.report.suspension = suspension;
        results.report.outcome = match &result {
            Ok(()) if !results.report.outages.is_empty() => RunOutcome::Refused,
            Ok(()) => RunOutcome::Done,
            Err(_) if suspension.is_some() => RunOutcome::Suspended,
            Err(_) => RunOutcome::Failed,
        };
        let mut report = self.enter_end(results, result.as_ref().err().map(error_chain)).await?;
        if let Err(error) = self.store.settle().await {
            // Everything is stored; a lasting error also affects the next write.
            tracing::warn!("The WAL could not be emptied after the run: {}", error_chain(&error));
        }
        if suspension.is_some() {
            report.outages.clear();
        }
        let ru_left = self.meter.limits().limit.saturating_sub(self.meter.ledger().used);
        // A suspension is no failure.
        let failure = result.as_ref().err().filter(|_| suspension.is_none());
        run_line::log(&report, (job.name(), trigger), ru_left, self.clock.now().since(began), failure);
        if suspension.is_none() {
            result?;
        }
        Ok(report)
    }

    /// Records the end of a run, and completes its report.
    async fn enter_end(&self, mut results: RunResults, error: Option<String>) -> Result<RunReport, SyncError> {
        let (ended, retention, meter) = (self.clock.now(), self.settings.retention, self.meter.clone());
        let (date, seen_by) = (self.client.service_date(), self.seen_by());
        let with_details = Object::ALL.map(|object| self.reads_details(object).then_some(object));
        let clock = self.meter.ledger().clock;
        // During a hold nothing is attempted: what is refused again is passed over once, for what follows it.
        let steady = clock.time().plus(self.meter.ledger().hold_left().unwrap_or_default());
        if matches!(results.report.outcome, RunOutcome::Suspended | RunOutcome::Failed) {
            // Not everything was tried completely.
            results.served.clear();
        }
        let entered = self.store.write(move |tx| {
            results.served.iter().try_for_each(|resource| tx.claims().set_missing_scope(resource.as_str(), None))?;
            results.writable.iter().try_for_each(|scope| tx.claims().set_missing_scope(scope, None))?;
            let of_reads = results.skipped.iter().map(|(resource, scope)| (resource.as_str(), *scope));
            let of_edits = results.unwritable.values().map(|scope| (*scope, *scope));
            of_reads.chain(of_edits).try_for_each(|(what, scope)| tx.claims().set_missing_scope(what, Some(scope)))?;
            StepFailures::load_seen_by(tx, &seen_by)?.after_run(&results.steps, steady).store(tx, &seen_by)?;
            let RunResults { mut report, skipped, unwritable, .. } = results;
            tx.end_run(report.run, ended, report.outcome, &report.tally, error.as_deref())?;
            // The clock may have been set during the run, and this process may not begin another one.
            let set_back = meter.date_claims_back(tx)?;
            if let Some(retention) = retention {
                tx.feed().forget_old_history(retention, clock, ended, date)?;
            }
            // Counting reads every row; if details are not read at all, none is pending.
            let pending = with_details.into_iter().flatten().map(|object| tx.knowledge().count_due_details(object));
            report.pending_details = pending.sum::<Result<u64, StoreError>>()?;
            report.missing_scopes = skipped.into_iter().chain(unwritable).collect();
            Ok((report, set_back))
        });
        let (report, set_back) = entered.await?;
        self.meter.claims_are_dated_back(set_back);
        Ok(report)
    }
}

impl Run<'_> {
    async fn carry_out(&self) -> Result<(), SyncError> {
        let mut known = Knowledge::default();
        service_clock::recall_service_time(self).await?;
        // A person tries at once, and so does a new key.
        if !self.by_person {
            let seen_by = self.engine.seen_by();
            _ = self.failures.set(self.read(move |tx| StepFailures::load_seen_by(tx, &seen_by)).await?);
            self.skip_unreadable().await?;
        }
        loop {
            self.learn(&mut known).await?;
            let Some(step) = plan::next_step(&known, self.job) else { break };
            let (before, had_read) = (self.cost(), *self.definitions_read.lock().await);
            // Edits have delays of their own, and a known workspace costs no request.
            let delayed = step != Step::Identity || !self.job.is_push();
            let taken = match self.not_due(step).filter(|_| delayed) {
                Some(error) => Err(error),
                None => self.take_step(step).await,
            };
            match taken {
                Ok(()) => self.note_end(step, StepEnd::Answered),
                Err(error) => {
                    self.pass_over(step, error, self.cost().since(before))?;
                    known.failed.insert(step);
                }
            }
            known.done.insert(step);
            if !had_read && *self.definitions_read.lock().await {
                let failed = &known.failed;
                known.done.retain(|done| !matches!(done, Step::Fill(_)) || failed.contains(done));
            }
        }
        if let Some(error) = self.take_error().or_else(|| self.results().left.take()) {
            return Err(error);
        }
        match self.job.kind {
            JobKind::Push if !known.write_back => self.warn("edits are waiting: `write_back.enabled` is off".into()),
            JobKind::Push => {}
            _ if plan::postpones_audits(&known, self.job) => {
                tracing::info!("No audit before the first copy is complete");
            }
            _ => self.expect_a_scope()?,
        }
        Ok(())
    }

    /// Skips what this key could not read the last time, until the next attempt is due.
    async fn skip_unreadable(&self) -> Result<(), SyncError> {
        let missing = self.read(|tx| tx.goals().missing_scopes()).await?;
        let (steady, limits) = (self.steady_time(), self.engine.meter.limits());
        let waits = |resource: &Resource| {
            missing.iter().any(|(what, _)| what == resource.as_str())
                && self.failures.get().is_some_and(|failures| {
                    failures.of_scope(*resource).any(|failure| failure.wait(steady, limits).is_some())
                })
        };
        let unreadable = Resource::ALL.into_iter().filter(waits);
        self.results().skipped.extend(unreadable.map(|resource| (resource, resource.read_scope())));
        Ok(())
    }

    /// An answer shows that the key can read a resource: no step waits for its scope any more.
    pub(super) fn is_readable(&self, resource: Resource) {
        {
            let mut results = self.results();
            results.skipped.remove(&resource);
            results.served.insert(resource);
        }
        let failed = self.failures.get().into_iter().flat_map(|failures| failures.of_scope(resource));
        failed.for_each(|failure| self.note_end(failure.step, StepEnd::Answered));
    }

    async fn changes(&self, object: Object) -> Result<(), SyncError> {
        // Details that an interrupted run did not read come first.
        let omitted = details::read_omitted(self, object).await;
        if omitted.as_ref().is_err_and(|error| !error.concerns_one_resource()) {
            return omitted;
        }
        changes::walk_changes(self, object).await?;
        omitted
    }

    /// Decides what the error of a step means for it and for the run: a failure of the step's own, after which the others go on,
    /// or the end of the run. If nothing has been answered so far, the failure of both lists of records, or of any three, means
    /// that the whole service fails: the definitions and the team may fail together, and records need neither.
    fn pass_over(&self, step: Step, error: SyncError, cost: StepCost) -> Result<(), SyncError> {
        let is_progress = cost.is_progress(error.refusals());
        // A step that the service refuses for a while, and that got ahead before, goes on there, if it can.
        let goes_on = error.refusals() > 0 && is_progress && !step.begins_again();
        if let Some(resource) = step.resource().filter(|_| error.concerns_one_resource() && !goes_on) {
            if !error.is_not_due() {
                tracing::info!(%resource, "{resource} could not be mirrored in this run: {}", error_chain(&error));
            }
            self.fails_alone(step, error, cost);
            let silent: BTreeSet<Resource> = {
                let silent = |(step, error): (&Step, &SyncError)| step.resource().filter(|_| error.is_no_answer());
                self.results().errors.iter().filter_map(silent).collect()
            };
            let is_down = silent.len() > 2 || Object::ALL.iter().all(|object| silent.contains(&object.resource()));
            if !is_down || self.was_answered() {
                return Ok(());
            }
            return self.take_error().map_or(Ok(()), Err);
        }
        if error.is_not_due() {
            self.note_end(step, StepEnd::NotDue);
        } else if step == Step::Identity && error.refusals() == 0 && error.allows_another() {
            self.record_failure(step, error_chain(&error), cost.wasted());
        }
        let Some(suspension) = error.suspension() else { return Err(error) };
        // Edits have delays of their own. The budget may end before the last attempt of a request each time.
        let wasted = cost.of_failed(step, &error);
        if step.resource().is_some() && is_progress && !step.begins_again() {
            self.note_end(step, StepEnd::Answered);
        } else if step.resource().is_some() && matches!(suspension, Suspension::Budget(_)) && wasted > Ru::ZERO {
            self.record_failure(step, format!("the budget ended it after {wasted} that brought nothing"), wasted);
        }
        // A hold that concerns everything says nothing about a step.
        if matches!(suspension, Suspension::Hold(_)) && !self.was_answered() {
            self.results().steps.retain(|_, end| !matches!(end, StepEnd::Failed { .. }));
        }
        let others: Vec<String> = self.results().errors.values().map(error_chain).collect();
        others.into_iter().for_each(|error| self.warn(error));
        Err(error)
    }

    /// The first error of an attempt; without one, of a step that was not due. Without any answer an attempt shows nothing
    /// about a step: what is known of the steps stays, and the run has failed at its first one, which all others wait for.
    fn take_error(&self) -> Option<SyncError> {
        let (is_whole, cost) = (!self.was_answered(), self.cost().since(self.began_at).wasted());
        let RunResults { errors, steps, .. } = &mut *self.results();
        let attempted = errors.iter().find(|(_, error)| !error.is_not_due()).map(|(step, _)| *step);
        let step = attempted.or_else(|| errors.keys().next().copied())?;
        if is_whole {
            steps.retain(|_, end| match end {
                StepEnd::Answered => true,
                StepEnd::NotDue => attempted.is_none(),
                StepEnd::Failed { .. } => false,
            });
            // A hold delays everything by itself, and so do edits.
            if attempted.is_some() && errors[&step].refusals() == 0 && !self.job.is_push() {
                steps.insert(Step::Identity, StepEnd::Failed { error: error_chain(&errors[&step]), cost });
            }
        }
        errors.remove(&step)
    }

    /// Notes that a step failed alone, or was not due again after it had: the others go on.
    pub(super) fn fails_alone(&self, step: Step, error: SyncError, cost: StepCost) {
        if error.is_not_due() {
            self.note_end(step, StepEnd::NotDue);
        } else {
            self.record_failure(step, error_chain(&error), cost.of_failed(step, &error));
        }
        self.results().errors.entry(step).or_insert(error);
    }

    /// Notes that a step failed, and what that cost.
    pub(super) fn record_failure(&self, step: Step, error: String, cost: Ru) {
        self.note_end(step, StepEnd::Failed { error, cost });
    }

    /// Notes how a step ended. A failure of a part of it stays.
    fn note_end(&self, step: Step, end: StepEnd) {
        let steps = &mut self.results().steps;
        if matches!(end, StepEnd::Failed { .. }) {
            steps.insert(step, end);
        } else {
            steps.entry(step).or_insert(end);
        }
    }

    /// The error of a step that the schedule does not attempt again yet.
    pub(super) fn not_due(&self, step: Step) -> Option<SyncError> {
        let is_over = self.results().steps.get(&step) == Some(&StepEnd::Answered);
        let failure = self.failures.get()?.of(step).filter(|_| !is_over)?;
        let limits = self.engine.meter.limits();
        let limits = if step == Step::Identity { limits_of(self.job, limits) } else { *limits };
        let wait = failure.wait(self.steady_time(), &limits)?;
        Some(SyncError::NotDue { error: failure.error.clone(), due_at: self.now().plus(wait) })
    }

    pub(super) async fn learn(&self, known: &mut Knowledge) -> Result<(), SyncError> {
        let settings = &self.engine.settings;
        (known.by_person, known.write_back, known.details) = (self.by_person, settings.write_back, settings.details);
        known.skipped = self.results().skipped.keys().copied().collect();
        let (now, steady, first) = (self.now(), self.steady_time(), known.done.is_empty());
        let (run, job) = (self.results().report.run, self.job.clone());
        let (by_person, accepted) = (self.by_person, self.job.accept_removals);
        let (limits, guard) = (*self.engine.meter.limits(), self.removal_guard());
        let learnt = self.read(move |tx| {
            let objects = [
                of_object(tx, Object::Contact, (now, steady), (run, &job, by_person), (&limits, &guard))?,
                of_object(tx, Object::Company, (now, steady), (run, &job, by_person), (&limits, &guard))?,
            ];
            let paused = tx.state::<Instant>(&StateKey::PausedSince)?.is_some();
            // Items that a list did not have wait for another one, and what was refused is due: its delay is its step's.
            let needs = |list| tx.needs_list(list, steady, accepted);
            let [of_contacts, of_companies] = Object::ALL.map(|object| needs(WholeListKind::Definitions(object)));
            let definitions = of_contacts? || of_companies? || unread::has_unread_keys(tx)?;
            let definitions = definitions || was_refused(tx, Resource::CustomFields)?;
            let definitions = (tx.goals().last_read(Goal::Definitions)?, definitions);
            let team = needs(WholeListKind::Team)? || was_refused(tx, Resource::TeamMembers)?;
            let team = (tx.goals().last_read(Goal::Team)?, team);
            Ok((definitions, team, paused, objects))
        });
        let (definitions, team, paused, mut objects) = learnt.await?;
        // Lists of one run are evidence once, also where an unknown key was the reason to read them.
        let definitions_read = *self.definitions_read.lock().await;
        let is_due =
            |(fresh, wanted): (Option<LastRead>, bool), share| wanted || self.engine.is_list_due(fresh, share, now);
        let is_postponed = |(fresh, wanted): (Option<LastRead>, bool), share| {
            !wanted && !self.by_person && fresh.is_some_and(|fresh| !self.engine.is_list_paid(&fresh, share, now))
        };
        known.paused = paused;
        if !first {
            for (object, before) in objects.iter_mut().zip(known.objects) {
                object.copied = before.copied;
            }
        }
        known.definitions_due = is_due(definitions, DEFINITIONS_SHARE) && !definitions_read;
        known.definitions_postponed = is_postponed(definitions, DEFINITIONS_SHARE);
        known.team_postponed = is_postponed(team, TEAM_SHARE);
        (known.team_due, known.objects) = (is_due(team, TEAM_SHARE), objects);
        Ok(())
    }

    /// Takes a step. If the key cannot read its resource, that is skipped.
    async fn take_step(&self, step: Step) -> Result<(), SyncError> {
        let before = self.cost();
        let taken = match step {
            Step::Identity => identity::check_identity(self).await,
            Step::Edits => self.push_edits().await,
            Step::NoteSweeps => sweep::store_sweeps(self).await,
            Step::Definitions => {
                // A failed attempt is not repeated in this run either.
                *self.definitions_read.lock().await = true;
                definitions::refresh_definitions(self).await
            }
            Step::Team => definitions::refresh_team(self).await,
            Step::Changes(object) => self.changes(object).await,
            Step::Fill(object) => back_fill::fill_columns(self, object).await,
            Step::Counts(object) => owed_counts::carry_out_counts(self, object).await,
            Step::Sweep(object) => match sweep::sweep(self, object).await {
                Ok(()) => owed_counts::finish_sweep(self, object).await,
                failed => failed,
            },
            Step::Total(object) => match audit::count_between_audits(self, object).await {
                Err(error) if error.concerns_one_resource() => {
                    if error.allows_another() && matches!(error, SyncError::Api { doing: "count", .. }) {
                        self.mark_uncounted(object, &error);
                    }
                    // The comparison that it started may have cost much more than the count.
                    self.record_failure(step, error_chain(&error), self.cost().since(before).spent);
                    Ok(())
                }
                counted => counted,
            },
            Step::Audit(object) => compare::compare_object(self, object, self.job.full, self.job.repair).await,
            Step::Details(object) | Step::OldDetails(object) if !self.engine.reads_details(object) => return Ok(()),
            Step::Details(object) => details::read_details(self, object).await,
            Step::OldDetails(object) => details::refresh_details(self, object).await,
            Step::Doubts(object) | Step::LateRemovals(object) => owed_counts::decide_not_found(self, object).await,
        };
        let Some(resource) = step.resource() else { return taken };
        match taken {
            Ok(()) if self.cost().since(before).answered > Ru::ZERO => self.is_readable(resource),
            Ok(()) => drop(self.results().served.insert(resource)),
            Err(error) if self.skip(resource, &error) => {
                self.record_failure(step, format!("the key lacks {}", resource.read_scope()), Ru::GET);
            }
            failed => return failed,
        }
        Ok(())
    }
}

fn of_object(
    tx: &ReadTx<'_>,
    object: Object,
    (now, steady): (Instant, Instant),
    (run, job, by_person): (i64, &Job, bool),
    (limits, guard): (&Limits, &RemovalGuard),
) -> Result<ObjectKnowledge, StoreError> {
    let refusal = tx.standing_refusal(object, guard, steady)?;
    let retries_refusals = decide_doubts::retries_refusals(job, by_person);
    let sweep = Sweep::load(tx, object)?;
    let (under_way, reading) = (sweep.is_some(), sweep.is_some_and(|sweep| !sweep.is_read()));
    let due = tx.due_doubts(object, steady, retries_refusals, by_person)?;
    let copied = tx.is_copied(object)?;
    let is_due = !due.missed.is_empty() || tx.count_nominated(object)? == 0;
    let decide = refusal.is_none() || retries_refusals;
    let (swept, changes) = (tx.goals().last_read(Goal::Sweep(object))?, tx.goals().last_read(Goal::Changes(object))?);
    let last_total = tx.goals().last_read(Goal::Total(object))?.map(|read| read.began);
    let counted = last_total.max(swept.map(|swept| swept.finished));
    let failures = StepFailures::load(tx)?;
    let may_count = failures.of(Step::Total(object)).is_none_or(|failure| failure.wait(steady, limits).is_none());
    let compared = [Goal::Compared(object), Goal::Counted(object), Goal::Differing(object)];
    let compared = compared.map(|goal| tx.goals().last_read(goal)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let is_of_day = |read: LastRead| read.finished <= now && now.since(read.finished) < audit::DAY;
    let total_interval = limits.time_to_earn(Ru::GET, TOTAL_SHARE).max(TOTAL_INTERVAL);
    Ok(ObjectKnowledge {
        copied,
        copy_waits: !copied
            && !was_refused(tx, object.resource())?
            && [Step::Fill(object), Step::Sweep(object)].iter().all(|step| failures.of(*step).is_none()),
        sweeping: under_way && (reading || (job.accept_removals || refusal.is_none()) && is_due),
        sweep_wanted: tx.goals().is_set(Goal::WantedSweep(object))? || tx.goals().is_set(Goal::AskedSweep(object))?,
        sweep_reading: reading,
        in_doubt: decide && !due.missed.is_empty() || !due.older.is_empty(),
        caught_up: changes.is_some_and(|fresh| fresh.finished <= now && now.since(fresh.finished) < CAUGHT_UP),
        total_due: may_count && counted.is_none_or(|at| now.since(at) >= total_interval || at > now),
        compared: compared.into_iter().flatten().any(is_of_day) && tx.is_repeated(JobKind::Verify.into(), run)?,
        due: tx.count_due_details(object)?,
    })
}

/// Whether the key could not read a resource when that was last tried.
fn was_refused(tx: &ReadTx<'_>, resource: Resource) -> Result<bool, StoreError> {
    Ok(tx.goals().missing_scopes()?.iter().any(|(what, _)| what == resource.as_str()))
}
