//! A walk through a list, page by page: what to request next, and what a page means. Pure: no IO, no clock.
//!
//! A [`Walk`] is its own checkpoint, stored in the transaction of each page.
//!
//! A cursor is followed within its run: what the list had before it may move until the next one, which goes on by value.
//! Only where values lead nowhere, the next run reads the last page again, and follows the cursor behind it if that page
//! still ends with the same record. Changes are read by cursor, and counted after the walk.
//!
//! # Why a walk restarts with `gte` and never with `gt`
//! Rows may share a timestamp. After a refused cursor, `gt` the last applied timestamp would skip the other rows of the
//! tie; `gte` reads the tie twice and writes it once.
//!
//! # Why pages are not trusted
//! The reference promises order and progress. A service that breaks the promise must not cause an endless walk or a
//! missed row: disorder prevents narrowing the range on a restart, and a repeated cursor counts as refused.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use super::anomaly::Anomaly;
use super::range::SECOND;
use crate::api::{ListQuery, PageSize, SortBy};
use crate::model::{Cursor, Instant, Op, RecordId, Resource, TimeBounds, TimeField, TimeRange};
pub(in crate::sync) use by_value::MAX_STRETCHES;

/// How often a walk may restart without progress.
const MAX_RESTARTS: u32 = 4;

/// Consecutive pages without rows after which the walk restarts, once: each may have a new cursor, so they would never end.
const MAX_EMPTY: u32 = 10;

/// Pages with changes made after the walk started, after which the walk leaves the rest to the next run, which is suspended:
/// with constant changes it would never end. What is dated ahead of an answer's own time is no such change, but a stretch
/// that ends.
const MAX_PAGES_BEYOND: u32 = 20;

/// How far a walk has read, by its sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frontier {
    Start,
    /// Up to this timestamp; more rows may share it.
    At(Instant),
    /// Among the rows without a timestamp, which come last.
    Nulls,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The rows' sort keys, in the order of the page.
    pub keys: Vec<Option<Instant>>,
    pub ids: Vec<RecordId>,
    /// Items without an id: they were seen, though nothing can be done with them.
    pub unusable: u64,
    /// The highest `updatedAt` on the page that may be a watermark.
    pub high: Option<Instant>,
    pub next: Option<Cursor>,
    /// The run in `sync_runs` that received it.
    pub run: i64,
    /// The service's time when the page was asked for, at least.
    pub served_at: Option<Instant>,
    /// The latest of all clocks, with the answer: what changed after that of the first page, and until that of its own, is churn.
    pub now: Option<Instant>,
    /// How many rows the whole range has, where that was asked for.
    pub total: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next page; the walk has its cursor.
    Page,
    /// The range was read completely.
    End,
    /// Suspended: the rest are new changes, and the walk continues in the next run.
    Later,
    /// Walk this range instead: the cursor is unusable, or the rest needs another query.
    Restart(Box<Walk>),
    /// By value as well as by cursor, nothing follows but the last page: it seems that the list has ended.
    Repeats,
    /// Restarting has not helped.
    Stuck,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The rows that it reads, in the order of their timestamp: of changes those by `updatedAt`, of all others by `createdAt`.
    /// Changes of one second, where the cursor does not lead through all of them, are read by `createdAt` within it.
    pub range: TimeRange,
    pub frontier: Frontier,
    /// Whether every page so far was in order.
    pub(super) orderly: bool,
    /// How the list goes on; `None` before the first page and without a cursor.
    next: Option<NextPage>,
    page_size: Option<u8>,
    /// What its pages have shown.
    pub seen: Seen,
    /// What the range's rows are like.
    pub size: RangeSize,
    /// What was known when the first of the walks that it restarts started, if it is a changes walk: rows later than this.
    pub origin: Option<Instant>,
    /// What only the run that reads it needs.
    #[serde(skip)]
    turn: Turn,
}

/// What the pages of a walk have shown, those of the walks that it restarts included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub high: Option<Instant>,
    /// The service's time at the first page, at least.
    pub served_at: Option<Instant>,
    /// Rows of this walk, those that pages by value repeated left out.
    pub rows: u64,
    pub pages: u64,
    /// Rows that pages by value repeated, beside one each.
    repeated: u64,
    /// What lies at the edges of pages that nothing joins: a count has to show that no row is missing there.
    pub paged: Vec<TimeRange>,
}

