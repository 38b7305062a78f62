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
use super::row::{PublishedRows, copy_line};
use super::sides::Sides;
use super::tables::PublishedTable;
use super::{PublishError, sql};
use crate::model::SqlValue;

impl Sides<'_> {
    /// Loads the tables that must be replaced; those that are not published get no rows. The state is that of the database
    /// afterwards; its sequence number bounds the feed. Returns the number of rows by table.
    ///
    /// COPY takes all rows or none: if the database refuses a row, everything is loaded once more with statements that
    /// leave it out. A table that the database does not let be replaced is left as it is, and the others are loaded.
    pub(super) async fn load(
        &mut self,
        replaced: &BTreeMap<&'static str, String>,
    ) -> Result<BTreeMap<&'static str, u64>, PublishError> {
        let existing = self.database.tables().await?;
        for name in replaced.keys() {
            self.state.owed.remove(*name);
            self.state.digests.remove(*name);
        }
        let mut by_copy = true;
        loop {
            match self.load_by(replaced, &existing, by_copy).await {
                Err(error) if error.is_of_rows() && by_copy => {
                    self.database.retry_checking_at_once().await?;
                    by_copy = false;
                }
                Err(error) => self.go_on_without(error).await?,
                Ok((rows, left_behind)) => {
                    self.left_behind.extend(left_behind);
                    return Ok(rows);
                }
            }
        }
    }

    /// One attempt, by COPY or by statements that can leave out a row. Returns the rows by table, and what could not follow.
    async fn load_by(
        &mut self,
        replaced: &BTreeMap<&'static str, String>,
        existing: &BTreeMap<String, ExistingTable>,
        by_copy: bool,
    ) -> Result<(BTreeMap<&'static str, u64>, Vec<String>), PublishError> {
        let (database, publication) = (self.database, self.publication.clone());
        database.begin(&self.state).await?;
        let is_replaced =
            |table: &&PublishedTable| replaced.contains_key(table.name) && !publication.blocked.contains(table.name);
        let tables: Vec<&PublishedTable> = publication.tables.iter().filter(is_replaced).collect();
        let (mut rows, mut left_behind) = (BTreeMap::new(), Vec::new());
        for table in &tables {
            let loaded = self.fill_shadow(table, existing.get(table.name), by_copy).await;
            let loaded = loaded.map_err(|error| error.of_table(table.name))?;
            if table.is_chosen {
                rows.insert(table.name, loaded);
            }
        }
        let is_there = |table: &&&PublishedTable| existing.contains_key(table.name);
        let there: Vec<&'static str> = tables.iter().filter(is_there).map(|table| table.name).collect();
        database.lock_tables(&there).await?;
        for table in &tables {
            let swapped = database.swap(table, !there.contains(&table.name)).await;
            left_behind.extend(swapped.map_err(|error| error.of_table(table.name))?);
        }
        database.commit().await?;
        self.state.generation += 1;
        Ok((rows, left_behind))
    }

    /// Writes the table that takes the place of another, with the columns of the other that are not published any more, or
    /// that are a person's own, and with indexes and comments. Returns the number of rows.
    async fn fill_shadow(
        &self,
        table: &PublishedTable,
        old: Option<&ExistingTable>,
        by_copy: bool,
    ) -> Result<u64, PublishError> {
        let (database, schema, shadow) = (self.database, &self.database.schema, sql::shadow_name(table.name));
        database.run(DOING, &sql::create_shadow(schema, table)).await?;
        database.forget_refused(table.name, "true", &[]).await?;
        let rows = if self.state.is_loaded(table) { self.copy(table, &shadow, by_copy).await? } else { 0 };
        let carried = old.map(|old| ddl::carried(table, old, &self.publication.layout)).unwrap_or_default();
        if !carried.is_empty() {
            database.run(DOING, &sql::carry(schema, table, &shadow, &carried)).await?;
        }
        database.run(DOING, &sql::appearance(schema, table, &shadow)).await?;
        Ok(rows)
    }

    async fn copy(&self, table: &PublishedTable, shadow: &str, by_copy: bool) -> Result<u64, PublishError> {
        let (database, name) = (self.database, table.name);
        let mut sink = if by_copy { Some(database.copy_into(table, shadow).await?) } else { None };
        let (mut written, mut after) = (0, None::<Vec<SqlValue>>);
        loop {
            let page = self.read(move |moment, publication, state| {
                let Some(table) = publication.table(name) else { return Ok((Vec::new(), None)) };
                let published = PublishedRows::new(table, publication, state);
                let (rows, next) = published.page(moment, after.as_deref())?;
                Ok((published.converted(&rows), next))
            });
            let (rows, next) = page.await?;
            written += rows.len() as u64;
            match &mut sink {
                Some(sink) => {
                    let mut lines = String::new();
                    rows.iter().for_each(|row| copy_line(row, &mut lines));
                    database.in_time(COPYING, sink.send(lines.into())).await?;
                }
                None => database.upsert(table, shadow, &rows).await?,
            }
            after = next;
            if after.is_none() {
                break;
            }
        }
        if let Some(mut sink) = sink {
            database.in_time(COPYING, sink.as_mut().finish()).await?;
        }
        Ok(written)
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
    /// Locks all of them or none.
    async fn lock_tables(&self, names: &[&'static str]) -> Result<(), PublishError> {
        let lock = async || {
            for name in names {
                let statement = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", sql::qualified(&self.schema, name));
                self.run(DOING, &statement).await.map_err(|error| error.of_table(name))?;
            }
            Ok(())
        };
        for _ in 1..LOCK_TRIES {
            match self.in_savepoint(DOING, lock()).await? {
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tokio::time::sleep(LOCK_DELAY).await;
                }
                done => return done,
            }
        }
        lock().await
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
                if !table.is_chosen {
                    // Only its rows have to go, also those that its policies hide.
                    self.run(DOING, &format!("TRUNCATE ONLY {new}; DROP TABLE {shadow}")).await?;
                    return Ok(left_behind);
                }
                return Err(PublishError::RowSecurity { schema: schema.into(), table: name });
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
