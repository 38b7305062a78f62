//! What a transaction settles once, at its end: search documents, row counts, and whether details are due.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::model::catalogue::Object;

/// Whether a record is here, and whether its detail is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct RecordPresence {
    pub(in crate::store) is_here: bool,
    pub(in crate::store) has_current_detail: bool,
}

/// What is left to the end of a transaction, by object.
#[derive(Debug, Default)]
pub(in crate::store) struct Pending {
    /// Objects whose details may be due since this transaction wrote a row.
    pub(in crate::store) unsettled: [Cell<bool>; 2],
    /// Records whose texts changed: their documents are written at the end.
    pub(in crate::store) stale_documents: RefCell<BTreeSet<(Object, String)>>,
    /// Records that changed: entered into `changed_records` at the end.
    pub(in crate::store) changed: RefCell<BTreeSet<(Object, String)>>,
    /// The records that were written, as they were before.
    pub(in crate::store) before: RefCell<[BTreeMap<String, RecordPresence>; 2]>,
    /// New records that are counted without having been looked up.
    pub(in crate::store) new: [Cell<u64>; 2],
}
