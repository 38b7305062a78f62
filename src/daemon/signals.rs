//! Signals: SIGTERM and Ctrl-C stop a verb or the daemon, SIGHUP reloads the daemon's configuration.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::DaemonError;

/// Receives both signals that stop the program from its creation on.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Starts to listen; from now on neither signal ends the program by itself.
    pub fn listen() -> io::Result<StopSignals> {
        Ok(StopSignals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[derive(Debug)]
pub struct DaemonSignals {
    stop: StopSignals,
    hangup: Signal,
}

impl DaemonSignals {
    /// Starts to listen, in a runtime; from now on none of the signals ends the program by itself. What arrives is
    /// delivered by whichever runtime runs then.
    pub fn listen() -> Result<DaemonSignals, DaemonError> {
        let listen = || Ok(DaemonSignals { stop: StopSignals::listen()?, hangup: signal(SignalKind::hangup())? });
        listen().map_err(DaemonError::Signals)
    }

    /// Waits for a signal, and returns whether it stops the daemon.
    pub(super) async fn ends(&mut self) -> bool {
        tokio::select! {
            () = self.stop.next() => true,
            _ = self.hangup.recv() => false,
        }
    }
}
