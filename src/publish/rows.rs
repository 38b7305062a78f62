//! Writes rows. A row that the database refuses is left out and named, and the others are written.
//!
//! The owner of a database may add constraints, triggers and indexes to the published tables, and change the types of
//! columns; some rows may be too large for it. Such a row stops no other: a statement that fails is repeated with half
//! of its rows, down to one. The table `publish_refused` lists the rows that were left out. It is written in the same
//! transaction, so it is exact whatever is killed; a row leaves it when it is written or deleted, or before a reload.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tokio_postgres::types::{ToSql, Type};

use super::database::{Database, Param};
use super::error::PublishError;
use super::row::PgRow;
use super::sql;
use super::tables::PublishedTable;
use crate::store::publishing::queue::RefusedRow;

const WRITING: &str = "write rows";
const NOTING: &str = "note the refused rows";

/// The maximum number of refused rows that a report names.
const NAMED: usize = 20;

/// A statement for many rows, which can be executed for some of them.
pub(super) struct RowStatement<'a> {
    pub(super) doing: &'static str,
    pub(super) statement: String,
    pub(super) table: &'a str,
    /// The name of each row, under which it is listed if it is refused.
    pub(super) names: Vec<String>,
    /// The first parameters: arrays with an element per row; without any, the statement is executed as a whole.
    pub(super) arrays: Vec<Vec<Option<&'a str>>>,
    pub(super) fixed: Vec<Param<'a>>,
}

impl<'a> RowStatement<'a> {
    pub(super) fn new(
        doing: &'static str,
        statement: String,
        table: &'a str,
        names: Vec<String>,
        arrays: Vec<Vec<Option<&'a str>>>,
    ) -> RowStatement<'a> {
        RowStatement { doing, statement, table, names, arrays, fixed: Vec::new() }
    }
}

impl Database {
    /// Inserts rows, or replaces those with the same key, in the table itself or its shadow `name`.
    pub(super) async fn upsert(&self, table: &PublishedTable, name: &str, rows: &[PgRow]) -> Result<(), PublishError> {
        let arrays = (0..table.columns.len()).map(|place| rows.iter().map(|row| row[place].as_deref()).collect());
        let names = rows.iter().map(|row| row_name(table, row)).collect();
        let statement = sql::upsert(&self.schema, table, name);
        self.write(&RowStatement::new(WRITING, statement, table.name, names, arrays.collect())).await
    }

    /// Executes a statement that cannot be divided; if the database refuses it, `name` is listed.
    pub(super) async fn write_whole(
        &self,
        doing: &'static str,
        statement: &str,
        (table, name): (&str, &str),
        fixed: Vec<Param<'_>>,
    ) -> Result<(), PublishError> {
        let (statement, names) = (statement.to_string(), vec![name.to_string()]);
        self.write(&RowStatement { doing, statement, table, names, arrays: Vec::new(), fixed }).await
    }

    pub(super) async fn write(&self, rows: &RowStatement<'_>) -> Result<(), PublishError> {
        let mut refused = BTreeMap::new();
        let mut waiting = vec![(0, rows.names.len())];
        while let Some((from, to)) = waiting.pop() {
            if from == to {
                continue;
            }
            self.run(rows.doing, "SAVEPOINT crm_mirror_rows").await?;
            match self.write_some(rows, from, to).await {
                Ok(()) => self.run(rows.doing, "RELEASE SAVEPOINT crm_mirror_rows").await?,
                Err(error) if error.is_of_rows() => {
                    self.run(rows.doing, "ROLLBACK TO SAVEPOINT crm_mirror_rows").await?;
                    self.run(rows.doing, "RELEASE SAVEPOINT crm_mirror_rows").await?;
                    if to - from == 1 {
                        refused.insert(rows.names[from].as_str(), error.server_message());
                    } else {
                        let middle = from + (to - from) / 2;
                        waiting.extend([(middle, to), (from, middle)]);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.mark_refused(rows, &refused).await
    }

    async fn write_some(&self, rows: &RowStatement<'_>, from: usize, to: usize) -> Result<(), PublishError> {
        let parts: Vec<&[Option<&str>]> = rows.arrays.iter().map(|array| &array[from..to]).collect();
        let params: Vec<Param<'_>> = parts
            .iter()
            .map(|part| (part as &(dyn ToSql + Sync), Type::TEXT_ARRAY))
            .chain(rows.fixed.iter().map(|(value, of_type)| (*value, of_type.clone())))
            .collect();
        self.execute(rows.doing, &rows.statement, &params).await.map(drop)
    }

    /// Lists the refused rows, and removes the others from the list.
    async fn mark_refused(
        &self,
        rows: &RowStatement<'_>,
        refused: &BTreeMap<&str, String>,
    ) -> Result<(), PublishError> {
        if rows.names.is_empty() || refused.is_empty() && !self.has_refused.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.has_refused.store(true, Ordering::Relaxed);
        let table: Param<'_> = (&rows.table, Type::TEXT);
        let delete = sql::forget_refused(&self.schema, "row_name = ANY($2::text[])");
        self.execute(NOTING, &delete, &[table.clone(), (&rows.names, Type::TEXT_ARRAY)]).await?;
        let (names, reasons): (Vec<&str>, Vec<&str>) = refused.iter().map(|(name, why)| (*name, why.as_str())).unzip();
        if !names.is_empty() {
            let insert = sql::private(&self.schema, sql::INSERT_REFUSED);
            self.execute(NOTING, &insert, &[table, (&names, Type::TEXT_ARRAY), (&reasons, Type::TEXT_ARRAY)]).await?;
        }
        Ok(())
    }

    /// Removes a table's rows from the list, because all its rows are about to be written.
    pub(super) async fn forget_refused(&self, table: &str) -> Result<(), PublishError> {
        self.execute(NOTING, &sql::forget_refused(&self.schema, "true"), &[(&table, Type::TEXT)]).await.map(drop)
    }

    /// The number of rows that are left out, and the first of them.
    pub(super) async fn refused(&self) -> Result<(u64, Vec<RefusedRow>), PublishError> {
        let rows = self.query(NOTING, &sql::select_refused(&self.schema, NAMED), &[]).await?;
        let total = rows.first().and_then(|row| row.last()?.as_ref()?.parse().ok()).unwrap_or(0);
        let named = rows.into_iter().filter_map(|row| {
            let [table, name, reason, _] = <[Option<String>; 4]>::try_from(row).ok()?;
            Some(RefusedRow { table: table?, name: name?, reason: reason? })
        });
        Ok((total, named.collect()))
    }
}

/// The name of a row: that of its record, because a record's rows are written and deleted together, or its key.
fn row_name(table: &PublishedTable, row: &PgRow) -> String {
    let key = match table.name {
        "custom_multi_values" => &table.key[..2],
        _ => table.key,
    };
    let texts: Vec<&str> = key.iter().filter_map(|column| row.get(table.place(column)?)?.as_deref()).collect();
    texts.join(" ")
}

/// The name of the rows of a record in a table for both objects.
pub(super) fn record_name(object: &str, id: &str) -> String {
    format!("{object} {id}")
}
