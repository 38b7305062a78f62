//! Cuts a first copy into slices that are walked side by side, for about the same RU.
//!
//! Nothing is known of the list yet. Its first page is asked for with the total; where that is large, one request finds
//! the newest records and how many records have a date. Its rows are stored, so that the last slice ends before them and
//! the request costs nothing more. From then on [`next_cuts`] says where to cut, and the first page
//! of each new slice, which is needed anyway, says how many rows that slice has.
//!
//! # Always true
//! - The slices that are stored cover every record that was not read. A cut is one transaction; a kill at any moment
//!   leaves slices that the next run walks, if in fewer parts.
//! - If the service gives no totals, dates or order, one walker reads the list.

use std::time::Duration;

use futures_util::future::join_all;

use super::pages::WalkPurpose;
use super::short_list::FetchedPage;
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
    /// From when on the page has every dated record, and how many those are; `None` if that is unknown.
    whole_from: Option<(Instant, u64)>,
    /// The highest `updatedAt` that may be a watermark.
    high: Option<Instant>,
    page: FetchedPage,
}

impl NewestRecords {
    /// What it has read: every record from `end` on. Its older rows, the last slice reads too.
    fn as_part(&self, end: Instant) -> Checkpoint<Walk> {
        let mut part =
            Checkpoint { done: true, ..new_slice(2, TimeBounds::Dated { from: Some(end), to: None }, false) };
        part.position.seen.rows = self.whole_from.map_or(0, |(_, rows)| rows);
        part.position.seen.high = self.high;
        part
    }

