//! Proves that the database holds what the mirror holds: every value is compared, and what differs is named.
//!
//! Both sides are read in the order of their keys. The mirror's rows are compared by the database with its own, and the
//! database's keys are looked up in the mirror. Only this program writes to the database, so a snapshot of the mirror in
//! which nothing waits to be sent is what the database must have, but for the records that changed since.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;
use tokio_postgres::types::{ToSql, Type};

use super::database::in_parts;
use super::row::PublishedRows;
use super::sides::Sides;
use super::state::TargetState;
use super::tables::{PgType, Publication, PublishedTable};
use super::{PublishError, follow, sql};
use crate::model::{Instant, Object, SqlValue};
use crate::store::{CopyDifference, CopyDifferenceKind, CopyProof, Moment, PageQuery, SourceRow, StoreError, feed};

/// The maximum number of differences that a report names.
const NAMED: usize = 10_000;

/// The number of differences that the status names.
const SHOWN: usize = 20;

/// How often in a row the mirror may have changed when a page is compared.
const UNSETTLED: u32 = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub rows: u64,
    /// Values that differ, and whole rows that only one side has.
    pub differences: u64,
    pub repaired: u64,
    pub differing: Vec<CopyDifference>,
}

impl Comparison {
    pub fn left(&self) -> u64 {
        self.differences - self.repaired
    }

    fn note(&mut self, table: &PublishedTable, key: &[String], column: Option<String>, kind: CopyDifferenceKind) {
        self.differences += 1;
        if self.differing.len() < NAMED {
            self.differing.push(CopyDifference { table: table.name.into(), key: key.join(" "), column, kind });
        }
    }
}

/// Compares everything, and stores in the database what that has proven.
pub(super) async fn prove(sides: &mut Sides<'_>, repairs: bool, now: Instant) -> Result<Comparison, PublishError> {
    let found = compare(sides, repairs).await?;
    // Nothing is known about a table that is not sent.
    let is_equal = found.left() == 0 && sides.publication.blocked.is_empty();
    sides.state.proof = CopyProof {
        compared_at: Some(now),
        equal_at: if is_equal { Some(now) } else { sides.state.proof.equal_at },
        differences: found.left(),
        differing: if is_equal { Vec::new() } else { found.differing.iter().take(SHOWN).cloned().collect() },
    };
    sides.database.begin(&mut sides.state).await?;
    sides.database.run("COMMIT").await?;
    Ok(found)
}

/// Compares every table that rows are sent to. With `repairs`, the rows of a table that differ are written.
async fn compare(sides: &mut Sides<'_>, repairs: bool) -> Result<Comparison, PublishError> {
    let mut found = Comparison::default();
    let publication = sides.publication.clone();
    for table in publication.open_tables() {
        let before = found.differences;
        compare_table(sides, table, &mut found).await?;
        let differences = found.differences - before;
        // A row that is listed as refused need not differ.
        if repairs && (differences > 0 || sides.state.refused.contains_key(table.name)) {
            sides.state.owed.insert(table.name.into());
            sides.send_all().await?;
            let mut again = Comparison::default();
            compare_table(sides, table, &mut again).await?;
            let is_refused = sides.publication.blocked.contains(table.name);
            found.repaired += if is_refused { 0 } else { differences.saturating_sub(again.differences) };
        }
    }
    Ok(found)
}

async fn compare_table(
    sides: &mut Sides<'_>,
    table: &PublishedTable,
    found: &mut Comparison,
) -> Result<(), PublishError> {
    if !sides.state.is_loaded(table) || sides.publication.blocked.contains(table.name) {
        return Ok(());
    }
    let (name, mut waits) = (table.name, 0);
    let mut page_after = Some(None::<Vec<SqlValue>>);
    while let Some(after) = &page_after {
        let from = after.clone();
        let page = settled(sides, &mut waits, move |moment, publication, state| {
            let Some(table) = publication.table(name) else { return Ok(Default::default()) };
            let (mut rows, next) = PublishedRows { table, publication, state }.page(moment, from.as_deref())?;
            let of_key = id_in_key(table).and_then(|place| table.place(table.key[place]));
            let count = rows.len() as u64;
            leave_out_changed(moment, state, &mut rows, |row| of_key.and_then(|place| row[place].as_text()))?;
            // The names of companies are sent once the first copy of the companies is finished.
            Ok((rows, next, count, moment.tx.is_copied(Object::Company)?))
        });
        let Some((rows, next, count, has_names)) = page.await? else { continue };
        found.rows += count;
        note_differing(sides, table, &rows, has_names, found).await?;
        page_after = next.map(Some);
    }
    let mut page_after = Some(None);
    while let Some(after) = &page_after {
        let (keys, next) = sides.database.page_of_keys(table, after.as_deref()).await?;
        let extra = settled(sides, &mut waits, move |moment, publication, state| {
            Ok(extra(moment, publication, state, name, keys)?)
        });
        let Some(extra) = extra.await? else { continue };
        extra.iter().for_each(|key| found.note(table, key, None, CopyDifferenceKind::Extra));
        page_after = next.map(Some);
    }
    Ok(())
}

/// Reads the mirror if nothing waits to be sent that changes rows of other records than those that changed. Otherwise that
/// is sent, and both sides must be read again. `waits` counts how often in a row: it ends at some time.
async fn settled<T: Send + 'static>(
    sides: &mut Sides<'_>,
    waits: &mut u32,
    read: impl FnOnce(&Moment<'_>, &Publication, &TargetState) -> Result<T, PublishError> + Send + 'static,
) -> Result<Option<T>, PublishError> {
    let found = sides.read(move |moment, publication, state| {
        let is_waiting =
            moment.others_follow(state.changed)? || !follow::differing(moment, publication, state)?.is_empty();
        if is_waiting { Ok(None) } else { read(moment, publication, state).map(Some) }
    });
    let found = found.await?;
    *waits = if found.is_some() { 0 } else { *waits + 1 };
    if *waits >= UNSETTLED {
        return Err(PublishError::Unsettled);
    }
    if found.is_none() {
        sides.send_all().await?;
    }
    Ok(found)
}

