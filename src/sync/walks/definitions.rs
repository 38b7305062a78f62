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
use super::short_list::{FetchedPage, ShortList};
use crate::api::{ErrorClass, ListQuery, PageSize, SortBy, decode};
use crate::model::{Cursor, Definition, FieldKey, Instant, Object, Purpose, Record, Resource, Ru};
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
    /// The answers so far.
    pages: Vec<String>,
    /// The cursor of the last one.
    last: Option<Cursor>,
    next: Option<Cursor>,
    finished: bool,
}

impl ListUnderWay {
    const fn new(asked_at: Instant) -> ListUnderWay {
        ListUnderWay { asked_at, pages: Vec::new(), last: None, next: None, finished: false }
    }

    fn take(&mut self, body: &[u8], next: Option<Cursor>) {
        self.finished = next.is_none();
        self.last = std::mem::replace(&mut self.next, next);
        self.pages.push(String::from_utf8_lossy(body).into_owned());
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
    /// These lists in a run that reads the lists of a resource with this key; `None` if they are others, or were read, as the
    /// steady clock says, in the future: before that clock was lost. An unfinished list reads its last page again.
    fn resumed(mut self, resource: Resource, key: &str, steady: Instant) -> Option<ListsUnderWay> {
        for list in self.lists.iter_mut().filter(|list| !list.finished) {
            list.next.clone_from(&list.last);
        }
        (self.are_of(resource, key) && self.steady <= steady).then_some(self)
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
    let before: Option<ListsUnderWay> = run.read(|tx| tx.position(ReadOf::Lists)).await?;
    let (key, began, steady) = (run.engine.client.key_fingerprint().to_string(), run.now(), run.steady_time());
    let before = before.and_then(|before| before.resumed(resource, &key, steady));
    let (applied, lists) = (Vec::new(), Vec::new());
    Ok(before.unwrap_or(ListsUnderWay { resource, key, began, steady, applied, applied_pages: 0, lists }))
}

/// Stores what was read if the budget, a hold or a stop ended it. After any other error the lists begin again: it may
/// come from what was stored.
async fn keep_lists<T>(run: &Run<'_>, lists: ListsUnderWay, read: Result<T, SyncError>) -> Result<T, SyncError> {
    if let Err(error) = &read {
        let goes_on = error.class() == Some(ErrorClass::Pause) && lists.stored_pages() <= MAX_PAGES;
        let stored = run.write(move |tx| match goes_on {
            true => tx.claims().keep_position(ReadOf::Lists, &lists),
            false => tx.claims().end_read(ReadOf::Lists),
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
        lists.resize(lists.len().max(nth + 1), ListUnderWay::new(run.now()));
        let resumes = lists[nth].next.is_some();
        let error = match pages_of_list(run, &mut lists[nth], &query).await {
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
    let (resource, doing, layout) = (query.resource(), "list", run.store().layout());
    let mut whole = WholeList { records: Vec::new(), asked_at: list.asked_at, complete: true };
    for body in &list.pages {
        let page = decode::page(resource, body.as_bytes(), &layout).asking(doing, resource)?;
        whole.add(page.records, page.unusable == 0);
    }
    let mut reading = ShortList::new(query.clone()).going_on(list.next.clone());
    while !list.finished {
        let FetchedPage { answer, mut page, .. } =
            run.engine.page(&reading.query(), Purpose::Definitions, doing).await?;
        if page.unusable > 0 {
            run.note_anomaly(Anomaly::UnusableItem, resource).await?;
        }
        let is_new = |record: &Record| !whole.records.iter().any(|known| known.id == record.id);
        let repeats = page.next.is_some() && page.next == list.next && !page.records.iter().any(is_new);
        if repeats && has_ended(run, query, whole.records.len(), page.records.len()).await? {
            page.next = None;
        }
        let follows = reading.take(&page);
        list.take(&answer.body, page.next.clone());
        whole.add(page.records, page.unusable == 0);
        if let Some(anomaly) = reading.anomaly {
            run.note_anomaly(anomaly, resource).await?;
        }
        follows?;
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
    run.results().report.definitions.add(redefined.changes);
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
            run.fails_alone(Step::Definitions, error, run.cost().since(before));
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

    fn lists(resource: Resource, key: &str, steady: Instant, list: ListUnderWay) -> ListsUnderWay {
        let (began, key, applied) = (Instant::EPOCH, key.to_string(), Vec::new());
        ListsUnderWay { resource, key, began, steady, applied, applied_pages: 0, lists: vec![list] }
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
            let before = lists(Resource::CustomFields, "key", Instant::EPOCH, list(pages));
            let resumed = before.resumed(Resource::CustomFields, "key", Instant::EPOCH).unwrap();
            let [resumed] = &resumed.lists[..] else { panic!("{resumed:?}") };
            assert_eq!((resumed.next.clone(), resumed.pages.len()), (next.map(Cursor::new), pages.len()), "{pages:?}");
        }
    }

    #[test]
    fn lists_of_another_key_resource_or_clock_begin_again() {
        let at = |minutes: u64| Instant::EPOCH.plus(Duration::from_secs(60 * minutes));
        for (resource, key, steady, goes_on) in [
            (Resource::CustomFields, "key", 9, true),
            (Resource::CustomFields, "key", 10, true),
            (Resource::CustomFields, "key", 11, false),
            (Resource::CustomFields, "other", 9, false),
            (Resource::TeamMembers, "key", 9, false),
        ] {
            let before = lists(resource, key, at(steady), list(&[None]));
            let resumed = before.clone().resumed(Resource::CustomFields, "key", at(10));
            assert_eq!(resumed, Some(before).filter(|_| goes_on), "{resource} {key} {steady}");
        }
    }
}
