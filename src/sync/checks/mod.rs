//! Compares the mirror with the service: the workspace, missing records, superfluous records, and removals.

pub(super) mod audit;
pub(super) mod compare;
pub(super) mod decide_missing;
pub mod findings;
pub mod identity;
pub(super) mod owed_counts;
pub mod removal_gate;
