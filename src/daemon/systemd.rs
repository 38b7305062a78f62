//! Signals: SIGTERM and Ctrl-C stop a verb or the daemon, SIGHUP reloads the daemon's configuration; and notifications to
//! systemd: ready, status, watchdog, reloading, stopping. Without systemd they have no effect.
//!
//! The protocol is one datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names, see `sd_notify(3)`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::DaemonError;

pub(super) fn tell(lines: &str) {
    let Ok(socket) = std::env::var("NOTIFY_SOCKET") else { return };
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address));
    if let Err(error) = sent {
        // Nothing depends on notifications.
        tracing::debug!(%error, "systemd was not notified: {error}");
    }
}

/// The configuration is being reloaded; `READY=1` ends this state.
pub(super) fn reloading() {
    // systemd 253 and newer require the time.
    let now = clock_gettime(ClockId::Monotonic);
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
}

/// The interval for `WATCHDOG=1`, if the unit has a watchdog for this process: half of its timeout.
pub(super) fn heartbeat() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|_| is_ours).map(|allowed| Duration::from_micros(allowed) / 2)
}

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
    /// As [`StopSignals::listen`], in a runtime. What arrives is delivered by whichever runtime runs then.
    pub fn listen() -> Result<DaemonSignals, DaemonError> {
        let listen = || Ok(DaemonSignals { stop: StopSignals::listen()?, hangup: signal(SignalKind::hangup())? });
        listen().map_err(DaemonError::Signals)
    }

    pub(super) async fn ends(&mut self) -> bool {
        tokio::select! {
            () = self.stop.next() => true,
            _ = self.hangup.recv() => false,
        }
    }
}
