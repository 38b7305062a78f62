//! Details: what only `GET /…/{id}` carries, at 1 RU each, for records that are new or have changed; newest first, with
//! what the budget has left after the lists.
//!
//! Several requests are under way at once, as the client's pace allows. Each answer is one transaction. A detail that
//! cannot be read costs its record only: [`DetailFailures`] remembers it and says when it is asked for again.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::detail_failures::DetailFailures;
use super::unknown_keys;
use crate::api::error::ApiError;
use crate::api::{DetailAnswer, ErrorClass, decode};
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::{FieldKind, Object, Purpose, Record, RecordId};
use crate::store::{Applied, StateKey, StoreError};
use crate::sync::checks::removals::MANY_NOT_FOUND;
use crate::sync::error::{Asking, Suspension, SyncError};
use crate::sync::events::RunEvent;
use crate::sync::run::Run;
use crate::sync::tally::Noted;

/// Due details that are looked up at once.
const BATCH: usize = 500;

/// Old details that one run reads again at most.
const REFRESHED_AT_ONCE: usize = 50;

/// Records in a row whose detail fails, after which a run reads no more details of the object.
const MOST_FAILURES: u32 = 20;

/// Requests in a row without any answer, after which the service counts as unavailable.
const MOST_UNANSWERED: u32 = 3;

const DOING: &str = "read a detail of";

/// What reading a batch left behind.
struct BatchResult {
    /// Records whose detail could not be read.
    skipped: HashSet<RecordId>,
    /// Records whose detail was not found.
    gone: Vec<RecordId>,
    /// Whether so many were not found that it looks like an outage.
    outage: bool,
    /// Whether too many failed for more to be asked for in this run.
    given_up: bool,
}

/// Failures since the last success.
#[derive(Default)]
struct FailureStreak {
    failed: u32,
    unanswered: u32,
    given_up: bool,
}

/// What the workers of one batch share.
struct DetailQueue {
    purpose: Purpose,
    ids: Mutex<VecDeque<RecordId>>,
    skipped: Mutex<HashSet<RecordId>>,
    streak: Mutex<FailureStreak>,
    failures: Arc<Mutex<DetailFailures>>,
    gone: Mutex<Vec<RecordId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DetailQueue {
    fn pop(&self) -> Option<RecordId> {
        lock(&self.ids).pop_front()
    }

    /// Notes a record whose detail is not found. After many, the rest waits until it is known what that means.
    fn is_gone(&self, id: RecordId) {
        let mut gone = lock(&self.gone);
        gone.push(id);
        if gone.len() >= MANY_NOT_FOUND {
            self.close();
        }
    }

    /// Leaves the rest to another run.
    fn close(&self) {
        lock(&self.ids).clear();
    }

    fn give_up(&self) {
        lock(&self.streak).given_up = true;
        self.close();
    }

    fn skip(&self, id: RecordId) {
        lock(&self.skipped).insert(id);
    }
}

impl Run<'_> {
    /// Reads the details that are due, as far as the budget goes.
    pub(in crate::sync) async fn read_details(&self, object: Object) -> Result<(), SyncError> {
        let total = self.engine.store.write(move |tx| tx.count_due_details(object)).await?;
        if total == 0 {
            return Ok(());
        }
        let (failures, waiting) = self.detail_failures(object).await?;
        self.begins(object.resource(), "details", Some(total));
        let (mut read, mut skipped, mut not_found) = (0, waiting.clone(), HashSet::new());
        loop {
            let most = BATCH + skipped.len() + not_found.len();
            let due = self.engine.store.read(move |tx| tx.due_details(object, most)).await?;
            let ids: VecDeque<RecordId> =
                due.into_iter().filter(|id| !skipped.contains(id) && !not_found.contains(id)).collect();
            if ids.is_empty() {
                break;
            }
            let batch = self.read_batch(object, ids, Purpose::Details, &failures, &mut read).await?;
            skipped.extend(batch.skipped);
            not_found.extend(batch.gone);
            if batch.outage || batch.given_up {
                // Asking on would only find more of the same.
                break;
            }
        }
        self.ends(object.resource());
        let failed = skipped.len() - waiting.len();
        if failed > 0 {
            self.warn(format!("{failed} details of {} could not be read in this run", object.resource()));
        }
        Ok(())
    }

