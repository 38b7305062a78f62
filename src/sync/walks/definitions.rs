//! Custom field definitions and team members: short lists without a filter by change. They are read whole on an
//! interval and at a sweep, and definitions also at once when a record has an unknown key. Items that are no longer on
//! such a list are looked for again an hour later ([`MirrorTx::decide_unlisted`](crate::store::MirrorTx)).
//!
//! A run that ends among them begins them again. Where the budget ended it, they have failed at what that cost, so that they
//! leave the next windows to records.

use std::collections::HashSet;

use super::anomaly::Anomaly;
use super::omitted_values;
use super::range::price;
use super::short_list::{FetchedPage, ShortList};
use crate::api::{ListQuery, PageSize, SortBy};
use crate::model::{Definition, FieldKey, Instant, Object, Purpose, Record, RecordId, Resource, Ru};
use crate::store::{
    Goal, LastRead, ListedItems, MirrorTx, ReadOf, Redefined, RefusedRemovals, RemovalDecision, RemovalShare,
    StoreError, Tally, WholeListKind,
};
use crate::sync::error::SyncError;
use crate::sync::plan::Step;
use crate::sync::run::Run;

/// The cost of reading the definitions: active and archived, of both objects, if each fits a page.
pub(crate) const LISTS: Ru = Ru::new(4);

/// Short lists of one kind that were read to their ends.
struct WholeLists {
    records: Vec<Record>,
    asked_at: Instant,
    /// Our clock of elapsed time when they were asked for.
    steady: Instant,
    /// Whether every item could be parsed, and nothing else can follow.
    complete: bool,
    pages: u64,
}

impl WholeLists {
    fn new(run: &Run<'_>) -> WholeLists {
        let (asked_at, steady) = (run.now(), run.steady_time());
        WholeLists { records: Vec::new(), asked_at, steady, complete: true, pages: 0 }
    }

    fn items(&self) -> ListedItems {
        ListedItems { ids: self.records.iter().map(|record| record.id.clone()).collect(), complete: self.complete }
    }

    /// Whether it is evidence about items of which so many are known.
    fn proves(&self, known: usize) -> bool {
        self.complete && (known == 0 || !self.records.is_empty())
    }

    fn last_read(&self) -> LastRead {
        let (steady, cost) = (Some(self.steady), Some(Ru::new(self.pages)));
        // The schedule counts from here, also where `began` stays that of an earlier list.
        LastRead { steady, cost, ..LastRead::between(self.asked_at, self.asked_at) }
    }

    /// Reads a list. An item that cannot be read takes no other with it: those behind it are read from the other end, and
    /// the list proves nothing of what it lacks.
    async fn read(&mut self, run: &Run<'_>, query: ListQuery) -> Result<(), SyncError> {
        let (resource, newest) = (query.resource, query.clone().sort(SortBy::CreatedDesc).once());
        let (before, pages) = (run.cost(), self.pages);
        match self.read_in_order(run, query.sort(SortBy::CreatedAsc)).await {
            Err(error) if error.is_unreadable() => {}
            read => return read,
        }
        if self.pages == pages {
            // Where nothing can be read at all, it is no matter of one item.
            run.engine.page(&newest.clone().limit(PageSize::ONE), Purpose::Definitions, "list").await?;
        }
        match self.read_in_order(run, newest).await {
            // What the first one has shown is worth having, whatever fails now.
            Err(error) if error.allows_another() => {
                self.complete = false;
                self.pages = self.pages.max(pages + run.cost().since(before).spent.get());
                run.warn(format!("items of {resource} could not be read and are left out: {error}"));
                run.note_anomaly(Anomaly::UnreadableRecord, resource).await
            }
            read => read,
        }
    }

    /// Reads a list to its end. An item that is on several pages or lists is as the last one of them shows it.
    async fn read_in_order(&mut self, run: &Run<'_>, query: ListQuery) -> Result<(), SyncError> {
        let (resource, mut shown) = (query.resource, HashSet::new());
        let mut list = ShortList::new(run, query, Purpose::Definitions, "list");
        while let Some(FetchedPage { page, .. }) = list.page().await? {
            if list.place.pages == 1 {
                // It may have begun again, with smaller pages.
                shown.clear();
            }
            self.pages += 1;
            self.complete &= page.unusable == 0;
            let unusable = (page.unusable > 0).then_some(Anomaly::UnusableItem);
            for anomaly in unusable.into_iter().chain(list.place.anomaly) {
                run.note_anomaly(anomaly, resource).await?;
            }
            shown.extend(page.records.iter().map(|record| record.id.clone()));
            self.records.retain(|before| page.records.iter().all(|record| record.id != before.id));
            self.records.extend(page.records);
        }
        if list.place.repeats {
            let total = run.engine.total(list.query.clone(), Purpose::Definitions).await?;
            if total.is_some_and(|total| total != shown.len() as u64) {
                return Err(SyncError::NotAdvancing { resource });
            }
            // Its rows are there, and nothing proves that no other is.
            self.complete &= total.is_some();
        }
        Ok(())
    }
}

