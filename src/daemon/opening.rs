//! Opens the mirror's file before the first run, and waits if that is not possible yet.
//!
//! Another process may write it, its directory may be missing or full for a while, or a large mirror may have to be
//! migrated: none of that ends the daemon. It answers on its socket, reports what it waits for, and retries. Only a
//! file written by a newer version cannot be fixed by waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::bus::Event;
use super::error::DaemonError;
use super::handler_state::Control;
use super::inputs_and_effects::DaemonAnswer;
use super::loop_message::LoopMessage;
use super::page::PageKeeper;
use super::socket::DELAYS;
use super::state_machine::PastRuns;
use super::status_reply::{self, DaemonStatus, PageStatus};
use super::systemd::DaemonSignals;
use super::watches::GrowingDelay;
use super::{runner, systemd};
use crate::app::{Mirror, MirrorError, MirrorSettings};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::Instant;
use crate::store::StoreError;

/// The retry interval for a locked file.
const LOCKED: Duration = Duration::from_secs(1);

/// How often systemd is notified of a migration in progress, and the time extension that is requested.
const EXTEND_AFTER: Duration = Duration::from_secs(30);
const EXTEND_BY: Duration = Duration::from_secs(120);

pub(super) struct Opening {
    sources: Sources,
    config: Config,
    settings: MirrorSettings,
    control: Control,
    since: Instant,
    waiting_for: Option<String>,
    page: Option<PageStatus>,
}

pub(super) enum Opened {
    Mirror(Mirror, PastRuns),
    Stop,
}

enum Woken {
    Stop,
    Reload,
    Passed,
    Failed(DaemonError),
}

impl Opening {
    pub(super) fn new(sources: Sources, config: Config, settings: MirrorSettings, control: Control) -> Opening {
        let since = control.now();
        Opening { sources, config, settings, control, since, waiting_for: None, page: None }
    }

    /// The configuration that the mirror was opened with, and the current state of the status page.
    pub(super) fn into_parts(self) -> (Config, Option<PageStatus>) {
        (self.config, self.page)
    }

    /// Opens the mirror, however long that takes, and answers requests meanwhile.
    pub(super) async fn wait(
        &mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
        page: &mut PageKeeper,
    ) -> Result<Opened, DaemonError> {
        let mut delays = GrowingDelay::new(DELAYS.0, DELAYS.1);
        let mut is_ready = false;
        loop {
            let observer = Arc::new(self.control.bus.clone());
            let (settings, clock) = (self.settings.clone(), self.control.clock.clone());
            let mut attempt = tokio::spawn(async move {
                let mirror = Mirror::open(settings, clock.clone(), observer).await?;
                let path = mirror.settings().database;
                let past = tokio::task::spawn_blocking(move || runner::read(&path, clock.now())).await;
                let past = past.unwrap_or(Err(StoreError::Closed))?;
                Ok::<_, MirrorError>((mirror, past))
            });
            let opened = loop {
                tokio::select! {
                    biased;
                    opened = &mut attempt => break opened.unwrap_or(Err(StoreError::Closed.into())),
                    // A migration cannot be interrupted; uncommitted work is done again.
                    woken = self.attend(inbox, signals, tokio::time::sleep(EXTEND_AFTER)) => match woken {
                        Woken::Stop => return Ok(Opened::Stop),
                        Woken::Failed(error) => return Err(error),
                        Woken::Reload => self.reload(page),
                        Woken::Passed if is_ready => systemd::alive(),
                        Woken::Passed => systemd::extend_start(EXTEND_BY),
                    },
                }
            };
            let error = match opened {
                Ok((mirror, past)) => {
                    if self.waiting_for.take().is_some() {
                        tracing::info!("The mirror is open; the daemon is ready");
                    }
                    return Ok(Opened::Mirror(mirror, past));
                }
                Err(error @ (MirrorError::Api(_) | MirrorError::Store(StoreError::NewerSchema { .. }))) => {
                    return Err(error.into());
                }
                Err(MirrorError::Store(error)) => error,
            };
            self.report(&error);
            let next = match error {
                StoreError::Locked { .. } => LOCKED,
                // SQLite has waited already.
                error if error.is_busy() => LOCKED,
                _ => delays.next(),
            };
            if !is_ready {
                is_ready = true;
                systemd::ready();
            }
            match self.attend(inbox, signals, systemd::wait_alive(next)).await {
                Woken::Stop => return Ok(Opened::Stop),
                Woken::Failed(error) => return Err(error),
                Woken::Reload => self.reload(page),
                Woken::Passed => {}
            }
        }
    }

    /// Answers requests until a time has passed or a signal arrives.
    async fn attend(
        &mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
        time: impl Future<Output = ()>,
    ) -> Woken {
        let mut time = std::pin::pin!(time);
        loop {
            tokio::select! {
                biased;
                ends = signals.ends() => return if ends { Woken::Stop } else { Woken::Reload },
                Some(message) = inbox.recv() => match message {
                    LoopMessage::Failed(error) => return Woken::Failed(error),
                    message => self.answer(message),
                },
                () = &mut time => return Woken::Passed,
            }
        }
    }

    fn answer(&mut self, message: LoopMessage) {
        match message {
            // The client may have disconnected.
            LoopMessage::Status(answer) => drop(answer.send(self.status())),
            LoopMessage::Ask(_, answer) => {
                let reason = self.waiting_for.clone().unwrap_or_else(|| "the mirror is being opened".into());
                drop(answer.send(DaemonAnswer::Unavailable { reason }));
            }
            LoopMessage::Page(page) => self.page = Some(page),
            _ => {}
        }
    }

    /// The status while the mirror is not open.
    pub(super) fn status(&self) -> DaemonStatus {
        let waiting_for = self.waiting_for.clone().unwrap_or_else(|| "the mirror is being opened".into());
        DaemonStatus {
            waiting_for: Some(waiting_for),
            page: self.page.clone(),
            reload_failed: self.control.bus.invalid_configuration().is_some(),
            ..DaemonStatus::new(self.since, &self.config.sync.time_zone)
        }
    }

    /// Reports why the mirror cannot be opened, once per reason.
    fn report(&mut self, error: &StoreError) {
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
        tracing::warn!("Waiting for the mirror, which cannot be opened: {reason}{hint}");
        self.waiting_for = Some(reason);
        self.show();
    }

    /// Shows systemd what is waited for.
    fn show(&self) {
        let reason = self.waiting_for.as_deref().unwrap_or("the mirror is being opened");
        systemd::status(&status_reply::after_invalid(
            self.control.bus.invalid_configuration(),
            format!("Waiting: {reason}"),
        ));
    }

    /// Reloads the configuration for the next attempt. An invalid one changes nothing.
    fn reload(&mut self, page: &mut PageKeeper) {
        match MirrorSettings::load(&self.sources) {
            Ok((settings, config)) => {
                (self.settings, self.config) = (settings, config);
                page.follow(&self.config);
                self.control.bus.publish(&Event::Reloaded);
                tracing::info!("Configuration reloaded");
            }
            Err(error) => {
                self.control.bus.reload_failed(error_chain(&error));
                tracing::error!("The new configuration is invalid and the old one stays active: {error}");
            }
        }
        self.show();
    }
}
