//! The lifetime of the daemon: opens signals, socket, page and mirror, in an order that makes its state visible from
//! the beginning.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::mpsc;

use super::control;
use super::error::DaemonError;
use super::event_loop::EventLoop;
use super::handler_state::Control;
use super::http_server;
use super::notification;
use super::opening::{Opened, Opening};
use super::page::PageKeeper;
use super::read_only_watch;
use super::runner::Runner;
use super::sd_notify;
use super::signals::DaemonSignals;
use super::socket_wait::{self, SocketOpened};
use super::status_cache::PATIENT;
use super::task::Task;
use crate::app::MirrorSettings;
use crate::config::Sources;
use crate::model::Clock;

/// How long the daemon may take to stop: less than the documented 5 seconds.
const END_WITHIN: Duration = Duration::from_millis(4300);

/// The capacity of the loop's inbox.
const INBOX: usize = 64;

pub(super) async fn run(
    sources: Sources,
    clock: Arc<dyn Clock>,
    mut signals: DaemonSignals,
) -> Result<(), DaemonError> {
    // Checked before any file is touched.
    let (mut settings, mut config) = MirrorSettings::load(&sources)?;
    let (socket, listener) = loop {
        match socket_wait::open(&config, &mut signals).await {
            SocketOpened::Socket(socket, listener) => break (socket, listener),
            SocketOpened::Stop => return Ok(()),
            SocketOpened::Reload => match MirrorSettings::load(&sources) {
                Ok(read) => (settings, config) = read,
                Err(error) => tracing::error!("The new configuration is invalid and the old one stays active: {error}"),
            },
        }
    };
    let (sender, mut inbox) = mpsc::channel(INBOX);
    let _watch = read_only_watch::start(&config.database, sender.clone());
    let control = Control::new(sender.clone(), Arc::new(config.clone()), clock);
    let (router, limits) = (control::router(control.clone()), (http_server::IDLE, Duration::MAX));
    let serving = http_server::spawn(listener, router, control.ends(), limits, |_, _| {});
    let mut page = PageKeeper::start(&config, control.clone(), sender.clone()).await;
    let mut opening = Opening::new(sources.clone(), config, settings, control.clone());
    control.cache.publish(opening.status());
    let (ended, open) = match opening.wait(&mut inbox, &mut signals, &mut page).await {
        Err(error) => (Err(error), None),
        Ok(Opened::Stop) => (Ok(()), None),
        Ok(Opened::Mirror(mirror, past)) => {
            let (config, page_status) = opening.into_parts();
            control.take(Arc::new(config));
            // From now on a status is known, however slow the file is.
            let _ = control.cache.mirror(control.config(), control.reading(), PATIENT).await;
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
    sd_notify::stopping();
    ended
}
