//! What is sent over a connection: statements, rows, and the questions to the catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, CopyInSink};

use super::ddl::ExistingColumn;
use super::error::PublishError;
use super::row::PgRow;
use super::sql::{self, STATE_TABLE};
use super::state::TargetState;
use super::tables::PublishedTable;
use super::target::PublishUrl;

/// A parameter and its type: statements are sent without a name, so that a pooler may stand in between.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// An open connection to the database that the mirror is published to.
pub(super) struct Database {
    client: Client,
    connection: JoinHandle<()>,
    place: String,
    pub(super) schema: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Database {
    /// Connects, and checks that the database can hold a mirror.
    pub(super) async fn connect(url: &PublishUrl, schema: &str) -> Result<Database, PublishError> {
        let (client, connection) = url.connect().await?;
        let database = Database { client, connection, place: url.place().into(), schema: schema.into() };
        // A lock that people hold is not waited for longer than their own queries would wait behind it.
        database
            .run(
                "set up the connection",
                "SET standard_conforming_strings = on; SET lock_timeout = '20s'; SET statement_timeout = '30min'",
            )
            .await?;
        let encoding = database.texts("ask for the encoding", "SHOW server_encoding", &[]).await?;
        match encoding.first() {
            Some(encoding) if !["UTF8", "UTF-8"].contains(&encoding.to_uppercase().as_str()) => {
                Err(PublishError::Encoding { place: database.place.clone(), encoding: encoding.clone() })
            }
            _ => Ok(database),
        }
    }

    fn failed(&self, doing: &'static str) -> impl Fn(tokio_postgres::Error) -> PublishError + '_ {
        move |error| PublishError::of(doing, &self.place, error)
    }

    /// Carries out statements without parameters.
    pub(super) async fn run(&self, doing: &'static str, statements: &str) -> Result<(), PublishError> {
        self.client.batch_execute(statements).await.map_err(self.failed(doing))
    }

    /// Carries out one statement. Gives the number of rows.
    pub(super) async fn execute(
        &self,
        doing: &'static str,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<u64, PublishError> {
        self.client.execute_typed(statement, params).await.map_err(self.failed(doing))
    }

    /// The first column of every row, as texts.
    async fn texts(
        &self,
        doing: &'static str,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<String>, PublishError> {
        let rows = self.client.query_typed(statement, params).await.map_err(self.failed(doing))?;
        rows.iter().map(|row| row.try_get(0).map_err(self.failed(doing))).collect()
    }

    /// Makes the schema and the private table where they are missing. A schema in which tables of these names stand
    /// without it belongs to somebody else.
    pub(super) async fn prepare(&self, tables: &BTreeSet<&str>) -> Result<(), PublishError> {
        let doing = "make the schema";
        let there = self
            .texts(
                doing,
                "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = $1",
                &[(&self.schema, Type::TEXT)],
            )
            .await?;
        if there.is_empty() {
            self.run(doing, &format!("CREATE SCHEMA IF NOT EXISTS {}", sql::ident(&self.schema))).await?;
        }
        if self.is_ours(tables).await? {
            return Ok(());
        }
        self.run(doing, &sql::create_state(&self.schema)).await
    }

    /// Whether the private table is there. Tables of these names without it belong to somebody else.
    pub(super) async fn is_ours(&self, tables: &BTreeSet<&str>) -> Result<bool, PublishError> {
        let columns = self.columns().await?;
        if columns.contains_key(STATE_TABLE) {
            return Ok(true);
        }
        match columns.keys().find(|name| tables.contains(name.as_str())) {
            Some(table) => Err(PublishError::ForeignTable { schema: self.schema.clone(), table: table.clone() }),
            None => Ok(false),
        }
    }

    /// The tables and views of the schema with their columns.
    pub(super) async fn columns(&self) -> Result<BTreeMap<String, Vec<ExistingColumn>>, PublishError> {
        let doing = "read the catalogue";
        let rows = self
            .client
            .query_typed(
                "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns
                 WHERE table_schema = $1 ORDER BY table_name, ordinal_position",
                &[(&self.schema, Type::TEXT)],
            )
            .await
            .map_err(self.failed(doing))?;
        let mut tables: BTreeMap<String, Vec<ExistingColumn>> = BTreeMap::new();
        for row in rows {
            let text = |place: usize| row.try_get::<_, String>(place).map_err(self.failed(doing));
            tables.entry(text(0)?).or_default().push(ExistingColumn { name: text(1)?, data_type: text(2)? });
        }
        Ok(tables)
    }

    /// Where the database is in the feed.
    pub(super) async fn state(&self) -> Result<TargetState, PublishError> {
        let doing = "read the cursor";
        self.run(doing, &sql::insert_state(&self.schema)).await?;
        let row =
            self.client.query_typed_one(&sql::select_state(&self.schema), &[]).await.map_err(self.failed(doing))?;
        let text = |place: usize| row.try_get::<_, String>(place).map_err(self.failed(doing));
        let generation = row.try_get(1).map_err(self.failed(doing))?;
        Ok(TargetState::read(&text(0)?, generation, &text(2)?))
    }

    /// Begins a transaction, and moves the cursor in it: another publisher that moved it first is an error, and one that
    /// comes later waits for the end of this transaction.
    pub(super) async fn begin(&self, state: &TargetState) -> Result<(), PublishError> {
        let doing = "move the cursor";
        self.run(doing, "BEGIN").await?;
        let moved = self
            .execute(
                doing,
                &sql::advance(&self.schema),
                &[
                    (&state.cursor_text(), Type::TEXT),
                    (&state.details_text(), Type::TEXT),
                    (&state.generation, Type::INT8),
                ],
            )
            .await?;
        if moved == 1 { Ok(()) } else { Err(PublishError::Busy { schema: self.schema.clone() }) }
    }

    /// Ends the transaction.
    pub(super) async fn commit(&self) -> Result<(), PublishError> {
        self.run("commit a batch", "COMMIT").await
    }

    /// Whether a table has no row.
    pub(super) async fn is_empty(&self, table: &str) -> Result<bool, PublishError> {
        let statement = format!("SELECT 'x'::text FROM {} LIMIT 1", sql::qualified(&self.schema, table));
        Ok(self.texts("look for rows", &statement, &[]).await?.is_empty())
    }

    /// Writes rows, each of them new or in place of one with the same key.
    pub(super) async fn upsert(&self, table: &PublishedTable, rows: &[PgRow]) -> Result<(), PublishError> {
        if rows.is_empty() {
            return Ok(());
        }
        let arrays: Vec<Vec<Option<&str>>> =
            (0..table.columns.len()).map(|place| rows.iter().map(|row| row[place].as_deref()).collect()).collect();
        let params: Vec<Param<'_>> =
            arrays.iter().map(|array| (array as &(dyn ToSql + Sync), Type::TEXT_ARRAY)).collect();
        self.execute("write rows", &sql::upsert(&self.schema, table), &params).await?;
        Ok(())
    }

    /// Begins to copy rows into a table, under its own name or a shadow's.
    pub(super) async fn copy_into(&self, table: &PublishedTable, name: &str) -> Result<RowSink<'_>, PublishError> {
        let statement = sql::copy_in(&self.schema, table, name);
        let sink = self.client.copy_in(&statement).await.map_err(self.failed("copy rows"))?;
        Ok(RowSink { sink: Box::pin(sink), place: &self.place })
    }
}

/// Rows on their way into a table.
pub(super) struct RowSink<'a> {
    sink: Pin<Box<CopyInSink<Bytes>>>,
    place: &'a str,
}

impl RowSink<'_> {
    /// Sends lines in the text form of COPY; waits while the server is slow to take them.
    pub(super) async fn send(&mut self, lines: String) -> Result<(), PublishError> {
        let sent = self.sink.send(Bytes::from(lines)).await;
        sent.map_err(|error| PublishError::of("copy rows", self.place, error))
    }

    /// Ends the copy. Gives the number of rows.
    pub(super) async fn finish(mut self) -> Result<u64, PublishError> {
        self.sink.as_mut().finish().await.map_err(|error| PublishError::of("copy rows", self.place, error))
    }
}
