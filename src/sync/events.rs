//! What a run tells while it goes: for progress bars, plain log lines and the daemon's event stream.

use crate::model::{Instant, Resource, Ru};

/// The words for pieces of work.
pub const WORK: [&str; 4] = ["changes", "full copy", "sweep", "details"];

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// A kind of work on a resource begins.
    Begins {
        /// What is worked on.
        resource: Resource,
        /// In people's words: "changes", "full copy", "sweep", "details".
        work: &'static str,
        /// How many rows there will be, where that is known for free.
        total: Option<u64>,
    },
    /// The service said how many rows the piece of work under way has.
    Total {
        /// What it is of.
        resource: Resource,
        /// The rows.
        total: u64,
    },
    /// A page or a detail was stored.
    Stored {
        /// What it was of.
        resource: Resource,
        /// Rows so far in this piece of work.
        rows: u64,
        /// Request units charged so far in this run.
        ru: Ru,
    },
    /// The piece of work ended, for now or for good.
    Ends {
        /// What was worked on.
        resource: Resource,
    },
    /// Every request waits, since the service asked for it.
    Holding {
        /// Until when.
        until: Instant,
    },
    /// Something a person should know, once.
    Warning(String),
}

/// Whoever listens to a run.
pub trait RunObserver: Send + Sync {
    /// Takes an event; must not block.
    fn on(&self, event: RunEvent);
    /// Whether totals are shown, which makes `count=exact` worth its counting work (reference, *Limits*, rule 1).
    fn wants_totals(&self) -> bool {
        false
    }
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl RunObserver for Silent {
    fn on(&self, _: RunEvent) {}
}
