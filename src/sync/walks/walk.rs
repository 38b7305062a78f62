//! A walk through a list, page by page: what to ask next, and what a page means. Pure: no IO, no clock.
//!
//! A [`Walk`] is the checkpoint itself. It is stored in the transaction of each page, so a restart goes on with the
//! cursor; and it knows enough to go on without one, when the service refuses the cursor or the key has changed.
//!
//! # Why a walk restarts with `gte` and never with `gt`
//! Rows may share a timestamp. Behind a refused cursor, `gt` the last applied timestamp would skip every other row of
//! the tie; `gte` reads the tie twice and writes it once.
//!
//! # Why pages are not trusted
//! The reference promises order and progress. A service that breaks the promise must not make a walk loop or lose a
//! row: disorder forbids narrowing the range on a restart, and a cursor that was seen before counts as refused.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

pub use super::anomaly::Oddity;
pub use super::range::Range;
use crate::api::query::QueryError;
use crate::api::{ListQuery, PageSize};
use crate::model::{Cursor, Instant, Resource};

/// How often a walk may restart without getting further.
const MOST_RESTARTS: u32 = 4;

/// Pages without rows in a row that are followed before the walk restarts: each has a cursor of its own, so nothing else
/// would end them.
const MOST_EMPTY: u32 = 10;

/// Pages beyond the service's own time at the walk's beginning, after which a walk leaves the rest to the next run:
/// under constant churn a walk would never end.
const MOST_PAGES_BEYOND: u32 = 20;

/// How far a walk has read, by the key it is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frontier {
    /// Nothing yet.
    Start,
    /// Up to this timestamp; further rows may share it.
    At(Instant),
    /// Among the rows without a timestamp, which come last.
    Nulls,
}

/// What a page of a walk says, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The rows' sort keys, in the order of the page.
    pub keys: Vec<Option<Instant>>,
    /// The highest `updatedAt` on the page.
    pub high: Option<Instant>,
    /// Where the next page begins.
    pub next: Option<Cursor>,
    /// The service's clock.
    pub date: Option<Instant>,
}

/// What comes after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next page; the walk holds its cursor.
    Page,
    /// The range is read to its end.
    End,
    /// Enough for this run: the rest is churn, and the walk goes on in the next run.
    Later,
    /// The cursor is of no use: walk these ranges instead.
    Restart(Vec<Walk>),
    /// Restarting has not helped.
    Stuck,
}

/// A walk through one range: its checkpoint, and what it has learnt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The rows to read.
    pub range: Range,
    /// Where the next page begins; `None` before the first.
    pub cursor: Option<Cursor>,
    /// The fingerprint of the key that the cursor is bound to.
    pub key: String,
    /// How far it has read.
    pub frontier: Frontier,
    /// The highest `updatedAt` seen.
    pub high: Option<Instant>,
    /// The service's clock at the first page.
    pub served_at: Option<Instant>,
    /// Rows read.
    pub rows: u64,
    /// Pages read, those of walks that it restarts included.
    pub pages: u64,
    /// Where the first of the walks that it restarts began, if it is one of changes.
    pub origin: Option<Instant>,
    /// How far it or a walk before it that it restarts has read: only beyond this is it getting further.
    reached: Frontier,
    /// Restarts without getting further.
    restarts: u32,
    /// Whether every page so far was in order.
    orderly: bool,
    /// Pages beyond `served_at`.
    beyond: u32,
    /// Pages without rows since the last one with rows.
    #[serde(default)]
    empty: u32,
    /// How many rows a page has, where full pages are too large to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_size: Option<u8>,
    /// The service's clock at the first page of this run: what changed later is churn.
    #[serde(skip)]
    run_began: Option<Instant>,
    /// The cursors followed since the frontier last moved.
    #[serde(skip)]
    followed: HashSet<u64>,
}

impl Walk {
    /// A walk that has read nothing.
    pub fn new(range: Range, key: &str) -> Walk {
        let origin = match &range {
            Range::Changes { after, .. } => *after,
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
            run_began: None,
            followed: HashSet::new(),
        }
    }

    /// This walk with pages of half as many rows; `None` where a page has one row already. A cursor is bound to the
    /// conditions that it came with, and whether the page size is one of them is not documented: the walk that is
    /// returned has to restart where it has a cursor.
    #[must_use]
    pub fn with_smaller_pages(&self) -> Option<Walk> {
        let size = self.page_size.unwrap_or(PageSize::MAX.get());
        (size > 1).then(|| Walk { page_size: Some(size / 2), ..self.clone() })
    }

