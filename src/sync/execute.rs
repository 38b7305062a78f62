//! Carries out a run: asks [`plan`](super::plan) for the next step until there is none, and enters the run in
//! `sync_runs`. It decides nothing.

use super::engine::Engine;
use super::error::SyncError;
use super::job::Job;
use super::plan::{self, Knowledge, ObjectKnowledge, Step};
use super::report::RunReport;
use super::run::{Run, RunResults};
use super::run_line::EndedRun;
use super::state::{Fresh, MissingScopes, Outage, Sweep};
use super::walks::definitions::is_due;
use super::walks::fill::wanted_sweep;
use super::walks::walk::Walk;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource};
use crate::store::{Phase, ReadTx, RunOutcome, StateKey, StoreError};

/// A run that has begun.
#[derive(Clone, Copy)]
struct Begun {
    id: i64,
    at: Instant,
    trigger: &'static str,
}

impl Engine {
    /// Carries out a job and enters the run in `sync_runs`.
    ///
    /// # Errors
    /// [`SyncError`] for what ended the run and does not pass by waiting. A suspended run is a report.
    pub async fn run(&self, job: &Job, trigger: &'static str) -> Result<RunReport, SyncError> {
        let begun = self.begin(job, trigger).await?;
        let run = Run::new(self, job, trigger);
        let result = run.carry_out().await;
        let results = run.into_results();
        self.end(job, begun, result, results).await
    }

    async fn begin(&self, job: &Job, trigger: &'static str) -> Result<Begun, SyncError> {
        let (kind, at, write_back) = (job.kind(), self.clock.now(), self.settings.write_back);
        let id = self
            .store
            .write(move |tx| {
                tx.set_write_back(write_back)?;
                tx.begin_run(kind, trigger, at)
            })
            .await?;
        Ok(Begun { id, at, trigger })
    }

    async fn end(
        &self,
        job: &Job,
        begun: Begun,
        result: Result<(), SyncError>,
        results: RunResults,
    ) -> Result<RunReport, SyncError> {
        let suspension = result.as_ref().err().and_then(SyncError::suspension);
        let outcome = match &result {
            Ok(()) if !results.outages.is_empty() => RunOutcome::Refused,
            Ok(()) => RunOutcome::Done,
            Err(_) if suspension.is_some() => RunOutcome::Suspended,
            Err(_) => RunOutcome::Failed,
        };
        let error = result.as_ref().err().map(error_chain);
        let pending_details = self.enter_end(begun.id, outcome, error, &results).await?;
        if let Err(error) = self.store.settle().await {
            // Everything is stored; whatever lasts, the next write meets too.
            tracing::warn!(%error, "The WAL could not be emptied after the run: {error}");
        }
        EndedRun {
            run: begun.id,
            kind: job.kind(),
            trigger: begun.trigger,
            outcome,
            tally: &results.tally,
            push: results.pushed,
            ru_left: self.meter.limits().limit.saturating_sub(self.meter.ledger().used),
            took: self.clock.now().since(begun.at),
        }
        .log();
        if suspension.is_none() {
            result?;
        }
        let RunResults { tally, pushed, skipped, unwritable, outages, findings, warnings, .. } = results;
        Ok(RunReport {
            run: begun.id,
            outcome,
            suspension,
            tally,
            push: pushed,
            missing_scopes: skipped.into_iter().chain(unwritable).collect(),
            outages: if suspension.is_some() { Vec::new() } else { outages },
            findings,
            pending_details,
            warnings,
        })
    }

    /// Enters the end of a run in the mirror's file. Gives how many details are still due.
    async fn enter_end(
        &self,
        run: i64,
        outcome: RunOutcome,
        error: Option<String>,
        results: &RunResults,
    ) -> Result<u64, SyncError> {
        let (ended, retention, meter) = (self.clock.now(), self.settings.retention, self.meter.clone());
        let (details, tally, skipped) = (self.settings.details, results.tally, results.skipped.clone());
        let (writable, unwritable) = (results.writable.clone(), results.unwritable.clone());
        let mut served = results.served.clone();
        if matches!(outcome, RunOutcome::Suspended | RunOutcome::Failed) {
            // Not everything was tried to its end.
            served.clear();
        }
        let entered = self.store.write(move |tx| {
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
        });
        Ok(entered.await?)
    }
}

