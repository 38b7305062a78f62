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
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::access::{LIFE, LimitedListener, Places, ServedAt};
use super::handler_state::Control;
use super::http_server::{self, IDLE};
use super::status_reply::PageStatus;
use crate::config::{Config, Network};

const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Serves the page, after a first attempt to listen, until the daemon stops.
pub(super) async fn start(control: Control) -> JoinHandle<()> {
    let (tried, first) = oneshot::channel();
    let serving = tokio::spawn(follow(control, tried));
    // `tried` is dropped after the first attempt.
    let _ = first.await;
    serving
}

/// Serves the page where the configuration says now.
async fn follow(control: Control, tried: oneshot::Sender<()>) {
    let place = |config: &Config| config.daemon.http.map(|at| (at, Arc::from(&*config.daemon.http_allow)));
    let (mut configs, mut ended) = (control.config.subscribe(), control.end.subscribe());
    let (mut tried, mut stops) = (Some(tried), false);
    while !stops {
        let wanted = place(&configs.borrow_and_update());
        let (end, ends) = watch::channel(false);
        let serving = tokio::spawn(serve(wanted.clone(), tried.take(), control.clone(), ends));
        stops = tokio::select! {
            _ = ended.wait_for(|ended| *ended) => true,
            _ = configs.wait_for(|config| place(config) != wanted) => false,
        };
        // Streams end, and requests in flight get a short time to finish: the next page may use the same port.
        end.send_replace(true);
        http_server::finish(serving).await;
        control.bus.known().page = None;
    }
}

/// Serves the page at a place, once its address is free.
async fn serve(
    place: Option<(SocketAddr, Arc<[Network]>)>,
    mut tried: Option<oneshot::Sender<()>>,
    control: Control,
    mut ends: watch::Receiver<bool>,
) {
    let Some((wanted, allowed)) = place else { return };
    let tell = |at: SocketAddr, error| control.bus.known().page = Some(PageStatus { at: at.to_string(), error });
    let mut is_reported = false;
    let listener = loop {
        match TcpListener::bind(wanted).await {
            Ok(listener) => break listener,
            Err(error) if !is_reported => {
                tracing::error!(
                    "The status page is not served: could not listen on {wanted}: {error}; retrying. Set another port in \
                     `daemon.http`, or `off`"
                );
                tell(wanted, Some(error.to_string()));
                is_reported = true;
            }
            Err(_) => {}
        }
        drop(tried.take());
        tokio::select! {
            _ = ends.wait_for(|ends| *ends) => return,
            () = tokio::time::sleep(RETRY_AFTER) => {}
        }
    };
    // Another port, if any was wanted.
    let at = listener.local_addr().unwrap_or(wanted);
    tracing::info!("The status page is at http://{at}/");
    tell(at, None);
    drop(tried);
    let served = ServedAt { at, beyond_loopback: !allowed.is_empty() };
    let (router, mut places) = (answers::router(control, served), Places::default());
    let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
    // A panic is already in the log.
    let _ = http_server::spawn(LimitedListener { listener, allowed }, router, ends, (IDLE, LIFE), begun).await;
}
