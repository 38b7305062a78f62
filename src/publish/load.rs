//! Loads tables, in one transaction. The pages are read one after the other, each in a snapshot of its own; changes made
//! meanwhile are in `changed_records`, and are sent next, or by the next publish.
//!
//! A new table has the right columns and its key, whatever was done to the old one. It keeps the grants, and the columns,
//! indexes, constraints, triggers and views that people built, as far as they can be built again. If a view cannot follow, or
//! something else needs the old table, it stays under another name.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::compare::extra;
use super::database::{Database, Param};
use super::ddl::{self, LEFT_BEHIND, LEFT_BEHIND_TABLE};
use super::row::PublishedRows;
use super::schema::Reloads;
use super::sides::{self, Sides};
use super::state::{APPEARANCE, TargetState};
use super::tables::PublishedTable;
use super::{PublishError, sql};
use crate::model::{Layout, SqlValue};

impl Sides<'_> {
    /// Loads tables; those that are not published get no rows. The state is that of the database afterwards; its
    /// sequence number bounds the feed. A table that cannot be loaded stays as it is. Returns the rows by table.
    pub(super) async fn load(&mut self, reloads: &Reloads) -> Result<BTreeMap<&'static str, u64>, PublishError> {
        while !reloads.is_empty() {
            match self.load_once(reloads).await {
                Ok(rows) => return Ok(rows),
                Err(error) => self.go_on_without(error).await?,
            }
        }
        Ok(BTreeMap::new())
    }

    /// One attempt. What is refused is tried once more after everything else, which it may refer to, and only listed then.
    async fn load_once(&mut self, reloads: &Reloads) -> Result<BTreeMap<&'static str, u64>, PublishError> {
        let (database, publication) = (self.database, self.publication.clone());
        let tables = publication.tables.iter().filter(|table| !publication.blocked.contains(table.name));
        let mut tables: Vec<_> = tables.filter_map(|table| Some((table, reloads.get(table.name)?))).collect();
        // Records may refer to their rows.
        tables.sort_by_key(|(table, _)| !table.is_small());
        let (mut next, mut left_behind) = (self.state.clone(), Vec::new());
        next.owed.retain(|name| tables.iter().all(|(table, _)| table.name != name));
        database.begin(&mut next).await?;
        let existing = database.tables().await?;
        let (mut rows, mut replaced) = (BTreeMap::new(), Vec::new());
        for &(table, reload) in &tables {
            replaced.extend(reload.replaces.then_some(table));
            let loaded = self.fill(&mut next, table, reload.replaces).await;
            let loaded = loaded.map_err(|error| error.of_table(table.name))?;
            if table.is_chosen {
                rows.insert(table.name, loaded);
            }
        }
        let there = replaced.iter().map(|table| table.name).filter(|name| existing.contains_key(*name));
        database.lock_tables(&there.collect::<Vec<_>>()).await?;
        for table in &replaced {
            next.digests.remove(APPEARANCE);
            let swapped = database.swap(table, &publication.layout).await;
            let (kept, lost) = swapped.map_err(|error| error.of_table(table.name))?;
            left_behind.extend(kept);
            next.lost.insert(table.name.into(), lost);
        }
        for (table, _) in &tables {
            if next.owed.contains(table.name) {
                self.fill(&mut next, table, false).await.map_err(|error| error.of_table(table.name))?;
                next.owed.remove(table.name);
            }
        }
        database.advance(&mut next).await?;
        database.run("COMMIT").await?;
        self.state = next;
        self.left_behind.extend(left_behind);
        Ok(rows)
    }

    /// Brings a table, or the one that takes its place, to the mirror's rows: deletes those that the mirror does not have, and
    /// writes those that differ. An empty one is copied. Returns the number of rows.
    async fn fill(&self, next: &mut TargetState, table: &PublishedTable, replaces: bool) -> Result<u64, PublishError> {
        let (database, name) = (self.database, table.name);
        next.refused.remove(name);
        if replaces {
            database.run(&sql::create_shadow(&database.schema, table)).await?;
            if !self.state.is_loaded(table) {
                return Ok(0);
            }
        }
        // Before the rows: what changes meanwhile is noticed.
        let read = table.clone();
        let digest = self.read(move |moment, publication, _| Ok(sides::digest(moment, publication, &read)?)).await?;
        next.digests.extend(digest.map(|digest| (name.into(), digest)));
        let (mut page_after, mut is_empty) = ((!replaces).then_some(None), true);
        while let Some(after) = page_after {
            let (keys, next_key) = database.page_of_keys(table, after.as_deref()).await?;
            is_empty &= keys.is_empty();
            let extra = self.read(move |moment, publication, state| Ok(extra(moment, publication, state, name, keys)?));
            database.delete_keys(next, table, table.key, &extra.await?).await?;
            page_after = next_key.map(Some);
        }
        let place = if replaces { sql::shadow_name(name) } else { name.into() };
        let (mut written, mut page_after) = (0, Some(None::<Vec<SqlValue>>));
        while let Some(after) = page_after {
            let page = self.read(move |moment, publication, state| {
                let Some(table) = publication.table(name) else { return Ok((Vec::new(), None)) };
                let published = PublishedRows { table, publication, state };
                let (rows, next) = published.page(moment, after.as_deref())?;
                Ok((rows.iter().map(|row| published.convert(row)).collect(), next))
            });
            let (rows, next_key) = page.await?;
            written += rows.len() as u64;
            if !is_empty || !database.copy(table, &place, &rows).await? {
                database.upsert(next, table, &place, &rows).await?;
            }
            page_after = next_key.map(Some);
        }
        Ok(written)
    }
}

