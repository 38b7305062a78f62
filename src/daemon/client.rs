//! The client of the control socket, which verbs use to run jobs in the daemon and to follow them.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use reqwest::StatusCode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::bus::Event;
use super::status_reply::DaemonStatus;

/// The timeout of a request. The daemon answers at once, and may wait five seconds for the disk.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of the first request, which waits for no disk: a daemon that hangs keeps nobody waiting.
const FIRST_REPLY_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct DaemonClient {
    http: reqwest::Client,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the daemon does not answer on its control socket")]
    Silent(#[source] reqwest::Error),
    #[error("unexpected answer of the daemon: {0}")]
    NotUnderstood(String),
    #[error("{error}")]
    Refused { error: String, hint: Option<String> },
    /// The daemon is not ready: it is opening its mirror, or it is stopping.
    #[error("the daemon is not ready: {0}")]
    NotReady(String),
    #[error("the daemon ended before the job did")]
    Ended,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AcceptedJob {
    pub job: u64,
    /// When its wait ends, UTC, if it has to wait.
    pub waits_until: Option<String>,
}

#[derive(Deserialize)]
struct ProblemReply {
    error: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct StatusOfDaemon {
    database: String,
    daemon: Option<DaemonStatus>,
}

/// Requires that a process listens on a socket that this user can access. A daemon that hangs accepts no connection once
/// its queue is full: it listens, and is not waited for.
pub fn reach(path: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Err(Errno::AGAIN) => Ok(()),
        reached => Ok(reached?),
    }
}

impl DaemonClient {
    /// A client of the daemon that listens on `socket`; `None` if there is none.
    pub fn connect(socket: &Path) -> Option<DaemonClient> {
        reach(socket).ok()?;
        crate::api::transport::install_tls();
        let http = reqwest::Client::builder()
            .unix_socket(socket)
            // Nothing is encrypted here, and a machine may have no certificates.
            .tls_certs_only([])
            .no_proxy()
            .build()
            .ok()?;
        Some(DaemonClient { http })
    }

    /// The daemon's status, if it owns the mirror at `database`.
    pub async fn status_of(&self, database: &Path) -> Result<Option<DaemonStatus>, ClientError> {
        let answer = self.http.get(url("/status")).timeout(FIRST_REPLY_TIMEOUT).send().await;
        let status = read_status(answer).await?;
        let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        Ok(status.daemon.filter(|_| same(Path::new(&status.database), database)))
    }

    /// Whether a job is running or queued.
    pub async fn has(&self, job: u64) -> Result<bool, ClientError> {
        let answer = self.http.get(url("/status")).timeout(REPLY_TIMEOUT).send().await;
        let status = read_status(answer).await?;
        let jobs = status.daemon.into_iter();
        Ok(jobs.flat_map(|daemon| daemon.running.into_iter().chain(daemon.waiting)).any(|known| known.job == job))
    }

    /// Sends a request; `body` is a JSON document.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ClientError> {
        let request = self.http.post(url(path)).body(body.to_string());
        read(request.timeout(REPLY_TIMEOUT).send().await).await
    }

    pub async fn subscribe(&self) -> Result<EventStream, ClientError> {
        let response = self.http.get(url("/events")).send().await.map_err(ClientError::Silent)?;
        Ok(EventStream { response, read: Vec::new() })
    }
}

fn url(path: &str) -> String {
    format!("http://localhost{path}")
}

/// An answer with a daemon status is valid whatever its HTTP status: the daemon may be waiting for its mirror.
async fn read_status(answer: reqwest::Result<reqwest::Response>) -> Result<StatusOfDaemon, ClientError> {
    let (_, body) = received(answer).await?;
    serde_json::from_slice(&body).map_err(|error| match refused(StatusCode::OK, &body) {
        ClientError::NotUnderstood(_) => ClientError::NotUnderstood(error.to_string()),
        refused => refused,
    })
}

async fn read<T: DeserializeOwned>(answer: reqwest::Result<reqwest::Response>) -> Result<T, ClientError> {
    let (status, body) = received(answer).await?;
    if !status.is_success() {
        return Err(refused(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| ClientError::NotUnderstood(error.to_string()))
}

async fn received(answer: reqwest::Result<reqwest::Response>) -> Result<(StatusCode, Bytes), ClientError> {
    let answer = answer.map_err(ClientError::Silent)?;
    let status = answer.status();
    Ok((status, answer.bytes().await.map_err(ClientError::Silent)?))
}

fn refused(status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<ProblemReply>(body) {
        Err(error) => ClientError::NotUnderstood(error.to_string()),
        Ok(problem) if status == StatusCode::SERVICE_UNAVAILABLE => ClientError::NotReady(problem.error),
        Ok(problem) => ClientError::Refused { error: problem.error, hint: problem.hint },
    }
}

#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    read: Vec<u8>,
}

impl EventStream {
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                // A daemon of another version may publish unknown events, and so may the end of a job be one.
                return Ok(serde_json::from_slice(&line).unwrap_or(Event::Missed { lines: 1 }));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.read.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return Err(ClientError::Ended),
            }
        }
    }
}
