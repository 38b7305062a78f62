//! What one row of an `UPDATE` costs does not depend on the number of rows, nor on that of the edits in the outbox.
//!
//! The cost is counted in steps of SQLite's virtual machine, which a machine under load does not change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::outbox_bench::by_hand;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::{Reader, editable};
use rusqlite::config::DbConfig;
use serde_json::json;

/// How many steps of the virtual machine make one count.
const STEP: i32 = 100;

async fn mirrored(contacts: usize) -> Mirror {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "word", DataType::ShortText));
    for n in 0..contacts {
        world.create(Object::Contact, &json!({"id": format!("c{n:04}"), "name": "Ann", "notes": "old"}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    mirror
}

/// The steps that a statement takes; it is taken back.
fn steps(mirror: &Mirror, sql: &str) -> u64 {
    let mut conn = rusqlite::Connection::open(&mirror.path).unwrap();
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    conn.progress_handler(STEP, Some(move || counted.fetch_add(1, Ordering::Relaxed) == u64::MAX)).unwrap();
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {sql}; ROLLBACK")).unwrap();
    steps.load(Ordering::Relaxed)
}

/// Puts so many finished edits, and an open one of as many other records, into the outbox.
fn fill(mirror: &Mirror, edits: u32) {
    by_hand(
        mirror,
        &format!(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {edits})
             INSERT INTO outbox (object_type, record_id, state, source, fields, queued_at, finished_at, tried_at)
             SELECT 'contact', 'c0001', 'applied', 'sql', '{{\"position\":[null,\"x\"]}}', '2026-03-01T12:00:00.000000Z',
               '2026-03-01T12:00:00.000000Z', '2026-03-01T12:00:00.000000Z' FROM n
             UNION ALL SELECT 'contact', 'other' || n, 'queued', 'sql', '{{\"position\":[null,\"x\"]}}', '2026-03-01T12:00:00.000000Z',
               NULL, NULL FROM n;
             INSERT INTO outbox_events (outbox_id, at, to_state, why) SELECT id, queued_at, state, 'a test' FROM outbox"
        ),
    );
}

#[tokio::test]
async fn row_of_an_update_costs_the_same_whatever_else_is_in_the_outbox() {
    let mirror = mirrored(400).await;
    let set = |rows: u32| {
        format!("UPDATE contacts_full SET position = 'ä', notes = 'n', cf_word = 'w' WHERE id < 'c{rows:04}'")
    };
    let (few, many) = (steps(&mirror, &set(100)), steps(&mirror, &set(400)));
    assert!(many < few * 6, "{few} for 100 rows, {many} for 400");
    // The rows have waiting edits by then, which a second statement replaces.
    let again = |rows: u32| format!("{}; UPDATE contacts_full SET position = 'b' WHERE id < 'c{rows:04}'", set(rows));
    let (few_again, many_again) = (steps(&mirror, &again(100)), steps(&mirror, &again(400)));
    assert!(many_again < few_again * 6, "{few_again} for 100 rows, {many_again} for 400");
    fill(&mirror, 5_000);
    let beside = steps(&mirror, &set(100));
    assert!(beside < few * 2, "{few} in an empty outbox, {beside} beside 10,000 edits");
}

/// Statements on all columns of a record that can be edited, of each object.
fn updates(mirror: &Mirror) -> Vec<String> {
    let update = |object: Object| {
        let reader = Reader::open(&mirror.path).unwrap();
        let columns = editable::editability(&reader.begin().unwrap(), object).unwrap();
        let sets: Vec<String> = columns
            .iter()
            .filter(|(_, editability)| editability.is_ok())
            .map(|(name, _)| format!("{name} = 'x'"))
            .collect();
        format!("UPDATE {} SET {} WHERE id = 'c0001'", object.full_view(), sets.join(", "))
    };
    Object::ALL.map(update).to_vec()
}

async fn with_every_type() -> Mirror {
    let mut world = World::new(noon());
    for object in Object::ALL {
        for data_type in DataType::ALL {
            world.fields().define(NewField::new(object, data_type.as_str(), data_type).options(&["a"]));
        }
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    mirror
}

/// What a statement of an edit may read as a whole: its own values.
const OWN: [&str; 6] = ["outbox_values", "v", "part", "z", "contacts_full", "companies_full"];

#[tokio::test]
async fn statements_of_the_triggers_scan_no_table() {
    let mirror = with_every_type().await;
    let conn = mirror.read();
    assert!(conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRIGGER_EQP, true).unwrap());
    for update in updates(&mirror) {
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {update}")).unwrap();
        let plan: Vec<String> = stmt.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(plan.iter().any(|step| step == "-- TRIGGER outbox_merge"), "{plan:#?}");
        let is_own = |step: &str| OWN.iter().any(|own| step.split(' ').nth(1) == Some(own));
        let scans: Vec<&String> = plan
            .iter()
            .filter(|step| {
                step.starts_with("SCAN ")
                    && !step.contains("VIRTUAL TABLE")
                    && !step.contains("VALUES CLAUSE")
                    && !is_own(step)
            })
            .collect();
        assert!(scans.is_empty(), "{scans:?} of {update}");
    }
}

/// A temporary table costs a row more than all of its statements. Only a text that is not ASCII takes one, and a waiting
/// edit of the record.
#[tokio::test]
async fn row_of_an_update_makes_no_temporary_table() {
    let mirror = with_every_type().await;
    let conn = mirror.read();
    for update in updates(&mirror) {
        let mut stmt = conn.prepare(&format!("EXPLAIN {update}")).unwrap();
        let rows = stmt.query_map([], |row| Ok((row.get::<_, String>(1)?, row.get::<_, Option<String>>(5)?)));
        let (mut trigger, mut makes) = (String::new(), BTreeMap::<String, u32>::new());
        for row in rows.unwrap() {
            let (opcode, text) = row.unwrap();
            match (opcode.as_str(), text) {
                ("Init" | "Trace", Some(text)) if text.starts_with("-- TRIGGER ") => trigger = text[11..].to_string(),
                ("OpenEphemeral" | "SorterOpen" | "OpenAutoindex", _) if !trigger.is_empty() => {
                    *makes.entry(trigger.clone()).or_default() += 1;
                }
                _ => {}
            }
        }
        makes.remove("outbox_merge").unwrap();
        // Options of a select field are a list, which another field's trigger compares with the value.
        makes.retain(|trigger, _| !trigger.ends_with("_select"));
        let makes_edit = format!("{}_update", update.split(' ').nth(1).unwrap());
        assert_eq!(makes, [(makes_edit, 1)].into());
    }
}

/// The check of a text's encoding must not begin anew for each of its parts.
#[tokio::test]
async fn long_text_costs_what_its_length_costs() {
    let mirror = mirrored(2).await;
    let set = |length: u32| {
        format!("UPDATE contacts_full SET notes = replace(hex(zeroblob({length})), '00', 'ä') WHERE id = 'c0001'")
    };
    let (short, long) = (steps(&mirror, &set(2_000)), steps(&mirror, &set(32_000)));
    assert!(long < short * 24, "{short} for 2,000 characters, {long} for 32,000");
}

#[tokio::test]
async fn trail_and_states_of_edits_cannot_be_changed_from_a_shell() {
    let mirror = mirrored(2).await;
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.execute_batch("UPDATE contacts_full SET position = 'x' WHERE id = 'c0001'").unwrap();
    for sql in [
        "DELETE FROM outbox",
        "DELETE FROM outbox_events",
        "UPDATE outbox SET tried_at = NULL, state = 'applied'",
        "UPDATE outbox_events SET why = ''",
        "INSERT INTO outbox_events (outbox_id, at, to_state, why) VALUES (1, '', 'applied', '')",
        "INSERT INTO outbox (object_type, record_id, source, fields, queued_at) VALUES ('contact', 'c0001', '', '{}', '')",
        "INSERT INTO outbox_values (column_name, change) VALUES ('notes', '[\"old\",\"x\"]')",
        "INSERT OR REPLACE INTO outbox_values VALUES ('notes', '[\"old\",\"x\"]', 0, 1)",
    ] {
        let refused = conn.execute_batch(sql).unwrap_err().to_string();
        assert!(refused.contains("is written by crm-mirror alone"), "{sql}: {refused}");
    }
    assert_eq!(mirror.one("SELECT DISTINCT who FROM outbox_events"), "'sql'");
    // Another edit of the column replaces the first one.
    conn.execute_batch("UPDATE contacts_full SET position = 'y' WHERE id = 'c0001'").unwrap();
    assert_eq!(mirror.one("SELECT group_concat(state, ' ') FROM outbox"), "'replaced queued'");
    assert_eq!(mirror.count("outbox_events"), 3);
}
