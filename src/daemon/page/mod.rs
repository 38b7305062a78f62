//! The status page: a live view of the mirror for browsers, and endpoints for monitoring.
//!
//! A port that is in use never stops mirroring: `status` and the log report it, and the port is retried until it is free.
//!
//! # Invariants
//! - It is off by default. It is served on loopback, and beyond it only to the configured networks.
//! - It is read-only: only GET and HEAD are accepted, and no request changes anything.
//! - Every user of this machine can open it. So it contains no value of a record and no text of the service, only
//!   numbers and column names; reasons of failures, events and findings of verifications are on the control socket only.
//! - The page loads nothing from elsewhere, runs no script but its own, and inserts data as text, never as markup; its
//!   headers enforce that.

mod access;
mod answers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use self::access::{LIFE, LimitedListener, Places, ServedAt};
use super::handler_state::Control;
use super::http_server::{self, IDLE};
use super::status_reply::PageStatus;
use crate::config::Config;

const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Serves the page where the configuration says at the time, until the daemon stops.
pub(super) async fn serve(control: Control) {
    let place = |config: &Config| (config.daemon.http, config.daemon.http_allow.clone());
    let (mut configs, mut ended) = (control.config.subscribe(), control.end.subscribe());
    let mut stops = false;
    while !stops {
        let (wanted, allowed) = place(&configs.borrow_and_update());
        let mut moves = std::pin::pin!(async {
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => true,
                _ = configs.wait_for(|config| place(config) != (wanted, allowed.clone())) => false,
            }
        });
        tokio::select! {
            stop = &mut moves => stops = stop,
            (listener, at) = listen(wanted, &control) => {
                let served = ServedAt { at, beyond_loopback: !allowed.is_empty() };
                let (router, mut places) = (answers::router(control.clone(), served), Places::default());
                let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
                let listener = LimitedListener { listener, allowed: Arc::from(&*allowed) };
                let (end, ends) = watch::channel(false);
                let serving = http_server::spawn(listener, router, ends, (IDLE, LIFE), begun);
                stops = moves.await;
                // Streams end, and requests in flight get a short time to finish: the next page may use the same port.
                end.send_replace(true);
                http_server::finish(serving).await;
            }
        }
        control.known().page = None;
    }
}

/// Listens on an address once it is free, for ever if there is none.
async fn listen(wanted: Option<SocketAddr>, control: &Control) -> (TcpListener, SocketAddr) {
    let Some(wanted) = wanted else { return std::future::pending().await };
    let tell = |at: SocketAddr, error| control.known().page.replace(PageStatus { at: at.to_string(), error });
    loop {
        match TcpListener::bind(wanted).await {
            Ok(listener) => {
                // Another port, if any was wanted.
                let at = listener.local_addr().unwrap_or(wanted);
                tracing::info!("The status page is at http://{at}/");
                tell(at, None);
                return (listener, at);
            }
            Err(error) => {
                if tell(wanted, Some(error.to_string())).is_none() {
                    tracing::error!(
                        "The status page is not served: could not listen on {wanted}: {error}; retrying. Set another port \
                         in `daemon.http`, or `off`"
                    );
                }
            }
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
