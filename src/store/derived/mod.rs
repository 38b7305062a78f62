//! Data derived from rows and definitions: views, full-text search, secondary indexes and the data dictionary.

pub(super) mod build;
mod dictionary;
pub(super) mod history_views;
pub(super) mod indexes;
mod lookup_views;
pub(super) mod options;
mod revision;
pub(super) mod search;
pub(super) mod search_document;
pub(super) mod search_form;
pub(super) mod view_columns;
pub(super) mod views;
