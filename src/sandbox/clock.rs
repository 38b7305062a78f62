//! The clock of a sandbox service: the system's clock or a fixed time, and an offset that can be advanced on request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::model::{Clock, Instant};

/// The system's clock or a fixed time, plus the advance. Clones share the advance.
#[derive(Clone, Debug)]
pub(crate) struct SandboxClock {
    fixed: Option<Instant>,
    advanced: Arc<Mutex<Duration>>,
}

impl SandboxClock {
    /// With a time, the clock is fixed until it is advanced; without, it follows the system's clock.
    pub(crate) fn new(fixed: Option<Instant>) -> SandboxClock {
        SandboxClock { fixed, advanced: Arc::default() }
    }

    pub(crate) fn advanced(&self) -> Duration {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_advanced(&self, by: Duration) {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

impl Clock for SandboxClock {
    fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(Instant::system_now).plus(self.advanced())
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}
