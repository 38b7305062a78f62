//! Compares the mirror with the service, by counts or record by record, and records with their rows; records differences, and
//! repairs them if requested. A record that is shown in an earlier version, by an answer that does not decide about it, is no
//! difference yet.

use std::collections::BTreeSet;

use super::findings::{Difference, DifferenceKind, Findings};
use crate::api::{ListQuery, PageSize, ServiceAnswer, SortBy, decode};
use crate::model::answer_time::MOMENTS_APART;
use crate::model::{AnswerTime, Instant, Object, Purpose, RecordId, TimeRange};
use crate::store::{Applied, Compared, Completeness, Goal, LastRead, ReadOf, ReadTx, StoreError};
use crate::sync::apply::{self, ApplyReport};
use crate::sync::checks::lookup_by_id::Confirmation;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::walks::details;
use crate::sync::walks::short_list::FetchedPage;
use crate::sync::walks::walk::Walk;

/// The comparison of an object in a run.
pub(in crate::sync) struct Audit<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) object: Object,
    /// Whether differences are repaired, or only reported.
    pub(super) repair: bool,
    /// Whether what cannot be listed is cut. What a walk owes waits instead: each run would cut it again.
    pub(super) cuts: bool,
    /// The service's clock at the beginning: what the service changed after that does not count as a difference.
    pub(super) since: Option<Instant>,
    pub(super) findings: Findings,
    /// Records that differed. A list that is read again finds them again.
    found: BTreeSet<RecordId>,
    /// Records of the mirror that were not in the service's lists.
    pub(super) unseen: BTreeSet<RecordId>,
    /// Records that were shown in an earlier version, or without a value that is here, which nothing decided yet.
    pub(super) older: BTreeSet<RecordId>,
    /// Ranges of records that share both timestamps and that it has met.
    pub(super) ties: Vec<TimeRange>,
    /// How many ranges in a row could not be listed, and how many pages were not read in all.
    pub(super) failed: u32,
    pub(super) unread: u32,
    /// How many ranges could not be listed, and by how many records those differ that are not listed again today.
    pub(super) unlisted: u64,
    /// How many rows lists announced and did not show, read twice, or showed without an id, or lacked although a lookup shows
    /// them as they are here.
    pub(super) not_shown: u64,
    /// How many of those were without an id.
    pub(super) unusable: u64,
    /// The service's number of records, if it was counted or all were listed, and what was unexplained of it then.
    pub(super) total: Option<(u64, i64)>,
}

