//! The status page: a live view of the mirror for browsers, and endpoints for monitoring.
//!
//! A port that is in use never stops mirroring: the log reports it, and the port is retried until it is free.
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
use std::time::Duration;

use tokio::net::TcpListener;

use self::access::{LIFE, Places, ServedAt, is_allowed};
use super::handler_state::Control;
use super::http_server::{self, IDLE};

const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Serves the page where the configuration said at the start, until the daemon stops.
pub(super) async fn serve(control: Control) {
    let (config, mut ended) = (control.config(), control.end.subscribe());
    let Some(wanted) = config.daemon.http else { return };
    let (listener, at) = tokio::select! {
        listens = listen(wanted) => listens,
        _ = ended.wait_for(|ended| *ended) => return,
    };
    let served = ServedAt { at, beyond_loopback: !config.daemon.http_allow.is_empty() };
    let (router, mut places) = (answers::router(control, served), Places::default());
    let begun = move |from: &SocketAddr, connection| places.take(from.ip(), connection);
    let admits = move |from: &SocketAddr| is_allowed(from.ip(), &config.daemon.http_allow);
    let _ = http_server::spawn(listener, router, ended, (IDLE, LIFE), admits, begun).await;
}

async fn listen(wanted: SocketAddr) -> (TcpListener, SocketAddr) {
    let mut is_known = false;
    loop {
        match TcpListener::bind(wanted).await {
            Ok(listener) => {
                // Another port, if any was wanted.
                let at = listener.local_addr().unwrap_or(wanted);
                tracing::info!("The status page is at http://{at}/");
                return (listener, at);
            }
            Err(_) if std::mem::replace(&mut is_known, true) => {}
            Err(error) => tracing::error!(
                "The status page is not served: could not listen on {wanted}: {error}; retrying. Set another port in \
                 `daemon.http`, or `off`, and restart"
            ),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
