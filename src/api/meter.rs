//! What the client asks before every attempt and tells after it: the seam to the RU ledger and the hold.
//!
//! The client never sends a request that was not admitted. Admission is durable when it returns, so a killed process
//! never under-counts what the service charged.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use crate::model::Purpose;
use crate::model::{Instant, Ru};

/// A boxed future, so that the meter can be a trait object.
pub type MeterFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An attempt that is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What it costs when it succeeds.
    pub cost: Ru,
    /// What it is for.
    pub purpose: Purpose,
}

/// Why an attempt may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The window's budget is spent, as far as this purpose may spend it.
    #[error("the RU budget of this window is spent; it refills at {refills_at}")]
    Budget {
        /// When the next window begins.
        refills_at: Instant,
    },
    /// The service asked to wait, for longer than is waited for here.
    #[error("the service asked to wait until {until}")]
    Hold {
        /// The end of the hold.
        until: Instant,
    },
    /// The program is ending.
    #[error("the program is stopping")]
    Stopping,
    /// The ledger could not be written, so nothing may be sent.
    #[error("the RU ledger could not be written")]
    Ledger,
}

/// What became of an admitted attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A success status, whatever came of the body: the service charged it.
    Charged,
    /// No answer, or a gateway's: the service may have charged it.
    Unknown,
    /// No connection came about, so the service never saw it.
    NotSent,
    /// An error status.
    Failed,
}

/// A wait that an answer asked for, whatever its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedHold {
    /// For that long.
    For(Duration),
    /// A 429 that names no time.
    Unspecified,
}

impl RequestedHold {
    /// The time, where one was named.
    pub fn wait(self) -> Option<Duration> {
        match self {
            RequestedHold::For(wait) => Some(wait),
            RequestedHold::Unspecified => None,
        }
    }
}

/// An attempt that was admitted, and the budget window that it was charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The attempt.
    pub attempt: Attempt,
    /// The window's number: what an attempt in an earlier window turns out not to cost is not credited to a later one.
    pub window: u32,
}

/// The RU ledger and the hold, as the client sees them.
pub trait Meter: Send + Sync {
    /// Waits out a short hold, then enters the attempt in the ledger.
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>>;
    /// Enters what became of an admitted attempt.
    fn settle(&self, admission: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()>;
    /// Holds every further request.
    fn hold(&self, requested: RequestedHold) -> MeterFuture<'_, ()>;
}
