//! Read-only queries: status, history, the change feed and the data dictionary.

pub mod feed;
pub mod functions;
pub mod guide;
pub mod record;
pub mod report;
pub(in crate::store) mod untrusted;
pub mod watchdog;
