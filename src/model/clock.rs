//! Time as an argument: the real clock for the program, one that is set by hand for tests and the demo.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::instant::Instant;

/// Something that knows the time and can wait for it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time now.
    fn now(&self) -> Instant;
    /// Waits until `when`; returns at once if that has passed.
    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::system_now()
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}

/// A clock that stands still until it is moved; whoever waits on it moves it to the time waited for.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Instant>>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Instant) -> ManualClock {
        ManualClock(Arc::new(Mutex::new(now)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: std::time::Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.plus(by);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, to: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            {
                let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                *now = (*now).max(when);
            }
            // Lets the others see the new time, as a real wait would.
            tokio::task::yield_now().await;
        })
    }
}