/// The items that are gone, or the share of them that looks like an outage.
fn decided(decision: RemovalDecision<Vec<RecordId>>) -> (Vec<RecordId>, Option<RemovalShare>) {
    match decision {
        RemovalDecision::Removed(gone) => (gone, None),
        RemovalDecision::Refused(share) => (Vec::new(), Some(share)),
    }
}

/// Reads the definitions of both objects, active and archived, and updates the columns.
pub(in crate::sync) async fn refresh_definitions(run: &Run<'_>) -> Result<(), SyncError> {
    let mut all = WholeLists::new(run);
    // One object after the other: a refused key or certificate costs one request.
    for object in Object::ALL {
        let (pages, proves) = refresh_definitions_of(run, object).await?;
        (all.pages, all.complete) = (all.pages + pages, all.complete && proves);
    }
    let fresh = all.last_read();
    let writing = run.write(move |tx| {
        tx.unread().definitions_were_read()?;
        reach(tx, Goal::Definitions, fresh, all.complete)
    });
    writing.await
}

/// Notes when a list was read, for the schedule. It is complete as of then only if it proves anything.
fn reach(tx: &MirrorTx<'_>, goal: Goal, fresh: LastRead, proves: bool) -> Result<(), StoreError> {
    let before = tx.goals().last_read(goal)?.map_or(Instant::EPOCH, |read| read.began);
    tx.claims().reach(goal, LastRead { began: if proves { fresh.began } else { before }, ..fresh })
}

/// Reads the definitions of an object. Gives the number of their pages, and whether they are evidence.
async fn refresh_definitions_of(run: &Run<'_>, object: Object) -> Result<(u64, bool), SyncError> {
    // A definition that moves in between is on both lists, and the later one counts; or on neither, and is looked for again
    // as any other that is not listed.
    let mut list = WholeLists::new(run);
    for is_active in [true, false] {
        list.read(run, ListQuery::definitions_of(object, is_active)).await?;
    }
    let known = run.read(move |tx| tx.definitions(object)).await?;
    if !known.is_empty() && list.records.is_empty() {
        run.warn(format!("the service no longer lists custom fields of {object}: the columns are not changed"));
    }
    let has = |record: &Record, wire, text: &str| record.text(Resource::CustomFields, wire) == Some(text);
    // What a list has of the other object is evidence for neither.
    list.records.retain(|record| {
        record.text(Resource::CustomFields, "objectType").is_none_or(|shown| shown == object.as_str())
    });
    let (mut items, proves) = (list.items(), list.proves(known.len()));
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
        let (mut gone, refused) = decided(tx.knowledge().decide_unlisted(kind, &active, &items, &guard, steady)?);
        gone.extend(replaced);
        let mut redefined = tx.custom().apply_definitions(object, &list.records, &gone, (list.asked_at, now))?;
        let (lacking, again) = tx.unread().take_lacking(object, price(tx.count_rows(object)?))?;
        omitted_values::mark_unshown(tx, object, &lacking, details)?;
        redefined.to_fill.extend(again);
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
    Ok((list.pages, proves))
}

/// Reads the definitions again after an unknown key was seen. If that fails, the run goes on: `extra` has the values.
pub(in crate::sync) async fn refresh_definitions_for_unknown_keys(run: &Run<'_>) -> Result<(), SyncError> {
    let mut refreshed = run.definitions_read.lock().await;
    if *refreshed || run.results().skipped.contains_key(&Resource::CustomFields) {
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
    let mut list = WholeLists::new(run);
    list.read(run, ListQuery::new(Resource::TeamMembers)).await?;
    let (fresh, guard, steady) = (list.last_read(), run.removal_guard(), run.steady_time());
    let writing = run.write(move |tx| {
        let (kind, known) = (WholeListKind::Team, tx.team_ids()?);
        let (gone, refused) = decided(tx.knowledge().decide_unlisted(kind, &known, &list.items(), &guard, steady)?);
        let tally = tx.records().apply_team(&list.records, &gone, list.asked_at)?;
        reach(tx, Goal::Team, fresh, list.proves(known.len()))?;
        Ok((tally, refused))
    });
    let (tally, refused) = writing.await?;
    run.count(&tally);
    refused_items(run, Resource::TeamMembers, refused);
    Ok(())
}
