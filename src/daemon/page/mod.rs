//! The status page: what a person wants to see of the mirror, in a browser, live; and what monitoring reads.
//!
//! `keeper` serves it where the configuration wants it and tries again where that fails; `answers` is what it answers,
//! `public` what it leaves out, `host_check` and `limited_listener` decide to whom.
//!
//! # Always true
//! - It is served on loopback, and beyond it only to networks that the configuration names; nowhere unless it is asked for.
//! - It is for looking: GET and HEAD and nothing else, and no request changes anything.
//! - Every user of this machine may look. So no value of a record and no text of the service leaves here, only numbers,
//!   ids and names of columns; reasons of failures and what a verification found are for the control socket alone.
//! - The page loads nothing from elsewhere, runs no script but its own, and puts what it shows into text, never into
//!   markup; the headers hold it to that.

mod answers;
mod host_check;
mod keeper;
mod limited_listener;
mod parts;
mod public;

pub use keeper::PageKeeper;
