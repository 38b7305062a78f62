//! Serves the status page where the configuration wants it, for as long as the daemon runs.
//!
//! A port that is taken never stops mirroring: the page says in `status` and in the log that it is nowhere, and is tried
//! again until the port is free.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::answers;
use super::host_check::ServedAt;
use super::limited_listener::LimitedListener;
use crate::config::{Config, Network};
use crate::daemon::handle::Control;
use crate::daemon::http_server::{self, IDLE};
use crate::daemon::message::LoopMessage;
use crate::daemon::status_reply::PageStatus;

/// Between two tries of a port that is taken.
const AGAIN: Duration = Duration::from_secs(5);

/// Where the page is to be, and who may look.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    at: SocketAddr,
    allowed: Arc<[Network]>,
}

/// Keeps the page where it is wanted.
pub struct PageKeeper {
    control: Control,
    inbox: mpsc::Sender<LoopMessage>,
    served: Option<(Wanted, watch::Sender<bool>, JoinHandle<()>)>,
}

impl PageKeeper {
    /// Serves the page where the configuration wants it, after a first try of the port.
    pub async fn start(config: &Config, control: Control, inbox: mpsc::Sender<LoopMessage>) -> PageKeeper {
        let mut keeper = PageKeeper { control, inbox, served: None };
        if let Some(wanted) = wanted(config) {
            let bound = bind(wanted.at).await;
            keeper.serve(wanted, Some(bound), None);
        }
        keeper
    }

    /// Follows a configuration that was read again.
    pub fn follow(&mut self, config: &Config) {
        let wanted = wanted(config);
        if self.served.as_ref().map(|(served, ..)| served) == wanted.as_ref() {
            return;
        }
        let before = self.served.take().map(|(_, end, serving)| {
            end.send_replace(true);
            serving
        });
        if let Some(wanted) = wanted {
            self.serve(wanted, None, before);
        }
    }

    /// Ends it: streams end, and requests under way are answered if they are quick.
    pub async fn end(self) {
        if let Some((_, end, serving)) = self.served {
            end.send_replace(true);
            http_server::finish(serving).await;
        }
    }

    fn serve(&mut self, wanted: Wanted, first: Option<PageBinding>, before: Option<JoinHandle<()>>) {
        let (end, ends) = watch::channel(false);
        let (control, inbox) = (self.control.clone(), self.inbox.clone());
        let place = wanted.clone();
        let serving = tokio::spawn(async move {
            if let Some(before) = before {
                // The same port may be wanted again.
                http_server::finish(before).await;
            }
            keep(place, first, control, inbox, ends).await;
        });
        self.served = Some((wanted, end, serving));
    }
}

fn wanted(config: &Config) -> Option<Wanted> {
    Some(Wanted { at: config.http?, allowed: config.http_allow.clone().into() })
}

/// A listener and where it listens, or why there is none.
type PageBinding = Result<(TcpListener, SocketAddr), String>;

async fn bind(at: SocketAddr) -> PageBinding {
    let bound = async {
        let listener = TcpListener::bind(at).await?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    };
    let bound: std::io::Result<_> = bound.await;
    let bound = bound.map_err(|error| error.to_string());
    match &bound {
        Ok((_, at)) => tracing::info!("The status page is at http://{at}/"),
        Err(error) => tracing::error!(
            "The status page is not served: could not listen on {at}: {error}; it is tried again. Name another port in \
             `daemon.http`, or `off`"
        ),
    }
    bound
}

async fn keep(
    wanted: Wanted,
    first: Option<PageBinding>,
    control: Control,
    inbox: mpsc::Sender<LoopMessage>,
    mut ends: watch::Receiver<bool>,
) {
    let mut bound = match first {
        Some(bound) => bound,
        None => bind(wanted.at).await,
    };
    loop {
        let at = bound.as_ref().map_or(wanted.at, |(_, at)| *at);
        let status = PageStatus { at: at.to_string(), error: bound.as_ref().err().cloned() };
        // A closed inbox belongs to a daemon that has ended.
        let _ = inbox.send(LoopMessage::Page(status)).await;
        if let Ok((listener, at)) = bound {
            let served = ServedAt { at, beyond_loopback: !wanted.allowed.is_empty() };
            let listener = LimitedListener::new(listener, wanted.allowed);
            let serving = http_server::spawn(listener, answers::router(control, served), ends, IDLE);
            // A panic is in the log already.
            let _ = serving.await;
            return;
        }
        bound = loop {
            tokio::select! {
                _ = ends.wait_for(|ends| *ends) => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
            // Said once, and not with every try.
            if let Ok(listener) = TcpListener::bind(wanted.at).await
                && let Ok(at) = listener.local_addr()
            {
                tracing::info!("The status page is at http://{at}/");
                break Ok((listener, at));
            }
        };
    }
}
