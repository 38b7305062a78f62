//! crm-mirror keeps an exact, queryable copy of a CRM workspace in one SQLite file.
//!
//! `docs/architecture.md` says what is in each module, which others it uses, and what always holds.

#![warn(unreachable_pub)]

pub mod api;
pub mod app;
pub mod budget;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod error_chain;
pub mod exit;
pub mod format;
pub mod model;
pub mod outbox;
pub mod publish;
pub mod regular_file;
pub mod sandbox;
pub mod store;
pub mod sync;