impl<'r> Audit<'r> {
    /// One that repairs what differs.
    pub(in crate::sync) fn new(run: &'r Run<'r>, object: Object) -> Audit<'r> {
        Audit {
            run,
            object,
            repair: true,
            cuts: false,
            since: None,
            findings: Findings::default(),
            found: BTreeSet::new(),
            unseen: BTreeSet::new(),
            older: BTreeSet::new(),
            ties: Vec::new(),
            failed: 0,
            unread: 0,
            unlisted: 0,
            not_shown: 0,
            unusable: 0,
            total: None,
        }
    }

    /// Compares the records of a page with their rows, and applies them if requested. Other pages of its answer may show how
    /// new it is. That they were looked up is noted with what the page shows: a doubt that it refutes keeps its delay, and a
    /// kill before that has them looked up again at once.
    pub(super) async fn compare_answer(
        &mut self,
        fetched: FetchedPage,
        answer: AnswerTime,
        is_of_lookup: bool,
    ) -> Result<(), SyncError> {
        let (object, repair, settings) = (self.object, self.repair, self.run.engine.settings);
        let details = self.run.engine.reads_details(object);
        self.findings.compared += fetched.page.records.len() as u64;
        let missed = if is_of_lookup { self.unseen.clone() } else { BTreeSet::new() };
        let (time, of_sweep) = (self.run.results().service_time, self.total.is_none());
        // A list of a replica that lags lacks what has just changed.
        let is_settled = move |at: Option<Instant>| at.is_none_or(|at| time.is_past(at.plus(MOMENTS_APART)));
        let compared = self.run.write(move |tx| {
            let (ServiceAnswer { asked, .. }, page) = fetched.current(tx, object.resource())?;
            let mut noted = ApplyReport::default();
            let mut compared = Vec::with_capacity(page.records.len());
            let mut lacked = 0;
            if repair {
                tx.knowledge().answered(answer);
            }
            for record in page.records {
                if repair && is_of_lookup {
                    tx.knowledge().were_looked_up(object, std::slice::from_ref(&record.id), answer.steady)?;
                }
                let how = tx.records().compare_list(object, &record)?;
                let mut older = how.shows_older(answer);
                let is_lacked = how == Compared::Same && missed.contains(&record.id);
                // Sweeps list by creation: what was changed since is in an older list, too.
                let since = if of_sweep { record.created_at } else { record.updated_at.max(record.created_at) };
                lacked += u32::from(is_lacked && is_settled(since));
                if repair {
                    // An equal one, too: it shows which columns can be edited, and that the row is of this workspace.
                    let applied = tx.records().apply_list(object, &record, &asked)?;
                    if how != Compared::Same {
                        older = applied == Applied::Older;
                        noted.record(&record, applied);
                    }
                } else {
                    // It is not missed any more, whatever its values are.
                    tx.knowledge().was_shown(object, record.id.as_str(), false)?;
                }
                compared.push((record.updated_at, record.id, how, older));
            }
            // The list of a sweep that lacked one may lack others, which nobody knows.
            (lacked > 0 && of_sweep).then(|| tx.claims().leave_records_out(object, lacked)).transpose()?;
            // The next changes walk reads the omitted values.
            apply::after_answer(tx, object, (details, settings.overlap))?;
            Ok((compared, noted.tally, lacked))
        });
        let (compared, tally, lacked) = compared.await?;
        self.not_shown += u64::from(lacked);
        self.run.count(&tally);
        for (updated_at, id, how, older) in compared {
            // Without details, a repair reads what was omitted; with them, the next run does.
            if older || how == Compared::Omitted && (details || !repair) {
                self.older.insert(id);
                continue;
            }
            self.older.remove(&id);
            let is_past = |at: Instant| self.run.results().service_time.is_past(at);
            // What is dated ahead may have been so before that.
            let news = matches!((updated_at, self.since), (Some(updated), Some(since)) if updated >= since && is_past(updated));
            let (kind, fields) = match how {
                Compared::Missing => (DifferenceKind::Missing, Vec::new()),
                Compared::Differs(fields) => (DifferenceKind::Different, fields),
                Compared::Same | Compared::Omitted => continue,
            };
            if !news && self.found.insert(id.clone()) {
                self.findings.add(Difference { object, id, kind, fields });
            }
        }
        Ok(())
    }
}

/// Compares an object with the service, by counts or record by record.
pub(in crate::sync) async fn compare_object(
    run: &Run<'_>,
    object: Object,
    full: bool,
    repair: bool,
) -> Result<(), SyncError> {
    if !run.read(move |tx| tx.is_copied(object)).await? {
        run.warn(format!("{} have not been copied yet: run `crm-mirror sync`", object.resource()));
        let here = count_here(run, object, TimeRange::WHOLE).await?;
        let missing = count_there(run, object, TimeRange::WHOLE).await?.saturating_sub(here);
        let findings = Findings { missing, open: missing, ranges: 1, ..Findings::default() };
        run.results().report.findings.push((object, findings));
        return Ok(());
    }
    let now = run.now();
    let reading = run.read(move |tx| {
        let reads: Option<Walk> = tx.position(ReadOf::Changes(object))?;
        let since = if reads.is_none() { tx.known_changes(object)?.served_at } else { None };
        Ok((since, tx.goals().last_read(Goal::Changes(object))?))
    });
    let (since, changes) = reading.await?;
    // What changed after the last changes walk is no difference, unless that left changes unread; if it is not applied either,
    // nothing is known of it.
    let as_of =
        if repair || since.is_none() { now } else { changes.map_or(Instant::EPOCH, |read| read.began).min(now) };
    let mut audit = Audit { repair, since, cuts: true, ..Audit::new(run, object) };
    if full {
        audit.compare_all().await?;
    } else {
        // Counts leave out what is nominated: what is there after all would hide another that is not.
        if repair {
            match audit.decide_doubts().await {
                // The counts are made all the same; the lookup after them says what fails.
                Err(error) if error.allows_another() => {}
                settled => audit.add_extra(settled?.gone),
            }
        }
        if !audit.audit().await? {
            return Ok(());
        }
    }
    audit.decide_about_unseen().await?;
    // What was paid for is stored first.
    let read = if repair { details::read_omitted(run, object).await } else { Ok(()) };
    let by_record = audit.findings.compared >= audit.findings.ranges && full;
    let (found, total) = (audit.findings.open, audit.total.filter(|_| repair));
    let (is_clean, details) = (audit.findings.count() == 0, run.engine.reads_details(object));
    let writing = run.write(move |tx| {
        // The mirror may have been edited, which a verification should detect.
        tx.records().recount(object)?;
        if let Some((there, left)) = total {
            // What nothing here has changed is known from now on; of the rest, only the next count tells what is left.
            let is_left = is_clean && left == unexplained(tx, object, there)?;
            let left = if is_left { left } else { tx.claims().forget_left(object).map(|()| 0)? };
            tx.claims().reach(Goal::Total(object), LastRead { open: left, ..LastRead::between(now, now) })?;
        }
        if tx.count_nominated(object)? == 0 {
            tx.claims().unset(Goal::RefusedRemovals(object))?;
        }
        // What is in doubt is open, whether or not this comparison has met it.
        let open = found.max(tx.count_open(object, details)?);
        tx.claims().compared(object, Completeness { as_of, by_record }, open)?;
        // What lacks values is no difference of records: it ends when they are filled.
        let open = open.max(tx.goals().count_lacking(object, details)?);
        Ok((open, if details { tx.knowledge().count_due_details(object)? } else { 0 }))
    });
    (audit.findings.open, audit.findings.details_pending) = writing.await?;
    audit.findings.undecided += audit.findings.open - found;
    run.results().report.findings.push((object, audit.findings));
    read
}

