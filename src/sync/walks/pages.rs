//! Executes walks: fetches and decodes a page, while the writer's thread stores the one before with its checkpoint.
//! [`super::walk`] makes the decisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::walk::{Anomaly, Facts, Frontier, Next, Walk};
use super::{closing_counts, omitted_values};
use crate::api::{ListQuery, PageSize};
use crate::model::{Definition, Instant, Object, Purpose, Record, RecordId, TimeBounds, TimeField, TimeRange};
use crate::store::{Checkpoint, KnownChanges, MirrorTx, ReadOf, StateKey, StoreError, Tally};
use crate::sync::apply::{self, ApplyReport};
use crate::sync::error::SyncError;
use crate::sync::events::RunEvent;
use crate::sync::run::Run;
use crate::sync::walks::range::{MILLISECOND, SECOND};
use crate::sync::walks::short_list::FetchedPage;
use crate::sync::walks::{definitions, details, service_clock};

/// The purpose of a walk, which determines where its checkpoint is stored.
#[derive(Clone, Debug)]
pub(in crate::sync) enum WalkPurpose {
    Changes(Object),
    /// A slice of a sweep.
    Slice(Object),
    /// The records that have a value in a custom field.
    Fill(Object, Arc<Definition>),
}

/// The maximum number of consecutive pages without changes whose checkpoint is not stored, and that are read again
/// after a kill. Storing each checkpoint would be most of the writes of a resync without changes.
const MAX_UNSAVED: u32 = 8;

/// A walk under way in a run.
pub(super) struct Walker<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) job: WalkPurpose,
    /// What it reads, after the last page that was stored.
    pub(super) read: Checkpoint<Walk>,
    /// Pages stored since its checkpoint was.
    pub(super) unsaved: u32,
    /// Whether it stops after a page, although there are more.
    is_first_page: bool,
}

impl WalkPurpose {
    pub(super) fn object(&self) -> Object {
        let (WalkPurpose::Changes(object) | WalkPurpose::Slice(object) | WalkPurpose::Fill(object, _)) = self;
        *object
    }

    /// What a page means beside its rows. Some records were received in an `older` version than the row has.
    fn remember_page(
        &self,
        tx: &MirrorTx<'_>,
        walk: &Walk,
        before: Frontier,
        (records, older): (&[Record], &BTreeSet<RecordId>),
        (is_last, details): (bool, bool),
    ) -> Result<(), StoreError> {
        match self {
            WalkPurpose::Changes(_) => Ok(()),
            WalkPurpose::Slice(object) => {
                if tx.is_copied(*object)? {
                    mark_missing(tx, *object, walk, before, records, is_last)?;
                    omitted_values::mark_restored(tx, *object, (records, older), details)?;
                }
                Ok(())
            }
            WalkPurpose::Fill(object, definition) => {
                let mut ids: Vec<RecordId> = records.iter().map(|record| record.id.clone()).collect();
                // Lists only tell who has a value, and details have it.
                if definition.data_type.detail_only() {
                    tx.knowledge().make_details_due(*object, Some(&ids))?;
                }
                // Whether the newer version has a value as well, an older one does not say.
                ids.retain(|id| !older.contains(id));
                tx.custom().mark_filled(*object, &ids)
            }
        }
    }

    fn checkpoint(&self, tx: &MirrorTx<'_>, read: &Checkpoint<Walk>) -> Result<(), StoreError> {
        let reading = match *self {
            WalkPurpose::Changes(object) => ReadOf::Changes(object),
            WalkPurpose::Slice(object) => ReadOf::Sweep(object),
            WalkPurpose::Fill(object, _) => ReadOf::Fill(object),
        };
        tx.claims().keep_read(reading, read)
    }

    /// Stores that a walk is finished. What a sweep has read is kept until it ends, and a back-fill until its column is
    /// complete: what follows the walk may need another run.
    fn finish(&self, tx: &MirrorTx<'_>, read: Checkpoint<Walk>) -> Result<(), StoreError> {
        let WalkPurpose::Changes(object) = *self else {
            return self.checkpoint(tx, &Checkpoint { done: true, ..read });
        };
        let (walk, known) = (read.position, tx.known_changes(object)?);
        if !walk.seen.paged.is_empty() || walk.seen.pages > 1 {
            // What it passed over may be later than all that it has read. What lies before its first cursor a page has shown, and
            // what lies before its range it was not asked for.
            let (from, high) = walk.seen.paged.first().map_or((None, walk.seen.high), |range| {
                let (from, to) = range.bounds.dates();
                (from, to.map(|to| to.minus(MILLISECOND)).map(|to| walk.seen.high.map_or(to, |high| high.max(to))))
            });
            let from = from.filter(|_| walk.orderly).max(walk.origin);
            let settled = known.watermark.map(|at| at.whole_second().plus(SECOND));
            closing_counts::owe_changes(tx, object, (from, high), settled)?;
        }
        let known = KnownChanges { watermark: known.watermark.max(walk.seen.high), served_at: walk.seen.served_at };
        tx.claims().know_changes(object, known)?;
        tx.claims().end_read(ReadOf::Changes(object))
    }
}

