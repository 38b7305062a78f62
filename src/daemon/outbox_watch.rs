//! Watches the outbox: an edit that any process queues in the mirror's file is sent within seconds, and a failed edit is
//! sent again when its delays are over.
//!
//! [`EditWatch`] decides when that is. It is asked once a second, on a thread where blocking is allowed, and only if
//! write-back is on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::loop_message::LoopMessage;
use crate::error_chain::error_chain;
use crate::model::Clock;
use crate::outbox::EditWatch;

/// The interval between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watches the mirror at `path` until the loop has ended.
pub(super) async fn watch(path: PathBuf, clock: Arc<dyn Clock>, inbox: mpsc::Sender<LoopMessage>) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = EditWatch::new(&path);
    loop {
        interval.tick().await;
        let now = clock.now();
        let look = tokio::task::spawn_blocking(move || {
            let due = watch.is_due(now);
            (watch, due)
        });
        let Ok((same_watch, due)) = look.await else { return };
        watch = same_watch;
        let is_due = due.unwrap_or_else(|error| {
            // The file may be missing for a while; the next check opens it again.
            tracing::debug!("The outbox could not be read: {}", error_chain(&error));
            false
        });
        if is_due && inbox.send(LoopMessage::EditsDue).await.is_err() {
            return;
        }
    }
}
