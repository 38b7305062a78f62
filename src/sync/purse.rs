//! The purse: lets the client spend request units, as the ledger in the mirror's file allows, and keeps the hold.
//!
//! # Always true
//! - A request is in the ledger, on disk, before it is sent.
//! - A walker may have one request paid ahead, in the transaction of the page before: so a page costs one transaction,
//!   and a kill leaves at most one request per walker counted and never sent.
//! - During a hold nothing is sent, by anyone; the hold outlives the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::observe::{Event, Observer};
use crate::api::meter::{Attempt, Meter, Outcome, Pending, Refused};
use crate::budget::{Hold, Ledger, Limits};
use crate::model::{Clock, Instant, Purpose, Ru};
use crate::store::{Batch, Store, StoreError};

/// The state entry of the ledger.
pub const LEDGER: &str = "ledger";
/// The state entry of the hold.
pub const HOLD: &str = "hold";

/// A request paid ahead: good until its window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    charged_in: Instant,
    good_until: Instant,
}

impl Credit {
    /// Whether the credit pays for a request that is sent at `now`.
    pub fn is_good(&self, now: Instant) -> bool {
        now >= self.charged_in && now < self.good_until
    }
}

/// The ledger and the hold of one mirror.
pub struct Purse {
    store: Store,
    clock: Arc<dyn Clock>,
    limits: Limits,
    patience: Duration,
    observer: Arc<dyn Observer>,
    reserve: AtomicU64,
    spent: AtomicU64,
    hold: Mutex<Option<Hold>>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Purse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Purse")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Purse {
    /// Opens the purse: takes over ledger and hold as the last process left them. A hold of up to `patience` is waited
    /// for; a longer one ends the run.
    ///
    /// # Errors
    /// If the mirror cannot be read.
    pub async fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        limits: Limits,
        patience: Duration,
        observer: Arc<dyn Observer>,
    ) -> Result<Purse, StoreError> {
        let hold = store.write(|batch| batch.state(HOLD)).await?;
        let (stop, _) = watch::channel(false);
        Ok(Purse {
            store,
            clock,
            limits,
            patience,
            observer,
            reserve: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            hold: Mutex::new(hold),
            stop,
        })
    }

    /// What may be spent.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Keeps request units back for runs still to come in this window.
    pub fn set_reserve(&self, reserve: Ru) {
        self.reserve.store(reserve.get(), Ordering::Relaxed);
    }

    fn reserve(&self) -> Ru {
        Ru::new(self.reserve.load(Ordering::Relaxed))
    }

    /// What this process has spent so far.
    pub fn spent(&self) -> Ru {
        Ru::new(self.spent.load(Ordering::Relaxed))
    }

    fn spend(&self, cost: Ru) {
        self.spent.fetch_add(cost.get(), Ordering::Relaxed);
    }

    fn unspend(&self, cost: Ru) {
        self.spent.fetch_sub(cost.get(), Ordering::Relaxed);
    }

    /// Lets nothing more be sent: what is under way is stored, then the run ends.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether [`Purse::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// The ledger as it stands now.
    ///
    /// # Errors
    /// If the mirror cannot be read.
    pub async fn ledger(&self) -> Result<Ledger, StoreError> {
        let (now, limits) = (self.clock.now(), self.limits);
        self.store.write(move |batch| Ok(ledger(batch)?.at(now, &limits))).await
    }

    /// Pays for a walker's next request in the transaction of the page before it; `None` if the budget does not allow.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn prepay(&self, batch: &Batch<'_>, purpose: Purpose) -> Result<Option<Credit>, StoreError> {
        let now = self.clock.now();
        match ledger(batch)?.charge(now, Ru::GET, purpose, &self.limits, self.reserve()) {
            Ok(ledger) => {
                batch.set_state(LEDGER, &ledger)?;
                self.spend(Ru::GET);
                Ok(Some(Credit {
                    charged_in: ledger.since,
                    good_until: ledger.refills_at(&self.limits),
                }))
            }
            Err(_) => Ok(None),
        }
    }

    /// Gives back a credit that was not used.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn give_back(&self, batch: &Batch<'_>, credit: Credit) -> Result<(), StoreError> {
        let refunded = ledger(batch)?.refund(credit.charged_in, Ru::GET);
        self.unspend(Ru::GET);
        batch.set_state(LEDGER, &refunded)
    }

    /// Waits until no hold binds.
    async fn wait_for_quiet(&self) -> Result<(), Refused> {
        loop {
            if self.is_stopping() {
                return Err(Refused::Stopping);
            }
            let now = self.clock.now();
            let hold = *self.hold.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((hold, left)) = hold.and_then(|hold| Some((hold, hold.left(now)?))) else {
                return Ok(());
            };
            if left > self.patience {
                return Err(Refused::Hold { until: hold.until });
            }
            self.observer.on(Event::Holding { until: hold.until });
            let mut stop = self.stop.subscribe();
            tokio::select! {
                () = self.clock.sleep_until(hold.until) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
    }

    async fn charge(&self, attempt: Attempt) -> Result<(), Refused> {
        let (now, limits, reserve) = (self.clock.now(), self.limits, self.reserve());
        let charged = self.store.write(move |batch| {
            Ok(
                match ledger(batch)?.charge(now, attempt.cost, attempt.purpose, &limits, reserve) {
                    Ok(ledger) => {
                        batch.set_state(LEDGER, &ledger)?;
                        Ok(())
                    }
                    Err(refills_at) => Err(Refused::Budget { refills_at }),
                },
            )
        });
        let charged = charged.await.unwrap_or_else(|error| {
            tracing::error!(%error, "The RU ledger could not be written");
            Err(Refused::Ledger)
        });
        if charged.is_ok() {
            self.spend(attempt.cost);
        }
        charged
    }

    /// Stores what an attempt's end changes, if it changes anything.
    async fn enter(&self, attempt: Attempt, refund: bool, hold: Option<Option<Hold>>) {
        if !refund && hold.is_none() {
            return;
        }
        if refund {
            self.unspend(attempt.cost);
        }
        let (now, limits) = (self.clock.now(), self.limits);
        let entered = self.store.write(move |batch| {
            if refund {
                let known = ledger(batch)?.at(now, &limits);
                batch.set_state(LEDGER, &known.refund(known.since, attempt.cost))?;
            }
            match hold {
                Some(Some(hold)) => batch.set_state(HOLD, &hold)?,
                Some(None) => batch.clear_state(HOLD)?,
                None => {}
            }
            Ok(())
        });
        if let Err(error) = entered.await {
            // The charge stands, and the hold binds this process: nothing is lost but a refund.
            tracing::warn!(%error, "The end of a request could not be entered");
        }
    }
}

/// The hold as it is stored.
///
/// # Errors
/// If SQLite refuses.
pub fn stored_hold(batch: &Batch<'_>) -> Result<Option<Hold>, StoreError> {
    batch.state(HOLD)
}

fn ledger(batch: &Batch<'_>) -> Result<Ledger, StoreError> {
    Ok(batch.state(LEDGER)?.unwrap_or_default())
}

impl Meter for Purse {
    fn admit(&self, attempt: Attempt) -> Pending<'_, Result<(), Refused>> {
        Box::pin(async move {
            self.wait_for_quiet().await?;
            if !attempt.prepaid {
                self.charge(attempt).await?;
                // The ledger took a moment: a hold or the end may have come meanwhile. The charge then stands for a
                // request that is not sent, which errs on the safe side.
                self.wait_for_quiet().await?;
            }
            Ok(())
        })
    }

    fn settle(&self, attempt: Attempt, outcome: Outcome) -> Pending<'_, ()> {
        Box::pin(async move {
            let failed_free = !self.limits.charge_failed;
            match outcome {
                Outcome::Unknown => {}
                Outcome::NotSent => self.enter(attempt, true, None).await,
                Outcome::Charged => {
                    let known = self
                        .hold
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take_if(|hold| {
                            // A good answer that was on its way when another was refused does not end the hold.
                            hold.left(self.clock.now()).is_none()
                        });
                    self.enter(attempt, false, known.map(|_| None)).await;
                }
                Outcome::Failed => self.enter(attempt, failed_free, None).await,
                Outcome::Held(wait) => {
                    let hold = {
                        let mut known = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
                        let hold = Hold::after(*known, self.clock.now(), wait);
                        *known = Some(hold);
                        hold
                    };
                    self.enter(attempt, failed_free, Some(Some(hold))).await;
                }
            }
        })
    }
}
