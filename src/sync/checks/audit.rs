//! The audit: evidence, at very low cost, that no record is missing and no removed record is left.
//!
//! Ranges of time are counted on both sides, where the doubt is rather than where the rows are: by the age of the last
//! change, on a logarithmic scale back from now, so that a service that was restored to this morning differs in many of
//! them. Equal totals alone prove nothing, because one missing and one extra record cancel out; so the newest records are
//! compared row by row, and a few ranges are by creation, with edges that move from audit to audit. A range that
//! differs is halved (one count per level: the sibling is the difference) down to a page, which is listed and compared
//! record by record. If the whole list costs no more than the counts, it is listed at once.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::compare::Audit;
use crate::api::SortBy;
use crate::budget::Limits;
use crate::model::{Instant, Object, RecordId, Ru, TimeBounds, TimeField, TimeRange};
use crate::store::{Goal, LastRead, ReadTx, StoreError};
use crate::sync::checks::compare;
use crate::sync::engine::SWEEP_SHARE;
use crate::sync::error::{Suspension, SyncError};
use crate::sync::run::Run;
use crate::sync::walks::sweep;

/// How many instants divide the ranges of an audit by age, at most.
const MAX_EDGES: u64 = AGES.len() as u64;
/// What an audit by counts costs without findings, beside a request for each of these: the total, a range by creation, and
/// the page of the newest.
const BESIDE_EDGES: u64 = 3;
pub(in crate::sync) const MAX_COST: u64 = MAX_EDGES + BESIDE_EDGES;

const HOUR: u64 = 3_600;
/// The ages that divide an audit's ranges, the oldest first.
const AGES: [u64; 8] =
    [365 * 24 * HOUR, 30 * 24 * HOUR, 7 * 24 * HOUR, 72 * HOUR, 24 * HOUR, 12 * HOUR, 3 * HOUR, HOUR];

const SECOND: Duration = Duration::from_secs(1);

/// A range with at most this many records is listed instead of halved: it is one page.
pub(super) const LEAF: u64 = 100;

/// What is owed of the whole list is counted in so many parts, at most.
const MAX_PARTS: u64 = 16;

/// How long an owed count waits for a range that could not be listed.
pub(in crate::sync) const DAY: Duration = Duration::from_secs(86_400);

/// About what a comparison costs for each record that differs, in RU.
const FOLLOWING: u64 = 10;

/// Counts an object between its audits, for 1 RU: a removal is in no list of changes. A difference starts an audit
/// at once, but for what the last comparison that repairs has left unexplained. What costs more than a sweep, or than a
/// window pays for, is left to a sweep, which goes on where the budget ended it; unless one is under way or has ended recently:
/// then they are compared, and what no window pays for is left to a later one.
pub(in crate::sync) async fn count_between_audits(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let (now, before, limits) = (run.now(), run.cost(), *run.engine.meter.limits());
    let (here, there) = Audit::new(run, object).total().await?;
    let reading = run.read(move |tx| {
        let (goals, price) = (tx.goals(), sweep::price(tx.count_rows(object)?));
        let wrong = goals.last_read(Goal::WrongTotal(object))?.map_or(0, |read| read.open);
        Ok((
            compare::unexplained(tx, object, there)?,
            goals.last_read(Goal::Total(object))?,
            price.get(),
            is_swept(tx, object, &limits, now)?,
            wrong,
        ))
    });
    let (left, known, price, is_swept, wrong) = reading.await?;
    let many = (price / FOLLOWING).max(FOLLOWING);
    // What costs too much so soon after a sweep is left to a later one; until then, the cost says that it is not explained.
    let note = |wants_sweep: bool| {
        let cost = (wants_sweep && is_swept).then_some(Ru::GET);
        run.write(move |tx| {
            if wants_sweep && !is_swept {
                tx.claims().set(Goal::AskedSweep(object))?;
            }
            let open = compare::unexplained(tx, object, there)?;
            if open == 0 && wrong.unsigned_abs() <= many {
                // It is right now: the same difference may be a removal the next time.
                tx.claims().unset(Goal::WrongTotal(object))?;
            }
            tx.claims().reach(Goal::Total(object), LastRead { open, cost, ..LastRead::between(now, now) })
        })
    };
    if left == 0 || known.is_some_and(|known| left == known.open) {
        return note(left != 0 && known.is_some_and(|known| known.cost.is_some())).await;
    }
    tracing::info!(%object, "The service has {there} {} and the mirror {here}: they are compared", object.resource());
    if !is_swept && left.abs_diff(wrong) > many {
        return note(true).await;
    }
    let compared = compare::compare_object(run, object, false, true).await;
    let is_over = compared.as_ref().is_err_and(|error| matches!(error.suspension(), Some(Suspension::Budget(_))));
    if is_over && run.cost().since(before).spent >= Ru::new(limits.limit.get() / 2) {
        note(left != wrong).await?;
    } else if compared.is_ok() && is_swept && run.may_count(object) {
        let noting = run.write(move |tx| {
            // What the comparison has repaired, or what arrived meanwhile, is no wrong total.
            let open = tx.goals().last_read(Goal::Total(object))?.map_or(0, |read| read.open);
            tx.claims().reach(Goal::WrongTotal(object), LastRead { open, ..LastRead::between(now, now) })
        });
        noting.await?;
    }
    compared
}

