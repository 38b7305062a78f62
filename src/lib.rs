//! crm-mirror keeps an exact, queryable copy of a CRM workspace in one SQLite file.

pub mod api;
pub mod budget;
pub mod cli;
pub mod config;
pub mod model;
pub mod sandbox;
pub mod store;
pub mod sync;
