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

mod beside;
mod columns;
mod confirm;
mod derived;
mod dictionary;
mod differ;
pub mod document;
mod due;
pub mod editable;
mod edits;
pub mod error;
pub mod feed;
pub mod functions;
pub mod guide;
mod held;
mod history;
pub mod history_report;
mod indexes;
pub mod migrate;
mod nominations;
pub mod open;
mod outbox;
pub mod outbox_report;
mod ranges;
mod refill;
pub mod report;
pub mod runs;
mod search;
pub mod shape;
mod team;
pub mod tx;
pub mod upsert;
mod views;
pub mod wal;
mod writer;

pub use beside::write_beside;
pub use columns::{MOST_COLUMNS, Redefined};
pub use differ::{Compared, FieldDifference};
pub use error::StoreError;
pub use indexes::MOST_INDEXED;
pub use outbox::{EditStep, OpenEdits};
pub use ranges::{Part, Stretch};
pub use runs::{RunOutcome, Tally};
pub use tx::MirrorTx;
pub use upsert::{Applied, Phase};
pub use writer::{KillAfter, Store};