/// How often the locks of tables and rows are requested, each time for two seconds, and the delay in between: readers
/// that wait behind the request get on meanwhile.
const LOCK_TRIES: u32 = 10;
const LOCK_DELAY: Duration = Duration::from_secs(1);

/// What belongs to a table and is built again on the new one: kind, name, and the statements that remove it from the old
/// table and make it on the new one. The order is that of making.
const ATTACHMENTS: &str = include_str!("attachments.sql");

pub(super) struct Attachment {
    kind: String,
    name: String,
    remove: String,
    make: String,
}

/// What could not follow: what stays at the old table, and what is lost, one sentence each.
type LeftBehind = (Vec<String>, BTreeMap<String, String>);

impl Database {
    /// Locks all of them or none.
    async fn lock_tables(&self, names: &[&'static str]) -> Result<(), PublishError> {
        let lock = || async {
            for name in names {
                let statement = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", sql::qualified(&self.schema, name));
                self.run(&statement).await.map_err(|error| error.of_table(name))?;
            }
            Ok(())
        };
        self.patiently(lock).await?
    }

    /// As [`Database::attempt`], and again while something is locked.
    pub(super) async fn patiently<W: Future<Output = Result<(), PublishError>>>(
        &self,
        work: impl Fn() -> W,
    ) -> Result<Result<(), PublishError>, PublishError> {
        for _ in 1..LOCK_TRIES {
            match self.attempt(work()).await {
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tokio::time::sleep(LOCK_DELAY).await;
                }
                done => return done,
            }
        }
        self.attempt(work()).await
    }

