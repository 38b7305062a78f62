//! An open mirror that can run jobs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant as Monotonic};

use super::reserve;
use super::settings::MirrorSettings;
use crate::api::{ApiError, Client};
use crate::budget::{Ledger, Limits};
use crate::model::{Clock, Instant, Object};
use crate::store::{Store, StoreError, StoreOptions};
use crate::sync::events::RunObserver;
use crate::sync::{BudgetMeter, Engine, Findings, Forecast, Job, Ran, Summary, Suspension, SyncError};

/// The longest hold that a run waits for; a longer one suspends it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Why a mirror could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The mirror's file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client of the service.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// An open mirror that can run jobs, one after the other. Shared by reference; stopping and asking need no turn.
pub struct Mirror {
    clock: Arc<dyn Clock>,
    observer: Arc<dyn RunObserver>,
    parts: RwLock<Arc<Parts>>,
}

/// What belongs together: replaced as a whole when the settings change or the file was replaced.
struct Parts {
    settings: MirrorSettings,
    store: Store,
    meter: Arc<BudgetMeter>,
    engine: Engine,
    file: Option<FileId>,
}

/// Which file it is, whatever its name.
type FileId = (u64, u64);

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// What a run did and how it ended.
#[derive(Debug)]
pub struct RunResult {
    /// What it did and cost.
    pub summary: Summary,
    /// What a verification found, object by object.
    pub findings: Vec<(Object, Findings)>,
    /// Why it was suspended, if it was.
    pub suspension: Option<Suspension>,
    /// When the budget refills, if nothing of it is left.
    pub empty_until: Option<Instant>,
}

impl Mirror {
    /// Opens the mirror, makes it if there is none.
    ///
    /// # Errors
    /// When the file cannot be used, or no client can be made.
    pub async fn open(
        settings: MirrorSettings,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn RunObserver>,
    ) -> Result<Mirror, MirrorError> {
        let store = open_store(&settings).await?;
        let parts = assemble(settings, store, &clock, &observer).await?;
        Ok(Mirror { clock, observer, parts: RwLock::new(Arc::new(parts)) })
    }

