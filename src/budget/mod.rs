//! What the mirror may spend, and when it must wait: pure arithmetic on request units and time.
//!
//! A [`Ledger`] counts request units per window and keeps back what runs still to come will need; a [`Hold`] remembers
//! how long the service asked to wait. Both are small values that the caller keeps beyond a kill, so a killed process
//! never under-counts and the next process keeps the hold.

mod hold;
mod ledger;
mod reserve;

pub use hold::Hold;
pub use ledger::{Charge, Ledger, Limits};
pub use reserve::{forecast, reserve};
