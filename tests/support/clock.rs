//! The true time, which moves only when it is told to, and the mirror's clock: the true time plus an error that jumps.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crm_mirror::model::clock::{ClockReading, MonotonicReading};
use crm_mirror::model::{Clock, Instant};

/// A clock that moves only by its methods; waiting on it advances it to the end of the wait.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<ManualTime>>);

#[derive(Clone, Debug)]
struct ManualTime {
    wall: Instant,
    machine: u32,
    passed: Duration,
}

impl ManualTime {
    /// Lets time pass until the wall clock shows `to`; setting it back takes no time.
    fn pass_until(&mut self, to: Instant) {
        self.passed = self.passed.saturating_add(to.since(self.wall));
        self.wall = to;
    }
}

impl ManualClock {
    /// A clock that shows `now`. Each such clock is a separate machine.
    pub fn at(now: Instant) -> ManualClock {
        static MACHINES: AtomicU32 = AtomicU32::new(0);
        let machine = MACHINES.fetch_add(1, Ordering::Relaxed);
        ManualClock(Arc::new(Mutex::new(ManualTime { wall: now, machine, passed: Duration::ZERO })))
    }

    /// The same machine at the same time, from now on with a time of its own.
    pub fn separate(&self) -> ManualClock {
        ManualClock(Arc::new(Mutex::new(self.time().clone())))
    }

    fn time(&self) -> MutexGuard<'_, ManualTime> {
        self.0.lock().unwrap()
    }

    pub fn advance(&self, by: Duration) {
        let mut time = self.time();
        let to = time.wall.plus(by);
        time.pass_until(to);
    }

    /// Lets time pass until the clock shows `to`, or sets the clock back.
    pub fn set(&self, to: Instant) {
        self.time().pass_until(to);
    }

    /// Sets the wall clock, forward or back, without any time passing.
    pub fn jump(&self, to: Instant) {
        self.time().wall = to;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.time().wall
    }

    fn reading(&self) -> ClockReading {
        let time = self.time();
        let micros = u64::try_from(time.passed.as_micros()).unwrap_or(u64::MAX);
        ClockReading { wall: time.wall, monotonic: Some(MonotonicReading { boot: time.machine, micros }) }
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            {
                let mut time = self.time();
                let to = time.wall.max(when);
                time.pass_until(to);
            }
            // Other tasks see the new time, as after a real wait.
            tokio::task::yield_now().await;
        })
    }
}

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
