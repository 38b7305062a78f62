//! A meter for where there is no mirror, and so no ledger: it counts, and keeps quiet once the service asked for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::meter::{Admission, AdmissionError, Attempt, AttemptOutcome, Meter, MeterFuture, RequestedHold};
use crate::budget::Hold;
use crate::model::Clock;

/// Counts what is sent.
#[derive(Debug)]
pub struct UnrecordedMeter {
    clock: Arc<dyn Clock>,
    spent: AtomicU64,
    hold: Mutex<Option<Hold>>,
}

impl UnrecordedMeter {
    /// Nothing spent yet.
    pub fn new(clock: Arc<dyn Clock>) -> UnrecordedMeter {
        UnrecordedMeter { clock, spent: AtomicU64::new(0), hold: Mutex::new(None) }
    }

    /// Request units that may have been charged.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }
}

impl Meter for UnrecordedMeter {
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>> {
        let hold = *self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match hold {
            Some(hold) => Err(AdmissionError::Hold { until: hold.until }),
            None => {
                self.spent.fetch_add(attempt.cost.get(), Ordering::Relaxed);
                Ok(Admission { attempt, window: 0 })
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
        let hold = Hold::after(None, self.clock.reading(), requested.wait());
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        Box::pin(std::future::ready(()))
    }
}
