//! The workshop: the open mirror, the engine that works on it, and how a job is carried out. It is refitted between runs
//! when the configuration was read again or the key is another.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use super::error::DaemonError;
use super::job::{End, Failing, Job, Outcome};
use super::message::RunEnded;
use super::timetable::Kind;
use crate::api::ErrorClass;
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Clock, Instant, Object};
use crate::store::{Reader, StateKey, Store, report};
use crate::sync::events::RunObserver;
use crate::sync::state::{Fresh, Sweep};
use crate::sync::{BudgetMeter, Engine, Ran, Setup, Summary, SyncError};

/// The longest hold that a run waits for; during a longer one the daemon rests, and says so.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state entry that says since when a person lets the schedule rest.
const PAUSED: StateKey = StateKey::PausedSince;

/// The open mirror and what works on it.
pub struct Workshop {
    sources: Sources,
    config: Arc<Config>,
    setup: Setup,
    store: Store,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn RunObserver>,
    engine: Arc<Engine>,
    meter: Arc<BudgetMeter>,
}

impl Workshop {
    /// Opens the mirror, makes it if there is none.
    ///
    /// # Errors
    /// If the configuration does not do, or the file is not to be had. Without an address and a key no file is touched.
    pub async fn open(
        sources: Sources,
        config: Config,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn RunObserver>,
    ) -> Result<Workshop, DaemonError> {
        let setup = Setup::from_config(&config)?;
        let store = setup.store()?;
        let (engine, meter) = setup.engine(store.clone(), clock.clone(), PATIENCE, observer.clone()).await?;
        Ok(Workshop {
            sources,
            config: Arc::new(config),
            setup,
            store,
            clock,
            observer,
            engine: Arc::new(engine),
            meter,
        })
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.config.clone()
    }

    /// What is to be told to stop sending.
    pub fn meter(&self) -> &BudgetMeter {
        &self.meter
    }

    /// Reads the configuration again. What is wrong leaves everything as it is; another mirror or another socket takes a
    /// restart.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn reload(&mut self) -> Result<(), DaemonError> {
        let mut config = Config::load(&self.sources)?;
        if config.database != self.config.database || config.socket != self.config.socket {
            tracing::warn!("`database.path` and `daemon.socket` take effect with a restart only; the rest is in force");
            config.database = self.config.database.clone();
            config.socket = self.config.socket.clone();
        }
        self.refit(Setup::from_config(&config)?).await?;
        self.config = Arc::new(config);
        Ok(())
    }

    /// Takes up a key that has taken the place of the one before. Says whether it did.
    ///
    /// # Errors
    /// If the mirror cannot be read. A key that cannot be read leaves the one before in force.
    pub async fn take_new_key(&mut self) -> Result<bool, DaemonError> {
        let Ok(api) = self.config.api() else {
            return Ok(false);
        };
        if api.key.fingerprint() == self.setup.api.key.fingerprint() {
            return Ok(false);
        }
        self.refit(Setup { api, ..self.setup.clone() }).await?;
        Ok(true)
    }

    async fn refit(&mut self, setup: Setup) -> Result<(), DaemonError> {
        let meter = self.meter.clone();
        // The next meter takes over what this one knows.
        self.store.write(move |tx| meter.enter(tx)).await?;
        let (engine, meter) =
            setup.engine(self.store.clone(), self.clock.clone(), PATIENCE, self.observer.clone()).await?;
        (self.engine, self.meter, self.setup) = (Arc::new(engine), meter, setup);
        Ok(())
    }

    /// A run of a job, to be awaited elsewhere.
    ///
    /// # Errors
    /// If the mirror cannot be read.
    pub fn begin(&self, job: &Job) -> Result<impl Future<Output = RunEnded> + Send + use<>, DaemonError> {
        self.meter.go_on();
        self.setup.keep_back(&self.meter, true, self.clock.now())?;
        let (engine, meter) = (self.engine.clone(), self.meter.clone());
        let trigger = job.trigger.as_str();
        let job = job.work.job(self.config.sync.objects.as_deref());
        let full = self.setup.limits.limit;
        Ok(async move {
            let began = Monotonic::now();
            let result = engine.run(&job, trigger).await;
            let ledger = meter.ledger();
            let limits = *meter.limits();
            let left = full.saturating_sub(ledger.used);
            let empty_until = (left.get() == 0).then(|| ledger.refills_at(&limits));
            match result {
                Ok(report) => {
                    let end = report.suspension.map_or(End::Done, End::Paused);
                    let exit = Exit::of_outcome(report.outcome);
                    let found = report.findings.clone();
                    let ran = Ran { report, ledger, took: began.elapsed() };
                    RunEnded {
                        outcome: Outcome { end, empty_until },
                        summary: Some(Summary::new(job.kind(), &ran, &limits)),
                        found,
                        exit: exit.code(),
                        error: None,
                        hint: None,
                    }
                }
                Err(error) => RunEnded {
                    outcome: Outcome {
                        end: End::Failed { failing: failing(&error), why: error_chain(&error) },
                        empty_until,
                    },
                    summary: None,
                    found: Vec::new(),
                    exit: Exit::of_sync(&error).code(),
                    error: Some(error_chain(&error)),
                    hint: error.hint().map(String::from),
                },
            }
        })
    }

    /// Forgets the sweeps under way. What cannot be written now is met again by the next run.
    pub async fn forget_sweeps(&self) {
        match self.engine.forget_sweeps().await {
            Ok(objects) => {
                for object in objects {
                    tracing::info!(%object, "The sweep of {} was stopped; nothing was removed", object.resource());
                }
            }
            Err(error) => {
                tracing::error!(error = error_chain(&error), "The sweeps could not be stopped: {}", error_chain(&error))
            }
        }
    }

    /// Remembers, beyond this process, since when the schedule rests.
    pub async fn remember_pause(&self, since: Option<Instant>) {
        let written = self.store.write(move |tx| match since {
            Some(since) => tx.set_state(&PAUSED, &since),
            None => tx.clear_state(&PAUSED),
        });
        if let Err(error) = written.await {
            tracing::error!(%error, "That the schedule rests could not be stored, and a restart forgets it: {error}");
        }
    }

    /// Closes the mirror, so that people who may only read can go on reading.
    pub async fn close(self) {
        let Workshop { store, engine, meter, .. } = self;
        drop((engine, meter));
        store.close().await;
    }
}

