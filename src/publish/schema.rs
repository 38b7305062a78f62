//! Brings the existing tables to the wanted columns: step by step where that is possible, each table in a transaction of
//! its own.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::database::Database;
use super::ddl::{self, ExistingColumn, ExistingTable, LEFT_BEHIND, LEFT_BEHIND_TABLE, SchemaPlan, SchemaStep};
use super::sides::Sides;
use super::state::{self, APPEARANCE};
use super::tables::{self, PublishedTable};
use super::{PublishError, sql};
use crate::store::Requeue;

const DOING: &str = "change the columns";
const CLEARING: &str = "empty what was left behind";
/// Whether rows of other tables would be deleted or changed with the rows of a table.
const CASCADES: &str = "SELECT 'x'::text FROM pg_catalog.pg_constraint AS k \
     JOIN pg_catalog.pg_class AS c ON c.oid = k.confrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relname = $2 AND k.confdeltype IN ('c', 'n', 'd')";

#[derive(Debug, Default)]
pub(super) struct SchemaOutcome {
    /// The tables that must be replaced by new ones, and why.
    pub(super) replaced: BTreeMap<&'static str, String>,
    pub(super) refused: Vec<(&'static str, PublishError)>,
    pub(super) existing: BTreeMap<String, ExistingTable>,
}

impl Sides<'_> {
    /// Brings every table to its columns that steps lead to. The records whose values a column needs are first entered into
    /// `changed_records`. With `why`, everything is about to be loaded into new tables.
    pub(super) async fn reconcile(
        &self,
        refilled: &BTreeSet<(String, String)>,
        why: Option<&str>,
    ) -> Result<SchemaOutcome, PublishError> {
        let (database, publication, state) = (self.database, &self.publication, &self.state);
        let mut outcome = SchemaOutcome { existing: database.tables().await?, ..SchemaOutcome::default() };
        let is_unused = |table: &ExistingTable| table.is_left_behind && table.users.is_empty();
        for (name, _) in outcome.existing.iter().filter(|(_, table)| is_unused(table)) {
            match database.transaction(DOING, &format!("DROP TABLE {}", sql::qualified(&database.schema, name))).await {
                // Something that is not a view needs it, or it has another owner: it is named as left behind.
                Err(error) if error.is_refusal() => {}
                done => done?,
            }
        }
        for table in &publication.tables {
            let there = outcome.existing.get(table.name);
            if there.is_some_and(|there| !there.is_plain) {
                let (schema, table_name) = (database.schema.clone(), table.name.to_string());
                outcome.refused.push((table.name, PublishError::ForeignTable { schema, table: table_name }));
                continue;
            }
            let mut plan = ddl::plan(table, there, &publication.exclusions, &state.details.meanings);
            if state.details.owed.contains(table.name) {
                plan.replace.get_or_insert("it could not be changed or written before".into());
            }
            if let Some(why) = why.filter(|_| state.is_loaded(table)) {
                plan.replace.get_or_insert(why.into());
            }
            if plan.replace.is_some() {
                plan.steps.retain(|step| matches!(step, SchemaStep::Withdraw { .. }));
            } else if why.is_none() {
                let is_refilled = |column: &str| refilled.contains(&(table.name.to_string(), column.to_string()));
                if table.columns.iter().any(|column| is_refilled(&column.source)) {
                    plan.refills.push(Requeue::All);
                }
                self.requeue(table, &plan).await?;
            }
            match carry_out(database, table, &plan).await {
                Err(error) if error.is_refusal() => outcome.refused.push((table.name, error)),
                done => {
                    done?;
                    outcome.replaced.extend(plan.replace.map(|why| (table.name, why)));
                }
            }
        }
        if !outcome.replaced.is_empty() {
            // Without the columns that were withdrawn just now.
            outcome.existing = database.tables().await?;
        }
        Ok(outcome)
    }

    /// Removes the rows of what was left behind if they may hold what must not be published: excluded values, or those of a
    /// record that was erased. Views find no rows. Of rows that something refers to, the key stays. Returns what the
    /// database refuses.
    pub(super) async fn clear_left_behind(&self) -> Result<Vec<(&'static str, PublishError)>, PublishError> {
        let (database, mut refused) = (self.database, Vec::new());
        let mut tables = database.tables().await?;
        tables.retain(|_, table| table.is_left_behind);
        let hides = !self.publication.exclusions.is_empty();
        if tables.is_empty() || !hides && !self.mirror.moment(|moment| moment.has_erased()).await? {
            return Ok(refused);
        }
        for (name, table) in &tables {
            let of = tables::names().into_iter().find(|of| name.starts_with(&format!("{of}{LEFT_BEHIND_TABLE}")));
            match (database.clear(name, table).await, of) {
                (Err(error), Some(of)) if error.is_refusal() => refused.push((of, error)),
                (done, _) => done?,
            }
        }
        Ok(refused)
    }

    async fn requeue(&self, table: &PublishedTable, plan: &SchemaPlan) -> Result<(), PublishError> {
        let Some(object) = table.object() else { return Ok(()) };
        let all = plan.refills.iter().find(|which| **which == Requeue::All);
        for which in all.map_or(plan.refills.as_slice(), std::slice::from_ref) {
            self.mirror.requeue(object, which).await?;
        }
        Ok(())
    }

