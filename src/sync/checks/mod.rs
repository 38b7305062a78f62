//! Holding the mirror against the service: whose records these are, what is missing, what lingers, and what may be
//! removed.

mod audit;
mod compare;
mod counts;
pub mod findings;
mod identity;
pub(super) mod removals;
mod verify;