/// Records that are nominated for removal are known to differ: a range is not followed again because of them.
pub(in crate::sync) async fn count_here(run: &Run<'_>, object: Object, range: TimeRange) -> Result<u64, SyncError> {
    run.read(move |tx| tx.count_unnominated(object, range)).await
}

/// By how many records the service has more than the rows here, where the removals in doubt do not explain that.
pub(super) fn unexplained(tx: &ReadTx<'_>, object: Object, there: u64) -> Result<i64, StoreError> {
    let found = there.cast_signed() - tx.count_rows(object)?.cast_signed();
    Ok(if found == 0 { 0 } else { found + tx.count_nominated(object)?.cast_signed() })
}

pub(in crate::sync) async fn count_there(run: &Run<'_>, object: Object, range: TimeRange) -> Result<u64, SyncError> {
    let resource = object.resource();
    let count = async |query: ListQuery| run.engine.page(&query, purpose(run), "count").await;
    let counted = match count(range.count(resource)).await {
        // It shows the first record, which may be the one that cannot be read: then the last.
        Err(error) if error.is_unreadable() && !error.is_too_large() => {
            let last = range.sorted(resource, SortBy::CreatedDesc).limit(PageSize::ONE);
            count(last.count_exact().once()).await
        }
        counted => counted,
    };
    let page = counted?.page;
    // A count that shows a record of another range is one of other records: its conditions were not applied.
    let total = page.total.filter(|_| page.records.iter().all(|record| range.has(record)));
    total
        .ok_or_else(|| decode::NotUnderstood("the list has no usable `total`, though it was asked for".into()))
        .asking("count", resource)
}

/// What the requests of a comparison are for: what reads everything leaves the reserve to the schedule.
pub(super) fn purpose(run: &Run<'_>) -> Purpose {
    if run.job.full || run.by_person && !run.results().uncounted.is_empty() { Purpose::Sweep } else { Purpose::Audit }
}

impl Audit<'_> {
    fn add_extra(&mut self, gone: Vec<RecordId>) {
        let (object, kind) = (self.object, DifferenceKind::Extra);
        let gone = gone.into_iter().filter(|id| self.found.insert(id.clone()));
        gone.for_each(|id| self.findings.add(Difference { object, id, kind, fields: Vec::new() }));
    }

    /// Looks up the records of the mirror that were not listed: they may have moved out of the range, or have been
    /// removed. Then the number of remaining differences is known.
    async fn decide_about_unseen(&mut self) -> Result<(), SyncError> {
        let object = self.object;
        let mut unseen: Vec<RecordId> = self.unseen.iter().cloned().collect();
        unseen.sort_unstable_by_key(|id| (!id.fits_a_list(), id.clone()));
        let (gone, refused, unproven) = if self.repair {
            let settled = self.decide_doubts().await?;
            let refusal = self.run.read(move |tx| tx.refused_removals(object)).await?.filter(|_| settled.refused);
            (settled.gone, refusal.map_or(0, |outage| outage.going), settled.unproven)
        } else {
            let mut confirmation = Confirmation::new(self.run, object);
            self.confirm(&mut confirmation, &unseen).await?;
            (confirmation.gone.ids().to_vec(), 0, confirmation.unproven.len() as u64)
        };
        self.add_extra(gone);
        self.findings.undecided = refused + unproven + self.older.len() as u64 + self.unlisted + self.not_shown;
        let found = if self.repair { 0 } else { self.findings.count() };
        self.findings.open = found + self.findings.undecided;
        Ok(())
    }
}
