//! Work that goes on beside the daemon's loop, and delays between attempts.

use std::future::Future;

use std::time::Duration;

use tokio::task::JoinHandle;

/// Delays between attempts: each is twice the one before, up to the longest.
#[derive(Debug)]
pub(super) struct GrowingDelay {
    next: Duration,
    longest: Duration,
}

impl GrowingDelay {
    pub(super) fn new(first: Duration, longest: Duration) -> GrowingDelay {
        GrowingDelay { next: first, longest }
    }

    pub(super) fn next(&mut self) -> Duration {
        let longer = (self.next * 2).min(self.longest);
        std::mem::replace(&mut self.next, longer)
    }
}

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
