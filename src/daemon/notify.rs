//! What systemd is told: ready, how it stands, alive, reloading, ending. Without systemd nothing is said to nobody.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        // Whoever started us does not listen: nothing else depends on it.
        tracing::debug!(%error, "systemd was not told: {error}");
    }
}

/// The mirror is open and the schedule is set.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// One line for `systemctl status`.
pub fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The loop goes.
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

/// The daemon ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// How often [`alive`] is to be said, if anybody wants to hear it: twice in the time that the unit allows.
pub fn heartbeat() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|allowed| allowed / 2)
}