    /// The query of the next page.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = self.range.query(resource)?;
        let query = query.limit(self.page_size.and_then(PageSize::new).unwrap_or(PageSize::MAX));
        Ok(match &self.cursor {
            Some(cursor) => query.after(cursor.clone()),
            None => query,
        })
    }

    /// Takes a page: moves on, and says what comes next and what was odd.
    pub fn take(&mut self, facts: &Facts) -> (Next, Vec<Oddity>) {
        let mut odd = Vec::new();
        let before = self.frontier;
        if self.served_at.is_none() {
            self.served_at = facts.date;
        }
        self.run_began = self.run_began.or(facts.date);
        self.rows += facts.keys.len() as u64;
        self.pages += 1;
        self.high = self.high.max(facts.high);
        let mut previous = before;
        for key in &facts.keys {
            let at = key.map_or(Frontier::Nulls, Frontier::At);
            if at < previous {
                self.orderly = false;
                odd.push(Oddity::UnorderedPage);
            }
            if !self.range.holds(*key) {
                odd.push(Oddity::RowOutsideFilter);
            }
            previous = previous.max(at);
        }
        self.frontier = previous;
        if self.frontier > before {
            self.followed.clear();
        }
        if self.frontier > self.reached {
            self.reached = self.frontier;
            self.restarts = 0;
        }
        let next = self.next(facts, &mut odd);
        odd.sort_unstable();
        odd.dedup();
        (next, odd)
    }

    fn next(&mut self, facts: &Facts, odd: &mut Vec<Oddity>) -> Next {
        let Some(next) = &facts.next else {
            self.cursor = None;
            return Next::End;
        };
        if facts.keys.is_empty() {
            odd.push(Oddity::EmptyPage);
            self.empty += 1;
            if self.empty > MOST_EMPTY {
                return self.restart();
            }
        } else {
            self.empty = 0;
        }
        let mut hasher = DefaultHasher::new();
        next.hash(&mut hasher);
        if !self.followed.insert(hasher.finish()) || self.cursor.as_ref() == Some(next) {
            odd.push(Oddity::RepeatedCursor);
            return self.restart();
        }
        self.cursor = Some(next.clone());
        let is_beyond = |key: &Option<Instant>| self.run_began.is_some_and(|began| key.is_some_and(|key| key > began));
        if matches!(self.range, Range::Changes { .. }) && facts.keys.first().is_some_and(is_beyond) {
            self.beyond += 1;
            if self.beyond >= MOST_PAGES_BEYOND {
                self.beyond = 0;
                return Next::Later;
            }
        }
        Next::Page
    }

    /// What to do when the cursor is of no use: refused, of another key, or going in circles.
    pub fn restart(&self) -> Next {
        if self.restarts >= MOST_RESTARTS {
            return Next::Stuck;
        }
        let ranges = match (&self.range, self.frontier) {
            (range, _) if !self.orderly => vec![range.clone()],
            (range, Frontier::Start) => vec![range.clone()],
            (Range::Changes { .. }, Frontier::At(at)) => vec![Range::Changes { after: Some(at), inclusive: true }],
            (Range::All, Frontier::At(at)) => {
                vec![Range::Created { from: Some(at), to: None }, Range::WithoutCreated]
            }
            (Range::Created { to, .. }, Frontier::At(at)) => vec![Range::Created { from: Some(at), to: *to }],
            (Range::All, Frontier::Nulls) => vec![Range::WithoutCreated],
            (range, _) => vec![range.clone()],
        };
        Next::Restart(
            ranges
                .into_iter()
                .map(|range| Walk {
                    high: self.high,
                    served_at: self.served_at,
                    pages: self.pages,
                    origin: self.origin,
                    reached: self.reached,
                    restarts: self.restarts + 1,
                    orderly: self.orderly,
                    page_size: self.page_size,
                    ..Walk::new(range, &self.key)
                })
                .collect(),
        )
    }

    /// This walk in a run that resumes it, under the key of that run: cursors are bound to the key's scopes, so under
    /// another one it continues without. What earlier runs tried counts no longer, or a walk that was given up once would
    /// be given up for ever.
    #[must_use]
    pub fn under_key(self, key: &str) -> Vec<Walk> {
        let same = self.key == key || self.cursor.is_none();
        let renamed = Walk { key: key.to_string(), restarts: 0, beyond: 0, empty: 0, ..self };
        if same {
            return vec![renamed];
        }
        match renamed.restart() {
            Next::Restart(walks) => walks,
            _ => vec![Walk::new(renamed.range, key)],
        }
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
