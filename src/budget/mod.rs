//! What the mirror may spend, and when it must wait: pure arithmetic on request units and time.
//!
//! A [`Ledger`] counts request units per window; a [`Hold`] records how long the service asked to wait. The caller
//! stores both before each request, so a killed process never under-counts and the next one keeps the hold.

mod ledger;
mod poll_interval;
mod rate_limit_hold;
mod reserve;

pub use ledger::{Ledger, Limits};
pub use poll_interval::{MAX_POLL, PollingBudget, decide_poll};
pub use rate_limit_hold::{Hold, LONGEST_HOLD};
pub use reserve::{forecast, kept_with_edits, most_reserved, reserve};
