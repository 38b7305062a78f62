//! The lifetime of the daemon: opens signals, socket, page and mirror, in an order that makes its state visible from
//! the beginning. Publishing is a separate task beside it.
//!
//! Another process may write the mirror, its directory may be missing or full for a while, or a large mirror may have to
//! be migrated: none of that ends the daemon. It answers on its socket, reports what it waits for, and retries. A person
//! has to decide about a file written by a newer version, and about an unfinished edit of a field that is excluded now.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::error::DaemonError;
use super::event_loop::EventLoop;
use super::handler_state::{Control, LoopMessage};
use super::inputs_and_effects::DaemonAnswer;
use super::runner::{self, Runner};
use super::socket::{self, ControlSocket};
use super::state_machine::PastRuns;
use super::status_reply::{DaemonStatus, OPENING};
use super::systemd::{self, DaemonSignals};
use super::watches::{self, CronTicks};
use super::{control, http_server, notification, page};
use crate::app::{Mirror, MirrorError, MirrorSettings, publish_settings};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::Clock;
use crate::publish::{PublishError, PublishPlan, PublishUrl, keep_published};
use crate::store::StoreError;

/// How long the daemon may take to stop: less than the documented 5 seconds.
const END_WITHIN: Duration = Duration::from_millis(4300);

const INBOX: usize = 64;

/// Runs the daemon until it is asked to stop, and publishes meanwhile if `[publish]` is configured.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>, mut signals: DaemonSignals) -> Result<(), DaemonError> {
    // Checked before any file is touched.
    let settings = MirrorSettings::new(Config::load(&sources)?)?;
    let (sender, mut inbox) = mpsc::channel(INBOX);
    let scheduler = CronTicks::start(sender.clone()).await?;
    let config = Arc::new(settings.config.clone());
    // They end with the set: at the latest when it is dropped.
    let (mut beside, mut beside_loop) = (JoinSet::new(), JoinSet::new());
    let control = Control::new(sender, config, clock);
    beside.spawn(watches::watch_file_system(control.clone()));
    beside.spawn(keep_alive(control.clone()));
    let mut served = None;
    let (ended, running) = match open(&sources, settings, &control, &mut served, &mut inbox, &mut signals).await {
        Err(error) => (Err(error), None),
        Ok(None) => (Ok(()), None),
        Ok(Some((mirror, past))) => {
            let runner = Runner::new(mirror, sources, control.clone());
            beside_loop.spawn(notification::tell(control.clone(), Arc::downgrade(&runner.mirror)));
            beside_loop.spawn(watches::watch_edits(control.clone()));
            let event_loop = EventLoop::begin(runner, past, control.clone(), scheduler).await;
            let (ended, runner, stopped_at) = event_loop.run_until_stopped(&mut inbox, &mut signals).await;
            // They let go of the mirror.
            beside_loop.shutdown().await;
            (ended, Some((runner, stopped_at)))
        }
    };
    // Streams end, and requests in flight get a short time to finish.
    let served = served.map(|(_socket, servers, publishing)| (servers, publishing));
    control.end.send_replace(true);
    if let Some(([socket, page], mut publishing)) = served {
        tokio::join!(publishing.shutdown(), http_server::finish(socket), http_server::finish(page));
    }
    beside.shutdown().await;
    if let Some((runner, stopped_at)) = running {
        runner.close(END_WITHIN.saturating_sub(stopped_at.elapsed()).max(Duration::from_millis(300))).await;
    }
    systemd::tell("STOPPING=1");
    ended
}

/// The control socket, the servers of it and of the status page, and the task that publishes.
type ServedSocket = (ControlSocket, [JoinHandle<()>; 2], JoinSet<()>);

/// Notifies systemd for as long as the daemon's loop answers, if it watches.
async fn keep_alive(control: Control) {
    let Some(every) = systemd::heartbeat() else { return };
    loop {
        tokio::time::sleep(every / 2).await;
        if control.is_alive(every).await {
            systemd::tell("WATCHDOG=1");
        }
    }
}

/// The delay before the next attempt to open what another process has, or what is missing or full.
const AGAIN: Duration = Duration::from_secs(5);

