//! What an operation on one edit costs does not depend on the number of finished edits, as no statement scans them.
//!
//! The cost is counted in instructions of SQLite's virtual machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::TransactionBehavior;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use serde_json::json;

use super::hold_edits::hold_in_a_copy;
use super::queue::{NewEdit, QueuedValues, insert};
use super::{delays, editable, report};
use crate::model::request_order::RequestRegister;
use crate::model::{EditState, Etag, Instant, Object, RecordId};
use crate::store::file::open;
use crate::store::shapes_of;
use crate::store::tx::RowOrder;
use crate::store::{EditStep, MirrorTx, Result, Store, StoreError};

const CONTACT: Object = Object::Contact;

/// An operation on the first edit, which is of this record.
type Operation = fn(&MirrorTx<'_>, &RecordId, Instant) -> Result<()>;

const OPERATIONS: [(&str, Operation); 20] = [
    ("queue", |tx, id, now| queue(tx, id, now).map(drop)),
    ("edits_of", |tx, id, _| tx.edits_of(CONTACT, id).map(drop)),
    ("edited_records", |tx, _, _| tx.edited_records().map(drop)),
    ("pending_columns", |tx, id, _| editable::pending_columns(tx, CONTACT, id, true).map(drop)),
    ("new_edits", |tx, _, now| tx.holds_new_edits(now, 100).map(drop)),
    ("any_unreleased", |tx, _, _| tx.edits().any_unreleased(&[1]).map(drop)),
    ("hold_new_edits", |tx, _, now| tx.edits().hold_new_edits("a test", now).map(drop)),
    ("hold_in_a_copy", |tx, _, now| hold_in_a_copy(&tx.conn, now).map(drop)),
    ("take_step", |tx, _, now| {
        tx.edits().take_step(1, &EditStep::new(EditState::Queued, EditState::Dropped, "a test"), now).map(drop)
    }),
    ("mark_released", |tx, _, now| tx.edits().mark_released(1, now)),
    ("fix_request", |tx, _, now| tx.edits().fix_request(&[1], "{}", &Etag::new("v1"), "00ff", (now, now))),
    ("send_again", |tx, _, now| tx.edits().send_again(1, now)),
    ("give_up_request", |tx, _, _| tx.edits().give_up_request(&[1], true)),
    ("unsend", |tx, _, _| tx.edits().unsend(1)),
    ("reject_edits_of_removed", |tx, id, now| {
        tx.edits().reject_edits_of_removed(CONTACT, std::slice::from_ref(id), now).map(drop)
    }),
    ("forget_edits_before", |tx, _, _| tx.edits().forget_edits_before(Instant::EPOCH)),
    ("end_obsolete_delays", |tx, _, _| tx.edits().end_obsolete_delays("key")),
    ("waiting", |tx, _, _| delays::OutboxOutlook::read(tx).map(drop)),
    ("show", |tx, _, _| report::edit(tx, 1).map(drop)),
    ("counts and undo", |tx, _, now| {
        report::counts(tx)?;
        applied_by(tx)?;
        report::applied_since(tx, now).map(drop)
    }),
];

fn applied_by(tx: &MirrorTx<'_>) -> Result<()> {
    match report::applied_by(tx, report::edit_line(tx, 1)?) {
        Ok(_) | Err(StoreError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn queue(tx: &MirrorTx<'_>, record: &RecordId, now: Instant) -> Result<QueuedValues> {
    let fields = [("position".to_string(), (json!("A"), json!("B")))].into();
    let edit = NewEdit { object: CONTACT, record, source: "edit", fields: &fields, base_etag: None, undoes: None };
    insert(tx, &edit, "a test", now)
}

/// The instructions of each operation on an open edit beside so many finished ones.
async fn costs(finished: u32) -> BTreeMap<&'static str, u64> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    Store::open(&path).unwrap().close().await;
    let (record, now) = (RecordId::new("c"), Instant::EPOCH.plus(std::time::Duration::from_secs(2_000_000_000)));
    let mut costs = BTreeMap::new();
    for (name, operation) in OPERATIONS {
        let mut conn = open::editor(&path).unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let counted = steps.clone();
        conn.progress_handler(1, Some(move || counted.fetch_add(1, Ordering::Relaxed) == u64::MAX)).unwrap();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let shapes = shapes_of(&tx).unwrap();
        let rows = RowOrder::new(RequestRegister::default());
        let tx = MirrorTx::new(tx, shapes, &rows);
        queue(&tx, &record, now).unwrap();
        tx.conn
            .execute_batch(&format!(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {finished})
                 INSERT INTO outbox (object_type, record_id, state, source, fields, queued_at, finished_at, tried_at)
                 SELECT 'contact', 'c', 'applied', 'sql', '{{\"position\":[null,\"x\"]}}', '2026', '2026', '2026' FROM n;
                 INSERT INTO outbox_events (outbox_id, at, to_state, why) SELECT id, '2026', 'applied', 'x' FROM outbox"
            ))
            .unwrap();
        let before = steps.load(Ordering::Relaxed);
        operation(&tx, &record, now).unwrap();
        costs.insert(name, steps.load(Ordering::Relaxed) - before);
        // What is not committed is taken back.
    }
    costs
}

#[tokio::test]
async fn operations_on_an_edit_scan_no_finished_ones() {
    let (few, many) = (costs(10).await, costs(2_000).await);
    let grown: Vec<_> = few.iter().filter(|(name, few)| many[*name] > **few + 60).collect();
    assert!(grown.is_empty(), "{grown:?} beside 10 edits grow to {many:?} beside 2,000");
}

/// What a person decides on edits, by the parts that execute statements: drop, release, and undo.
const DECISIONS: [(&str, Operation); 14] = [
    ("the edits", |tx, _, _| report::edits(tx, false).map(drop)),
    ("the edit", |tx, _, _| report::edit_line(tx, 1).map(drop)),
    ("its history", |tx, _, _| report::edit(tx, 1).map(drop)),
    ("edits_of", |tx, id, _| tx.edits_of(CONTACT, id).map(drop)),
    ("mirrored", |tx, id, _| tx.edits().mirrored(CONTACT, id, &["position"]).map(drop)),
    ("editable", |tx, _, _| tx.edits().editable(CONTACT).map(drop)),
    ("give_up_request", |tx, _, _| tx.edits().give_up_request(&[1], true)),
    ("drop", |tx, _, now| {
        tx.edits().take_step(1, &EditStep::new(EditState::Queued, EditState::Dropped, "a test"), now).map(drop)
    }),
    ("mark_released", |tx, _, now| tx.edits().mark_released(1, now)),
    ("fix_doubtful_request", |tx, _, _| tx.edits().fix_doubtful_request(1, "{}", "00ff")),
    ("set_edited_fields", |tx, _, _| tx.edits().set_edited_fields(1, &[].into(), None)),
    ("applied_by", |tx, _, _| applied_by(tx)),
    ("applied_since", |tx, _, now| report::applied_since(tx, now).map(drop)),
    ("queue", |tx, id, now| queue(tx, id, now).map(drop)),
];

#[tokio::test]
async fn statements_of_decisions_scan_no_edits_and_make_no_temporary_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    Store::open(&path).unwrap().close().await;
    let (record, now) = (RecordId::new("c"), Instant::EPOCH);
    for (name, operation) in DECISIONS {
        let mut conn = open::editor(&path).unwrap();
        let executed: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let seen = executed.clone();
        let note = move |event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(_, sql) = event {
                seen.lock().unwrap().insert(sql.into());
            }
        };
        conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note)).unwrap();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let shapes = shapes_of(&tx).unwrap();
        let rows = RowOrder::new(RequestRegister::default());
        let tx = MirrorTx::new(tx, shapes, &rows);
        queue(&tx, &record, now).unwrap();
        executed.lock().unwrap().clear();
        operation(&tx, &record, now).unwrap();
        let executed = std::mem::take(&mut *executed.lock().unwrap());
        assert!(!executed.is_empty(), "{name}");
        for sql in executed.iter().filter(|sql| !sql.starts_with("--") && sql.contains("outbox")) {
            let mut stmt = tx.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan: Vec<String> = stmt.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>().unwrap();
            let is_slow = |step: &&String| {
                let scans = ["outbox", "outbox_events", "o", "u", "c", "p"].contains(&step.split(' ').nth(1).unwrap());
                step.starts_with("SCAN ") && scans && !step.contains("outbox_open") || step.contains("TEMP B-TREE")
            };
            assert_eq!(plan.iter().find(is_slow), None, "{name}: {plan:#?} of {sql}");
        }
    }
}
