//! Carries out what the loop decided, each in a task of its own: the loop never waits for the mirror, whoever holds it.
//!
//! Every task ends with a message to the loop. Nothing here decides; the state machine makes sure that a run, a reload and
//! a forgotten sweep never overlap where they must not.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::error::DaemonError;
use super::input::DaemonAnswer;
use super::job::{FailureKind, QueuedJob, RunEnd, RunEnding};
use super::message::{JobRunEnd, LoopMessage};
use crate::api::ErrorClass;
use crate::app::{Mirror, MirrorError, MirrorSettings};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Instant, Resource};
use crate::store::{StateKey, StoreError};
use crate::sync::{Job, Selection, SyncError};

/// The state entry that says since when the schedule is paused.
pub const PAUSED: StateKey = StateKey::PausedSince;

/// How long a person waits to hear that a pause was stored.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Between two tries of what the database kept from being done.
const AGAIN: Duration = Duration::from_secs(1);

/// Tries of a reload that the database kept from being done.
const RELOAD_TRIES: u32 = 60;

/// Carries out effects on the mirror.
pub struct Runner {
    mirror: Arc<Mirror>,
    sources: Sources,
    config: Arc<RwLock<Arc<Config>>>,
    inbox: mpsc::Sender<LoopMessage>,
    pauses: mpsc::UnboundedSender<(u64, Option<Instant>)>,
}

impl Runner {
    /// A runner for an open mirror.
    pub fn new(mirror: Mirror, sources: Sources, config: Config, inbox: mpsc::Sender<LoopMessage>) -> Runner {
        let mirror = Arc::new(mirror);
        let (pauses, waiting) = mpsc::unbounded_channel();
        tokio::spawn(store_pauses(Arc::downgrade(&mirror), waiting, inbox.clone()));
        Runner { mirror, sources, config: Arc::new(RwLock::new(Arc::new(config))), inbox, pauses }
    }

    /// The active configuration.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets the run under way end at a page's boundary.
    pub fn stop(&self) {
        self.mirror.stop();
    }

    /// Begins a run.
    pub fn start(&self, job: &QueuedJob) -> JoinHandle<()> {
        // Here and not in the task: a stop that comes next must not be taken back.
        self.mirror.allow();
        let (mirror, config, inbox, job) = (self.mirror.clone(), self.config(), self.inbox.clone(), job.clone());
        tokio::spawn(async move {
            let run = run(&mirror, &config, &inbox, &job);
            // A panic ends the run that met it, and not the daemon.
            let ended = AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|_| JobRunEnd::panicked());
            drop(mirror);
            send(&inbox, LoopMessage::Ended(Box::new(ended))).await;
        })
    }

    /// Forgets the sweeps under way. What cannot be written now is met again by the next run.
    pub fn forget_sweeps(&self) {
        let (mirror, inbox) = (self.mirror.clone(), self.inbox.clone());
        tokio::spawn(async move {
            match mirror.forget_sweeps().await {
                Ok(objects) => {
                    for object in objects {
                        tracing::info!(%object, "The sweep of {} was stopped; nothing was removed", object.resource());
                    }
                }
                Err(error) => tracing::error!("Sweeps could not be stopped: {}", error_chain(&error)),
            }
            drop(mirror);
            send(&inbox, LoopMessage::Maintained).await;
        });
    }

    /// Ends the hold.
    pub fn clear_hold(&self) {
        let (mirror, inbox) = (self.mirror.clone(), self.inbox.clone());
        tokio::spawn(async move {
            mirror.clear_hold().await;
            drop(mirror);
            send(&inbox, LoopMessage::Maintained).await;
        });
    }

    /// Stores since when the schedule is paused, in the order in which it was asked for.
    pub fn store_pause(&self, reply: u64, since: Option<Instant>) {
        // The receiver lives as long as the mirror.
        let _ = self.pauses.send((reply, since));
    }

    /// Reads the configuration again and puts it in force for the next run. What is invalid leaves everything as it is;
    /// another mirror or another socket takes a restart.
    pub fn reload(&self) {
        let (mirror, known, inbox) = (self.mirror.clone(), self.config.clone(), self.inbox.clone());
        let sources = self.sources.clone();
        tokio::spawn(async move {
            let before = known.read().unwrap_or_else(PoisonError::into_inner).clone();
            let reloaded = reload(&mirror, &sources, &before).await;
            if let Ok(config) = &reloaded {
                *known.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
            }
            drop(mirror);
            send(&inbox, LoopMessage::Reloaded(Box::new(reloaded))).await;
        });
    }

    /// Whether the key is another than the one in use. One that cannot be read leaves the known one in force.
    pub fn key_changed(&self) -> bool {
        changed_key(&self.mirror, &self.config()).is_some()
    }

    /// Closes the mirror, for as long as that may take: what is in hand after it is left, as after a kill.
    pub async fn close(self, within: Duration) {
        let Runner { mirror, .. } = self;
        let Some(mirror) = Arc::into_inner(mirror) else {
            tracing::warn!("The database is still in use; what is not stored is read again after the restart");
            return;
        };
        if tokio::time::timeout(within, mirror.close()).await.is_err() {
            tracing::warn!("The database is held by another process and was not closed tidily; nothing is lost");
        }
    }
}

