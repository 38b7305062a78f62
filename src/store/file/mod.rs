//! The file itself: opening it, the lock beside it, its schema version and its write-ahead log.

pub mod lock;
pub mod migrate;
pub mod open;
pub mod wal;
