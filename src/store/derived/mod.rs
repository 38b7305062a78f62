//! Data derived from rows and definitions: views, full-text search, secondary indexes and the data dictionary.

pub(super) mod build;
mod dictionary;
pub(super) mod indexes;
pub(super) mod options;
pub(super) mod search;
pub(super) mod search_document;
pub(super) mod views;
