//! Back-fill: fills a new or restored column with the values that records already have.
//!
//! Records do not change when a field is defined or re-activated, so no changes walk would bring their values. Where
//! the definition can be asked `isNull=false`, only records that have a value are read, 100 for 1 RU; for a long text,
//! those are the records whose details are read again. Otherwise a sweep follows, or all details become due. It is a
//! walk with a checkpoint like any other; then the records are looked up by id that have a value here and were passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::omitted_values;
use super::pages::WalkPurpose;
use super::walk::Walk;
use crate::api::{ErrorClass, ListQuery, decode};
use crate::model::{CustomField, Definition, FieldKey, Object, Purpose, RecordId, RequestStamp, TimeBounds, TimeRange};
use crate::store::{Checkpoint, Goal, ReadOf, StoreError};
use crate::sync::checks::compare::Audit;
use crate::sync::checks::lookup_by_id;
use crate::sync::checks::lookup_by_id::{Confirmation, FoundRecords, split_lookup};
use crate::sync::error::{Asking, SyncError};
use crate::sync::plan::Step;
use crate::sync::run::Run;
use crate::sync::step_failures::StepFailures;
use crate::sync::walks::{pages, sweep};

/// Rows that are looked at in one transaction.
const BATCH: usize = 500;

/// Fills the columns of an object that are not complete, as far as filters can tell who has a value: from `extra`
/// first, then by a back-fill of each, or by one sweep where that costs less.
pub(in crate::sync) async fn fill_columns(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let details = run.engine.reads_details(object);
    // Without details they stay unfilled: what is here is looked for when fields may have become known.
    let takes_long = details || *run.definitions_read.lock().await;
    let (mut missing, rows, definitions) = to_fill(run, object, takes_long).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let from_extra = fill_from_extra(run, object, &missing).await?;
    // Without details, of a long text only what is here is taken.
    missing.retain(|field| details || !field.data_type.detail_only());
    let is_listed = |field: &CustomField| !field.data_type.detail_only();
    let mut listed = missing.iter().filter(|field| is_listed(field)).count() as u64;
    let (spent_before, mut sweeps) = (run.spent(), false);
    for field in &missing {
        let definition = definitions.iter().find(|definition| definition.id == field.definition);
        let Some(definition) = definition.cloned() else { continue };
        if from_extra.contains(&field.definition) && is_complete(run, object, field, &definition).await? {
            mark_filled(run, object, &definition).await?;
        } else {
            let spent = run.spent().saturating_sub(spent_before).get();
            sweeps |= is_listed(field) && listed > 1 && spent + listed > sweep::price(rows).get();
            if is_listed(field) && sweeps {
                continue;
            }
            sweeps |= back_fill(run, object, definition).await?;
        }
        listed -= u64::from(is_listed(field));
    }
    if sweeps {
        run.write(move |tx| tx.claims().set(Goal::WantedSweep(object))).await?;
    }
    Ok(())
}

/// The fields whose columns are filled by themselves, the rows, and all definitions.
pub(in crate::sync) async fn to_fill(
    run: &Run<'_>,
    object: Object,
    takes_long: bool,
) -> Result<(Vec<CustomField>, u64, Vec<Definition>), SyncError> {
    let layout = run.store().layout();
    let reading = run.read(move |tx| {
        let (goals, sweeping) = (tx.goals(), tx.goals().is_set(Goal::Sweeping(object))?);
        let wanted = goals.is_set(Goal::WantedSweep(object))? || goals.is_set(Goal::AskedSweep(object))?;
        let being_filled = if sweeping { goals.being_filled(object)? } else { BTreeSet::new() };
        let mut missing = goals.unfilled(&layout, object, takes_long)?;
        // What the sweep under way completes, or one that is wanted, is not filled by itself.
        missing.retain(|field| field.data_type.detail_only() || !wanted && !being_filled.contains(&field.definition));
        Ok((missing, tx.count_rows(object)?, tx.definitions(object)?))
    });
    reading.await
}

/// Whether a column that was made empty holds as many values as the service has, for 1 RU. Then none is missing: what
/// it holds was read from answers, and what changed since, the walk of changes has read.
async fn is_complete(
    run: &Run<'_>,
    object: Object,
    field: &CustomField,
    definition: &Definition,
) -> Result<bool, SyncError> {
    let id = field.definition.clone();
    let was_made = run.read(move |tx| tx.goals().was_made(object, &id)).await?;
    let query = ListQuery::new(object.resource()).custom_is_null(definition, false);
    if !was_made || query.check().is_err() {
        return Ok(false);
    }
    let total = match run.engine.total(query, Purpose::Definitions).await {
        Err(error) if error.class() == Some(ErrorClass::SkipObject) => None,
        counted => counted?,
    };
    let counted = field.clone();
    let here = run.read(move |tx| tx.count_values(object, &counted)).await?;
    Ok(total == Some(here))
}