    fn parts(&self) -> Arc<Parts> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, parts: Parts) {
        *self.parts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(parts);
    }

    /// What it is made of.
    pub fn settings(&self) -> MirrorSettings {
        self.parts().settings.clone()
    }

    /// The mirror's file.
    pub fn store(&self) -> Store {
        self.parts().store.clone()
    }

    /// What may be spent.
    pub fn limits(&self) -> Limits {
        *self.parts().meter.limits()
    }

    /// What was spent.
    pub fn ledger(&self) -> Ledger {
        self.parts().meter.ledger()
    }

    /// Lets no further request be sent: what is under way is stored, then the run ends.
    pub fn stop(&self) {
        self.parts().meter.stop();
    }

    /// Lets requests be sent again, for the next run.
    pub fn allow(&self) {
        self.parts().meter.go_on();
    }

    /// Replaces the settings; the file stays open.
    ///
    /// # Errors
    /// When the mirror cannot be written, or no client can be made; then the settings stay as they are.
    pub async fn reconfigure(&self, settings: MirrorSettings) -> Result<(), MirrorError> {
        let known = self.parts();
        let meter = known.meter.clone();
        // The next meter takes over what this one knows.
        known.store.write(move |tx| meter.enter(tx)).await?;
        let parts = assemble(settings, known.store.clone(), &self.clock, &self.observer).await?;
        self.replace(Parts { file: known.file, ..parts });
        Ok(())
    }

    /// Opens the file again where another one has taken its place, as a restore or a mount does.
    ///
    /// # Errors
    /// [`StoreError::Missing`] where there is none any more: a new one is not made while this one is in use.
    pub async fn follow_file(&self) -> Result<(), MirrorError> {
        let known = self.parts();
        let path = &known.settings.database;
        match file_id(path) {
            None => return Err(StoreError::Missing { path: path.clone() }.into()),
            now if now == known.file => return Ok(()),
            Some(_) => {}
        }
        tracing::warn!("Another file has taken the place of {}; it is opened", path.display());
        // What this process holds is the lock of a file that nobody finds any more.
        known.store.lock().release();
        let store = open_store(&known.settings).await?;
        let parts = assemble(known.settings.clone(), store, &self.clock, &self.observer).await?;
        self.replace(parts);
        Ok(())
    }

    /// Keeps request units back for the runs that the schedule still brings in this window, which is certain to run.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub async fn reserve_for_schedule(&self) -> Result<(), StoreError> {
        let (known, now) = (self.parts(), self.clock.now());
        let read = move || {
            let units = reserve::for_schedule(&known.settings, &known.meter, true, now)?;
            known.meter.set_reserve(units);
            Ok(())
        };
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a job.
    ///
    /// # Errors
    /// What ended the run and does not pass by waiting; a suspension is a result.
    pub async fn run(&self, job: &Job, trigger: &'static str) -> Result<RunResult, SyncError> {
        let (known, began) = (self.parts(), Monotonic::now());
        let report = known.engine.run(job, trigger).await?;
        let (findings, suspension) = (report.findings.clone(), report.suspension);
        let (limits, ledger) = (*known.meter.limits(), known.meter.ledger());
        let ran = Ran { report, ledger, took: began.elapsed() };
        let summary = Summary::new(job.kind(), &ran, &limits);
        Ok(RunResult { summary, findings, suspension, empty_until: self.empty_until() })
    }

    /// When the budget refills, if nothing of it is left.
    pub fn empty_until(&self) -> Option<Instant> {
        let known = self.parts();
        let (limits, ledger) = (known.meter.limits(), known.meter.ledger());
        (limits.limit.saturating_sub(ledger.used).get() == 0).then(|| ledger.refills_at(limits))
    }

    /// What a job would cost, and what was spent.
    ///
    /// # Errors
    /// When the service does not answer.
    pub async fn forecast(&self, job: &Job) -> Result<(Forecast, Ledger), SyncError> {
        let known = self.parts();
        let forecast = known.engine.forecast(job).await?;
        Ok((forecast, known.meter.ledger()))
    }

    /// Forgets the sweeps under way; gives whose they were. Nothing of them was removed.
    ///
    /// # Errors
    /// When the mirror cannot be written.
    pub async fn forget_sweeps(&self) -> Result<Vec<Object>, SyncError> {
        self.parts().engine.forget_sweeps().await
    }

    /// Ends the hold: a person knows that the service answers again.
    pub async fn clear_hold(&self) {
        self.parts().meter.clear_hold().await;
    }

    /// Closes the mirror, so that people who may only read can continue to read.
    pub async fn close(self) {
        let parts = self.parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let store = parts.store.clone();
        // Each part holds the store too, and the writer ends with the last of them.
        drop(parts);
        store.close().await;
    }
}

/// Opens the file for writing, away from the runtime's threads: a migration takes its time.
async fn open_store(settings: &MirrorSettings) -> Result<Store, StoreError> {
    let path = settings.database.clone();
    let options = StoreOptions { indexed: Some(settings.custom_indexes), ..StoreOptions::default() };
    let open = move || Store::open_with(&path, options);
    tokio::task::spawn_blocking(open).await.unwrap_or(Err(StoreError::Closed))
}

async fn assemble(
    settings: MirrorSettings,
    store: Store,
    clock: &Arc<dyn Clock>,
    observer: &Arc<dyn RunObserver>,
) -> Result<Parts, MirrorError> {
    let meter = BudgetMeter::open(store.clone(), clock.clone(), settings.limits, PATIENCE, observer.clone()).await?;
    let meter = Arc::new(meter);
    meter.set_reserve(reserve::for_schedule(&settings, &meter, false, clock.now())?);
    let client = Client::new(settings.client(), settings.api.key.clone(), clock.clone(), meter.clone())?;
    let engine = Engine::new(client, store.clone(), meter.clone(), clock.clone(), observer.clone(), settings.sync);
    let file = file_id(&settings.database);
    Ok(Parts { settings, store, meter, engine, file })
}
