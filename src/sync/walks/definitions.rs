//! Custom field definitions and team members: short lists without a filter by change. They are read whole on an
//! interval and at a sweep, and definitions also at once when a record has an unknown key. Items that are no longer on
//! such a list are looked for again an hour later ([`MirrorTx::decide_unlisted`](crate::store::MirrorTx)).
//!
//! What was read of them when the budget, a hold or a stop ended a run is stored: the next one goes on there, so that a budget
//! window may pay for fewer requests than the lists have pages. The last page of an unfinished list is read again, besides what
//! it showed before: if a row before it has gone meanwhile, a cursor that counts rows would pass over the first row of the next
//! page.

use serde::{Deserialize, Serialize};

use super::anomaly::Anomaly;
use super::omitted_values;
use super::short_list::{FetchedPage, ListProgress};
use crate::api::decode::{self, ListPage, NotUnderstood};
use crate::api::{ErrorClass, ListQuery, PageSize, SortBy};
use crate::model::{Cursor, Definition, FieldKey, Instant, Layout, Object, Purpose, Record, Resource, Ru};
use crate::store::{
    Checkpoint, FieldToBackFill, Goal, LastRead, ListedItems, MirrorTx, ReadOf, Redefined, RefusedRemovals,
    RemovalShare, StoreError, Tally, UnlistedDecision, WholeListKind,
};
use crate::sync::error::{Asking, SyncError};
use crate::sync::plan::Step;
use crate::sync::run::Run;
use crate::sync::walks::walk::Walk;

/// The cost of reading the definitions: active and archived, of both objects, if each fits a page.
pub(crate) const LISTS: Ru = Ru::new(4);

/// The most pages that are stored: a list of more has no end.
const MAX_PAGES: usize = 1_000;

/// One list, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ListUnderWay {
    /// Our clock when the first page was requested.
    asked_at: Instant,
    /// The cursor and the answer of each page.
    pages: Vec<(Option<Cursor>, String)>,
    next: Option<Cursor>,
    finished: bool,
}

impl ListUnderWay {
    const fn new(asked_at: Instant) -> ListUnderWay {
        ListUnderWay { asked_at, pages: Vec::new(), next: None, finished: false }
    }

    fn take(&mut self, body: &[u8], next: Option<Cursor>) {
        self.finished = next.is_none();
        let cursor = std::mem::replace(&mut self.next, next);
        self.pages.push((cursor, String::from_utf8_lossy(body).into_owned()));
    }

    /// The list in the next run: an unfinished one reads its last page again.
    fn resumed(mut self) -> ListUnderWay {
        if !self.finished
            && let Some((cursor, _)) = self.pages.last()
        {
            self.next.clone_from(cursor);
        }
        self
    }

    /// The pages so far, and what they show of the list's progress.
    fn decoded(&self, resource: Resource, layout: &Layout) -> Result<(Vec<ListPage>, ListProgress), NotUnderstood> {
        let mut progress = ListProgress::default();
        let followers = self.pages.iter().skip(1).map(|(cursor, _)| cursor).chain([&self.next]);
        let pages = self.pages.iter().zip(followers).map(|((cursor, body), follower)| {
            let page = decode::page(resource, body.as_bytes(), layout)?;
            // A page that was read again, or is going to be, takes its step once.
            if let Some(next) = page.next.as_ref().filter(|_| cursor != follower) {
                progress.take(next, page.records.first().map(|record| &record.id));
            }
            Ok(page)
        });
        Ok((pages.collect::<Result<_, NotUnderstood>>()?, progress))
    }
}

/// The short lists of one resource, as far as they were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::sync) struct ListsUnderWay {
    resource: Resource,
    key: String,
    /// Our clock when the first list was requested.
    began: Instant,
    /// The ledger's steady clock at that time.
    steady: Instant,
    applied: Vec<Object>,
    /// The pages of the lists that were applied.
    applied_pages: u64,
    /// The lists that were not applied yet, in the order in which they are read.
    lists: Vec<ListUnderWay>,
}

impl ListsUnderWay {
    fn new(resource: Resource, key: &str, began: Instant, steady: Instant) -> ListsUnderWay {
        let (applied, lists) = (Vec::new(), Vec::new());
        ListsUnderWay { resource, key: key.to_string(), began, steady, applied, applied_pages: 0, lists }
    }

