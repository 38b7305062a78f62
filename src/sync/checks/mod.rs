//! Compares the mirror with the service: the workspace, missing records, superfluous records, and removals.

pub(super) mod audit;
pub(super) mod compare;
pub mod decide_doubts;
pub mod findings;
pub mod identity;
mod listed;
pub(super) mod lookup_by_id;
pub(super) mod owed_counts;
