//! Brings the existing tables to the wanted columns: step by step where that is possible, each table in a transaction of
//! its own. What was left behind is emptied where it may hold what must not be published, and named.

use std::collections::BTreeMap;

use super::database::Database;
use super::ddl::{self, ExistingColumn, ExistingTable, LEFT_BEHIND_TABLE};
use super::sides::Sides;
use super::state::{self, APPEARANCE};
use super::{PublishError, sql, tables};
use crate::store::feed;

/// Why a table of the right shape is loaded.
const OWED: &str = "it was not known to be equal";

pub(super) type Reloads = BTreeMap<&'static str, Reload>;

/// Why a table is loaded, and whether a new one takes its place.
pub(super) struct Reload {
    pub(super) why: String,
    pub(super) replaces: bool,
}

impl Sides<'_> {
    /// Brings every table to its columns that steps lead to. A table with a column that needs values is owed, in the same
    /// transaction, and loaded once the changes were sent. Returns the tables that must be loaded first: replaced by new ones
    /// if no step leads to their columns, if they are not published, or if that `is_forced`.
    pub(super) async fn reconcile(&mut self, is_forced: bool) -> Result<Reloads, PublishError> {
        let (database, publication) = (self.database, self.publication.clone());
        let (existing, mut reloads) = (database.tables().await?, BTreeMap::new());
        let owed = self.state.owed.clone();
        self.owe_what_was_refilled().await?;
        for (name, _) in existing.iter().filter(|(_, table)| table.is_left_behind && table.users.is_empty()) {
            match database.transaction(None, &format!("DROP TABLE {}", sql::qualified(&database.schema, name))).await {
                // Something that is not a view needs it, or it has another owner: it is named as left behind.
                Err(error) if error.is_refusal() => {}
                done => done?,
            }
        }
        for table in &publication.tables {
            let (name, there) = (table.name, existing.get(table.name));
            if !table.is_chosen && (there.is_none() || !self.state.owed.contains(name)) {
                self.state.owed.remove(name);
                continue;
            }
            if there.is_some_and(|there| !there.is_plain) {
                let schema = database.schema.clone();
                self.refuse(name, PublishError::ForeignTable { schema, table: name.into() });
                continue;
            }
            let plan = ddl::plan(table, there, &publication.layout);
            // The rows of records are loaded once their first copy is finished.
            let is_open = !table.is_chosen || self.state.is_loaded(table);
            let replaces = plan.replace.is_some() || !table.is_chosen || is_open && is_forced;
            // Views of a table that is replaced follow its columns by their new names.
            let added = if replaces { &[] } else { plan.added.as_slice() };
            let statements = sql::rename_and_add(&database.schema, name, &plan.renamed, added);
            let mut next = self.state.clone();
            if plan.refills {
                next.owed.insert(name.into());
                // The index of a column goes with it.
                next.digests.remove(APPEARANCE);
            }
            let done = match there.filter(|_| table.is_chosen) {
                Some(there) if replaces && there.has_row_security => {
                    Err(PublishError::RowSecurity { schema: database.schema.clone(), table: name })
                }
                Some(_) if !statements.is_empty() => database.transaction(Some(&mut next), &statements).await,
                _ => Ok(()),
            };
            match done {
                Err(error) if error.is_refusal() => self.refuse(name, error),
                done => {
                    done?;
                    self.state = next;
                    let why = plan.replace.or((is_open && owed.contains(name)).then(|| OWED.into()));
                    reloads.extend(why.map(|why| (name, Reload { why, replaces })));
                }
            }
        }
        Ok(reloads)
    }

    /// Owes the tables of which a column got other values since the cursor. An added column is noticed anyway, and a removed one
    /// needs no values.
    async fn owe_what_was_refilled(&mut self) -> Result<(), PublishError> {
        let publication = self.publication.clone();
        let events = self.read(|moment, _, state| Ok(feed::column_events(moment.tx, state.seq())?)).await?;
        let refilled = events.iter().filter(|event| ["restored", "retyped"].contains(&event.op.as_str()));
        let is_published = |table: &str, column| publication.table(table).is_some_and(|of| of.place(column).is_some());
        let refilled = refilled.filter(|event| is_published(event.object.table(), &event.column));
        self.state.owed.extend(refilled.map(|event| event.object.table().into()));
        Ok(())
    }

    /// Loads what is owed and can be written.
    pub(super) async fn load_owed(&mut self) -> Result<(), PublishError> {
        let publication = self.publication.clone();
        let tables =
            publication.open_tables().filter(|of| self.state.owed.contains(of.name) && self.state.is_loaded(of));
        let owed = tables.map(|of| (of.name, Reload { why: OWED.into(), replaces: false })).collect();
        self.load(&owed).await.map(drop)
    }

    /// Reports what the database refuses of a table that can be written nevertheless.
    fn report_refused(&mut self, table: &'static str, done: Result<(), PublishError>) -> Result<(), PublishError> {
        match done {
            Err(error) if error.is_refusal() => self.refused.push((table, error)),
            done => done?,
        }
        Ok(())
    }

    /// Updates indexes and comments that are out of date, and forgets what was lost and is there again.
    pub(super) async fn finish(&mut self) -> Result<(), PublishError> {
        let (database, publication) = (self.database, self.publication.clone());
        for table in &publication.tables {
            if let Some(lost) = self.state.lost.get_mut(table.name).filter(|lost| !lost.is_empty()) {
                let there = database.attachments(table).await?;
                lost.retain(|lost, _| there.iter().all(|of| of.label() != *lost));
            }
        }
        let appearance = state::appearance(&publication);
        if self.state.digests.get(APPEARANCE) == Some(&appearance) {
            return Ok(());
        }
        let (refused, existing) = (self.refused.len(), database.tables().await?);
        for table in publication.open_tables() {
            let there = existing.get(table.name).map_or(&[][..], |there| &there.indexes);
            let statements = sql::appearance(&database.schema, table, there);
            let mut next = self.state.clone();
            let done = database.transaction(Some(&mut next), &statements).await;
            if done.is_ok() {
                self.state = next;
            }
            self.report_refused(table.name, done)?;
        }
        if self.refused.len() == refused {
            self.state.digests.insert(APPEARANCE.into(), appearance);
        }
        Ok(())
    }

    /// Names what is lost, and the tables that are kept only because something of a person needs them. Their rows are
    /// removed if they may hold excluded values, unpublished objects, or an erased record. Views find no rows.
    pub(super) async fn name_left_behind(&mut self) -> Result<(), PublishError> {
        let (database, publication) = (self.database, self.publication.clone());
        self.left_behind.extend(self.state.lost.values().flat_map(BTreeMap::values).cloned());
        let mut kept = database.tables().await?;
        kept.retain(|_, table| table.is_left_behind);
        let hides =
            !publication.layout.exclusions.is_empty() || publication.tables.iter().any(|table| !table.is_chosen);
        let is_cleared = !kept.is_empty() && (hides || self.read(|moment, _, _| Ok(moment.has_erased()?)).await?);
        for (name, table) in &kept {
            let of = tables::names().into_iter().find(|of| name.starts_with(&format!("{of}{LEFT_BEHIND_TABLE}")));
            if let Some(of) = of.filter(|_| is_cleared) {
                let done = database.clear(name, table).await;
                self.report_refused(of, done)?;
            }
            let views: Vec<&str> = table.users.iter().map(String::as_str).collect();
            let users = if views.is_empty() { "something that is not a view".to_string() } else { views.join(", ") };
            self.left_behind.push(format!("{name} is not updated any more and still used by {users}"));
        }
        Ok(())
    }
}

