//! Why the daemon cannot begin, or cannot take over a new configuration.

use std::io;
use std::path::PathBuf;

use crate::app::MirrorError;
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::store::StoreError;

/// Why the daemon cannot begin, or cannot take over a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The mirror's file, or the client of the service.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The control socket.
    #[error("could not open the control socket {path}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process listens there.
    #[error("another process{} listens on the control socket {path}", pid.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    SocketTaken {
        /// The socket.
        path: PathBuf,
        /// The process that writes the mirror, if one does.
        pid: Option<u32>,
    },
    /// The scheduler.
    #[error("could not set the scheduler: {why}")]
    Scheduler {
        /// Why.
        why: String,
    },
    /// Signals cannot be received.
    #[error("could not receive signals")]
    Signals(#[source] io::Error),
}

impl From<StoreError> for DaemonError {
    fn from(error: StoreError) -> DaemonError {
        DaemonError::Mirror(error.into())
    }
}

impl DaemonError {
    /// The code that the process ends with.
    pub fn exit(&self) -> Exit {
        match self {
            DaemonError::Config(_) => Exit::Config,
            DaemonError::Mirror(MirrorError::Store(error)) => Exit::of_store(error),
            DaemonError::Mirror(MirrorError::Api(error)) => Exit::of_api(error),
            // A process that still ends holds it for a moment: another try may do.
            DaemonError::Socket { .. } | DaemonError::SocketTaken { .. } => Exit::Storage,
            DaemonError::Scheduler { .. } | DaemonError::Signals(_) => Exit::Internal,
        }
    }

    /// The command or setting that fixes it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DaemonError::Config(error) => error.hint(),
            DaemonError::Mirror(MirrorError::Store(error)) => error.hint(),
            DaemonError::Mirror(MirrorError::Api(error)) => error.hint(),
            DaemonError::Socket { .. } => Some("its folder must exist and be writable (`daemon.socket`)"),
            DaemonError::SocketTaken { .. } => {
                Some("one daemon serves a mirror; give each mirror a socket of its own (`daemon.socket`)")
            }
            DaemonError::Scheduler { .. } | DaemonError::Signals(_) => None,
        }
    }
}
