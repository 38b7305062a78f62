//! Publishes the mirror to PostgreSQL.
//!
//! [`publish`] runs once: it brings the tables of a schema in line with the mirror's columns, loads new tables, and
//! otherwise sends the records that changed, the feed's new entries, and whole small tables. It is state-based: it
//! sends what a record is now, not what happened to it, so every step can be repeated.
//!
//! | file | purpose |
//! |---|---|
//! | `tables` | what is published: tables, columns and types, from the data dictionary (pure) |
//! | `value`, `row` | a value of the mirror as PostgreSQL can store it (pure) |
//! | `ddl`, `sql` | the steps from the existing columns to the wanted ones, and statements (pure) |
//! | `state` | the state that the target database stores: the cursor, and what it was made from (pure) |
//! | `target`, `database` | the URL, TLS, the connection, its statements, and what the database has |
//! | `sides` | what is published of the mirror, and the database that it goes to; access to the mirror on blocking threads |
//! | `schema` | execution of the planned steps |
//! | `stream` | the same as JSON lines, for any kind of follower |
//! | `background_task` | the daemon's task that publishes changes |
//! | `rows` | writing rows, and the list of those that the database refuses |
//! | `compare` | proof that both sides are equal, and repair |
//! | `reading` | what is read to be sent: pages, and what changed after a position |
//! | `load`, `follow`, `run` | a whole load with new tables in the place of old ones, a batch of changes, and the order of both |
//!
//! # Invariants
//! - The cursor, a generation number and the rows of a batch are one transaction, so each entry of the feed arrives
//!   exactly once, whatever is killed. A publisher that was overtaken by another is refused by the generation number.
//! - A row that the database refuses is left out and listed in the same transaction, and stops no other row.
//! - Columns precede their rows: DDL is idempotent and computed from the existing columns, and the records whose values
//!   a new column needs are entered into `changed_records` before it is created.
//! - The DDL of a table is one transaction. A table that no steps lead to is replaced by a new one in the transaction of its
//!   load, so readers see the old table or the new one. What the database refuses of one table stops no other.
//! - Settings are changed for a transaction only, and a lock is waited for two seconds.
//! - The mirror is read in short snapshots, and nothing is awaited while one is open.

mod background_task;
mod bounded_stream;
mod compare;
mod database;
mod ddl;
mod error;
mod follow;
mod load;
mod reading;
mod row;
mod rows;
mod run;
mod schema;
mod sides;
mod sql;
mod state;
mod stream;
mod tables;
mod target;
mod value;

pub use background_task::{PublishPlan, keep_published};
pub use compare::Comparison;
pub use error::PublishError;
pub use run::{BlockedTable, Check, PublishReport, PublishSettings, probe, publish};
pub use stream::{MirrorStream, StreamCursor, StreamError};
pub use target::PublishUrl;
