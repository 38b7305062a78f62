//! The file itself: opening it, the lock beside it, its schema version, its write-ahead log, and copies of it.

pub mod backup;
pub(super) mod file_id;
pub mod lock;
pub mod migrate;
mod mirror_id;
pub mod open;
pub(super) mod original;
pub mod wal;
