//! Passes over a record whose page cannot be read, however few rows it has: one bad record affects only itself. So it does
//! where a tie is longer than cursors lead: its moment is passed over, and what lies behind it is read.
//!
//! Nothing shows its place, so it is searched for by value. From behind the frontier, where the record is the first one, a range
//! is empty up to the record and unreadable from it on, whatever follows: other bad records do not mislead the search. What
//! was seen to be empty is never searched again; the record's own millisecond is left out and reported.

use std::time::Duration;

use super::anomaly::Anomaly;
use super::closing_counts;
use super::pages::{WalkPurpose, Walker};
use super::range::{MILLISECOND, SECOND};
use super::walk::{Frontier, Next, Walk};
use crate::api::{ListQuery, PageSize, SortBy};
use crate::error_chain::error_chain;
use crate::model::{Instant, Op, Record, TimeBounds, TimeField, TimeRange};
use crate::sync::checks::compare;
use crate::sync::error::SyncError;
use crate::sync::plan::Step;

/// The search first looks as far as bounds are precise; each further step is so many times as long.
const STEP: u32 = 32;

/// A run that has passed over so many records leaves the rest to the next one, whose delay grows.
const MAX_PASSED: u32 = 8;

/// What a range begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeStart {
    Nothing,
    Row(Instant),
    Unreadable,
}

/// The search for the first record at or after `low`. Pure.
#[derive(Clone, Debug)]
struct Search {
    low: Instant,
    /// The range up to here is unreadable.
    high: Option<Instant>,
    end: Instant,
    step: Duration,
    precision: Duration,
}

impl Search {
    fn new(low: Instant, end: Instant, precision: Duration) -> Search {
        Search { low: low.min(end), high: None, end, step: precision, precision }
    }

    /// The end of the range to ask for next.
    fn next(&self) -> Instant {
        let Some(high) = self.high else { return self.low.plus(self.step).min(self.end) };
        let (half, precision) = (high.since(self.low).as_millis() / 2, self.precision.as_millis());
        let whole = u64::try_from(half / precision * precision).unwrap_or(u64::MAX);
        self.low.plus(Duration::from_millis(whole).max(self.precision))
    }

    /// Where the moment of the record ends, if the answer for that range shows it. Where nothing unreadable is first behind the
    /// place at which the search began, and `high` is none, the record shares its moment with the last row that was read, or
    /// has no date.
    fn take(&mut self, shown: RangeStart) -> Option<Instant> {
        let to = self.next();
        match shown {
            // A row from before the range: the service compares in whole seconds.
            RangeStart::Row(key) if key < self.low && self.precision < SECOND => {
                *self = Search::new(self.low.whole_second().plus(SECOND), self.end, SECOND);
            }
            RangeStart::Row(_) => {
                self.high = None;
                return Some(self.low);
            }
            RangeStart::Nothing => {
                self.low = to;
                self.step = self.step.saturating_mul(STEP);
            }
            RangeStart::Unreadable => self.high = Some(to),
        }
        match self.high {
            Some(high) => (high.since(self.low) <= self.precision).then_some(high),
            None => (self.low >= self.end).then_some(self.end),
        }
    }
}