impl Database {
    /// Removes the rows of a table that was left behind; where something refers to them, all but their keys. Triggers of
    /// people do not fire.
    async fn clear(&self, name: &str, table: &ExistingTable) -> Result<(), PublishError> {
        let place = sql::qualified(&self.schema, name);
        let is_kept = |column: &ExistingColumn| table.key.contains(&column.name) || column.is_computed;
        let columns = table.columns.iter().filter(|column| !is_kept(column));
        let columns: Vec<String> = columns.map(|column| sql::ident(&column.name)).collect();
        let has_values = columns.join(" IS NOT NULL OR ");
        let any = format!("SELECT 'x'::text FROM ONLY {place} WHERE {has_values} IS NOT NULL LIMIT 1");
        if columns.is_empty() || self.query(&any, &[]).await?.is_empty() {
            return Ok(());
        }
        let quiet = format!("ALTER TABLE {place} DISABLE TRIGGER USER");
        // Rows of people that refer to them would be deleted too.
        let of_table = sql::literal(&place);
        let references =
            format!("SELECT 'x'::text FROM pg_catalog.pg_constraint WHERE confrelid = {of_table}::regclass");
        if self.query(&references, &[]).await?.is_empty() {
            match self.transaction(None, &format!("{quiet}; DELETE FROM ONLY {place}")).await {
                Err(error) if error.is_refusal() => {}
                done => return done,
            }
        }
        let (nulls, optional) = (columns.join(" = NULL, "), columns.join(" DROP NOT NULL, ALTER COLUMN "));
        let update = format!(
            "{quiet}; ALTER TABLE ONLY {place} ALTER COLUMN {optional} DROP NOT NULL; \
             UPDATE ONLY {place} SET {nulls} = NULL WHERE {has_values} IS NOT NULL"
        );
        self.transaction(None, &update).await
    }
}
