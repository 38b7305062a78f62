//! The connection to the target database: statements, rows, and what its catalogue says about the published tables.
//!
//! The query of the catalogue names every table with its schema and returns texts, so that no setting of the session or of
//! the role changes what it returns.
//!
//! A row that the database refuses stops no other: a statement that fails is repeated with half of its rows, down to one, and
//! the state lists the rows that were left out, until they are written or deleted, or the table is loaded. The error of a
//! statement that fails without any row names its table: the others go on without it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::SinkExt as _;
use hyper::body::Bytes;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::PublishError;
use super::ddl::{ExistingTable, LEFT_BEHIND};
use super::row::{PgRow, copy_line};
use super::sql::{self, STATE_TABLE};
use super::state::TargetState;
use super::tables::{self, PublishedTable};
use super::target::PublishUrl;
use crate::store::publishing::source::PAGE;

/// A parameter and its type: statements are sent unnamed, so that a connection pooler can be used.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// What failed, in a message: the server says the rest.
const PUBLISHING: &str = "publish";

/// How long the database may take for one statement, or to take the next rows.
const ANSWER: Duration = Duration::from_secs(300);

const TABLES: &str = include_str!("tables.sql");

pub(super) struct Database {
    client: Client,
    connection: JoinHandle<()>,
    pub(super) place: String,
    pub(super) schema: String,
    /// Whether deferred constraints are checked by each statement, so that one row's violation does not fail the commit.
    checks_at_once: AtomicBool,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Database {
    pub(super) async fn connect(url: &PublishUrl, schema: &str) -> Result<Database, PublishError> {
        let (client, connection, place) = url.connect().await?;
        let (schema, checks_at_once) = (schema.into(), AtomicBool::new(false));
        let database = Database { client, connection, place, schema, checks_at_once };
        let encoding = database.query("SHOW server_encoding", &[]).await?;
        match encoding.into_iter().flatten().flatten().next() {
            Some(encoding) if encoding != "UTF8" => {
                Err(PublishError::Encoding { place: database.place.clone(), encoding })
            }
            _ => Ok(database),
        }
    }

    /// Waits for an answer, and gives up the connection if there is none: what follows fails at once.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PublishError> {
        match tokio::time::timeout(ANSWER, answer).await {
            Ok(answer) => answer.map_err(|error| PublishError::of(PUBLISHING, &self.place, &error)),
            Err(_) => {
                self.connection.abort();
                let why = format!("no answer within {} s", ANSWER.as_secs());
                Err(PublishError::no_answer(PUBLISHING, &self.place, &why))
            }
        }
    }

    pub(super) async fn run(&self, statements: &str) -> Result<(), PublishError> {
        self.in_time(self.client.batch_execute(statements)).await
    }

