//! Rows of records: writing them, removing them, and comparing them with what the service returns.

pub mod compare;
mod confirm;
pub mod counts;
mod due;
pub mod erase;
pub mod feed_entries;
pub mod history;
mod nominations;
pub mod ranges;
pub mod removals;
pub mod shape;
mod team;
pub mod upsert;
