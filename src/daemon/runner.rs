//! Executes the effects on the mirror, each in a separate task: the loop never waits for the mirror.
//!
//! Every task ends with a message to the loop. Nothing is decided here; the state machine ensures that a run and a reload do
//! not overlap. The results of earlier processes are read here too, when the daemon starts.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::error::DaemonError;
use super::handler_state::{Control, LoopMessage};
use super::inputs_and_effects::{DaemonAnswer, Input};
use super::job::{FailureKind, JobResult, JobRunEnd, PollFacts, QueuedJob, RunEnd, RunEnding};
use super::state_machine::PastRuns;
use crate::api::ErrorClass;
use crate::app::{Mirror, MirrorError, MirrorSettings};
use crate::budget::{Ledger, PollingBudget};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Instant, Object, Ru};
use crate::store::{Goal, MirrorTx, Reader, StateKey, Store, StoreError, feed, report};
use crate::sync::walks::sweep;
use crate::sync::{Job, JobKind, Suspension, SyncError};

/// How long a client waits for the confirmation that a pause was stored.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Runner {
    pub(super) mirror: Arc<Mirror>,
    sources: Sources,
    control: Control,
}

impl Runner {
    pub(super) fn new(mirror: Mirror, sources: Sources, control: Control) -> Runner {
        Runner { mirror: Arc::new(mirror), sources, control }
    }

    pub(super) fn start(&self, job: &QueuedJob) -> JoinHandle<()> {
        // Here and not in the task: it must not undo a stop that comes next.
        self.mirror.meter().resume();
        let (control, job) = (self.control.clone(), job.clone());
        let panicked = "internal error: the run panicked; please report it as a bug".into();
        let panicked = JobRunEnd::failed(FailureKind::Passing, panicked, Exit::Internal, Some("the log shows where"));
        self.task(LoopMessage::Ended(Box::new(panicked)), |mirror| async move {
            LoopMessage::Ended(Box::new(run(&mirror, &control, &job).await))
        })
    }

    /// Starts work that ends with a message to the loop, `panicked` if it panics; by then the work has let go of the mirror.
    fn task<F>(&self, panicked: LoopMessage, work: impl FnOnce(Arc<Mirror>) -> F) -> JoinHandle<()>
    where
        F: Future<Output = LoopMessage> + Send + 'static,
    {
        let (work, control) = (work(self.mirror.clone()), self.control.clone());
        tokio::spawn(async move {
            let message = AssertUnwindSafe(work).catch_unwind().await.unwrap_or(panicked);
            control.send(message).await;
        })
    }

    pub(super) fn clear_hold(&self) {
        self.task(LoopMessage::Input(Input::Maintained), |mirror| async move {
            if let Err(error) = mirror.meter().clear_hold().await {
                tracing::warn!("The end of a hold could not be stored: {}", error_chain(&error));
            }
            LoopMessage::Input(Input::Maintained)
        });
    }

    /// Reloads the configuration for the next run, if it is valid. Another mirror or socket needs a restart.
    pub(super) fn reload(&self) {
        let (control, sources) = (self.control.clone(), self.sources.clone());
        let panicked = Err(MirrorError::Store(StoreError::Closed).into());
        self.task(LoopMessage::Reloaded(Box::new(panicked)), |mirror| async move {
            let reloaded = reload(&mirror, &sources, &control).await;
            if let Ok(config) = &reloaded {
                control.config.send_replace(config.clone());
            }
            LoopMessage::Reloaded(Box::new(reloaded))
        });
    }

    /// Closes the mirror within a time limit; unfinished work is abandoned, as by a kill.
    pub(super) async fn close(self, within: Duration) {
        let Some(mirror) = Arc::into_inner(self.mirror) else {
            tracing::warn!("The database is still in use; data that is not stored is read again after the restart");
            return;
        };
        if tokio::time::timeout(within, mirror.close()).await.is_err() {
            tracing::warn!("The database is in use by another process and was not closed cleanly; nothing is lost");
        }
    }
}

/// The settings with another key, if it changed. One that cannot be used leaves the known one active, which is shown.
pub(super) fn changed_key(mirror: &Mirror, control: &Control) -> Option<MirrorSettings> {
    let (settings, key) = (mirror.settings(), control.config().api_key());
    control.key_was_read(key.as_ref().err());
    let key = key.ok()?;
    (key.fingerprint() != settings.key.fingerprint()).then_some(MirrorSettings { key, ..settings })
}