    /// These lists, or what an earlier run has read of them with the same key. What the steady clock puts into the
    /// future was read before that clock was lost.
    fn or_resumed(self, before: Option<ListsUnderWay>) -> ListsUnderWay {
        match before {
            Some(before) if before.are_of(self.resource, &self.key) && before.steady <= self.steady => {
                let lists = before.lists.into_iter().map(ListUnderWay::resumed).collect();
                ListsUnderWay { lists, ..before }
            }
            _ => self,
        }
    }

    /// What the next run goes on with; `None` of lists without end. Pages that it would read again are left out.
    fn kept_for_next_run(mut self) -> Option<ListsUnderWay> {
        if self.stored_pages() > MAX_PAGES {
            return None;
        }
        if self.applied.is_empty() && !self.lists.iter().any(|list| list.finished || list.pages.len() > 1) {
            self.lists.clear();
        }
        Some(self)
    }

    /// Whether the lists of a resource were begun with a key and are not read to their end.
    pub(in crate::sync) fn are_of(&self, resource: Resource, key: &str) -> bool {
        self.resource == resource && self.key == key
    }

    fn stored_pages(&self) -> usize {
        self.lists.iter().map(|list| list.pages.len()).sum()
    }

    /// The pages that were read so far, in all runs.
    fn pages(&self) -> u64 {
        self.applied_pages.saturating_add(self.stored_pages() as u64)
    }

    /// When they were read and what that cost.
    fn fresh(&self, finished: Instant) -> LastRead {
        let cost = Some(Ru::new(self.pages()));
        LastRead { began: self.began, finished, steady: Some(self.steady), cost }
    }

    fn were_applied(&mut self, object: Object) {
        self.applied_pages = self.pages();
        self.applied.push(object);
        self.lists.clear();
    }
}

/// A short list that was read to its end.
struct WholeList {
    records: Vec<Record>,
    asked_at: Instant,
    /// Whether every item could be parsed.
    complete: bool,
}

impl WholeList {
    /// Adds items that were read later; the later version of an item wins.
    fn add(&mut self, later: Vec<Record>, complete: bool) {
        self.records.retain(|record| !later.iter().any(|other| other.id == record.id));
        self.records.extend(later);
        self.complete &= complete;
    }

    fn items(&self) -> ListedItems {
        ListedItems { ids: self.records.iter().map(|record| record.id.clone()).collect(), complete: self.complete }
    }
}

/// The lists of a resource, as far as an earlier run has read them.
async fn lists_under_way(run: &Run<'_>, resource: Resource) -> Result<ListsUnderWay, SyncError> {
    let before = run.read(|tx| tx.position(ReadOf::Lists)).await?;
    let (key, now) = (run.engine.client.key_fingerprint().to_string(), run.now());
    Ok(ListsUnderWay::new(resource, &key, now, run.steady_time()).or_resumed(before))
}

/// Stores what was read if the budget, a hold or a stop ended it. After any other error the lists begin again: it may
/// come from what was stored.
async fn keep_lists<T>(run: &Run<'_>, lists: ListsUnderWay, read: Result<T, SyncError>) -> Result<T, SyncError> {
    if let Err(error) = &read {
        let kept = if error.class() == Some(ErrorClass::Pause) { lists.kept_for_next_run() } else { None };
        let stored = run.write(move |tx| match kept {
            Some(lists) => tx.claims().keep_position(ReadOf::Lists, &lists),
            None => tx.claims().end_read(ReadOf::Lists),
        });
        stored.await?;
    }
    read
}

/// Reads the list with this number to its end, or goes on with it.
async fn whole_list(
    run: &Run<'_>,
    lists: &mut Vec<ListUnderWay>,
    nth: usize,
    query: ListQuery,
) -> Result<WholeList, SyncError> {
    let mut query = run.with_fitting_pages(query.sort(SortBy::CreatedAsc));
    loop {
        if lists.len() <= nth {
            lists.push(ListUnderWay::new(run.now()));
        }
        let Some(list) = lists.get_mut(nth) else { continue };
        let resumes = list.next.is_some();
        let error = match pages_of_list(run, list, &query).await {
            Err(error) if error.class() != Some(ErrorClass::Pause) => error,
            read => return read,
        };
        lists.truncate(nth);
        // The cursor of an earlier run may have expired.
        if !(resumes && error.is_refused()) {
            query = run.with_smaller_pages(&query, error)?;
        }
    }
}

