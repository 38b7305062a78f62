//! The anomalies of the service, and their texts in `service_oddities`.

use crate::model::{Instant, Resource};
use crate::store::{MirrorTx, StoreError};

/// A way in which the service broke its own documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    UnorderedPage,
    RowOutsideFilter,
    /// The cursor of the next page was followed before.
    RepeatedCursor,
    /// A page without rows that is not the last.
    EmptyPage,
    /// A page that was read before, with another cursor of the next one.
    RepeatedPage,
    /// The service refused a cursor that was used with its own conditions.
    RefusedCursor,
    DuplicateId,
    UnusableItem,
    UnreadablePage,
    UnreadableRecord,
    DetailsNotFound,
}

impl Anomaly {
    /// Its kind and its sentence.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Anomaly::UnorderedPage => ("unordered_page", "rows were not in the requested order"),
            Anomaly::RowOutsideFilter => ("row_outside_filter", "a row did not match the filter"),
            Anomaly::RepeatedCursor => ("repeated_cursor", "a cursor was repeated"),
            Anomaly::EmptyPage => ("empty_page", "a page without rows had a next cursor"),
            Anomaly::RepeatedPage => ("repeated_page", "a page was repeated with another cursor"),
            Anomaly::RefusedCursor => ("refused_cursor", "an unchanged cursor was refused"),
            Anomaly::DuplicateId => ("duplicate_id", "a page contained the same record twice"),
            Anomaly::UnusableItem => ("unusable_item", "an item without an `id` cannot be mirrored"),
            Anomaly::UnreadablePage => ("unreadable_record", "a page could not be read"),
            Anomaly::UnreadableRecord => ("unreadable_record", "a record could not be read, whatever the page size"),
            Anomaly::DetailsNotFound => ("details_not_found", "details of records that lists have were not found"),
        }
    }

    pub(in crate::sync) fn enter(self, tx: &MirrorTx<'_>, resource: Resource, now: Instant) -> Result<(), StoreError> {
        let (kind, what) = self.texts();
        tx.record_anomaly(kind, resource, what, now)
    }
}
