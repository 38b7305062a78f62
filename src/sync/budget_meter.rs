//! The meter: lets the client spend RU as the ledger allows, and keeps the hold.
//!
//! # Invariants
//! - A request is durably in the ledger before it is sent: the ledger is written to the note in the lock file, which
//!   costs a write of a few bytes and no transaction, and to the mirror's file with the next transaction.
//! - So a kill leaves at most one request per walker that is counted but was not sent, and none that was sent but is
//!   not counted.
//! - During a hold no request is sent, by any process; the hold survives the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::events::{RunEvent, RunObserver};
use crate::api::admission::{Admission, AdmissionError, Attempt, AttemptOutcome, Meter, MeterFuture, RequestedHold};
use crate::budget::{Hold, Ledger, Limits, most_reserved};
use crate::model::{Clock, Instant, Purpose, Ru};
use crate::store::{MirrorTx, ReadTx, StateKey, Store, StoreError};

pub const LEDGER: StateKey = StateKey::Ledger;
pub const HOLD: StateKey = StateKey::Hold;

pub struct BudgetMeter {
    store: Store,
    clock: Arc<dyn Clock>,
    limits: Limits,
    patience: Duration,
    observer: Arc<dyn RunObserver>,
    /// The number of a window, and what is reserved in it and in each one after it.
    reserve: Mutex<(u32, [Ru; 2])>,
    for_edits: AtomicU64,
    /// The total of the ledger up to which requests are sent.
    most_total: AtomicU64,
    ledger: Mutex<Ledger>,
    hold: Mutex<Option<Hold>>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for BudgetMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BudgetMeter").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl BudgetMeter {
    /// Opens the meter with the ledger and the hold of the last process. A hold of up to `patience` is waited for; a
    /// longer one suspends the run.
    pub async fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        limits: Limits,
        patience: Duration,
        observer: Arc<dyn RunObserver>,
    ) -> Result<BudgetMeter, StoreError> {
        let (found_hold, stored) = store.read(|tx| Ok((tx.state::<Hold>(&HOLD)?, stored_ledger(tx)?))).await?;
        let now = clock.reading();
        let found = later(stored, store.lock().found());
        let ledger = found.at(now, &limits);
        let hold = found_hold.map(|hold| hold.by_clock(ledger.steady_time()));
        let (stop, _) = watch::channel(false);
        let meter = BudgetMeter {
            store,
            clock,
            limits,
            patience,
            observer,
            reserve: Mutex::new((ledger.window, [Ru::ZERO; 2])),
            for_edits: AtomicU64::new(0),
            most_total: AtomicU64::new(u64::MAX),
            ledger: Mutex::new(ledger),
            hold: Mutex::new(hold),
            stop,
        };
        if hold != found_hold {
            // Otherwise the day would begin anew with every process.
            meter.store_hold(hold).await;
        }
        Ok(meter)
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reserves RU for later runs: in this window, and in the next one, which a run may go on in.
    pub fn set_reserve(&self, reserve: [Ru; 2]) {
        let window = self.ledger().window;
        *self.reserve.lock().unwrap_or_else(PoisonError::into_inner) = (window, reserve);
    }

    /// Lets this process spend so much from now on, whatever the budget has.
    pub fn limit_run(&self, units: Ru) {
        self.most_total.store(self.ledger().total.get().saturating_add(units.get()), Ordering::Relaxed);
    }

    /// Reserves RU for edits that are waiting to be sent.
    pub fn keep_for_edits(&self, units: Ru) {
        self.for_edits.store(units.get(), Ordering::Relaxed);
    }

    /// What is reserved from a purpose: for runs, and from all but edits for edits too. Edits may wait for a long time, and
    /// the rest must not wait for them.
    fn reserve(&self, purpose: Purpose, window: u32) -> Ru {
        let (of, [reserve, later]) = *self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let for_edits = if purpose == Purpose::Outbox { 0 } else { self.for_edits.load(Ordering::Relaxed) };
        let wanted = (if window == of { reserve } else { later }) + Ru::new(for_edits);
        wanted.min(most_reserved(self.limits.limit))
    }

    /// Stops sending requests: answers that are on their way are stored, then the run ends.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Allows requests again, for the next run.
    pub fn resume(&self) {
        self.stop.send_replace(false);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    fn ledger_mut(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ledger(&self) -> Ledger {
        self.ledger_mut().at(self.clock.reading(), &self.limits)
    }

    /// Dates claims back by as much as the wall clock was set back, and enters the ledger. Returns by how much, for
    /// [`BudgetMeter::claims_are_dated_back`] once that is committed.
    pub fn date_claims_back(&self, tx: &MirrorTx<'_>) -> Result<Duration, StoreError> {
        let ledger = self.ledger();
        if !ledger.set_back.is_zero() {
            tx.claims().date_claims_back(ledger.set_back)?;
        }
        tx.set_state(&LEDGER, &Ledger { set_back: Duration::ZERO, ..ledger })?;
        Ok(ledger.set_back)
    }

    pub fn claims_are_dated_back(&self, by: Duration) {
        let mut book = self.ledger_mut();
        let ledger = book.at(self.clock.reading(), &self.limits);
        *book = Ledger { set_back: ledger.set_back.saturating_sub(by), ..ledger };
    }

    /// When the budget refills, as the clock will show it, if nothing of it is left.
    pub fn empty_until(&self) -> Option<Instant> {
        let (now, limits) = (self.clock.reading(), &self.limits);
        let ledger = self.ledger_mut().at(now, limits);
        (limits.limit.saturating_sub(ledger.used) == Ru::ZERO).then(|| ledger.refills_at_by(limits, now.wall))
    }

    /// Writes the ledger to the mirror's file, in the given transaction.
    pub fn enter(&self, tx: &MirrorTx<'_>) -> Result<(), StoreError> {
        let ledger = *self.ledger_mut();
        tx.set_state(&LEDGER, &ledger)
    }

    /// Hands what was spent, and the hold, over to a file that takes the place of the known one. Its own ledger may be of an
    /// earlier time, as in a backup.
    pub fn hand_over(&self, tx: &MirrorTx<'_>) -> Result<(), StoreError> {
        let (ledger, hold) = (self.ledger(), *self.hold.lock().unwrap_or_else(PoisonError::into_inner));
        if stored_ledger(tx)?.total > ledger.total {
            return Ok(());
        }
        tx.set_state(&LEDGER, &ledger)?;
        hold.map_or(Ok(()), |hold| tx.set_state(&HOLD, &hold))
    }

    /// How long no request is sent; `None` if there is no hold.
    pub fn hold_left(&self) -> Option<Duration> {
        let elapsed = self.ledger().steady_time();
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).and_then(|hold| hold.left(elapsed))
    }

    async fn wait_out_hold(&self) -> Result<(), AdmissionError> {
        loop {
            if self.is_stopping() {
                return Err(AdmissionError::Stopping);
            }
            let now = self.clock.now();
            let Some(until) = self.hold_left().map(|left| now.plus(left)) else { return Ok(()) };
            if until.since(now) > self.patience {
                return Err(AdmissionError::Hold { until, tries: 0 });
            }
            self.observer.on(RunEvent::Holding { until });
            let mut stop = self.stop.subscribe();
            tokio::select! {
                () = self.clock.sleep_until(until) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
    }

    fn charge(&self, attempt: Attempt) -> Result<Admission, AdmissionError> {
        let (mut book, now) = (self.ledger_mut(), self.clock.reading());
        *book = book.at(now, &self.limits);
        if (book.total + attempt.cost).get() > self.most_total.load(Ordering::Relaxed) {
            return Err(AdmissionError::RunLimit);
        }
        let charged = book
            .charge(now, attempt.cost, attempt.purpose, &self.limits, self.reserve(attempt.purpose, book.window))
            .map_err(|refills_at| {
                let left = self.limits.limit.saturating_sub(book.used);
                AdmissionError::Budget { left, refills_at }
            })?;
        if let Err(error) = self.note(&charged) {
            tracing::error!(%error, "The RU ledger could not be written: {error}");
            return Err(AdmissionError::Ledger);
        }
        *book = charged;
        Ok(Admission { attempt, order: self.store.requests().begin() })
    }

    /// Records that a charged request is no longer under way, and refunds it if it cost nothing.
    fn end(&self, cost: Ru, outcome: AttemptOutcome) {
        let cost_nothing = match outcome {
            AttemptOutcome::NotSent => true,
            AttemptOutcome::Failed => !self.limits.charge_failed,
            AttemptOutcome::Charged | AttemptOutcome::Unknown => false,
        };
        let mut book = self.ledger_mut();
        *book = book.at(self.clock.reading(), &self.limits).ended(cost);
        if cost_nothing {
            let refunded = book.refund(cost);
            // If the note cannot be written, the charge remains after a kill: that is the safe side.
            if self.note(&refunded).is_ok() {
                *book = refunded;
            }
        }
    }

    fn note(&self, ledger: &Ledger) -> Result<(), StoreError> {
        let note =
            serde_json::to_string(ledger).map_err(|source| StoreError::State { name: LEDGER.to_string(), source })?;
        self.store.lock().note(&note)
    }

    /// Ends the hold, for a person who knows that the service answers again.
    pub async fn clear_hold(&self) {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.store_hold(None).await;
    }

    async fn store_hold(&self, hold: Option<Hold>) {
        let stored = self.store.write(move |tx| match hold {
            Some(hold) => tx.set_state(&HOLD, &hold),
            None => tx.clear_state(&HOLD),
        });
        if let Err(error) = stored.await {
            // It applies to this process anyway.
            tracing::warn!(%error, "A hold could not be stored: {error}");
        }
    }
}

/// The later of the stored ledger and the note. Both only grow: the note is ahead during a run and after a kill, the
/// file after the note's file was restored.
pub fn later(stored: Ledger, note: Option<&str>) -> Ledger {
    let noted: Option<Ledger> = note.and_then(|note| serde_json::from_str(note).ok());
    noted.filter(|noted| noted.total > stored.total).unwrap_or(stored)
}

fn stored_ledger(tx: &ReadTx<'_>) -> Result<Ledger, StoreError> {
    Ok(tx.state(&LEDGER)?.unwrap_or_default())
}

impl Meter for BudgetMeter {
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>> {
        Box::pin(async move {
            self.wait_out_hold().await?;
            self.charge(attempt)
        })
    }

    fn settle(&self, admission: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()> {
        self.end(admission.attempt.cost, outcome);
        Box::pin(async move {
            if outcome != AttemptOutcome::Charged {
                return;
            }
            let elapsed = self.ledger().steady_time();
            let over = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take_if(|hold| {
                // A good answer that was already on its way when another was refused does not end the hold.
                hold.left(elapsed).is_none()
            });
            if over.is_some() {
                self.store_hold(None).await;
            }
        })
    }

    fn hold(&self, requested: RequestedHold) -> MeterFuture<'_, ()> {
        Box::pin(async move {
            let elapsed = self.ledger().steady_time();
            let hold = {
                let mut known = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
                let hold = Hold::after(*known, elapsed, requested.wait());
                *known = Some(hold);
                hold
            };
            self.store_hold(Some(hold)).await;
        })
    }
}