/// Names what differs of some rows of the mirror. A row that the database cannot convert differs: it cannot be there.
async fn note_differing(
    sides: &Sides<'_>,
    table: &PublishedTable,
    rows: &[SourceRow],
    has_names: bool,
    found: &mut Comparison,
) -> Result<(), PublishError> {
    let is_compared = |column: &str| !sql::STAMPS.contains(&column) && (has_names || column != "company_name");
    let compared = (0..table.columns.len()).filter(|n| is_compared(&table.columns[*n].name));
    let compared: Vec<usize> = compared.collect();
    let statement = sql::compare(&sides.database.schema, table, &compared);
    let rows = sides.converted(table, rows);
    let key_of = |place: usize| table.key_of(&rows[place]).into_iter().flatten().collect::<Vec<String>>();
    let (database, rows, compared, statement) = (sides.database, &rows, &compared, &statement);
    let compare_part = |part: Range<usize>| async move {
        let of_column = |n: &usize| rows[part.clone()].iter().map(|row| row[*n].as_deref()).collect();
        let arrays: Vec<Vec<Option<&str>>> = compared.iter().map(of_column).collect();
        let params = arrays.iter().map(|array| (array as &(dyn ToSql + Sync), Type::TEXT_ARRAY));
        database.query(statement, &params.collect::<Vec<_>>()).await
    };
    let (parts, refused) = in_parts(rows.len(), compare_part).await?;
    for (place, _) in refused {
        found.note(table, &key_of(place), None, CopyDifferenceKind::Value);
    }
    for (start, row) in parts.iter().flat_map(|(start, rows)| rows.iter().map(move |row| (start, row))) {
        let [Some(place), columns] = row.as_slice() else { continue };
        let Ok(place) = place.parse::<usize>() else { continue };
        let key = key_of(start + place);
        let Some(columns) = columns else {
            found.note(table, &key, None, CopyDifferenceKind::Missing);
            continue;
        };
        let columns = columns.split(',').filter_map(|place| table.columns.get(place.parse::<usize>().ok()?));
        columns.for_each(|of| found.note(table, &key, Some(of.name.clone()), CopyDifferenceKind::Value));
    }
    Ok(())
}

/// The place in a table's key of the id of a record, of which changes are sent.
fn id_in_key(table: &PublishedTable) -> Option<usize> {
    table.key.iter().position(|key| ["id", "record_id"].contains(key)).filter(|_| !table.is_small())
}

/// Leaves out what belongs to records that changed since the database's position: the next publish sends or deletes it.
fn leave_out_changed<T>(
    moment: &Moment<'_>,
    state: &TargetState,
    of_records: &mut Vec<T>,
    id: impl Fn(&T) -> Option<&str>,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = of_records.iter().filter_map(&id).collect();
    if !ids.is_empty() {
        let changed = moment.changed_of(&ids, state.changed)?;
        of_records.retain(|of| id(of).is_none_or(|id| !changed.contains(id)));
    }
    Ok(())
}

/// Which of these keys of the database no row of the mirror has, although nothing of them waits to be deleted.
pub(super) fn extra(
    moment: &Moment<'_>,
    publication: &Publication,
    state: &TargetState,
    name: &'static str,
    mut keys: Vec<Vec<String>>,
) -> Result<Vec<Vec<String>>, StoreError> {
    let Some(mut narrow) = publication.table(name).cloned() else { return Ok(Vec::new()) };
    // No columns but those that decide whether a row is published.
    narrow.columns.retain(|column| column.is_key || ["object_type", "seq"].contains(&column.name.as_str()));
    let query = PageQuery { table: name.into(), ..narrow.query() };
    let as_value = |(text, column): (&String, &&str)| match (text.parse(), narrow.place(column)) {
        (Ok(number), Some(place)) if narrow.columns[place].pg_type == PgType::Bigint => SqlValue::Int(number),
        _ => SqlValue::from(text.as_str()),
    };
    let asked: Vec<Vec<SqlValue>> = keys.iter().map(|key| key.iter().zip(narrow.key).map(as_value).collect()).collect();
    let mut rows = moment.by_keys(&query, &asked)?;
    // Keys that were published in another form.
    if keys.iter().flatten().any(|text| text.contains("\\u0000")) {
        rows.extend(moment.odd_keys(&query)?);
    }
    let published = PublishedRows { table: &narrow, publication, state };
    let here = rows.iter().filter(|row| published.keeps(row)).map(|row| narrow.key_of(&published.convert(row)));
    let here: BTreeSet<Vec<String>> = here.map(|key| key.into_iter().flatten().collect()).collect();
    let forgotten = feed::span(moment.tx)?.forgotten;
    let waits = |seq: i64| state.pruned() < seq && seq <= forgotten;
    let is_pruned = |key: &[String]| name == "changes" && key[0].parse().is_ok_and(waits);
    keys.retain(|key| !here.contains(key) && !is_pruned(key));
    let (place, of_object) = (id_in_key(&narrow), narrow.key.iter().position(|key| *key == "object_type"));
    // Nothing is sent of the others.
    let is_sent = |key: &[String]| of_object.is_none_or(|at| state.loaded.iter().any(|of| of.as_str() == key[at]));
    leave_out_changed(moment, state, &mut keys, |key| place.filter(|_| is_sent(key)).map(|at| key[at].as_str()))?;
    Ok(keys)
}
