//! Rows of records: writing them, removing them, and comparing them with what the service returns.

mod apply_patch_answer;
pub(super) mod compare;
pub(super) mod counts;
pub(super) mod doubts;
pub(super) mod due;
pub(super) mod erase;
mod exclude;
pub(super) mod feed_entries;
pub(in crate::store) mod former_rows;
pub(super) mod history;
pub(super) mod lacking_keys;
pub(super) mod new_rows;
mod nominations;
mod omitted_values;
pub(super) mod ranges;
mod recent_removals;
pub(super) mod refused_removals;
pub(super) mod removals;
mod retention;
pub(super) mod shape;
mod team;
pub(super) mod uncounted_ranges;
pub mod unread;
pub(super) mod upsert;
mod versions;
pub(super) mod whole_list_doubts;
mod workspace;
