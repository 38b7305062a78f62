//! Looks up records by id, to find out which of them exist.
//!
//! Every lookup includes a witness, a record that exists, and an answer without any record proves nothing: load balancers
//! and caches may answer as if there were no records. It is the newest record of the mirror, so that the answer decides
//! about every older record (the rule stands in `model::answer_time`). If an answer lacks the witness, that is
//! nominated itself, and another one is taken that the service lists at that time.
//!
//! The witness vouches for its page only, and that is the whole answer if the service announces as many rows as it shows or,
//! where nothing is counted, shows one page. The records that another page lacks are looked up again without those that it has.
//! Each page with any of the records decides about some of them, and the caller applies what is decided even if an error ends
//! the lookup: however few requests a budget window pays for, the next one has fewer records to look up.

use std::collections::HashSet;

use crate::api::{ErrorClass, ListQuery, SortBy};
use crate::model::{AnswerTime, Object, Purpose, Record, RecordId, RequestOrder};
use crate::store::{ConfirmedRemovals, Goal};
use crate::sync::error::SyncError;
use crate::sync::job::JobKind;
use crate::sync::run::Run;
use crate::sync::walks::service_clock;
use crate::sync::walks::short_list::{FetchedPage, ShortList};
use crate::sync::walks::walk::Anomaly;

/// The number of 404s for details in one run after which no further details are read: a service that has lost its
/// details has not lost its records.
pub(in crate::sync) const MANY_NOT_FOUND: usize = 20;
/// The number of ids in one lookup; with the witness, as many as a list may contain.
pub(in crate::sync) const AT_ONCE: usize = 49;

/// After so many lookups in a row that decide about no record, the others wait with theirs.
pub(in crate::sync) const MAX_IN_VAIN: u32 = 3;

pub(in crate::sync) struct FoundRecords {
    pub(super) pages: Vec<FetchedPage>,
    asked: RequestOrder,
    /// Whether it may have other rows: not all of its pages were read, or they do not show what was announced.
    is_cut: bool,
    pub(super) answer: AnswerTime,
}

impl FoundRecords {
    pub(in crate::sync) fn records(&self) -> impl Iterator<Item = &Record> {
        self.pages.iter().flat_map(|fetched| &fetched.page.records)
    }

    /// Whether it shows as many rows as its first page announces. A total of more rows than there are ids is one of another
    /// list, and says nothing.
    fn is_all(&self, ids: usize) -> Option<bool> {
        let total = self.pages.first()?.page.total.filter(|total| *total <= ids as u64)?;
        let shown = self.records().map(|record| &record.id).collect::<HashSet<_>>().len();
        let unusable: u32 = self.pages.iter().map(|fetched| fetched.page.unusable).sum();
        Some(total == shown as u64 + u64::from(unusable))
    }

    fn add(&mut self, pages: Vec<FetchedPage>, answer: AnswerTime) {
        self.pages.extend(pages);
        self.answer.shows = self.answer.shows.max(answer.shows);
    }
}

/// A lookup of an object's records, and its result.
pub(in crate::sync) struct Confirmation<'r> {
    run: &'r Run<'r>,
    object: Object,
    pub(in crate::sync) gone: ConfirmedRemovals,
    pub(in crate::sync) found: Vec<FoundRecords>,
    /// Records about which no answer proved anything.
    pub(in crate::sync) unproven: Vec<RecordId>,
    /// How many lookups in a row decided about no record.
    in_vain: u32,
}

impl<'r> Confirmation<'r> {
    pub(in crate::sync) fn new(run: &'r Run<'r>, object: Object) -> Confirmation<'r> {
        let gone = ConfirmedRemovals::none(object);
        Confirmation { run, object, gone, found: Vec::new(), unproven: Vec::new(), in_vain: 0 }
    }
}

/// Whether a lookup of other ids may succeed.
pub(super) fn is_of_ids(error: &SyncError) -> bool {
    error.class() == Some(ErrorClass::BadRequest) || error.is_unreadable()
}

/// As many of the first ids as one lookup takes, and the rest.
pub(in crate::sync) fn split_lookup(ids: &[RecordId]) -> (&[RecordId], &[RecordId]) {
    // An id that fits no list is looked up on its own.
    ids.split_at(ListQuery::ids_that_fit(ids).clamp(1, AT_ONCE).min(ids.len()))
}

