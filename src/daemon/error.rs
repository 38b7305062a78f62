//! Why the daemon cannot begin, or ends by itself.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::store::StoreError;
use crate::sync::setup::SetupError;

/// Why the daemon cannot begin, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The mirror's file, or the client of the service.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The control socket.
    #[error("could not open the control socket {path}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another program listens there.
    #[error("another program listens on the control socket {path}")]
    SocketTaken {
        /// The socket.
        path: PathBuf,
    },
    /// The status page.
    #[error("could not listen on {at} for the status page")]
    Page {
        /// Where it was to be.
        at: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The scheduler.
    #[error("could not set the scheduler: {why}")]
    Scheduler {
        /// Why.
        why: String,
    },
    /// Signals cannot be listened to.
    #[error("could not listen to signals")]
    Signals(#[source] io::Error),
    /// A run found that going on would be wrong.
    #[error("{why}")]
    WrongWorkspace {
        /// What the run ended with.
        why: String,
    },
}

impl From<StoreError> for DaemonError {
    fn from(error: StoreError) -> DaemonError {
        DaemonError::Setup(error.into())
    }
}

impl DaemonError {
    /// The code that the process ends with.
    pub fn exit(&self) -> Exit {
        match self {
            DaemonError::Config(_) | DaemonError::WrongWorkspace { .. } | DaemonError::SocketTaken { .. } => {
                Exit::Config
            }
            DaemonError::Setup(SetupError::Store(error)) => Exit::of_store(error),
            DaemonError::Setup(SetupError::Api(error)) => Exit::of_api(error),
            DaemonError::Socket { .. } | DaemonError::Page { .. } => Exit::Storage,
            DaemonError::Scheduler { .. } | DaemonError::Signals(_) => Exit::Internal,
        }
    }

    /// A next move for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DaemonError::Config(error) => error.hint(),
            DaemonError::Setup(SetupError::Store(error)) => error.hint(),
            DaemonError::Setup(SetupError::Api(error)) => error.hint(),
            DaemonError::Socket { .. } => Some("its folder must exist and be writable (`daemon.socket`)"),
            DaemonError::SocketTaken { .. } => Some("give each mirror a socket of its own (`daemon.socket`)"),
            DaemonError::Page { .. } => {
                Some("another program may listen there: name another port in `daemon.http`, or `off`")
            }
            DaemonError::WrongWorkspace { .. } => Some(
                "use the workspace's own key, or another `database.path`; `crm-mirror sync --accept-workspace` lets this \
                 one take its place",
            ),
            DaemonError::Scheduler { .. } | DaemonError::Signals(_) => None,
        }
    }
}
