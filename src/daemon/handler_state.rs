//! What the daemon's tasks share: the loop's inbox, the listeners to events, the configuration, and the status in memory,
//! which is what was last read from the mirror's file, and what the loop last published.
//!
//! A file can be slow: on a network disk that hangs, or on a busy machine. So a request for the status reads the file, but
//! waits for it no longer than [`PROMPT`] and is then answered from memory. The status is read again at the end of each run,
//! and its `read_at` says when.
//!
//! # Invariants
//! - No answer waits longer than [`PROMPT`] for the file, or for the loop.
//! - One read of the file at a time, however many clients ask and however long it takes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::error::DaemonError;
use super::event::Event;
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest, Input};
use super::job::JobRunEnd;
use super::progress_log::ProgressLog;
use super::status_reply::{DaemonStatus, OPENING, PageStatus, StatusReply};
use crate::app::status::{self, MirrorStatus};
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant};
use crate::store::{KeptReader, Reader, StoreError};
use crate::sync::{RunEvent, RunObserver};

/// How long the loop may take to answer before it counts as stuck: the probe answers within two seconds either way.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(1);

/// How long an answer waits for the file, and for the loop.
pub(super) const PROMPT: Duration = Duration::from_millis(50);

/// How long the start of the daemon and the end of a run wait for the file.
pub(super) const PATIENT: Duration = Duration::from_secs(2);

/// The number of events that a slow listener may lag behind before it misses some.
const BEHIND: usize = 1024;

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

/// What is known of the work since the daemon started.
#[derive(Debug, Default)]
pub(super) struct WorkKnown {
    /// The jobs that ended, by kind and exit code.
    pub ended: BTreeMap<(&'static str, u8), u64>,
    /// Why the configuration on disk is invalid, and the old one active.
    pub reload_failed: Option<String>,
    pub page: Option<PageStatus>,
    log: ProgressLog,
}

#[derive(Clone, Debug)]
pub(super) struct Control {
    inbox: mpsc::Sender<LoopMessage>,
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<WorkKnown>>,
    pub(super) config: watch::Sender<Arc<Config>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) since: Instant,
    last_mirror: watch::Sender<Option<MirrorStatus>>,
    daemon: watch::Sender<DaemonStatus>,
    reader: Arc<tokio::sync::Mutex<KeptReader>>,
    /// Stops every stream and server of the daemon.
    pub(super) end: watch::Sender<bool>,
}

impl Control {
    pub(super) fn new(inbox: mpsc::Sender<LoopMessage>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Control {
        let since = clock.now();
        Control {
            inbox,
            lines: broadcast::channel(BEHIND).0,
            known: Arc::default(),
            daemon: watch::Sender::new(DaemonStatus::new(Some(OPENING), since, &config.sync.time_zone)),
            config: watch::Sender::new(config),
            clock,
            since,
            last_mirror: watch::Sender::new(None),
            reader: Arc::default(),
            end: watch::Sender::new(false),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, WorkKnown> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Every event from now on as one JSON document each, until the daemon stops; one says so if others were missed.
    pub(super) fn events(&self) -> impl Stream<Item = Arc<str>> + Send + use<> {
        stream::unfold((self.lines.subscribe(), self.end.subscribe()), |(mut lines, mut ends)| async move {
            let line = tokio::select! {
                // Events that were published before the stop are still delivered, including the results of jobs.
                biased;
                line = lines.recv() => match line {
                    Ok(line) => line,
                    Err(RecvError::Lagged(lines)) => serde_json::to_string(&Event::Missed { lines }).ok()?.into(),
                    Err(RecvError::Closed) => return None,
                },
                _ = ends.wait_for(|ends| *ends) => return None,
            };
            Some((line, (lines, ends)))
        })
    }

    /// Publishes an event to every listener.
    pub(super) fn tell(&self, event: &Event) {
        if self.lines.receiver_count() == 0 {
            return;
        }
        if let Ok(line) = serde_json::to_string(event) {
            // The last listener may just have disconnected.
            let _ = self.lines.send(line.into());
        }
    }

    /// Says whether a new configuration is active: to listeners, in the log, and in the status until it is valid.
    pub(super) fn reloaded(&self, invalid: Option<&DaemonError>) {
        let Some(error) = invalid else {
            self.known().reload_failed = None;
            self.tell(&Event::Reloaded);
            tracing::info!("Configuration reloaded");
            return;
        };
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let error = error_chain(error);
        tracing::error!("The new configuration is invalid and the old one stays active: {error}{hint}");
        self.known().reload_failed = Some(error);
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
        let known = self.known();
        let (page, reload_failed) = (known.page.clone(), known.reload_failed.is_some());
        DaemonStatus { page, reload_failed, ..self.daemon.borrow().clone() }
    }

    pub(super) fn publish(&self, status: DaemonStatus) {
        self.daemon.send_replace(status);
    }

    /// A line for `systemctl status`: that the configuration is invalid stands before everything else until it is valid.
    pub(super) fn line(&self) -> String {
        let is_up_to_date = self.last_mirror.borrow().as_ref().is_some_and(|status| status.up_to_date);
        let (status, known) = (self.daemon(), self.known());
        let line = status.line(is_up_to_date);
        match &known.reload_failed {
            Some(reason) => format!("The configuration is invalid and the old one active: {reason}. {line}"),
            None => line,
        }
    }
}

impl RunObserver for Control {
    fn on(&self, event: RunEvent) {
        self.known().log.log(&event, self.now());
        self.tell(&Event::Run(event));
    }
}
