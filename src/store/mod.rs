//! The mirror's file: one SQLite database that equals the service, and the only room that speaks SQL to it.
//!
//! [`Store`] sends pieces of work to one writer thread; each is one transaction on a [`MirrorTx`]. The tables stand in
//! `schema/`; the columns of custom fields, the two `_full` views and the data dictionary follow the definitions and
//! are remade in the transaction that changes them.
//!
//! # Always true
//! - A page's rows and its checkpoint are one transaction: a kill repeats at most one page.
//! - An unchanged record is compared and not written.
//! - A list never clears what only a detail carries; an older answer never overwrites a newer one.
//! - Any SQLite from 3.37 on can read the file: no newer syntax stands in the schema.

mod custom;
mod derived;
pub mod error;
mod file;
mod outbox;
mod pending;
pub mod publishing;
mod read;
pub mod reader;
mod records;
mod runs;
pub mod shapes;
pub mod state;
pub mod tx;
mod writer;

pub use custom::columns::{MOST_COLUMNS, Redefined};
pub use derived::indexes::MOST_INDEXED;
pub use error::StoreError;
pub use file::{backup, lock, migrate, open, wal};
pub use outbox::beside::write_beside;
pub use outbox::steps::EditStep;
pub use outbox::{delays, editable, queue, report as outbox_report};
pub use read::{cursor, feed, functions, guide, history as history_report, record, report};
pub use reader::{ReadTx, Reader};
pub use records::compare::{Compared, FieldDifference};
pub use records::erase::{ErasedCounts, Erasure};
pub use records::ranges::{Part, Stretch};
pub use records::removals::{ConfirmedRemovals, RemovalDecision, RemovalGuard, RemovalShare};
pub use records::upsert::{Applied, Phase};
pub use runs::entry::{RunOutcome, Tally};
pub use state::StateKey;
pub use tx::MirrorTx;
pub use writer::{CommitHook, Store, StoreOptions};
