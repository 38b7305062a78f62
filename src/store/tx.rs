//! One transaction on the mirror: a page's rows, its checkpoint and the ledger, all or nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::model::{AnswerTime, Instant, Layout, Object, RequestRegister, RequestStamp, Resource};
use crate::store::user_objects::objects::UserObject;
use crate::store::{ReadTx, Result, Shapes, Statements, StoreError};

#[derive(Debug)]
pub struct MirrorTx<'a> {
    read: ReadTx<'a>,
    /// The request that last wrote each row before this transaction.
    rows: &'a RowOrder,
    shapes: RefCell<Rc<Shapes>>,
    changes_before: u64,
    pub(in crate::store) answer: Cell<Option<AnswerTime>>,
    pub(in crate::store) pending: Pending,
    /// Who takes the steps of edits; `None` if nobody asked for them.
    pub(in crate::store) author: RefCell<Option<String>>,
}

impl<'a> Deref for MirrorTx<'a> {
    type Target = ReadTx<'a>;

    fn deref(&self) -> &ReadTx<'a> {
        &self.read
    }
}

impl<'a> MirrorTx<'a> {
    pub(in crate::store) fn new(conn: Transaction<'a>, shapes: Shapes, rows: &'a RowOrder) -> MirrorTx<'a> {
        MirrorTx {
            changes_before: conn.total_changes(),
            answer: Cell::default(),
            pending: Pending::default(),
            author: RefCell::default(),
            read: ReadTx { conn },
            rows,
            shapes: RefCell::new(Rc::new(shapes)),
        }
    }

    /// Names who makes the edits of this transaction, and decides on them: a user of the operating system, or `mcp`.
    pub fn by(&self, who: &str) {
        self.author.replace(Some(who.into()));
    }

    pub(in crate::store) fn commit(self) -> Result<(Shapes, WrittenRows)> {
        self.derived().flush_search()?;
        self.records().flush_counts()?;
        self.feed().flush_changed()?;
        self.read.conn.commit()?;
        Ok((Rc::unwrap_or_clone(self.shapes.into_inner()), self.pending.written.into_inner()))
    }

    /// Whether a later request than this has written or removed the row.
    pub(in crate::store) fn is_overtaken(&self, object: Object, id: &str, asked: &RequestStamp) -> bool {
        let number = asked.order.number();
        let last = |rows: &WrittenRows| rows[object as usize].get(id).copied();
        let here = last(&self.pending.written.borrow());
        here.or_else(|| last(&self.rows.rows)).is_some_and(|last| number < last)
    }

    /// Notes the request that wrote, confirmed or removed a row, if an older answer may still arrive.
    pub(in crate::store) fn remember_order(&self, object: Object, id: &str, number: u64) {
        if number <= self.rows.requests.oldest_open() {
            return;
        }
        let mut written = self.pending.written.borrow_mut();
        let last = written[object as usize].entry(id.into()).or_default();
        *last = number.max(*last);
    }

    pub fn has_written(&self) -> bool {
        self.conn.total_changes() != self.changes_before
    }

    pub fn layout(&self) -> Arc<Layout> {
        self.shapes().layout.clone()
    }

    pub(in crate::store) fn shapes(&self) -> Rc<Shapes> {
        self.shapes.borrow().clone()
    }

    pub(in crate::store) fn set_shapes(&self, shapes: Shapes) {
        self.shapes.replace(Rc::new(shapes));
    }

    /// What was decoded with the columns of this version; decoded again with `decode` if the columns have changed since.
    /// Everything that is decoded before its transaction is taken through here, so that nothing has to be retried.
    pub fn with_current_layout<D>(
        &self,
        decoded: D,
        version: u64,
        decode: impl FnOnce(&Layout) -> Option<D>,
    ) -> Result<D> {
        if self.shapes().layout.version == version {
            return Ok(decoded);
        }
        decode(&self.shapes().layout).ok_or(StoreError::StaleLayout)
    }

    pub fn expect_layout(&self, version: u64) -> Result<()> {
        self.with_current_layout((), version, |_| None)
    }

    /// Records an anomaly: the service broke its own documentation.
    pub fn record_anomaly(&self, kind: &str, resource: Resource, what: &str, now: Instant) -> Result<()> {
        self.run(
            "INSERT INTO service_oddities (kind, resource, what, first_seen_at, last_seen_at, times)
                 VALUES (?1, ?2, ?3, ?4, ?4, 1)
                 ON CONFLICT (kind, resource, what)
                 DO UPDATE SET times = times + 1, last_seen_at = excluded.last_seen_at",
            params![kind, resource.as_str(), what, now],
        )
    }
}