async fn pages_of_list(run: &Run<'_>, list: &mut ListUnderWay, query: &ListQuery) -> Result<WholeList, SyncError> {
    let (resource, doing) = (query.resource(), "list");
    let layout = run.store().layout();
    let (pages, mut progress) = list.decoded(resource, &layout).asking(doing, resource)?;
    let mut whole = WholeList { records: Vec::new(), asked_at: list.asked_at, complete: true };
    pages.into_iter().for_each(|page| whole.add(page.records, page.unusable == 0));
    while !list.finished {
        let at = list.next.clone().map_or(query.clone(), |next| query.clone().after(next));
        let FetchedPage { answer, page, .. } = run.engine.page(&at, Purpose::Definitions, doing).await?;
        let first = page.records.first().map(|record| record.id.clone());
        if page.unusable > 0 {
            run.note_anomaly(Anomaly::UnusableItem, resource).await?;
        }
        let is_new = |record: &Record| !whole.records.iter().any(|known| known.id == record.id);
        let (rows, has_new) = (page.records.len(), page.records.iter().any(is_new));
        whole.add(page.records, page.unusable == 0);
        let repeats = !has_new && page.next.is_some() && page.next.as_ref() == at.cursor();
        let has_ended = repeats && has_ended(run, query, whole.records.len(), rows).await?;
        list.take(&answer.body, page.next.clone().filter(|_| !has_ended));
        let Some(next) = page.next.filter(|_| !has_ended) else { break };
        if let Some(anomaly) = progress.take(&next, first.as_ref()) {
            run.note_anomaly(anomaly, resource).await?;
        }
        if progress.is_stuck() {
            return Err(SyncError::NotAdvancing { resource });
        }
    }
    Ok(whole)
}

/// Whether a list has ended that repeats its last page: it has no more than these rows. Where the service does not
/// count, a page that is not full was the last.
async fn has_ended(run: &Run<'_>, query: &ListQuery, rows: usize, last_page: usize) -> Result<bool, SyncError> {
    let counting = query.clone().limit(PageSize::ONE).count_exact();
    let total = match run.engine.page(&counting, Purpose::Definitions, "count").await {
        Err(error) if error.allows_another() => None,
        arrived => arrived?.page.total,
    };
    Ok(total.map_or(last_page < usize::from(query.page_size().get()), |total| total == rows as u64))
}

/// Reads the definitions of both objects, active and archived, and updates the columns.
pub(in crate::sync) async fn refresh_definitions(run: &Run<'_>) -> Result<(), SyncError> {
    let mut lists = lists_under_way(run, Resource::CustomFields).await?;
    // One object after the other: a refused key or certificate costs one request.
    for object in Object::ALL {
        if lists.applied.contains(&object) {
            continue;
        }
        let read = refresh_definitions_of(run, object, &mut lists.lists).await;
        if read.is_err() {
            return keep_lists(run, lists, read).await;
        }
        lists.were_applied(object);
    }
    let fresh = lists.fresh(run.now());
    let writing = run.write(move |tx| {
        tx.unread().definitions_were_read()?;
        tx.claims().end_read(ReadOf::Lists)?;
        tx.claims().reach(Goal::Definitions, fresh)
    });
    writing.await
}

