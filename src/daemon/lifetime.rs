//! The lifetime of the daemon: opens signals, socket, page and mirror, in an order that makes its state visible from
//! the beginning. Publishing is a separate task beside it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::mpsc;

use super::error::DaemonError;
use super::event_loop::EventLoop;
use super::handler_state::{Control, PATIENT};
use super::opening::{Opened, Opening};
use super::page::PageKeeper;
use super::runner::Runner;
use super::socket::{self, SocketOpened};
use super::systemd::DaemonSignals;
use super::watches::Task;
use super::{control, http_server, notification, systemd, watches};
use crate::app::{MirrorSettings, publish_settings};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::Clock;
use crate::publish::{PublishPlan, PublishUrl, keep_published};

/// How long the daemon may take to stop: less than the documented 5 seconds.
const END_WITHIN: Duration = Duration::from_millis(4300);

/// The capacity of the loop's inbox.
const INBOX: usize = 64;

/// Opens everything, runs the loop, and closes everything.
async fn until_told_to_stop(
    sources: Sources,
    clock: Arc<dyn Clock>,
    mut signals: DaemonSignals,
) -> Result<(), DaemonError> {
    // Checked before any file is touched.
    let (mut settings, mut config) = MirrorSettings::load(&sources)?;
    let (socket, listener) = loop {
        match socket::open(&config, &mut signals).await {
            SocketOpened::Socket(socket, listener) => break (socket, listener),
            SocketOpened::Stop => return Ok(()),
            SocketOpened::Reload => match MirrorSettings::load(&sources) {
                Ok(read) => (settings, config) = read,
                Err(error) => tracing::error!("The new configuration is invalid and the old one stays active: {error}"),
            },
        }
    };
    let (sender, mut inbox) = mpsc::channel(INBOX);
    let _watch = watches::watch_file_system(&config.database, sender.clone());
    let control = Control::new(sender.clone(), Arc::new(config.clone()), clock);
    let (router, limits) = (control::router(control.clone()), (http_server::IDLE, Duration::MAX));
    let serving = http_server::spawn(listener, router, control.ends(), limits, |_, _| {});
    let mut page = PageKeeper::start(&config, control.clone(), sender.clone()).await;
    let mut opening = Opening::new(sources.clone(), config, settings, control.clone());
    control.publish(opening.status());
    let (ended, open) = match opening.wait(&mut inbox, &mut signals, &mut page).await {
        Err(error) => (Err(error), None),
        Ok(Opened::Stop) => (Ok(()), None),
        Ok(Opened::Mirror(mirror, past)) => {
            let (config, page_status) = opening.into_parts();
            control.take(Arc::new(config));
            // From now on a status is known, however slow the file is.
            let _ = control.mirror(PATIENT).await;
            let runner = Runner::new(mirror, sources, control.clone(), sender.clone());
            let notifier = Task::start(notification::tell(control.clone(), Arc::downgrade(runner.mirror())));
            let begun = EventLoop::begin(runner, past, page_status, control.clone(), sender).await;
            let (ended, runner, stopped_at) = match begun {
                Ok(event_loop) => event_loop.run_until_stopped(&mut inbox, &mut signals, &mut page).await,
                Err((error, runner)) => (Err(error), runner, Monotonic::now()),
            };
            notifier.end().await;
            (ended, Some((runner, stopped_at)))
        }
    };
    // Streams end, and requests in flight get a short time to finish.
    drop(socket);
    control.end();
    tokio::join!(page.end(), http_server::finish(serving));
    if let Some((runner, stopped_at)) = open {
        runner.close(END_WITHIN.saturating_sub(stopped_at.elapsed()).max(Duration::from_millis(300))).await;
    }
    systemd::stopping();
    ended
}

/// Runs the daemon until it is told to stop, and publishes meanwhile if `[publish]` is configured.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>, signals: DaemonSignals) -> Result<(), DaemonError> {
    let keeper = Config::load(&sources).ok().map(|config| {
        let (again, database) = (sources.clone(), config.database.clone());
        let last = Mutex::new((Vec::new(), config));
        Task::start(keep_published(database, move || plan(&again, &last), clock.clone()))
    });
    let ended = until_told_to_stop(sources, clock, signals).await;
    if let Some(keeper) = keeper {
        keeper.end().await;
    }
    ended
}

type ValidFiles = (Vec<(PathBuf, String)>, Config);

/// Reads the current settings: a changed password needs no restart. While the configuration is invalid, the last valid
/// one counts, as for the runs; the reload reports it.
fn plan(sources: &Sources, last: &Mutex<ValidFiles>) -> Result<PublishPlan, String> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(files) = sources.files()
        && files != last.0
        && let Ok(config) = Config::load(sources)
    {
        *last = (files, config);
    }
    let config = &last.1;
    if !config.publish.is_on() {
        return Ok(None);
    }
    let url = config.publish.url().map_err(|error| error_chain(&error))?;
    let url = PublishUrl::new(&url).map_err(|error| error_chain(&error))?;
    Ok(Some((url, publish_settings(config))))
}
