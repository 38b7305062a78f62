//! The mirror's clock: the true time plus an error that jumps.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crm_mirror::model::clock::{ClockReading, MonotonicReading};
use crm_mirror::model::{Clock, Instant, ManualClock};

/// The true time plus or minus a number of seconds.
#[derive(Clone, Debug)]
pub struct WrongClock {
    truth: ManualClock,
    ahead: Arc<Mutex<i64>>,
    restarts: Arc<AtomicU32>,
}

impl WrongClock {
    pub fn new(truth: ManualClock) -> WrongClock {
        WrongClock { truth, ahead: Arc::default(), restarts: Arc::default() }
    }

    /// Restarts the machine: the monotonic clock begins again, and is not comparable with its readings before.
    pub fn restart_machine(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the clock's error.
    pub fn set_ahead(&self, seconds: i64) {
        *self.ahead.lock().unwrap() = seconds;
    }

    fn shifted(at: Instant, seconds: i64) -> Instant {
        let by = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { at.minus(by) } else { at.plus(by) }
    }

    /// The true time at which this clock shows `at`.
    pub fn true_time(&self, at: Instant) -> Instant {
        WrongClock::shifted(at, -*self.ahead.lock().unwrap())
    }
}

impl Clock for WrongClock {
    fn now(&self) -> Instant {
        WrongClock::shifted(self.truth.now(), *self.ahead.lock().unwrap())
    }

    /// Only the wall clock is wrong.
    fn reading(&self) -> ClockReading {
        let boot = |monotonic: MonotonicReading| MonotonicReading {
            boot: monotonic.boot + self.restarts.load(Ordering::Relaxed),
            ..monotonic
        };
        ClockReading { wall: self.now(), monotonic: self.truth.reading().monotonic.map(boot) }
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let when = self.true_time(when);
        Box::pin(async move { self.truth.sleep_until(when).await })
    }
}