/// What the first page says about the rows of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSize {
    /// Whether its next page asks for the total. A cursor is bound to the conditions that it came with.
    pub counted: bool,
    /// How many rows it has, where that was asked for.
    pub total: Option<u64>,
    /// Microseconds from one row's timestamp to the next one's, on average over the later half of the page: how densely
    /// rows follow each other there.
    pub gap: Option<u64>,
    /// Whether rows without a date follow: by value, no page has them.
    dateless: bool,
}

/// How a list goes on after a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NextPage {
    /// The cursor to follow; `None` where it goes on by value.
    cursor: Option<Cursor>,
    /// The run that received it.
    run: i64,
    /// Whether all rows of the page have the same timestamp: a walk from there would read the page again.
    tied: bool,
    /// The cursor that the page was requested with; `None` for a first page.
    behind: Option<Cursor>,
    /// The last record of the page, if it had rows.
    last: Option<RecordId>,
}

/// What the run that reads a walk knows about its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    /// How far it or a walk that it restarts has read: only rows beyond this are progress.
    reached: Option<Frontier>,
    restarts: u32,
    /// Pages of changes that were made after the run began.
    beyond: u32,
    /// Pages without rows since the last one with rows.
    empty: u32,
    /// The time at its first page: what changed later is churn.
    began: Option<Instant>,
    /// How many rows are tried on the next page, where pages were made smaller.
    larger: Option<u8>,
    /// Pages since their size last changed, and after how many of them a larger one is tried.
    unchanged: u32,
    patience: u32,
    /// The last record of a page that is read again.
    expected: Option<RecordId>,
    /// The cursors followed since the frontier last moved.
    followed: HashSet<u64>,
    /// The last records of the pages since the frontier last moved.
    ended_with: HashSet<u64>,
    shown: HashSet<u64>,
}

impl Walk {
    pub fn new(range: TimeRange) -> Walk {
        Walk {
            range,
            frontier: Frontier::Start,
            orderly: true,
            next: None,
            page_size: None,
            seen: Seen::default(),
            size: RangeSize::default(),
            origin: None,
            turn: Turn::default(),
        }
    }

    /// A walk over what changed after this; `None` where everything is a change.
    pub fn of_changes(after: Option<Instant>) -> Walk {
        let bounds = after.map_or(TimeBounds::Whole, |_| TimeBounds::Dated { from: after, to: None });
        Walk { origin: after, ..Walk::new(TimeRange::of(TimeField::UpdatedAt, bounds)) }
    }

    pub fn cursor(&self) -> Option<&Cursor> {
        self.next.as_ref()?.cursor.as_ref()
    }

    /// Whether the page that its cursor came with had rows: otherwise nothing may follow.
    pub(super) fn had_rows(&self) -> bool {
        self.next.as_ref().is_some_and(|page| page.last.is_some())
    }

    /// This walk with fewer rows per page; `None` if a page has only one row. The cursor is followed all the same: a service that
    /// binds it to the page size refuses it, or shows earlier rows, and what is read by cursor is counted.
    #[must_use]
    pub fn with_smaller_pages(&self) -> Option<Walk> {
        if self.turn.larger.is_some() {
            let patience = (2 * self.turn.patience).max(1);
            let turn = Turn { larger: None, unchanged: 0, patience, ..self.turn.clone() };
            return Some(Walk { turn, ..self.clone() });
        }
        let size = self.page_size.unwrap_or(PageSize::MAX.get());
        let turn = Turn { unchanged: 0, ..self.turn.clone() };
        (size > 1).then(|| Walk { page_size: Some(size / 2), turn, ..self.clone() })
    }

    /// This walk, asking for the total until it goes on by value. Only for a walk that has read nothing.
    #[must_use]
    pub fn counted(self) -> Walk {
        Walk { size: RangeSize { counted: true, ..self.size }, ..self }
    }

    /// Where a walk goes on that cannot read what lies before this instant. What it passes over is as a page that proves
    /// nothing: a count has to show that nothing is missing.
    #[must_use]
    pub fn passing_to(self, at: Instant) -> Walk {
        let mut walk = self;
        let is_undated = walk.frontier == Frontier::Nulls || walk.range.bounds == TimeBounds::Dateless;
        walk.note_paged(walk.frontier, Some(at).filter(|_| !is_undated));
        if walk.is_of_changes() {
            // The newest row that is read may be earlier than what is passed over.
            let from = if let Frontier::At(at) = walk.frontier { Some(at) } else { walk.range.bounds.dates().0 };
            let passed = TimeRange::dated(TimeField::UpdatedAt, from.map(Instant::whole_second), Some(at));
            passed.join(&mut walk.seen.paged, 1);
        } else if walk.range.bounds == TimeBounds::Dateless {
            // Nothing tells them apart.
            walk.range = TimeRange::dated(TimeField::CreatedAt, Some(at), None);
            walk.size.dateless = false;
        }
        walk.frontier = Frontier::At(at);
        walk.seen.pages += 1;
        walk.turn = Turn { reached: walk.turn.reached.max(Some(walk.frontier)), restarts: 0, ..walk.turn };
        walk.page_size = None;
        walk
    }

