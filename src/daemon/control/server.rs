//! The server of the control socket.

use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::routes;
use crate::daemon::handle::Control;
use crate::daemon::http_server;

/// The server of the control socket.
pub struct ControlServer {
    control: Control,
    serving: JoinHandle<()>,
}

impl ControlServer {
    /// Serves the control socket.
    pub fn start(control: Control, listener: UnixListener) -> ControlServer {
        let router = routes::router(control.clone());
        let serving = http_server::spawn(listener, router, control.ends(), http_server::IDLE);
        ControlServer { control, serving }
    }

    /// Ends it: streams end, and requests under way are answered if they are quick.
    pub async fn end(self) {
        self.control.end();
        http_server::finish(self.serving).await;
    }
}