/// Opens the socket and the mirror, however long that takes, and answers requests meanwhile; `None` if it is asked to stop.
async fn open(
    sources: &Sources,
    settings: MirrorSettings,
    control: &Control,
    served: &mut Option<ServedSocket>,
    inbox: &mut mpsc::Receiver<LoopMessage>,
    signals: &mut DaemonSignals,
) -> Result<Option<(Mirror, PastRuns)>, DaemonError> {
    // A migration cannot be interrupted; uncommitted work is done again.
    let mut opened = std::pin::pin!(until_open(settings, control, served));
    let reason = || control.daemon().waiting_for.unwrap_or_default();
    loop {
        tokio::select! {
            biased;
            ends = signals.ends() => {
                if ends {
                    return Ok(None);
                }
                reload(sources, control);
                wait_for(control, &reason());
            }
            opened = &mut opened => return opened.map(Some),
            Some(message) = inbox.recv() => match message {
                LoopMessage::Failed(error) => return Err(error),
                // The client may have disconnected.
                LoopMessage::IsAlive(answer) => drop(answer.send(())),
                LoopMessage::Ask(_, answer) => {
                    let answered = DaemonAnswer::Unavailable(format!("the daemon cannot do it now: {}", reason()));
                    drop(answer.send(answered));
                }
                _ => {}
            },
        }
    }
}

/// Opens the socket and the mirror with the configuration of the moment, again and again until it works: the settings of the
/// open mirror are those that the status shows.
async fn until_open(
    mut settings: MirrorSettings,
    control: &Control,
    served: &mut Option<ServedSocket>,
) -> Result<(Mirror, PastRuns), DaemonError> {
    let mut configs = control.config.subscribe();
    let mut known = None;
    loop {
        let config = Config::clone(&configs.borrow_and_update());
        settings = MirrorSettings::new(config).unwrap_or(settings);
        let (what, (reason, hint)) = if served.is_none() {
            match socket::open(&settings.config) {
                Ok((socket, listener)) => {
                    let (router, limits) = (control::router(control.clone()), (http_server::IDLE, Duration::MAX));
                    let serving =
                        http_server::spawn(listener, router, control.end.subscribe(), limits, |_| true, |_, _| {});
                    let (published, mut publishing) = (control.clone(), JoinSet::new());
                    publishing.spawn(keep_published(move || plan(&published.config()), control.clock.clone()));
                    *served = Some((socket, [serving, tokio::spawn(page::serve(control.clone()))], publishing));
                    if known.take().is_some() {
                        wait_for(control, OPENING);
                    }
                    continue;
                }
                Err(failed) => ("control socket", failed),
            }
        } else {
            let error = match tokio::spawn(attempt(settings.clone(), control.clone())).await {
                Ok(Ok((mirror, _))) if configs.has_changed().unwrap_or(false) => {
                    mirror.close().await;
                    continue;
                }
                Ok(Ok(opened)) => {
                    if known.is_some() {
                        tracing::info!("The mirror is open; the daemon is ready");
                    }
                    return Ok(opened);
                }
                Ok(Err(MirrorError::Store(error)))
                    if !matches!(error, StoreError::NewerSchema { .. } | StoreError::EditOfExcluded { .. }) =>
                {
                    error
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => StoreError::Closed,
            };
            ("mirror, which cannot be opened", (error_chain(&error), error.hint()))
        };
        if known.as_ref() != Some(&reason) {
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            wait_for(control, &reason);
            tracing::warn!("Waiting for the {what}: {reason}{hint}");
            if known.replace(reason).is_none() {
                systemd::tell("READY=1");
            }
        }
        let _ = tokio::time::timeout(AGAIN, configs.changed()).await;
    }
}

async fn attempt(settings: MirrorSettings, control: Control) -> Result<(Mirror, PastRuns), MirrorError> {
    let (path, clock) = (settings.config.database.clone(), control.clock.clone());
    let mirror = Mirror::open(settings, clock.clone(), Arc::new(control)).await?;
    // No other process has the lock.
    mirror.store().write(|tx| tx.end_killed_runs()).await?;
    let ledger = mirror.meter().ledger();
    let past = tokio::task::spawn_blocking(move || runner::read(&path, clock.now(), &ledger)).await;
    Ok((mirror, past.unwrap_or(Err(StoreError::Closed))?))
}

fn wait_for(control: &Control, reason: &str) {
    let status = DaemonStatus::new(Some(reason), control.since, &control.config().sync.time_zone);
    control.daemon.send_replace(status);
    systemd::tell(&format!("STATUS={}", control.line()));
}

/// Reloads the configuration for the next attempt. An invalid one changes nothing.
fn reload(sources: &Sources, control: &Control) {
    match Config::load(sources).and_then(MirrorSettings::new) {
        Ok(mut settings) => {
            // The page and the socket are made with these.
            settings.config.daemon = control.config().daemon.clone();
            control.config.send_replace(Arc::new(settings.config));
            control.reloaded(None);
        }
        Err(error) => control.reloaded(Some(&error.into())),
    }
}

/// Where to publish now, and what. A changed password needs no reload.
fn plan(config: &Config) -> PublishPlan {
    let url = config.publish.url().map_err(|error| PublishError::Url { reason: error_chain(&error) });
    config.publish.is_on().then(|| (url.and_then(|url| PublishUrl::new(&url)), publish_settings(config)))
}
