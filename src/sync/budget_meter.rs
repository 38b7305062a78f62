//! The meter: lets the client spend RU as the ledger allows, and keeps the hold.
//!
//! # Invariants
//! - A request is durably in the ledger before it is sent: the ledger is written to the note in the lock file, which
//!   costs a write of a few bytes and no transaction, and to the mirror's file with the next transaction.
//! - So a kill leaves at most one request per walker that is counted but was not sent, and none that was sent but is
//!   not counted.
//! - During a hold no request is sent, by any process; the hold survives the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::events::{RunEvent, RunObserver};
use crate::api::admission::{Admission, AdmissionError, Attempt, AttemptOutcome, Meter, MeterFuture};
use crate::budget::{Hold, Ledger, Limits, kept_with_edits, most_reserved};
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant, Purpose, Ru};
use crate::store::{MirrorTx, ReadTx, StateKey, Store, StoreError};

pub const LEDGER: StateKey = StateKey::Ledger;

pub struct BudgetMeter {
    store: Store,
    clock: Arc<dyn Clock>,
    limits: Limits,
    patience: Duration,
    observer: Arc<dyn RunObserver>,
    book: Mutex<MeterBook>,
    /// Whether no request is sent any more. Who waits for a hold is woken when that changes, and when the hold does.
    stop: watch::Sender<bool>,
}

/// Under one lock, so that a charge is decided by one moment of all of it.
struct MeterBook {
    ledger: Ledger,
    /// The number of a window, and what is reserved in it and in each one after it.
    reserve: (u32, [Ru; 2]),
    /// What the waiting edits will cost; `None` where edits are not sent.
    for_edits: Option<Ru>,
}

impl std::fmt::Debug for BudgetMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BudgetMeter").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl BudgetMeter {
    /// Opens the meter with the ledger and the hold of the last process. A hold of up to `patience` is waited for, but not with
    /// edits; a longer one suspends the run.
    pub async fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        limits: Limits,
        patience: Duration,
        observer: Arc<dyn RunObserver>,
    ) -> Result<BudgetMeter, StoreError> {
        let stored = store.read(stored_ledger).await?;
        let ledger = later(stored, store.lock.found.as_deref()).at(clock.reading(), &limits);
        let (stop, _) = watch::channel(false);
        let reserve = (ledger.window, [Ru::ZERO; 2]);
        let book = Mutex::new(MeterBook { ledger, reserve, for_edits: None });
        let meter = BudgetMeter { store, clock, limits, patience, observer, book, stop };
        // It is noted: otherwise the day would begin again with every process.
        meter.set_hold(|ledger| ledger.hold.map(|hold| hold.by_clock(ledger.steady_time())));
        Ok(meter)
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reserves RU for later runs: in this window, and in the next one, which a run may go on in.
    pub fn set_reserve(&self, reserve: [Ru; 2]) {
        let window = self.ledger().window;
        self.book().reserve = (window, reserve);
    }

    /// Reserves RU for edits that are waiting to be sent, and at least a share for later ones.
    pub fn keep_for_edits(&self, units: Ru) {
        self.book().for_edits = Some(units);
    }

    /// Stops sending requests: answers that are on their way are stored, then the run ends.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Allows requests again, for the next run.
    pub fn resume(&self) {
        self.stop.send_replace(false);
    }

    fn book(&self) -> MutexGuard<'_, MeterBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ledger(&self) -> Ledger {
        self.book().ledger.at(self.clock.reading(), &self.limits)
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
        let mut book = self.book();
        let ledger = book.ledger.at(self.clock.reading(), &self.limits);
        book.ledger = Ledger { set_back: ledger.set_back.saturating_sub(by), ..ledger };
    }

    /// When the budget refills, as the clock will show it, if nothing of it is left.
    pub fn empty_until(&self) -> Option<Instant> {
        let (now, limits) = (self.clock.reading(), &self.limits);
        let ledger = self.book().ledger.at(now, limits);
        (limits.limit.saturating_sub(ledger.used) == Ru::ZERO).then(|| ledger.refills_at_by(limits, now.wall))
    }

    /// Writes the ledger to the mirror's file, in the given transaction.
    pub fn enter(&self, tx: &MirrorTx<'_>) -> Result<(), StoreError> {
        let ledger = self.book().ledger;
        tx.set_state(&LEDGER, &ledger)
    }

    /// Hands what was spent, and the hold, over to a file that takes the place of the known one. Its own ledger may be of an
    /// earlier time, as in a backup.
    pub fn hand_over(&self, tx: &MirrorTx<'_>) -> Result<(), StoreError> {
        if stored_ledger(tx)?.total > self.ledger().total { Ok(()) } else { self.enter(tx) }
    }

    /// An edit waits in the outbox, where it can still be dropped.
    async fn wait_out_hold(&self, purpose: Purpose) -> Result<(), AdmissionError> {
        let patience = if purpose == Purpose::Outbox { Duration::ZERO } else { self.patience };
        let mut changed = self.stop.subscribe();
        loop {
            if *changed.borrow_and_update() {
                return Err(AdmissionError::Stopping);
            }
            let now = self.clock.now();
            let Some(until) = self.ledger().hold_left().map(|left| now.plus(left)) else { return Ok(()) };
            if until.since(now) > patience {
                return Err(AdmissionError::Hold { until, tries: 0 });
            }
            self.observer.on(RunEvent::Holding { until });
            tokio::select! {
                () = self.clock.sleep_until(until) => {}
                _ = changed.changed() => {}
            }
        }
    }

    fn charge(&self, attempt: Attempt) -> Result<Admission, AdmissionError> {
        let (mut book, now, limits) = (self.book(), self.clock.reading(), &self.limits);
        book.ledger = book.ledger.at(now, limits);
        let reserve = book.reserve(attempt.purpose, limits.limit);
        let charged =
            book.ledger.charge(now, attempt.cost, attempt.purpose, limits, reserve).map_err(|refills_at| {
                let left = limits.limit.saturating_sub(book.ledger.used);
                AdmissionError::Budget { left, refills_at }
            })?;
        if let Err(error) = self.note(&charged) {
            tracing::error!("The RU ledger could not be written: {}", error_chain(&error));
            return Err(AdmissionError::Ledger);
        }
        book.ledger = charged;
        Ok(Admission { attempt, order: self.store.requests.begin() })
    }

    /// Records that a charged request is no longer under way, and refunds it if it cost nothing.
    fn end(&self, cost: Ru, outcome: AttemptOutcome) {
        let cost_nothing = match outcome {
            AttemptOutcome::NotSent => true,
            AttemptOutcome::Failed => !self.limits.charge_failed,
            AttemptOutcome::Charged | AttemptOutcome::Unknown => false,
        };
        let mut book = self.book();
        book.ledger = book.ledger.at(self.clock.reading(), &self.limits).ended(cost);
        if cost_nothing {
            let refunded = book.ledger.refund(cost);
            // If the note cannot be written, the charge remains after a kill: that is the safe side.
            if self.note(&refunded).is_ok() {
                book.ledger = refunded;
            }
        }
    }

    fn note(&self, ledger: &Ledger) -> Result<(), StoreError> {
        let note =
            serde_json::to_string(ledger).map_err(|source| StoreError::State { name: LEDGER.to_string(), source })?;
        self.store.lock.note(&note)
    }

    /// Ends the hold, for a person who knows that the service answers again.
    pub async fn clear_hold(self: Arc<Self>) -> Result<(), StoreError> {
        self.set_hold(|_| None);
        self.note(&self.book().ledger)?;
        let meter = self.clone();
        self.store.write(move |tx| meter.enter(tx)).await
    }

    fn set_hold(&self, next: impl FnOnce(&Ledger) -> Option<Hold>) {
        let mut book = self.book();
        let ledger = book.ledger.at(self.clock.reading(), &self.limits);
        book.ledger = Ledger { hold: next(&ledger), ..ledger };
        if book.ledger.hold == ledger.hold {
            return;
        }
        if let Err(error) = self.note(&book.ledger) {
            // It applies to this process anyway.
            tracing::warn!("A hold could not be stored: {}", error_chain(&error));
        }
        drop(book);
        self.stop.send_modify(|_| {});
    }
}

