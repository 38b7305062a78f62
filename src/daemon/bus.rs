//! The event bus: publishes events to every listener, and keeps what monitoring needs: the current work, and the
//! results of jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::events::Event;
use super::progress_log::{self, CurrentWork, ProgressLog};
use super::run_durations::RunDurations;
use crate::model::Clock;
use crate::sync::events::{RunEvent, RunObserver};

/// The number of events that a slow listener may lag behind before it misses some.
const BEHIND: usize = 1024;

/// Publishes events and keeps counters. Clones share the bus.
#[derive(Clone, Debug)]
pub(super) struct EventBus {
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<BusState>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct BusState {
    ended: BTreeMap<(&'static str, u8), u64>,
    durations: BTreeMap<&'static str, RunDurations>,
    reload_failed: Option<String>,
    log: ProgressLog,
}

impl EventBus {
    pub(super) fn new(clock: Arc<dyn Clock>) -> EventBus {
        EventBus { lines: broadcast::channel(BEHIND).0, known: Arc::default(), clock }
    }

    fn known(&self) -> MutexGuard<'_, BusState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every event from now on as one JSON document each, until the daemon stops; one says so if others were missed.
    pub(super) fn events(&self, ends: watch::Receiver<bool>) -> impl Stream<Item = Arc<str>> + Send + use<> {
        stream::unfold((self.lines.subscribe(), ends), |(mut lines, mut ends)| async move {
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

    pub(super) fn publish(&self, event: &Event) {
        match event {
            Event::Finished { .. } | Event::Preempted { .. } => self.known().log.stopped(),
            Event::Reloaded => self.known().reload_failed = None,
            _ => {}
        }
        if self.lines.receiver_count() == 0 {
            return;
        }
        if let Ok(line) = serde_json::to_string(event) {
            // The last listener may just have disconnected.
            let _ = self.lines.send(line.into());
        }
    }

    pub(super) fn count(&self, kind: &'static str, exit: u8) {
        *self.known().ended.entry((kind, exit)).or_default() += 1;
    }

    /// The results of jobs since the daemon started: by kind and exit code.
    pub(super) fn counted(&self) -> Vec<((&'static str, u8), u64)> {
        self.known().ended.iter().map(|(key, count)| (*key, *count)).collect()
    }

    pub(super) fn took(&self, kind: &'static str, time: Duration) {
        self.known().durations.entry(kind).or_default().record(time);
    }

    pub(super) fn durations(&self) -> BTreeMap<&'static str, RunDurations> {
        self.known().durations.clone()
    }

    /// Records why a new configuration is invalid; the old one stays active.
    pub(super) fn reload_failed(&self, reason: String) {
        self.known().reload_failed = Some(reason);
    }

    /// Why the configuration on disk is invalid, and the old one active.
    pub(super) fn invalid_configuration(&self) -> Option<String> {
        self.known().reload_failed.clone()
    }

    pub(super) fn current_work(&self) -> Option<CurrentWork> {
        self.known().log.current_work().cloned()
    }
}

impl RunObserver for EventBus {
    fn on(&self, event: RunEvent) {
        let line = self.known().log.line(&event, self.clock.now());
        progress_log::log(&event, line);
        self.publish(&Event::Run(event));
    }
}