async fn run(mirror: &Mirror, control: &Control, job: &QueuedJob) -> JobRunEnd {
    let objects = control.config().sync.objects.clone();
    let configured = job.job.clone().within(objects.as_deref());
    let configured = configured.unwrap_or_else(|_| Job { objects, is_named: false, ..job.job.clone() });
    let mut ended = carry_out(mirror, control, job, &configured).await;
    let stored = mirror.store().read(move |tx| sweep::is_stored(tx, &configured)).await;
    ended.ending.began |= stored.unwrap_or(false);
    ended
}

async fn carry_out(mirror: &Mirror, control: &Control, job: &QueuedJob, configured: &Job) -> JobRunEnd {
    let config = &*control.config();
    let prepared = async {
        mirror.follow_file().await?;
        if let Some(settings) = changed_key(mirror, control) {
            mirror.reconfigure(settings).await?;
            tracing::info!("API key changed; using the new key");
            control.send(LoopMessage::Input(Input::NewKey)).await;
        }
        // The run reads it in the file, which may be another one since.
        mirror.store().write(pause_in_effect(control.clone())).await?;
        Ok::<_, MirrorError>(mirror.reserve_for_schedule().await?)
    };
    let reserve = match prepared.await {
        Ok(reserve) => reserve,
        Err(MirrorError::Store(error)) if error.is_busy() => return JobRunEnd::locked(&error, false),
        Err(error) => {
            let error = DaemonError::from(error);
            return JobRunEnd::failed(FailureKind::Passing, error_chain(&error), error.exit(), error.hint()).log();
        }
    };
    let (before, began) = (mirror.meter().ledger().total, mirror.clock().now());
    let mut ended = match mirror.run(configured, job.trigger.into()).await {
        Ok((summary, found)) => JobRunEnd {
            ending: RunEnding {
                end: summary.pause.map_or(RunEnd::Done, RunEnd::Suspended),
                empty_until: mirror.meter().empty_until(),
                requested: summary.ru.spent > 0,
                began: summary.tally.rows > 0,
                polled: None,
            },
            result: JobResult {
                exit: Exit::of_outcome(summary.outcome).code(),
                summary: Some(Box::new(summary)),
                found,
                error: None,
                hint: None,
            },
        },
        Err(error) if error.suspension() == Some(Suspension::Locked) => {
            return JobRunEnd::locked(&error, mirror.meter().ledger().total > before);
        }
        Err(error) => {
            let kind = kind(mirror, &job.job, &error).await;
            let mut ended = JobRunEnd::failed(kind, error_chain(&error), Exit::of_sync(&error), error.hint());
            ended.ending.empty_until = mirror.meter().empty_until();
            // A run that cannot be stored may not have begun; any other has logged its failure itself.
            if matches!(error, SyncError::Store(_)) { ended.log() } else { ended }
        }
    };
    // Whatever ended it, a run for changes was one: a list that fails for ever leaves the schedule as it is.
    if job.job.kind == JobKind::Sync {
        ended.ending.polled = Some(poll_facts(mirror, config, reserve, began).await);
    }
    ended
}

async fn poll_facts(mirror: &Mirror, config: &Config, reserve: Ru, began: Instant) -> PollFacts {
    let (ledger, limits) = (mirror.meter().ledger(), *mirror.meter().limits());
    let mirrored = Object::ALL.into_iter().filter(|object| config.mirrors(object.resource())).count();
    let last_change = mirror.store().read(report::last_change).await.unwrap_or_default();
    let budget = PollingBudget {
        refills_at: ledger.refills_at(&limits),
        left: limits.limit.saturating_sub(ledger.used),
        reserve,
        limit: limits.limit,
        polled: Ru::ZERO,
        idle_cost: Ru::new(mirrored.max(1) as u64),
    };
    let changed = last_change.is_some_and(|at| at.as_micros() >= began.as_micros());
    PollFacts { window: ledger.window, changed, budget }
}

/// The kind of failure. For what looks like a different workspace the user has to change the key; nothing was written.
async fn kind(mirror: &Mirror, job: &Job, error: &SyncError) -> FailureKind {
    match error {
        SyncError::OtherWorkspace { .. } | SyncError::NotRecognised { .. } | SyncError::NoScope { .. } => {
            FailureKind::Key
        }
        other if other.class() == Some(ErrorClass::StopAll) => FailureKind::Key,
        other if other.concerns_one_resource() => {
            let attempted = !matches!(other, SyncError::NotDue { .. });
            match mirror.next_attempt_of_failed_steps(job).await {
                Some((next_try, false)) => FailureKind::Service { next_try },
                Some((next_try, true)) if !job.is_push() => FailureKind::Partial { next_try, attempted },
                _ => FailureKind::Passing,
            }
        }
        _ => FailureKind::Passing,
    }
}

