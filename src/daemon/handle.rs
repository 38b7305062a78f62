//! What every request has at hand: the way to the loop, the bus, the configuration and the mirror's file.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::sync::{mpsc, oneshot, watch};

use super::bus::EventBus;
use super::history::{self, PageHistory};
use super::input::{DaemonAnswer, DaemonRequest};
use super::message::LoopMessage;
use super::status_reply::{DaemonStatus, StatusReply};

use crate::app::status;
use crate::config::Config;
use crate::model::{Clock, Instant};

/// How long the loop may take to say that it is alive.
const ALIVE_WITHIN: Duration = Duration::from_secs(2);

/// What every request has at hand. Clones are the same.
#[derive(Clone)]
pub struct Control {
    inbox: mpsc::Sender<LoopMessage>,
    bus: EventBus,
    config: Arc<RwLock<Arc<Config>>>,
    clock: Arc<dyn Clock>,
    ends: watch::Receiver<bool>,
    end: Arc<watch::Sender<bool>>,
}

impl Control {
    /// What the requests of a daemon have at hand.
    pub fn new(inbox: mpsc::Sender<LoopMessage>, bus: EventBus, config: Arc<Config>, clock: Arc<dyn Clock>) -> Control {
        let (end, ends) = watch::channel(false);
        Control { inbox, bus, config: Arc::new(RwLock::new(config)), clock, ends, end: Arc::new(end) }
    }

    /// Takes over a configuration.
    pub fn take(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// The active configuration.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Asks the daemon's loop; `None` while it ends.
    pub async fn ask(&self, request: DaemonRequest) -> Option<DaemonAnswer> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(LoopMessage::Ask(request, answer)).await.ok()?;
        answered.await.ok()
    }

    /// Tells the loop that edits wait.
    pub async fn edited(&self) {
        // Where this is lost, the watch on the outbox sees the edit within a second.
        let _ = self.inbox.send(LoopMessage::Edited).await;
    }

    /// What the daemon says of itself; `None` while it ends, or if its loop is stuck.
    pub async fn daemon(&self) -> Option<DaemonStatus> {
        let ask = async {
            let (answer, answered) = oneshot::channel();
            self.inbox.send(LoopMessage::Status(answer)).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(ALIVE_WITHIN, ask).await.ok().flatten()
    }

    /// What mirror and daemon say. Where the mirror cannot be read, why, beside what the daemon says.
    pub async fn status(&self) -> Result<StatusReply, (String, Option<DaemonStatus>)> {
        let (config, now) = (self.config(), self.now());
        let read = tokio::task::spawn_blocking(move || status::read(&config, now));
        let (read, daemon) = tokio::join!(read, self.daemon());
        let mut status = match read {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err((error.to_string(), daemon)),
            Err(error) => return Err((error.to_string(), daemon)),
        };
        // Whoever asks may have another working directory.
        if let Ok(database) = std::path::absolute(&status.database) {
            status.database = database.display().to_string();
        }
        Ok(StatusReply { status, daemon })
    }

    /// What the mirror's file says of the past.
    pub async fn history(&self) -> Result<PageHistory, String> {
        let (config, now, work) = (self.config(), self.now(), self.bus.current_work());
        let read = tokio::task::spawn_blocking(move || history::read(&config, work, now));
        read.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    /// The event bus.
    pub fn bus(&self) -> &EventBus {
        &self.bus
    }

    /// Holds true once the daemon ends.
    pub fn ends(&self) -> watch::Receiver<bool> {
        self.ends.clone()
    }

    /// Lets every stream and server of the daemon end.
    pub fn end(&self) {
        self.end.send_replace(true);
    }

    /// Every event from now on as JSON, up to the end of the daemon.
    pub fn events(&self) -> impl Stream<Item = Arc<str>> + Send + use<> {
        let state = (self.bus.subscribe(), self.ends());
        stream::unfold(state, |(mut subscription, mut ends)| async move {
            let line = tokio::select! {
                // What was published before the end is still heard: how a job ended is among it.
                biased;
                line = subscription.next() => line?,
                _ = ends.wait_for(|ends| *ends) => return None,
            };
            Some((line, (subscription, ends)))
        })
    }
}
