//! Signals: SIGTERM and Ctrl-C stop the daemon, SIGHUP reloads its configuration.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the daemon or reload its configuration.
pub(super) struct DaemonSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl DaemonSignals {
    /// Starts to listen; from now on none of the signals ends the program by itself.
    pub(super) fn listen() -> std::io::Result<DaemonSignals> {
        Ok(DaemonSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
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
