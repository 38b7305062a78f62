//! The anomalies of the service, and their texts in `service_oddities`.

use strum::{EnumMessage, IntoStaticStr};

use crate::model::{Instant, Resource};
use crate::store::{MirrorTx, StoreError};

/// A way in which the service broke its own documentation: its kind, and its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, EnumMessage)]
#[strum(serialize_all = "snake_case")]
pub enum Anomaly {
    #[strum(message = "rows were not in the requested order")]
    UnorderedPage,
    #[strum(message = "a row did not match the filter")]
    RowOutsideFilter,
    #[strum(message = "a cursor was repeated")]
    RepeatedCursor,
    #[strum(message = "a page without rows had a next cursor")]
    EmptyPage,
    #[strum(message = "a page was repeated with another cursor")]
    RepeatedPage,
    #[strum(message = "an unchanged cursor was refused")]
    RefusedCursor,
    #[strum(message = "a page contained the same record twice")]
    DuplicateId,
    #[strum(message = "an item without an `id` cannot be mirrored")]
    UnusableItem,
    #[strum(serialize = "unreadable_record", message = "a page could not be read")]
    UnreadablePage,
    #[strum(message = "a record could not be read, whatever the page size")]
    UnreadableRecord,
    #[strum(message = "details of records that lists have were not found")]
    DetailsNotFound,
}

impl Anomaly {
    pub(in crate::sync) fn enter(self, tx: &MirrorTx<'_>, resource: Resource, now: Instant) -> Result<(), StoreError> {
        tx.record_anomaly(self.into(), resource, self.get_message().unwrap_or_default(), now)
    }
}