async fn refresh_definitions_of(run: &Run<'_>, object: Object, lists: &mut Vec<ListUnderWay>) -> Result<(), SyncError> {
    let mut list = whole_list(run, lists, 0, ListQuery::definitions_of(object, true)).await?;
    // The lists are read one after the other: a definition that moved in between is on both, and the later answer
    // counts.
    let archived = whole_list(run, lists, 1, ListQuery::definitions_of(object, false)).await?;
    list.add(archived.records, archived.complete);
    let known = run.read(move |tx| tx.definitions(object)).await?;
    if known.iter().any(|known| !list.records.iter().any(|record| record.id == known.id)) {
        // A definition that moved the other way is on neither: the first list is read once more.
        let active = whole_list(run, lists, 2, ListQuery::definitions_of(object, true)).await?;
        list.add(active.records, active.complete);
        if list.records.is_empty() {
            // An empty answer does not prove that all fields were removed.
            run.warn(format!("the service no longer lists custom fields of {object}: the columns are not changed"));
        }
    }
    let has = |record: &Record, wire, text: &str| record.text(Resource::CustomFields, wire) == Some(text);
    // What a list has of the other object is evidence for neither.
    list.records.retain(|record| {
        record.text(Resource::CustomFields, "objectType").is_none_or(|shown| shown == object.as_str())
    });
    let mut items = list.items();
    // One key is one field: a definition that is not listed, and whose key another one has, is replaced.
    let is_active =
        |record: &Record, key: &FieldKey| has(record, "key", key.as_str()) && has(record, "status", "ACTIVE");
    let (replaced, active): (Vec<Definition>, Vec<Definition>) = known.into_iter().partition(|known| {
        !items.ids.contains(&known.id) && list.records.iter().any(|record| is_active(record, &known.key))
    });
    let [replaced, active] = [replaced, active].map(|some| some.into_iter().map(|known| known.id).collect::<Vec<_>>());
    items.ids.extend(replaced.iter().cloned());
    let details = run.engine.reads_details(object);
    let (rows, guard, steady, now) = (list.records.len() as u64, run.removal_guard(), run.steady_time(), run.now());
    let writing = run.write(move |tx| {
        let kind = WholeListKind::Definitions(object);
        let (mut gone, refused) = match tx.knowledge().decide_unlisted(kind, &active, &items, &guard, steady)? {
            UnlistedDecision::Removed(gone) => (gone, None),
            UnlistedDecision::Refused(share) => (Vec::new(), Some(share)),
        };
        gone.extend(replaced);
        let mut redefined = tx.custom().apply_definitions(object, &list.records, &gone, (list.asked_at, now))?;
        let lacked = tx.unread().take_lacking(object)?;
        omitted_values::mark_unshown(tx, object, &lacked.records, details)?;
        for field in lacked.fields {
            if !redefined.to_fill.iter().any(|known| known.definition == field.definition) {
                redefined.to_fill.push(field);
            }
        }
        // In the same transaction, so that a new column is always filled.
        tx.claims().fill_again(object, &redefined.to_fill)?;
        forget_back_fill(tx, object, &redefined.to_fill)?;
        // These lists are evidence once.
        tx.claims().end_read(ReadOf::Lists)?;
        Ok((redefined, refused))
    });
    let (redefined, refused): (Redefined, _) = writing.await?;
    refused_items(run, Resource::CustomFields, refused);
    run.count(&Tally { rows, ..Tally::default() });
    run.results().definitions.add(redefined.changes);
    for key in &redefined.without_column {
        let key: String = key.as_str().chars().take(40).collect();
        run.warn(format!("the values of the custom field `{key}` of {object} are kept in `extra`"));
    }
    Ok(())
}

/// Reads the definitions again in a run in which a record had an unknown key. If that fails, the run goes on: the
/// values are in `extra` until the definitions are read.
pub(in crate::sync) async fn refresh_definitions_for_unknown_keys(run: &Run<'_>) -> Result<(), SyncError> {
    let mut refreshed = run.definitions_read.lock().await;
    if *refreshed || run.is_skipped(Resource::CustomFields) {
        return Ok(());
    }
    *refreshed = true;
    let before = run.cost();
    let read = match run.not_due(Step::Definitions) {
        Some(not_due) => Err(not_due),
        None => refresh_definitions(run).await,
    };
    match read {
        Err(error) if run.skip(Resource::CustomFields, &error) => Ok(()),
        Err(error) if error.concerns_one_resource() => {
            run.note_failure(Step::Definitions, &error, run.cost().since(before));
            run.results().errors.entry(Step::Definitions).or_insert(error);
            Ok(())
        }
        other => other,
    }
}

/// Reports items of a list that would be removed at once, which looks like an outage.
fn refused_items(run: &Run<'_>, resource: Resource, refused: Option<RemovalShare>) {
    if let Some(RemovalShare { going, of }) = refused {
        run.report_outage(resource, RefusedRemovals { going, of, seen_at: run.now(), sampled_at: None });
    }
}

