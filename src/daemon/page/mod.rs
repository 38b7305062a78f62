//! The status page: a live view of the mirror for browsers, and endpoints for monitoring.
//!
//! `port` serves it at the configured address and retries failures; `answers` handles requests and removes what is not
//! public, `access` decides who may connect.
//!
//! # Invariants
//! - It is off by default. It is served on loopback, and beyond it only to the configured networks.
//! - It is read-only: only GET and HEAD are accepted, and no request changes anything.
//! - Every user of this machine can open it. So it contains no value of a record and no text of the service, only
//!   numbers, ids and column names; reasons of failures and findings of verifications are on the control socket only.
//! - The page loads nothing from elsewhere, runs no script but its own, and inserts data as text, never as markup; its
//!   headers enforce that.

mod access;
mod answers;
mod port;

pub(super) use port::PageKeeper;
