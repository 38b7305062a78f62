//! Work that goes on beside the daemon's loop.

use std::future::Future;

use tokio::task::JoinHandle;

/// A task that lasts no longer than this value.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl Task {
    pub(super) fn start(work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(tokio::spawn(work))
    }

    /// Ends the task, and returns once it has let go of what it uses.
    pub(super) async fn end(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
