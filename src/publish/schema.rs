//! Executes the steps from the existing columns to the wanted ones.

use std::collections::BTreeSet;

use tokio_postgres::error::SqlState;

use super::database::Database;
use super::ddl::{self, Refill, SchemaPlan, SchemaStep};
use super::error::PublishError;
use super::mirror::PublishedMirror;
use super::sql;
use super::state::{self, APPEARANCE, TargetState};
use super::tables::{Publication, PublishedTable};

const DOING: &str = "change the columns";

/// The outcome for the schema.
#[derive(Debug, Default)]
pub(super) struct SchemaOutcome {
    /// Whether a table was created: its rows are still missing.
    pub(super) created: bool,
    /// What could not be dropped because views use it, one sentence each.
    pub(super) left_behind: Vec<String>,
}

/// Brings every table to its columns. The records whose values a column needs are first entered into `changed_records`,
/// unless everything is about to be loaded. Before a table is created, the database's state is that a load is owed: the
/// load may be interrupted, and the next run cannot tell the table from one whose rows were deleted.
pub(super) async fn reconcile(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
    refilled: &BTreeSet<(String, String)>,
    will_load: bool,
) -> Result<SchemaOutcome, PublishError> {
    let existing = database.columns().await?;
    let created = publication.tables.iter().any(|table| !existing.contains_key(table.name));
    let mut outcome = SchemaOutcome { created, ..SchemaOutcome::default() };
    if created {
        database.owe_load(state).await?;
    }
    for name in existing.keys().filter(|name| name.ends_with("__reload")) {
        database.run(DOING, &format!("DROP TABLE IF EXISTS {}", sql::qualified(&database.schema, name))).await?;
    }
    for table in &publication.tables {
        let there = existing.get(table.name).map(Vec::as_slice);
        let mut plan = ddl::plan(table, there, &publication.exclusions, &state.details.meanings);
        let is_refilled = |column: &str| refilled.contains(&(table.name.to_string(), column.to_string()));
        if table.columns.iter().any(|column| is_refilled(&column.source)) {
            plan.refills.push(Refill::All);
        }
        if !will_load {
            requeue(mirror, table, &plan).await?;
        }
        for step in plan.steps {
            outcome.left_behind.extend(carry_out(database, table, step).await?);
        }
    }
    Ok(outcome)
}

async fn requeue(mirror: &PublishedMirror, table: &PublishedTable, plan: &SchemaPlan) -> Result<(), PublishError> {
    let Some(object) = table.object() else { return Ok(()) };
    if plan.refills.contains(&Refill::All) {
        return mirror.requeue(object, None).await;
    }
    for refill in &plan.refills {
        if let Refill::WithValue(column) = refill {
            mirror.requeue(object, Some(column.clone())).await?;
        }
    }
    Ok(())
}

/// Executes a step. Returns a sentence if something could not be dropped.
async fn carry_out(
    database: &Database,
    table: &PublishedTable,
    step: SchemaStep,
) -> Result<Option<String>, PublishError> {
    let (schema, name) = (database.schema.as_str(), table.name);
    match step {
        SchemaStep::Create => database.run(DOING, &sql::create_table(schema, table, name)).await.map(|()| None),
        SchemaStep::Add(column) => database.run(DOING, &sql::add_column(schema, name, &column)).await.map(|()| None),
        SchemaStep::Rename { from, to } => {
            database.run(DOING, &sql::rename_column(schema, name, &from, &to)).await.map(|()| None)
        }
        SchemaStep::Drop { name: column, aside } => {
            let Some(views) = drop_column(database, name, &column).await? else { return Ok(None) };
            database.run(DOING, &sql::rename_column(schema, name, &column, &aside)).await?;
            Ok(Some(format!(
                "{name}.{column} changed its type; its old values stay in {aside}, which is still used: {views}"
            )))
        }
        SchemaStep::Withdraw { name: column } => {
            let Some(views) = drop_column(database, name, &column).await? else { return Ok(None) };
            database.run(DOING, &sql::clear_column(schema, name, &column)).await?;
            Ok(Some(format!(
                "{name}.{column} is excluded and was emptied; it could not be dropped, since it is still used: {views}"
            )))
        }
    }
}

/// Drops a column. If something depends on it, it is kept and the dependencies are returned.
async fn drop_column(database: &Database, table: &str, column: &str) -> Result<Option<String>, PublishError> {
    match database.run(DOING, &sql::drop_column(&database.schema, table, column)).await {
        Ok(()) => Ok(None),
        Err(PublishError::Statement { source, .. })
            if source.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST) =>
        {
            let detail = source.as_db_error().and_then(|error| error.detail()).unwrap_or("views depend on it");
            Ok(Some(detail.replace('\n', "; ")))
        }
        Err(error) => Err(error),
    }
}

/// Updates indexes and comments that are out of date.
pub(super) async fn finish(
    database: &Database,
    publication: &Publication,
    state: &mut TargetState,
) -> Result<(), PublishError> {
    let appearance = state::appearance(publication);
    if state.details.digests.get(APPEARANCE) == Some(&appearance) {
        return Ok(());
    }
    for table in &publication.tables {
        for index in sql::create_indexes(&database.schema, table) {
            database.run("create an index", &index).await?;
        }
        database.run("write the comments", &sql::comments(&database.schema, table)).await?;
    }
    state.details.digests.insert(APPEARANCE.into(), appearance);
    Ok(())
}
