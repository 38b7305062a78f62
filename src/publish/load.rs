//! A whole load: every table by COPY, straight into the tables that are empty, else into shadows that are merged in the
//! same transaction.
//!
//! The pages are read one after the other, each in a snapshot of its own; what changes meanwhile is in `changed_records`, and
//! is sent next. The tables keep their identity, so grants, comments and people's views stay, and readers see the old rows
//! until the new ones are committed. A merge touches only rows that differ.

use std::collections::BTreeMap;

use super::database::Database;
use super::error::PublishError;
use super::mirror::PublishedMirror;
use super::row::{Converter, PgRow, copy_line};
use super::sql;
use super::state::TargetState;
use super::tables::{self, Publication, PublishedTable};
use crate::model::Object;
use crate::model::field_value::SqlValue;
use crate::store::publishing::source::SourceRow;

/// Rows of one page.
const PAGE: u32 = 1_000;

/// How many rows each table was loaded with.
pub(super) type LoadedRows = BTreeMap<&'static str, u64>;

/// Loads every table. `state` is what the database is to be in afterwards; its sequence number bounds the feed.
pub(super) async fn load(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
) -> Result<LoadedRows, PublishError> {
    let mut shadows = Vec::new();
    for table in &publication.tables {
        if !is_loaded(table, state) {
            continue;
        }
        let shadow = if database.is_empty(table.name).await? { None } else { Some(sql::shadow_name(table.name)) };
        if let Some(shadow) = &shadow {
            let statement = sql::create_table(&database.schema, table, shadow);
            database.run("make a table to reload into", &statement).await?;
        }
        shadows.push((table, shadow));
    }
    let existing = database.columns().await?;
    database.begin(state).await?;
    // What is not published any more must not stay there.
    for name in tables::names().into_iter().filter(|name| publication.table(name).is_none()) {
        if existing.contains_key(name) {
            let statement = format!("DELETE FROM {}", sql::qualified(&database.schema, name));
            database.run("empty a table", &statement).await?;
        }
    }
    let mut loaded = LoadedRows::new();
    for (table, shadow) in &shadows {
        let name = shadow.as_deref().unwrap_or(table.name);
        loaded.insert(table.name, copy(database, mirror, publication, table, name, state).await?);
    }
    for (table, shadow) in &shadows {
        if let Some(shadow) = shadow {
            for statement in sql::merge(&database.schema, table, shadow) {
                database.run("replace the rows", &statement).await?;
            }
        }
    }
    database.commit().await?;
    state.generation += 1;
    for (_, shadow) in shadows {
        if let Some(shadow) = shadow {
            let statement = format!("DROP TABLE IF EXISTS {}", sql::qualified(&database.schema, &shadow));
            database.run("drop a table to reload into", &statement).await?;
        }
    }
    Ok(loaded)
}

/// Whether a table can be loaded: records only once their first copy is finished.
fn is_loaded(table: &PublishedTable, state: &TargetState) -> bool {
    table.object().is_none_or(|object| state.details.loaded.contains(&object))
}

/// Copies a table page by page. Gives the number of rows.
async fn copy(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    table: &PublishedTable,
    name: &str,
    state: &TargetState,
) -> Result<u64, PublishError> {
    let (query, layout) = (table.query(), publication.layout);
    let converter = Converter::of(publication, table);
    let chosen = RowFilter::new(table, publication, state);
    let mut sink = database.copy_into(table, name).await?;
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
        let mut lines = String::new();
        for row in page.iter().filter(|row| chosen.keeps(row)) {
            copy_line(&converter.convert(row), &mut lines);
        }
        if !lines.is_empty() {
            sink.send(lines).await?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize && !chosen.is_beyond(last) => {
                after = Some(table.key.iter().filter_map(|key| Some(last[table.place(key)?].clone())).collect());
            }
            _ => return sink.finish().await,
        }
    }
}

/// Which rows of a table are published.
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

    /// Whether a row of the feed comes after the cursor.
    pub(super) fn is_beyond(&self, row: &SourceRow) -> bool {
        matches!(self.seq.map(|place| &row[place]), Some(SqlValue::Int(seq)) if *seq > self.newest)
    }

    pub(super) fn keeps(&self, row: &SourceRow) -> bool {
        !self.is_beyond(row) && self.is_chosen(row)
    }

    /// Whether a row is of an object, and of a field, that is published.
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

/// Rows in the form of the database.
pub(super) fn converted(publication: &Publication, table: &PublishedTable, rows: &[SourceRow]) -> Vec<PgRow> {
    let converter = Converter::of(publication, table);
    rows.iter().map(|row| converter.convert(row)).collect()
}
