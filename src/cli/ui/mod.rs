//! User interface: tables and documents on stdout, notes on stderr, and the texts of status and forecasts.

pub mod cost;
pub mod output;
pub mod rows;
pub mod status_text;
