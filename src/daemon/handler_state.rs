//! The shared state of the request handlers: the loop's inbox, the bus, the configuration and the mirror's file.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::stream::Stream;
use tokio::sync::{mpsc, oneshot, watch};

use super::bus::EventBus;
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest};
use super::loop_message::LoopMessage;
use super::plot_data::{self, PageHistory};
use super::status_cache::{PROMPT, StatusCache};
use super::status_reply::{DaemonStatus, StatusReply};

use crate::config::Config;
use crate::model::{Clock, ClockReading, Instant};

/// How long the loop may take to answer before it counts as stuck: the probe answers within two seconds either way.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(1);

/// The shared state of the request handlers. Clones share it.
#[derive(Clone)]
pub(super) struct Control {
    inbox: mpsc::Sender<LoopMessage>,
    pub(super) bus: EventBus,
    config: Arc<RwLock<Arc<Config>>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache: StatusCache,
    ends: watch::Receiver<bool>,
    end: Arc<watch::Sender<bool>>,
}

impl Control {
    pub(super) fn new(inbox: mpsc::Sender<LoopMessage>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Control {
        let bus = EventBus::new(clock.clone());
        let (end, ends) = watch::channel(false);
        let (config, cache) = (Arc::new(RwLock::new(config)), StatusCache::new());
        Control { inbox, bus, config, clock, cache, ends, end: Arc::new(end) }
    }

    pub(super) fn take(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn reading(&self) -> ClockReading {
        self.clock.reading()
    }

    /// Sends a request to the daemon's loop; `None` while it is stopping.
    pub(super) async fn ask(&self, request: DaemonRequest) -> Option<DaemonAnswer> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(LoopMessage::Ask(request, answer)).await.ok()?;
        answered.await.ok()
    }

    pub(super) async fn edits_due(&self) {
        // If this is lost, the watch on the outbox notices the edit within a second.
        let _ = self.inbox.send(LoopMessage::EditsDue).await;
    }

    /// The daemon's status from its loop; `None` while it is stopping, or if its loop is stuck.
    pub(super) async fn daemon(&self, within: Duration) -> Option<DaemonStatus> {
        let request = async {
            let (answer, answered) = oneshot::channel();
            self.inbox.send(LoopMessage::Status(answer)).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(within, request).await.ok().flatten()
    }

    /// The status of mirror and daemon, within [`PROMPT`]. If the mirror cannot be read, the reason, with the daemon's
    /// status.
    pub(super) async fn status(&self) -> Result<StatusReply, (String, Option<DaemonStatus>)> {
        let read = self.cache.mirror(self.config(), self.reading(), PROMPT);
        let (read, daemon) = tokio::join!(read, self.daemon(PROMPT));
        let daemon = daemon.or_else(|| self.cache.daemon());
        let mut status = match read {
            Ok(status) => status,
            Err(error) => return Err((error, daemon)),
        };
        // The client may have a different working directory.
        if let Ok(database) = std::path::absolute(&status.database) {
            status.database = database.display().to_string();
        }
        Ok(StatusReply { status, daemon })
    }

    /// The history in the mirror's file.
    pub(super) async fn history(&self) -> Result<PageHistory, String> {
        let (config, now, work) = (self.config(), self.now(), self.bus.current_work());
        let read = tokio::task::spawn_blocking(move || plot_data::read(&config, work, now));
        read.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    pub(super) fn ends(&self) -> watch::Receiver<bool> {
        self.ends.clone()
    }

    /// Stops every stream and server of the daemon.
    pub(super) fn end(&self) {
        self.end.send_replace(true);
    }

    pub(super) fn events(&self) -> impl Stream<Item = Arc<str>> + Send + use<> {
        self.bus.events(self.ends())
    }
}
