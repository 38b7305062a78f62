//! Compares the mirror with the service: the workspace, missing records, superfluous records, and removals.

pub(super) mod accepted_workspace;
mod audit;
pub(super) mod compare;
mod decide_doubts;
pub(super) mod decide_missing;
pub mod findings;
mod finish_sweep;
pub mod identity;
mod owed_counts;
pub mod removal_gate;
mod verify;