/// Nominates what a page missed: rows of the mirror between the walk's frontier before and after the page that are not
/// on the page. Paging is not a snapshot (reference, *List query conventions*, rule 10).
fn mark_missing(
    tx: &MirrorTx<'_>,
    object: Object,
    walk: &Walk,
    before: Frontier,
    records: &[Record],
    is_last: bool,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let ids = serde_json::Value::from(ids).to_string();
    let behind = |at: Instant| Some(at.plus(Duration::from_micros(1)));
    let (from, end) = walk.range.bounds.dates();
    let from = if let Frontier::At(at) = before { behind(at) } else { from };
    let to = match walk.frontier {
        Frontier::At(at) if !is_last => Some(behind(at)),
        Frontier::Start if !is_last => None,
        _ => Some(end),
    };
    let dated = to.filter(|_| walk.range.bounds != TimeBounds::Dateless).map(|to| TimeBounds::Dated { from, to });
    let is_to_its_end = is_last || walk.frontier == Frontier::Nulls;
    let has_nulls = is_to_its_end && !matches!(walk.range.bounds, TimeBounds::Dated { .. });
    let passed = dated.into_iter().chain(has_nulls.then_some(TimeBounds::Dateless));
    passed
        .filter(|_| before != Frontier::Nulls)
        .try_for_each(|bounds| tx.knowledge().nominate_unseen(object, bounds, &ids))
}

/// Walks a range to its end, or to the end of its first page. Gives what is left of it.
pub(in crate::sync) async fn walk(
    run: &Run<'_>,
    job: WalkPurpose,
    read: Checkpoint<Walk>,
    is_first_page: bool,
) -> Result<Checkpoint<Walk>, SyncError> {
    let mut walker = Walker { run, job, read, unsaved: 0, is_first_page };
    let walked = walker.walk_pages().await;
    let Walker { job, read, unsaved, .. } = walker;
    if walked.is_err() && unsaved > 0 {
        // A walk that is stopped regularly continues exactly where it stopped.
        let read = read.clone();
        run.write(move |tx| job.checkpoint(tx, &read)).await?;
    }
    walked.map(|()| read)
}

