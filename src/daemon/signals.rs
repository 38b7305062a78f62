//! Signals: SIGTERM and Ctrl-C end the daemon, SIGHUP makes it read its configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What asks the daemon to end or to read its configuration again.
pub struct DaemonSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl DaemonSignals {
    /// Begins to listen; from now on none of them ends the program by itself.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn listen() -> std::io::Result<DaemonSignals> {
        Ok(DaemonSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one, and says whether it is to end.
    pub async fn ends(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
            _ = self.hangup.recv() => false,
        }
    }
}