/// Fills one column. Says whether only a sweep can: a filter is optional, and only a list without one shows whether the key
/// may read it.
async fn back_fill(run: &Run<'_>, object: Object, definition: Definition) -> Result<bool, SyncError> {
    let long = definition.data_type.detail_only();
    let definition = Arc::new(definition);
    let has_filter = ListQuery::new(object.resource()).custom_is_null(&definition, false).check().is_ok();
    let mut is_listed = false;
    if has_filter {
        let mut is_short = fill_from(run, object, definition.clone()).await;
        if long && matches!(is_short, Ok(true)) {
            // The details of all records would cost a hundred times as much as a second list.
            is_short = fill_from(run, object, definition.clone()).await;
        }
        let has_failed = run.read(move |tx| Ok(StepFailures::load(tx)?.of(Step::Fill(object)).is_some())).await?;
        // What may pass is tried twice, and the details of all records cost a hundred times as much.
        let may_give_up = |error: &SyncError| {
            has_failed && (!long || matches!(error, SyncError::NotAdvancing { .. })) && error.allows_another()
        };
        let is_refused = |error: &SyncError| {
            let at_once = [ErrorClass::SkipObject, ErrorClass::BadRequest];
            error.class().is_some_and(|class| at_once.contains(&class)) || (has_failed || !long) && error.is_refused()
        };
        is_listed = match is_short {
            Err(error) if is_refused(&error) || may_give_up(&error) => false,
            is_short => !is_short?,
        };
    }
    if is_listed {
        read_passed_over(run, object, &definition.key).await?;
    } else if long {
        run.write(move |tx| tx.knowledge().make_details_due(object, None)).await?;
    } else {
        return Ok(true);
    }
    mark_filled(run, object, &definition).await?;
    Ok(false)
}

async fn mark_filled(run: &Run<'_>, object: Object, definition: &Definition) -> Result<(), SyncError> {
    let (id, now) = (definition.id.clone(), run.now());
    let noted = run.write(move |tx| {
        tx.claims().end_read(ReadOf::Fill(object))?;
        tx.custom().clear_filled(object)?;
        tx.claims().mark_column_filled(object, &id, now)
    });
    noted.await
}

/// Reads again the records with a local value that the filter did not return: they lost it while the field was
/// archived, or slipped between two pages. Those of each list are noted as read, even if an error ends it, so that the
/// next run goes on with the others.
async fn read_passed_over(run: &Run<'_>, object: Object, key: &FieldKey) -> Result<(), SyncError> {
    let name = key.clone();
    let writing = run.write(move |tx| {
        let layout = tx.layout().clone();
        let Some((_, field)) = layout.of(object).by_key(name.as_str()) else { return Ok(Vec::new()) };
        let mut ids = tx.not_filled(object, field)?;
        let others =
            if field.data_type.detail_only() { 0 } else { ids.iter().take_while(|id| id.fits_a_list()).count() };
        // Ids that do not fit into a list, and values that no list contains.
        let others = ids.split_off(others);
        tx.knowledge().make_details_due(object, Some(&others))?;
        tx.custom().mark_filled(object, &others)?;
        Ok(ids)
    });
    let passed_over = writing.await?;
    let mut rest = &passed_over[..];
    while !rest.is_empty() {
        let (some, others) = split_lookup(rest);
        let mut looked_up = Confirmation::new(run, object);
        let ended = looked_up.confirm(some).await;
        let Confirmation { gone, found, unproven, .. } = looked_up;
        let mut read = [gone.ids(), &unproven].concat();
        read.extend(found.iter().flat_map(FoundRecords::records).map(|record| record.id.clone()));
        read.retain(|id| some.contains(id));
        lookup_by_id::nominate(run, object, gone.ids().to_vec()).await?;
        Audit::new(run, object).keep_found(found).await?;
        mark_passed_over(run, object, key.clone(), read).await?;
        ended?;
        rest = others;
    }
    Ok(())
}

