//! What the client asks before every attempt and reports after it: the interface to the RU ledger and the hold.
//!
//! The client never sends a request that was not admitted. Admission is durable when it returns, so a killed process
//! never under-counts what the service charged.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::model::{Instant, Purpose, RequestOrder, Ru};

/// A boxed future, so that the meter can be a trait object.
pub type MeterFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub cost: Ru,
    pub purpose: Purpose,
}

fn of_budget(left: Ru) -> String {
    match left {
        Ru::ZERO => "the RU budget of this window is spent".into(),
        left => format!("the {left} that are left in this window are reserved for scheduled runs"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The window's budget is spent, as far as this purpose may use it.
    #[error("{}; the window ends at {refills_at}", of_budget(*left))]
    Budget {
        /// What is left, and reserved for other purposes.
        left: Ru,
        refills_at: Instant,
    },
    #[error("the service asked to wait until {until}")]
    Hold {
        until: Instant,
        /// How often this request was sent before.
        tries: u32,
    },
    #[error("the program is stopping")]
    Stopping,
    #[error("the RU ledger could not be written")]
    Ledger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A success status, whatever its body: the service charged the request.
    Charged,
    /// No answer, or one of a gateway: the service may have charged the request.
    Unknown,
    /// The service never had it: the connection failed, or HTTP/2 guarantees that it was not processed.
    NotSent,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Admission {
    pub attempt: Attempt,
    pub order: RequestOrder,
}

pub trait Meter: Send + Sync {
    /// Waits for the end of a short hold, then records the attempt in the ledger. Every admitted attempt is settled once.
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>>;
    /// Records the outcome of an admitted attempt: in the ledger at once, the rest when the future is awaited.
    fn settle(&self, admission: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()>;
    /// Takes in a wait that an answer of any status requested; `None` of a 429 without a time.
    fn hold(&self, wait: Option<Duration>) -> MeterFuture<'_, ()>;
}

/// An attempt that is under way. If nobody waits for its answer any more, its outcome is unknown.
pub struct UnderWay<'a> {
    meter: &'a dyn Meter,
    admission: Option<Admission>,
}

impl<'a> UnderWay<'a> {
    pub fn new(meter: &'a dyn Meter, admission: Admission) -> UnderWay<'a> {
        UnderWay { meter, admission: Some(admission) }
    }

    pub async fn settle(mut self, outcome: AttemptOutcome) {
        if let Some(admission) = self.admission.take() {
            self.meter.settle(admission, outcome).await;
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            // The ledger is up to date when this returns; nothing else follows from an unknown outcome.
            drop(self.meter.settle(admission, AttemptOutcome::Unknown));
        }
    }
}
