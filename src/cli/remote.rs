//! A job through the daemon that keeps the mirror: asked for, watched with the same progress as in the foreground, and
//! ended with the same words and code.
//!
//! Ctrl-C leaves the job to the daemon: it says how to stop it, and that nothing was lost.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::signals::StopSignals;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::config::Config;
use crate::daemon::client::{AcceptedJob, ClientError, DaemonClient, EventStream};
use crate::daemon::{DaemonStatus, Event};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object};
use crate::sync::events::RunObserver;
use crate::sync::{Findings, Summary};

/// How long the lines that are already on their way may take.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How a job ended.
#[derive(Debug)]
pub struct Finished {
    /// The code of the verb.
    pub exit: Exit,
    /// What it did.
    pub summary: Summary,
    /// What a verification found.
    pub found: Vec<(Object, Findings)>,
}

/// What came of a job, as far as it was watched.
#[derive(Debug)]
pub enum Watched {
    /// Its end.
    Finished(Box<Finished>),
    /// The person stopped watching, or the job waits for long; the daemon continues with it.
    Left,
}

/// The daemon that keeps the configured mirror, and its status; `None` where none does.
///
/// # Errors
/// If something listens and does not answer as it should.
pub async fn daemon(config: &Config) -> Result<Option<(DaemonClient, DaemonStatus)>, Failure> {
    let Some(client) = DaemonClient::connect(&config.socket) else {
        return Ok(None);
    };
    let status = client.status_of(&config.database).await?;
    Ok(status.map(|status| (client, status)))
}

/// Whether a daemon keeps the mirror up to date, as far as its socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    /// It answers.
    Running,
    /// Something listens on the socket and does not answer.
    Unresponsive,
    /// It was killed: its socket is there, and nobody listens.
    Killed,
    /// None runs.
    None,
}

/// What the daemon reports, and whether one runs. One that does not answer is named on stderr: what the file shows is true
/// all the same.
pub async fn daemon_state(config: &Config) -> (Option<DaemonStatus>, DaemonState) {
    match daemon(config).await {
        Ok(Some((_, daemon))) => (Some(daemon), DaemonState::Running),
        Ok(None) => (None, socket_state(&config.socket)),
        Err(failure) => {
            output::note(failure.text().trim_end());
            (None, DaemonState::Unresponsive)
        }
    }
}

fn socket_state(socket: &Path) -> DaemonState {
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => DaemonState::Killed,
        // Another mirror's daemon, or none that this user may ask.
        _ => DaemonState::None,
    }
}

/// Asks for a job and watches it to its end.
///
/// # Errors
/// What the job ended with, or that the daemon is not to be reached.
pub async fn job(
    client: &DaemonClient,
    path: &str,
    body: &Value,
    progress: &ProgressView,
    how_to_stop: &str,
) -> Result<Watched, Failure> {
    let mut signals = StopSignals::listen()?;
    // Listened to before it is asked for: nothing of it is missed.
    let mut events = client.subscribe().await?;
    let accepted: AcceptedJob = client.post(path, body).await?;
    output::note(&format!("the daemon runs it (job {})", accepted.job));
    if let Some(until) = accepted.waits_until.as_deref().and_then(|until| until.parse().ok()) {
        // As in the foreground: a spent budget and a long hold are not waited for.
        let until: Instant = until;
        output::note(&format!(
            "it starts at {}, when the hold ends or the budget refills; {how_to_stop}",
            format::moment(until)
        ));
        return Ok(Watched::Left);
    }
    tokio::select! {
        ended = watch(client, &mut events, accepted.job, progress) => Ok(Watched::Finished(Box::new(ended?))),
        () = signals.next() => {
            output::note(&format!("the daemon continues; {how_to_stop}"));
            Ok(Watched::Left)
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
            // Its end is among the next lines, or was missed.
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
                let exit = Exit::of_code(exit);
                let Some(summary) = summary else {
                    let failure = Failure::new(exit, error.unwrap_or_else(|| "the run failed".into()));
                    return Err(match hint {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    });
                };
                return Ok(Finished { exit, summary: *summary, found });
            }
            event if ours => {
                if let Some(event) = event.of_run() {
                    progress.on(event);
                }
            }
            _ => {}
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused { error, hint } => {
                let failure = Failure::new(Exit::Usage, error);
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            ClientError::Ended => Failure::new(Exit::Paused, error)
                .hint("what was stored stays; `crm-mirror status` shows how far it came"),
            other => Failure::new(Exit::Internal, other).hint("`systemctl status crm-mirror` may tell more"),
        }
    }
}
