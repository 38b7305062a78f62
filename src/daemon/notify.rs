//! Notifications to systemd: ready, status, watchdog, reloading, stopping. Without systemd they have no effect.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        // Nothing depends on notifications.
        tracing::debug!(%error, "systemd was not notified: {error}");
    }
}

/// The daemon answers on its socket, and has opened the mirror or waits for it.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// One line for `systemctl status`.
pub(super) fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The loop is running.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The configuration is being reloaded; [`ready`] ends this state.
pub(super) fn reloading() {
    // systemd 253 and newer require the time.
    match NotifyState::monotonic_usec_now() {
        Ok(at) => tell(&[NotifyState::Reloading, at]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// A migration takes longer than usual: extends the start timeout by this time from now on.
pub(super) fn extend_start(by: Duration) {
    tell(&[NotifyState::ExtendTimeoutUsec(u32::try_from(by.as_micros()).unwrap_or(u32::MAX))]);
}

/// The daemon is stopping.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The interval for [`alive`], if the unit has a watchdog: half of its timeout.
pub(super) fn heartbeat() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|allowed| allowed / 2)
}
