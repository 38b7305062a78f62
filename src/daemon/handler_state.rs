//! What the daemon's tasks share: the loop's inbox, the listeners to events, the configuration, a reader of the mirror's
//! file, and the daemon's status as its loop last published it.
//!
//! # Invariants
//! - No answer waits longer than [`FILE_WITHIN`] for the file, or [`ALIVE_WITHIN`] for the loop: a network disk can hang.
//! - One read of the file at a time, however many clients ask and however long it takes.

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
use super::status_reply::{DaemonStatus, OPENING, StatusReply};
use crate::app::status;
use crate::config::{Config, ConfigError};
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant};
use crate::store::{KeptReader, Reader, StoreError};
use crate::sync::{RunEvent, RunObserver};

/// How long the loop may take to answer before it counts as stuck: the probe answers within two seconds either way.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(1);

/// How long an answer waits for the file: with that, a probe is still answered within two seconds.
const FILE_WITHIN: Duration = Duration::from_secs(1);

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
    pub has_run: bool,
    /// Why the configuration on disk is not active, and the old one is.
    pub reload_failed: Option<String>,
    /// Why the key on disk is not active, and the old one is.
    key_failed: Option<String>,
    log: ProgressLog,
}

impl WorkKnown {
    fn invalid(&self) -> Option<&String> {
        self.reload_failed.as_ref().or(self.key_failed.as_ref())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Control {
    inbox: mpsc::Sender<LoopMessage>,
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<WorkKnown>>,
    pub(super) config: watch::Sender<Arc<Config>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) since: Instant,
    pub(super) daemon: watch::Sender<DaemonStatus>,
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

    /// Sends a message to the loop; `None` if it has ended.
    pub(super) async fn send(&self, message: LoopMessage) -> Option<()> {
        self.inbox.send(message).await.ok()
    }

    /// What the daemon's loop answers to a message; `None` while it is stopping.
    pub(super) async fn answered<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> LoopMessage) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.send(message(answer)).await?;
        answered.await.ok()
    }

    /// Whether the daemon's loop answers: it is neither stopping nor stuck.
    pub(super) async fn is_alive(&self, within: Duration) -> bool {
        matches!(tokio::time::timeout(within, self.answered(LoopMessage::IsAlive)).await, Ok(Some(())))
    }

    pub(super) async fn status(&self) -> Result<StatusReply, String> {
        // The loop reads the clock whenever it is asked anything, and publishes what follows.
        let now = self.clock.reading();
        let reading = self.with_reader(move |reader, config| status::read_with(reader, config, now));
        let (read, _) = tokio::join!(reading, self.is_alive(ALIVE_WITHIN));
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
        tracing::error!("The new configuration is not active, and the old one stays: {error}{hint}");
        self.known().reload_failed = Some(error);
    }

    /// Says once, in the log and in the status until it can be used, why a key on disk is not active.
    pub(super) fn key_was_read(&self, failed: Option<&ConfigError>) {
        let failed = failed.map(error_chain);
        let before = std::mem::replace(&mut self.known().key_failed, failed.clone());
        if let Some(error) = failed.filter(|error| before.as_ref() != Some(error)) {
            tracing::error!("The API key on disk is not active, and the old one stays: {error}");
        }
    }

    /// Reads the file, without waiting for a writer. A read follows those of earlier requests, and continues when nobody waits
    /// for it any more.
    pub(super) async fn with_reader<T: Send + 'static>(
        &self,
        read: impl Fn(&Reader, &Config) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let (config, readers) = (self.config(), self.reader.clone());
        let done = async {
            let mut reader = readers.lock_owned().await;
            tokio::task::spawn_blocking(move || reader.read(&config.database, |reader| read(reader, &config))).await
        };
        match tokio::time::timeout(FILE_WITHIN, done).await {
            Ok(Ok(read)) => read.map_err(|error| error.to_string()),
            Ok(Err(panicked)) => Err(panicked.to_string()),
            Err(_) => Err("the mirror's file does not answer".into()),
        }
    }

    /// The daemon's status, as its loop last published it: after each input, before the answer.
    pub(super) fn daemon(&self) -> DaemonStatus {
        DaemonStatus { reload_failed: self.known().invalid().is_some(), ..self.daemon.borrow().clone() }
    }

    /// A line for `systemctl status`: that the configuration on disk is not active stands before everything else.
    pub(super) fn line(&self) -> String {
        let (status, known) = (self.daemon(), self.known());
        let line = status.line();
        match known.invalid() {
            Some(reason) => format!("The configuration on disk is not active, and the old one is: {reason}. {line}"),
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