impl Walker<'_> {
    /// The walk behind the record, or the rest of a tie, that follows the frontier and cannot be read.
    pub(super) async fn pass_over_record(&mut self, error: SyncError) -> Result<Walk, SyncError> {
        let run = self.run;
        let (object, resource) = (self.job.object(), self.job.object().resource());
        let walk = self.read.position.clone();
        let before = run.cost();
        run.results().passed_over += 1;
        if run.results().passed_over > MAX_PASSED || self.answers_nothing().await? {
            return Err(error);
        }
        // It may be among the rows of the frontier's moment: those are read first, by their other date.
        if let (true, Frontier::At(at)) = (walk.is_of_changes(), walk.frontier)
            && !self.is_read(at).await?
        {
            return self.go_on(walk.tied_in(at), None).await;
        }
        let mut search = unread(&walk);
        let (from, is_tie) = (search.low, error.is_refused());
        if is_tie {
            search.end = search.end.min(from.whole_second().plus(2 * SECOND));
        }
        let at = match self.search(&mut search).await {
            Ok(at) => at,
            Err(stopped) => {
                if !is_tie
                    && search.low > from
                    && let Next::Restart(walk) = walk.passing_to(search.low).restart()
                {
                    (self.read.position, self.unsaved) = (*walk, 1);
                }
                return Err(stopped);
            }
        };
        if walk.is_of_changes() {
            let moment = at.minus(MILLISECOND);
            let second = match (search.high, walk.frontier) {
                (Some(_), _) => self.is_shared(moment.whole_second()).await?.then_some(moment),
                (None, Frontier::At(at)) => Some(at),
                (None, _) => walk.range.bounds.dates().0,
            };
            if let Some(second) = second {
                return self.go_on(walk.tied_in(second), None).await;
            }
        }
        run.note_anomaly(Anomaly::UnreadableRecord, resource).await?;
        let changed = match walk.range.field {
            TimeField::UpdatedAt => Some(at),
            TimeField::CreatedAt => walk.range.within.and_then(|second| second.dates().1),
        };
        let until = changed.unwrap_or(at);
        run.warn(format!("records of {resource} before {until} could not be read and are left out: {error}"));
        let time = run.results().service_time;
        let mut walk = walk.passing_to(at);
        match self.job {
            WalkPurpose::Slice(_) => run.write(move |tx| tx.claims().leave_records_out(object, 1)).await?,
            // One that changes again and again is not searched for each time.
            WalkPurpose::Changes(_) => {
                let moment = changed.map(|at| at.minus(MILLISECOND));
                run.write(move |tx| {
                    closing_counts::owe_changes(tx, object, (moment, moment), moment.map(Instant::whole_second))
                })
                .await?;
                let cost = run.cost().since(before).spent;
                run.record_failure(Step::Changes(object), error_chain(&error), cost);
            }
            WalkPurpose::Fill(..) => {}
        }
        // The next walk begins behind it, and does not search for it again.
        walk.seen.high = walk.seen.high.max(changed.filter(|at| time.is_plausible(*at) == Some(true)));
        self.restart(&walk, None).await
    }

    async fn search(&self, search: &mut Search) -> Result<Instant, SyncError> {
        while search.low < search.end {
            let range = part_of(&self.read.position, search.low, Some(search.next()));
            let shown = match self.first_row(range.list(self.job.object().resource())).await? {
                None => RangeStart::Unreadable,
                Some(None) => RangeStart::Nothing,
                Some(Some(row)) => RangeStart::Row(row.time(range.field).unwrap_or(search.low)),
            };
            if let Some(at) = search.take(shown) {
                return Ok(at);
            }
        }
        Ok(search.end)
    }

    /// Whether nothing can be read at all, however few rows are asked for: that is no matter of one record.
    pub(super) async fn answers_nothing(&self) -> Result<bool, SyncError> {
        let behind_all = part_of(&self.read.position, Instant::MAX, None).list(self.job.object().resource());
        match self.first_row(behind_all).await {
            Err(refused) if refused.is_refused() => Ok(false),
            answered => Ok(answered?.is_none()),
        }
    }

    /// Whether all that was changed in this moment is here, as far as a count shows.
    async fn is_read(&self, at: Instant) -> Result<bool, SyncError> {
        let (object, from) = (self.job.object(), at.millisecond_before());
        let moment = TimeRange::dated(TimeField::UpdatedAt, Some(from), Some(from.plus(MILLISECOND)));

        let here = compare::count_here(self.run, object, moment).await?;
        match compare::count_there(self.run, object, moment).await {
            Ok(there) => Ok(there == here),
            Err(error) if error.allows_another() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a readable record was changed in the second of one that is not.
    async fn is_shared(&self, second: Instant) -> Result<bool, SyncError> {
        for sort in [SortBy::CreatedAsc, SortBy::CreatedDesc] {
            let query = ListQuery::new(self.job.object().resource())
                .sort(sort)
                .bounded(TimeField::UpdatedAt, Op::Gte, second)
                .bounded(TimeField::UpdatedAt, Op::Lt, second.plus(SECOND));
            if self.first_row(query).await?.flatten().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first row of a list, if it has any; `None` if that cannot be read.
    async fn first_row(&self, query: ListQuery) -> Result<Option<Option<Record>>, SyncError> {
        match self.ask(query.limit(PageSize::ONE).once()).await {
            Ok(arrived) => Ok(Some(arrived.page.records.into_iter().next())),
            Err(error) if error.may_be_of_a_record() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The rows of a walk's kind between these instants.
const fn part_of(walk: &Walk, from: Instant, to: Option<Instant>) -> TimeRange {
    TimeRange { bounds: TimeBounds::Dated { from: Some(from), to }, ..walk.range }
}

/// The search behind the frontier.
fn unread(walk: &Walk) -> Search {
    let (from, to) = walk.range.bounds.dates();
    let end = to.unwrap_or(Instant::MAX);
    let low = match walk.frontier {
        Frontier::Nulls => end,
        _ if walk.range.bounds == TimeBounds::Dateless => end,
        Frontier::Start => from.unwrap_or(Instant::EPOCH).millisecond_before(),
        Frontier::At(at) => at.millisecond_before().plus(MILLISECOND),
    };
    Search::new(low, end, MILLISECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_secs(1_700_000_000).unwrap().plus(Duration::from_millis(millis))
    }

    /// What a service says that has these rows, in their order; some cannot be read.
    fn shown(rows: &[(u64, bool)], is_coarse: bool, from: Instant, to: Instant) -> RangeStart {
        let compared = |at: Instant| if is_coarse { at.whole_second() } else { at };
        let is_inside = |row: &&(u64, bool)| {
            let key = compared(at(row.0));
            key >= compared(from) && key < compared(to)
        };
        match rows.iter().find(is_inside) {
            None => RangeStart::Nothing,
            Some((_, true)) => RangeStart::Unreadable,
            Some((key, _)) => RangeStart::Row(at(*key)),
        }
    }

    #[test]
    fn first_record_that_cannot_be_read_is_found_whatever_follows_it() {
        for seed in 0..4_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (count, spread, is_coarse) = (rng.usize(1..30), 1 << rng.u32(1..42), rng.bool());
            let mut keys: Vec<u64> = (0..count).map(|_| rng.u64(0..spread)).collect();
            keys.sort_unstable();
            // Rows before the first bad one were read; the search begins behind the last of them.
            let bad = rng.usize(0..count);
            let rows: Vec<(u64, bool)> =
                keys.iter().enumerate().map(|(n, key)| (*key, n == bad || n > bad && rng.u8(0..3) == 0)).collect();
            let from = if bad == 0 { at(0) } else { at(keys[bad - 1]).plus(MILLISECOND) };
            let slice = at(spread).whole_second().plus(SECOND);
            let mut search = Search::new(from, if rng.bool() { slice } else { Instant::MAX }, MILLISECOND);
            let mut requests = 0;
            let end = loop {
                let (from, to) = (search.low, search.next());
                requests += 1;
                if let Some(end) = search.take(shown(&rows, is_coarse, from, to)) {
                    break end;
                }
                assert!(requests < 100, "{seed}: {search:?}");
            };
            let key = at(keys[bad]);
            // Nothing but the moments of bad records, or their seconds, is passed over.
            let passed = keys.iter().filter(|key| at(**key) >= from && at(**key) < end);
            let second = |millis: &u64| at(*millis).whole_second();
            let beside = |other: &u64| rows.iter().any(|(key, is_bad)| *is_bad && second(key) == second(other));
            let same = |other: &u64| rows.contains(&(*other, true)) || is_coarse && beside(other);
            assert!(passed.clone().all(same), "{seed}: {end:?} for {key} of {rows:?}");
            let is_found = end == key.plus(MILLISECOND);
            let is_tied = key < from;
            assert!(is_found || is_tied || is_coarse && end > key, "{seed}: {end:?} for {key} of {rows:?}");
            assert!(requests <= 55, "{seed}: {requests}");
        }
    }
}
