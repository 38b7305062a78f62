//! Publishes the mirror to PostgreSQL.
//!
//! [`publish`] runs once: it brings the tables of a schema in line with the mirror's columns, loads new tables, and
//! otherwise sends the records that changed, the feed's new entries, and whole small tables. It is state-based: it
//! sends what a record is now, not what happened to it, so every step can be repeated.
//!
//! # Invariants
//! - The cursor, a generation number and the rows of a batch are one transaction, so each entry of the feed arrives
//!   exactly once, whatever is killed. A publisher that was overtaken by another is refused by the generation number.
//! - A row that the database refuses is left out and listed in the same transaction, and stops no other row.
//! - Columns precede their rows: DDL is idempotent and computed from the existing columns.
//! - A table that is not known to be equal is owed, in the state that is stored by the transaction that makes it so. Only a load
//!   ends that: it writes, row by row if the database refuses one, what differs.
//! - The DDL of a table is one transaction. A table is replaced by a new one only if it cannot be had by adding and renaming
//!   columns, or if a person asks for it: other roles' views and references stay with the old one. Of any other table that is
//!   loaded, the rows that differ are written. A load is one transaction, so readers see the old rows or the new ones. What
//!   the database refuses of one table stops no other.
//! - Settings are changed for a transaction only, a lock is waited for two seconds, and an answer for five minutes.
//! - The mirror is read in short snapshots, and nothing is awaited while one is open.

mod background_task;
mod compare;
mod database;
mod ddl;
mod error;
mod follow;
mod load;
mod row;
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
pub use error::{DatabaseFailure, PublishError};
pub use run::{BlockedTable, Check, PublishReport, PublishSettings, publish};
pub use stream::{MirrorStream, StreamCursor};
pub use target::PublishUrl;