    pub(super) async fn execute(&self, statement: &str, params: &[Param<'_>]) -> Result<u64, PublishError> {
        self.in_time(self.client.execute_typed(statement, params)).await
    }

    /// Every column of every row, each of type `text`.
    pub(super) async fn query(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<PgRow>, PublishError> {
        let rows = self.in_time(self.client.query_typed(statement, params)).await?;
        let read = |row: &Row| (0..row.len()).map(|n| row.try_get(n)).collect::<Result<PgRow, _>>();
        let rows = rows.iter().map(read).collect::<Result<_, _>>();
        rows.map_err(|error| PublishError::of(PUBLISHING, &self.place, &error))
    }

    pub(super) async fn prepare(&self) -> Result<(), PublishError> {
        let named = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = $1";
        if self.query(named, &[(&self.schema, Type::TEXT)]).await?.is_empty() {
            self.create(&format!("CREATE SCHEMA IF NOT EXISTS {}", sql::ident(&self.schema))).await?;
        }
        let there = self.tables().await?;
        if there.contains_key(STATE_TABLE) {
            return Ok(());
        }
        // Without the private table, some of these names belong to another program.
        match there.into_keys().find(|name| tables::names().contains(name.as_str())) {
            Some(table) => Err(PublishError::ForeignTable { schema: self.schema.clone(), table }),
            None => self.create(&sql::private(&self.schema, sql::CREATE_STATE)).await,
        }
    }

    /// Another publisher may create the same at this moment: `IF NOT EXISTS` does not see it.
    async fn create(&self, statement: &str) -> Result<(), PublishError> {
        self.transaction(None, statement).await.map_err(|error| match error.code() {
            Some(code) if [SqlState::UNIQUE_VIOLATION, SqlState::LOCK_NOT_AVAILABLE].contains(code) => {
                PublishError::Busy { schema: self.schema.clone() }
            }
            _ => error,
        })
    }

    pub(super) async fn state(&self) -> Result<TargetState, PublishError> {
        let rows = self.query(&sql::private(&self.schema, sql::SELECT_STATE), &[]).await?;
        let [cursor, generation, details] =
            rows.into_iter().next().and_then(|row| row.try_into().ok()).unwrap_or_default();
        let generation = generation.and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(TargetState::read(&cursor.unwrap_or_default(), generation, &details.unwrap_or_default()))
    }

    /// Begins a transaction and moves the cursor in it; fails if another publisher moved it or is in a transaction.
    pub(super) async fn begin(&self, state: &mut TargetState) -> Result<(), PublishError> {
        self.start().await?;
        if self.checks_at_once.load(Ordering::Relaxed) {
            self.run("SET CONSTRAINTS ALL IMMEDIATE").await?;
        }
        self.advance(state).await
    }

    pub(super) async fn advance(&self, state: &mut TargetState) -> Result<(), PublishError> {
        let (cursor, details) = (state.cursor_text(), serde_json::to_string(state).unwrap_or_default());
        let params: [Param<'_>; 3] = [(&cursor, Type::TEXT), (&details, Type::TEXT), (&state.generation, Type::INT8)];
        match self.execute(&sql::private(&self.schema, sql::ADVANCE), &params).await {
            Ok(1) => {
                state.generation += 1;
                Ok(())
            }
            Err(error) if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(error),
            _ => Err(PublishError::Busy { schema: self.schema.clone() }),
        }
    }

    /// Begins a transaction. A lock that somebody holds is waited for two seconds, so that readers do not queue behind
    /// this connection. A load takes as long as it takes: cut short, it would begin again for ever. What others wrote until a
    /// lock was given is seen, and a publisher that stops keeps it for five minutes. The settings end with the transaction,
    /// because a pooler gives the connection to others.
    pub(super) async fn start(&self) -> Result<(), PublishError> {
        let settings = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = 0; \
                        SET LOCAL idle_in_transaction_session_timeout = '5min'";
        self.run(&format!("BEGIN ISOLATION LEVEL READ COMMITTED; {settings}")).await
    }

    /// Executes statements in a transaction of their own, which stores the `next` state if there is one.
    pub(super) async fn transaction(
        &self,
        next: Option<&mut TargetState>,
        statements: &str,
    ) -> Result<(), PublishError> {
        self.start().await?;
        let advanced = match next {
            Some(next) => self.advance(next).await,
            None => Ok(()),
        };
        let done = if advanced.is_ok() { self.run(statements).await } else { advanced };
        match done {
            Ok(()) => self.run("COMMIT").await.map_err(PublishError::of_statement),
            Err(error) => Err(self.give_up(error).await),
        }
    }

    /// Does something in a transaction that goes on if the database refuses it. What is only unavailable is an error, because
    /// it is possible later.
    pub(super) async fn attempt(
        &self,
        work: impl Future<Output = Result<(), PublishError>>,
    ) -> Result<Result<(), PublishError>, PublishError> {
        self.run("SAVEPOINT crm_mirror_try").await?;
        let done = work.await;
        if done.is_err() && self.run("ROLLBACK TO SAVEPOINT crm_mirror_try").await.is_err() {
            // The connection is lost.
            return done.map(Ok);
        }
        self.run("RELEASE SAVEPOINT crm_mirror_try").await?;
        match done.map_err(PublishError::of_statement) {
            Err(error) if !error.is_refusal() => Err(error),
            tried => Ok(tried),
        }
    }

    /// Ends a transaction that failed. If that works, the session answers, and the error is one of a statement.
    pub(super) async fn give_up(&self, error: PublishError) -> PublishError {
        if self.run("ROLLBACK").await.is_ok() { error.of_statement() } else { error }
    }

    /// Makes the next transactions check deferred constraints at once. Returns whether that is new.
    pub(super) fn check_at_once(&self) -> bool {
        !self.checks_at_once.swap(true, Ordering::Relaxed)
    }

    /// Copies rows; returns whether the database takes them: all or none, and none of a table with row-level security.
    pub(super) async fn copy(&self, table: &PublishedTable, name: &str, rows: &[PgRow]) -> Result<bool, PublishError> {
        let copied = self.attempt(async {
            let statement = sql::copy_in(&self.schema, table, name);
            let mut sink = pin!(self.in_time(self.client.copy_in(&statement)).await?);
            let mut lines = String::new();
            rows.iter().for_each(|row| copy_line(row, &mut lines));
            self.in_time(sink.send(Bytes::from(lines))).await?;
            self.in_time(sink.finish()).await.map(drop)
        });
        Ok(copied.await?.is_ok())
    }

    pub(super) async fn tables(&self) -> Result<BTreeMap<String, ExistingTable>, PublishError> {
        let params: [Param<'_>; 2] = [(&self.schema, Type::TEXT), (&LEFT_BEHIND, Type::TEXT)];
        let rows = self.query(TABLES, &params).await?;
        let table = |row: PgRow| {
            let [name, table] = <[Option<String>; 2]>::try_from(row).ok()?;
            Some((name?, serde_json::from_str(&table?).ok()?))
        };
        Ok(rows.into_iter().filter_map(table).collect())
    }
}

/// What was done of some rows, by the first of each part, and the rows that are the reason for an error.
type InParts<T> = (Vec<(usize, T)>, Vec<(usize, PublishError)>);

/// Does something for so many rows; if a row is the reason for an error, for each half of them, down to one row.
pub(super) async fn in_parts<T, W: Future<Output = Result<T, PublishError>>>(
    count: usize,
    work: impl Fn(Range<usize>) -> W,
) -> Result<InParts<T>, PublishError> {
    let (mut done, mut refused, mut waiting) = (Vec::new(), Vec::new(), Vec::from_iter(Some(0..count)));
    while let Some(part) = waiting.pop().filter(|_| count > 0) {
        let (start, middle, end) = (part.start, part.start + part.len() / 2, part.end);
        match work(part).await {
            Ok(found) => done.push((start, found)),
            Err(error) if error.is_of_rows() && middle == start => refused.push((start, error)),
            Err(error) if error.is_of_rows() => waiting.extend([middle..end, start..middle]),
            Err(error) => return Err(error),
        }
    }
    Ok((done, refused))
}

impl Database {
    /// Inserts rows, or replaces those with the same key if they differ, in the table itself or its shadow `name`.
    pub(super) async fn upsert(
        &self,
        next: &mut TargetState,
        table: &PublishedTable,
        name: &str,
        rows: &[PgRow],
    ) -> Result<(), PublishError> {
        let of_column = |place: usize| rows.iter().map(|row| row[place].as_deref()).collect();
        let arrays: Vec<_> = (0..table.columns.len()).map(of_column).collect();
        let names: Vec<String> = rows.iter().map(|row| row_name(table, row)).collect();
        self.write(next, table.name, &sql::upsert(&self.schema, table, name), &names, &arrays).await
    }

    /// Reads the keys of the next rows after one, and the key to go on after; `None` after the last page.
    pub(super) async fn page_of_keys(
        &self,
        table: &PublishedTable,
        after: Option<&[String]>,
    ) -> Result<(Vec<Vec<String>>, Option<Vec<String>>), PublishError> {
        let statement = sql::page_of_keys(&self.schema, table, after.is_some(), PAGE);
        let from: Vec<Param<'_>> = after.into_iter().flatten().map(|text| (text as _, Type::TEXT)).collect();
        let page = self.query(&statement, &from).await?;
        let keys: Vec<Vec<String>> = page.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
        let next = keys.last().filter(|_| keys.len() == PAGE).cloned();
        Ok((keys, next))
    }

    /// Deletes the rows with these values of some columns: the key, or the object and the id of a record.
    pub(super) async fn delete_keys(
        &self,
        next: &mut TargetState,
        table: &PublishedTable,
        columns: &[&str],
        keys: &[Vec<String>],
    ) -> Result<(), PublishError> {
        let of_column = |place: usize| keys.iter().map(|key| Some(key[place].as_str())).collect();
        let arrays: Vec<_> = (0..columns.len()).map(of_column).collect();
        // As `row_name` has it.
        let named = if table.name == "custom_multi_values" { 2 } else { columns.len() };
        let names: Vec<String> = keys.iter().map(|key| key[..named].join(" ")).collect();
        self.write(next, table.name, &sql::delete_keys(&self.schema, table, columns), &names, &arrays).await
    }

    /// Executes a statement for any rows of a table. If the database refuses one of them, the table is owed.
    pub(super) async fn write_any(
        &self,
        next: &mut TargetState,
        table: &'static str,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<(), PublishError> {
        let written = self.patiently(|| async { self.execute(statement, params).await.map(drop) });
        match written.await? {
            Err(error) if error.is_of_rows() => next.owed.insert(table.into()),
            done => return done.map_err(|error| error.of_table(table)),
        };
        Ok(())
    }

    /// Executes a statement, whose parameters are arrays with an element for each row. Lists the rows that the database
    /// refuses, by their names, and removes the others from the list. Their table is owed: they may refer to what is written
    /// later.
    pub(super) async fn write(
        &self,
        next: &mut TargetState,
        table: &'static str,
        statement: &str,
        names: &[String],
        arrays: &[Vec<Option<&str>>],
    ) -> Result<(), PublishError> {
        let write_part = |part: Range<usize>| async move {
            let arrays: Vec<&[Option<&str>]> = arrays.iter().map(|array| &array[part.clone()]).collect();
            let params = arrays.iter().map(|array| (array as &(dyn ToSql + Sync), Type::TEXT_ARRAY));
            let params: Vec<Param<'_>> = params.collect();
            let write = || async { self.execute(statement, &params).await.map(drop) };
            self.patiently(write).await?.map_err(|error| error.of_table(table))
        };
        let (_, refused) = in_parts(names.len(), write_part).await?;
        let listed = next.refused.entry(table.into()).or_default();
        names.iter().for_each(|name| _ = listed.remove(name));
        for (place, error) in refused {
            // The rows of a record have one name.
            listed.insert(names[place].clone(), error.server_message());
            next.owed.insert(table.into());
        }
        next.refused.retain(|_, rows| !rows.is_empty());
        Ok(())
    }
}

/// The name of a row: that of its record, because a record's rows are written and deleted together, or its key.
fn row_name(table: &PublishedTable, row: &PgRow) -> String {
    let key = match table.name {
        "custom_multi_values" => &table.key[..2],
        // An entry of the history goes with the history of its record.
        "changes" => &["seq", "object_type", "record_id"],
        _ => table.key,
    };
    let texts: Vec<&str> = key.iter().filter_map(|column| row.get(table.place(column)?)?.as_deref()).collect();
    texts.join(" ")
}
