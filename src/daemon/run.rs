//! From the start of the daemon to its end: signals, socket, page and mirror, in the order that lets people see what
//! goes on from the beginning.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::mpsc;

use super::bus::EventBus;
use super::control::ControlServer;
use super::error::DaemonError;
use super::event_loop::EventLoop;
use super::handle::Control;
use super::message::LoopMessage;
use super::notify;
use super::opening::{Opened, Opening};
use super::page::PageKeeper;
use super::runner::Runner;
use super::signals::DaemonSignals;
use super::socket::ControlSocket;
use crate::app::MirrorSettings;
use crate::config::{Config, Sources};
use crate::model::Clock;
use crate::store::lock;

/// How long the daemon may take to end once it is asked to: less than the 5 seconds that people count on.
const END_WITHIN: Duration = Duration::from_millis(4300);

/// Messages that may wait for the loop.
const INBOX: usize = 64;

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// Why it cannot begin, or cannot continue.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>) -> Result<(), DaemonError> {
    let signals = DaemonSignals::listen().map_err(DaemonError::Signals)?;
    let config = Config::load(&sources)?;
    // Checked before any file is touched.
    let settings = MirrorSettings::from_config(&config)?;
    let bus = EventBus::new(clock.clone());
    let (sender, inbox) = mpsc::channel(INBOX);
    let (socket, listener) = ControlSocket::bind(&config.socket).map_err(|error| match error {
        DaemonError::SocketTaken { path, .. } => {
            DaemonError::SocketTaken { path, pid: lock::who_writes(&config.database).flatten() }
        }
        other => other,
    })?;
    let control = Control::new(sender.clone(), bus.clone(), Arc::new(config.clone()), clock.clone());
    let server = ControlServer::start(control.clone(), listener);
    let page = PageKeeper::start(&config, control.clone(), sender.clone()).await;
    let surface = Surface { socket, server, page };
    let opening = Opening::new(sources.clone(), config, settings, clock.clone(), bus.clone());
    let ended = live(opening, sources, clock, bus, (sender, inbox), signals, control, surface).await;
    notify::stopping();
    ended
}

/// What people see of the daemon.
pub(super) struct Surface {
    socket: ControlSocket,
    server: ControlServer,
    /// Where the status page is served.
    pub(super) page: PageKeeper,
}

impl Surface {
    /// Ends it: streams end, and requests under way are answered if they are quick.
    async fn end(self) {
        drop(self.socket);
        tokio::join!(self.page.end(), self.server.end());
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of a daemon, put together in one place")]
async fn live(
    mut opening: Opening,
    sources: Sources,
    clock: Arc<dyn Clock>,
    bus: EventBus,
    (sender, mut inbox): (mpsc::Sender<LoopMessage>, mpsc::Receiver<LoopMessage>),
    mut signals: DaemonSignals,
    control: Control,
    mut surface: Surface,
) -> Result<(), DaemonError> {
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
    let runner = Runner::new(mirror, sources, config, sender.clone());
    let begun = EventLoop::begin(runner, past, page, clock, bus, control, sender).await;
    let (ended, runner, stopped_at) = match begun {
        Ok(event_loop) => event_loop.live(&mut inbox, &mut signals, &mut surface.page).await,
        Err((error, runner)) => (Err(error), runner, Monotonic::now()),
    };
    surface.end().await;
    runner.close(END_WITHIN.saturating_sub(stopped_at.elapsed()).max(Duration::from_millis(300))).await;
    ended
}
