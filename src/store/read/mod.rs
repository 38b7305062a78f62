//! Questions of readers: status, history, the change feed and the data dictionary, on read-only connections.

pub mod cursor;
pub mod feed;
pub mod functions;
pub mod guide;
pub mod history;
pub mod record;
pub mod report;
