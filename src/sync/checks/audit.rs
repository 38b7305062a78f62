//! The audit: evidence, at almost no cost, that nothing is missing and nothing lingers.
//!
//! Ranges of time are counted here and there. Equal totals alone show nothing: one record lost and one lingering cancel
//! out; so there are many ranges, by two timestamps, and their edges move from audit to audit. Where a range disagrees
//! it is halved (one count a level: the sibling is the difference) down to a page, which is listed and compared record
//! by record. Where the whole list costs no more than the counts, it is listed at once.

use std::collections::HashSet;

use super::compare::Audit;
use super::findings::Findings;
use crate::api::{ListAnswer, ListQuery, decode};
use crate::model::{Instant, Object, Purpose, RecordId};
use crate::store::StoreError;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::state::Outage;
use crate::sync::time_range::{TimeBounds, TimeField, TimeRange};
use crate::sync::walks::lookup::FoundRecords;

/// Ranges of a full audit by each timestamp: 15 dated ones and the one without a date. A clean audit costs as many RU.
const PARTS: u64 = 15;

/// A range of so many records is listed, not halved: it is one page.
const LEAF: u64 = 100;

/// Pages of one listing: a cursor that never ends must not be followed for ever.
const MOST_PAGES: u64 = 100_000;

impl Run<'_> {
    /// Counts an object by both timestamps and follows what disagrees.
    pub(in crate::sync) async fn audit(&self, audit: &mut Audit) -> Result<(), SyncError> {
        let object = audit.object;
        let rows = self.engine.store.read(move |tx| tx.count_rows(object)).await?;
        if rows.div_ceil(LEAF) <= 2 * (PARTS + 1) {
            return self.compare(audit, vec![TimeRange::WHOLE]).await;
        }
        // Whatever the time is now: the edges only have to be others than last time.
        let shift = (self.engine.clock.now().as_secs().rem_euclid(97)) as f64 / 97.0;
        for by in [TimeField::CreatedAt, TimeField::UpdatedAt] {
            let spans = self.spans(object, by, PARTS, shift).await?;
            self.compare(audit, spans).await?;
        }
        Ok(())
    }

    /// Cuts an object's records into about equal ranges.
    pub(in crate::sync) async fn spans(
        &self,
        object: Object,
        by: TimeField,
        parts: u64,
        shift: f64,
    ) -> Result<Vec<TimeRange>, SyncError> {
        let all = TimeRange::dated(by, None, None).stretch();
        let edges = self.engine.store.read(move |tx| tx.edges(object, all, parts, shift)).await?;
        Ok(TimeRange::between(by, &edges))
    }

    /// Counts these ranges here and there, and follows those that disagree.
    pub(in crate::sync) async fn compare(&self, audit: &mut Audit, spans: Vec<TimeRange>) -> Result<(), SyncError> {
        for span in spans {
            let before = audit.findings.clone();
            let object = audit.object;
            let here = self.count_here(object, span).await?;
            let there = match span.bounds {
                TimeBounds::Whole => self.list(audit, span).await?,
                TimeBounds::Dated { .. } | TimeBounds::Dateless => self.count_there(object, span).await?,
            };
            if here != there && span.bounds != TimeBounds::Whole {
                self.follow(audit, span, there).await?;
            }
            self.enter(audit, span, (here, there), &before).await?;
        }
        Ok(())
    }

    async fn enter(
        &self,
        audit: &mut Audit,
        span: TimeRange,
        counts: (u64, u64),
        before: &Findings,
    ) -> Result<(), SyncError> {
        audit.findings.ranges += 1;
        let (object, now, found) = (audit.object, self.engine.clock.now(), audit.findings.since(before));
        self.engine
            .store
            .write(move |tx| tx.enter_audit(object, span.stretch(), counts, found.as_deref(), now))
            .await?;
        Ok(())
    }

    /// Lists these ranges and compares them record by record, whatever their counts.
    pub(in crate::sync) async fn compare_listed(
        &self,
        audit: &mut Audit,
        spans: Vec<TimeRange>,
    ) -> Result<(), SyncError> {
        for span in spans {
            let before = audit.findings.clone();
            let object = audit.object;
            let here = self.count_here(object, span).await?;
            let there = self.list(audit, span).await?;
            self.enter(audit, span, (here, there), &before).await?;
        }
        Ok(())
    }

    async fn count_here(&self, object: Object, span: TimeRange) -> Result<u64, SyncError> {
        let counted = self.engine.store.read(move |tx| {
            // Records whose removal is refused are known to differ: a range is not followed for their sake again.
            let refusal: Option<Outage> = tx.state(&Outage::entry(object))?;
            match refusal {
                Some(_) => tx.count_unnominated(object, span.stretch()),
                None => tx.count_stretch(object, span.stretch()),
            }
        });
        Ok(counted.await?)
    }

    async fn count_there(&self, object: Object, span: TimeRange) -> Result<u64, SyncError> {
        let resource = object.resource();
        let query = span.count(resource).asking("count", resource)?;
        let answer = self.ask(&query).await?;
        let page = decode::page(resource, &answer.body, &self.engine.store.layout()).asking("count", resource)?;
        page.total
            .ok_or_else(|| decode::NotUnderstood("the list has no `total`, though it was asked for".into()))
            .asking("count", resource)
    }

    async fn ask(&self, query: &ListQuery) -> Result<ListAnswer, SyncError> {
        self.engine.client.list(query, Purpose::Audit).await.asking("audit", query.resource())
    }

    /// Halves a range that disagrees until what disagrees fits a page, and lists that.
    async fn follow(&self, audit: &mut Audit, span: TimeRange, there: u64) -> Result<(), SyncError> {
        let object = audit.object;
        let mut open = vec![(span, there)];
        while let Some((span, there)) = open.pop() {
            let here = self.count_here(object, span).await?;
            if here == there {
                continue;
            }
            let halves = if here.max(there) <= LEAF { None } else { self.halves(object, span, here).await? };
            let Some((low, high)) = halves else {
                self.list(audit, span).await?;
                continue;
            };
            let low_there = self.count_there(object, low).await?;
            open.push((high, there.saturating_sub(low_there)));
            open.push((low, low_there));
        }
        Ok(())
    }

    async fn halves(
        &self,
        object: Object,
        span: TimeRange,
        here: u64,
    ) -> Result<Option<(TimeRange, TimeRange)>, SyncError> {
        let stretch = span.stretch();
        let middle = self.engine.store.read(move |tx| tx.nth_of_stretch(object, stretch, here / 2)).await?;
        let Some(middle) = middle.map(Instant::whole_second) else {
            return Ok(None);
        };
        let next = middle.plus(std::time::Duration::from_secs(1));
        Ok(span.cut(middle).or_else(|| span.cut(next)))
    }

    /// Lists a range and compares it record by record. Gives how many records it has there.
    async fn list(&self, audit: &mut Audit, span: TimeRange) -> Result<u64, SyncError> {
        let object = audit.object;
        let resource = object.resource();
        let query = span.list(resource).asking("audit", resource)?;
        let mut unseen = self.engine.store.read(move |tx| tx.ids_of_stretch(object, span.stretch())).await?;
        let mut at = query.clone();
        let mut there = 0;
        for _ in 0..MOST_PAGES {
            let answer = self.ask(&at).await?;
            there += self.compare_page(audit, &answer, &mut unseen).await?;
            match answer.next {
                None => {
                    audit.unseen.extend(unseen);
                    return Ok(there);
                }
                Some(next) if at.cursor() == Some(&next) => break,
                Some(next) => at = query.clone().after(next),
            }
        }
        Err(SyncError::NotAdvancing { resource })
    }

    async fn compare_page(
        &self,
        audit: &mut Audit,
        answer: &ListAnswer,
        unseen: &mut HashSet<RecordId>,
    ) -> Result<u64, SyncError> {
        let object = audit.object;
        let resource = object.resource();
        loop {
            let layout = self.engine.store.layout();
            let page = decode::page(resource, &answer.body, &layout).asking("audit", resource)?;
            let rows = page.records.len() as u64;
            let ids: Vec<RecordId> = page.records.iter().map(|record| record.id.clone()).collect();
            let found = FoundRecords {
                records: page.records,
                asked_at: answer.asked_at,
                layout: layout.version,
                has_unusable: page.unusable > 0,
            };
            match self.compare_records(audit, found).await {
                Err(SyncError::Store(StoreError::StaleLayout)) => continue,
                other => other?,
            }
            for id in ids {
                unseen.remove(&id);
            }
            return Ok(rows);
        }
    }
}
