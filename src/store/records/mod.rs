//! Rows of records: writing them, removing them, and comparing them with what the service returns.

mod apply_patch_answer;
pub(super) mod counts;
pub(super) mod doubts;
pub(super) mod due_details;
pub(super) mod exclude;
pub(super) mod feed_entries;
pub(super) mod history;
pub(super) mod ranges;
pub(super) mod removals;
pub(super) mod shape;
pub mod unread;
pub(super) mod upsert;
pub(super) mod versions;
pub(super) mod whole_list_doubts;
