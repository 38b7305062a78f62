//! Loads everything: every table by COPY, directly into empty tables, else into shadow tables that are merged in the
//! same transaction.
//!
//! The pages are read one after the other, each in a snapshot of its own; changes made meanwhile are in
//! `changed_records`, and are sent next. The tables are not recreated, so grants, comments and users' views are kept,
//! and readers see the old rows until the new ones are committed. A merge changes only rows that differ.

use std::collections::BTreeMap;

use super::database::Database;
use super::error::PublishError;
use super::mirror::PublishedMirror;
use super::row::{Converter, PgRow, copy_line};
use super::rows::RowStatement;
use super::sql;
use super::state::TargetState;
use super::tables::{self, Publication, PublishedTable};
use crate::model::Object;
use crate::model::field_value::SqlValue;
use crate::store::publishing::source::SourceRow;

/// The number of rows of one page.
const PAGE: u32 = 1_000;

/// The number of rows loaded into each table.
pub(super) type LoadedRows = BTreeMap<&'static str, u64>;

/// Loads every table. `state` is the database's state afterwards; its sequence number bounds the feed.
///
/// COPY and the merge take all rows or none. If the database refuses a row, everything is loaded once more with
/// statements that leave it out.
pub(super) async fn load(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
) -> Result<LoadedRows, PublishError> {
    match load_by(database, mirror, publication, state, LoadMethod::Copy).await {
        Err(error) if error.is_of_rows() => {
            database.retry_checking_at_once().await?;
            load_by(database, mirror, publication, state, LoadMethod::Statements).await
        }
        loaded => loaded,
    }
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadMethod {
    /// All at once.
    Copy,
    /// By statements that can leave out a row.
    Statements,
}

async fn load_by(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
    method: LoadMethod,
) -> Result<LoadedRows, PublishError> {
    let mut shadows = Vec::new();
    for table in &publication.tables {
        if !is_loaded(table, state) {
            continue;
        }
        let shadow = if database.is_empty(table.name).await? { None } else { Some(sql::shadow_name(table.name)) };
        if let Some(shadow) = &shadow {
            let statement = sql::create_table(&database.schema, table, shadow);
            database.run("create a table for the reload", &statement).await?;
        }
        shadows.push((table, shadow));
    }
    let existing = database.columns().await?;
    database.begin(state).await?;
    // Tables that are no longer published are emptied.
    for name in tables::names().into_iter().filter(|name| publication.table(name).is_none()) {
        if existing.contains_key(name) {
            let statement = format!("DELETE FROM {}", sql::qualified(&database.schema, name));
            database.run("empty a table", &statement).await?;
        }
        database.forget_refused(name).await?;
    }
    let mut loaded = LoadedRows::new();
    for (table, shadow) in &shadows {
        let name = shadow.as_deref().unwrap_or(table.name);
        database.forget_refused(table.name).await?;
        loaded.insert(table.name, copy(database, mirror, publication, table, (name, method), state).await?);
    }
    for (table, shadow) in &shadows {
        match shadow {
            Some(shadow) if method == LoadMethod::Copy => {
                for statement in sql::merge(&database.schema, table, shadow) {
                    database.run("replace the rows", &statement).await?;
                }
            }
            Some(shadow) => merge_by_pages(database, table, shadow).await?,
            None => {}
        }
    }
    database.commit().await?;
    state.generation += 1;
    for (_, shadow) in shadows {
        if let Some(shadow) = shadow {
            let statement = format!("DROP TABLE IF EXISTS {}", sql::qualified(&database.schema, &shadow));
            database.run("drop a table of the reload", &statement).await?;
        }
    }
    Ok(loaded)
}

/// Whether a table can be loaded: records are loaded only once their first copy is finished.
pub(super) fn is_loaded(table: &PublishedTable, state: &TargetState) -> bool {
    table.object().is_none_or(|object| state.details.loaded.contains(&object))
}

/// Copies a table page by page, and returns the number of rows.
async fn copy(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    table: &PublishedTable,
    (name, method): (&str, LoadMethod),
    state: &TargetState,
) -> Result<u64, PublishError> {
    let (query, layout) = (table.query(), publication.layout);
    let converter = Converter::of(publication, table);
    let chosen = RowFilter::new(table, publication, state);
    let mut sink = if method == LoadMethod::Copy { Some(database.copy_into(table, name).await?) } else { None };
    let mut written = 0;
    let mut after: Option<Vec<SqlValue>> = None;
    loop {
        let (query, from) = (query.clone(), after.take());
        let page = mirror
            .moment(move |moment| {
                let is_current = moment.layout()? == layout;
                Ok(if is_current { Some(moment.page(&query, from.as_deref(), PAGE)?) } else { None })
            })
            .await?
            .ok_or(PublishError::Unsettled)?;
        let rows = page.iter().filter(|row| chosen.keeps(row)).map(|row| converter.convert(row));
        match &mut sink {
            Some(sink) => {
                let mut lines = String::new();
                rows.for_each(|row| copy_line(&row, &mut lines));
                if !lines.is_empty() {
                    sink.send(lines).await?;
                }
            }
            None => {
                let rows: Vec<PgRow> = rows.collect();
                database.upsert_into(table, name, &rows).await?;
                written += rows.len() as u64;
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize && !chosen.is_beyond(last) => {
                after = Some(table.key.iter().filter_map(|key| Some(last[table.place(key)?].clone())).collect());
            }
            _ => break,
        }
    }
    match sink {
        Some(sink) => sink.finish().await,
        None => Ok(written),
    }
}

/// Brings a table to the contents of its shadow, except for the rows that the database refuses.
async fn merge_by_pages(database: &Database, table: &PublishedTable, shadow: &str) -> Result<(), PublishError> {
    let (schema, most) = (database.schema.as_str(), PAGE as usize);
    let places: Vec<usize> = table.key.iter().filter_map(|column| table.place(column)).collect();
    let mut after: Option<Vec<String>> = None;
    loop {
        let statement = sql::page_of_others(schema, table, shadow, after.is_some(), most);
        let keys = database.page(&statement, &texts(after.as_deref())).await?;
        let delete = RowStatement {
            doing: "delete rows",
            statement: sql::delete_keys(schema, table),
            table: table.name,
            names: keys.iter().map(|key| format!("deletion of {}", key_texts(key).join(" "))).collect(),
            arrays: (0..places.len()).map(|place| keys.iter().map(|key| key[place].as_deref()).collect()).collect(),
            fixed: Vec::new(),
        };
        database.write(&delete).await?;
        after = keys.last().filter(|_| keys.len() == most).map(key_texts);
        if after.is_none() {
            break;
        }
    }
    loop {
        let statement = sql::page(schema, table, shadow, after.is_some(), most);
        let rows = database.page(&statement, &texts(after.as_deref())).await?;
        database.upsert(table, &rows).await?;
        let key = |row: &PgRow| places.iter().filter_map(|place| row[*place].clone()).collect();
        after = rows.last().filter(|_| rows.len() == most).map(key);
        if after.is_none() {
            return Ok(());
        }
    }
}

fn key_texts(key: &PgRow) -> Vec<String> {
    key.iter().flatten().cloned().collect()
}

fn texts(after: Option<&[String]>) -> Vec<&str> {
    after.unwrap_or_default().iter().map(String::as_str).collect()
}

/// Selects the rows of a table that are published.
pub(super) struct RowFilter<'a> {
    object_type: Option<usize>,
    field_key: Option<usize>,
    seq: Option<usize>,
    newest: i64,
    loaded: &'a [Object],
    publication: &'a Publication,
}

impl<'a> RowFilter<'a> {
    pub(super) fn new(table: &PublishedTable, publication: &'a Publication, state: &'a TargetState) -> RowFilter<'a> {
        RowFilter {
            object_type: table.place("object_type").filter(|_| !table.is_small()),
            field_key: table.place("field_key"),
            seq: table.place("seq"),
            newest: state.cursor.as_ref().map_or(0, |(_, seq)| *seq),
            loaded: &state.details.loaded,
            publication,
        }
    }

    /// Whether a row of the feed is after the cursor.
    pub(super) fn is_beyond(&self, row: &SourceRow) -> bool {
        matches!(self.seq.map(|place| &row[place]), Some(SqlValue::Int(seq)) if *seq > self.newest)
    }

    pub(super) fn keeps(&self, row: &SourceRow) -> bool {
        !self.is_beyond(row) && self.is_chosen(row)
    }

    /// Whether a row belongs to an object, and to a field, that is published.
    pub(super) fn is_chosen(&self, row: &SourceRow) -> bool {
        let Some(place) = self.object_type else { return true };
        let Some(object) = row[place].as_text().and_then(|object| object.parse::<Object>().ok()) else { return false };
        let multi_selects = &self.publication.multi_selects;
        let of_field = self.field_key.is_none_or(|place| {
            multi_selects.iter().any(|(of, key)| *of == object && Some(key.as_str()) == row[place].as_text())
        });
        self.loaded.contains(&object) && of_field
    }
}

/// Converts rows to the form of the database.
pub(super) fn converted(publication: &Publication, table: &PublishedTable, rows: &[SourceRow]) -> Vec<PgRow> {
    let converter = Converter::of(publication, table);
    rows.iter().map(|row| converter.convert(row)).collect()
}
