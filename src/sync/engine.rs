//! The engine: everything that runs use and do not change. The state of one run belongs to `Run`.

use std::sync::Arc;
use std::time::Duration;

use super::budget_meter::BudgetMeter;
use super::events::RunObserver;
use crate::api::Client;
use crate::model::{Clock, Instant, Object};
use crate::store::{LastRead, Store};

#[derive(Clone, Copy, Debug)]
pub struct SyncSettings {
    /// How far before the last known change a changes walk starts, for rows that were committed late.
    pub overlap: Duration,
    /// Whether details are read at all.
    pub details: bool,
    pub concurrency: u32,
    /// A list is cut into slices, to be read side by side, where each has so many rows: its last page is part empty, which
    /// costs half a request on average.
    pub rows_per_slice: u64,
    /// The largest share of a table that may be removed at once without a person's confirmation.
    pub most_removals: f64,
    /// How long `changes`, `removed_records`, `audits` and `sync_runs` are kept; `None` for forever.
    pub retention: Option<Duration>,
    /// The age from which details are read again if RU are left over; `None` for never.
    pub detail_max_age: Option<Duration>,
    pub write_back: bool,
    /// The maximum number of new edits within an hour that are sent without confirmation.
    pub max_edits: u64,
}

impl Default for SyncSettings {
    fn default() -> SyncSettings {
        SyncSettings {
            overlap: Duration::from_secs(60),
            details: true,
            concurrency: 4,
            rows_per_slice: 3_000,
            most_removals: 0.2,
            retention: Some(Duration::from_secs(365 * 86_400)),
            detail_max_age: Some(Duration::from_secs(30 * 86_400)),
            write_back: false,
            max_edits: 100,
        }
    }
}

/// A list is cut where it has rows for so many slices: fewer are not worth a request.
const MIN_SLICES: u64 = 4;

impl SyncSettings {
    /// How many slices a list of so many rows may be cut into, if it is worth cutting.
    pub(super) fn slices(&self, rows: u64) -> Option<u64> {
        Some(rows / self.rows_per_slice.max(1)).filter(|slices| *slices >= MIN_SLICES)
    }
}

/// The default maximum age of these lists: 6 hours, so that an idle day costs few RU.
pub const INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// The parts of the budget that these may take, as one in so many; records keep the rest: the definitions, the team members,
/// the hourly count of an object, a sweep that this asks for, a step that keeps failing, the details of an object that fail.
pub(super) const DEFINITIONS_SHARE: u32 = 2;
pub(super) const TEAM_SHARE: u32 = 4;
pub(super) const TOTAL_SHARE: u32 = 20;
pub(super) const SWEEP_SHARE: u32 = 4;
pub(super) const FAILING_SHARE: u32 = 4;
pub(super) const FAILING_DETAILS_SHARE: u32 = 40;

/// When definitions and team members last read at an instant are to be read again; `None` means never by time alone.
pub type ListSchedule = Arc<dyn Fn(Instant) -> Option<Instant> + Send + Sync>;

pub struct Engine {
    pub(super) client: Client,
    pub(super) store: Store,
    pub(super) meter: Arc<BudgetMeter>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn RunObserver>,
    pub(super) settings: SyncSettings,
    /// Every six hours by default.
    pub list_schedule: ListSchedule,
}

impl Engine {
    /// Whether details of an object are read: not if nothing that only they carry is mirrored.
    pub(super) fn reads_details(&self, object: Object) -> bool {
        self.settings.details && self.store.layout().has_details(object)
    }

    pub fn new(
        client: Client,
        store: Store,
        meter: Arc<BudgetMeter>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn RunObserver>,
        settings: SyncSettings,
    ) -> Engine {
        let list_schedule: ListSchedule = Arc::new(|read| Some(read.plus(INTERVAL)));
        Engine { client, store, meter, clock, observer, settings, list_schedule }
    }

    /// Whether a list must be read again, given its last read: the schedule says so, or as much time has passed since by
    /// the steady clock, whatever our clock was set to. A last read in the future comes from a clock that was set back
    /// since: it must be read again.
    pub(super) fn is_list_due(&self, fresh: Option<LastRead>, share: u32, now: Instant) -> bool {
        let Some(fresh) = fresh else { return true };
        let due = (self.list_schedule)(fresh.finished);
        let is_over = |due| self.is_over(&fresh, now, due);
        fresh.finished > now || self.is_list_paid(&fresh, share, now) && due.is_some_and(is_over)
    }

    /// Whether its share of the budget has paid for the last read of a list: a budget that cannot pay for the schedule
    /// delays the next one, so that records have their share.
    pub(super) fn is_list_paid(&self, fresh: &LastRead, share: u32, now: Instant) -> bool {
        let paid = fresh.finished.plus(self.meter.limits().time_to_earn(fresh.cost.unwrap_or_default(), share));
        fresh.finished > now || self.is_over(fresh, now, paid)
    }

    /// Whether an instant after a read has passed, by either clock.
    fn is_over(&self, fresh: &LastRead, now: Instant, due: Instant) -> bool {
        let steady = self.meter.ledger().steady_time();
        let passed = fresh.steady.map(|began| steady.since(began)).unwrap_or_default();
        due <= now || passed >= due.since(fresh.finished)
    }

    /// The key and address that it asks with.
    pub(super) fn seen_by(&self) -> String {
        format!("{} {}", self.client.key_fingerprint(), self.client.settings().base_url.as_str())
    }

    pub(super) fn workers(&self) -> usize {
        self.settings.concurrency.max(1) as usize
    }
}