    /// How many requests it costs beyond those that a list without the page's rows saves.
    fn cost(&self) -> u64 {
        let pages = |rows: u64| rows.div_ceil(PAGE);
        let rows = self.whole_from.map_or(0, |(_, rows)| rows);
        (1 + pages(self.dated.saturating_sub(rows))).saturating_sub(pages(self.dated))
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

/// A slice of the first copy, and how many rows it has left.
struct CopySlice {
    read: Checkpoint<Walk>,
    from: Instant,
    rows: u64,
}

/// Cuts the first copy of a large object, if it is still one walk.
pub(in crate::sync) async fn cut_first_copy(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let walkers = run.engine.workers();
    let Some(Checkpoint { part, bounds, position, .. }) = whole_walk(run, object).await? else { return Ok(()) };
    if walkers < 2 {
        return Ok(());
    }
    if position.seen.pages == 0 {
        pages::walk(run, WalkPurpose::Slice(object, part, bounds), position.pausing()).await?;
    }
    let Some(mut whole) = whole_walk(run, object).await? else { return Ok(()) };
    let walk = &mut whole.position;
    let (Frontier::At(from), Some(total)) = (walk.frontier, walk.size.total) else { return Ok(()) };
    // As many more requests as slices, at most.
    let Some(allowed) = run.engine.settings.slices(total) else { return Ok(()) };
    let Some(newest) = newest_records(run, object, walk).await? else { return Ok(()) };
    let (end, on_page) = newest.whole_from.unzip();
    let rows = newest.dated.saturating_sub(walk.seen.rows + on_page.unwrap_or(0));
    let end = end.filter(|end| *end > from);
    walk.range = TimeRange::dated(TimeField::CreatedAt, None, end);
    let mut slices = vec![CopySlice { read: whole, from, rows }];
    // What the slices of dates leave out, until they are stored. The totals of two moments do not show that no record is
    // without a date.
    let newest_part = end.map(|end| newest.as_part(end));
    let mut page = newest_part.as_ref().map(|part| (newest.page.clone(), part.position.seen.rows));
    let mut others: Vec<_> = [new_slice(1, TimeBounds::Dateless, false)].into_iter().chain(newest_part).collect();
    let mut made = 3;
    // Beside the newest records: those without a date, unless the page that has them all saves their count; and each
    // slice that had no more than its first page.
    let mut spent = newest.cost() + u64::from(total.saturating_sub(newest.dated) > u64::from(PageSize::MAX.get()));
    while let Some((n, cuts)) = next_cuts(&known(&slices, &newest), walkers, allowed.saturating_sub(spent)) {
        let slice = &slices[n];
        let end = slice.read.position.range.bounds.dates().1;
        let Some(parts) = slice.read.position.cut(slice.from, &cuts, end) else { break };
        let first = slice.read.bounds.dates().0;
        let mut parts: Vec<Checkpoint<Walk>> = parts
            .into_iter()
            .enumerate()
            .map(|(n, position)| {
                let (from, to) = position.range.bounds.dates();
                let part = if n == 0 { slice.read.part.clone() } else { (made + n).to_string() };
                let bounds = TimeBounds::Dated { from: if n == 0 { first } else { from }, to };
                Checkpoint { part, bounds, done: false, as_of: None, position }
            })
            .collect();
        made += parts.len();
        let rows_left = slice.rows;
        // What was announced, the lowest part has to show, but for what the others announce: a run that ends before they do
        // leaves a copy that is short.
        let seen = parts[0].position.seen.rows;
        parts[0].position.size.total = Some(seen + rows_left);
        let stored = parts.iter().cloned().chain(others.drain(..)).collect();
        store_slices(run, object, stored, page.take()).await?;
        let mut low = parts.remove(0);
        let made_now = parts.len();
        let (read, of_parts) = read_first_pages(run, object, parts).await?;
        spent += (made_now - read.len()) as u64;
        let rows = rows_left.saturating_sub(of_parts.rows);
        low.position.size.total = of_parts.is_announced.then_some(seen + rows);
        store_slices(run, object, vec![low.clone()], None).await?;
        slices[n] = CopySlice { read: low, from: slices[n].from, rows };
        slices.splice(n + 1..n + 1, read);
    }
    Ok(())
}

/// The only walk of a first copy that was not cut; `None` where there are several or another.
async fn whole_walk(run: &Run<'_>, object: Object) -> Result<Option<Checkpoint<Walk>>, SyncError> {
    let slices: Vec<Checkpoint<Walk>> = run.read(move |tx| tx.reads(ReadOf::Sweep(object))).await?;
    let is_counted = |walk: &Walk| walk.size.counted || walk.size.total.is_some();
    let is_whole = |walk: &Walk| walk.range.bounds != TimeBounds::Dateless;
    let mut whole = slices.into_iter().filter(|slice| slice.bounds == TimeBounds::Whole && !slice.done);
    Ok(whole.next().filter(|slice| is_whole(&slice.position) && is_counted(&slice.position)))
}

/// Stores slices, and with them the page of the newest records, which the last slice ends before, and how many it has.
async fn store_slices(
    run: &Run<'_>,
    object: Object,
    slices: Vec<Checkpoint<Walk>>,
    newest: Option<(FetchedPage, u64)>,
) -> Result<(), SyncError> {
    let (resource, meter, now) = (object.resource(), run.engine.meter.clone(), run.now());
    let stored = run.write(move |tx| {
        slices.iter().try_for_each(|slice| tx.claims().keep_read(ReadOf::Sweep(object), slice))?;
        let Some((newest, rows)) = newest else { return Ok(None) };
        let (answer, page) = newest.current(tx, resource)?;
        let noted = apply::apply_page(tx, object, &page, &answer.asked, now)?;
        tx.claims().leave_records_out(object, page.unusable)?;
        meter.enter(tx)?;
        Ok(Some((noted, rows)))
    });
    let Some((noted, rows)) = stored.await? else { return Ok(()) };
    pages::after_page(run, object, run.swept(rows), &noted).await
}

/// How many rows new slices have, and whether each says so.
struct PartRows {
    rows: u64,
    is_announced: bool,
}

/// Reads the first page of new slices side by side. Gives those that have more, and the rows of all of them.
async fn read_first_pages(
    run: &Run<'_>,
    object: Object,
    parts: Vec<Checkpoint<Walk>>,
) -> Result<(Vec<CopySlice>, PartRows), SyncError> {
    let names: Vec<String> = parts.iter().map(|slice| slice.part.clone()).collect();
    let reading = parts.into_iter().map(|Checkpoint { part, bounds, position, .. }| {
        pages::walk(run, WalkPurpose::Slice(object, part, bounds), position.pausing())
    });
    join_all(reading).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let stored: Vec<Checkpoint<Walk>> = run.read(move |tx| tx.reads(ReadOf::Sweep(object))).await?;
    let (mut slices, mut of_parts) = (Vec::new(), PartRows { rows: 0, is_announced: true });
    for read in stored.into_iter().filter(|slice| names.contains(&slice.part)) {
        of_parts.rows += read.position.seen.rows.max(read.position.size.total.unwrap_or(0));
        if read.done {
            continue;
        }
        of_parts.is_announced &= read.position.size.total.is_some();
        // Without a place to go on from it is only read, and cut no more.
        let Frontier::At(from) = read.position.frontier else { continue };
        slices.push(CopySlice { rows: read.position.rows_left().unwrap_or(0), read, from });
    }
    slices.sort_by_key(|slice| slice.from);
    Ok((slices, of_parts))
}

/// Asks for the newest records; `None` where the answer is of no use.
async fn newest_records(run: &Run<'_>, object: Object, walk: &Walk) -> Result<Option<NewestRecords>, SyncError> {
    let query = ListQuery::new(object.resource())
        .sort(SortBy::CreatedDesc)
        .is_null("createdAt", false)
        .limit(walk.page_size())
        .count_exact();
    let page = match run.engine.page(&query, Purpose::Sweep, "list").await {
        Err(error) if error.allows_another() => return Ok(None),
        page => page?,
    };
    let mut facts = pages::facts(run, walk.range.field, &page);
    facts.keys.reverse();
    let (Some(Some(at)), Some(dated)) = (facts.keys.last().copied(), facts.total) else { return Ok(None) };
    let whole_from = whole_from(&facts.keys).map(|(from, rows)| (from, rows + facts.unusable));
    let gap = gap(&facts.keys);
    Ok(Some(NewestRecords { at, gap, dated, whole_from, high: facts.high, page }))
}

fn known(slices: &[CopySlice], newest: &NewestRecords) -> Vec<KnownSlice> {
    let seconds = |micros: u64| micros as f64 / 1e6;
    let slice_of = |CopySlice { read, from, rows }: &CopySlice| KnownSlice {
        from: *from,
        last: read.position.range.bounds.dates().1.map_or(newest.at, |to| to.minus(Duration::from_micros(1))),
        rows: *rows,
        gap_at_start: read.position.size.gap.map(seconds),
        gap_at_end: None,
    };
    let mut known: Vec<KnownSlice> = slices.iter().map(slice_of).collect();
    // Where a later slice begins, a bulk import may begin too.
    if let Some(last) = known.last_mut() {
        last.gap_at_end = newest.gap.map(seconds);
    }
    known
}

/// A slice of which nothing was read.
pub(super) fn new_slice(number: usize, bounds: TimeBounds, may_count: bool) -> Checkpoint<Walk> {
    let walk = Walk::new(TimeRange::of(TimeField::CreatedAt, bounds));
    // The first total shows how large it is, and whether rows are missing.
    let walk = if may_count && bounds == TimeBounds::Whole { walk.counted() } else { walk };
    Checkpoint { part: number.to_string(), bounds, done: false, as_of: None, position: walk }
}
