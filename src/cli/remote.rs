//! Runs a job through the daemon that owns the mirror, with the same progress, output and exit code as in the
//! foreground.
//!
//! Ctrl-C leaves the job to the daemon and prints how to stop it.

use std::io::ErrorKind;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::app::Summary;
use crate::cli::Failure;
use crate::cli::args::note_invalid;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::config::Config;
use crate::daemon::client::{AcceptedJob, ClientError, DaemonClient, EventStream, reach};
use crate::daemon::{DaemonStatus, Event, StopSignals};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object};
use crate::sync::Findings;
use crate::sync::events::RunObserver;

/// How long to wait for events that are already on their way.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How long `status` waits for the daemon: monitoring allows a probe a few seconds.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1500);

/// How often a daemon that is not ready is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Finished {
    pub summary: Summary,
    pub found: Vec<(Object, Findings)>,
}

/// The daemon that owns the configured mirror, and its status; `None` if there is none.
pub async fn daemon(config: &Config) -> Result<Option<(DaemonClient, DaemonStatus)>, Failure> {
    if reach(&config.socket).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        let message = format!("this user may not access the daemon's control socket {}", config.socket.display());
        return Err(Failure::new(Exit::Unavailable, message).hint("run the command as root, or as the daemon's user"));
    }
    let Some(client) = DaemonClient::connect(&config.socket) else { return Ok(None) };
    let status = client.status_of(&config.database).await?;
    if status.is_some() {
        note_invalid(config);
    }
    Ok(status.map(|status| (client, status)))
}

/// Whether a daemon keeps the mirror up to date, as far as its socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    Running,
    /// Something listens on the socket and does not answer.
    Unresponsive,
    /// It was killed: its socket exists, and no process listens.
    Killed,
    /// This user may not access the socket, so nothing is known about it.
    Inaccessible,
    None,
}

/// The daemon's status, and whether one runs, within a bounded time. The file's status is valid anyway.
pub async fn daemon_state(config: &Config) -> (Option<DaemonStatus>, DaemonState) {
    let asked = async {
        if let Err(error) = reach(&config.socket) {
            let state = match error.kind() {
                ErrorKind::ConnectionRefused => DaemonState::Killed,
                ErrorKind::PermissionDenied => DaemonState::Inaccessible,
                _ => DaemonState::None,
            };
            return (None, state);
        }
        match daemon(config).await {
            Ok(Some((_, daemon))) => (Some(daemon), DaemonState::Running),
            // Another mirror's daemon.
            Ok(None) => (None, DaemonState::None),
            Err(failure) => {
                output::note(failure.text().trim_end());
                (None, DaemonState::Unresponsive)
            }
        }
    };
    tokio::time::timeout(ANSWERS_WITHIN, asked).await.unwrap_or((None, DaemonState::Unresponsive))
}

/// Requests a job and watches it until it ends; `None` if the person stops watching, or the job has to wait for long: the
/// daemon goes on with it.
pub async fn job(
    client: &DaemonClient,
    path: &str,
    body: &Value,
    progress: &ProgressView,
    how_to_stop: &str,
) -> Result<Option<Finished>, Failure> {
    let mut signals = StopSignals::listen()?;
    // Subscribed before the request, so that no event of the job is missed.
    let mut events = client.subscribe().await?;
    let Some(accepted) = accepted(client, path, body, &mut signals).await? else { return Ok(None) };
    output::note(&format!("the daemon runs it (job {})", accepted.job));
    if let Some(until) = accepted.waits_until.as_deref().and_then(|until| until.parse().ok()) {
        // As in the foreground, an exhausted budget and a long hold are not waited for.
        let until: Instant = until;
        output::note(&format!(
            "it starts at {}, when the hold ends or the budget refills; {how_to_stop}",
            format::moment(until)
        ));
        return Ok(None);
    }
    tokio::select! {
        ended = watch(client, &mut events, accepted.job, progress) => ended.map(Some),
        () = signals.next() => {
            output::note(&format!("the daemon continues; {how_to_stop}"));
            Ok(None)
        }
    }
}

/// Enqueues a job. While the daemon opens its mirror, which may be a migration or a wait for another process, it is asked
/// again. `None` if the user ends the wait.
async fn accepted(
    client: &DaemonClient,
    path: &str,
    body: &Value,
    signals: &mut StopSignals,
) -> Result<Option<AcceptedJob>, Failure> {
    let mut reported = None;
    loop {
        match client.post(path, body).await {
            Err(ClientError::NotReady(reason)) => {
                if reported.as_ref() != Some(&reason) {
                    output::note(&format!("waiting until the daemon is ready: {reason}"));
                    reported = Some(reason);
                }
            }
            answer => return Ok(Some(answer?)),
        }
        tokio::select! {
            () = tokio::time::sleep(ASK_AGAIN) => {}
            () = signals.next() => {
                output::note("nothing was requested");
                return Ok(None);
            }
        }
    }
}

async fn watch(
    client: &DaemonClient,
    events: &mut EventStream,
    job: u64,
    progress: &ProgressView,
) -> Result<Finished, Failure> {
    let mut ours = false;
    let mut gone = false;
    loop {
        let event = if gone {
            // The end of the job is among the next events, or was missed.
            tokio::time::timeout(LAST_LINES, events.next()).await.map_err(|_| {
                Failure::new(Exit::Paused, "the end of the job was missed")
                    .hint("`crm-mirror status` shows the last runs")
            })??
        } else {
            events.next().await?
        };
        match event {
            Event::Started { job: started, .. } => ours = started == job,
            Event::Missed { .. } => gone = !client.has(job).await?,
            Event::Preempted { job: preempted } if preempted == job => ours = false,
            Event::Finished { job: ended, exit, summary, found, error, hint } if ended == job => {
                let Some(summary) = summary else {
                    let error = error.unwrap_or_else(|| "the run failed".into());
                    return Err(Failure::hinted(Exit::of_code(exit), hint, error));
                };
                return Ok(Finished { summary: *summary, found });
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
            ClientError::NotReady(_) => Failure::new(Exit::Paused, error).hint("run the command again in a moment"),
            ClientError::Ended => {
                Failure::new(Exit::Paused, error).hint("stored data is kept; `crm-mirror status` shows the progress")
            }
            ClientError::Silent(_) => {
                Failure::new(Exit::Unavailable, error).hint("the log of the daemon may show more")
            }
            other => Failure::new(Exit::Internal, other).hint("the log of the daemon may show more"),
        }
    }
}
