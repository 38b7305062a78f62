//! The status page: a live view of the mirror for browsers, and endpoints for monitoring.
//!
//! It is served at the configured address for as long as the daemon runs. A port that is in use never stops mirroring:
//! `status` and the log report it, and the port is retried until it is free. `answers` handles requests and removes what is
//! not public, `access` decides who may connect.
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
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::access::{LIFE, LimitedListener, Places, ServedAt};
use super::handler_state::Control;
use super::http_server::{self, IDLE};
use super::loop_message::LoopMessage;
use super::status_reply::PageStatus;
use crate::config::{Config, Network};

/// The interval between two attempts to listen.
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
        if let Some(wanted) = wanted(config) {
            let bound = bind(wanted.at, true).await;
            keeper.serve(wanted, Some(bound), None);
        }
        keeper
    }

    pub(super) fn follow(&mut self, config: &Config) {
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

    /// Stops the page: streams end, and requests in flight get a short time to finish.
    pub(super) async fn end(self) {
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
                // The new page may use the same port.
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

/// A listener and its address, or why there is none.
type PageBinding = Result<(TcpListener, SocketAddr), String>;

/// Listens; a failure is logged if it is the first.
async fn bind(at: SocketAddr, is_first: bool) -> PageBinding {
    let bound: std::io::Result<_> = async {
        let listener = TcpListener::bind(at).await?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }
    .await;
    match &bound {
        Ok((_, at)) => tracing::info!("The status page is at http://{at}/"),
        Err(error) if is_first => tracing::error!(
            "The status page is not served: could not listen on {at}: {error}; retrying. Set another port in \
             `daemon.http`, or `off`"
        ),
        Err(_) => {}
    }
    bound.map_err(|error| error.to_string())
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
        None => bind(wanted.at, true).await,
    };
    loop {
        let at = bound.as_ref().map_or(wanted.at, |(_, at)| *at);
        let status = PageStatus { at: at.to_string(), error: bound.as_ref().err().cloned() };
        // The inbox is closed once the daemon has stopped.
        let _ = inbox.send(LoopMessage::Page(status)).await;
        if let Ok((listener, at)) = bound {
            let served = ServedAt { at, beyond_loopback: !wanted.allowed.is_empty() };
            let listener = LimitedListener { listener, allowed: wanted.allowed };
            let (router, mut places) = (answers::router(control, served), Places::default());
            let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
            let serving = http_server::spawn(listener, router, ends, (IDLE, LIFE), begun);
            // A panic is already in the log.
            let _ = serving.await;
            return;
        }
        bound = loop {
            tokio::select! {
                _ = ends.wait_for(|ends| *ends) => return,
                () = tokio::time::sleep(RETRY_AFTER) => {}
            }
            if let Ok(listener) = bind(wanted.at, false).await {
                break Ok(listener);
            }
        };
    }
}
