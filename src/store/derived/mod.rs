//! What follows from rows and definitions: views, full-text search, secondary indexes and the data dictionary.

pub mod build;
mod dictionary;
pub mod document;
mod history_views;
pub mod indexes;
pub mod search;
pub mod view_columns;
pub mod views;