    /// What follows the place that a walk over changes has reached, if that is ahead of the service's time: each run would list
    /// it again until its time has come.
    pub fn ahead(&self, now: Option<Instant>) -> Option<TimeRange> {
        let Frontier::At(at) = self.frontier else { return None };
        let is_ahead = self.is_of_changes() && self.orderly && now.is_some_and(|now| at > now);
        is_ahead.then(|| TimeRange::dated(TimeField::UpdatedAt, Some(at.whole_second().plus(SECOND)), None))
    }

    /// This walk behind the second of the last change that is here, which is read by its next page's value.
    #[must_use]
    pub fn behind_known(self, last: Instant) -> Walk {
        let (behind, began) = (last.whole_second().plus(SECOND), self.turn.began);
        let walk = self.passing_to(behind);
        let walk = walk.with_range(walk.range.starting_at(behind));
        Walk { turn: Turn { began, ..walk.turn }, ..walk }
    }

    /// The rows of a second that a walk over changes has reached, by `createdAt`: that tells those of a bulk change apart.
    #[must_use]
    pub fn tied_in(&self, second: Instant) -> Walk {
        Walk { page_size: None, ..self.with_range(second_of_changes(second)) }
    }

    pub(super) fn is_of_changes(&self) -> bool {
        self.range.field == TimeField::UpdatedAt
    }

    /// Whether it reads all records that were created in a time, so that it can go on by value.
    fn is_by_creation(&self) -> bool {
        !self.is_of_changes() && self.range.within.is_none() && self.range.bounds != TimeBounds::Dateless
    }

    /// What its range begins after, if rows of that very moment are not asked for.
    fn begins_after(&self) -> Option<Instant> {
        self.origin.filter(|_| self.is_of_changes() && self.range.bounds.dates().0 == self.origin)
    }

    pub fn page_size(&self) -> PageSize {
        self.turn.larger.or(self.page_size).and_then(PageSize::new).unwrap_or(PageSize::MAX)
    }

    /// How many rows are still to be read, where the total is known.
    pub fn rows_left(&self) -> u64 {
        self.size.total.map_or(0, |total| total.saturating_sub(self.seen.rows))
    }

    /// What it is still to read.
    pub fn rest(&self) -> TimeRange {
        let after = self.begins_after().map(|known| known.plus(Duration::from_millis(1)));
        after.or(self.value()).map_or(self.range, |at| self.range.starting_at(at))
    }

    pub fn query(&self, resource: Resource) -> ListQuery {
        let query = match self.begins_after() {
            Some(known) => {
                ListQuery::new(resource).sort(SortBy::UpdatedAsc).bounded(TimeField::UpdatedAt, Op::Gt, known)
            }
            None => self.rest().list(resource),
        };
        let query = query.limit(self.page_size());
        // A page that was halved is halved again rather than repeated.
        let is_part = self.page_size() > PageSize::ONE && self.page_size.is_some();
        let query = if is_part { query.once() } else { query };
        let query = if self.size.counted { query.count_exact() } else { query };
        match self.cursor() {
            Some(cursor) => query.after(cursor.clone()),
            None => query,
        }
    }