/// Gives each door its type, and the method of [`MirrorTx`] that opens it.
macro_rules! doors {
    ($($(#[doc = $doc:literal])+ $open:ident: $door:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug)]
            pub struct $door<'t> {
                pub(in crate::store) tx: &'t MirrorTx<'t>,
            }

            impl Statements for $door<'_> {
                fn connection(&self) -> &Connection {
                    &self.tx.conn
                }
            }
        )+

        impl MirrorTx<'_> {
            $(
                $(#[doc = $doc])+
                pub const fn $open(&self) -> $door<'_> {
                    $door { tx: self }
                }
            )+
        }
    };
}

doors! {
    /// The rows of records, team members and their history.
    records: RecordsTx;
    /// What is known about the service and what is in doubt: doubts, nominations, lists, details that are due.
    knowledge: KnowledgeTx;
    /// What answers did not show of records and fields.
    unread: UnreadTx;
    /// What is said to be here, as of when.
    claims: ClaimsTx;
    /// The definitions of custom fields, and the columns that follow them.
    custom: CustomTx;
    /// What is derived from the rows: views, dictionary, indexes, search.
    derived: DerivedTx;
    /// Local edits.
    edits: EditsTx;
    /// The feed of changes, for streams and published copies.
    feed: FeedTx;
}

/// The counts of an object, or of one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct RowCounts {
    pub(in crate::store) rows: u64,
    /// Those whose detail has the record's version.
    pub(in crate::store) details_current: u64,
}

/// The work left for the end of a transaction, by object.
#[derive(Debug, Default)]
pub(in crate::store) struct Pending {
    /// Records that changed: their documents are written and they are entered into `changed_records` at the end.
    pub(in crate::store) changed: RefCell<BTreeSet<(Object, String)>>,
    /// The records that were written, with their earlier presence.
    pub(in crate::store) before: RefCell<[BTreeMap<String, RowCounts>; 2]>,
    pub(in crate::store) written: RefCell<WrittenRows>,
    /// Users' views while they are removed from the file.
    pub(in crate::store) aside: RefCell<Option<Vec<UserObject>>>,
    /// Records for which a list omitted a stored value.
    pub(in crate::store) omitted: RefCell<BTreeSet<(Object, String)>>,
    /// Whether there is any record with columns that its last answer did not show, once that was looked up.
    pub(in crate::store) unshown: Cell<Option<bool>>,
    /// Whether any record of each object is in doubt, once that was looked up.
    pub(in crate::store) doubts: [Cell<Option<bool>>; 2],
    /// The earliest `updatedAt` accepted although the row had a later one; whether the answer was as new as the row.
    pub(in crate::store) accepted_older: [Cell<Option<(Instant, bool)>>; 2],
    /// New records that are counted without having been looked up.
    pub(in crate::store) new: [Cell<u64>; 2],
}

/// Rows of each object, with the number of the request that wrote, confirmed or removed them.
pub(in crate::store) type WrittenRows = [HashMap<String, u64>; 2];

/// The last request of each row that an open request could still overtake.
#[derive(Debug)]
pub(in crate::store) struct RowOrder {
    requests: RequestRegister,
    rows: WrittenRows,
}

impl RowOrder {
    pub(in crate::store) fn new(requests: RequestRegister) -> RowOrder {
        RowOrder { requests, rows: WrittenRows::default() }
    }

    pub(in crate::store) fn note(&mut self, written: WrittenRows) {
        for (rows, written) in self.rows.iter_mut().zip(written) {
            for (id, number) in written {
                let last = rows.entry(id).or_default();
                *last = number.max(*last);
            }
        }
        // An entry whose request is older than all open requests is no longer needed.
        let oldest = self.requests.oldest_open();
        for rows in &mut self.rows {
            rows.retain(|_, number| *number > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_an_open_request_may_overtake_are_kept() {
        let requests = RequestRegister::default();
        let mut rows = RowOrder::new(requests.clone());
        let open = requests.begin();
        let page = |number: u64| -> WrittenRows {
            [(0..100).map(|row| (format!("{number}-{row}"), number)).collect(), HashMap::new()]
        };
        for _ in 0..50 {
            let request = requests.begin();
            rows.note(page(request.number()));
        }
        assert_eq!(rows.rows[0].len(), 5_000, "one request is still open that is older than all of them");
        assert_eq!(rows.rows[0].get("2-0"), Some(&2));
        drop(open);
        for _ in 0..60 {
            let request = requests.begin();
            rows.note(page(request.number()));
        }
        assert!(rows.rows[0].is_empty(), "{}", rows.rows[0].len());
    }
}