    /// The new table takes the place of the old one, as that is now that it is locked.
    async fn swap(&self, table: &PublishedTable, layout: &Layout) -> Result<LeftBehind, PublishError> {
        let (schema, name) = (self.schema.as_str(), table.name);
        let (new, old) = (sql::qualified(schema, name), sql::qualified(schema, &sql::old_name(name)));
        let shadow = sql::qualified(schema, &sql::shadow_name(name));
        let (mut kept, mut lost, mut moved, mut is_needed) = (Vec::new(), BTreeMap::new(), Vec::new(), false);
        let there = self.tables().await?.remove(name);
        if let Some(there) = &there {
            if there.has_row_security {
                let emptied = format!("TRUNCATE ONLY {new}; DROP TABLE {shadow}");
                // Only its rows have to go, also those that its policies hide.
                if !table.is_chosen && self.attempt(self.run(&emptied)).await?.is_ok() {
                    return Ok((kept, lost));
                }
                return Err(PublishError::RowSecurity { schema: schema.into(), table: name });
            }
            let carried = ddl::carried(table, there, layout);
            if !carried.is_empty() {
                self.run(&sql::carry(schema, table, &carried)).await?;
            }
            for attachment in self.attachments(table).await?.into_iter().rev() {
                match self.attempt(self.run(&attachment.remove)).await? {
                    Ok(()) => moved.push(attachment),
                    refused => {
                        // It would be dropped with it.
                        is_needed |= attachment.kind == "5 partition";
                        kept.push(attachment.sentence(name, refused));
                    }
                }
            }
            self.rename(name, &sql::old_name(name)).await?;
        }
        self.rename(&sql::shadow_name(name), name).await?;
        for attachment in moved.iter().rev() {
            let (kind, make) = (attachment.kind.as_str(), &attachment.make);
            // With a rule, rows could not be written.
            let is_made = kind != "5 rule";
            let mut made = if is_made { self.attempt(self.run(make)).await? } else { Ok(()) };
            // It is kept for later rows, although rows that are there break it.
            let is_checked = made.is_err() && ["2 constraint", "4 reference"].contains(&kind);
            if is_checked && self.attempt(self.run(&format!("{make} NOT VALID"))).await?.is_ok() {
                made = Ok(());
            }
            match made {
                Ok(()) if is_made => {}
                // It still uses the old table.
                Err(_) if kind == "6 view" => kept.push(attachment.sentence(name, made)),
                // Its definition is known from nowhere else.
                made => {
                    lost.insert(attachment.label(), format!("{}; {make}", attachment.sentence(name, made)));
                }
            }
        }
        if there.is_some() && (is_needed || self.attempt(self.run(&format!("DROP TABLE {old}"))).await?.is_err()) {
            self.leave_behind(table).await?;
        }
        Ok((kept, lost))
    }

    /// Renames a table, and its key if PostgreSQL named it.
    async fn rename(&self, from: &str, to: &str) -> Result<(), PublishError> {
        let (table, new) = (sql::qualified(&self.schema, from), sql::qualified(&self.schema, to));
        self.run(&format!("ALTER TABLE {table} RENAME TO {}", sql::ident(to))).await?;
        let key = format!("ALTER TABLE {new} RENAME CONSTRAINT \"{from}_pkey\" TO \"{to}_pkey\"");
        self.attempt(self.run(&key)).await.map(drop)
    }

    /// All names are written with their schema.
    pub(super) async fn attachments(&self, table: &PublishedTable) -> Result<Vec<Attachment>, PublishError> {
        let ours: Vec<String> = table.indexes.iter().map(|index| sql::index_form(index)).collect();
        let params: [Param<'_>; 3] = [(&self.schema, Type::TEXT), (&table.name, Type::TEXT), (&ours, Type::TEXT_ARRAY)];
        self.run("SET LOCAL search_path = ''").await?;
        let rows = self.query(ATTACHMENTS, &params).await?;
        self.run("SET LOCAL search_path = DEFAULT").await?;
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
        self.rename(&sql::old_name(table.name), &name).await?;
        let kept = sql::qualified(&self.schema, &name);
        let about = format!("{LEFT_BEHIND}the rows of {} before it was replaced", table.name);
        self.run(&format!("COMMENT ON TABLE {kept} IS {}", sql::literal(&about))).await
    }
}

impl Attachment {
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.kind.split_once(' ').map_or("", |(_, kind)| kind), self.name)
    }

    /// Without an error, it is not made again.
    fn sentence(&self, table: &str, made: Result<(), PublishError>) -> String {
        let why = made.err().map(|error| format!("could not follow: {}", error.server_message()));
        let why = why.unwrap_or_else(|| "was not made again".into());
        format!("{table} was replaced, and the {} {why}", self.label())
    }
}
