//! Cuts a first copy into slices that are walked side by side, for about the same RU.
//!
//! Nothing is known of the list yet. Its first page is asked for with the total; where that is large, one request finds
//! the newest records and how many records have a date. Its rows are stored, so that the last slice ends before them and
//! the request costs nothing more. From then on [`next_cuts`] says where to cut, and the first page
//! of each new slice, which is needed anyway, says how many rows that slice has. What was said of the newest records is
//! compared with the rows of all slices ([`super::sweep`]).
//!
//! # Always true
//! - The slices that are stored cover every record that was not read. A cut is one transaction; a kill at any moment
//!   leaves slices that the next run walks, if in fewer parts.
//! - If the service gives no totals, dates or order, one walker reads the list.

use std::time::Duration;

use futures_util::future::join_all;

use super::pages::WalkPurpose;
use super::slice_cuts::{KnownSlice, PAGE, next_cuts};
use super::walk::{Frontier, Walk, gap};
use crate::api::{ListQuery, PageSize, SortBy};
use crate::model::{Instant, Object, Purpose, TimeBounds, TimeField, TimeRange};
use crate::store::{Checkpoint, ReadOf};
use crate::sync::apply;
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::walks::pages;

/// What one request showed of the newest records.
struct NewestRecords {
    at: Instant,
    /// Microseconds between the newest records.
    gap: Option<u64>,
    /// How many records have a creation time.
    dated: u64,
    /// From when on the page has every dated record, if that is known, and how many those are.
    end: Option<Instant>,
    rows: u64,
    /// How many of those cannot be stored.
    unusable: u32,
    /// The highest `updatedAt` that may be a watermark.
    high: Option<Instant>,
}

impl NewestRecords {
    /// What it has read. Its older rows, the last slice reads too.
    fn as_part(&self) -> Option<Checkpoint<Walk>> {
        let bounds = TimeBounds::Dated { from: Some(self.end?), to: None };
        let mut part = Checkpoint { done: true, ..new_slice(2, bounds, false) };
        (part.position.seen.rows, part.position.seen.high) = (self.rows, self.high);
        Some(part)
    }

    /// How many requests it costs beyond those that a list without the page's rows saves.
    fn cost(&self) -> u64 {
        let pages = |rows: u64| rows.div_ceil(PAGE);
        (1 + pages(self.dated.saturating_sub(self.rows))).saturating_sub(pages(self.dated))
    }

    /// A slice that has so many rows left. One without a place to go on from is only read, and cut no more.
    fn slice(&self, read: Checkpoint<Walk>, rows: u64) -> CopySlice {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let (walk, to) = (&read.position, read.bounds.dates().1);
        let (from, rows) = match walk.frontier {
            Frontier::At(from) if !read.done => (from, rows),
            _ => (self.at, 0),
        };
        let known = KnownSlice {
            from,
            last: to.map_or(self.at, |to| to.minus(Duration::from_micros(1))),
            rows,
            gap_at_start: walk.size.gap.map(seconds),
            // Where a later slice begins, a bulk import may begin too.
            gap_at_end: self.gap.filter(|_| to == self.end).map(seconds),
        };
        CopySlice { read, known }
    }
}

/// From when on a page of the newest records has every record, and how many those are: with whole seconds, since the
/// service may compare at another precision than it shows. `keys` ascend.
fn whole_from(keys: &[Option<Instant>]) -> Option<(Instant, u64)> {
    if !keys.iter().all(Option::is_some) || !keys.is_sorted() {
        return None;
    }
    let from = (*keys.first()?)?.whole_second().plus(Duration::from_secs(1));
    let rows = keys.iter().filter(|key| **key >= Some(from)).count() as u64;
    (rows > 0).then_some((from, rows))
}

struct CopySlice {
    read: Checkpoint<Walk>,
    known: KnownSlice,
}

