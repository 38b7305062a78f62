//! A meter without a mirror, and therefore without a ledger: it counts, and stops sending after a rate limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::admission::{Admission, AdmissionError, Attempt, AttemptOutcome, Meter, MeterFuture, RequestedHold};
use crate::budget::Hold;
use crate::model::{Clock, RequestRegister};

/// Counts requests.
#[derive(Debug)]
pub(super) struct UnrecordedMeter {
    clock: Arc<dyn Clock>,
    spent: AtomicU64,
    hold: Mutex<Option<Hold>>,
    requests: RequestRegister,
}

impl UnrecordedMeter {
    /// A meter with nothing spent.
    pub(super) fn new(clock: Arc<dyn Clock>) -> UnrecordedMeter {
        UnrecordedMeter {
            clock,
            spent: AtomicU64::new(0),
            hold: Mutex::new(None),
            requests: RequestRegister::default(),
        }
    }

    /// Request units that may have been charged.
    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }
}

impl Meter for UnrecordedMeter {
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>> {
        let hold = *self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let result = match hold.and_then(|hold| hold.left(now)) {
            Some(left) => Err(AdmissionError::Hold { until: now.plus(left) }),
            None => {
                self.spent.fetch_add(attempt.cost.get(), Ordering::Relaxed);
                Ok(Admission { attempt, order: self.requests.begin() })
            }
        };
        Box::pin(std::future::ready(result))
    }

    fn settle(&self, admission: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()> {
        match outcome {
            AttemptOutcome::NotSent => {
                self.spent.fetch_sub(admission.attempt.cost.get(), Ordering::Relaxed);
            }
            AttemptOutcome::Charged | AttemptOutcome::Unknown | AttemptOutcome::Failed => {}
        }
        Box::pin(std::future::ready(()))
    }

    fn hold(&self, requested: RequestedHold) -> MeterFuture<'_, ()> {
        let hold = Hold::after(None, self.clock.now(), requested.wait());
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        Box::pin(std::future::ready(()))
    }
}