async fn reload(mirror: &Mirror, sources: &Sources, control: &Control) -> Result<Arc<Config>, DaemonError> {
    let mut config = Config::load(sources)?;
    let Config { database, socket, log, daemon, .. } = Config::clone(&control.config());
    if (&config.database, &config.socket, &config.log, &config.daemon) != (&database, &socket, &log, &daemon) {
        tracing::warn!("`database.path`, `[daemon]` and `[log]` take effect after a restart; the rest is active");
        (config.database, config.socket, config.log, config.daemon) = (database, socket, log, daemon);
    }
    mirror.reconfigure(MirrorSettings::new(config.clone())?).await?;
    // The next run stores it, too.
    if let Err(error) = mirror.store().write(pause_in_effect(control.clone())).await {
        tracing::warn!("Whether the schedule is paused is not stored: {}", error_chain(&error));
    }
    Ok(Arc::new(config))
}

/// Stores what is in effect when it is written, whatever the order of the requests.
fn pause_in_effect(control: Control) -> impl FnOnce(&MirrorTx<'_>) -> Result<(), StoreError> {
    move |tx| match control.daemon().paused_since {
        Some(since) => tx.set_state(&StateKey::PausedSince, &since),
        None => tx.clear_state(&StateKey::PausedSince),
    }
}

/// Stores the pause, and answers within a time limit, with the actual outcome. The next run stores it, too.
pub(super) async fn store_pause(store: Store, control: Control, client: Option<oneshot::Sender<DaemonAnswer>>) {
    // It goes on when nobody waits for it any more. What is written to a file that is not at its path is lost.
    let written = tokio::spawn(async move {
        store.is_at_path()?;
        store.write(pause_in_effect(control)).await
    });
    let failed = match tokio::time::timeout(ANSWER_WITHIN, written).await {
        Ok(Ok(written)) => written.err().map(|error| error_chain(&error)),
        Ok(Err(ended)) => Some(ended.to_string()),
        Err(_) => Some("another process is using the database".into()),
    };
    if let Some(reason) = &failed {
        tracing::error!("Whether the schedule is paused is not stored; a restart may lose it: {reason}");
    }
    let answer = failed.map_or(DaemonAnswer::Done, |reason| {
        DaemonAnswer::Unavailable(format!("this is in effect, but not stored yet: {reason}; a restart may lose it"))
    });
    client.map(|client| client.send(answer));
}