    /// What is remembered of failed details, and the records that wait because of it.
    async fn detail_failures(
        &self,
        object: Object,
    ) -> Result<(Arc<Mutex<DetailFailures>>, HashSet<RecordId>), SyncError> {
        let (mut failures, versions) = self
            .engine
            .store
            .read(move |tx| {
                let failures: DetailFailures = tx.state(&StateKey::DetailFailures(object))?.unwrap_or_default();
                let versions = tx.versions(object, &failures.ids())?;
                Ok((failures, versions))
            })
            .await?;
        let waiting = failures.waiting(&versions, self.engine.clock.now());
        Ok((Arc::new(Mutex::new(failures)), waiting))
    }

    /// Reads old details again, a few in a run, with request units to spare: whether a change of what only a detail
    /// carries moves the etag is not documented.
    pub(in crate::sync) async fn refresh_details(&self, object: Object) -> Result<(), SyncError> {
        let Some(age) = self.engine.settings.detail_max_age else {
            return Ok(());
        };
        let (failures, waiting) = self.detail_failures(object).await?;
        let (before, most) = (self.engine.clock.now().minus(age), REFRESHED_AT_ONCE + waiting.len());
        let aged = self.engine.store.read(move |tx| tx.aged_details(object, before, most)).await?;
        let aged: VecDeque<RecordId> =
            aged.into_iter().filter(|id| !waiting.contains(id)).take(REFRESHED_AT_ONCE).collect();
        if aged.is_empty() {
            return Ok(());
        }
        match self.read_batch(object, aged, Purpose::Refresh, &failures, &mut 0).await {
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
        failures: &Arc<Mutex<DetailFailures>>,
        read: &mut u64,
    ) -> Result<BatchResult, SyncError> {
        let workers = self.engine.workers().min(ids.len());
        let queue = DetailQueue {
            purpose,
            ids: Mutex::new(ids),
            skipped: Mutex::default(),
            streak: Mutex::default(),
            failures: failures.clone(),
            gone: Mutex::default(),
        };
        let done = Mutex::new(*read);
        let work = (0..workers).map(|_| self.detail_worker(object, &queue, &done));
        // Each finishes what it has asked for, whatever became of another: an answer that is paid for is stored.
        let worked: Result<Vec<()>, SyncError> = join_all(work).await.into_iter().collect();
        *read = *lock(&done);
        let skipped = queue.skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        let gone = queue.gone.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outage = !self.nominate_not_found(object, gone.clone()).await?;
        worked?;
        Ok(BatchResult { skipped, gone, outage, given_up: lock(&queue.streak).given_up })
    }

    async fn detail_worker(&self, object: Object, queue: &DetailQueue, done: &Mutex<u64>) -> Result<(), SyncError> {
        while let Some(id) = queue.pop() {
            let (window, limit) = (self.engine.meter.ledger().window, self.engine.meter.limits().limit.get());
            if lock(&queue.failures).exhausted(self.engine.clock.now(), window, limit) {
                queue.give_up();
                return Ok(());
            }
            if let Err(error) = self.read_detail(object, &id, queue).await {
                queue.close();
                return Err(error);
            }
            let rows = {
                let mut done = lock(done);
                *done += 1;
                *done
            };
            self.engine.observer.on(RunEvent::Stored { resource: object.resource(), rows, ru: self.spent() });
        }
        Ok(())
    }

    async fn read_detail(&self, object: Object, id: &RecordId, queue: &DetailQueue) -> Result<(), SyncError> {
        let resource = object.resource();
        match self.engine.client.detail(object, id, queue.purpose).await {
            Ok(answer) => match self.store_detail(object, id, &answer, queue).await {
                Err(error @ SyncError::Store(_)) => Err(error),
                // An answer that is no record of this id: the others may be.
                Err(_) => self.detail_failed(object, id, queue, 1).await,
                Ok(()) => {
                    *lock(&queue.streak) = FailureStreak::default();
                    Ok(())
                }
            },
            Err(error) => match error.class() {
                ErrorClass::Gone => {
                    queue.is_gone(id.clone());
                    Ok(())
                }
                // The list of the same scope was answered, so a 403 is about this record.
                ErrorClass::SkipObject | ErrorClass::SkipRecord | ErrorClass::BadRequest | ErrorClass::Failed => {
                    self.detail_failed(object, id, queue, 1).await
                }
                ErrorClass::Rebase => self.detail_failed(object, id, queue, 1).await,
                ErrorClass::Retry => {
                    let unanswered = matches!(error, ApiError::Unreachable { .. } | ApiError::Timeout { .. });
                    let in_a_row = {
                        let mut streak = lock(&queue.streak);
                        streak.unanswered = if unanswered { streak.unanswered + 1 } else { 0 };
                        streak.unanswered
                    };
                    self.detail_failed(object, id, queue, error.tries()).await?;
                    if in_a_row >= MOST_UNANSWERED { Err(error).asking(DOING, resource) } else { Ok(()) }
                }
                _ => Err(error).asking(DOING, resource),
            },
        }
    }

    /// Remembers a detail that could not be read, so that it waits. After many, the rest is left to another run.
    async fn detail_failed(
        &self,
        object: Object,
        id: &RecordId,
        queue: &DetailQueue,
        requests: u32,
    ) -> Result<(), SyncError> {
        queue.skip(id.clone());
        self.remember_failure(object, id, queue, requests).await?;
        let failed = {
            let mut streak = lock(&queue.streak);
            streak.failed += 1;
            streak.failed
        };
        if failed >= MOST_FAILURES {
            queue.give_up();
        }
        Ok(())
    }

    async fn remember_failure(
        &self,
        object: Object,
        id: &RecordId,
        queue: &DetailQueue,
        requests: u32,
    ) -> Result<(), SyncError> {
        let (id, failures, now) = (id.clone(), queue.failures.clone(), self.engine.clock.now());
        let stored = self.engine.store.write(move |tx| {
            // A record that has been removed meanwhile is not remembered.
            if let Some(etag) = tx.versions(object, std::slice::from_ref(&id))?.remove(&id) {
                let mut failures = lock(&failures);
                failures.failed(&id, etag, requests, now);
                tx.set_state(&StateKey::DetailFailures(object), &*failures)?;
            }
            Ok(())
        });
        Ok(stored.await?)
    }

    async fn store_detail(
        &self,
        object: Object,
        id: &RecordId,
        answer: &DetailAnswer,
        queue: &DetailQueue,
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
            let (failures, its_id) = (queue.failures.clone(), id.clone());
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
                    noted.unknown_keys = unknown_keys::note(tx, object, std::slice::from_ref(&record))?;
                    meter.enter(tx)?;
                    let mut failures = lock(&failures);
                    if list != Applied::Older && failures.succeeded(&its_id) {
                        tx.set_state(&StateKey::DetailFailures(object), &*failures)?;
                    }
                    Ok(noted)
                })
                .await;
            match stored {
                Err(StoreError::StaleLayout) => {}
                other => {
                    let noted = other?;
                    self.count(&noted.tally);
                    if noted.tally.details == 0 {
                        // A newer answer is here already: the detail comes from a replica or a cache that is behind.
                        queue.skip(id.clone());
                        self.remember_failure(object, id, queue, 1).await?;
                    }
                    if noted.unknown_keys {
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
    for (field, value) in object.fields().iter().zip(&mut record.fields) {
        if field.kind == FieldKind::Etag && *value == FieldValue::Absent {
            *value = FieldValue::Exact(SqlValue::from(etag));
        }
    }
}
