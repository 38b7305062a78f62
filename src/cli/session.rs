//! A run that a person waits for, from the configuration to a clean end: through the daemon that owns the mirror, else in
//! the foreground, with the same progress, output and exit code.
//!
//! After Ctrl-C or SIGTERM no further request is sent, the page in progress is stored, and the file is closed as after a
//! complete run; a second signal ends the program at once. The daemon goes on with its job.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::app::{Mirror, MirrorSettings, RunResult, Summary};
use crate::cli::{Failure, logging, output};
use crate::config::Config;
use crate::daemon::client::{ClientError, DaemonClient, EventStream, reach};
use crate::daemon::inputs_and_effects::AcceptedJob;
use crate::daemon::job::Trigger;
use crate::daemon::progress_log::ProgressLines;
use crate::daemon::{DaemonStatus, Event, StopSignals};
use crate::exit::Exit;
use crate::format;
use crate::model::{Object, Resource, SystemClock};
use crate::store::{StoreError, lock};
use crate::sync::{Findings, Job, JobKind, RunObserver};

const GRACE: Duration = Duration::from_secs(10);

pub type Finished = (Summary, Vec<(Object, Findings)>);

/// Runs a job while the user watches; `None` if the daemon goes on with it.
pub fn run(config: &Config, job: &Job, trigger: Trigger) -> Result<Option<Finished>, Failure> {
    let job = &within(config, job)?;
    let progress = ProgressLines::default();
    logging::start(&config.log);
    let runtime = runtime()?;
    if let Some((client, _)) = runtime.block_on(daemon(config))? {
        if job.accept_workspace {
            return Err(needs_the_mirror_alone());
        }
        return runtime.block_on(run_there(&client, job, &progress));
    }
    let settings = MirrorSettings::new(config.clone())?;
    let ran = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let mirror = Mirror::open(settings, Arc::new(SystemClock), Arc::new(progress)).await?;
        let ran = run_until_stopped(&mirror, job, trigger.into(), &mut signals).await;
        if !matches!(&ran, Err(failure) if failure.exit() == Exit::Paused) {
            mirror.close().await;
        }
        ran
    })?;
    // A second signal ends the program without waiting.
    runtime.shutdown_background();
    Ok(Some(ran))
}

/// A job of a person, limited to the configured objects.
pub(super) fn within(config: &Config, job: &Job) -> Result<Job, Failure> {
    let refused = |other: Resource| {
        Failure::new(Exit::Usage, format!("`{other}` is not among `sync.objects`"))
            .hint("add it there, or choose other objects")
    };
    let job = job.clone().within(config.sync.objects.as_deref()).map_err(refused)?;
    let compares = Object::ALL.into_iter().any(|object| job.concerns(object.resource()));
    if job.kind == JobKind::Verify && !compares { Err(refused(Resource::Contacts)) } else { Ok(job) }
}

pub(super) fn needs_the_mirror_alone() -> Failure {
    Failure::new(Exit::Storage, "this option needs exclusive access to the mirror, which the daemon has")
        .hint("stop the daemon first, or omit the option")
}

pub async fn run_until_stopped(
    mirror: &Mirror,
    job: &Job,
    trigger: &'static str,
    signals: &mut StopSignals,
) -> Result<RunResult, Failure> {
    let mut running = std::pin::pin!(mirror.run(job, trigger));
    tokio::select! {
        done = &mut running => return Ok(done?),
        () = signals.next() => {}
    }
    mirror.meter().stop();
    output::note("stopping after the page in progress; press Ctrl-C again to end at once");
    tokio::select! {
        done = &mut running => Ok(done?),
        () = signals.next() => Err(cut_off()),
        () = tokio::time::sleep(GRACE) => Err(cut_off()),
    }
}

fn cut_off() -> Failure {
    Failure::new(Exit::Paused, "stopped in the middle of a request; what was stored stays")
        .hint("`crm-mirror sync` continues from there")
}

/// How long `status` waits for the daemon: monitoring allows a probe a few seconds.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1500);

fn is_forbidden(config: &Config) -> bool {
    reach(&config.socket).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The daemon that owns the configured mirror, and its status; `None` if there is none.
pub async fn daemon(config: &Config) -> Result<Option<(DaemonClient, DaemonStatus)>, Failure> {
    if is_forbidden(config) {
        let message = format!("this user may not access the daemon's control socket {}", config.socket.display());
        return Err(Failure::new(Exit::Unavailable, message).hint("run the command as root, or as the daemon's user"));
    }
    let Some(client) = DaemonClient::connect(&config.socket) else { return Ok(None) };
    let status = client.status_of(&config.database).await?;
    Ok(status.map(|status| (client, status)))
}

/// Whether a daemon keeps the mirror up to date, as far as its socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    Running,
    /// Something listens on the socket and does not answer.
    Unresponsive,
    /// This user may not access the socket, so nothing is known about it.
    Inaccessible,
    None,
}