impl Walker<'_> {
    /// What it reads, at this position.
    fn at(&self, position: Walk) -> Checkpoint<Walk> {
        Checkpoint { position, ..self.read.clone() }
    }

    async fn walk_pages(&mut self) -> Result<(), SyncError> {
        let (object, resource) = (self.job.object(), self.job.object().resource());
        let mut ahead: Option<Result<FetchedPage, SyncError>> = None;
        loop {
            let arrived = match ahead.take() {
                Some(arrived) => arrived,
                None => self.ask(self.read.position.query(resource)).await,
            };
            let arrived = match arrived {
                Ok(arrived) => arrived,
                Err(error) => {
                    self.read.position = self.instead(error).await?;
                    self.unsaved = 0;
                    continue;
                }
            };
            if let (Some(total), TimeBounds::Whole, 0) =
                (arrived.page.total, self.read.position.range.bounds, self.read.position.seen.pages)
            {
                self.run.engine.observer.on(RunEvent::Total { resource, total });
            }
            let mut walk = self.read.position.clone();
            let facts = facts(self.run, walk.range.field, &arrived);
            let (next, anomalies) = walk.take(&facts);
            let next = match next {
                // The counts of what was read by cursor show whether it has. Nothing counts what a back-fill reads.
                Next::Repeats if !matches!(self.job, WalkPurpose::Fill(..)) => walk.ended(),
                Next::Repeats => walk.restart(),
                Next::Page => match self.last_known_ahead(&walk, &facts).await? {
                    Some(last) => Next::Restart(Box::new(walk.clone().behind_known(last))),
                    None => Next::Page,
                },
                next => next,
            };
            let goes_on = next == Next::Page && !self.is_first_page;
            let storing = self.store_page(arrived, &walk, (&next, goes_on), anomalies);
            let (saved, noted) = if goes_on {
                let (stored, fetched) = tokio::join!(storing, self.ask(walk.query(resource)));
                ahead = Some(fetched);
                stored?
            } else {
                storing.await?
            };
            (self.read.position, self.unsaved) = (walk, if saved { 0 } else { self.unsaved + 1 });
            after_page(self.run, object, facts.keys.len() as u64, &noted).await?;
            match next {
                Next::Page if goes_on => {}
                Next::End | Next::Page => {
                    self.read.done = next == Next::End;
                    return Ok(());
                }
                Next::Later => return Err(SyncError::ConstantChanges { resource }),
                Next::Stuck | Next::Repeats => return Err(SyncError::NotAdvancing { resource }),
                Next::Restart(rest) => self.read.position = self.go_on(*rest, None).await?,
            }
        }
    }

    /// The last of the changes dated ahead that are here and would be listed again, if they are more than a page: they are
    /// counted instead, after the walk, and listed only if that differs.
    async fn last_known_ahead(&self, walk: &Walk, facts: &Facts) -> Result<Option<Instant>, SyncError> {
        let (object, Some(ahead)) = (self.job.object(), walk.ahead(facts.now)) else { return Ok(None) };
        let known = self.run.read(move |tx| match tx.count_range(object, ahead)? {
            rows if rows > u64::from(PageSize::MAX.get()) => tx.nth_of_range(object, ahead, rows - 1),
            _ => Ok(None),
        });
        known.await
    }

    /// The walk with which to go on instead of one whose page was not answered; the error, if there is none.
    async fn instead(&mut self, error: SyncError) -> Result<Walk, SyncError> {
        let walk = &self.read.position;
        if error.is_refused() && walk.cursor().is_some() {
            return match self.restart(walk, Some(Anomaly::RefusedCursor)).await {
                // By value it came to the same page again and again: what lies behind the frontier's moment can be read, and
                // counts show what does not. Nothing counts what a back-fill reads.
                Err(SyncError::NotAdvancing { .. })
                    if walk.orderly && walk.had_rows() && !matches!(self.job, WalkPurpose::Fill(..)) =>
                {
                    self.pass_over_record(error).await
                }
                restarted => restarted,
            };
        }
        if walk.size.counted && error.allows_another() && !error.is_unreadable() {
            // A back-fill's filter may be what is refused.
            if !matches!(self.job, WalkPurpose::Fill(..)) {
                self.run.mark_uncounted(self.job.object(), &error);
            }
            let mut uncounted = walk.clone();
            uncounted.size.counted = false;
            // The cursor is bound to the conditions of its page.
            return if uncounted.cursor().is_some() { self.restart(&uncounted, None).await } else { Ok(uncounted) };
        }
        if error.may_be_of_a_record() {
            // What is no JSON behind pages that were, is a matter of a record.
            let is_sure = error.is_too_large() || error.is_unreadable() && walk.seen.pages > 0;
            if !is_sure && walk.page_size() == PageSize::MAX && self.answers_nothing().await? {
                return Err(error);
            }
            return match walk.with_smaller_pages() {
                Some(smaller) => Ok(smaller),
                None => self.pass_over_record(error).await,
            };
        }
        Err(error)
    }

    /// Requests a list, of the records that the purpose concerns.
    pub(super) async fn ask(&self, query: ListQuery) -> Result<FetchedPage, SyncError> {
        let (purpose, doing, query) = match &self.job {
            WalkPurpose::Changes(_) => (Purpose::Changes, "list the changes of", query),
            WalkPurpose::Slice(_) => (Purpose::Sweep, "list", query),
            WalkPurpose::Fill(_, definition) => {
                (Purpose::Sweep, "list the values of a new field of", query.custom_is_null(definition, false))
            }
        };
        self.run.engine.page(&query, purpose, doing).await
    }

    /// Stores the restart of a walk, with which to go on.
    pub(super) async fn restart(&self, walk: &Walk, anomaly: Option<Anomaly>) -> Result<Walk, SyncError> {
        let Next::Restart(walk) = walk.restart() else {
            return Err(SyncError::NotAdvancing { resource: self.job.object().resource() });
        };
        self.go_on(*walk, anomaly).await
    }

    /// Stores the walk that follows instead of another.
    pub(super) async fn go_on(&self, walk: Walk, anomaly: Option<Anomaly>) -> Result<Walk, SyncError> {
        let (resource, now) = (self.job.object().resource(), self.run.now());
        let (job, read) = (self.job.clone(), self.at(walk.clone()));
        let writing = self.run.write(move |tx| {
            job.checkpoint(tx, &read)?;
            anomaly.map_or(Ok(()), |anomaly| anomaly.enter(tx, resource, now))
        });
        writing.await?;
        self.run.count(&Tally { warnings: u64::from(anomaly.is_some()), ..Tally::default() });
        Ok(walk)
    }

    /// Stores a page, the walk after it and its anomalies. Says whether the checkpoint was stored, and what the page had.
    async fn store_page(
        &self,
        arrived: FetchedPage,
        walk: &Walk,
        (next, goes_on): (&Next, bool),
        anomalies: Vec<Anomaly>,
    ) -> Result<(bool, ApplyReport), SyncError> {
        let run = self.run;
        let (object, before, ends) = (self.job.object(), self.read.position.frontier, *next == Next::End);
        // Whether no page of its range follows.
        let is_last = ends || matches!(next, Next::Restart(_)) && arrived.page.next.is_none();
        // Whether the checkpoint is stored even if the page changed nothing.
        let save = !goes_on || self.unsaved >= MAX_UNSAVED;
        let (service_time, resource) = (run.results().service_time, object.resource());
        let (details, overlap) = (run.engine.reads_details(object), run.engine.settings.overlap);
        let answered = service_clock::answer_time(run, &arrived.answer, &arrived.page.records);
        let (job, read, meter, now) = (self.job.clone(), self.at(walk.clone()), run.engine.meter.clone(), run.now());
        let stored = run.write(move |tx| {
            let (answer, page) = arrived.current(tx, resource)?;
            tx.knowledge().answered(answered);
            let mut noted = apply::apply_page(tx, object, &page, &answer.asked, now)?;
            noted.omitted = apply::after_answer(tx, object, (details, overlap))?;
            anomalies.iter().try_for_each(|anomaly| anomaly.enter(tx, resource, now))?;
            // A page that changes nothing must not count as one that has written.
            if matches!(job, WalkPurpose::Slice(_)) && page.unusable > 0 {
                // Without an id they are in no count of what is missing.
                tx.claims().leave_records_out(object, page.unusable)?;
            }
            // Those without a date follow, as many as are here; a list that is shorter proves nothing.
            let dateless = TimeRange::of(TimeField::CreatedAt, TimeBounds::Dateless);
            let follow = if ends || !is_last { 0 } else { tx.count_range(object, dateless)? };
            let is_last = is_last && read.position.rows_left() <= follow;
            job.remember_page(tx, &read.position, before, (&page.records, &noted.older), (is_last, details))?;
            let saved = save || tx.has_written();
            if ends {
                job.finish(tx, read)?;
            } else if saved {
                job.checkpoint(tx, &read)?;
            }
            if saved {
                meter.enter(tx)?;
                tx.set_state(&StateKey::ServiceTime, &service_time)?;
            }
            noted.tally.warnings += anomalies.len() as u64;
            // Returned to the thread that created it: freed here, both threads would wait for the allocator's lock.
            Ok((saved, noted, page, answer))
        });
        let (saved, noted, ..) = stored.await?;
        Ok((saved, noted))
    }
}

