//! Details: the data of `GET /…/{id}`, at 1 RU each, for records that are new or have changed; newest first, with the
//! rest of the budget after the lists.
//!
//! Several requests are sent concurrently, as the client's pace allows. Each answer is stored in one transaction. A
//! detail that cannot be read affects its record only: [`FailedDetails`] bounds what such requests cost.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::detail_failures::FailedDetails;
use crate::api::error::ApiError;
use crate::api::{ErrorClass, ListQuery, PageSize, ServiceAnswer};
use crate::error_chain::error_chain;
use crate::model::{AnswerTime, Layout, Object, Purpose, RecordId};
use crate::store::{Applied, DueDetail, EXAMINED_AT_ONCE, MirrorTx, unread};
use crate::sync::apply::ApplyReport;
use crate::sync::checks::lookup_by_id;
use crate::sync::checks::lookup_by_id::MANY_NOT_FOUND;
use crate::sync::error::{Asking, Suspension, SyncError};
use crate::sync::run::Run;
use crate::sync::walks::definitions;

/// The number of due details that are fetched from the mirror at once.
const BATCH: u64 = 500;

/// What a run reads old details again for at most: more has not passed where a clock was wrong, or nobody wanted them.
const DAY: Duration = Duration::from_secs(86_400);

/// Consecutive records whose detail fails, after which a run reads no more details of the object.
const MAX_FAILURES: u32 = 20;

/// Consecutive requests without an answer, after which the service counts as unavailable.
const MAX_UNANSWERED: u32 = 3;

const DOING: &str = "read a detail of";

/// Details that are read side by side, and what became of those that were.
struct DetailBatch<'r> {
    run: &'r Run<'r>,
    object: Object,
    /// For changes, only the parts that lists return, too, are stored.
    purpose: Purpose,
    ids: VecDeque<RecordId>,
    skipped: HashSet<RecordId>,
    gone: Vec<RecordId>,
    failures: FailedDetails,
    /// Records that failed since the last success, and requests without an answer since the last answer.
    failed: u32,
    unanswered: u32,
    /// Whether too many failed or were not found, so that no more are read in this run.
    given_up: bool,
}

/// Reads the due details, as far as the budget allows.
pub(in crate::sync) async fn read_details(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let total = run.write(move |tx| tx.knowledge().count_due_details(object)).await?;
    if total == 0 {
        return Ok(());
    }
    let waiting = waiting(run, object).await?;
    let others = waiting.clone();
    let waiting_due = run.read(move |tx| tx.count_due_among(object, &others)).await?;
    run.begins(object.resource(), "details", Some(total));
    let mut skipped = waiting.clone();
    let mut last: Option<DueDetail> = None;
    // Those behind `last`, and those of them that do not wait.
    let (mut behind, mut wanted) = (total, total.saturating_sub(waiting_due));
    while wanted > 0 {
        let (from, most) = (last.clone(), behind.min(BATCH));
        let due = run.read(move |tx| tx.due_details(object, from.as_ref(), most as usize)).await?;
        if (due.len() as u64) < most {
            // Another process changed the tables: there are fewer than were counted.
            run.write(move |tx| tx.records().recount(object)).await?;
            (behind, wanted) = (due.len() as u64, due.len() as u64);
        }
        last = due.last().cloned();
        behind -= due.len() as u64;
        let ids: VecDeque<RecordId> = due.into_iter().map(|due| due.id).filter(|id| !skipped.contains(id)).collect();
        wanted = wanted.saturating_sub(ids.len() as u64).min(behind);
        let ended = read_batch(run, object, ids, Purpose::Details).await?;
        skipped.extend(ended.skipped);
        if ended.given_up {
            // Further requests would fail in the same way.
            break;
        }
    }
    run.ends(object.resource());
    let failed = skipped.len() - waiting.len();
    if failed > 0 {
        run.warn(format!("{failed} details of {} could not be read in this run", object.resource()));
    }
    Ok(())
}

