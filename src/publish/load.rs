//! Loads tables: every one by COPY into a new table, which takes the place of the old one in the same transaction.
//!
//! The pages are read one after the other, each in a snapshot of its own; changes made meanwhile are in
//! `changed_records`, and are sent next. Readers see the old tables until the new ones are committed.
//!
//! Whatever a person did to the old table, the new one has the right columns and its key. It keeps the grants, and the
//! columns, indexes, constraints, triggers and views that people built, as far as they can be built again. If a view cannot follow,
//! or something else needs the old table, it stays under another name.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::SinkExt as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::database::{COPYING, Database, Param};
use super::ddl::{self, ExistingTable, LEFT_BEHIND, LEFT_BEHIND_TABLE};
use super::row::{PgRow, copy_line};
use super::schema::SchemaOutcome;
use super::sides::{RowFilter, Sides};
use super::tables::PublishedTable;
use super::{PublishError, sql};
use crate::model::SqlValue;

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
            self.block(outcome.refused.iter().map(|(table, _)| table));
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
                Err(error) if error.is_refusal() && error.table().or(at).is_some() => {
                    self.database.roll_back().await?;
                    outcome.refused.extend(error.table().or(at).map(|table| (table, error)));
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
            let shadow = sql::shadow_name(table.name);
            database.run(DOING, &sql::create_shadow(&database.schema, table)).await?;
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
        let locked: Vec<&'static str> = replaced.iter().filter(is_there).map(|table| table.name).collect();
        database.lock_tables(&locked, at).await?;
        for table in &replaced {
            *at = Some(table.name);
            let is_new = !outcome.existing.contains_key(table.name);
            loaded.left_behind.extend(database.swap(table, is_new).await?);
        }
        *at = None;
        database.commit().await?;
        self.state.generation += 1;
        Ok(loaded)
    }

    async fn empty_others(&self, outcome: &SchemaOutcome) -> Result<(), PublishError> {
        for name in self.publication.names_of_others() {
            match outcome.existing.contains_key(name) {
                true => self.empty(name).await?,
                false => self.database.forget_refused(name).await?,
            }
        }
        Ok(())
    }

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
                        sink.send(lines.into()).await.map_err(self.database.failed(COPYING))?;
                    }
                }
                None => {
                    let rows: Vec<PgRow> = rows.collect();
                    self.database.upsert(table, name, &rows).await?;
                    written += rows.len() as u64;
                }
            }
            after = chosen.next(table, &page);
            if after.is_none() {
                break;
            }
        }
        match sink {
            Some(mut sink) => sink.as_mut().finish().await.map_err(self.database.failed(COPYING)),
            None => Ok(written),
        }
    }
}

const DOING: &str = "replace a table";

/// How often the locks for replacing tables are requested, each time for two seconds, and the delay in between: readers
/// that wait behind the request get on meanwhile.
const LOCK_TRIES: u32 = 10;
const LOCK_DELAY: Duration = Duration::from_secs(1);

/// What belongs to a table and is built again on the new one: kind, name, and the statements that remove it from the old
/// table and make it on the new one, which is empty for what is not made again. The order is that of making.
const ATTACHMENTS: &str = include_str!("attachments.sql");

const HAS_ROW_SECURITY: &str = "SELECT 'x'::text FROM pg_catalog.pg_class AS c \
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relname = $2 AND c.relrowsecurity";

struct Attachment {
    kind: String,
    name: String,
    remove: String,
    make: String,
}

impl Database {
    /// Carries over the columns that are not published any more, or that are a person's own, and makes indexes and
    /// comments.
    async fn fill_shadow(
        &self,
        table: &PublishedTable,
        shadow: &str,
        old: Option<&ExistingTable>,
    ) -> Result<(), PublishError> {
        let carried = old.map(|old| ddl::carried(table, old)).unwrap_or_default();
        if !carried.is_empty() {
            self.run(DOING, &sql::carry(&self.schema, table, shadow, &carried)).await?;
        }
        self.run(DOING, &sql::appearance(&self.schema, table, shadow)).await
    }

