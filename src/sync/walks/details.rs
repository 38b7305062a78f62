//! Details: the data of `GET /…/{id}`, at 1 RU each, for records that are new or have changed; newest first, with the
//! rest of the budget after the lists.
//!
//! Several requests are sent concurrently, as the client's pace allows. Each answer is stored in one transaction. A
//! detail that cannot be read affects its record only: [`FailedDetails`] bounds what such requests cost.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::detail_failures::FailedDetails;
use super::omitted_values::DetailPart;
use crate::api::error::ApiError;
use crate::api::{DetailAnswer, ErrorClass, decode};
use crate::model::{AnswerTime, Layout, Object, Purpose, Record, RecordId};
use crate::store::{Applied, DueDetail, MirrorTx, unread};
use crate::sync::apply::ApplyReport;
use crate::sync::checks::removal_gate::MANY_NOT_FOUND;
use crate::sync::error::{Asking, Suspension, SyncError};
use crate::sync::events::RunEvent;
use crate::sync::run_parts::Details;

/// The number of due details that are fetched from the mirror at once.
const BATCH: u64 = 500;

/// The maximum number of old details that one run reads again.
const REFRESHED_AT_ONCE: usize = 50;

/// Consecutive records whose detail fails, after which a run reads no more details of the object.
const MAX_FAILURES: u32 = 20;

/// Consecutive requests without an answer, after which the service counts as unavailable.
const MAX_UNANSWERED: u32 = 3;

const DOING: &str = "read a detail of";

pub(super) struct BatchResult {
    skipped: HashSet<RecordId>,
    gone: Vec<RecordId>,
    /// Whether so many were not found that it looks like an outage.
    outage: bool,
    /// Whether too many failed, so that no more are read in this run.
    given_up: bool,
}

#[derive(Default)]
struct FailureStreak {
    failed: u32,
    unanswered: u32,
    given_up: bool,
}

struct DetailQueue {
    purpose: Purpose,
    part: DetailPart,
    ids: Mutex<VecDeque<RecordId>>,
    skipped: Mutex<HashSet<RecordId>>,
    streak: Mutex<FailureStreak>,
    failures: Mutex<FailedDetails>,
    gone: Mutex<Vec<RecordId>>,
    under_way: AtomicU32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DetailQueue {
    fn pop(&self) -> Option<RecordId> {
        lock(&self.ids).pop_front()
    }

    /// Records a detail that was not found. After many, the rest waits for a decision about them.
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

    fn put_back(&self, id: RecordId) {
        lock(&self.ids).push_front(id);
    }

    fn give_up(&self) {
        lock(&self.streak).given_up = true;
        self.close();
    }

    fn skip(&self, id: RecordId) {
        lock(&self.skipped).insert(id);
    }
}

impl Details<'_> {
    /// Reads the due details, as far as the budget allows.
    pub(in crate::sync) async fn read_details(&self, object: Object) -> Result<(), SyncError> {
        let total = self.run.store().write(move |tx| tx.knowledge().count_due_details(object)).await?;
        if total == 0 {
            return Ok(());
        }
        let waiting = self.waiting(object).await?;
        let others = waiting.clone();
        let waiting_due = self.run.store().read(move |tx| tx.count_due_among(object, &others)).await?;
        self.run.begins(object.resource(), "details", Some(total));
        self.run.store_detail_progress(object, total).await?;
        let (mut read, mut skipped, mut not_found) = (0, waiting.clone(), HashSet::new());
        let mut last: Option<DueDetail> = None;
        // Those behind `last`, and those of them that do not wait.
        let (mut behind, mut wanted) = (total, total.saturating_sub(waiting_due));
        while wanted > 0 {
            let (from, most) = (last.clone(), behind.min(BATCH));
            let due = self.run.store().read(move |tx| tx.due_details(object, from.as_ref(), most as usize)).await?;
            if (due.len() as u64) < most {
                // Another process changed the tables: there are fewer than were counted.
                self.run.store().write(move |tx| tx.records().recount(object)).await?;
                (behind, wanted) = (due.len() as u64, due.len() as u64);
            }
            last = due.last().cloned();
            behind -= due.len() as u64;
            let ids: VecDeque<RecordId> =
                due.into_iter().map(|due| due.id).filter(|id| !skipped.contains(id)).collect();
            wanted = wanted.saturating_sub(ids.len() as u64).min(behind);
            if ids.is_empty() {
                continue;
            }
            let batch = self.read_batch(object, ids, (Purpose::Details, DetailPart::Whole), &mut read).await?;
            skipped.extend(batch.skipped);
            not_found.extend(batch.gone);
            if batch.outage || batch.given_up {
                // Further requests would fail in the same way.
                break;
            }
        }
        self.run.ends(object.resource());
        let failed = skipped.len() - waiting.len();
        if failed > 0 {
            self.run.warn(format!("{failed} details of {} could not be read in this run", object.resource()));
        }
        Ok(())
    }

