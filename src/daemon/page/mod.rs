//! The status page: a live view of the mirror for browsers, and endpoints for monitoring.
//!
//! A port that is in use never stops mirroring: `status` and the log report it, and the port is retried until it is free.
//!
//! # Invariants
//! - It is off by default. It is served on loopback, and beyond it only to the configured networks.
//! - It is read-only: only GET and HEAD are accepted, and no request changes anything.
//! - Every user of this machine can open it. So it contains no value of a record and no text of the service, only
//!   numbers, ids and column names; reasons of failures and findings of verifications are on the control socket only.
//! - The page loads nothing from elsewhere, runs no script but its own, and inserts data as text, never as markup; its
//!   headers enforce that.

mod access;
mod answers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use self::access::{LIFE, LimitedListener, Places, ServedAt};
use super::handler_state::{Control, LoopMessage};
use super::http_server::{self, IDLE};
use super::status_reply::PageStatus;
use crate::config::{Config, Network};

const RETRY_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    at: SocketAddr,
    allowed: Arc<[Network]>,
}

pub(super) struct PageKeeper {
    control: Control,
    inbox: mpsc::Sender<LoopMessage>,
    served: Option<(Wanted, watch::Sender<bool>, JoinHandle<()>)>,
}

impl PageKeeper {
    /// Serves the page at the configured address, after a first attempt to listen.
    pub(super) async fn start(config: &Config, control: Control, inbox: mpsc::Sender<LoopMessage>) -> PageKeeper {
        let mut keeper = PageKeeper { control, inbox, served: None };
        if let Some(first) = keeper.follow(config) {
            let _ = first.await;
        }
        keeper
    }

    /// Serves the page where the configuration says now. What is returned ends with the first attempt to listen.
    pub(super) fn follow(&mut self, config: &Config) -> Option<oneshot::Receiver<()>> {
        let wanted = config.http.map(|at| Wanted { at, allowed: config.http_allow.clone().into() });
        if self.served.as_ref().map(|(served, ..)| served) == wanted.as_ref() {
            return None;
        }
        let before = self.served.take().map(|(_, end, serving)| {
            end.send_replace(true);
            serving
        });
        let place = wanted?;
        let (end, ends) = watch::channel(false);
        let (tried, first) = oneshot::channel();
        let (wanted, control, inbox) = (place.clone(), self.control.clone(), self.inbox.clone());
        let serving = tokio::spawn(async move {
            if let Some(before) = before {
                // The new page may use the same port.
                http_server::finish(before).await;
            }
            keep(wanted, tried, control, inbox, ends).await;
        });
        self.served = Some((place, end, serving));
        Some(first)
    }

    /// Stops the page: streams end, and requests in flight get a short time to finish.
    pub(super) async fn end(self) {
        if let Some((_, end, serving)) = self.served {
            end.send_replace(true);
            http_server::finish(serving).await;
        }
    }
}

/// Serves the page, once its address is free. `tried` is dropped after the first attempt, which alone reports a failure.
async fn keep(
    wanted: Wanted,
    tried: oneshot::Sender<()>,
    control: Control,
    inbox: mpsc::Sender<LoopMessage>,
    mut ends: watch::Receiver<bool>,
) {
    // The inbox is closed once the daemon has stopped.
    let tell = async |at: String, error| drop(inbox.send(LoopMessage::Page(PageStatus { at, error })).await);
    let mut tried = Some(tried);
    let (listener, at) = loop {
        let first = tried.take();
        match listen(wanted.at).await {
            Ok((listener, at)) => {
                tracing::info!("The status page is at http://{at}/");
                tell(at.to_string(), None).await;
                break (listener, at);
            }
            Err(error) if first.is_some() => {
                tracing::error!(
                    "The status page is not served: could not listen on {}: {error}; retrying. Set another port in \
                     `daemon.http`, or `off`",
                    wanted.at
                );
                tell(wanted.at.to_string(), Some(error.to_string())).await;
            }
            Err(_) => {}
        }
        drop(first);
        tokio::select! {
            _ = ends.wait_for(|ends| *ends) => return,
            () = tokio::time::sleep(RETRY_AFTER) => {}
        }
    };
    let served = ServedAt { at, beyond_loopback: !wanted.allowed.is_empty() };
    let listener = LimitedListener { listener, allowed: wanted.allowed };
    let (router, mut places) = (answers::router(control, served), Places::default());
    let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
    // A panic is already in the log.
    let _ = http_server::spawn(listener, router, ends, (IDLE, LIFE), begun).await;
}

async fn listen(at: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await?;
    let at = listener.local_addr()?;
    Ok((listener, at))
}