/// The records whose detail could not be read, and that wait because of that.
async fn waiting(run: &Run<'_>, object: Object) -> Result<HashSet<RecordId>, SyncError> {
    let steady = run.steady_time();
    run.read(move |tx| unread::waiting_details(tx, object, steady)).await
}

/// Reads old details again, if RU are left over: the reference does not say whether a change of a field that only details
/// contain changes the etag.
pub(in crate::sync) async fn refresh_details(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let mut left = refreshed_in_run(run, object).await?;
    while left > 0 {
        let aged = old_details(run, object, left, true).await?;
        match read_batch(run, object, aged, Purpose::Refresh).await {
            // No RU are left over: the run is complete anyway.
            Err(error) if matches!(error.suspension(), Some(Suspension::Budget(_))) => return Ok(()),
            ended => left = if ended?.given_up { 0 } else { left.saturating_sub(EXAMINED_AT_ONCE) },
        }
    }
    Ok(())
}

/// How many old details a run reads again at most: as many as become old between two runs, or in a day.
pub(in crate::sync) async fn refreshed_in_run(run: &Run<'_>, object: Object) -> Result<usize, SyncError> {
    let Some(age) = run.engine.settings.detail_max_age else { return Ok(0) };
    let reading = run.read(move |tx| Ok((tx.count_rows(object)?, tx.last_mirrored()?)));
    let (rows, before) = reading.await?;
    let passed = before.map_or(0, |before| run.now().since(before).min(age).min(DAY).as_secs()).max(1);
    let share = rows.saturating_mul(passed).div_ceil(age.as_secs().max(1));
    Ok(usize::try_from(share).unwrap_or(usize::MAX))
}

/// The old details that a run reads again, so many at most; what follows goes on behind them if this one `reads` them.
pub(in crate::sync) async fn old_details(
    run: &Run<'_>,
    object: Object,
    most: usize,
    reads: bool,
) -> Result<VecDeque<RecordId>, SyncError> {
    let Some(age) = run.engine.settings.detail_max_age else { return Ok(VecDeque::new()) };
    let waiting = waiting(run, object).await?;
    let (before, of_all) = (run.now().minus(age), most + waiting.len());
    let aged = match reads {
        true => run.write(move |tx| tx.knowledge().aged_details(object, before, of_all)).await?,
        false => run.read(move |tx| Ok(tx.aged_details(object, before, of_all)?.0)).await?,
    };
    Ok(aged.into_iter().filter(|id| !waiting.contains(id)).take(most).collect())
}

async fn read_batch<'r>(
    run: &'r Run<'r>,
    object: Object,
    ids: VecDeque<RecordId>,
    purpose: Purpose,
) -> Result<DetailBatch<'r>, SyncError> {
    let (limits, tries) = (run.engine.meter.limits(), run.engine.client.settings().tries);
    let owed = run.read(move |tx| unread::failed_owed(tx, object)).await?;
    let mut batch = DetailBatch {
        run,
        object,
        purpose,
        ids,
        skipped: HashSet::new(),
        gone: Vec::new(),
        failures: FailedDetails::stored(owed, limits, tries, run.steady_time()),
        failed: 0,
        unanswered: 0,
        given_up: false,
    };
    let (mut under_way, mut arrived, mut ended) = (FuturesUnordered::new(), VecDeque::new(), Ok(()));
    loop {
        while under_way.len() < run.engine.workers()
            && let Some(id) = batch.next(under_way.len() + arrived.len())
        {
            under_way.push(async move {
                let answer = run.engine.client.detail(object, &id, purpose).await;
                (id, answer)
            });
        }
        let next = arrived.pop_front();
        let Some((id, answer)) = (if next.is_some() { next } else { under_way.next().await }) else { break };
        let taken = {
            // Those under way go on meanwhile: what this one requests may wait for their end.
            let mut taking = pin!(batch.take(&id, answer));
            loop {
                tokio::select! {
                    biased;
                    taken = &mut taking => break taken,
                    Some(other) = under_way.next() => arrived.push_back(other),
                }
            }
        };
        match taken {
            // Those of changed records are no rows of the list that is being read.
            Ok(()) => run.stored(object.resource(), u64::from(purpose != Purpose::Changes)),
            // What others have asked for is stored all the same; nothing new begins.
            Err(error) => {
                batch.ids.clear();
                ended = ended.and(Err(error));
            }
        }
    }
    batch.given_up |= !lookup_by_id::nominate_not_found(run, object, batch.gone.clone()).await?;
    ended.map(|()| batch)
}