/// What a page says, as far as the walk decides by it.
pub(super) fn facts(run: &Run<'_>, by: TimeField, arrived: &FetchedPage) -> Facts {
    let key = |record: &Record| record.time(by);
    let keys = arrived.page.records.iter().map(key).collect();
    let updates = arrived.page.records.iter().filter_map(|record| record.updated_at);
    let (served_at, time) = service_clock::observe(run, &arrived.answer, updates.clone());
    let high = updates.filter(|at| time.is_plausible(*at) == Some(true)).max();
    let total = arrived.page.total;
    let ids = arrived.page.records.iter().map(|record| record.id.clone()).collect();
    let (next, unusable) = (arrived.page.next.clone(), arrived.page.unusable.into());
    Facts { keys, ids, unusable, high, next, run: run.id, served_at, now: time.latest(), total }
}

/// Adds the results of a page to the run's tally, notifies the observer, and reads what the page calls for.
pub(super) async fn after_page(run: &Run<'_>, object: Object, rows: u64, noted: &ApplyReport) -> Result<(), SyncError> {
    run.count(&noted.tally);
    run.stored(object.resource(), rows);
    if noted.unknown_keys {
        definitions::refresh_definitions_for_unknown_keys(run).await?;
    }
    if noted.omitted {
        details::read_omitted(run, object).await?;
    }
    Ok(())
}