/// Reads the past runs, of which those of the ledger's window count as polls. A tick is covered by a run that ended, and one that
/// failed, was cut off or stopped leaves it due. A kind that has never run is due by its schedule, changes at once.
pub(super) fn read(path: &Path, now: Instant, ledger: &Ledger) -> Result<PastRuns, StoreError> {
    let reader = Reader::open(path)?;
    let moment = reader.begin()?;
    let [sync, verify, resync] = ["sync", "verify", "resync"].map(|kind| report::attempts(&moment, kind));
    let runs = [sync?, verify?, resync?];
    let [[synced, changes], [_, audited], [resynced, mut swept]] = runs.map(|(times, _)| times);
    let mut under_way = false;
    for object in Object::ALL {
        swept = swept.max(moment.goals().last_read(Goal::Sweep(object))?.map(|fresh| fresh.finished));
        under_way |= moment.goals().is_set(Goal::Sweeping(object))?;
    }
    // The next sync goes on with the sweep that is under way.
    let (changes, swept) = if under_way { (None, swept.max(resynced)) } else { (changes, swept) };
    // A mirror that was never audited is due for an audit at the first tick after its copy, even across restarts.
    let audited = audited.or(swept);
    // As far as the runs themselves show it.
    let polled = report::scheduled_polls(&moment, ledger.since)?.saturating_mul(Object::ALL.len() as u64);
    let digits = feed::mirror_id(&moment)?.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    Ok(PastRuns {
        part: f64::from(digits.unwrap_or_default()) / f64::from(u32::MAX),
        // A clock that was set back must not delay anything.
        covered: [changes.unwrap_or(Instant::EPOCH), audited.unwrap_or(now), swept.unwrap_or(now)]
            .map(|at| at.min(now)),
        unended: runs.map(|([begun, ended], failed)| Some((begun.filter(|_| begun > ended)?.min(now), failed))),
        paused_since: moment.state(&StateKey::PausedSince)?,
        is_empty: synced.is_none() && swept.is_none(),
        last_change: report::last_change(&moment)?,
        polled: (ledger.window, Ru::new(polled)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LastRead, RunOutcome, Store, Tally};

    #[tokio::test]
    async fn mirrors_have_delays_of_their_own_that_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut parts = Vec::new();
        for name in ["one.db", "two.db"] {
            let path = dir.path().join(name);
            Store::open(&path).unwrap().close().await;
            let part = || read(&path, Instant::EPOCH, &Ledger::default()).unwrap().part;
            assert_eq!(part(), part(), "the next process has the same one");
            parts.push(part());
        }
        assert!(parts[0] != parts[1] && parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
    }

    #[tokio::test]
    async fn jobs_missed_while_stopped_are_due_and_a_first_copy_counts_as_a_sweep() {
        let at = |text: &str| -> Instant { text.parse().unwrap() };
        let (copied, synced, now) =
            (at("2026-03-01T00:00:00Z"), at("2026-03-02T00:00:00Z"), at("2026-03-04T00:00:00Z"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        Store::open(&path).unwrap().close().await;
        let empty = read(&path, now, &Ledger::default()).unwrap();
        assert_eq!(empty.covered, [Instant::EPOCH, now, now], "changes at once, the rest by its schedule");
        assert!(empty.is_empty);

        let store = Store::open(&path).unwrap();
        store
            .write(move |tx| {
                let fresh = LastRead::between(copied, copied);
                tx.claims().reach(Goal::Sweep(Object::Contact), fresh)?;
                let run = tx.begin_run("sync", "manual", synced)?;
                tx.end_run(run, synced, RunOutcome::Done, &Tally::default(), None)
            })
            .await
            .unwrap();
        store.close().await;
        // An audit is due since the copy, whatever the number of restarts.
        let known = read(&path, now, &Ledger::default()).unwrap();
        assert_eq!((known.covered, known.is_empty), ([synced, copied, copied], false));
        let set_back = read(&path, at("2026-02-01T00:00:00Z"), &Ledger::default()).unwrap();
        assert_eq!(set_back.covered, [at("2026-02-01T00:00:00Z"); 3]);
    }

    /// Of a changes run, an audit and a sweep; of each the second one ends in this way.
    #[tokio::test]
    async fn tick_is_covered_by_a_run_that_ended() {
        use RunOutcome::{Done, Failed, Refused, Suspended};
        let at = |minute: u64| Instant::EPOCH.plus(Duration::from_secs(60 * minute));
        for (outcome, ru, is_under_way, covered, unended) in [
            (Some(Done), 2, false, [2, 2, 2], [None; 3]),
            (Some(Refused), 2, false, [2, 2, 2], [None; 3]),
            (Some(Failed), 2, false, [1, 1, 1], [Some(1); 3]),
            (Some(Failed), 0, false, [1, 1, 1], [Some(1); 3]),
            // It was killed.
            (None, 0, false, [1, 1, 1], [Some(1); 3]),
            // A full verification would begin again, and a sweep that was stopped by a person, too.
            (Some(Suspended), 2, false, [1, 2, 2], [Some(0), None, None]),
            (Some(Suspended), 0, false, [1, 1, 1], [None; 3]),
            // What was stored of a sweep is continued by the next sync.
            (Some(Failed), 2, true, [0, 1, 2], [Some(1); 3]),
            (Some(Suspended), 2, true, [0, 2, 2], [Some(0), None, None]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("mirror.db");
            let store = Store::open(&path).unwrap();
            let history = move |tx: &MirrorTx<'_>| {
                for kind in ["sync", "verify", "resync"] {
                    for (minute, outcome) in [(1, Some(Done)), (2, outcome)] {
                        let run = tx.begin_run(kind, "schedule", at(minute))?;
                        let tally = Tally { ru: Ru::new(ru), ..Tally::default() };
                        outcome.map_or(Ok(()), |outcome| tx.end_run(run, at(minute), outcome, &tally, None))?;
                    }
                }
                if is_under_way {
                    tx.claims().reach(Goal::Sweeping(Object::Contact), LastRead::between(at(2), at(2)))?;
                }
                tx.end_killed_runs()
            };
            store.write(history).await.unwrap();
            store.close().await;
            let past = read(&path, at(3), &Ledger::default()).unwrap();
            let case = format!("{outcome:?} {ru} {is_under_way}");
            assert_eq!(past.covered, covered.map(at), "{case}");
            assert_eq!(past.unended, unended.map(|failed| failed.map(|failed| (at(2), failed))), "{case}");
        }
    }
}