impl MeterBook {
    /// What is reserved from a purpose: for runs, and from all but edits for edits too. Edits may wait for a long time, and
    /// the rest must not wait for them.
    fn reserve(&self, purpose: Purpose, limit: Ru) -> Ru {
        let (window, [reserve, later]) = self.reserve;
        let reserve = if window == self.ledger.window { reserve } else { later }.min(most_reserved(limit));
        let waiting = self.for_edits.filter(|_| purpose != Purpose::Outbox);
        waiting.map_or(reserve, |waiting| kept_with_edits(reserve, waiting, limit))
    }
}

/// The later of the stored ledger and the note. The note is ahead during a run and after a kill, the file after the note's
/// file was restored, and for who took the lock before. What was written last knows the hold, which a person may have ended;
/// a refund lowers the total.
pub fn later(stored: Ledger, note: Option<&str>) -> Ledger {
    let Some(noted) = note.and_then(|note| serde_json::from_str::<Ledger>(note).ok()) else { return stored };
    let hold = if noted.steady_time() >= stored.steady_time() { noted.hold } else { stored.hold };
    Ledger { hold, ..if noted.total > stored.total { noted } else { stored } }
}

fn stored_ledger(tx: &ReadTx<'_>) -> Result<Ledger, StoreError> {
    Ok(tx.state(&LEDGER)?.unwrap_or_default())
}

impl Meter for BudgetMeter {
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>> {
        Box::pin(async move {
            self.wait_out_hold(attempt.purpose).await?;
            self.charge(attempt)
        })
    }

    fn settle(&self, admission: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()> {
        self.end(admission.attempt.cost, outcome);
        Box::pin(async move {
            if outcome != AttemptOutcome::Charged {
                return;
            }
            // A good answer that was already on its way when another was refused does not end the hold.
            self.set_hold(|ledger| ledger.hold.filter(|_| ledger.hold_left().is_some()));
        })
    }

    fn hold(&self, wait: Option<Duration>) -> MeterFuture<'_, ()> {
        Box::pin(async move {
            self.set_hold(|ledger| Some(Hold::after(ledger.hold, ledger.steady_time(), wait)));
            // Durably, too: nothing flushes the note, and the next page may come after the hold.
            let ledger = self.book().ledger;
            let stored = self.store.write(move |tx| match stored_ledger(tx)?.total > ledger.total {
                true => Ok(()),
                false => tx.set_state(&LEDGER, &ledger),
            });
            if let Err(error) = stored.await {
                tracing::warn!("A hold could not be stored: {}", error_chain(&error));
            }
        })
    }
}