/// Whether a sweep has compared every record so recently that the schedule asks for no other.
fn is_swept(tx: &ReadTx<'_>, object: Object, limits: &Limits, now: Instant) -> Result<bool, StoreError> {
    let (goals, price) = (tx.goals(), sweep::price(tx.count_rows(object)?));
    let paid = limits.time_to_earn(price, SWEEP_SHARE).max(DAY);
    let swept = goals.last_read(Goal::Sweep(object))?.filter(|swept| swept.finished <= now);
    // One under way may have passed them, and may never end.
    Ok(swept.is_some_and(|swept| now.since(swept.finished) < paid) || goals.is_set(Goal::Sweeping(object))?)
}

impl Audit<'_> {
    /// Compares an object by counts, or lists it where that costs no more. Returns whether it was compared: where the service
    /// does not count, all is listed for a person, and by a sweep for the schedule.
    pub(in crate::sync) async fn audit(&mut self) -> Result<bool, SyncError> {
        let (object, now, limits) = (self.object, self.run.now(), *self.run.engine.meter.limits());
        let rows = self.run.read(move |tx| tx.count_rows(object)).await?;
        let pages = rows.div_ceil(LEAF);
        let edges = (pages / 2).clamp(2, MAX_EDGES);
        if pages <= edges + BESIDE_EDGES {
            match self.compare_all().await {
                // What counts do not show stays undecided.
                Err(SyncError::NotAdvancing { .. }) => self.unlisted = 1,
                listed => return listed.map(|()| true),
            }
        }
        match self.count_ages(edges).await {
            Err(error)
                if error.allows_another() && matches!(error, SyncError::Api { doing: "count" | "audit", .. }) =>
            {
                self.run.mark_uncounted(object, &error);
            }
            counted => return counted.map(|()| true),
        }
        if self.run.by_person {
            return self.compare_all().await.map(|()| true);
        }
        self.run.warn(format!("{} could not be counted: a sweep compares them, once a day", object.resource()));
        let asking = self.run.write(move |tx| {
            let waits = is_swept(tx, object, &limits, now)?;
            (!waits).then(|| tx.claims().set(Goal::AskedSweep(object))).transpose().map(drop)
        });
        asking.await.map(|()| false)
    }

    /// Counts an object's records by the age of their last change, and follows differences.
    async fn count_ages(&mut self, edges: u64) -> Result<(), SyncError> {
        let (unseen, _) = self.compare_newest(TimeRange::dated(TimeField::UpdatedAt, None, None), false).await?;
        self.miss(unseen).await?;
        // The value does not matter, as long as the edge differs from that of the last audit.
        let shift = (self.run.now().as_secs().rem_euclid(97)) as f64 / 97.0;
        let mut by_creation = self.ranges(TimeField::CreatedAt, 2, shift).await?;
        let mut by_age = TimeRange::between(TimeField::UpdatedAt, &self.edges_by_age(edges, shift).await?);
        let (_, there) = self.total().await?;
        // The oldest range and the records without a date are what the others leave of the total: only if that differs are
        // they counted themselves.
        let dateless = by_age.pop();
        let rest = by_age.drain(..1).chain(dateless).collect();
        self.compare_with_rest(by_age, rest, there).await?;
        let newer = by_creation.iter().position(|range| matches!(range.bounds, TimeBounds::Dated { to: None, .. }));
        let newer = newer.map(|at| by_creation.remove(at)).into_iter().collect();
        self.compare_with_rest(newer, by_creation, there).await
    }

    /// Compares ranges, and those that are the rest of a total: only if their sum differs.
    async fn compare_with_rest(
        &mut self,
        ranges: Vec<TimeRange>,
        rest: Vec<TimeRange>,
        there: u64,
    ) -> Result<(), SyncError> {
        let mut left = there.saturating_sub(self.compare(ranges).await?);
        for range in &rest {
            left = left.wrapping_sub(compare::count_here(self.run, self.object, *range).await?);
        }
        if left != 0 {
            self.compare(rest).await?;
        }
        Ok(())
    }

    async fn total(&mut self) -> Result<(u64, u64), SyncError> {
        let counts = (
            compare::count_here(self.run, self.object, TimeRange::WHOLE).await?,
            compare::count_there(self.run, self.object, TimeRange::WHOLE).await?,
        );
        self.enter(TimeRange::WHOLE, counts, self.findings.counts()).await?;
        Ok(counts)
    }

    /// At most so many instants that divide an object's records by the age of their last change, and where many are of one
    /// age, by their number. An age without records needs no range: what the service has of it, its neighbour shows.
    async fn edges_by_age(&self, most: u64, shift: f64) -> Result<Vec<Instant>, SyncError> {
        let object = self.object;
        let now = self.run.results().service_time.at_least().unwrap_or_else(|| self.run.now());
        let divided = self.run.read(move |tx| {
            let dated = |from, to| TimeRange::dated(TimeField::UpdatedAt, from, to);
            let mut rest = dated(None, None);
            let mut ranges: Vec<(TimeRange, u64)> = Vec::new();
            for age in AGES.map(Duration::from_secs) {
                if let Some((older, newer)) = rest.cut(now.minus(age).whole_second()) {
                    let rows = tx.count_range(object, older)?;
                    if rows > 0 {
                        ranges.push((older, rows));
                        rest = newer;
                    }
                }
            }
            ranges.push((rest, tx.count_range(object, rest)?));
            while ranges.len() as u64 <= most {
                let Some(largest) = (0..ranges.len()).max_by_key(|n| ranges[*n].1) else { break };
                let (range, rows) = ranges[largest];
                let nth = (rows as f64 * (0.3 + 0.4 * shift)) as u64;
                let at = tx.nth_of_range(object, range, nth)?.map(Instant::whole_second);
                let Some((older, newer)) = at.and_then(|at| range.cut(at)) else { break };
                let older_rows = tx.count_range(object, older)?;
                ranges.splice(largest..=largest, [(older, older_rows), (newer, rows.saturating_sub(older_rows))]);
            }
            Ok(ranges.iter().filter_map(|(range, _)| range.bounds.dates().1).take(most as usize).collect())
        });
        divided.await
    }

    /// Compares the records of a range that changed last row by row, for 1 RU: one that is missing beside one that lingers, or
    /// one that changed again, leaves the counts equal, and most of what happens, happens there. Returns those that were not
    /// shown, and the service's number of records where that is asked for.
    pub(super) async fn compare_newest(
        &mut self,
        range: TimeRange,
        counts: bool,
    ) -> Result<(HashSet<RecordId>, Option<u64>), SyncError> {
        let object = self.object;
        let query = range.sorted(object.resource(), SortBy::UpdatedDesc);
        let query = if counts && self.run.may_count(object) { query.count_exact() } else { query };
        let fetched = match self.run.engine.page(&query, compare::purpose(self.run), "audit").await {
            // The counts are made all the same.
            Err(error) if error.may_be_of_a_record() || error.is_refused() => return Ok((HashSet::new(), None)),
            fetched => fetched?,
        };
        let page = &fetched.page;
        let oldest = page.records.iter().filter_map(|record| record.updated_at).min();
        let mut unseen = match oldest {
            Some(oldest) => {
                // Older records are not all on the page, and a page without a next one may have been cut.
                let from = oldest.whole_second().plus(SECOND);
                let shown = TimeRange::dated(TimeField::UpdatedAt, Some(from), range.bounds.dates().1);
                self.run.read(move |tx| tx.ids_of_range(object, shown)).await?
            }
            None => HashSet::new(),
        };
        let total = page.total.filter(|_| page.records.iter().all(|record| range.has(record)));
        self.compare_page(fetched, &mut unseen).await?;
        Ok((unseen, total))
    }

    /// A range as it is counted: the whole in parts, each of which a window pays for, and of which a count proves something.
    pub(super) async fn parts(&self, range: TimeRange) -> Result<Vec<TimeRange>, SyncError> {
        let pages = compare::count_here(self.run, self.object, range).await?.div_ceil(LEAF);
        match range {
            TimeRange::WHOLE if pages > 1 => self.ranges(TimeField::CreatedAt, pages.min(MAX_PARTS), 0.0).await,
            _ => Ok(vec![range]),
        }
    }

    /// Divides an object's records into ranges of about equal size.
    pub(in crate::sync) async fn ranges(
        &self,
        by: TimeField,
        parts: u64,
        shift: f64,
    ) -> Result<Vec<TimeRange>, SyncError> {
        let (object, all) = (self.object, TimeRange::dated(by, None, None));
        let edges = self.run.read(move |tx| tx.edges(object, all, parts, shift)).await?;
        Ok(TimeRange::between(by, &edges))
    }

    /// Counts these ranges on both sides, and follows those that differ. Returns the number there.
    pub(in crate::sync) async fn compare(&mut self, ranges: Vec<TimeRange>) -> Result<u64, SyncError> {
        // Side by side, as the client's pace allows: most audits find nothing, and only wait for answers.
        let counted = join_all(ranges.iter().map(|range| compare::count_there(self.run, self.object, *range)));
        let counted: Vec<u64> = counted.await.into_iter().collect::<Result<_, SyncError>>()?;
        let all = counted.iter().sum();
        for (range, there) in ranges.into_iter().zip(counted) {
            self.compare_counted(range, there).await?;
        }
        Ok(all)
    }

    async fn compare_counted(&mut self, range: TimeRange, there: u64) -> Result<(), SyncError> {
        let (here, before) = (compare::count_here(self.run, self.object, range).await?, self.findings.counts());
        if here != there {
            self.follow(range, there).await?;
        }
        self.enter(range, (here, there), before).await
    }

    /// Enters the counts of a range, and what was found since these `before` it.
    pub(super) async fn enter(
        &mut self,
        range: TimeRange,
        counts: (u64, u64),
        before: [u64; 3],
    ) -> Result<(), SyncError> {
        self.findings.ranges += 1;
        let (object, now, found) = (self.object, self.run.now(), self.findings.since(before));
        let entering = self.run.write(move |tx| {
            tx.knowledge().enter_audit(object, range, counts, found.as_deref(), now)?;
            let is_total = range == TimeRange::WHOLE;
            is_total.then(|| Ok((counts.1, compare::unexplained(tx, object, counts.1)?))).transpose()
        });
        self.total = entering.await?.or(self.total);
        Ok(())
    }

    /// Counts a range on both sides, unless it was counted there, but lists a page if that is to be listed. One that cannot be
    /// listed is counted, too, and one that the service does not count is listed.
    pub(in crate::sync) async fn compare_or_list(
        &mut self,
        range: TimeRange,
        lists_leaves: bool,
        counted: Option<u64>,
    ) -> Result<(), SyncError> {
        let object = self.object;
        let is_listed =
            !self.run.may_count(object) || lists_leaves && compare::count_here(self.run, object, range).await? <= LEAF;
        if is_listed {
            match self.compare_listed(range).await {
                Err(error) if error.is_of_a_range() || matches!(error, SyncError::NotAdvancing { .. }) => {}
                listed => return listed,
            }
        }
        let compared = match counted {
            Some(there) => self.compare_counted(range, there).await,
            None => self.compare(vec![range]).await.map(drop),
        };
        match compared {
            // Its count differs, and no cursor leads through it.
            Err(error) if error.is_refused() && matches!(error, SyncError::Api { doing: "audit", .. }) => {
                self.unlisted += 1;
                Ok(())
            }
            Err(error) if error.allows_another() => {
                self.run.mark_uncounted(object, &error);
                self.compare_listed(range).await
            }
            compared => compared,
        }
    }

    /// Lists records that share both timestamps, of which so many differ. Unless a person asks, they are listed once a day: where
    /// the count is wrong, each audit would list them all.
    async fn list_tie(&mut self, tie: TimeRange, differ: u64) -> Result<(), SyncError> {
        let (object, steady) = (self.object, self.run.steady_time());
        // The counts by the other timestamp lead to the same records.
        if self.ties.contains(&tie) {
            return Ok(());
        }
        self.ties.push(tie);
        if !self.run.by_person && self.run.read(move |tx| tx.tie_was_listed(object, tie, steady)).await? {
            self.unlisted += differ;
            return Ok(());
        }
        self.run.write(move |tx| tx.claims().tie_is_listed(object, tie, steady)).await?;
        self.list(tie).await.map(drop)
    }

    /// Halves a range that disagrees until the difference fits a page, and lists that. Records that share a timestamp
    /// are distinguished by the other one.
    async fn follow(&mut self, range: TimeRange, there: u64) -> Result<(), SyncError> {
        let object = self.object;
        let mut open = vec![(range, there)];
        while let Some((range, there)) = open.pop() {
            let here = compare::count_here(self.run, object, range).await?;
            if here == there {
                continue;
            }
            if here.max(there) <= LEAF {
                self.list(range).await?;
                continue;
            }
            let Some((low, high)) = self.halves(range, here).await? else {
                self.list_tie(range.by_creation(), here.abs_diff(there)).await?;
                continue;
            };
            let low_there = compare::count_there(self.run, object, low).await?;
            open.push((high, there.saturating_sub(low_there)));
            open.push((low, low_there));
        }
        Ok(())
    }

    pub(super) async fn halves(
        &self,
        range: TimeRange,
        here: u64,
    ) -> Result<Option<(TimeRange, TimeRange)>, SyncError> {
        let object = self.object;
        let middle = self.run.read(move |tx| tx.nth_of_range(object, range, here / 2)).await?;
        let middle = middle.map(Instant::whole_second);
        let halves = middle.and_then(|middle| range.cut(middle).or_else(|| range.cut(middle.plus(SECOND))));
        Ok(halves.or_else(|| range.by_other()))
    }
}