/// What the mirror tells a daemon that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Up to when each kind has run, in the order of [`Kind::ALL`].
    pub looked: [Instant; 3],
    /// Since when the schedule rests.
    pub paused_since: Option<Instant>,
}

impl Before {
    /// Reads it. A kind that has never run is due by its schedule, changes at once.
    ///
    /// # Errors
    /// If the mirror cannot be read.
    pub fn read(path: &Path, now: Instant) -> Result<Before, DaemonError> {
        let reader = Reader::open(path)?;
        let moment = reader.begin()?;
        let begun = |kind| report::last_begun(&moment, kind);
        let mut swept = begun("resync")?;
        let mut under_way = false;
        for object in Object::ALL {
            let fresh: Option<Fresh> = moment.state(&Fresh::sweep(object))?;
            swept = swept.max(fresh.map(|fresh| fresh.finished));
            let sweep: Option<Sweep> = moment.state(&Sweep::entry(object))?;
            under_way |= sweep.is_some();
        }
        let changes = begun("sync")?.filter(|_| !under_way);
        // A mirror that was never audited owes one for every tick since it was whole, however often the daemon begins.
        let audited = begun("verify")?.or(swept);
        // A clock that was set back must not keep anything from being due.
        let at = |kind: Kind| match kind {
            Kind::Changes => changes.unwrap_or(Instant::EPOCH),
            Kind::Audit => audited.unwrap_or(now),
            Kind::Sweep => swept.unwrap_or(now),
        };
        Ok(Before { looked: Kind::ALL.map(|kind| at(kind).min(now)), paused_since: moment.state(&PAUSED)? })
    }
}

fn failing(error: &SyncError) -> Failing {
    match error {
        SyncError::OtherWorkspace { .. } => Failing::Config,
        SyncError::NoScope { .. } => Failing::Key,
        other if other.class() == Some(ErrorClass::StopAll) => Failing::Key,
        _ => Failing::Passing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_came_due_while_nothing_ran_is_due_and_a_first_copy_is_a_sweep() {
        let at = |text: &str| -> Instant { text.parse().unwrap() };
        let (copied, synced, now) =
            (at("2026-03-01T00:00:00Z"), at("2026-03-02T00:00:00Z"), at("2026-03-04T00:00:00Z"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        Store::open(&path).unwrap().close().await;
        let empty = Before::read(&path, now).unwrap();
        assert_eq!(empty.looked, [Instant::EPOCH, now, now], "changes at once, the rest by its schedule");

        let store = Store::open(&path).unwrap();
        store
            .write(move |tx| {
                let fresh = Fresh { began: copied, finished: copied };
                tx.set_state(&Fresh::sweep(Object::Contact), &fresh)?;
                tx.begin_run("sync", "manual", synced)
            })
            .await
            .unwrap();
        store.close().await;
        // An audit is owed since the copy, however often the daemon has begun since.
        assert_eq!(Before::read(&path, now).unwrap().looked, [synced, copied, copied]);
        let set_back = Before::read(&path, at("2026-02-01T00:00:00Z")).unwrap();
        assert_eq!(set_back.looked, [at("2026-02-01T00:00:00Z"); 3]);
    }
}
