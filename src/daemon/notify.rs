//! Notifications to systemd: ready, status, alive, reloading, ending. Without systemd they go nowhere.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        // Nothing else depends on it.
        tracing::debug!(%error, "systemd was not notified: {error}");
    }
}

/// The daemon answers on its socket, and has opened the mirror or waits for it.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// One line for `systemctl status`.
pub fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The loop runs.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The configuration is read again; [`ready`] ends it.
pub fn reloading() {
    // Newer managers want to know when that was.
    match NotifyState::monotonic_usec_now() {
        Ok(at) => tell(&[NotifyState::Reloading, at]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// A migration takes longer than usual: systemd is asked for so much more time from now on.
pub fn extend_start(by: Duration) {
    tell(&[NotifyState::ExtendTimeoutUsec(u32::try_from(by.as_micros()).unwrap_or(u32::MAX))]);
}

/// The daemon ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// How often [`alive`] is to be said, if anybody wants to hear it: twice in the time that the unit allows.
pub fn heartbeat() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|allowed| allowed / 2)
}
