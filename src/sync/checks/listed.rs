//! Ranges that a comparison lists and compares record by record.
//!
//! What cannot be listed ends no comparison: a cursor that the service refuses, or a record that makes its page unreadable, is a
//! matter of a part of the range. What can be neither listed nor cut is undecided.

use std::collections::HashSet;

use super::audit::LEAF;
use super::compare::{self, Audit};
use crate::error_chain::error_chain;
use crate::model::{Instant, RecordId, TimeField, TimeRange};
use crate::sync::checks::lookup_by_id;
use crate::sync::error::SyncError;
use crate::sync::walks::anomaly::Anomaly;
use crate::sync::walks::service_clock;
use crate::sync::walks::short_list::{FetchedPage, ShortList};

/// So many ranges in a row that cannot be listed are no matter of a few records: the next ones are not cut, and after twice as
/// many nothing else is listed.
const MAX_FAILED: u32 = 24;

/// So many pages that cannot be read a comparison of the schedule cuts at most: the next one meets them again.
const MAX_UNREAD: u32 = 60;

/// The number of records that are listed at once: their ids are kept in memory, and the last page is partly empty.
const STRIDE: u64 = 10_000;

impl Audit<'_> {
    /// Lists every record and compares it.
    pub(super) async fn compare_all(&mut self) -> Result<(), SyncError> {
        let object = self.object;
        let parts = self.run.read(move |tx| tx.count_rows(object)).await? / STRIDE;
        let is_one = parts < 2;
        let ranges =
            if is_one { vec![TimeRange::WHOLE] } else { self.ranges(TimeField::CreatedAt, parts, 0.0).await? };
        for range in ranges {
            if self.failed > 2 * MAX_FAILED {
                self.unlisted += 1;
                break;
            }
            self.compare_listed(range).await?;
        }
        Ok(())
    }

    /// Lists a range and compares it record by record, whatever its counts.
    pub(super) async fn compare_listed(&mut self, range: TimeRange) -> Result<(), SyncError> {
        let (object, unlisted, before) = (self.object, self.unlisted, self.findings.counts());
        let here = compare::count_here(self.run, object, range).await?;
        let mut there = self.list(range).await?;
        if self.unlisted > unlisted {
            if !self.cuts {
                return Ok(());
            }
            there = match compare::count_there(self.run, object, range).await {
                Err(error) if error.allows_another() => return Ok(()),
                counted => counted?,
            };
        }
        self.enter(range, (here, there), before).await
    }

    /// Lists a range and compares it record by record. A comparison of the object cuts what it cannot list, until no cursor is needed
    /// or down to the record that is in the way; what cannot be cut stays open. Returns the service's number of records in what
    /// was listed.
    pub(super) async fn list(&mut self, range: TimeRange) -> Result<u64, SyncError> {
        let (object, mut open, mut all) = (self.object, vec![range], 0);
        while let Some(part) = open.pop() {
            if self.failed > 2 * MAX_FAILED {
                self.unlisted += 1 + open.len() as u64;
                break;
            }
            let error = match self.list_part(part, part != range).await {
                Ok(there) => {
                    (all, self.failed) = (all + there, if there > 0 { 0 } else { self.failed });
                    continue;
                }
                Err(error) if error.is_unreadable() && !error.is_too_large() || self.cuts && error.is_of_a_range() => {
                    error
                }
                Err(error) => return Err(error),
            };
            (self.failed, self.unread) = (self.failed + 1, self.unread + u32::from(!error.is_refused()));
            let gives_up = self.failed > MAX_FAILED || self.unread > MAX_UNREAD && !self.run.by_person;
            let here = compare::count_here(self.run, object, part).await?;
            let parts = match part {
                _ if !self.cuts || gives_up => Vec::new(),
                TimeRange::WHOLE => self.ranges(TimeField::CreatedAt, here.div_ceil(LEAF).max(1), 0.0).await?,
                _ => self.halves(part, here).await?.map_or_else(Vec::new, |(low, high)| vec![high, low]),
            };
            let behind_all = TimeRange::dated(TimeField::CreatedAt, Some(Instant::MAX), None);
            if self.cuts && part == range {
                match self.list_part(behind_all, true).await {
                    // Nothing can be read at all: that is no matter of a range.
                    Err(other) if other.allows_another() => return Err(error),
                    listed => listed?,
                };
            }
            if parts.is_empty() {
                self.unlisted += 1;
                if self.cuts {
                    let why = error_chain(&error);
                    self.run.warn(format!(
                        "some {} can be neither listed nor cut, and stay undecided: {why}",
                        object.resource()
                    ));
                }
                if error.is_unreadable() {
                    self.run.note_anomaly(Anomaly::UnreadablePage, object.resource()).await?;
                }
            }
            open.extend(parts);
        }
        Ok(all)
    }

    /// A list with fewer rows than its first page announced was cut short, or rows were removed meanwhile: it is read once more.
    /// What a walk owes is settled then; a comparison of the object has compared the rest with nothing.
    async fn list_part(&mut self, range: TimeRange, once: bool) -> Result<u64, SyncError> {
        let (mut was_short, not_shown) = (false, self.not_shown);
        loop {
            self.not_shown = not_shown;
            match self.list_to_end(range, once).await {
                Ok((there, announced, _)) if there < announced && !was_short => was_short = true,
                Ok((there, announced, unseen)) => {
                    if there >= announced {
                        self.miss(unseen).await?;
                    }
                    self.not_shown += announced.saturating_sub(there);
                    return Ok(there.max(announced));
                }
                Err(error) => {
                    self.not_shown = not_shown;
                    return Err(error);
                }
            }
        }
    }

    /// Lists a range to its end. Returns how many rows it has there, how many its first page announced, or none where the
    /// service does not count, and the records here that it did not show.
    async fn list_to_end(&mut self, range: TimeRange, once: bool) -> Result<(u64, u64, HashSet<RecordId>), SyncError> {
        let (run, object, purpose) = (self.run, self.object, compare::purpose(self.run));
        let mut unseen = run.read(move |tx| tx.ids_of_range(object, range)).await?;
        // Rows that another page shows again are no others.
        let (mut shown, mut unusable, mut announced) = (HashSet::new(), 0, 0);
        let (counts, query) = (run.may_count(object), range.list(object.resource()));
        let query = if once { query.once() } else { query };
        let list_of = |query| ShortList::new(run, query, purpose, "audit");
        let mut list = list_of(if counts { query.clone().count_exact() } else { query.clone() });
        loop {
            let fetched = match list.page().await {
                Err(error) if counts && list.place.pages == 0 && error.allows_another() && !error.is_unreadable() => {
                    list = list_of(query.clone());
                    let page = list.page().await?;
                    // Of a request that was made once, the moment may be the reason.
                    if !once || !error.is_no_answer() {
                        run.mark_uncounted(object, &error);
                    }
                    page
                }
                fetched => fetched?,
            };
            let Some(fetched) = fetched else {
                // Only a total shows that nothing follows a page that leads to itself.
                self.not_shown += u64::from(list.place.repeats && announced == 0);
                return Ok((shown.len() as u64 + unusable, announced, unseen));
            };
            if list.place.pages == 1 {
                (shown, unusable, announced) = (HashSet::new(), 0, fetched.page.total.unwrap_or(0));
            }
            shown.extend(fetched.page.records.iter().map(|record| record.id.clone()));
            unusable += if list.place.repeats { 0 } else { u64::from(fetched.page.unusable) };
            self.compare_page(fetched, &mut unseen).await?;
        }
    }

    /// Takes in what a list lacked. It is nominated at once: whatever ends the run, the next one does not follow it again.
    pub(super) async fn miss(&mut self, unseen: HashSet<RecordId>) -> Result<(), SyncError> {
        if self.repair {
            lookup_by_id::nominate(self.run, self.object, unseen.iter().cloned().collect()).await?;
        }
        self.unseen.extend(unseen);
        Ok(())
    }

    pub(super) async fn compare_page(
        &mut self,
        fetched: FetchedPage,
        unseen: &mut HashSet<RecordId>,
    ) -> Result<(), SyncError> {
        for record in &fetched.page.records {
            unseen.remove(&record.id);
        }
        self.not_shown += u64::from(fetched.page.unusable);
        self.unusable += u64::from(fetched.page.unusable);
        let answer = service_clock::answer_time(self.run, &fetched.answer, &fetched.page.records);
        self.compare_answer(fetched, answer, false).await
    }
}