/// Reads the team members; those missing in two lists an hour apart are deleted.
pub(in crate::sync) async fn refresh_team(run: &Run<'_>) -> Result<(), SyncError> {
    let mut lists = lists_under_way(run, Resource::TeamMembers).await?;
    let read = whole_list(run, &mut lists.lists, 0, ListQuery::new(Resource::TeamMembers)).await;
    let fresh = lists.fresh(run.now());
    let list = keep_lists(run, lists, read).await?;
    let (guard, steady) = (run.removal_guard(), run.steady_time());
    let writing = run.write(move |tx| {
        let known = tx.team_ids()?;
        let decided = tx.knowledge().decide_unlisted(WholeListKind::Team, &known, &list.items(), &guard, steady)?;
        let (gone, refused) = match decided {
            UnlistedDecision::Removed(gone) => (gone, None),
            UnlistedDecision::Refused(share) => (Vec::new(), Some(share)),
        };
        let tally = tx.records().apply_team(&list.records, &gone, list.asked_at)?;
        tx.claims().end_read(ReadOf::Lists)?;
        tx.claims().reach(Goal::Team, fresh)?;
        Ok((tally, refused))
    });
    let (tally, refused) = writing.await?;
    run.count(&tally);
    refused_items(run, Resource::TeamMembers, refused);
    Ok(())
}

/// Forgets the back-fill under way if it is of one of these fields: what it has read is of an earlier time.
fn forget_back_fill(tx: &MirrorTx<'_>, object: Object, fields: &[FieldToBackFill]) -> Result<(), StoreError> {
    let layout = tx.layout().clone();
    let is_of_them = |key: &str| {
        let known = layout.of(object).by_key(key);
        known.is_none_or(|(_, known)| fields.iter().any(|field| field.definition == known.definition))
    };
    let under_way: Vec<Checkpoint<Walk>> = tx.reads(ReadOf::Fill(object))?;
    if under_way.iter().all(|read| is_of_them(&read.part)) {
        tx.claims().end_read(ReadOf::Fill(object))?;
        tx.custom().clear_filled(object)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn list(pages: &[Option<&str>]) -> ListUnderWay {
        let mut list = ListUnderWay::new(Instant::EPOCH);
        for next in pages {
            list.take(b"{}", next.map(Cursor::new));
        }
        list
    }

    #[test]
    fn an_unfinished_list_reads_its_last_page_again() {
        for (pages, next) in [
            (&[Some("b"), Some("c"), Some("d")][..], Some("c")),
            (&[Some("b")], None),
            (&[], None),
            (&[Some("b"), None], None),
            (&[None], None),
        ] {
            let resumed = list(pages).resumed();
            assert_eq!((resumed.next, resumed.pages.len()), (next.map(Cursor::new), pages.len()), "{pages:?}");
        }
    }

    #[test]
    fn lists_of_another_key_resource_or_clock_begin_again() {
        let at = |minutes: u64| Instant::EPOCH.plus(Duration::from_secs(60 * minutes));
        let before = |resource, key, steady| {
            let mut before = ListsUnderWay::new(resource, key, at(1), at(steady));
            before.lists.push(list(&[None]));
            before
        };
        for (before, lists) in [
            (before(Resource::CustomFields, "key", 9), 1),
            (before(Resource::CustomFields, "key", 10), 1),
            (before(Resource::CustomFields, "key", 11), 0),
            (before(Resource::CustomFields, "other", 9), 0),
            (before(Resource::TeamMembers, "key", 9), 0),
        ] {
            let now = ListsUnderWay::new(Resource::CustomFields, "key", at(20), at(10));
            let resumed = now.clone().or_resumed(Some(before.clone()));
            assert_eq!((resumed.lists.len(), now.or_resumed(None).lists.len()), (lists, 0), "{before:?}");
            assert_eq!(resumed.began, at(if lists == 1 { 1 } else { 20 }));
        }
    }

    #[test]
    fn what_would_be_read_again_is_not_stored() {
        for (lists, applied, stored) in [
            (vec![], vec![], Some(0)),
            (vec![list(&[Some("b")])], vec![], Some(0)),
            (vec![list(&[Some("b"), Some("c")])], vec![], Some(2)),
            (vec![list(&[None])], vec![], Some(1)),
            (vec![], vec![Object::Contact], Some(0)),
            (vec![list(&[Some("b")])], vec![Object::Contact], Some(1)),
            (vec![list(&[Some("b"); MAX_PAGES])], vec![], Some(MAX_PAGES)),
            (vec![list(&[Some("b"); MAX_PAGES]), list(&[None])], vec![], None),
        ] {
            let mut all = ListsUnderWay::new(Resource::CustomFields, "key", Instant::EPOCH, Instant::EPOCH);
            (all.lists, all.applied) = (lists, applied);
            let pages = |lists: ListsUnderWay| lists.stored_pages();
            assert_eq!(all.clone().kept_for_next_run().map(pages), stored, "{} lists", all.lists.len());
        }
    }
}