    /// Updates indexes and comments that are out of date. Returns what the database refuses.
    pub(super) async fn finish(&mut self) -> Result<Vec<(&'static str, PublishError)>, PublishError> {
        let appearance = state::appearance(&self.publication);
        let mut refused = Vec::new();
        if self.state.details.digests.get(APPEARANCE) == Some(&appearance) {
            return Ok(refused);
        }
        for table in self.publication.open_tables() {
            let statements = sql::appearance(&self.database.schema, table, table.name);
            match self.database.transaction("make indexes and comments", &statements).await {
                Err(error) if error.is_refusal() => refused.push((table.name, error)),
                done => done?,
            }
        }
        if refused.is_empty() {
            self.state.details.digests.insert(APPEARANCE.into(), appearance);
        }
        Ok(refused)
    }
}

async fn carry_out(database: &Database, table: &PublishedTable, plan: &SchemaPlan) -> Result<(), PublishError> {
    if plan.steps.is_empty() {
        return Ok(());
    }
    database.start(DOING).await?;
    for step in &plan.steps {
        if let Err(error) = take(database, table, step).await {
            database.roll_back().await?;
            return Err(error);
        }
    }
    database.commit().await
}

async fn take(database: &Database, table: &PublishedTable, step: &SchemaStep) -> Result<(), PublishError> {
    let (schema, name) = (database.schema.as_str(), table.name);
    let keep = async |column: &str, about: &str| {
        let about = sql::literal(&format!("{LEFT_BEHIND}{about}"));
        database.run(DOING, &sql::comment_on(schema, name, column, &about)).await
    };
    match step {
        SchemaStep::Add(column) => database.run(DOING, &sql::add_column(schema, name, column)).await,
        SchemaStep::Rename { from, to } => database.run(DOING, &sql::rename_column(schema, name, from, to)).await,
        SchemaStep::Forget { name: column } => drop_column(database, name, column).await.map(drop),
        SchemaStep::Drop { name: column, aside } => {
            if drop_column(database, name, column).await? {
                return Ok(());
            }
            database.run(DOING, &sql::rename_column(schema, name, column, aside)).await?;
            keep(aside, &format!("the values of {column} before its type changed")).await
        }
        SchemaStep::Withdraw { name: column } => {
            if drop_column(database, name, column).await? {
                return Ok(());
            }
            database.run(DOING, &sql::clear_column(schema, name, column)).await?;
            keep(column, "excluded, and emptied").await
        }
    }
}

/// Drops a column. Returns whether it is gone: it is kept if something depends on it.
async fn drop_column(database: &Database, table: &str, column: &str) -> Result<bool, PublishError> {
    match database.attempt(DOING, &sql::drop_column(&database.schema, table, column)).await? {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Database {
    /// Removes the rows of a table that was left behind, or all but their keys. Triggers of people do not fire, and rows of
    /// other tables stay: where they would be deleted or changed with a row, its key stays too.
    async fn clear(&self, name: &str, table: &ExistingTable) -> Result<(), PublishError> {
        let place = sql::qualified(&self.schema, name);
        let is_kept = |column: &ExistingColumn| table.key.contains(&column.name) || column.is_computed;
        let columns = table.columns.iter().filter(|column| !is_kept(column));
        let columns: Vec<String> = columns.map(|column| sql::ident(&column.name)).collect();
        let has_values = columns.join(" IS NOT NULL OR ");
        let any = format!("SELECT 'x'::text FROM ONLY {place} WHERE {has_values} IS NOT NULL LIMIT 1");
        if columns.is_empty() || self.query(CLEARING, &any, &[]).await?.is_empty() {
            return Ok(());
        }
        let quiet = format!("ALTER TABLE {place} DISABLE TRIGGER USER");
        let of_table = [(&self.schema as _, Type::TEXT), (&name as _, Type::TEXT)];
        if self.query(CLEARING, CASCADES, &of_table).await?.is_empty() {
            match self.transaction(CLEARING, &format!("{quiet}; DELETE FROM ONLY {place}")).await {
                Err(error) if error.is_refusal() => {}
                done => return done,
            }
        }
        let (nulls, optional) = (columns.join(" = NULL, "), columns.join(" DROP NOT NULL, ALTER COLUMN "));
        let update = format!(
            "{quiet}; ALTER TABLE ONLY {place} ALTER COLUMN {optional} DROP NOT NULL; \
             UPDATE ONLY {place} SET {nulls} = NULL WHERE {has_values} IS NOT NULL"
        );
        self.transaction(CLEARING, &update).await
    }
}

/// What is kept only because something of a person needs it, one sentence each.
pub(super) async fn left_behind(database: &Database) -> Result<Vec<String>, PublishError> {
    let mut out = Vec::new();
    let mut name_users = |what: &str, views: BTreeSet<&str>| {
        let views: Vec<&str> = views.into_iter().collect();
        let users = if views.is_empty() { "something that is not a view".to_string() } else { views.join(", ") };
        out.push(format!("{what} is not updated any more and still used by {users}"));
    };
    for (name, table) in database.tables().await? {
        if table.is_left_behind {
            name_users(&name, table.users.values().flatten().map(String::as_str).collect());
            continue;
        }
        for column in table.columns.iter().filter(|column| column.is_left_behind) {
            let views = table.users.get(&column.name).into_iter().flatten();
            name_users(&format!("{name}.{}", column.name), views.map(String::as_str).collect());
        }
    }
    Ok(out)
}
