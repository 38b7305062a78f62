//! The mirror's file: one SQLite database that equals the service. Only this room executes SQL on it.
//!
//! [`Store`] sends closures to one writer thread; each is one transaction on a [`MirrorTx`]. The tables are defined in
//! `schema/`; the columns of custom fields, the two `_full` views and the data dictionary follow the definitions and
//! are rebuilt in the transaction that changes them.
//!
//! # Invariants
//! - A page's rows and its checkpoint are one transaction: a kill repeats at most one page.
//! - SQLite 3.37 and newer can read the file: the schema uses no newer syntax.

mod checkpoints;
mod claims;
mod custom;
mod derived;
pub mod error;
mod file;
mod outbox;
mod program_objects;
pub mod publishing;
mod read;
pub mod reader;
mod records;
mod runs;
pub mod state_keys;
mod statements;
pub mod table_shapes;
pub mod tx;
mod user_objects;
mod writer;

pub use checkpoints::{Checkpoint, KnownChanges, ReadOf, uncovered};
pub use claims::{Completeness, Goal, Goals, LastRead};
pub use custom::columns::MAX_COLUMNS;
pub use custom::rows::{DefinitionChanges, FieldToBackFill, Redefined};
pub use derived::indexes::MAX_INDEXED;
pub use derived::options::ViewOptions;
pub use error::{Result, StoreError};
pub use file::lock::FileId;
pub use file::{backup, beside, lock, migrate, open, remove_database, wal};
pub use outbox::report::Edit;
pub use outbox::steps::{EditStep, RECORD_REMOVED, record_removed};
pub use outbox::{delays, editable, queue, report as outbox_report};
pub use publishing::queue::{CopyDifference, CopyDifferenceKind, CopyProof, PublishLag, PublishProgress, RefusedRow};
pub use publishing::source::{ChangedRecord, Moment, PageQuery, SourceRow, is_last_page};
pub use read::feed::{ColumnEvent, FeedSpan};
pub use read::guide::{ColumnLine, TableLine};
pub use read::report::RecordedRun;
pub use read::untrusted::WithheldColumns;
pub use read::watchdog::Watchdog;
pub use read::{feed, functions, guide, record, report, watchdog};
pub use reader::{KeptReader, ReadTx, Reader};
pub use records::doubts::DueDoubts;
pub use records::due_details::{DueDetail, EXAMINED_AT_ONCE};
pub use records::history::{ErasedCounts, Erasure};
pub use records::ranges::UnprovenRanges;
pub use records::removals::{ConfirmedRemovals, RefusedRemovals, RemovalDecision, RemovalGuard, RemovalShare};
pub use records::unread;
pub use records::upsert::Applied;
pub use records::versions::{Compared, FieldDifference};
pub use records::whole_list_doubts::{ListedItems, WholeListKind};
pub use runs::{RunOutcome, Tally};
pub use state_keys::StateKey;
pub(in crate::store) use statements::{Statements, StoredTime, fits_a_list, json, json_at, json_list, literal, quoted};
pub use table_shapes::POINTERS;
pub use tx::{ClaimsTx, CustomTx, DerivedTx, EditsTx, FeedTx, KnowledgeTx, MirrorTx, RecordsTx, UnreadTx};
pub use user_objects::report::{self as people_report, BrokenObject};
pub use writer::{CommitHook, Store, StoreOptions, write_beside};

pub(in crate::store) use custom::rows::{physical, shapes_of};
pub(in crate::store) use derived::options::BuiltFrom;
pub(in crate::store) use derived::search_document::Document;
pub(in crate::store) use file::lock::Lock;
pub(in crate::store) use outbox::hold_edits::hold_in_a_copy;
pub(in crate::store) use outbox::{OPEN, accepted_values, known_values};
pub(in crate::store) use program_objects::{GUARDED_TABLES, history_view};
pub(in crate::store) use records::shape::{Column, Shape, Source};
pub(in crate::store) use records::unread::Shows;
pub(in crate::store) use records::versions::Version;
pub(in crate::store) use state_keys::read_state;
pub(in crate::store) use table_shapes::{Pointer, Shapes, ViewColumn};
pub(in crate::store) use user_objects::files::AppliedFiles;
pub(in crate::store) use user_objects::objects;
