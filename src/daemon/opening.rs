//! Before the first run: the mirror's file is opened, and waited for where that is not possible yet.
//!
//! Another process may write it, its folder may be missing or full for a while, a big mirror may have to be migrated:
//! none of that ends the daemon. It answers on its socket, says what it waits for, and tries again. Only a file that a
//! newer program wrote cannot get better by waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::bus::EventBus;
use super::error::DaemonError;
use super::input::DaemonAnswer;
use super::message::LoopMessage;
use super::notify;
use super::page::PageKeeper;
use super::past_runs;
use super::signals::DaemonSignals;
use super::state::PastRuns;
use super::status_reply::{DaemonStatus, PageStatus};
use crate::app::{Mirror, MirrorError, MirrorSettings};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant};
use crate::store::StoreError;

/// How often a lock is tried for.
const LOCKED: Duration = Duration::from_secs(1);

/// The first and the longest delay after other failures, doubled in between.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How often systemd hears that a migration still goes on, and how much time it is asked for.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(120));

/// A mirror that is being opened.
pub struct Opening {
    sources: Sources,
    config: Config,
    settings: MirrorSettings,
    clock: Arc<dyn Clock>,
    bus: EventBus,
    since: Instant,
    waiting_for: Option<String>,
    page: Option<PageStatus>,
}

/// What came of it.
pub enum Opened {
    /// The mirror, and what earlier processes did.
    Mirror(Mirror, PastRuns),
    /// The daemon is to end.
    Stop,
}

/// What happened while waiting.
enum Woken {
    Stop,
    Reload,
    Passed,
}

impl Opening {
    /// Nothing is open yet.
    pub fn new(
        sources: Sources,
        config: Config,
        settings: MirrorSettings,
        clock: Arc<dyn Clock>,
        bus: EventBus,
    ) -> Opening {
        let since = clock.now();
        Opening { sources, config, settings, clock, bus, since, waiting_for: None, page: None }
    }

    /// The configuration that the mirror was opened with, and where the status page is by now.
    pub fn into_parts(self) -> (Config, Option<PageStatus>) {
        (self.config, self.page)
    }

    /// Opens the mirror, however long that takes, and answers meanwhile.
    ///
    /// # Errors
    /// What does not pass by waiting.
    pub async fn wait(
        &mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
        page: &mut PageKeeper,
    ) -> Result<Opened, DaemonError> {
        let mut delay = DELAYS.0;
        let mut is_ready = false;
        loop {
            let observer = Arc::new(self.bus.clone());
            let (settings, clock) = (self.settings.clone(), self.clock.clone());
            let mut attempt = tokio::spawn(async move {
                let mirror = Mirror::open(settings, clock.clone(), observer).await?;
                let path = mirror.settings().database;
                let past = tokio::task::spawn_blocking(move || past_runs::read(&path, clock.now())).await;
                let past = past.unwrap_or(Err(StoreError::Closed))?;
                Ok::<_, MirrorError>((mirror, past))
            });
            let opened = loop {
                tokio::select! {
                    biased;
                    opened = &mut attempt => break opened.unwrap_or(Err(StoreError::Closed.into())),
                    // Migration cannot be interrupted; what it has not committed is done again.
                    woken = self.attend(inbox, signals, PATIENCE.0) => match woken {
                        Woken::Stop => return Ok(Opened::Stop),
                        Woken::Reload => self.reload(page),
                        Woken::Passed if is_ready => notify::alive(),
                        Woken::Passed => notify::extend_start(PATIENCE.1),
                    },
                }
            };
            let error = match opened {
                Ok((mirror, past)) => {
                    if self.waiting_for.take().is_some() {
                        tracing::info!("The mirror is open now; the daemon works");
                    }
                    return Ok(Opened::Mirror(mirror, past));
                }
                Err(error @ (MirrorError::Api(_) | MirrorError::Store(StoreError::NewerSchema { .. }))) => {
                    return Err(error.into());
                }
                Err(MirrorError::Store(error)) => error,
            };
            self.say(&error);
            let next = match error {
                StoreError::Locked { .. } => LOCKED,
                _ => {
                    let now = delay;
                    delay = (delay * 2).min(DELAYS.1);
                    now
                }
            };
            if !is_ready {
                is_ready = true;
                notify::ready();
            }
            match self.rest(inbox, signals, next).await {
                Woken::Stop => return Ok(Opened::Stop),
                Woken::Reload => self.reload(page),
                Woken::Passed => {}
            }
        }
    }