/// Notes that these records were read again. Those that still have their value may have lost it all the same: a list
/// that omits nulls does not show that, and a detail does.
async fn mark_passed_over(run: &Run<'_>, object: Object, key: FieldKey, ids: Vec<RecordId>) -> Result<(), SyncError> {
    let details = run.engine.reads_details(object);
    let noted = run.write(move |tx| {
        let layout = tx.layout().clone();
        if let Some((_, field)) = layout.of(object).by_key(key.as_str()) {
            omitted_values::mark_unshown(tx, object, &tx.with_value(object, field, &ids)?, details)?;
        }
        tx.custom().mark_filled(object, &ids)
    });
    noted.await
}

/// Reads the records that have a value: begins a walk, or resumes the one that is under way. Says whether the service has
/// announced more of them.
async fn fill_from(run: &Run<'_>, object: Object, definition: Arc<Definition>) -> Result<bool, SyncError> {
    let part = definition.key.as_str().to_string();
    let (id, may_count) = (run.id, run.may_count(object));
    let read = run.write(move |tx| {
        let mut known: Vec<Checkpoint<Walk>> = tx.reads(ReadOf::Fill(object))?;
        // One with fewer rows than it announced proves nothing, however long ago that was.
        known.retain(|read| read.part == part && !(read.done && read.position.rows_left() > 0));
        if let Some(known) = known.pop() {
            return Ok(Checkpoint { position: known.position.clone().resumed(id), ..known });
        }
        tx.claims().end_read(ReadOf::Fill(object))?;
        tx.custom().clear_filled(object)?;
        let position = Walk::new(TimeRange::WHOLE);
        let position = if may_count { position.counted() } else { position };
        let read = Checkpoint { part, bounds: TimeBounds::Whole, done: false, as_of: None, position };
        tx.claims().keep_read(ReadOf::Fill(object), &read)?;
        Ok(read)
    });
    let mut read = read.await?;
    if !read.done {
        read = pages::walk(run, WalkPurpose::Fill(object, definition), read, false).await?;
    }
    Ok(read.position.rows_left() > 0)
}

/// Moves the values of these fields from `extra`, where values under unknown keys are kept, into their columns, for 0 RU.
/// They are decoded like those of an answer. Gives the fields that got any. A key with a column stays in no `extra`: what is
/// there would be a value that does not fit.
async fn fill_from_extra(
    run: &Run<'_>,
    object: Object,
    fields: &[CustomField],
) -> Result<BTreeSet<RecordId>, SyncError> {
    let (resource, mut got, mut after) = (object.resource(), BTreeSet::new(), None);
    loop {
        let rows = run.read(move |tx| tx.rows_with_custom_extra(object, after.as_ref(), BATCH)).await?;
        let Some((last, ..)) = rows.last() else { return Ok(got) };
        after = Some(last.clone());
        let mut items = Vec::new();
        for (id, [of_list, of_detail], is_current) in &rows {
            let (mut values, mut is_there) = (BTreeMap::new(), false);
            for field in fields {
                let [listed, detailed] =
                    [of_list, of_detail].map(|extra| extra.get("customFields", field.key.as_str()));
                is_there |= listed.or(detailed).is_some();
                // The detail of another version says nothing of what lists show.
                let detailed = detailed.filter(|_| *is_current || field.data_type.detail_only());
                // What is no JSON text of its own cannot have been kept.
                if let Some(kept) = listed.or(detailed).and_then(|kept| serde_json::from_str::<&RawValue>(kept).ok()) {
                    values.insert(field.key.as_str(), kept);
                    got.insert(field.definition.clone());
                }
            }
            if is_there {
                // What a list would have shown of the record.
                items.push(KeptItem { id, custom_fields: values });
            }
        }
        let items = serde_json::to_string(&items).unwrap_or_default();
        let body = format!("{{\"data\":{items},\"nextCursor\":null}}");
        let layout = run.store().layout();
        let page = decode::page(resource, body.as_bytes(), &layout).asking("fill the new fields of", resource)?;
        let asked = RequestStamp { at: run.engine.clock.reading(), order: run.store().requests.begin() };
        let (version, fields) = (layout.version, fields.to_vec());
        let taken = run.write(move |tx| {
            tx.expect_layout(version)?;
            let mut records = page.records.iter();
            records.try_for_each(|record| tx.custom().fill_from_extra(object, &fields, record, &asked))
        });
        match taken.await {
            // The definitions changed once more meanwhile: the back-fill brings the values.
            Err(SyncError::Store(StoreError::StaleLayout)) => return Ok(BTreeSet::new()),
            taken => taken?,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeptItem<'a> {
    id: &'a RecordId,
    custom_fields: BTreeMap<&'a str, &'a RawValue>,
}
