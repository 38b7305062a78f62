//! Loads tables: every one by COPY into a new table, which takes the place of the old one in the same transaction.
//!
//! The pages are read one after the other, each in a snapshot of its own; changes made meanwhile are in
//! `changed_records`, and are sent next. Readers see the old tables until the new ones are committed.

use std::collections::BTreeMap;

use super::error::PublishError;
use super::reading::RowFilter;
use super::row::{PgRow, copy_line};
use super::schema::SchemaOutcome;
use super::sides::Sides;
use super::sql;
use super::tables::{self, PublishedTable};
use crate::model::field_value::SqlValue;

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) rows: BTreeMap<&'static str, u64>,
    /// What could not follow its table, one sentence each.
    pub(super) left_behind: Vec<String>,
}

impl Sides<'_> {
    /// Loads the tables that must be replaced; with `whole`, everything is loaded, and tables that are not published any
    /// more are emptied. The state is that of the database afterwards; its sequence number bounds the feed.
    ///
    /// COPY takes all rows or none: if the database refuses a row, everything is loaded once more with statements that
    /// leave it out. A table that the database does not let be replaced is left as it is, and the others are loaded.
    pub(super) async fn load(&mut self, outcome: &mut SchemaOutcome, whole: bool) -> Result<Loaded, PublishError> {
        let mut by_copy = true;
        loop {
            self.block(&outcome.refused);
            outcome.replaced.retain(|name, _| !self.publication.blocked.contains(name));
            let details = &mut self.state.details;
            for name in outcome.replaced.keys() {
                details.owed.remove(*name);
                details.digests.remove(*name);
            }
            let mut at = None;
            match self.load_by(outcome, (by_copy, whole), &mut at).await {
                Err(error) if error.is_of_rows() && by_copy => {
                    self.database.retry_checking_at_once().await?;
                    by_copy = false;
                }
                Err(error) if error.is_refusal() && at.is_some() => {
                    self.database.roll_back().await?;
                    outcome.refused.extend(at.map(|table| (table, error)));
                }
                loaded => return loaded,
            }
        }
    }

    /// One attempt, by COPY or by statements that can leave out a row. `at` is the table that it was at.
    async fn load_by(
        &mut self,
        outcome: &SchemaOutcome,
        (by_copy, whole): (bool, bool),
        at: &mut Option<&'static str>,
    ) -> Result<Loaded, PublishError> {
        let database = self.database;
        database.begin(&self.state).await?;
        if whole {
            self.empty_others(outcome).await?;
        }
        let replaced: Vec<&PublishedTable> =
            self.publication.open_tables().filter(|table| outcome.replaced.contains_key(table.name)).collect();
        let mut loaded = Loaded::default();
        for table in &replaced {
            *at = Some(table.name);
            let shadow = database.create_shadow(table).await?;
            database.forget_refused(table.name).await?;
            let rows = match self.state.is_loaded(table) {
                true => self.copy(table, &shadow, by_copy).await?,
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
            let hides = !self.publication.exclusions.is_empty();
            loaded.left_behind.extend(database.swap(table, is_new, hides).await?);
        }
        *at = None;
        database.commit().await?;
        self.state.generation += 1;
        Ok(loaded)
    }

    /// Empties the tables that are no longer published.
    async fn empty_others(&self, outcome: &SchemaOutcome) -> Result<(), PublishError> {
        let database = self.database;
        let is_published = |name: &str| self.publication.tables.iter().any(|table| table.name == name);
        for name in tables::names().into_iter().filter(|name| !is_published(name)) {
            if outcome.existing.contains_key(name) {
                let statement = format!("DELETE FROM {}", sql::qualified(&database.schema, name));
                database.run("empty a table", &statement).await?;
            }
            database.forget_refused(name).await?;
        }
        Ok(())
    }

    /// Copies a table page by page into the one of this name, and returns the number of rows.
    async fn copy(&self, table: &PublishedTable, name: &str, by_copy: bool) -> Result<u64, PublishError> {
        let query = table.query();
        let converter = self.converter(table);
        let chosen = RowFilter::new(table, &self.publication, &self.state);
        let mut sink = if by_copy { Some(self.database.copy_into(table, name).await?) } else { None };
        let mut written = 0;
        let mut after: Option<Vec<SqlValue>> = None;
        loop {
            let page = self.mirror.page(&query, self.publication.layout, after.take()).await?;
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
                    self.database.upsert_into(table, name, &rows).await?;
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
}
