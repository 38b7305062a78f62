//! Work that a transaction does once, at its end: search documents and row counts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::model::catalogue::Object;
use crate::model::instant::Instant;
use crate::store::row_order::WrittenRows;
use crate::store::user_objects::objects::UserObject;

/// Whether a record is mirrored, and whether its detail is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct RecordPresence {
    pub(in crate::store) is_here: bool,
    pub(in crate::store) has_current_detail: bool,
}

/// The work left for the end of a transaction, by object.
#[derive(Debug, Default)]
pub(in crate::store) struct Pending {
    /// Records whose texts changed: their documents are written at the end.
    pub(in crate::store) stale_documents: RefCell<BTreeSet<(Object, String)>>,
    /// Records that changed: they are entered into `changed_records` at the end.
    pub(in crate::store) changed: RefCell<BTreeSet<(Object, String)>>,
    /// The records that were written, with their earlier presence.
    pub(in crate::store) before: RefCell<[BTreeMap<String, RecordPresence>; 2]>,
    /// The request that last wrote each row.
    pub(in crate::store) written: RefCell<WrittenRows>,
    /// Users' views while they are removed from the file.
    pub(in crate::store) aside: RefCell<Option<Vec<UserObject>>>,
    /// Records for which a list omitted a stored value, and whether it showed another etag than the row had.
    pub(in crate::store) omitted: RefCell<BTreeMap<(Object, String), bool>>,
    /// Whether there is any record with columns that its last answer did not show, once that was looked up.
    pub(in crate::store) unshown: Cell<Option<bool>>,
    /// Whether any record of each object is in doubt, once that was looked up.
    pub(in crate::store) doubts: [Cell<Option<bool>>; 2],
    /// The earliest `updatedAt` that was accepted although the row had a later one, and whether the answer was as new as
    /// the row.
    pub(in crate::store) accepted_older: [Cell<Option<(Instant, bool)>>; 2],
    /// New records that are counted without having been looked up.
    pub(in crate::store) new: [Cell<u64>; 2],
}
