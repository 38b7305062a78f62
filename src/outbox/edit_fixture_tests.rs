//! Shared by the tests of decisions on edits: a mirror with one contact, edits of it, and what became of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::edit_tx::{EditTx, PushRules};
use crate::api::{ServiceAnswer, decode};
use crate::model::request_order::RequestRegister;
use crate::model::{DelayScope, EditState, EditedFields, Etag, Instant, Object, RecordId, RequestStamp, RetryDelay};
use crate::store::{Edit, EditStep, MirrorTx, Store, outbox_report, queue};

pub(super) const CONTACT: Object = Object::Contact;
pub(super) const KEY: &str = "key";

pub(super) fn now() -> Instant {
    Instant::EPOCH.plus(Duration::from_secs(1_000_000))
}

/// So many seconds after [`now`].
pub(super) fn after(seconds: u64) -> Instant {
    now().plus(Duration::from_secs(seconds))
}

pub(super) fn contact() -> RecordId {
    RecordId::new("c")
}

pub(super) fn rules(max_edits: u64) -> PushRules {
    PushRules { max_edits, api_key: KEY.into(), steady: now(), hold: Duration::ZERO, scope: DelayScope::Object }
}

/// A mirror with a contact, as its detail shows it.
pub(super) async fn mirror(contact: Value) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    let stored = store.write(move |tx| {
        show(tx, &contact);
        // From now on, changes are kept in the history.
        tx.derived().finish_first_copy(CONTACT)
    });
    stored.await.unwrap();
    (dir, store)
}

/// What a test finds in a transaction on a mirror whose contact has the version `"v1"`, and A in each field.
pub(super) async fn on_mirror<T: Send + 'static>(work: impl FnOnce(&MirrorTx<'_>) -> T + Send + 'static) -> T {
    let fields = json!({ "id": "c", "etag": "\"v1\"", "position": "A", "language": "A", "notes": "A" });
    let (_dir, store) = mirror(fields).await;
    store.write(move |tx| Ok(work(tx))).await.unwrap()
}

pub(super) fn show(tx: &MirrorTx<'_>, contact: &Value) {
    let body = json!({ "data": contact }).to_string();
    let record = decode::detail(CONTACT.resource(), body.as_bytes(), &tx.layout()).unwrap();
    tx.records().apply_detail(CONTACT, &record, &stamp(), true).unwrap();
}

/// Stores a list that has the contact with this version and position: its detail is outdated.
pub(super) fn list(tx: &MirrorTx<'_>, etag: &str, position: &str) {
    let body = json!({ "data": [{ "id": "c", "etag": etag, "position": position }], "nextCursor": null }).to_string();
    let page = decode::page(CONTACT.resource(), body.as_bytes(), &tx.layout()).unwrap();
    tx.records().apply_list(CONTACT, &page.records[0], &stamp()).unwrap();
}

/// A connection that may write the program's tables, as the program's own.
pub(super) fn unguarded(mirror: &std::path::Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(mirror).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn
}

/// A row of the outbox that changes no field, as no command makes it.
pub(super) fn insert_row_without_fields(mirror: &std::path::Path) {
    unguarded(mirror)
        .execute_batch(
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'c', 'sql', '{}', '2026-03-01T12:00:00.000000Z')",
        )
        .unwrap();
}

pub(super) fn stamp() -> RequestStamp {
    RequestStamp { at: now().into(), order: RequestRegister::default().begin() }
}

pub(super) fn answered(body: &str, etag: Option<&str>) -> ServiceAnswer {
    let (body, etag) = (body.to_string().into(), etag.map(Etag::new));
    ServiceAnswer { status: 200, body, date: None, etag, replayed: None, asked: stamp(), failed: 0 }
}

pub(super) fn queue_edit(tx: &MirrorTx<'_>, columns: &[(&str, &str)], base: Option<&str>) -> i64 {
    let change = |(column, after): &(&str, &str)| ((*column).to_string(), (json!("A"), json!(after)));
    let fields: EditedFields = columns.iter().map(change).collect();
    let base = base.map(Etag::new);
    let (record, source) = (contact(), "edit");
    let edit = queue::NewEdit {
        object: CONTACT,
        record: &record,
        source,
        fields: &fields,
        base_etag: base.as_ref(),
        undoes: None,
    };
    queue::insert(tx, &edit, "a test", now()).unwrap().edit.unwrap()
}

/// Queues an edit of one column of the contact's first version.
pub(super) fn edit_of(tx: &MirrorTx<'_>, column: &str, after: &str) -> i64 {
    queue_edit(tx, &[(column, after)], Some("\"v1\""))
}

pub(super) fn step(tx: &MirrorTx<'_>, edit: i64, from: EditState, to: EditState) {
    assert!(tx.edits().take_step(edit, &EditStep::new(from, to, "a test"), now()).unwrap(), "{edit} is not {from:?}");
}

/// Stores a request of these edits as sent.
pub(super) fn send_now(tx: &MirrorTx<'_>, edits: &[i64], body: &str) {
    tx.edits().fix_request(edits, body, &Etag::new("\"v1\""), "00ff", (now(), now())).unwrap();
}

pub(super) fn open(tx: &MirrorTx<'_>) -> Vec<Edit> {
    tx.edits_of(CONTACT, &contact()).unwrap()
}

pub(super) fn open_edit(tx: &MirrorTx<'_>, id: i64) -> Edit {
    open(tx).into_iter().find(|edit| edit.id == id).unwrap()
}

/// An edit's state and the reason of its last step.
pub(super) fn ended(tx: &MirrorTx<'_>, edit: i64) -> (EditState, String) {
    let (line, history) = outbox_report::edit(tx, edit).unwrap();
    (line.state, history.last().unwrap().why.clone())
}

/// Stores a delay after so many requests that ends after so many seconds; less than zero if it is over.
pub(super) fn delayed(tx: &MirrorTx<'_>, scope: DelayScope, requests: u32, seconds: i64) {
    let ends = if seconds < 0 {
        now().minus(Duration::from_secs(seconds.unsigned_abs()))
    } else {
        after(seconds.unsigned_abs())
    };
    let delay =
        RetryDelay { requests, recent: requests, last_at: now().minus(Duration::from_secs(60)), not_before: ends };
    tx.edits().set_delay(CONTACT, scope, &contact(), delay, KEY).unwrap();
}

/// The failed requests that a delay counts.
pub(super) fn requests(tx: &MirrorTx<'_>, scope: DelayScope) -> Option<u32> {
    tx.edits().delay(CONTACT, scope, &contact()).unwrap().map(|delay| delay.requests)
}

/// Works on the contact's edits where at most so many new ones are sent.
pub(super) fn with_edits<T>(tx: &MirrorTx<'_>, max_edits: u64, work: impl FnOnce(&mut EditTx<'_, '_>) -> T) -> T {
    let (record, rules) = (contact(), rules(max_edits));
    work(&mut EditTx::open(tx, CONTACT, &record, &rules, now()).unwrap())
}
