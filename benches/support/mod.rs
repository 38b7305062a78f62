//! What the measurements share: the service that answers, the two programs that are compared, and child processes, so
//! that each side's memory is its own.

pub mod child;
pub mod engine;
pub mod idle;
pub mod report;
pub mod same_work;
pub mod service;
pub mod straight_line;

use serde::{Deserialize, Serialize};

/// What went wrong; a measurement only reports it.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What one child measured of itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// From opening the file to having closed it.
    pub seconds: f64,
    /// From opening the file to having stored the last page; what is derived from rows is built after that.
    pub lists_seconds: f64,
    /// The processor time of all threads: what other programs do at the same time hardly changes it.
    pub processor_seconds: f64,
    /// Rows read.
    pub rows: u64,
    /// Requests sent, at 1 RU each.
    pub ru: u64,
    /// The most memory the process ever had resident (`VmHWM`).
    pub peak_kib: u64,
    /// Bytes that the process caused to be written to files, checkpoints included.
    pub written_bytes: u64,
}

impl Measured {
    /// Peak memory in MiB.
    pub fn peak_mib(&self) -> f64 {
        self.peak_kib as f64 / 1024.0
    }

    /// MiB written.
    pub fn written_mib(&self) -> f64 {
        self.written_bytes as f64 / f64::from(1 << 20)
    }
}

/// The most memory this process ever had resident; 0 where the system does not tell.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The processor time of all threads of this process so far.
pub fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes that this process has caused to be written so far; 0 where the system does not tell.
pub fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// The middle of some numbers.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}