    /// Locks all of them or none. If the database refuses that of one, `at` is that table.
    async fn lock_tables(&self, names: &[&'static str], at: &mut Option<&'static str>) -> Result<(), PublishError> {
        if names.is_empty() {
            return Ok(());
        }
        let lock = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| sql::qualified(&self.schema, name)).collect();
            format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", names.join(", "))
        };
        let all = lock(names);
        for tries in 1.. {
            match self.in_savepoint(DOING, self.run(DOING, &all)).await? {
                Ok(()) => break,
                Err(error) if tries < LOCK_TRIES && error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tokio::time::sleep(LOCK_DELAY).await;
                }
                Err(error) if error.is_refusal() => {
                    for name in names {
                        *at = Some(*name);
                        self.attempt(DOING, &lock(&[*name])).await??;
                    }
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn swap(&self, table: &PublishedTable, is_new: bool) -> Result<Vec<String>, PublishError> {
        let (schema, name) = (self.schema.as_str(), table.name);
        let (new, old) = (sql::qualified(schema, name), sql::qualified(schema, &sql::old_name(name)));
        let shadow = sql::qualified(schema, &sql::shadow_name(name));
        let mut left_behind = Vec::new();
        let mut attachments = Vec::new();
        if !is_new {
            let params: [Param<'_>; 2] = [(&schema, Type::TEXT), (&name, Type::TEXT)];
            if !self.query(DOING, HAS_ROW_SECURITY, &params).await?.is_empty() {
                return Err(PublishError::RowSecurity { schema: schema.into(), table: name.into() });
            }
            attachments = self.attachments(table).await?;
            self.run(DOING, &sql::drop_indexes(schema, table)).await?;
            for attachment in attachments.iter().rev().filter(|attachment| !attachment.remove.is_empty()) {
                if let Err(error) = self.attempt(DOING, &attachment.remove).await? {
                    left_behind.push(attachment.sentence(name, Some(&error)));
                }
            }
            self.run(DOING, &format!("ALTER TABLE {new} RENAME TO {}", sql::ident(&sql::old_name(name)))).await?;
        }
        self.run(DOING, &format!("ALTER TABLE {shadow} RENAME TO {}", sql::ident(name))).await?;
        self.run(DOING, &sql::rename_indexes(schema, table)).await?;
        for attachment in &attachments {
            if attachment.make.is_empty() {
                left_behind.push(attachment.sentence(name, None));
                continue;
            }
            let mut made = self.attempt(DOING, &attachment.make).await?;
            if made.is_err() && ["2 constraint", "4 reference"].contains(&attachment.kind.as_str()) {
                // It is kept for later rows, although rows that are there break it.
                made = self.attempt(DOING, &format!("{} NOT VALID", attachment.make)).await?;
            }
            if let Err(error) = made {
                left_behind.push(attachment.sentence(name, Some(&error)));
            }
        }
        if !is_new && self.attempt(DOING, &format!("DROP TABLE {old}")).await?.is_err() {
            self.leave_behind(table).await?;
        }
        Ok(left_behind)
    }

    /// All names are written with their schema.
    async fn attachments(&self, table: &PublishedTable) -> Result<Vec<Attachment>, PublishError> {
        let ours = sql::index_names(table);
        let params: [Param<'_>; 3] = [(&self.schema, Type::TEXT), (&table.name, Type::TEXT), (&ours, Type::TEXT_ARRAY)];
        self.run(DOING, "SET LOCAL search_path = ''").await?;
        let rows = self.query(DOING, ATTACHMENTS, &params).await?;
        self.run(DOING, "SET LOCAL search_path = DEFAULT").await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [kind, name, remove, make] = <[Option<String>; 4]>::try_from(row).ok()?;
                Some(Attachment { kind: kind?, name: name?, remove: remove?, make: make? })
            })
            // Published columns have the mirror's values, whatever was made of them.
            .filter(|made| {
                let sets_values = matches!(made.kind.as_str(), "0 expression" | "0 identity" | "0 NOT NULL");
                !sets_values || !table.columns.iter().any(|column| column.name == made.name)
            })
            .collect())
    }

    /// Keeps the old table for what could not follow, under a free name.
    async fn leave_behind(&self, table: &PublishedTable) -> Result<(), PublishError> {
        let taken = self.tables().await?;
        let free =
            |n: u32| Some(format!("{}{LEFT_BEHIND_TABLE}{n}", table.name)).filter(|name| !taken.contains_key(name));
        // Terminates: there are finitely many tables.
        let name = (1..).find_map(free).unwrap_or_default();
        let (old, kept) =
            (sql::qualified(&self.schema, &sql::old_name(table.name)), sql::qualified(&self.schema, &name));
        self.run(DOING, &format!("ALTER TABLE {old} RENAME TO {}", sql::ident(&name))).await?;
        // The next table that is replaced needs the name of the key.
        let (key, own) = (sql::key_name(&sql::old_name(table.name)), sql::ident(&sql::key_name(&name)));
        let key = sql::qualified(&self.schema, &key);
        self.run(DOING, &format!("ALTER INDEX IF EXISTS {key} RENAME TO {own}")).await?;
        let about = format!("{LEFT_BEHIND}the rows of {} before it was replaced", table.name);
        self.run(DOING, &format!("COMMENT ON TABLE {kept} IS {}", sql::literal(&about))).await
    }

    /// Executes a statement in a transaction that goes on if the database refuses it. What is only unavailable is an error,
    /// because it is possible later; what lacks something, as an identity its NOT NULL, or fails inside a function, is not.
    pub(super) async fn attempt(
        &self,
        doing: &'static str,
        statement: &str,
    ) -> Result<Result<(), PublishError>, PublishError> {
        match self.in_savepoint(doing, self.run(doing, statement)).await? {
            Err(error) if !error.is_refusal() && !error.fails_again() => Err(error),
            tried => Ok(tried),
        }
    }
}

impl Attachment {
    /// Why it is left behind; without an error, it is not made again.
    fn sentence(&self, table: &str, error: Option<&PublishError>) -> String {
        let kind = self.kind.split_once(' ').map_or("", |(_, kind)| kind);
        let why = error.map(|error| format!("could not follow: {}", error.server_message()));
        let why = why.unwrap_or_else(|| "was not made again".into());
        format!("{table} was replaced, and the {kind} {} {why}", self.name)
    }
}
