//! Compares the mirror with the service: the workspace, missing records, superfluous records, and removals.

pub(super) mod accepted_workspace;
mod audit;
mod compare;
mod counts;
pub mod findings;
pub mod identity;
pub(super) mod removal_gate;
pub mod undecided_removals;
mod verify;
