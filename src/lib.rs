//! crm-mirror keeps an exact, queryable copy of a CRM workspace in one SQLite file.

pub mod api;
pub mod cli;
pub mod config;
pub mod model;