    /// The records whose detail could not be read, and that wait because of that.
    pub(super) async fn waiting(&self, object: Object) -> Result<HashSet<RecordId>, SyncError> {
        let steady = self.run.gate().steady_time();
        Ok(self.run.store().read(move |tx| unread::waiting_details(tx, object, steady)).await?)
    }

    /// Reads old details again, a few per run, if RU are left over: the reference does not say whether a change of a
    /// field that only details contain changes the etag.
    pub(in crate::sync) async fn refresh_details(&self, object: Object) -> Result<(), SyncError> {
        let Some(age) = self.run.engine.settings.detail_max_age else {
            return Ok(());
        };
        let waiting = self.waiting(object).await?;
        let (before, most) = (self.run.now().minus(age), REFRESHED_AT_ONCE + waiting.len());
        let aged = self.run.store().write(move |tx| tx.knowledge().aged_details(object, before, most)).await?;
        let aged: VecDeque<RecordId> =
            aged.into_iter().filter(|id| !waiting.contains(id)).take(REFRESHED_AT_ONCE).collect();
        if aged.is_empty() {
            return Ok(());
        }
        match self.read_batch(object, aged, (Purpose::Refresh, DetailPart::Whole), &mut 0).await {
            // No RU are left over: the run is complete anyway.
            Err(error) if matches!(error.suspension(), Some(Suspension::Budget(_))) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub(super) async fn read_batch(
        &self,
        object: Object,
        ids: VecDeque<RecordId>,
        (purpose, part): (Purpose, DetailPart),
        read: &mut u64,
    ) -> Result<BatchResult, SyncError> {
        let workers = self.run.engine.workers().min(ids.len());
        let steady = self.run.gate().steady_time();
        let owed = self.run.store().read(move |tx| unread::failed_owed(tx, object)).await?;
        let queue = DetailQueue {
            purpose,
            part,
            ids: Mutex::new(ids),
            skipped: Mutex::default(),
            streak: Mutex::default(),
            failures: Mutex::new(FailedDetails::stored(
                owed,
                self.run.engine.meter.limits(),
                self.run.engine.client.tries(),
                steady,
            )),
            gone: Mutex::default(),
            under_way: AtomicU32::new(0),
        };
        let done = Mutex::new(*read);
        let work = (0..workers).map(|_| self.detail_worker(object, &queue, &done));
        // Each worker completes its request, even if another one failed: an answer that was paid for is stored.
        let worked: Result<Vec<()>, SyncError> = join_all(work).await.into_iter().collect();
        *read = *lock(&done);
        let skipped = queue.skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        let gone = queue.gone.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outage = !self.run.gate().nominate_not_found(object, gone.clone()).await?;
        worked?;
        Ok(BatchResult { skipped, gone, outage, given_up: lock(&queue.streak).given_up })
    }

    async fn detail_worker(&self, object: Object, queue: &DetailQueue, done: &Mutex<u64>) -> Result<(), SyncError> {
        while let Some(id) = queue.pop() {
            // Every request under way may fail, as often as it is repeated.
            let others = queue.under_way.fetch_add(1, Ordering::Relaxed);
            let most = (others + 1).saturating_mul(self.run.engine.client.tries());
            if lock(&queue.failures).exhausted(most, others == 0, self.run.gate().steady_time()) {
                queue.under_way.fetch_sub(1, Ordering::Relaxed);
                // The others know soon whether more may be asked for.
                if others == 0 {
                    queue.give_up();
                } else {
                    queue.put_back(id);
                }
                return Ok(());
            }
            let read = self.read_detail(object, &id, queue).await;
            queue.under_way.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = read {
                queue.close();
                return Err(error);
            }
            let rows = {
                let mut done = lock(done);
                *done += 1;
                *done
            };
            self.run.engine.observer.on(RunEvent::Stored { resource: object.resource(), rows, ru: self.run.spent() });
        }
        Ok(())
    }

    async fn read_detail(&self, object: Object, id: &RecordId, queue: &DetailQueue) -> Result<(), SyncError> {
        let resource = object.resource();
        match self.run.engine.client.detail(object, id, queue.purpose).await {
            Ok(answer) => match self.store_detail(object, id, &answer, queue).await {
                Err(error @ SyncError::Store(_)) => Err(error),
                // The answer is not a record with this id: other records may be readable.
                Err(_) => self.detail_failed(object, id, queue, 1).await,
                Ok(()) => {
                    *lock(&queue.streak) = FailureStreak::default();
                    Ok(())
                }
            },
            Err(error) => match error.class() {
                ErrorClass::Gone => {
                    queue.is_gone(id.clone());
                    // If the lists contain it anyway, its detail is not requested in every run.
                    self.remember_failure(object, id, queue, 1).await
                }
                // The list with the same scope was answered, so a 403 concerns this record.
                ErrorClass::SkipObject | ErrorClass::SkipRecord | ErrorClass::BadRequest | ErrorClass::Failed => {
                    self.detail_failed(object, id, queue, 1).await
                }
                ErrorClass::PreconditionFailed => self.detail_failed(object, id, queue, 1).await,
                ErrorClass::Retry => {
                    let unanswered = matches!(
                        error,
                        ApiError::Unreachable { .. } | ApiError::NoAnswer { .. } | ApiError::Timeout { .. }
                    );
                    let in_a_row = {
                        let mut streak = lock(&queue.streak);
                        streak.unanswered = if unanswered { streak.unanswered + 1 } else { 0 };
                        streak.unanswered
                    };
                    self.detail_failed(object, id, queue, error.tries()).await?;
                    if in_a_row >= MAX_UNANSWERED { Err(error).asking(DOING, resource) } else { Ok(()) }
                }
                _ => Err(error).asking(DOING, resource),
            },
        }
    }

    /// Stores that a detail could not be read, so that it waits. After many, the rest is left to another run.
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
        if failed >= MAX_FAILURES {
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
        let (id, steady) = (id.clone(), self.run.gate().steady_time());
        let owed = {
            let mut failures = lock(&queue.failures);
            failures.failed(requests, steady);
            failures.owed(steady)
        };
        let noted = move |tx: &MirrorTx<'_>| tx.unread().detail_failed(object, &id, requests, (steady, owed));
        Ok(self.run.store().write(noted).await?)
    }

    async fn store_detail(
        &self,
        object: Object,
        id: &RecordId,
        answer: &DetailAnswer,
        queue: &DetailQueue,
    ) -> Result<(), SyncError> {
        let layout = self.run.store().layout();
        let record = decoded(object, id, answer, &layout).asking("understand a detail of", object.resource())?;
        let (its_id, answer, version) = (id.clone(), answer.clone(), layout.version);
        let (meter, part) = (self.run.engine.meter.clone(), queue.part);
        let answered = AnswerTime { shows: None, steady: self.run.gate().steady_time() };
        let stored = self.run.store().write(move |tx| {
            let decode = |layout: &Layout| decoded(object, &its_id, &answer, layout).ok();
            let record = tx.with_current_layout(record, version, decode)?;
            let phase = tx.phase(object)?;
            tx.knowledge().answered(answered);
            let (list, kept) = match part {
                DetailPart::Whole => tx.records().apply_detail(object, &record, &answer.asked, phase)?,
                DetailPart::List => tx.records().apply_detail_as_list(object, &record, &answer.asked, phase)?,
            };
            if list != Applied::Older {
                tx.unread().was_read(object, &its_id)?;
            }
            let mut noted = ApplyReport::default();
            noted.record(&record, list);
            noted.tally.warnings = kept;
            noted.tally.details = u64::from(list != Applied::Older);
            noted.unknown_keys = tx.unread().mark_unknown_keys(object, &record.unknown_keys)?;
            meter.enter(tx)?;
            Ok(noted)
        });
        let noted = stored.await?;
        self.run.count(&noted.tally);
        if noted.tally.details == 0 {
            // The mirror has a newer answer: the detail comes from a lagging replica or a cache.
            queue.skip(id.clone());
            self.remember_failure(object, id, queue, 1).await?;
        }
        if noted.unknown_keys {
            self.run.whole_lists().refresh_definitions_for_unknown_keys().await?;
        }
        Ok(())
    }
}

fn decoded(
    object: Object,
    id: &RecordId,
    answer: &DetailAnswer,
    layout: &Layout,
) -> Result<Record, decode::NotUnderstood> {
    let mut record = decode::detail(object.resource(), &answer.body, layout)?;
    if record.id != *id {
        return Err(decode::NotUnderstood("the service answered with a different record".into()));
    }
    if let Some(etag) = &answer.etag {
        record.take_header_etag(object, etag.as_str());
    }
    Ok(record)
}
