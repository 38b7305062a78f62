//! The mirror's contents on their way to PostgreSQL, or to an engine that speaks its protocol.
//!
//! [`publish`] runs once: it brings the tables of a schema in line with the mirror's columns, loads them where they are
//! new, and otherwise sends the records that changed, the feed's new entries, and whole small tables. It is state-based:
//! what a record is now is sent, not what happened to it, so every step may be repeated.
//!
//! | file | what it is for |
//! |---|---|
//! | `tables`, `exclude` | what is published: tables, columns and types, from the data dictionary (pure) |
//! | `value`, `json`, `row` | a value of the mirror as PostgreSQL can store it (pure) |
//! | `ddl`, `sql` | the steps from the columns that are there to those that should be, and statements (pure) |
//! | `state` | what the other database knows about itself: the cursor, and what it was made from (pure) |
//! | `target`, `database` | the URL, TLS, the connection, and what is sent over it |
//! | `mirror`, `schema` | the mirror read off the runtime's threads; the planned steps carried out |
//! | `stream` | the same as JSON lines, for followers of any kind |
//! | `keeper` | the daemon's task that publishes what the runs change |
//! | `load`, `follow`, `run` | a whole load, a batch of changes, and the order of both |
//!
//! # Always true
//! - The cursor, a generation number and the rows of a batch are one transaction, so that each entry of the feed arrives
//!   exactly once, whatever is killed. A publisher that another one overtook is refused by the generation number.
//! - Columns precede their rows: DDL is idempotent and computed from the columns that are there, and the records whose
//!   values a new column needs are entered into `changed_records` before it is made.
//! - Only SQL that CockroachDB, YugabyteDB and Citus accept too: no triggers, no extensions, no types of its own.
//! - The mirror is read in short snapshots, and nothing is awaited while one is open.

mod database;
mod ddl;
mod error;
mod exclude;
mod follow;
mod json;
mod keeper;
mod load;
mod mirror;
mod row;
mod run;
mod schema;
mod sql;
mod state;
mod stream;
mod tables;
mod target;
mod value;

pub use error::PublishError;
pub use keeper::{PublishKeeper, PublishPlan};
pub use run::{PublishReport, PublishSettings, probe, publish};
pub use stream::{MirrorStream, StreamCursor, StreamError};
pub use target::PublishUrl;
