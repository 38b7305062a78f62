//! The start of a walk: the service's time according to its answers, or the newest record if they give none.
//!
//! [`ServiceTime`] is the arithmetic. It is kept in the file with every page, so that the next process knows it.

use super::short_list::{FetchedPage, ShortList};
use crate::api::{ListQuery, ServiceAnswer, SortBy};
use crate::model::{AnswerTime, Instant, Object, Purpose, Record, ServiceTime};
use crate::store::StateKey;
use crate::sync::error::SyncError;
use crate::sync::run::Run;

/// Pages of rows dated in the future that are passed over to find the newest plausible `updatedAt`.
const MAX_FUTURE_PAGES: u64 = 5;

/// Takes over what earlier runs knew about the service's time.
pub(in crate::sync) async fn recall_service_time(run: &Run<'_>) -> Result<(), SyncError> {
    let known: Option<ServiceTime> = run.read(|tx| tx.state(&StateKey::ServiceTime)).await?;
    run.results().service_time = known.unwrap_or_default();
    Ok(())
}

/// Takes in an answer and the `updatedAt` of its records. Gives the service's time when it was asked for, at least, and
/// what is known now.
pub(in crate::sync) fn observe(
    run: &Run<'_>,
    answer: &ServiceAnswer,
    updates: impl Iterator<Item = Instant>,
) -> (Option<Instant>, ServiceTime) {
    let time = &mut run.results().service_time;
    // What the page shows is of some moment between the two.
    time.observe(answer.asked.at, answer.date);
    let served_at = time.at_least();
    time.observe(run.engine.clock.reading(), answer.date);
    for updated_at in updates {
        time.observe_update(updated_at);
    }
    (served_at, *time)
}

/// How new an answer with these records is, and when it came.
pub(in crate::sync) fn answer_time(run: &Run<'_>, answer: &ServiceAnswer, records: &[Record]) -> AnswerTime {
    let mut time = run.results().service_time;
    time.observe(answer.asked.at, answer.date);
    time.observe(run.engine.clock.reading(), answer.date);
    let times = records.iter().flat_map(|record| [record.updated_at, record.created_at]);
    AnswerTime { shows: times.flatten().filter(|at| time.is_past(*at)).max(), steady: run.steady_time() }
}

/// The service's time now, at least. If nothing is known of it, the newest record tells, for 1 RU; `None` without one.
pub(in crate::sync) async fn boundary(run: &Run<'_>, object: Object) -> Result<Option<Instant>, SyncError> {
    let (now, dated) = (run.engine.clock.reading(), run.engine.client.last_date());
    let known = {
        let time = &mut run.results().service_time;
        if let Some((date, seen)) = dated {
            time.observe_once(seen, date);
        }
        time.observe(now, None);
        time.at_least()
    };
    if known.is_none() {
        observe_newest(run, object).await?;
    }
    Ok(run.results().service_time.at_least())
}

/// Lists the records that changed last until one of them is not dated in the future.
async fn observe_newest(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let query = ListQuery::new(object.resource()).sort(SortBy::UpdatedDesc);
    let (mut list, mut oldest) = (ShortList::new(run, query, Purpose::Changes, "look for the newest of"), None);
    while list.place.pages < MAX_FUTURE_PAGES
        && let Some(FetchedPage { answer, page, .. }) = list.page().await?
    {
        let updates: Vec<Instant> = page.records.iter().filter_map(|record| record.updated_at).collect();
        let (_, time) = observe(run, &answer, updates.iter().copied());
        if time.at_least().is_some() {
            return Ok(());
        }
        oldest = updates.into_iter().min().or(oldest);
    }
    // So many rows are not dated in the future: it is the clock that is wrong.
    if let Some(oldest) = oldest {
        run.results().service_time.assume(oldest);
    }
    Ok(())
}
