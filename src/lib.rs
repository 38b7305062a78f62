//! crm-mirror keeps an exact, queryable copy of a CRM workspace in one SQLite file.
//!
//! # The map
//! - [`model`]: what the service and the mirror talk about. The field catalogue names every standard field once; columns,
//!   upserts, dictionary, query checks and the sandbox's rules derive from it.
//! - [`api`]: the service as a client sees it: queries that cannot break a limit, one metered client, pages, errors.
//! - [`budget`]: what may be spent and when to be quiet, as pure arithmetic.
//! - [`store`]: the SQLite file, and the only room that speaks SQL to it. One writer; a page is one transaction.
//! - [`sync`]: the decisions (pure) and the runs that carry them out: changes, sweeps, removals, details, audits.
//! - [`outbox`]: local edits on their way to the service.
//! - [`publish`]: the mirror's contents on their way to PostgreSQL.
//! - [`app`]: an assembled mirror that can run jobs, and what it says of itself, as data.
//! - [`daemon`]: runs on a schedule and on request, the control socket, the status page, systemd.
//! - [`sandbox`]: the whole service as a local server, for demos, tests and trying things out.
//! - [`config`] and [`cli`]: settings checked once, and a file per verb. [`exit`] is the table of exit codes, [`mod@format`] writes
//!   numbers and times as people read them.
//!
//! # How a page travels
//! A walk names a query; the client sends it once the ledger has it; the answer is decoded from its source text, so no
//! value passes through a parsed number; the writer compares each record with its row, writes what changed, and commits
//! that with the walk's checkpoint. Meanwhile the next page is on its way. Memory is bounded by two pages a walker.

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
pub mod sandbox;
pub mod store;
pub mod sync;
