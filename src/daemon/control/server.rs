//! The server of the control socket.

use std::time::Duration;

use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::routes;
use crate::daemon::handler_state::Control;
use crate::daemon::http_server;

pub(crate) struct ControlServer {
    control: Control,
    serving: JoinHandle<()>,
}

impl ControlServer {
    pub(crate) fn start(control: Control, listener: UnixListener) -> ControlServer {
        let router = routes::router(control.clone());
        let serving =
            http_server::spawn(listener, router, control.ends(), (http_server::IDLE, Duration::MAX), |_, _| {});
        ControlServer { control, serving }
    }

    /// Stops the server: streams end, and requests in flight get a short time to finish.
    pub(crate) async fn end(self) {
        self.control.end();
        http_server::finish(self.serving).await;
    }
}