async fn send(inbox: &mpsc::Sender<LoopMessage>, message: LoopMessage) {
    // A closed inbox belongs to a daemon that has ended.
    let _ = inbox.send(message).await;
}

/// The settings with a key that has taken the place of the one in use.
fn changed_key(mirror: &Mirror, config: &Config) -> Option<MirrorSettings> {
    let settings = mirror.settings();
    let api = config.api().ok()?;
    (api.key.fingerprint() != settings.api.key.fingerprint()).then_some(MirrorSettings { api, ..settings })
}

/// A run of a job, from what has to be true before it to what it came to.
async fn run(mirror: &Mirror, config: &Config, inbox: &mpsc::Sender<LoopMessage>, job: &QueuedJob) -> JobRunEnd {
    let prepared = async {
        mirror.follow_file().await?;
        if let Some(settings) = changed_key(mirror, config) {
            mirror.reconfigure(settings).await?;
            send(inbox, LoopMessage::KeyChanged).await;
        }
        Ok::<_, MirrorError>(mirror.reserve_for_schedule().await?)
    };
    if let Err(error) = prepared.await {
        let error = DaemonError::from(error);
        return JobRunEnd::failed(FailureKind::Passing, error_chain(&error), error.exit(), error.hint());
    }
    let configured = within(job.job.clone(), config.sync.objects.as_deref());
    match mirror.run(&configured, job.trigger.as_str()).await {
        Ok(done) => JobRunEnd {
            ending: RunEnding {
                end: done.suspension.map_or(RunEnd::Done, RunEnd::Suspended),
                empty_until: done.empty_until,
            },
            exit: Exit::of_outcome(done.summary.outcome).code(),
            summary: Some(done.summary),
            found: done.findings,
            error: None,
            hint: None,
        },
        Err(error) => {
            let mut ended = JobRunEnd::failed(kind(&error), error_chain(&error), Exit::of_sync(&error), error.hint());
            ended.ending.empty_until = mirror.empty_until();
            ended
        }
    }
}

/// The job within what the configuration names; what it no longer names by now is left out.
fn within(job: Job, configured: Option<&[Resource]>) -> Job {
    let all = || Selection::Configured(configured.unwrap_or_default().to_vec());
    job.clone().within(configured).unwrap_or_else(|_| job.about(all()))
}

/// How soon another try is worth it. Another workspace is a key that a person has to change: nothing was written.
fn kind(error: &SyncError) -> FailureKind {
    match error {
        SyncError::OtherWorkspace { .. } | SyncError::NoScope { .. } => FailureKind::Key,
        other if other.class() == Some(ErrorClass::StopAll) => FailureKind::Key,
        _ => FailureKind::Passing,
    }
}

async fn reload(mirror: &Mirror, sources: &Sources, before: &Config) -> Result<Arc<Config>, DaemonError> {
    let mut config = Config::load(sources)?;
    if config.database != before.database || config.socket != before.socket {
        tracing::warn!("`database.path` and `daemon.socket` take effect with a restart only; the rest is active");
        config.database = before.database.clone();
        config.socket = before.socket.clone();
    }
    let settings = MirrorSettings::from_config(&config)?;
    for _ in 1..RELOAD_TRIES {
        match mirror.reconfigure(settings.clone()).await {
            Ok(()) => return Ok(Arc::new(config)),
            // Somebody holds the database: no reason to refuse a configuration.
            Err(MirrorError::Store(StoreError::Sqlite { .. })) => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
    mirror.reconfigure(settings).await?;
    Ok(Arc::new(config))
}

/// Stores pauses one after the other, and answers each within a time that a person waits: truthfully, also where another
/// process holds the database.
async fn store_pauses(
    mirror: std::sync::Weak<Mirror>,
    mut waiting: mpsc::UnboundedReceiver<(u64, Option<Instant>)>,
    inbox: mpsc::Sender<LoopMessage>,
) {
    while let Some((reply, since)) = waiting.recv().await {
        let Some(store) = mirror.upgrade().map(|mirror| mirror.store()) else { return };
        let mut written = tokio::spawn(async move {
            let write = store.write(move |tx| match since {
                Some(since) => tx.set_state(&PAUSED, &since),
                None => tx.clear_state(&PAUSED),
            });
            write.await
        });
        let first = tokio::time::timeout(ANSWER_WITHIN, &mut written).await;
        let is_late = first.is_err();
        let answer = match first {
            Ok(Ok(Ok(()))) => DaemonAnswer::Done,
            Ok(Ok(Err(error))) => DaemonAnswer::NotStored { reason: error_chain(&error) },
            Ok(Err(_)) => DaemonAnswer::NotStored { reason: "internal error".into() },
            Err(_) => DaemonAnswer::NotStored { reason: "another process holds the database".into() },
        };
        let failed = answer != DaemonAnswer::Done;
        send(&inbox, LoopMessage::PauseStored(reply, answer)).await;
        if is_late {
            // Stored as soon as the database is free, and before what is asked for next.
            match written.await {
                Ok(Ok(())) => tracing::info!("Whether the schedule is paused is stored now"),
                Ok(Err(error)) => {
                    tracing::error!("Whether the schedule is paused could not be stored: {}", error_chain(&error));
                }
                Err(_) => {}
            }
        } else if failed {
            tracing::error!("Whether the schedule is paused could not be stored; a restart does not know it");
        }
    }
}
