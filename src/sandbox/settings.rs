//! The behaviour of the sandbox where the reference is open, or where a test needs something else.

use std::time::Duration;

use crate::model::Ru;

use super::fault::DateHeader;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CursorKind {
    /// Contains the last row: rows are neither skipped nor repeated when others move.
    #[default]
    Keyset,
    /// Counts rows: rows can be skipped and repeated.
    Offset,
}

/// [`SandboxSettings::default`] is a well-behaved service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    pub tenant: String,
    pub cursors: CursorKind,
    /// The cost of a failed request; the reference does not specify it.
    pub failed_ru: Ru,
    pub custom_fields_editable: bool,
    /// The maximum number of rows of a page, whatever the `limit`: small pages make walks of many pages.
    pub page_cap: Option<usize>,
    /// Whether the limit of 320 characters applies to a whole list of values rather than to each; the reference does
    /// not say.
    pub limits_whole_lists: bool,
    pub gzip: bool,
    pub latency: Duration,
    pub log_limit: Option<usize>,
    pub date_header: DateHeader,
}

impl Default for SandboxSettings {
    fn default() -> SandboxSettings {
        SandboxSettings {
            tenant: "tenant-1".to_string(),
            cursors: CursorKind::Keyset,
            failed_ru: Ru::ZERO,
            custom_fields_editable: true,
            page_cap: None,
            limits_whole_lists: false,
            gzip: true,
            latency: Duration::ZERO,
            log_limit: None,
            date_header: DateHeader::Clock,
        }
    }
}
