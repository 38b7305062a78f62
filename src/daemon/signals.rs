//! Signals: SIGTERM and Ctrl-C stop the daemon, SIGHUP reloads its configuration.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::DaemonError;

#[derive(Debug)]
pub struct DaemonSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl DaemonSignals {
    /// Starts to listen, in a runtime; from now on none of the signals ends the program by itself. What arrives is
    /// delivered by whichever runtime runs then.
    pub fn listen() -> Result<DaemonSignals, DaemonError> {
        let listen = |kind| signal(kind).map_err(DaemonError::Signals);
        Ok(DaemonSignals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, and returns whether it stops the daemon.
    pub(super) async fn ends(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
            _ = self.hangup.recv() => false,
        }
    }
}
