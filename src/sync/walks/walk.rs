//! A walk through a list, page by page: what to request next, and what a page means. Pure: no IO, no clock.
//!
//! A [`Walk`] is its own checkpoint. It is stored in the transaction of each page, so it continues with the cursor
//! after a restart; and it can continue without a cursor, if the service refuses it, the key has changed, or the cursor is
//! of another time.
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
pub use super::range::WalkRange;
use crate::api::query::QueryError;
use crate::api::{ListQuery, PageSize};
use crate::model::{Cursor, Instant, RecordId, Resource};

/// How often a walk may restart without progress.
const MOST_RESTARTS: u32 = 4;

/// Consecutive pages without rows after which the walk restarts, once: each may have a new cursor, so they would never end.
const MOST_EMPTY: u32 = 10;

/// Pages with changes made after the walk started, after which the walk leaves the rest to the next run: with constant
/// changes it would never end.
const MOST_PAGES_BEYOND: u32 = 20;

/// How long after a page its cursor is followed. A cursor may count rows: every record that is removed or moved behind
/// the walk meanwhile makes it pass over another one.
const CURSOR_AGE: Duration = Duration::from_secs(600);

/// How far a walk has read, by its sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frontier {
    /// Nothing yet.
    Start,
    /// Up to this timestamp; more rows may share it.
    At(Instant),
    /// Among the rows without a timestamp, which come last.
    Nulls,
}

/// The facts about a page that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The rows' sort keys, in the order of the page.
    pub keys: Vec<Option<Instant>>,
    /// The last row's record.
    pub last: Option<RecordId>,
    /// The highest `updatedAt` on the page that may be a watermark.
    pub high: Option<Instant>,
    /// The cursor of the next page.
    pub next: Option<Cursor>,
    /// The service's time when the page was asked for, at least.
    pub served_at: Option<Instant>,
    /// Before this, nothing is committed any more: the overlap before `served_at`.
    pub settled_at: Option<Instant>,
    /// The latest of all clocks: what changed after it is churn.
    pub now: Option<Instant>,
    /// How many rows the whole range has, where that was asked for.
    pub total: Option<u64>,
}

/// What follows after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next page; the walk has its cursor.
    Page,
    /// The range was read completely.
    End,
    /// Suspended: the rest are new changes, and the walk continues in the next run.
    Later,
    /// The cursor is unusable: walk these ranges instead.
    Restart(Vec<Walk>),
    /// By value as well as by cursor, nothing follows but the last page: it seems that the list has ended.
    Repeats,
    /// Restarting has not helped.
    Stuck,
}

/// A walk through one range: its checkpoint and state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The rows to read.
    pub range: WalkRange,
    /// The cursor of the next page; `None` before the first.
    pub cursor: Option<Cursor>,
    /// The fingerprint of the key that the cursor is bound to.
    pub key: String,
    /// How far it has read.
    pub frontier: Frontier,
    /// The highest `updatedAt` seen.
    pub high: Option<Instant>,
    /// The service's time at the first page, at least.
    pub served_at: Option<Instant>,
    /// Rows read.
    pub rows: u64,
    /// Pages read, including those of walks that it restarts.
    pub pages: u64,
    /// Where the first of the walks that it restarts started, if it is a changes walk.
    pub origin: Option<Instant>,
    /// How far it or a walk that it restarts has read: only rows beyond this are progress.
    reached: Frontier,
    /// Restarts without progress.
    restarts: u32,
    /// Whether every page so far was in order.
    orderly: bool,
    /// Pages beyond `served_at`.
    beyond: u32,
    /// Pages without rows since the last one with rows.
    #[serde(default)]
    empty: u32,
    /// The page size, if full pages are too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_size: Option<u8>,
    /// Whether its pages ask for the total. A cursor is bound to the conditions that it came with, so all of them do or
    /// none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub counted: bool,
    /// How many rows the range had at the first page, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Where it ends before its range does: rows from here on are read by another walk. The cursor stays of use, which it
    /// would not with a narrower range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// Microseconds from one row's timestamp to the next one's, on average over the later half of the first page: how
    /// densely rows follow each other there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<u64>,
    /// Our clock when the last run began that continued this walk while every later change was still before it, if it
    /// walks changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present_at: Option<Instant>,
    /// Whether a later change may sort before the place that it has reached.
    #[serde(default, skip_serializing_if = "is_false")]
    passed: bool,
    /// When the cursor was received, by the latest of all clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor_at: Option<Instant>,
    /// Whether all rows of the last page have the same timestamp: a walk from there would read the page again.
    #[serde(default, skip_serializing_if = "is_false")]
    tied: bool,
    /// The last page, if it had rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_page: Option<LastPage>,
    /// The last record of the page that is read again, if the cursor after it is still of use.
    #[serde(skip)]
    expected: Option<RecordId>,
    /// The time at the first page of this run: what changed later is churn.
    #[serde(skip)]
    run_began: Option<Instant>,
    /// Whether it stops after its next page, although there are more.
    #[serde(skip)]
    pub pauses: bool,
    /// The cursors followed since the frontier last moved.
    #[serde(skip)]
    followed: HashSet<u64>,
    /// The last records of the pages since the frontier last moved.
    #[serde(skip)]
    ended_with: HashSet<u64>,
}

