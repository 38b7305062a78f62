//! The shared state of the request handlers: the loop's inbox, the bus, the configuration, and the status in memory, which is
//! what was last read from the mirror's file, and what the loop last published.
//!
//! A file can be slow: on a network disk that hangs, or on a busy machine. So a request for the status reads the file, but
//! waits for it no longer than [`PROMPT`] and is then answered from memory. The status is read again at the end of each run,
//! and its `read_at` says when.
//!
//! # Invariants
//! - No answer waits longer than [`PROMPT`] for the file, or for the loop.
//! - One read of the file at a time, however many clients ask and however long it takes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::Stream;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use super::bus::EventBus;
use super::error::DaemonError;
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest, Input};
use super::job::JobRunEnd;
use super::plot_data::{self, PageHistory};
use super::status_reply::{DaemonStatus, OPENING, StatusReply};
use crate::app::status::{self, MirrorStatus};
use crate::config::Config;
use crate::model::{Clock, Instant};
use crate::store::{KeptReader, Reader, StoreError};

/// How long the loop may take to answer before it counts as stuck: the probe answers within two seconds either way.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(1);

/// How long an answer waits for the file, and for the loop.
pub(super) const PROMPT: Duration = Duration::from_millis(50);

/// How long the start of the daemon and the end of a run wait for the file.
pub(super) const PATIENT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) enum LoopMessage {
    /// What needs no conversion.
    Input(Input),
    Ask(DaemonRequest, oneshot::Sender<DaemonAnswer>),
    /// Answered by a loop that is not stuck.
    IsAlive(oneshot::Sender<()>),
    Ended(Box<JobRunEnd>),
    Reloaded(Box<Result<Arc<Config>, DaemonError>>),
    Failed(DaemonError),
}

#[derive(Clone)]
pub(super) struct Control {
    inbox: mpsc::Sender<LoopMessage>,
    pub(super) bus: EventBus,
    pub(super) config: watch::Sender<Arc<Config>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) since: Instant,
    last_mirror: watch::Sender<Option<MirrorStatus>>,
    daemon: watch::Sender<DaemonStatus>,
    reader: Arc<Mutex<KeptReader>>,
    /// Stops every stream and server of the daemon.
    pub(super) end: watch::Sender<bool>,
}

impl Control {
    pub(super) fn new(inbox: mpsc::Sender<LoopMessage>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Control {
        let bus = EventBus::new(clock.clone());
        let since = clock.now();
        let daemon = watch::Sender::new(DaemonStatus::waiting(OPENING, since, &config.sync.time_zone));
        let (last_mirror, reader) = (watch::Sender::new(None), Arc::default());
        let (config, end) = (watch::Sender::new(config), watch::Sender::new(false));
        Control { inbox, bus, config, clock, since, last_mirror, daemon, reader, end }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sends a request to the daemon's loop; `None` while it is stopping.
    pub(super) async fn ask(&self, request: DaemonRequest) -> Option<DaemonAnswer> {
        self.answered(|answer| LoopMessage::Ask(request, answer)).await
    }

    async fn answered<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> LoopMessage) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(message(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Whether the daemon's loop answers: it is neither stopping nor stuck.
    pub(super) async fn is_alive(&self, within: Duration) -> bool {
        matches!(tokio::time::timeout(within, self.answered(LoopMessage::IsAlive)).await, Ok(Some(())))
    }

    /// The status of mirror and daemon, within [`PROMPT`].
    pub(super) async fn status(&self) -> Result<StatusReply, String> {
        // The loop reads the clock whenever it is asked anything, and publishes what follows.
        let (read, _) = tokio::join!(self.mirror(PROMPT), self.is_alive(PROMPT));
        let mut status = read?;
        // The client may have a different working directory.
        if let Ok(database) = std::path::absolute(&status.database) {
            status.database = database.display().to_string();
        }
        Ok(StatusReply { status, daemon: Some(self.daemon()) })
    }

    pub(super) async fn history(&self) -> Result<PageHistory, String> {
        let (now, work) = (self.now(), self.bus.known().log.work.clone());
        self.with_reader(move |reader, config| plot_data::read(reader, config, work.clone(), now)).await
    }

    pub(super) fn events(&self) -> impl Stream<Item = Arc<str>> + Send + use<> {
        self.bus.events(self.end.subscribe())
    }

    /// The status of the mirror: read from the file, or, if that takes longer than `within`, as it was last read.
    pub(super) async fn mirror(&self, within: Duration) -> Result<MirrorStatus, String> {
        // A read follows those of earlier requests, and continues when nobody waits for it any more.
        let (last, now) = (self.last_mirror.clone(), self.clock.reading());
        let read = self.with_reader(move |reader, config| {
            let status = status::read_with(reader, config, now)?;
            last.send_replace(Some(status.clone()));
            Ok(status)
        });
        match tokio::time::timeout(within, read).await {
            Ok(read) => read,
            Err(_) => self.last_mirror.borrow().clone().ok_or_else(|| "the mirror's file does not answer".into()),
        }
    }

    /// Whether the mirror was up to date when it was last read.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.last_mirror.borrow().as_ref().is_some_and(|status| status.up_to_date)
    }

    /// A number that changes with each commit to the mirror's file; rarely, another file has the number of the last one.
    pub(super) async fn version(&self) -> Result<i64, String> {
        self.with_reader(|reader, _| reader.data_version()).await
    }

    /// Reads the file, without waiting for a writer.
    pub(super) async fn with_reader<T: Send + 'static>(
        &self,
        read: impl Fn(&Reader, &Config) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let (config, mut reader) = (self.config(), self.reader.clone().lock_owned().await);
        let done = tokio::task::spawn_blocking(move || reader.read(&config.database, |reader| read(reader, &config)));
        match done.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(panicked) => Err(panicked.to_string()),
        }
    }

    /// The daemon's status, as its loop last published it: after each input, before the answer.
    pub(super) fn daemon(&self) -> DaemonStatus {
        let known = self.bus.known();
        let (page, reload_failed) = (known.page.clone(), known.reload_failed.is_some());
        DaemonStatus { page, reload_failed, ..self.daemon.borrow().clone() }
    }

    pub(super) fn publish(&self, status: DaemonStatus) {
        self.daemon.send_replace(status);
    }
}