/// Nominates records for removal. Only the removal gate removes them.
pub(in crate::sync) async fn nominate(run: &Run<'_>, object: Object, ids: Vec<RecordId>) -> Result<(), SyncError> {
    if !ids.is_empty() {
        let answer = AnswerTime { shows: None, steady: run.steady_time() };
        let nominated = run.write(move |tx| {
            tx.knowledge().answered(answer);
            tx.knowledge().nominate(object, &ids)
        });
        nominated.await?;
    }
    Ok(())
}

/// Every row of a list of some ids, up to the first page that has any but the witness, and to the end if it has all that was
/// announced.
async fn list_by(
    run: &Run<'_>,
    query: ListQuery,
    ids: usize,
    witness: Option<&RecordId>,
) -> Result<FoundRecords, SyncError> {
    let mut list = ShortList::new(run, query, Purpose::Audit, "confirm removals of");
    let (asked, answer) = (run.store().requests.begin(), AnswerTime { shows: None, steady: run.steady_time() });
    let mut found = FoundRecords { pages: Vec::new(), asked, is_cut: false, answer };
    loop {
        let fetched = match list.page().await {
            // What it has shown is known all the same.
            Err(error) if error.is_refused() && !found.pages.is_empty() => break,
            fetched => fetched?,
        };
        let Some(fetched) = fetched else { break };
        if list.place.pages == 1 {
            (found.pages, found.answer) = (Vec::new(), answer);
        }
        let answer = service_clock::answer_time(run, &fetched.answer, &fetched.page.records);
        found.add(vec![fetched], answer);
        if found.is_all(ids) != Some(true) && found.records().any(|record| Some(&record.id) != witness) {
            break;
        }
    }
    found.is_cut = list.goes_on() || !found.is_all(ids).unwrap_or(found.pages.len() == 1);
    Ok(found)
}

