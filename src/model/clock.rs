//! Time as an argument: the real clock for the program, another one for tests.
//!
//! The wall clock gives the time of day; it may be set forward or back at any moment. The monotonic clock measures how
//! much time has passed: it counts since the machine was started, sleep included, and means nothing after a restart of
//! the machine. A [`ClockReading`] holds both.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::instant::Instant;

/// A reading of the monotonic clock, comparable with other readings of the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonotonicReading {
    pub boot: u32,
    pub micros: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    pub wall: Instant,
    pub monotonic: Option<MonotonicReading>,
}

impl ClockReading {
    /// How long after `earlier` this is by the monotonic clock, if both readings are of one boot. Never negative.
    pub fn measured_since(&self, earlier: &ClockReading) -> Option<Duration> {
        let (now, then) = self.monotonic.zip(earlier.monotonic).filter(|(now, then)| now.boot == then.boot)?;
        Some(Duration::from_micros(now.micros.saturating_sub(then.micros)))
    }

    /// The same, by the wall clock if the monotonic one does not say.
    pub fn since(&self, earlier: &ClockReading) -> Duration {
        self.measured_since(earlier).unwrap_or_else(|| self.wall.since(earlier.wall))
    }
}

/// A wall clock alone, for code that only reads stored times.
impl From<Instant> for ClockReading {
    fn from(wall: Instant) -> ClockReading {
        ClockReading { wall, monotonic: None }
    }
}

pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Instant;
    fn reading(&self) -> ClockReading {
        self.now().into()
    }
    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::system_now()
    }

    fn reading(&self) -> ClockReading {
        ClockReading { wall: self.now(), monotonic: system_monotonic() }
    }
}

/// The monotonic clock of the machine, with the number of the boot. Where that cannot be read, as with `ProcSubset=pid` in a
/// unit, each process counts as a new boot.
fn system_monotonic() -> Option<MonotonicReading> {
    static BOOT: OnceLock<u32> = OnceLock::new();
    let boot = *BOOT.get_or_init(|| boot_number().unwrap_or_else(|| fastrand::u32(..)));
    // Unlike the usual monotonic clock, this one counts the time that the machine sleeps.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let micros = u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000)? + u64::try_from(time.tv_nsec).ok()? / 1000;
    Some(MonotonicReading { boot, micros })
}

/// A number derived from the kernel's boot id, if that can be read.
pub fn boot_number() -> Option<u32> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u32::from_str_radix(id.get(..8)?, 16).ok()
}
