//! Custom field definitions and team members: short lists without a filter by change. They are read whole on an
//! interval and at a sweep, and definitions also at once when a record has an unknown key. Items that are no longer on
//! such a list are looked for again an hour later ([`MirrorTx::decide_unlisted`](crate::store::MirrorTx)).
//!
//! A run that ends among them begins them again. Where the budget ended it, they have failed at what that cost, so that they
//! leave the next windows to records.

use super::anomaly::Anomaly;
use super::omitted_values;
use super::short_list::{FetchedPage, ShortList};
use crate::api::{ListQuery, PageSize, SortBy};
use crate::model::{Definition, FieldKey, Instant, Object, Purpose, Record, Resource, Ru};
use crate::store::{
    Goal, LastRead, ListedItems, ReadOf, Redefined, RefusedRemovals, RemovalDecision, RemovalShare, Tally,
    WholeListKind,
};
use crate::sync::error::SyncError;
use crate::sync::plan::Step;
use crate::sync::run::Run;

/// The cost of reading the definitions: active and archived, of both objects, if each fits a page.
pub(crate) const LISTS: Ru = Ru::new(4);

/// A short list that was read to its end.
#[derive(Clone)]
struct WholeList {
    records: Vec<Record>,
    asked_at: Instant,
    /// Whether every item could be parsed, and nothing else can follow.
    complete: bool,
    pages: u64,
}

impl WholeList {
    /// Adds items that were read later; the later version of an item wins.
    fn add(&mut self, later: WholeList) {
        self.records.retain(|record| !later.records.iter().any(|other| other.id == record.id));
        self.records.extend(later.records);
        self.complete &= later.complete;
        self.pages += later.pages;
    }

    fn items(&self) -> ListedItems {
        ListedItems { ids: self.records.iter().map(|record| record.id.clone()).collect(), complete: self.complete }
    }
}

/// Reads a list to its end.
async fn whole_list(run: &Run<'_>, query: ListQuery) -> Result<WholeList, SyncError> {
    let resource = query.resource();
    let begin = WholeList { records: Vec::new(), asked_at: run.now(), complete: true, pages: 0 };
    let mut whole = begin.clone();
    let mut list = ShortList::new(run, query.sort(SortBy::CreatedAsc), Purpose::Definitions, "list");
    while let Some(FetchedPage { page, .. }) = list.page().await? {
        if list.place.pages == 1 {
            whole = WholeList { pages: whole.pages, ..begin.clone() };
        }
        if page.unusable > 0 {
            run.note_anomaly(Anomaly::UnusableItem, resource).await?;
        }
        whole.add(WholeList { records: page.records, complete: page.unusable == 0, pages: 1, ..begin });
        if let Some(anomaly) = list.place.anomaly {
            run.note_anomaly(anomaly, resource).await?;
        }
    }
    if list.place.repeats {
        let counting = list.query.clone().limit(PageSize::ONE).count_exact();
        let total = match run.engine.page(&counting, Purpose::Definitions, "count").await {
            Err(error) if error.allows_another() => None,
            arrived => arrived?.page.total,
        };
        if total.is_some_and(|total| total != whole.records.len() as u64) {
            return Err(SyncError::NotAdvancing { resource });
        }
        // Its rows are there, and nothing proves that no other is.
        whole.complete &= total.is_some();
    }
    Ok(whole)
}

/// Reads the definitions of both objects, active and archived, and updates the columns.
pub(in crate::sync) async fn refresh_definitions(run: &Run<'_>) -> Result<(), SyncError> {
    let (began, steady) = (run.now(), run.steady_time());
    let mut pages = 0;
    // One object after the other: a refused key or certificate costs one request.
    for object in Object::ALL {
        pages += refresh_definitions_of(run, object).await?;
    }
    let fresh = LastRead { steady: Some(steady), cost: Some(Ru::new(pages)), ..LastRead::between(began, run.now()) };
    let writing = run.write(move |tx| {
        tx.unread().definitions_were_read()?;
        tx.claims().reach(Goal::Definitions, fresh)
    });
    writing.await
}

/// Reads the definitions of an object. Gives the number of their pages.
async fn refresh_definitions_of(run: &Run<'_>, object: Object) -> Result<u64, SyncError> {
    let mut list = whole_list(run, ListQuery::definitions_of(object, true)).await?;
    // The lists are read one after the other: a definition that moved in between is on both, and the later answer
    // counts.
    list.add(whole_list(run, ListQuery::definitions_of(object, false)).await?);
    let known = run.read(move |tx| tx.definitions(object)).await?;
    if known.iter().any(|known| !list.records.iter().any(|record| record.id == known.id)) {
        // A definition that moved the other way is on neither: the first list is read once more.
        list.add(whole_list(run, ListQuery::definitions_of(object, true)).await?);
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
            RemovalDecision::Removed(gone) => (gone, None),
            RemovalDecision::Refused(share) => (Vec::new(), Some(share)),
        };
        gone.extend(replaced);
        let redefined = tx.custom().apply_definitions(object, &list.records, &gone, (list.asked_at, now))?;
        omitted_values::mark_unshown(tx, object, &tx.unread().take_lacking(object)?, details)?;
        // In the same transaction, so that a new column is always filled.
        tx.claims().fill_again(object, &redefined.to_fill)?;
        if !redefined.to_fill.is_empty() {
            // What a back-fill under way has read may be of an earlier time.
            tx.claims().end_read(ReadOf::Fill(object))?;
            tx.custom().clear_filled(object)?;
        }
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
    Ok(list.pages)
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
        run.report_outage(resource, RefusedRemovals { going, of, seen_at: run.now() });
    }
}

/// Reads the team members; those missing in two lists an hour apart are deleted.
pub(in crate::sync) async fn refresh_team(run: &Run<'_>) -> Result<(), SyncError> {
    let (began, steady) = (run.now(), run.steady_time());
    let list = whole_list(run, ListQuery::new(Resource::TeamMembers)).await?;
    let fresh =
        LastRead { steady: Some(steady), cost: Some(Ru::new(list.pages)), ..LastRead::between(began, run.now()) };
    let (guard, steady) = (run.removal_guard(), run.steady_time());
    let writing = run.write(move |tx| {
        let known = tx.team_ids()?;
        let decided = tx.knowledge().decide_unlisted(WholeListKind::Team, &known, &list.items(), &guard, steady)?;
        let (gone, refused) = match decided {
            RemovalDecision::Removed(gone) => (gone, None),
            RemovalDecision::Refused(share) => (Vec::new(), Some(share)),
        };
        let tally = tx.records().apply_team(&list.records, &gone, list.asked_at)?;
        tx.claims().reach(Goal::Team, fresh)?;
        Ok((tally, refused))
    });
    let (tally, refused) = writing.await?;
    run.count(&tally);
    refused_items(run, Resource::TeamMembers, refused);
    Ok(())
}
