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

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, SortBy};
use crate::model::{Cursor, Instant, Resource};

/// How often a walk may restart without getting further.
const MOST_RESTARTS: u32 = 4;

/// Pages without rows in a row that are followed before the walk restarts: each has a cursor of its own, so nothing else
/// would end them.
const MOST_EMPTY: u32 = 10;

/// Pages beyond the service's own time at the walk's beginning, after which a walk leaves the rest to the next run:
/// under constant churn a walk would never end.
const MOST_PAGES_BEYOND: u32 = 20;

/// Which rows a walk reads, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// By `updatedAt`, ascending: changes.
    Changes {
        /// Rows later than this; all that have an `updatedAt` where there is none.
        after: Option<Instant>,
        /// Rows at `after` too.
        inclusive: bool,
    },
    /// By `createdAt`, ascending: everything; rows without one come last.
    All,
    /// By `createdAt`, ascending: `from` inclusive, `to` exclusive, open where there is none.
    Created {
        /// Rows at or after this.
        from: Option<Instant>,
        /// Rows before this.
        to: Option<Instant>,
    },
    /// Rows without `createdAt`.
    WithoutCreated,
}

impl Range {
    /// The query of the range's first page.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = ListQuery::new(resource);
        match self {
            Range::Changes { after, inclusive } => {
                let query = query.sort(SortBy::UpdatedAsc)?;
                match after {
                    Some(after) if *inclusive => query.updated(Bound::Gte(*after)),
                    Some(after) => query.updated(Bound::Gt(*after)),
                    None => Ok(query),
                }
            }
            Range::All => query.sort(SortBy::CreatedAsc),
            Range::Created { from, to } => {
                let mut query = query.sort(SortBy::CreatedAsc)?;
                if let Some(from) = from {
                    query = query.created(Bound::Gte(*from))?;
                }
                if let Some(to) = to {
                    query = query.created(Bound::Lt(*to))?;
                }
                Ok(query)
            }
            Range::WithoutCreated => query.sort(SortBy::CreatedAsc)?.is_null("createdAt", true),
        }
    }

    /// Whether a row with this sort key may be in the range.
    fn holds(&self, key: Option<Instant>) -> bool {
        match (self, key) {
            (Range::All, _) | (Range::Changes { after: None, .. }, _) | (Range::WithoutCreated, None) => true,
            (
                Range::Changes {
                    after: Some(after),
                    inclusive,
                },
                Some(key),
            ) => key > *after || *inclusive && key == *after,
            (Range::Created { from, to }, Some(key)) => {
                from.is_none_or(|from| key >= from) && to.is_none_or(|to| key < to)
            }
            _ => false,
        }
    }
}

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

/// What the service did against its own document, on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// Rows were not in the order asked for.
    UnorderedPage,
    /// A row does not match the filter.
    RowOutsideFilter,
    /// A cursor came that had been followed before.
    RepeatedCursor,
    /// A page without rows that is not the last.
    EmptyPage,
    /// A cursor was refused that was passed unchanged with its own conditions.
    RefusedCursor,
}

