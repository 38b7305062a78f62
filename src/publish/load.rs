//! Loads tables: every one by COPY into a new table, which takes the place of the old one in the same transaction.
//!
//! The pages are read one after the other, each in a snapshot of its own; changes made meanwhile are in
//! `changed_records`, and are sent next. Readers see the old tables until the new ones are committed.

use std::collections::BTreeMap;

use super::database::Database;
use super::error::PublishError;
use super::mirror::PublishedMirror;
use super::reading::RowFilter;
use super::row::{Converter, PgRow, copy_line};
use super::schema::SchemaOutcome;
use super::sql;
use super::state::TargetState;
use super::tables::{self, Publication, PublishedTable};
use crate::model::field_value::SqlValue;
use crate::store::publishing::source::SourceRow;

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) rows: BTreeMap<&'static str, u64>,
    /// What could not follow its table, one sentence each.
    pub(super) left_behind: Vec<String>,
}

/// Loads the tables that must be replaced; with `whole`, everything is loaded, and tables that are not published any more
/// are emptied. `state` is the database's state afterwards; its sequence number bounds the feed.
///
/// COPY takes all rows or none: if the database refuses a row, everything is loaded once more with statements that leave
/// it out. A table that the database does not let be replaced is left as it is, and the others are loaded.
pub(super) async fn load(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &mut Publication,
    outcome: &mut SchemaOutcome,
    state: &mut TargetState,
    whole: bool,
) -> Result<Loaded, PublishError> {
    let mut by_copy = true;
    loop {
        for (name, _) in &outcome.refused {
            publication.blocked.insert(name);
            outcome.replaced.remove(name);
        }
        state.details.owed.extend(publication.blocked.iter().map(ToString::to_string));
        for name in outcome.replaced.keys() {
            state.details.owed.remove(*name);
            state.details.digests.remove(*name);
        }
        let mut at = None;
        match load_by(database, mirror, publication, outcome, state, (by_copy, whole), &mut at).await {
            Err(error) if error.is_of_rows() && by_copy => {
                database.retry_checking_at_once().await?;
                by_copy = false;
            }
            Err(error) if error.is_refusal() && at.is_some() => {
                database.roll_back().await?;
                outcome.refused.extend(at.map(|table| (table, error)));
            }
            loaded => return loaded,
        }
    }
}

/// One attempt, by COPY or by statements that can leave out a row. `at` is the table that it was at.
async fn load_by(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    outcome: &SchemaOutcome,
    state: &mut TargetState,
    (by_copy, whole): (bool, bool),
    at: &mut Option<&'static str>,
) -> Result<Loaded, PublishError> {
    database.begin(state).await?;
    if whole {
        empty_others(database, publication, outcome).await?;
    }
    let replaced: Vec<&PublishedTable> =
        publication.open_tables().filter(|table| outcome.replaced.contains_key(table.name)).collect();
    let mut loaded = Loaded::default();
    for table in &replaced {
        *at = Some(table.name);
        let shadow = database.create_shadow(table).await?;
        database.forget_refused(table.name).await?;
        let rows = match state.is_loaded(table) {
            true => copy(database, mirror, publication, table, (&shadow, by_copy), state).await?,
            false => 0,
        };
        loaded.rows.insert(table.name, rows);
        database.fill_shadow(table, &shadow, outcome.existing.get(table.name)).await?;
    }
    *at = None;
    let is_there = |table: &&&PublishedTable| outcome.existing.contains_key(table.name);
    let locked: Vec<&str> = replaced.iter().filter(is_there).map(|table| table.name).collect();
    database.lock_tables(&locked).await?;
    for table in &replaced {
        *at = Some(table.name);
        let is_new = !outcome.existing.contains_key(table.name);
        let hides = !publication.exclusions.is_empty();
        loaded.left_behind.extend(database.swap(table, is_new, hides).await?);
    }
    *at = None;
    database.commit().await?;
    state.generation += 1;
    Ok(loaded)
}

/// Empties the tables that are no longer published.
async fn empty_others(
    database: &Database,
    publication: &Publication,
    outcome: &SchemaOutcome,
) -> Result<(), PublishError> {
    let is_published = |name: &str| publication.tables.iter().any(|table| table.name == name);
    for name in tables::names().into_iter().filter(|name| !is_published(name)) {
        if outcome.existing.contains_key(name) {
            let statement = format!("DELETE FROM {}", sql::qualified(&database.schema, name));
            database.run("empty a table", &statement).await?;
        }
        database.forget_refused(name).await?;
    }
    Ok(())
}

/// Copies a table page by page, and returns the number of rows.
async fn copy(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    table: &PublishedTable,
    (name, by_copy): (&str, bool),
    state: &TargetState,
) -> Result<u64, PublishError> {
    let (query, layout) = (table.query(), publication.layout);
    let converter = Converter::of(publication, table);
    let chosen = RowFilter::new(table, publication, state);
    let mut sink = if by_copy { Some(database.copy_into(table, name).await?) } else { None };
    let mut written = 0;
    let mut after: Option<Vec<SqlValue>> = None;
    loop {
        let page = mirror.page(&query, layout, after.take()).await?;
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
        after = chosen.next(table, &page);
        if after.is_none() {
            break;
        }
    }
    match sink {
        Some(sink) => sink.finish().await,
        None => Ok(written),
    }
}

pub(super) fn converted(publication: &Publication, table: &PublishedTable, rows: &[SourceRow]) -> Vec<PgRow> {
    let converter = Converter::of(publication, table);
    rows.iter().map(|row| converter.convert(row)).collect()
}
