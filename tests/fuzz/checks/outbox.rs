//! Rows of the outbox that anybody can write: up to three of them, with arbitrary columns.
//!
//! Whatever they contain, the outbox and the status can be shown, every decision of a person is executed or refused, a push
//! ends well, and the edit of another record is sent.

use crm_mirror::api::ApiKey;
use crm_mirror::app::status;
use crm_mirror::model::{Clock, Object, RecordId};
use crm_mirror::outbox::EditWatch;
use crm_mirror::outbox::user_decisions::{Decision, decide, undo};
use crm_mirror::store::{Reader, StoreError, outbox_report};
use crm_mirror::sync::Job;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::mirrored::{Mirrored, mirrored, triggers};
use super::{choice, parts};

/// The columns that an input sets, in order. `id` and the states of other rows are as SQLite makes them.
const COLUMNS: [&str; 17] = [
    "fields",
    "state",
    "object_type",
    "record_id",
    "source",
    "base_etag",
    "body",
    "if_match",
    "idempotency_key",
    "attempts",
    "first_sent_at",
    "status",
    "answer",
    "theirs",
    "merged_into",
    "queued_at",
    "released_at",
];
const INTEGERS: [&str; 3] = ["attempts", "status", "merged_into"];
const REQUIRED: [&str; 7] = ["fields", "state", "object_type", "record_id", "source", "attempts", "queued_at"];

thread_local! {
    static OPEN: (Connection, Reader) = (without_triggers(), Reader::open(&mirrored().mirror.path).unwrap());
}

/// The checks write rows that no shell can write, as somebody who switches the triggers off.
fn without_triggers() -> Connection {
    let conn = mirrored().connection();
    triggers(&conn, false);
    conn
}

/// Checks rows: the first byte chooses whether they are pushed.
pub fn check(data: &[u8]) {
    let (which, data) = choice(data);
    let mirrored = mirrored();
    OPEN.with(|(conn, reader)| {
        conn.execute_batch("BEGIN; DELETE FROM outbox_events; DELETE FROM outbox; DELETE FROM outbox_delays").unwrap();
        for row in data.split(|byte| *byte == 0x1d).take(3) {
            insert(conn, row);
        }
        if which & 8 != 0 {
            delay(mirrored, conn);
        }
        conn.execute_batch("COMMIT").unwrap();
        shown(mirrored, reader);
        decided(mirrored);
        if which % 4 == 0 {
            pushed(mirrored, conn);
            shown(mirrored, reader);
        }
    });
}

fn insert(conn: &Connection, row: &[u8]) {
    let values = COLUMNS.iter().zip(parts::<17>(row)).map(|(column, text)| {
        let required = REQUIRED.contains(column);
        if INTEGERS.contains(column) {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
            return number.map_or(if required { Value::Integer(0) } else { Value::Null }, Value::Integer);
        }
        let default: &[u8] = match *column {
            "state" => b"queued",
            "object_type" => b"contact",
            "record_id" => b"ct0",
            _ => b"",
        };
        match (text.is_empty(), required) {
            (true, false) => Value::Null,
            (true, true) => Value::Blob(default.into()),
            (false, _) => Value::Blob(text.into()),
        }
    });
    let values: Vec<Value> = values.collect();
    let places: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(
            |(n, column)| {
                if INTEGERS.contains(column) { format!("?{}", n + 1) } else { format!("CAST(?{} AS TEXT)", n + 1) }
            },
        )
        .collect();
    let sql = format!("INSERT INTO outbox ({}) VALUES ({})", COLUMNS.join(", "), places.join(", "));
    // A reference to a row that does not exist is refused if the connection asks for that.
    let _ = conn.prepare_cached(&sql).unwrap().execute(params_from_iter(values));
}

/// A delay of the record of each row, with whatever its columns contain.
fn delay(mirrored: &Mirrored, conn: &Connection) {
    let key = ApiKey::new(&mirrored.crm.key).unwrap().fingerprint();
    conn.prepare_cached(
        "INSERT OR IGNORE INTO outbox_delays SELECT object_type, 'record', record_id, coalesce(status, 1), attempts,
           coalesce(first_sent_at, queued_at), queued_at, ?1 FROM outbox",
    )
    .and_then(|mut stmt| stmt.execute([key]))
    .unwrap();
}

fn shown(mirrored: &Mirrored, reader: &Reader) {
    let now = mirrored.crm.clock.now();
    let moment = reader.begin().unwrap();
    for all in [false, true] {
        let edits = outbox_report::edits(&moment, all).expect("the list of edits");
        serde_json::to_string(&edits).expect("the list as JSON");
    }
    outbox_report::counts(&moment).expect("the number of edits");
    status::at_moment(&moment, &mirrored.config, now).expect("the status");
    EditWatch::new(&mirrored.mirror.path).outlook(now).expect("when the next edit is due");
}

fn unless_refused<T: std::fmt::Debug>(done: &Result<T, StoreError>) {
    assert!(matches!(done, Ok(_) | Err(StoreError::Refused(_))), "{done:?}");
}

/// Every decision on every row; nothing is kept.
fn decided(mirrored: &Mirrored) {
    let now = mirrored.crm.clock.now();
    use Decision::{Drop, Mine, Release, Retry, Theirs};
    let done = mirrored.runtime.block_on(mirrored.store.write(move |tx| {
        for (object, record, _) in tx.edited_records()? {
            tx.edits_of(object, &record)?;
        }
        let ids: Vec<i64> = outbox_report::edits(tx, true)?.iter().map(|line| line.id).collect();
        for (number, id) in ids.iter().enumerate() {
            for decision in [Retry, Mine, Theirs, Release, Drop].into_iter().skip(number) {
                unless_refused(&decide(tx, *id, decision, now));
            }
        }
        unless_refused(&undo(tx, &ids, now));
        tx.edits().hold_new_edits("held", now)?;
        tx.edits().reject_edits_of_removed(Object::Contact, &[RecordId::new("ct0")], now)?;
        Err::<(), _>(StoreError::Interrupted)
    }));
    assert!(matches!(done, Err(StoreError::Interrupted)), "{done:?}");
}

/// A push sends the edit of another record, whatever else is waiting.
fn pushed(mirrored: &Mirrored, conn: &Connection) {
    mirrored.crm.wait(86_400);
    conn.execute_batch("UPDATE outbox SET released_at = '2026-01-01T00:00:00.000000Z'").unwrap();
    triggers(conn, true);
    let edit = "UPDATE contacts_full SET position = CASE position WHEN 'A' THEN 'B' ELSE 'A' END WHERE id = 'ct3'";
    conn.execute_batch(edit).unwrap();
    triggers(conn, false);
    let ours = conn.query_row("SELECT max(id) FROM outbox WHERE record_id = 'ct3'", [], |row| row.get(0));
    let ours: Option<i64> = ours.unwrap();
    let alone = conn.query_row("SELECT count(*) FROM outbox WHERE record_id = 'ct3'", [], |row| row.get(0));
    let alone: i64 = alone.unwrap();
    let ran = mirrored.runtime.block_on(mirrored.engine.run(&Job::push(), "test"));
    assert!(ran.is_ok(), "{ran:?}");
    mirrored.crm.sandbox.clear_log();
    conn.execute_batch("DELETE FROM sync_runs").unwrap();
    if let (Some(ours), 1) = (ours, alone) {
        let state: String = conn.query_row("SELECT state FROM outbox WHERE id = ?1", [ours], |row| row.get(0)).unwrap();
        assert_eq!(state, "applied");
    }
}