/// Cuts the first copy of a large object, if it is still one walk.
pub(in crate::sync) async fn cut_first_copy(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let walkers = run.engine.workers();
    let mut slices: Vec<Checkpoint<Walk>> = run.read(move |tx| tx.reads(ReadOf::Sweep(object))).await?;
    // The only walk of one that was not cut.
    slices.retain(|slice| slice.bounds == TimeBounds::Whole && walkers > 1);
    let Some(mut whole) = slices.pop() else { return Ok(()) };
    if whole.position.seen.pages == 0 && whole.position.size.counted {
        whole = pages::walk(run, WalkPurpose::Slice(object), whole, true).await?;
    }
    let walk = &mut whole.position;
    let (Frontier::At(from), Some(total), false) = (walk.frontier, walk.size.total, whole.done) else { return Ok(()) };
    // As many more requests as slices, at most.
    let Some(allowed) = run.engine.settings.slices(total) else { return Ok(()) };
    let Some(mut newest) = newest_records(run, object, walk, from).await? else { return Ok(()) };
    walk.range = TimeRange::dated(TimeField::CreatedAt, None, newest.end);
    // What is created from now on is in no slice, so that it hides no row that is missing there.
    walk.size.total = Some(newest.dated);
    whole.bounds = walk.range.bounds;
    let rows = newest.dated.saturating_sub(walk.seen.rows + newest.rows);
    let mut slices = vec![newest.slice(whole, rows)];
    // What the slices of dates leave out, until they are stored. The totals of two moments do not show that no record is
    // without a date.
    let mut others = vec![new_slice(1, TimeBounds::Dateless, false)];
    others.extend(newest.as_part());
    let mut made = 3;
    // Beside the newest records: those without a date, unless the page that has them all saves their count.
    let spent = newest.cost() + u64::from(total.saturating_sub(newest.dated) > u64::from(PageSize::MAX.get()));
    loop {
        let known: Vec<KnownSlice> = slices.iter().map(|slice| slice.known).collect();
        let Some((n, cuts)) = next_cuts(&known, walkers, allowed.saturating_sub(spent)) else { break };
        let CopySlice { read, known } = &slices[n];
        let Some(position) = read.position.ending_at(cuts[0]) else { break };
        let (from, end) = read.bounds.dates();
        let bounds = TimeBounds::Dated { from, to: Some(cuts[0]) };
        let low = Checkpoint { part: read.part.clone(), bounds, done: false, as_of: None, position };
        let ends = cuts.iter().skip(1).copied().map(Some).chain([end]);
        let further = cuts.iter().zip(ends).enumerate().map(|(n, (from, to))| {
            let slice = new_slice(made + n, TimeBounds::Dated { from: Some(*from), to }, false);
            Checkpoint { position: slice.position.with_pages_of(&low.position).counted(), ..slice }
        });
        let further: Vec<Checkpoint<Walk>> = further.collect();
        made += further.len();
        let stored = [&further[..], std::slice::from_ref(&low), &std::mem::take(&mut others)].concat();
        let unusable = std::mem::take(&mut newest.unusable);
        let storing = run.write(move |tx| {
            tx.claims().leave_records_out(object, unusable)?;
            stored.iter().try_for_each(|slice| tx.claims().keep_read(ReadOf::Sweep(object), slice))
        });
        storing.await?;
        let first_page = |part: &Checkpoint<Walk>| pages::walk(run, WalkPurpose::Slice(object), part.clone(), true);
        let read = join_all(further.iter().map(first_page)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let of_further: u64 = read.iter().map(|read| read.position.seen.rows + read.position.rows_left()).sum();
        let mut cut = vec![newest.slice(low, known.rows.saturating_sub(of_further))];
        cut.extend(read.into_iter().map(|read| newest.slice(read.clone(), read.position.rows_left())));
        slices.splice(n..=n, cut);
    }
    if others.is_empty() {
        run.stored(object.resource(), newest.rows);
    }
    Ok(())
}

/// Reads and stores the newest records, behind those that were read; `None` where the answer is of no use.
async fn newest_records(
    run: &Run<'_>,
    object: Object,
    walk: &Walk,
    read: Instant,
) -> Result<Option<NewestRecords>, SyncError> {
    let resource = object.resource();
    let query = ListQuery::new(resource).sort(SortBy::CreatedDesc).is_null("createdAt", false);
    let arrived = match run.engine.page(&query.limit(walk.page_size()).count_exact(), Purpose::Sweep, "list").await {
        Err(error) if error.allows_another() => return Ok(None),
        arrived => arrived?,
    };
    let mut facts = pages::facts(run, walk.range.field, &arrived);
    facts.keys.reverse();
    let (Some(Some(at)), Some(dated)) = (facts.keys.last().copied(), facts.total) else { return Ok(None) };
    let (end, rows) = whole_from(&facts.keys).filter(|(end, _)| *end > read).unzip();
    let unusable = end.map_or(0, |_| arrived.page.unusable);
    let rows = rows.unwrap_or(0) + u64::from(unusable);
    let newest = NewestRecords { at, gap: gap(&facts.keys), dated, end, rows, unusable, high: facts.high };
    let (meter, now) = (run.engine.meter.clone(), run.now());
    let storing = run.write(move |tx| {
        let (answer, page) = arrived.current(tx, resource)?;
        meter.enter(tx)?;
        apply::apply_page(tx, object, &page, &answer.asked, now)
    });
    let noted = storing.await?;
    // Its rows count once it is a slice.
    pages::after_page(run, object, 0, &noted).await?;
    Ok(Some(newest))
}

/// A slice of which nothing was read.
pub(super) fn new_slice(number: usize, bounds: TimeBounds, may_count: bool) -> Checkpoint<Walk> {
    let walk = Walk::new(TimeRange::of(TimeField::CreatedAt, bounds));
    // The first total shows how large it is, and whether rows are missing.
    let walk = if may_count && bounds == TimeBounds::Whole { walk.counted() } else { walk };
    Checkpoint { part: number.to_string(), bounds, done: false, as_of: None, position: walk }
}
