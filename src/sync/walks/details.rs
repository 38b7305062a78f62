//! Details: what only `GET /…/{id}` carries, at 1 RU each, for records that are new or have changed; newest first, with
//! what the budget has left after the lists.
//!
//! Several requests are under way at once, as the client's pace allows. Each answer is one transaction.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::PoisonError;

use futures_util::future::join_all;

use crate::api::error::ApiError;
use crate::api::{DetailAnswer, ErrorClass, decode};
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::{FieldKind, Object, Purpose, Record, RecordId};
use crate::store::{Applied, StoreError, Tally};
use crate::sync::checks::removals::MANY_NOT_FOUND;
use crate::sync::error::{Asking, Suspension, SyncError};
use crate::sync::events::RunEvent;
use crate::sync::run::Run;
use crate::sync::tally::Noted;

/// Due details that are looked up at once.
const BATCH: usize = 500;

/// Old details that one run reads again at most.
const REFRESHED_AT_ONCE: usize = 50;

/// Records in a row whose detail the service failed to give, after which it counts as unavailable: one record that
/// always fails must not keep the others waiting.
const MOST_FAILURES: u32 = 3;

/// What reading a batch left behind.
struct Passed {
    /// Records whose detail could not be read.
    skipped: HashSet<RecordId>,
    /// Whether so many were not found that it looks like an outage.
    outage: bool,
}

/// What the workers of one batch share.
struct Queue {
    ids: Mutex<VecDeque<RecordId>>,
    skipped: Mutex<HashSet<RecordId>>,
    failures: Mutex<u32>,
    gone: Mutex<Vec<RecordId>>,
}

impl Queue {
    fn pop(&self) -> Option<RecordId> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Notes a record whose detail is not found. After many, the rest waits until it is known what that means.
    fn is_gone(&self, id: RecordId) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.push(id);
        if gone.len() >= MANY_NOT_FOUND {
            self.close();
        }
    }

    /// Leaves the rest to another run.
    fn close(&self) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn skip(&self, id: RecordId) {
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }
}

