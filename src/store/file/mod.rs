//! The file itself: opening it, the lock beside it, its schema version, its write-ahead log, and copies of it.

pub mod backup;
pub mod lock;
pub mod migrate;
pub mod open;
pub(super) mod original;
pub mod wal;
