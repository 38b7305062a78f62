//! How the pretend service behaves where the reference leaves it open, or where a test wants it otherwise.

use std::time::Duration;

use crate::model::Ru;

use super::fault::DateHeader;

/// The kind of page token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CursorKind {
    /// Names the last row: rows neither slip nor repeat when others move.
    #[default]
    Keyset,
    /// Counts rows: they may do both.
    Offset,
}

/// The switches. [`SandboxSettings::default`] is a well-behaved service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// The tenant that cursors are bound to.
    pub tenant: String,
    /// The kind of page token.
    pub cursors: CursorKind,
    /// What a failed request costs; the reference does not say.
    pub failed_ru: Ru,
    /// What a replayed PATCH costs; the reference does not say.
    pub replayed_ru: Ru,
    /// Whether the plan allows custom values to be written.
    pub custom_fields_editable: bool,
    /// The most rows of a page, whatever `limit` asks for: pages of few rows make walks of many.
    pub page_cap: Option<usize>,
    /// Whether answers are compressed for clients that accept it.
    pub gzip: bool,
    /// How long every answer takes, in real time.
    pub latency: Duration,
    /// How many requests the log keeps; all of them where there is no limit.
    pub log_limit: Option<usize>,
    /// What the `Date` header says.
    pub date_header: DateHeader,
}

impl Default for SandboxSettings {
    fn default() -> SandboxSettings {
        SandboxSettings {
            tenant: "tenant-1".to_string(),
            cursors: CursorKind::Keyset,
            failed_ru: Ru::ZERO,
            replayed_ru: Ru::PATCH,
            custom_fields_editable: true,
            page_cap: None,
            gzip: true,
            latency: Duration::ZERO,
            log_limit: None,
            date_header: DateHeader::Clock,
        }
    }
}