impl DetailBatch<'_> {
    fn give_up(&mut self) {
        self.given_up = true;
        self.ids.clear();
    }

    /// The next detail to request, if one more may fail beside so many: every request under way may, with its repeats.
    fn next(&mut self, others: usize) -> Option<RecordId> {
        let under_way = u32::try_from(others + 1).unwrap_or(u32::MAX);
        let most = under_way.saturating_mul(self.run.engine.client.settings().tries);
        if self.ids.is_empty() || !self.failures.exhausted(most, others == 0, self.run.steady_time()) {
            return self.ids.pop_front();
        }
        // The others show soon whether more may be asked for.
        if others == 0 {
            let resource = self.object.resource();
            self.run.warn(format!("details of {resource} wait: too many attempts failed lately"));
            self.give_up();
        }
        None
    }

    async fn take(&mut self, id: &RecordId, answer: Result<ServiceAnswer, ApiError>) -> Result<(), SyncError> {
        let resource = self.object.resource();
        let error = match answer {
            Ok(answer) => match self.store(id, &answer).await {
                Err(error @ SyncError::Store(_)) => return Err(error),
                // The answer is not a record with this id: other records may be readable.
                Err(_) => return self.failed(id, 1).await,
                Ok(()) => {
                    (self.failed, self.unanswered, self.given_up) = (0, 0, false);
                    return Ok(());
                }
            },
            Err(error) => error,
        };
        match error.class() {
            ErrorClass::Gone => {
                self.gone.push(id.clone());
                if self.gone.len() >= MANY_NOT_FOUND {
                    // The rest waits for a decision about them.
                    self.ids.clear();
                }
                // If the lists contain it anyway, its detail is not requested in every run.
                self.remember_failure(id, 1).await
            }
            // The list with the same scope was answered, so a 403 concerns this record.
            ErrorClass::SkipObject | ErrorClass::SkipRecord | ErrorClass::BadRequest | ErrorClass::Failed => {
                self.failed(id, 1).await
            }
            // Whether the key or the address is wrong, other answers show, such as that of a list.
            ErrorClass::StopAll | ErrorClass::Configuration => {
                if !self.run.was_answered() {
                    self.ask_list().await?;
                }
                self.failed(id, 1).await?;
                // What ended the batch may be the key, revoked meanwhile.
                if self.given_up { self.ask_list().await } else { Ok(()) }
            }
            ErrorClass::Retry => {
                let unanswered = matches!(
                    error,
                    ApiError::Unreachable { .. } | ApiError::NoAnswer { .. } | ApiError::Timeout { .. }
                );
                self.unanswered = if unanswered { self.unanswered + 1 } else { 0 };
                self.failed(id, error.tries()).await?;
                if self.unanswered >= MAX_UNANSWERED { Err(error).asking(DOING, resource) } else { Ok(()) }
            }
            _ => {
                // Where others are answered, this record must not hold them up each time.
                if error.refusals() > 0 && self.run.was_answered() {
                    self.remember_failure(id, error.refusals()).await?;
                }
                Err(error).asking(DOING, resource)
            }
        }
    }

    async fn ask_list(&self) -> Result<(), SyncError> {
        let list = ListQuery::new(self.object.resource()).limit(PageSize::ONE);
        self.run.engine.page(&list, self.purpose, "list").await.map(drop)
    }

    /// Stores that a detail could not be read, so that it waits. After many, the rest is left to another run.
    async fn failed(&mut self, id: &RecordId, requests: u32) -> Result<(), SyncError> {
        self.skipped.insert(id.clone());
        self.remember_failure(id, requests).await?;
        self.failed += 1;
        if self.failed >= MAX_FAILURES {
            self.give_up();
        }
        Ok(())
    }

    async fn remember_failure(&mut self, id: &RecordId, requests: u32) -> Result<(), SyncError> {
        let (object, id, steady) = (self.object, id.clone(), self.run.steady_time());
        self.failures.failed(requests, steady);
        let owed = self.failures.owed(steady);
        // During a hold nothing is requested: it waits behind it.
        let after_hold = steady.plus(self.run.engine.meter.ledger().hold_left().unwrap_or_default());
        let noted = move |tx: &MirrorTx<'_>| tx.unread().detail_failed(object, &id, requests, (after_hold, owed));
        self.run.write(noted).await
    }

    async fn store(&mut self, id: &RecordId, answer: &ServiceAnswer) -> Result<(), SyncError> {
        let (object, purpose, layout) = (self.object, self.purpose, self.run.store().layout());
        let steady = self.run.steady_time();
        // An answer to the second attempt is none that failed: a service that fails now and then holds no details up.
        let owed = (answer.failed > 1).then(|| {
            self.failures.failed(answer.failed, steady);
            self.failures.owed(steady)
        });
        let record = answer.record(object, id, &layout).asking("understand a detail of", object.resource())?;
        let (its_id, answer, version) = (id.clone(), answer.clone(), layout.version);
        let meter = self.run.engine.meter.clone();
        let answered = AnswerTime { shows: None, steady };
        let stored = self.run.write(move |tx| {
            let decode = |layout: &Layout| answer.record(object, &its_id, layout).ok();
            let record = tx.with_current_layout(record, version, decode)?;
            tx.knowledge().answered(answered);
            let whole = purpose != Purpose::Changes;
            let (list, kept) = tx.records().apply_detail(object, &record, &answer.asked, whole)?;
            if list != Applied::Older {
                tx.unread().was_read(object, &its_id)?;
            }
            let mut noted = ApplyReport::default();
            noted.record(&record, list);
            noted.tally.warnings = kept;
            noted.tally.details = u64::from(list != Applied::Older);
            noted.unknown_keys = tx.unread().mark_unknown_keys(object, &record.unknown_keys)?;
            owed.map_or(Ok(()), |owed| tx.unread().failures_owe(object, owed))?;
            meter.enter(tx)?;
            Ok(noted)
        });
        let noted = stored.await?;
        self.run.count(&noted.tally);
        if noted.tally.details == 0 {
            // The mirror has a newer answer: the detail comes from a lagging replica or a cache.
            self.skipped.insert(id.clone());
            self.remember_failure(id, 1).await?;
        }
        if noted.unknown_keys {
            definitions::refresh_definitions_for_unknown_keys(self.run).await?;
        }
        Ok(())
    }
}

pub(in crate::sync) async fn read_omitted(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let _reading = run.omitted_read.lock().await;
    let noted = run.read(move |tx| unread::omitted(tx, object)).await?;
    if noted.is_empty() {
        return Ok(());
    }
    if run.engine.reads_details(object) {
        // They are read with the others, also where they were noted without details in the same version.
        let making = run.write(move |tx| match tx.count_due_among(object, &noted)? {
            due if due < noted.len() as u64 => tx.knowledge().make_current_details_due(object, &noted),
            _ => Ok(()),
        });
        return making.await;
    }
    let waiting = waiting(run, object).await?;
    let ids: VecDeque<RecordId> = noted.into_iter().filter(|id| !waiting.contains(id)).collect();
    match read_batch(run, object, ids, Purpose::Changes).await {
        // The lists of the object may be answered although its details are not: the rest stays noted.
        Err(error) if error.class() == Some(ErrorClass::Retry) => {
            tracing::info!(%object, "Some values of {object} records stay as they were: {}", error_chain(&error));
        }
        read => drop(read?),
    }
    Ok(())
}