impl Confirmation<'_> {
    /// Looks up records by id, as many as one lookup takes, for 1 RU per list, and adds the result.
    ///
    /// # Errors
    /// An error ends the lookup before all records were looked up. The result is valid without the others.
    pub(in crate::sync) async fn confirm(&mut self, ids: &[RecordId]) -> Result<(), SyncError> {
        let (mut ids, unaskable): (Vec<RecordId>, Vec<RecordId>) =
            ids.iter().cloned().partition(RecordId::fits_a_predicate);
        if self.in_vain == MAX_IN_VAIN {
            self.unproven.append(&mut ids);
        } else if !ids.is_empty() {
            let undecided = self.unproven.len() + ids.len();
            self.confirm_list(&ids).await?;
            self.in_vain = if self.unproven.len() == undecided { self.in_vain + 1 } else { 0 };
        }
        // An error says nothing about them: if it ended the lookup at once, nothing was in vain.
        self.unproven.extend(unaskable);
        Ok(())
    }

    async fn confirm_list(&mut self, ids: &[RecordId]) -> Result<(), SyncError> {
        let (mut open, mut lacked_before, mut not_counted) = (vec![ids.to_vec()], None, None);
        while let Some(mut ids) = open.pop() {
            let witness = self.witness(&ids).await?;
            if witness.as_ref().is_some_and(|witness| !witness.fits_a_predicate()) {
                // The service lists no record that could vouch for an answer.
                self.unproven.append(&mut ids);
                continue;
            }
            let counts =
                self.run.may_count(self.object) && !self.run.results().uncounted_lookups.contains(&self.object);
            let found = match self.look_up(&ids, witness.as_ref(), counts).await {
                // The service limits the length of the whole list, or one of the records cannot be read.
                Err(error) if is_of_ids(&error) && ids.len() > 1 => {
                    let high = ids.split_off(ids.len() / 2);
                    open.extend([high, ids]);
                    continue;
                }
                // The count may be what fails.
                Err(error) if counts && error.class().is_some() && error.allows_another() && !error.is_unreadable() => {
                    self.run.results().uncounted_lookups.insert(self.object);
                    not_counted = Some(error);
                    open.push(ids);
                    continue;
                }
                Err(error) if is_of_ids(&error) => {
                    self.run.results().uncounted_lookups.remove(&self.object);
                    not_counted = None;
                    self.unproven.append(&mut ids);
                    continue;
                }
                found => found?,
            };
            // Any other error may have passed meanwhile.
            let refused = not_counted.take().filter(SyncError::is_refused);
            refused.inspect(|error| self.run.mark_uncounted(self.object, error));
            let answered: HashSet<RecordId> = found.records().map(|record| record.id.clone()).collect();
            let missing: Vec<RecordId> = ids.iter().filter(|id| !answered.contains(*id)).cloned().collect();
            let (shows_any, shows_foreign) = {
                let mut others = answered.iter().filter(|id| Some(*id) != witness.as_ref()).peekable();
                (others.peek().is_some(), others.any(|id| !ids.contains(id)))
            };
            if found.is_cut && shows_any && !shows_foreign {
                if !missing.is_empty() {
                    open.push(missing);
                }
                self.found.push(found);
            } else if found.is_cut || found.pages.iter().any(|fetched| fetched.page.unusable > 0) {
                // An item that could not be decoded may be any of them.
                self.unproven.extend(missing);
                self.found.push(found);
            } else if shows_foreign {
                self.unproven.append(&mut ids);
            } else if answered.is_empty() {
                match witness {
                    // The service lists no record at all.
                    None => _ = self.gone.take(&ids, None, &answered, &found.asked),
                    Some(lacked) if self.replace_witness(&lacked).await? => {
                        lacked_before = Some(lacked);
                        open.push(ids);
                    }
                    Some(_) => self.unproven.append(&mut ids),
                }
            } else {
                let lacked = witness.filter(|witness| !answered.contains(witness));
                if let Some(lacked) = &lacked {
                    self.replace_witness(lacked).await?;
                }
                // The service answers: a witness that it lacks may have been removed.
                let lacked: Vec<RecordId> = lacked.into_iter().chain(lacked_before.take()).collect();
                if self.repairs() {
                    nominate(self.run, self.object, lacked).await?;
                }
                self.decide_missing(missing, &found).await?;
                self.found.push(found);
            }
        }
        Ok(())
    }

    /// Decides about the records that a complete answer lacks: it is as new as they are, or it is the same answer again.
    async fn decide_missing(&mut self, missing: Vec<RecordId>, found: &FoundRecords) -> Result<(), SyncError> {
        let (object, ids, answer) = (self.object, missing.clone(), found.answer);
        let reading =
            self.run.read(move |tx| Ok((tx.times_of(object, &ids)?, tx.goals().is_set(Goal::Sweeping(object))?)));
        let (times, sweeps) = reading.await?;
        // A person who accepts removals says that the service is right.
        let accepted = self.run.job.accept_removals && (self.run.by_person || sweeps);
        // Without a count nothing shows that the answer is whole.
        let is_counted = found.pages.first().is_some_and(|fetched| fetched.page.total.is_some());
        // One that is not here needs no proof.
        let is_here_later = |id: &RecordId| times.get(id).is_some_and(|time| !answer.is_as_new_as(*time));
        let is_as_new = |id: &RecordId| accepted || is_counted && !is_here_later(id);
        let (mut gone, newer): (Vec<RecordId>, Vec<RecordId>) = missing.into_iter().partition(is_as_new);
        let mut again = Vec::new();
        if !newer.is_empty() && self.repairs() {
            // Those that are missing at two moments are gone.
            let ids = newer.clone();
            again = self.run.write(move |tx| tx.knowledge().doubt_not_found(object, &ids, answer)).await?;
        }
        self.unproven.extend(newer.into_iter().filter(|id| !again.contains(id)));
        gone.extend(again);
        let answered: Vec<RecordId> = found.records().map(|record| record.id.clone()).collect();
        let asked = [&gone[..], &answered[..]].concat();
        self.gone.take(&asked, answered.first(), &answered.iter().cloned().collect(), &found.asked);
        Ok(())
    }

    fn repairs(&self) -> bool {
        self.run.job.kind != JobKind::Verify || self.run.job.repair
    }

    async fn look_up(&self, ids: &[RecordId], by: Option<&RecordId>, counts: bool) -> Result<FoundRecords, SyncError> {
        let query = ListQuery::new(self.object.resource());
        let query = if counts { query.count_exact() } else { query };
        // A witness that the service lists may be one of the records: no id occurs twice in a list.
        let witness = by.filter(|witness| !ids.contains(witness));
        // No comma can be escaped in a list (rule 2): an id with one is looked up alone, a witness after the records.
        let (mut found, then) = match ids {
            [id] if !id.fits_a_list() => (list_by(self.run, query.clone().id(id), 1, None).await?, witness),
            ids => {
                let listed = witness.filter(|witness| witness.fits_a_list());
                let requested: Vec<RecordId> = ids.iter().chain(listed).cloned().collect();
                let found = list_by(self.run, query.clone().ids(&requested), requested.len(), listed).await?;
                (found, witness.filter(|_| listed.is_none()))
            }
        };
        if let Some(witness) = then {
            let seen = list_by(self.run, query.id(witness), 1, None).await?;
            found.add(seen.pages, seen.answer);
        }
        Ok(found)
    }

    /// The witness for a lookup of these records: a record of the mirror that is not in doubt, or, after a lookup that
    /// lacked it, a record that the service lists now. `None` if there is neither.
    async fn witness(&self, ids: &[RecordId]) -> Result<Option<RecordId>, SyncError> {
        let object = self.object;
        let (known, withdrawn) = {
            let results = self.run.results();
            (results.witnesses[object as usize].clone(), results.withdrawn_witness[object as usize])
        };
        // One from the mirror may have been nominated since.
        let is_nominated = |witness: &Option<RecordId>| witness.as_ref().is_some_and(|witness| ids.contains(witness));
        if let Some(witness) = known.filter(|witness| withdrawn || !is_nominated(witness)) {
            return Ok(witness);
        }
        let latest = self.run.results().service_time.latest();
        let witness = match self.run.read(move |tx| tx.witness(object, latest)).await? {
            Some(witness) if witness.fits_a_predicate() => Some(witness),
            _ => self.listed_record().await?,
        };
        self.run.results().witnesses[object as usize] = Some(witness.clone());
        Ok(witness)
    }

    /// The newest record that the service lists now, for 1 RU, if possible one that fits a list; `None` if none.
    async fn listed_record(&self) -> Result<Option<RecordId>, SyncError> {
        let query = ListQuery::new(self.object.resource()).sort(SortBy::UpdatedDesc);
        let FetchedPage { answer, mut page, .. } = self.run.engine.page(&query, Purpose::Audit, "list").await?;
        // One that no list can be asked for still shows that there are records.
        if page.records.iter().any(|record| record.id.fits_a_predicate()) {
            page.records.retain(|record| record.id.fits_a_predicate());
        }
        // Those that are dated in the future come first, and say nothing about how new an answer is.
        let is_newest = |record: &Record| {
            service_clock::answer_time(self.run, &answer, std::slice::from_ref(record)).shows.is_some()
        };
        let newest = page.records.iter().position(is_newest).unwrap_or(0);
        Ok(page.records.drain(..).nth(newest).map(|record| record.id))
    }

    /// Takes a witness that the service lists, because an answer lacked this one. Returns whether it is another record.
    async fn replace_witness(&self, lacked: &RecordId) -> Result<bool, SyncError> {
        let object = self.object;
        if std::mem::replace(&mut self.run.results().withdrawn_witness[object as usize], true) {
            return Ok(false);
        }
        let listed = self.listed_record().await?;
        let is_another = listed.as_ref().is_some_and(|listed| listed != lacked);
        self.run.results().witnesses[object as usize] = Some(listed);
        Ok(is_another)
    }
}