impl Run<'_> {
    async fn carry_out(&self) -> Result<(), SyncError> {
        let mut known = Knowledge {
            write_back: self.engine.settings.write_back,
            details: self.engine.settings.details,
            ..Knowledge::default()
        };
        loop {
            self.learn(&mut known).await?;
            let step = plan::next_step(&known, self.job);
            if step == Step::End {
                break;
            }
            self.take_step(step).await?;
            known.done.insert(step);
        }
        match self.job {
            Job::Push if !known.write_back => self.warn("edits wait: `write_back.enabled` is off".into()),
            Job::Push | Job::Verify { .. } => {}
            Job::Sync { .. } | Job::Resync { .. } => self.expect_a_scope()?,
        }
        Ok(())
    }

    /// Brings up to date what the next step depends on.
    async fn learn(&self, known: &mut Knowledge) -> Result<(), SyncError> {
        known.skipped = self.results().skipped.keys().copied().collect();
        let (now, first) = (self.engine.clock.now(), known.done.is_empty());
        let window = self.window();
        let asks_again = self.asks_again();
        let learnt = self.engine.store.read(move |tx| {
            let due = |entry| Ok::<_, StoreError>(is_due(tx.state(&entry)?, now));
            let objects = [
                of_object(tx, Object::Contact, window, asks_again)?,
                of_object(tx, Object::Company, window, asks_again)?,
            ];
            let paused = tx.state::<Instant>(&StateKey::PausedSince)?.is_some();
            Ok((due(Fresh::DEFINITIONS)?, due(Fresh::TEAM)?, paused, objects))
        });
        let (definitions_due, team_due, paused, mut objects) = learnt.await?;
        known.paused = paused;
        if !first {
            for (object, before) in objects.iter_mut().zip(known.objects) {
                object.copied = before.copied;
            }
        }
        (known.definitions_due, known.team_due, known.objects) = (definitions_due, team_due, objects);
        Ok(())
    }

    async fn take_step(&self, step: Step) -> Result<(), SyncError> {
        match step {
            Step::Identity => self.check_identity().await?,
            Step::Edits => self.push_edits().await?,
            Step::NoteSweeps => self.note_sweeps().await?,
            Step::Definitions => {
                self.guard(Resource::CustomFields, self.refresh_definitions().await)?;
                *self.definitions_read.lock().await = true;
            }
            Step::Team => _ = self.guard(Resource::TeamMembers, self.refresh_team().await)?,
            Step::Changes(object) => _ = self.guard(object.resource(), self.walk_changes(object).await)?,
            Step::Fill(object) => _ = self.guard(object.resource(), self.fill_columns(object).await)?,
            Step::Counts(object) => _ = self.guard(object.resource(), self.carry_out_counts(object).await)?,
            Step::Sweep(object) => {
                if self.guard(object.resource(), self.sweep(object).await)?.is_some() {
                    self.guard(object.resource(), self.settle_sweep(object).await)?;
                }
            }
            Step::Audit(object) => _ = self.guard(object.resource(), self.verify_object(object).await)?,
            Step::Details(object) => _ = self.guard(object.resource(), self.read_details(object).await)?,
            Step::OldDetails(object) => _ = self.guard(object.resource(), self.refresh_details(object).await)?,
            Step::Removals(object) | Step::LateRemovals(object) => {
                self.guard(object.resource(), self.settle_nominations(object).await)?;
            }
            Step::End => {}
        }
        Ok(())
    }
}

fn of_object(
    tx: &ReadTx<'_>,
    object: Object,
    window: Instant,
    asks_again: bool,
) -> Result<ObjectKnowledge, StoreError> {
    let refusal: Option<Outage> = tx.state(&Outage::entry(object))?;
    let is_set = |entry: StateKey| Ok::<_, StoreError>(tx.state(&entry)? == Some(true));
    let under_way = Sweep::load(tx, object)?.is_some();
    // Where a slice cannot be read, nobody knows what is left: all of it is read again.
    let reading = under_way && tx.slices::<Walk>(object)?.is_none_or(|slices| !slices.is_empty());
    let decide = refusal.is_none_or(|refusal| asks_again || refusal.is_sample_due(window));
    Ok(ObjectKnowledge {
        copied: tx.phase(object)? == Phase::Kept,
        sweeping: under_way && (reading || refusal.is_none()),
        sweep_wanted: is_set(wanted_sweep(object))? || is_set(Sweep::asked(object))?,
        sweep_reading: reading,
        nominated: decide && tx.has_nominations(object)?,
    })
}