/// A page that was read, to see later whether the list still continues behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastPage {
    /// The cursor that it was requested with; `None` for a first page.
    cursor: Option<Cursor>,
    /// The last record on it.
    record: RecordId,
}

impl Walk {
    /// A walk that has read nothing.
    pub fn new(range: WalkRange, key: &str) -> Walk {
        let origin = match &range {
            WalkRange::Changes { after, .. } => *after,
            _ => None,
        };
        Walk {
            range,
            pages: 0,
            origin,
            cursor: None,
            key: key.to_string(),
            frontier: Frontier::Start,
            high: None,
            served_at: None,
            rows: 0,
            reached: Frontier::Start,
            restarts: 0,
            orderly: true,
            beyond: 0,
            empty: 0,
            page_size: None,
            counted: false,
            total: None,
            until: None,
            gap: None,
            present_at: None,
            passed: false,
            cursor_at: None,
            tied: false,
            last_page: None,
            expected: None,
            run_began: None,
            pauses: false,
            followed: HashSet::new(),
            ended_with: HashSet::new(),
        }
    }

    /// This walk with half as many rows per page; `None` if a page has only one row. A cursor is bound to its
    /// conditions, and the reference does not say whether the page size is one of them, so the returned walk has to
    /// restart if it has a cursor.
    #[must_use]
    pub fn with_smaller_pages(&self) -> Option<Walk> {
        let size = self.page_size.unwrap_or(PageSize::MAX.get());
        (size > 1).then(|| Walk { page_size: Some(size / 2), ..self.clone() })
    }

    /// This walk, asking for the total on every page. Only for a walk that has read nothing.
    #[must_use]
    pub fn counted(self) -> Walk {
        Walk { counted: true, ..self }
    }

    /// This walk, without asking for the total.
    #[must_use]
    pub fn uncounted(self) -> Walk {
        Walk { counted: false, ..self }
    }

    /// Where a walk goes on that cannot read what lies before this instant. What it passes over is as a page that proves
    /// nothing: a count has to show that nothing is missing.
    #[must_use]
    pub fn passing_to(self, at: Instant) -> Walk {
        let frontier = Frontier::At(at);
        Walk {
            pages: self.pages + 1,
            frontier,
            reached: self.reached.max(frontier),
            restarts: 0,
            page_size: None,
            ..self
        }
    }

    /// This walk, stopping after its next page, although there are more.
    #[must_use]
    pub fn pausing(self) -> Walk {
        Walk { pauses: true, ..self }
    }

    /// How many rows a page has at most.
    pub fn page_size(&self) -> PageSize {
        self.page_size.and_then(PageSize::new).unwrap_or(PageSize::MAX)
    }

    /// How many rows are still to be read, where the total is known.
    pub fn rows_left(&self) -> Option<u64> {
        self.total.map(|total| total.saturating_sub(self.rows))
    }

    /// This walk in a run that begins now. It will have read all changes until then, unless one of them may sort before the
    /// place that it has reached: then it has read those until the begin of the run that brought it there.
    #[must_use]
    pub fn in_run_of(self, began: Instant) -> Walk {
        // A walk of an older version does not know it.
        let passed = self.passed || self.reached > Frontier::Start && self.present_at.is_none();
        Walk { present_at: if passed { self.present_at } else { Some(began) }, ..self }
    }

