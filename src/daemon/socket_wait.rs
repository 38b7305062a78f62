//! Waits for the control socket while another process listens on it, or while its directory cannot be written.
//!
//! Nothing can be asked meanwhile, so the log and `systemctl status` report the reason. As with the mirror's file, waiting
//! is enough: a daemon that stops, or a directory that is mounted, ends it.

use std::time::Duration;

use tokio::net::UnixListener;

use super::sd_notify;
use super::signals::DaemonSignals;
use super::socket::{ControlSocket, SocketError};
use super::task::GrowingDelay;
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::store::lock;

/// The retry interval while another process listens.
const TAKEN: Duration = Duration::from_secs(1);

/// The first and the longest delay after other failures.
pub(super) const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub(super) enum SocketOpened {
    Socket(ControlSocket, UnixListener),
    Stop,
    /// The configuration is to be read again, which may name another socket.
    Reload,
}

/// Opens the control socket, however long that takes.
pub(super) async fn open(config: &Config, signals: &mut DaemonSignals) -> SocketOpened {
    let mut delays = GrowingDelay::new(DELAYS.0, DELAYS.1);
    let mut reported: Option<String> = None;
    loop {
        let error = match ControlSocket::bind(&config.socket) {
            Ok((socket, listener)) => {
                if reported.is_some() {
                    tracing::info!("The control socket is open");
                }
                return SocketOpened::Socket(socket, listener);
            }
            Err(error) => error,
        };
        let reason = reason(&error, config);
        if reported.as_ref() != Some(&reason) {
            tracing::warn!("Waiting for the control socket: {reason} ({})", error.hint());
            sd_notify::status(&format!("Waiting: {reason}"));
            if reported.is_none() {
                sd_notify::ready();
            }
            reported = Some(reason);
        }
        let wait = match error {
            SocketError::Taken { .. } => TAKEN,
            SocketError::Io { .. } => delays.next(),
        };
        tokio::select! {
            ends = signals.ends() => return if ends { SocketOpened::Stop } else { SocketOpened::Reload },
            () = sd_notify::wait_alive(wait) => {}
        }
    }
}

/// The reason, with the process that writes the mirror, if another daemon does.
fn reason(error: &SocketError, config: &Config) -> String {
    match (error, lock::current_writer(&config.database).flatten()) {
        (SocketError::Taken { .. }, Some(pid)) => format!("{}: process {pid} writes the mirror", error_chain(error)),
        _ => error_chain(error),
    }
}
