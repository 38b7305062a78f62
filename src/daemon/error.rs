//! Errors of starting the daemon and of applying a new configuration.

use std::io;
use std::path::PathBuf;

use tokio_cron_scheduler::JobSchedulerError;

use crate::app::MirrorError;
use crate::config::ConfigError;
use crate::exit::Exit;

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("could not configure the scheduler")]
    Scheduler(#[from] JobSchedulerError),
    #[error("the file system of {folder} has been read-only for minutes: ending, so that a new start sees how it is mounted now", folder = folder.display())]
    ReadOnly { folder: PathBuf },
    #[error("could not receive signals")]
    Signals(#[source] io::Error),
}

impl DaemonError {
    pub fn exit(&self) -> Exit {
        match self {
            DaemonError::Config(_) => Exit::Config,
            DaemonError::Mirror(MirrorError::Store(error)) => Exit::of_store(error),
            DaemonError::Mirror(MirrorError::Api(error)) => Exit::of_api(error),
            // A code after which systemd starts it again.
            DaemonError::ReadOnly { .. } => Exit::Paused,
            DaemonError::Scheduler(_) | DaemonError::Signals(_) => Exit::Internal,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DaemonError::Config(error) => error.hint(),
            DaemonError::Mirror(MirrorError::Store(error)) => error.hint(),
            DaemonError::Mirror(MirrorError::Api(error)) => error.hint(),
            DaemonError::ReadOnly { .. } => Some("`dmesg` shows why; then run `mount -o remount,rw`"),
            DaemonError::Scheduler(_) | DaemonError::Signals(_) => None,
        }
    }
}