    /// The query of the next page.
    ///
    /// # Errors
    /// Returns a [`QueryError`] if the resource does not support the query.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = self.range.query(resource)?;
        let query = query.limit(self.page_size());
        // A page that was halved is halved again rather than repeated.
        let is_part = self.page_size() > PageSize::ONE && self.page_size() < PageSize::MAX;
        let query = if is_part { query.once() } else { query };
        let query = if self.counted { query.count_exact() } else { query };
        Ok(match &self.cursor {
            Some(cursor) => query.after(cursor.clone()),
            None => query,
        })
    }

    /// Processes a page: advances, and returns what follows and the anomalies.
    pub fn take(&mut self, facts: &Facts) -> (Next, Vec<Anomaly>) {
        let mut anomalies = Vec::new();
        if self.expected.take().is_some_and(|record| facts.last.as_ref() != Some(&record)) {
            // The list has moved behind the cursor that followed this page.
            return (self.restart(), anomalies);
        }
        let before = self.frontier;
        if self.pages == 0 {
            // Later pages may know of a later time, which says nothing about what the first one left out.
            self.served_at = self.served_at.max(facts.served_at);
        }
        self.run_began = self.run_began.or(facts.now);
        self.cursor_at = facts.now;
        if !facts.keys.is_empty() {
            self.tied = facts.keys.first() == facts.keys.last();
        }
        self.last_page = facts.last.clone().map(|record| LastPage { cursor: self.cursor.clone(), record });
        if self.pages == 0 {
            self.total = facts.total;
            self.gap = gap(&facts.keys);
        }
        self.rows += facts.keys.len() as u64;
        self.pages += 1;
        self.high = self.high.max(facts.high);
        let mut previous = before;
        for key in &facts.keys {
            let at = key.map_or(Frontier::Nulls, Frontier::At);
            if at < previous {
                self.orderly = false;
                anomalies.push(Anomaly::UnorderedPage);
            }
            if !self.range.holds(*key) {
                anomalies.push(Anomaly::RowOutsideFilter);
            }
            previous = previous.max(at);
        }
        self.frontier = previous;
        if self.frontier > before {
            self.followed.clear();
            self.ended_with.clear();
        }
        if self.frontier > self.reached {
            self.reached = self.frontier;
            self.restarts = 0;
        }
        self.passed |= match self.frontier {
            Frontier::Start => false,
            Frontier::At(at) => facts.settled_at.is_none_or(|settled| at > settled),
            Frontier::Nulls => true,
        };
        let next = self.next(facts, &mut anomalies);
        anomalies.sort_unstable();
        anomalies.dedup();
        (next, anomalies)
    }

    fn next(&mut self, facts: &Facts, anomalies: &mut Vec<Anomaly>) -> Next {
        let reached = self.until.is_some_and(|until| self.orderly && self.frontier >= Frontier::At(until));
        let Some(next) = facts.next.as_ref().filter(|_| !reached) else {
            self.cursor = None;
            let WalkRange::Tied { at, .. } = self.range else { return Next::End };
            return Next::Restart(vec![
                self.with_range(WalkRange::Changes { after: Some(at.plus(SECOND)), inclusive: true }),
            ]);
        };
        // A page that ends as an earlier one, while no later row has come, has nothing new, whatever its cursor.
        let is_repeated = !facts.last.as_ref().is_none_or(|last| self.ended_with.insert(hash_of(last)));
        if facts.keys.is_empty() || is_repeated {
            anomalies.push(if is_repeated { Anomaly::RepeatedPage } else { Anomaly::EmptyPage });
            self.empty += 1;
            if self.empty > MOST_EMPTY {
                return if self.restarts == 0 { self.restart() } else { Next::Stuck };
            }
        } else {
            self.empty = 0;
        }
        if !self.followed.insert(hash_of(next)) || self.cursor.as_ref() == Some(next) {
            anomalies.push(Anomaly::RepeatedCursor);
            let has_ended = self.restarts > 0 && self.cursor.as_ref() == Some(next) && self.frontier == self.reached;
            return if has_ended { Next::Repeats } else { self.restart() };
        }
        self.cursor = Some(next.clone());
        let is_beyond = |key: &Option<Instant>| self.run_began.is_some_and(|began| key.is_some_and(|key| key > began));
        if matches!(self.range, WalkRange::Changes { .. }) && facts.keys.first().is_some_and(is_beyond) {
            self.beyond += 1;
            if self.beyond >= MOST_PAGES_BEYOND {
                self.beyond = 0;
                return Next::Later;
            }
        }
        Next::Page
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Microseconds from one key to the next on average, over the later half: the first rows of a list may be dated oddly.
pub(in crate::sync) fn gap(keys: &[Option<Instant>]) -> Option<u64> {
    let half = &keys[keys.len() / 2..];
    let (first, last) = ((*half.first()?)?, (*half.last()?)?);
    let micros = last.since(first).as_micros() / (half.len() as u128);
    Some(u64::try_from(micros).unwrap_or(u64::MAX))
}

mod restart;

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