/// Nominates records whose detail was not found. Returns whether further details should be read.
pub(in crate::sync) async fn nominate_not_found(
    run: &Run<'_>,
    object: Object,
    gone: Vec<RecordId>,
) -> Result<bool, SyncError> {
    let few = gone.len() < MANY_NOT_FOUND;
    if !few {
        let resource = object.resource();
        run.note_anomaly(Anomaly::DetailsNotFound, resource).await?;
        run.warn(format!("{} details of {resource} were not found: this looks like an outage", gone.len()));
    }
    nominate(run, object, gone).await?;
    Ok(few)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_leaves_room_for_the_witness_and_takes_an_id_that_fits_no_list_alone() {
        let ids = |ids: &[&str]| ids.iter().copied().map(RecordId::new).collect::<Vec<_>>();
        let many: Vec<RecordId> = (0..60).map(|n| RecordId::new(n.to_string())).collect();
        for (ids, taken) in [
            (many.clone(), 49),
            (many[..50].to_vec(), 49),
            (many[..49].to_vec(), 49),
            (many[..1].to_vec(), 1),
            (ids(&["a", "b", "c,d"]), 2),
            (ids(&["a,b", "c"]), 1),
            (ids(&["a,b", "c,d"]), 1),
            (ids(&[]), 0),
        ] {
            assert_eq!(split_lookup(&ids), (&ids[..taken], &ids[taken..]));
        }
    }
}
