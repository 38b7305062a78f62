//! The engine: everything that runs depend on and no run changes. What a run does and learns belongs to
//! `Run`.

use std::sync::Arc;
use std::time::Duration;

use super::events::RunObserver;
use super::meter::BudgetMeter;
use crate::api::Client;
use crate::model::Clock;
use crate::outbox::IdempotencyKeys;
use crate::store::Store;

/// How runs behave.
#[derive(Clone, Copy, Debug)]
pub struct SyncSettings {
    /// How far a changes walk reads back, for rows that were committed late.
    pub overlap: Duration,
    /// Whether details are read at all.
    pub details: bool,
    /// How many requests may be under way at once.
    pub concurrency: u32,
    /// The share of a table that may be removed at once without a person's confirmation.
    pub most_removals: f64,
    /// How long `changes`, `removed_records`, `audits` and `sync_runs` remember; for ever where it is `None`.
    pub retention: Option<Duration>,
    /// The age from which details are read again when there are request units to spare; never where it is `None`.
    pub detail_max_age: Option<Duration>,
    /// Whether edits of the mirror are taken and sent.
    pub write_back: bool,
    /// The most new edits within an hour that are sent without a person's word.
    pub max_edits: u64,
}

impl Default for SyncSettings {
    fn default() -> SyncSettings {
        SyncSettings {
            overlap: Duration::from_secs(60),
            details: true,
            concurrency: 4,
            most_removals: 0.2,
            retention: Some(Duration::from_secs(365 * 86_400)),
            detail_max_age: Some(Duration::from_secs(30 * 86_400)),
            write_back: false,
            max_edits: 100,
        }
    }
}

/// Everything that a run needs.
pub struct Engine {
    pub(super) client: Client,
    pub(super) store: Store,
    pub(super) meter: Arc<BudgetMeter>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn RunObserver>,
    pub(super) settings: SyncSettings,
    pub(super) keys: IdempotencyKeys,
}

impl Engine {
    /// An engine for runs one after the other.
    pub fn new(
        client: Client,
        store: Store,
        meter: Arc<BudgetMeter>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn RunObserver>,
        settings: SyncSettings,
    ) -> Engine {
        Engine { client, store, meter, clock, observer, settings, keys: IdempotencyKeys::system() }
    }

    /// With idempotency keys from another source than the system's randomness.
    #[must_use]
    pub fn with_keys(self, keys: IdempotencyKeys) -> Engine {
        Engine { keys, ..self }
    }

    /// The mirror's file.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn workers(&self) -> usize {
        self.settings.concurrency.max(1) as usize
    }
}
