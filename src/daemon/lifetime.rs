//! The lifetime of the daemon: opens signals, socket, page and mirror, in an order that makes its state visible from
//! the beginning.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::mpsc;

use super::bus::EventBus;
use super::control::ControlServer;
use super::error::DaemonError;
use super::event_loop::EventLoop;
use super::handler_state::Control;
use super::loop_message::LoopMessage;
use super::notification;
use super::notify;
use super::opening::{Opened, Opening};
use super::page::PageKeeper;
use super::read_only_watch;
use super::runner::Runner;
use super::signals::DaemonSignals;
use super::socket::ControlSocket;
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
    let bus = EventBus::new(clock.clone());
    let (sender, inbox) = mpsc::channel(INBOX);
    let _watch = read_only_watch::start(&config.database, sender.clone());
    let control = Control::new(sender.clone(), bus.clone(), Arc::new(config.clone()), clock.clone());
    let server = ControlServer::start(control.clone(), listener);
    let page = PageKeeper::start(&config, control.clone(), sender.clone()).await;
    let surface = Surface { socket, server, page };
    let opening = Opening::new(sources.clone(), config, settings, clock.clone(), bus.clone());
    let ended = run_until_stopped(opening, sources, clock, bus, (sender, inbox), signals, control, surface).await;
    notify::stopping();
    ended
}

pub(super) struct Surface {
    socket: ControlSocket,
    server: ControlServer,
    pub(super) page: PageKeeper,
}

impl Surface {
    /// Stops them: streams end, and requests in flight get a short time to finish.
    async fn end(self) {
        drop(self.socket);
        tokio::join!(self.page.end(), self.server.end());
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of a daemon are assembled here")]
async fn run_until_stopped(
    mut opening: Opening,
    sources: Sources,
    clock: Arc<dyn Clock>,
    bus: EventBus,
    (sender, mut inbox): (mpsc::Sender<LoopMessage>, mpsc::Receiver<LoopMessage>),
    mut signals: DaemonSignals,
    control: Control,
    mut surface: Surface,
) -> Result<(), DaemonError> {
    control.cache().publish(opening.status());
    let opened = opening.wait(&mut inbox, &mut signals, &mut surface.page).await;
    let (mirror, past) = match opened {
        Ok(Opened::Mirror(mirror, past)) => (mirror, past),
        Ok(Opened::Stop) => {
            surface.end().await;
            return Ok(());
        }
        Err(error) => {
            surface.end().await;
            return Err(error);
        }
    };
    let (config, page) = opening.into_parts();
    control.take(Arc::new(config.clone()));
    // From now on a status is known, however slow the file is.
    let _ = control.cache().mirror(control.config(), control.reading(), PATIENT).await;
    let runner = Runner::new(mirror, sources, config, sender.clone(), control.cache().clone());
    let notifier = Task::start(notification::tell(control.clone(), Arc::downgrade(runner.mirror())));
    let begun = EventLoop::begin(runner, past, page, clock, bus, control, sender).await;
    let (ended, runner, stopped_at) = match begun {
        Ok(event_loop) => event_loop.run_until_stopped(&mut inbox, &mut signals, &mut surface.page).await,
        Err((error, runner)) => (Err(error), runner, Monotonic::now()),
    };
    notifier.end().await;
    surface.end().await;
    runner.close(END_WITHIN.saturating_sub(stopped_at.elapsed()).max(Duration::from_millis(300))).await;
    ended
}
