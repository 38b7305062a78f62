//! crm-mirror keeps an exact, queryable copy of a CRM workspace in one SQLite file.
//!
//! # Modules
//! - [`model`]: the vocabulary of the service and the mirror. The field catalogue lists every standard field once;
//!   columns, upserts, dictionary, query checks and the sandbox's rules derive from it.
//! - [`api`]: the service as a client sees it: queries that cannot break a limit, one metered client, pages, errors.
//! - [`budget`]: what may be spent, and how long to wait, as pure arithmetic.
//! - [`store`]: the SQLite file; only this room executes SQL on it. One writer; a page is one transaction.
//! - [`sync`]: the decisions (pure) and the runs that execute them: changes, sweeps, removals, details, audits.
//! - [`outbox`]: sends local edits to the service.
//! - [`publish`]: publishes the mirror to PostgreSQL.
//! - [`app`]: an assembled mirror that can run jobs, and its status as data.
//! - [`daemon`]: runs on a schedule and on request, the control socket, the status page, systemd.
//! - [`sandbox`]: the whole service as a local server, for demos, tests and development.
//! - [`config`] and [`cli`]: settings validated once, and a file per verb. [`exit`] is the table of exit codes,
//!   [`mod@format`] formats numbers and times.
//!
//! # The flow of a page
//! A walk names a query; the client sends it once the ledger has recorded the request; the answer is decoded from its
//! source text, so no value passes through a parsed number; the writer compares each record with its row, writes what
//! changed, and commits that with the walk's checkpoint. Meanwhile the next page is fetched. Memory is bounded by two
//! pages per walk.

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