/// The daemon's status, and whether one runs, within a bounded time. The file's status is valid anyway.
pub async fn daemon_state(config: &Config) -> (Option<DaemonStatus>, DaemonState) {
    if is_forbidden(config) {
        return (None, DaemonState::Inaccessible);
    }
    match tokio::time::timeout(ANSWERS_WITHIN, daemon(config)).await {
        Ok(Ok(Some((_, daemon)))) => (Some(daemon), DaemonState::Running),
        // Or another mirror's daemon.
        Ok(Ok(None)) => (None, DaemonState::None),
        Ok(Err(failure)) => {
            output::note(failure.text().trim_end());
            (None, DaemonState::Unresponsive)
        }
        Err(_) => (None, DaemonState::Unresponsive),
    }
}

/// Requests a job and watches it; `None` if the person stops, or it has to wait for long: the daemon goes on with it.
async fn run_there(client: &DaemonClient, job: &Job, progress: &ProgressLines) -> Result<Option<Finished>, Failure> {
    let mut signals = StopSignals::listen()?;
    // Subscribed before the request, so that no event of the job is missed.
    let mut events = client.subscribe().await?;
    // The daemon has a configuration of its own.
    let body = Job { objects: job.objects.clone().filter(|_| job.is_named), ..job.clone() };
    let accepted: AcceptedJob = client.post(&format!("/{}", job.name()), &json!(body)).await?;
    output::note(&format!("the daemon runs it (job {})", accepted.job));
    if let Some(until) = accepted.waits_until {
        // As in the foreground, an exhausted budget and a long hold are not waited for.
        output::note(&format!(
            "it starts at {}, when the hold ends or the budget refills; `crm-mirror status` shows it",
            format::moment(until)
        ));
        return Ok(None);
    }
    tokio::select! {
        ended = watch(&mut events, accepted.job, progress) => ended.map(Some),
        () = signals.next() => {
            output::note("the daemon continues; `crm-mirror status` shows it");
            Ok(None)
        }
    }
}

/// Follows a job to its end, which a daemon of another version may describe in words that are unknown here.
async fn watch(events: &mut EventStream, job: u64, progress: &ProgressLines) -> Result<Finished, Failure> {
    let mut ours = false;
    loop {
        match events.next().await? {
            Event::Started { job: started, .. } => ours = started == job,
            // The end of the job may be among them.
            Event::Missed { .. } => {
                return Err(Failure::new(
                    Exit::Paused,
                    "the daemon continues; its events are not understood, or were missed",
                )
                .hint("`crm-mirror status` shows the last runs"));
            }
            Event::Preempted { job: preempted } if preempted == job => ours = false,
            Event::Finished { job: ended, result } if ended == job => {
                let Some(summary) = result.summary else {
                    let error = result.error.unwrap_or_else(|| "the run failed".into());
                    return Err(Failure::hinted(Exit::of_code(result.exit), result.hint, error));
                };
                return Ok((*summary, result.found));
            }
            Event::Run(event) if ours => progress.on(event),
            _ => {}
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused { error, hint } => Failure::hinted(Exit::Usage, hint, error),
            ClientError::NotReady(_) | ClientError::Ended => {
                Failure::new(Exit::Paused, error).hint("`crm-mirror status` shows how far it is")
            }
            other => {
                let exit = if matches!(other, ClientError::Silent(_)) { Exit::Unavailable } else { Exit::Internal };
                Failure::new(exit, other).hint("the log of the daemon may show more")
            }
        }
    }
}

/// The runtime of a verb: one thread to fetch and decode, one more beside it; the mirror's writer is a third.
pub fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Does work with a mirror; or, in place of one that is not there, with an empty one that only this user can read. What is
/// known of its budget and hold is its own, and what was spent is said beside it.
pub async fn with_mirror<T, E: From<StoreError>>(
    mirror: &Path,
    is_there: bool,
    work: impl AsyncFnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    if is_there {
        return work(mirror).await;
    }
    let directory = std::env::temp_dir().join(format!("crm-mirror-{:016x}", fastrand::u64(..)));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
    made.map_err(|source| StoreError::Io { path: directory.clone(), source })?;
    let scratch = directory.join("mirror.db");
    lock::carry_note(mirror, &scratch)?;
    let done = work(&scratch).await;
    if lock::note_beside(mirror).is_some() {
        lock::carry_note(&scratch, mirror)?;
    }
    // A leftover temporary directory is harmless.
    let _ = std::fs::remove_dir_all(&directory);
    done
}
