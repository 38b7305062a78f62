//! The client of the control socket, which verbs use to run jobs in the daemon and to follow them.

use std::io;
use std::path::{self, Path};
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::event::Event;
use super::http_server::ProblemReply;
use super::status_reply::DaemonStatus;

/// The timeout of a request. The daemon answers at once, and may wait five seconds for the disk.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of the first request, which waits a second for the disk: a daemon that hangs keeps nobody waiting.
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
    /// The daemon is opening its mirror or stopping, or cannot store what it was asked.
    #[error("{0}")]
    NotReady(String),
    #[error("the daemon ended before the job did")]
    Ended,
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
        // An answer with a daemon status is valid whatever its HTTP status: the daemon may be waiting for its mirror.
        let request = self.http.get("http://localhost/status").timeout(FIRST_REPLY_TIMEOUT);
        let status: StatusOfDaemon = read(request, |_| true).await?;
        // A file that is gone has a folder and a name.
        let whole = |path: &Path| {
            let of_missing = || Some(path::absolute(path).ok()?.parent()?.canonicalize().ok()?.join(path.file_name()?));
            path.canonicalize().ok().or_else(of_missing)
        };
        let is_ours = whole(database).is_some_and(|ours| whole(Path::new(&status.database)) == Some(ours));
        Ok(status.daemon.filter(|_| is_ours))
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ClientError> {
        let request = self.http.post(format!("http://localhost{path}")).body(body.to_string());
        read(request.timeout(REPLY_TIMEOUT), |status| status.is_success()).await
    }

    pub async fn subscribe(&self) -> Result<EventStream, ClientError> {
        let response = self.http.get("http://localhost/events").send().await.map_err(ClientError::Silent)?;
        Ok(EventStream { response, read: Vec::new() })
    }
}

async fn read<T: DeserializeOwned>(
    request: RequestBuilder,
    is_valid: fn(StatusCode) -> bool,
) -> Result<T, ClientError> {
    let answer = request.send().await.map_err(ClientError::Silent)?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(ClientError::Silent)?;
    let why = match serde_json::from_slice(&body) {
        Ok(document) if is_valid(status) => return Ok(document),
        read => read.err().map(|error| error.to_string()),
    };
    Err(match serde_json::from_slice::<ProblemReply>(&body) {
        Err(error) => ClientError::NotUnderstood(why.unwrap_or_else(|| error.to_string())),
        Ok(problem) if status == StatusCode::SERVICE_UNAVAILABLE => ClientError::NotReady(problem.error),
        Ok(problem) => ClientError::Refused { error: problem.error, hint: problem.hint },
    })
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