impl Run<'_> {
    /// Reads the details that are due, as far as the budget goes.
    pub(in crate::sync) async fn read_details(&self, object: Object) -> Result<(), SyncError> {
        let mut skipped: HashSet<RecordId> = HashSet::new();
        let total = self.engine.store.write(move |tx| tx.count_due_details(object)).await?;
        if total == 0 {
            return Ok(());
        }
        self.begins(object.resource(), "details", Some(total));
        let mut read = 0;
        loop {
            let most = BATCH + skipped.len();
            let due = self.engine.store.read(move |tx| tx.due_details(object, most)).await?;
            let ids: VecDeque<RecordId> = due.into_iter().filter(|id| !skipped.contains(id)).collect();
            if ids.is_empty() {
                break;
            }
            let passed = self.read_batch(object, ids, Purpose::Details, &mut read).await?;
            skipped.extend(passed.skipped);
            if passed.outage {
                // Asking on would only find more of the same.
                break;
            }
        }
        self.ends(object.resource());
        if !skipped.is_empty() {
            self.warn(format!("{} details of {} could not be read in this run", skipped.len(), object.resource()));
        }
        Ok(())
    }

    /// Reads old details again, a few in a run, with request units to spare: whether a change of what only a detail
    /// carries moves the etag is not documented.
    pub(in crate::sync) async fn refresh_details(&self, object: Object) -> Result<(), SyncError> {
        let Some(age) = self.engine.settings.detail_max_age else {
            return Ok(());
        };
        let before = self.engine.clock.now().minus(age);
        let aged = self.engine.store.read(move |tx| tx.aged_details(object, before, REFRESHED_AT_ONCE)).await?;
        if aged.is_empty() {
            return Ok(());
        }
        match self.read_batch(object, aged.into(), Purpose::Refresh, &mut 0).await {
            // Nothing to spare: no reason to call the run unfinished.
            Err(error) if matches!(error.suspension(), Some(Suspension::Budget(_))) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Reads the details of these records side by side.
    async fn read_batch(
        &self,
        object: Object,
        ids: VecDeque<RecordId>,
        purpose: Purpose,
        read: &mut u64,
    ) -> Result<Passed, SyncError> {
        let before = *read;
        let workers = self.engine.workers().min(ids.len());
        let queue =
            Queue { ids: Mutex::new(ids), skipped: Mutex::default(), failures: Mutex::new(0), gone: Mutex::default() };
        let done = Mutex::new(*read);
        let work = (0..workers).map(|_| self.detail_worker(object, purpose, &queue, &done));
        // Each finishes what it has asked for, whatever became of another: an answer that is paid for is stored.
        let worked: Result<Vec<()>, SyncError> = join_all(work).await.into_iter().collect();
        *read = *done.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = queue.skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        let gone = queue.gone.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outage = !self.remove_not_found(object, gone, *read - before).await?;
        worked?;
        Ok(Passed { skipped, outage })
    }

    async fn detail_worker(
        &self,
        object: Object,
        purpose: Purpose,
        queue: &Queue,
        done: &Mutex<u64>,
    ) -> Result<(), SyncError> {
        while let Some(id) = queue.pop() {
            if let Err(error) = self.read_detail(object, &id, purpose, queue).await {
                queue.close();
                return Err(error);
            }
            let rows = {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done += 1;
                *done
            };
            self.engine.observer.on(RunEvent::Stored { resource: object.resource(), rows, ru: self.spent() });
        }
        Ok(())
    }

    async fn read_detail(
        &self,
        object: Object,
        id: &RecordId,
        purpose: Purpose,
        queue: &Queue,
    ) -> Result<(), SyncError> {
        let resource = object.resource();
        let doing = "read a detail of";
        match self.engine.client.detail(object, id, purpose).await {
            Ok(answer) => {
                *queue.failures.lock().unwrap_or_else(PoisonError::into_inner) = 0;
                match self.store_detail(object, id, &answer, queue).await {
                    Err(error @ SyncError::Store(_)) => return Err(error),
                    // An answer that is no record of this id: the others may be.
                    Err(_) => queue.skip(id.clone()),
                    Ok(()) => {}
                }
                Ok(())
            }
            // One record too large to be read must not keep the others waiting.
            Err(ApiError::TooLarge { .. }) => {
                queue.skip(id.clone());
                Ok(())
            }
            Err(error) => match error.class() {
                ErrorClass::Gone => {
                    queue.is_gone(id.clone());
                    Ok(())
                }
                ErrorClass::SkipRecord | ErrorClass::BadRequest => {
                    queue.skip(id.clone());
                    Ok(())
                }
                ErrorClass::Retry => {
                    let failures = {
                        let mut failures = queue.failures.lock().unwrap_or_else(PoisonError::into_inner);
                        *failures += 1;
                        *failures
                    };
                    if failures >= MOST_FAILURES {
                        return Err(error).asking(doing, resource);
                    }
                    queue.skip(id.clone());
                    Ok(())
                }
                _ => Err(error).asking(doing, resource),
            },
        }
    }

    async fn store_detail(
        &self,
        object: Object,
        id: &RecordId,
        answer: &DetailAnswer,
        queue: &Queue,
    ) -> Result<(), SyncError> {
        let resource = object.resource();
        loop {
            let layout = self.engine.store.layout();
            let mut record =
                decode::detail(resource, &answer.body, &layout).asking("understand a detail of", resource)?;
            if record.id != *id {
                let other = decode::NotUnderstood("the service answered with another record".into());
                return Err(other).asking("understand a detail of", resource);
            }
            if let Some(etag) = &answer.etag {
                take_header_etag(object, &mut record, etag.as_str());
            }
            let (asked_at, meter, version) = (answer.asked_at, self.engine.meter.clone(), layout.version);
            let unknown_keys = record.unknown_keys;
            let stored = self
                .engine
                .store
                .write(move |tx| {
                    tx.expect_layout(version)?;
                    let phase = tx.phase(object)?;
                    let (list, kept) = tx.apply_detail(object, &record, asked_at, phase)?;
                    let mut noted = Noted::default();
                    noted.record(&record, list);
                    noted.tally.warnings = kept;
                    noted.tally.details = u64::from(list != Applied::Older);
                    meter.enter(tx)?;
                    Ok(noted.tally)
                })
                .await;
            match stored {
                Err(StoreError::StaleLayout) => {}
                other => {
                    let tally: Tally = other?;
                    self.count(&tally);
                    if tally.details == 0 {
                        // A newer answer is here already; the next run reads the newer detail.
                        queue.skip(id.clone());
                    }
                    if unknown_keys {
                        self.refresh_definitions_for_unknown_keys().await?;
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// A detail whose body lacks the etag gets it from the header, which holds the same value (*GET /contacts/{id}*).
fn take_header_etag(object: Object, record: &mut Record, etag: &str) {
    for (field, told) in object.fields().iter().zip(&mut record.fields) {
        if field.kind == FieldKind::Etag && *told == FieldValue::Absent {
            *told = FieldValue::Exact(SqlValue::from(etag));
        }
    }
}
