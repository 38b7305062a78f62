//! User interface: tables and documents on stdout, progress and notes on stderr, and the texts of status and forecasts.

pub mod cost;
pub mod output;
pub mod progress;
pub mod rows;
pub mod status_text;