    /// Waits for a time, in steps that the watchdog allows.
    async fn rest(
        &mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
        time: Duration,
    ) -> Woken {
        let until = tokio::time::Instant::now() + time;
        let step = notify::heartbeat().unwrap_or(time);
        loop {
            notify::alive();
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            match self.attend(inbox, signals, left.min(step)).await {
                Woken::Passed if left > step => {}
                woken => return woken,
            }
        }
    }

    /// Answers whoever asks until a time has passed or a signal comes.
    async fn attend(
        &mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
        time: Duration,
    ) -> Woken {
        let until = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                ends = signals.ends() => return if ends { Woken::Stop } else { Woken::Reload },
                Some(message) = inbox.recv() => self.answer(message),
                () = tokio::time::sleep_until(until) => return Woken::Passed,
            }
        }
    }

    fn answer(&mut self, message: LoopMessage) {
        match message {
            // Whoever asked may have gone.
            LoopMessage::Status(answer) => drop(answer.send(self.status())),
            LoopMessage::Ask(_, answer) => {
                let reason = self.waiting_for.clone().unwrap_or_else(|| "the mirror is being opened".into());
                drop(answer.send(DaemonAnswer::Unavailable { reason }));
            }
            LoopMessage::Page(page) => self.page = Some(page),
            _ => {}
        }
    }

    fn status(&self) -> DaemonStatus {
        let waiting_for = self.waiting_for.clone().unwrap_or_else(|| "the mirror is being opened".into());
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            since: self.since,
            waiting_for: Some(waiting_for),
            running: None,
            waiting: Vec::new(),
            paused_since: None,
            hold: None,
            trouble: None,
            next: Vec::new(),
            time_zone: self.config.sync.time_zone.iana_name().unwrap_or("UTC").to_string(),
            page: self.page.clone(),
            reload_failed: self.bus.has_invalid_configuration(),
        }
    }

    /// Says why the mirror cannot be opened, once per reason.
    fn say(&mut self, error: &StoreError) {
        let reason = match error {
            StoreError::Locked { pid: Some(pid), .. } => format!("process {pid} is writing the mirror"),
            StoreError::Locked { pid: None, .. } => "another process is writing the mirror".into(),
            other => error_chain(other),
        };
        if self.waiting_for.as_ref() == Some(&reason) {
            return;
        }
        let hint = match error {
            StoreError::Locked { .. } => String::new(),
            other => other.hint().map(|hint| format!(" ({hint})")).unwrap_or_default(),
        };
        tracing::warn!("The mirror cannot be opened yet and is waited for: {reason}{hint}");
        notify::status(&format!("Waiting: {reason}"));
        self.waiting_for = Some(reason);
    }

    /// Reads the configuration again, for the next try. An invalid one changes nothing.
    fn reload(&mut self, page: &mut PageKeeper) {
        let read = Config::load(&self.sources).and_then(|config| Ok((MirrorSettings::from_config(&config)?, config)));
        match read {
            Ok((settings, config)) => {
                (self.settings, self.config) = (settings, config);
                page.follow(&self.config);
                tracing::info!("The configuration was read again and is active");
            }
            Err(error) => {
                self.bus.reload_failed();
                tracing::error!("The new configuration is invalid and the old one stays active: {error}");
            }
        }
    }
}