    /// Processes a page: advances, and returns what follows and the anomalies.
    pub fn take(&mut self, facts: &Facts) -> (Next, Vec<Anomaly>) {
        let mut anomalies = Vec::new();
        if self.turn.expected.as_ref().is_some_and(|record| facts.ids.last() != Some(record)) {
            // The list has moved behind the cursor that followed this page.
            return (self.restart(), anomalies);
        }
        self.turn.expected = None;
        let (before, value) = (self.frontier, self.value());
        let repeated = self.join(facts);
        if self.seen.pages == 0 {
            // Later pages may know of a later time, which says nothing about what the first one left out.
            self.seen.served_at = self.seen.served_at.max(facts.served_at);
            self.size = RangeSize { total: facts.total, gap: gap(&facts.keys), ..self.size };
        }
        self.turn.began = self.turn.began.or(facts.now);
        self.turn.unchanged += 1;
        if let Some(larger) = self.turn.larger.take() {
            self.page_size = Some(larger).filter(|size| *size < PageSize::MAX.get());
            self.turn.unchanged = 0;
        }
        let rows = facts.keys.len() as u64;
        self.seen.rows += rows - repeated + facts.unusable;
        self.seen.pages += 1;
        self.seen.high = self.seen.high.max(facts.high);
        let mut previous = if value.is_some() { Frontier::Start } else { before };
        let known = self.begins_after().map(Instant::millisecond_before);
        for key in &facts.keys {
            let at = key.map_or(Frontier::Nulls, Frontier::At);
            if at < previous {
                self.orderly = false;
                anomalies.push(Anomaly::UnorderedPage);
            }
            if !self.range.holds(*key) || known.is_some() && *key == known {
                anomalies.push(Anomaly::RowOutsideFilter);
            }
            previous = previous.max(at);
        }
        self.frontier = previous.max(before);
        if self.frontier > before {
            self.turn.followed.clear();
            self.turn.ended_with.clear();
        }
        if Some(self.frontier) > self.turn.reached {
            self.turn.reached = Some(self.frontier);
            self.turn.restarts = 0;
        }
        self.turn.shown = facts.ids.iter().map(hash_of).collect();
        let next = match self.follow(facts, before, &mut anomalies) {
            Next::Page => self.try_larger_pages(rows, before),
            next => next,
        };
        anomalies.sort_unstable();
        anomalies.dedup();
        (next, anomalies)
    }

    fn follow(&mut self, facts: &Facts, before: Frontier, anomalies: &mut Vec<Anomaly>) -> Next {
        let Some(next) = &facts.next else { return self.ended() };
        let (run, last) = (facts.run, facts.ids.last().cloned());
        if self.goes_by_value(facts, before) {
            self.turn.empty = 0;
            self.size.counted = false;
            self.next = Some(NextPage { cursor: None, run, tied: false, behind: None, last });
            return Next::Page;
        }
        // A page that ends as an earlier one, while no later row has come, has nothing new, whatever its cursor.
        let is_repeated = !last.as_ref().is_none_or(|last| self.turn.ended_with.insert(hash_of(last)));
        if facts.keys.is_empty() || is_repeated {
            anomalies.push(if is_repeated { Anomaly::RepeatedPage } else { Anomaly::EmptyPage });
            self.turn.empty += 1;
            if self.turn.empty > MAX_EMPTY {
                return if self.turn.restarts == 0 { self.restart() } else { Next::Stuck };
            }
        } else {
            self.turn.empty = 0;
        }
        let repeats_own = self.cursor() == Some(next);
        if !self.turn.followed.insert(hash_of(next)) || repeats_own {
            anomalies.push(Anomaly::RepeatedCursor);
            let has_ended = self.turn.restarts > 0 && repeats_own && Some(self.frontier) == self.turn.reached;
            return if has_ended { Next::Repeats } else { self.restart() };
        }
        let tied = match (facts.keys.first(), &self.next) {
            (None, Some(before)) => before.tied,
            (first, _) => first == facts.keys.last(),
        };
        let behind = self.next.take().and_then(|page| page.cursor);
        self.next = Some(NextPage { cursor: Some(next.clone()), run, tied, behind, last });
        let is_churn = |key: &Option<Instant>| *key > self.turn.began && facts.now.is_none_or(|now| *key <= Some(now));
        if self.is_of_changes() && self.turn.began.is_some() && facts.keys.first().is_some_and(is_churn) {
            self.turn.beyond += 1;
            if self.turn.beyond >= MAX_PAGES_BEYOND {
                self.turn.beyond = 0;
                return Next::Later;
            }
        }
        Next::Page
    }
}

/// What was changed in the second of an instant, by `createdAt`.
fn second_of_changes(at: Instant) -> TimeRange {
    let (from, to) = (Some(at.whole_second()), Some(at.whole_second().plus(SECOND)));
    TimeRange { within: Some(TimeBounds::Dated { from, to }), ..TimeRange::WHOLE }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Microseconds from one key to the next on average, over the later half: the first rows of a list may be dated oddly.
pub(in crate::sync) fn gap(keys: &[Option<Instant>]) -> Option<u64> {
    let half = &keys[keys.len() / 2..];
    let (first, last) = ((*half.first()?)?, (*half.last()?)?);
    let micros = last.since(first).as_micros() / (half.len() as u128);
    Some(u64::try_from(micros).unwrap_or(u64::MAX))
}

mod by_value;
mod resume;

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