impl Oddity {
    /// The word in `service_oddities`.
    pub const fn word(self) -> &'static str {
        match self {
            Oddity::UnorderedPage => "unordered_page",
            Oddity::RowOutsideFilter => "row_outside_filter",
            Oddity::RepeatedCursor => "repeated_cursor",
            Oddity::EmptyPage => "empty_page",
            Oddity::RefusedCursor => "refused_cursor",
        }
    }

    /// The sentence in `service_oddities`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Oddity::UnorderedPage => "rows came in another order than asked for",
            Oddity::RowOutsideFilter => "a row came that does not match the filter",
            Oddity::RepeatedCursor => "a cursor came that had been followed before",
            Oddity::EmptyPage => "a page without rows named a next page",
            Oddity::RefusedCursor => "a cursor was refused that was passed back unchanged",
        }
    }
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
            followed: HashSet::new(),
        }
    }

    /// The query of the next page.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = self.range.query(resource)?;
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
        let is_beyond =
            |key: &Option<Instant>| self.served_at.is_some_and(|served| key.is_some_and(|key| key > served));
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
            (Range::Changes { .. }, Frontier::At(at)) => vec![Range::Changes {
                after: Some(at),
                inclusive: true,
            }],
            (Range::All, Frontier::At(at)) => {
                vec![
                    Range::Created {
                        from: Some(at),
                        to: None,
                    },
                    Range::WithoutCreated,
                ]
            }
            (Range::Created { to, .. }, Frontier::At(at)) => vec![Range::Created {
                from: Some(at),
                to: *to,
            }],
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
                    ..Walk::new(range, &self.key)
                })
                .collect(),
        )
    }

    /// This walk under another key: cursors are bound to the key's scopes, so it goes on without one.
    #[must_use]
    pub fn under_key(self, key: &str) -> Vec<Walk> {
        if self.key == key || self.cursor.is_none() {
            return vec![Walk {
                key: key.to_string(),
                ..self
            }];
        }
        let renamed = Walk {
            key: key.to_string(),
            restarts: 0,
            ..self
        };
        match renamed.restart() {
            Next::Restart(walks) => walks,
            _ => vec![Walk::new(renamed.range, key)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_secs(1_700_000_000 + second).unwrap()
    }

    fn page(keys: &[i64], next: Option<&str>) -> Facts {
        Facts {
            keys: keys.iter().map(|s| Some(at(*s))).collect(),
            high: keys.iter().max().map(|s| at(*s)),
            next: next.map(Cursor::from),
            date: Some(at(1000)),
        }
    }

    fn changes(after: i64) -> Walk {
        Walk::new(
            Range::Changes {
                after: Some(at(after)),
                inclusive: false,
            },
            "k",
        )
    }

    #[test]
    fn a_walk_reads_to_the_end() {
        let mut walk = changes(0);
        assert_eq!(walk.take(&page(&[1, 2], Some("a"))), (Next::Page, vec![]));
        assert_eq!(walk.cursor, Some(Cursor::from("a")));
        assert_eq!(walk.take(&page(&[3], None)), (Next::End, vec![]));
        assert_eq!((walk.high, walk.rows), (Some(at(3)), 3));
    }

    #[test]
    fn a_refused_cursor_restarts_with_gte_the_last_row() {
        let mut walk = changes(0);
        walk.take(&page(&[1, 5, 5], Some("a")));
        let Next::Restart(walks) = walk.restart() else { panic!() };
        assert_eq!(
            walks[0].range,
            Range::Changes {
                after: Some(at(5)),
                inclusive: true
            }
        );
        let params = walks[0].query(Resource::Contacts).unwrap().to_params();
        assert!(
            params.contains(&("filter[updatedAt][gte]".into(), at(5).to_wire())),
            "{params:?}"
        );
    }

    #[test]
    fn a_refused_cursor_of_a_full_walk_still_reads_the_rows_without_a_date() {
        let mut walk = Walk::new(Range::All, "k");
        walk.take(&page(&[1, 5], Some("a")));
        let Next::Restart(walks) = walk.restart() else { panic!() };
        let ranges: Vec<_> = walks.into_iter().map(|w| w.range).collect();
        assert_eq!(
            ranges,
            [
                Range::Created {
                    from: Some(at(5)),
                    to: None
                },
                Range::WithoutCreated
            ]
        );
    }

    #[test]
    fn disorder_forbids_narrowing_the_range() {
        let mut walk = changes(0);
        let (_, odd) = walk.take(&page(&[5, 2], Some("a")));
        assert_eq!(odd, [Oddity::UnorderedPage]);
        let Next::Restart(walks) = walk.restart() else { panic!() };
        assert_eq!(walks[0].range, walk.range);
    }

    #[test]
    fn a_service_that_goes_in_circles_ends_the_walk() {
        let mut walk = changes(0);
        walk.take(&page(&[1], Some("a")));
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 50);
            match walk.take(&page(&[1], Some("a"))).0 {
                Next::Restart(mut walks) => walk = walks.remove(0),
                Next::Stuck => break,
                _ => {}
            }
        }
    }

    #[test]
    fn ten_thousand_rows_of_one_timestamp_are_no_circle() {
        let mut walk = changes(0);
        for n in 0..100 {
            assert_eq!(
                walk.take(&page(&[7; 100], Some(&format!("c{n}")))),
                (Next::Page, vec![])
            );
        }
    }

    #[test]
    fn churn_is_left_to_the_next_run_with_its_cursor() {
        let mut walk = changes(0);
        let mut n = 0;
        let next = loop {
            n += 1;
            let (next, _) = walk.take(&page(&[1000 + n, 1001 + n], Some(&format!("c{n}"))));
            if next != Next::Page {
                break next;
            }
        };
        assert_eq!((next, n), (Next::Later, i64::from(MOST_PAGES_BEYOND)));
        assert!(walk.cursor.is_some());
        assert_eq!(
            walk.take(&page(&[2000], Some("more"))).0,
            Next::Page,
            "the next run has as many pages again"
        );
    }

    #[test]
    fn odd_pages_are_named() {
        let mut walk = changes(10);
        assert_eq!(walk.take(&page(&[], Some("a"))).1, [Oddity::EmptyPage]);
        assert_eq!(walk.take(&page(&[10], Some("b"))).1, [Oddity::RowOutsideFilter]);
        assert_eq!(
            walk.take(&page(&[11], Some("a"))).1,
            [],
            "the frontier has moved since `a` was followed"
        );
    }

    #[test]
    fn another_key_gives_the_cursor_up() {
        let mut walk = changes(0);
        walk.take(&page(&[1, 5], Some("a")));
        let kept = walk.clone().under_key("k");
        assert_eq!(kept[0].cursor, Some(Cursor::from("a")));
        let given_up = walk.under_key("other");
        assert_eq!(given_up[0].cursor, None);
        assert_eq!(given_up[0].key, "other");
        assert_eq!(
            given_up[0].range,
            Range::Changes {
                after: Some(at(5)),
                inclusive: true
            }
        );
    }

    #[test]
    fn a_checkpoint_survives_being_stored() {
        let mut walk = changes(0);
        walk.take(&page(&[1, 5], Some("a")));
        let text = serde_json::to_string(&walk).unwrap();
        let back: Walk = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (back.cursor, back.frontier, back.high),
            (walk.cursor, walk.frontier, walk.high)
        );
    }
}
