//! Edits made in SQL: what an UPDATE of a view queues, and what it refuses with which message, in the machine's own
//! shell.

use crate::outbox_bench::by_hand;
use crate::support::{Crm, Mirror, noon, shell};
use crm_mirror::model::{Clock, DataType, Object};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::{self, EditRequest};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::{Reader, Store, outbox_report};
use crm_mirror::sync::Job;
use serde_json::{Value, json};

const CONTACT: Object = Object::Contact;

/// Two contacts and a company with a field of every type, one read-only, one required, one archived.
fn world() -> World {
    let mut world = World::new(noon());
    for object in Object::ALL {
        for data_type in DataType::ALL {
            let key = data_type.as_str().to_lowercase();
            world.fields().define(NewField::new(object, &key, data_type).options(&["x=Ex", "y", "it's"]));
        }
        world.fields().define(NewField::new(object, "fixed", DataType::ShortText));
        world.fields().redefine(object, "fixed", |field| field.writable = false);
        world.fields().define(NewField::new(object, "must", DataType::ShortText));
        world.fields().redefine(object, "must", |field| field.required = true);
        world.fields().define(NewField::new(object, "old", DataType::ShortText));
        world.fields().archive(object, "old");
    }
    let custom = json!({"short_text": "s", "decimal": "1.50", "must": "m", "multi_select": ["x"], "boolean": true,
                        "datetime": "2026-01-02T03:04:05.000Z"});
    for id in ["a", "b"] {
        world.create(
            CONTACT,
            &json!({"id": id, "name": "Ann", "position": "CEO", "notes": "old", "email": "a@x.com", "customFields": custom}),
        );
    }
    world.create(Object::Company, &json!({"id": "p", "name": "Acme", "industry": "Food", "customFields": custom}));
    world
}

async fn mirrored(world: World) -> (Crm, Mirror) {
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    (crm, mirror)
}

/// Runs a statement in the machine's own shell. The built-in SQLite must give the same result.
fn edit(mirror: &Mirror, sql: &str) -> Result<(), String> {
    let mut conn = rusqlite::Connection::open(&mirror.path).unwrap();
    let tx = conn.transaction().unwrap();
    let built_in = tx.execute_batch(sql).map_err(|e| e.to_string());
    if !shell::is_there() {
        tx.commit().unwrap();
        return built_in;
    }
    tx.rollback().unwrap();
    let in_shell = shell::write(&mirror.path, sql).map(|out| assert_eq!(out, "", "{sql}"));
    match (&in_shell, &built_in) {
        (Ok(()), Ok(())) => {}
        (Err(shell), Err(built_in)) => {
            let built_in = built_in.split(" in UPDATE").next().unwrap();
            assert!(shell.contains(built_in), "{shell}; {built_in}");
        }
        differ => panic!("{sql}: {differ:?}"),
    }
    in_shell
}

/// The edits in the outbox: record and fields.
fn queued(mirror: &Mirror) -> Vec<(String, Value)> {
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT record_id, fields FROM outbox ORDER BY id").unwrap();
    stmt.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .map(|(id, fields)| (id, serde_json::from_str(&fields).unwrap()))
        .collect()
}

#[tokio::test]
async fn update_queues_one_edit_with_its_changes_and_first_history_entry() {
    let (_crm, mirror) = mirrored(world()).await;
    edit(
        &mirror,
        "UPDATE contacts_full SET position = 'CTO', notes = 'new', cf_short_text = 's', cf_decimal = '12.50',
         cf_boolean = 0, cf_integer = 7, cf_date = '2024-02-29', cf_datetime = '2026-01-02T05:04:05.1+02:00',
         cf_single_select = 'it''s', cf_multi_select = '[ \"y\", \"x\" ]', cf_long_text = 'a\"b' WHERE id = 'a'",
    )
    .unwrap();
    let fields = json!({
        "position": ["CEO", "CTO"], "notes": ["old", "new"], "cf_decimal": ["1.50", "12.50"], "cf_boolean": [1, 0],
        "cf_integer": [null, 7], "cf_date": [null, "2024-02-29"],
        "cf_datetime": ["2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.100000Z"],
        "cf_single_select": [null, "it's"], "cf_multi_select": ["[\"x\"]", "[\"y\",\"x\"]"],
        "cf_long_text": [null, "a\"b"],
    });
    assert_eq!(queued(&mirror), [("a".to_string(), fields)]);
    assert_eq!(
        mirror.one("SELECT concat_ws('|', object_type, state, source, attempts, base_etag = (SELECT etag FROM contacts WHERE id = 'a'), body IS NULL) FROM outbox"),
        "'contact|queued|sql|0|1|1'"
    );
    let form =
        "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z";
    assert_eq!(mirror.one(&format!("SELECT queued_at GLOB '{form}' FROM outbox")), "1");
    assert_eq!(
        mirror.one(
            "SELECT concat_ws('|', e.outbox_id = o.id, e.at = o.queued_at, e.from_state IS NULL, e.to_state, e.why)
             FROM outbox_events AS e, outbox AS o"
        ),
        "'1|1|1|queued|changed with SQL'"
    );
    assert_eq!(
        mirror.one(
            "SELECT group_concat(concat_ws('|', edit_id, object_type, record_id, name, column_name, before, after, theirs IS NULL,
                                           state, since = (SELECT queued_at FROM outbox)), char(10))
             FROM (SELECT * FROM pending_edits WHERE column_name IN ('position', 'cf_decimal', 'cf_multi_select')
                   ORDER BY column_name)"
        ),
        "'1|contact|a|Ann|cf_decimal|1.50|12.50|1|queued|1\n\
         1|contact|a|Ann|cf_multi_select|[\"x\"]|[\"y\",\"x\"]|1|queued|1\n\
         1|contact|a|Ann|position|CEO|CTO|1|queued|1'"
    );
    // The view shows the service's value until the service has applied the edit.
    assert_eq!(mirror.one("SELECT position FROM contacts_full WHERE id = 'a'"), "'CEO'");
}

#[tokio::test]
async fn statement_over_many_rows_makes_an_edit_per_changed_row() {
    let (_crm, mirror) = mirrored(world()).await;
    edit(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE name = 'Ann'").unwrap();
    assert_eq!(queued(&mirror).iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    edit(&mirror, "UPDATE contacts_full SET position = CASE id WHEN 'b' THEN 'COO' ELSE position END").unwrap();
    assert_eq!(queued(&mirror)[2..], [("b".to_string(), json!({"position": ["CEO", "COO"]}))]);
    // Setting the record's value cancels the waiting edit; another value replaces it.
    let states = "SELECT group_concat(state) FROM (SELECT state FROM outbox ORDER BY id)";
    assert_eq!((mirror.one(states).as_str(), mirror.count("outbox_events")), ("'dropped,replaced,queued'", 5));
    edit(&mirror, "UPDATE companies_full SET industry = upper(industry), cf_boolean = FALSE").unwrap();
    assert_eq!(queued(&mirror)[3..], [("p".to_string(), json!({"industry": ["Food", "FOOD"], "cf_boolean": [1, 0]}))]);
    // One refused row reverts the whole statement.
    let refused = edit(&mirror, "UPDATE contacts_full SET cf_integer = CASE id WHEN 'b' THEN 'x' ELSE 1 END");
    assert!(refused.unwrap_err().contains("cf_integer"), "the error names the column");
    assert_eq!((mirror.count("outbox"), mirror.count("outbox_events")), (4, 6));
}

#[tokio::test]
async fn unchanged_values_queue_nothing_and_empty_values_clear() {
    let (_crm, mirror) = mirrored(world()).await;
    for nothing in [
        "position = position, notes = notes, cf_multi_select = cf_multi_select, name = name, synced_at = synced_at",
        "position = 'CEO', cf_boolean = 1, cf_decimal = '1.50'",
        "cf_multi_select = '[\"x\" ]', cf_datetime = '2026-01-02T03:04:05Z'",
        "cf_long_text = '', cf_single_select = '', cf_integer = NULL",
    ] {
        edit(&mirror, &format!("UPDATE contacts_full SET {nothing} WHERE id = 'a'")).unwrap();
        assert_eq!(queued(&mirror), [], "{nothing}");
    }
    for (set, fields) in [
        ("position = NULL, notes = ''", json!({"position": ["CEO", null], "notes": ["old", ""]})),
        ("cf_short_text = ''", json!({"cf_short_text": ["s", null]})),
        ("cf_multi_select = '[]'", json!({"cf_multi_select": ["[\"x\"]", null]})),
        ("cf_multi_select = json_array('y')", json!({"cf_multi_select": ["[\"x\"]", "[\"y\"]"]})),
        ("cf_integer = '5'", json!({"cf_integer": [null, 5]})),
        ("cf_decimal = 12, position = 7", json!({"cf_decimal": ["1.50", "12"], "position": ["CEO", "7"]})),
    ] {
        edit(&mirror, &format!("UPDATE contacts_full SET {set} WHERE id = 'a'")).unwrap();
        assert_eq!(queued(&mirror).pop(), Some(("a".to_string(), fields)), "{set}");
    }
}

#[tokio::test]
async fn columns_that_cannot_be_edited_are_refused_with_name_and_reason() {
    let (_crm, mirror) = mirrored(world()).await;
    for (set, message) in [
        ("name = 'x'", "name is read-only at the service"),
        ("id = 'x'", "id is read-only at the service"),
        ("email = NULL", "email is read-only at the service"),
        ("etag = 'x'", "etag is read-only at the service"),
        ("position = 'x', qualification = 1", "qualification is read-only at the service"),
        ("notes_at = 'x'", "notes_at is read-only at the service"),
        ("cf_fixed = 'x'", "cf_fixed is not writable by its definition"),
        ("cf_decimal_num = 1", "cf_decimal_num is derived from cf_decimal: change that column instead"),
        ("details_current = 0", "details_current is derived and cannot be changed"),
        ("owner_name = 'x'", "owner_name is derived and cannot be changed"),
        ("extra = '{}'", "extra is derived and cannot be changed"),
        ("cf_old = 'x'", "no such column: cf_old"),
        ("position = x'41'", "position takes text without the character U+0000; NULL clears it"),
        ("position = 'a' || char(0)", "position takes text without the character U+0000"),
        ("cf_short_text = 'a' || char(0)", "cf_short_text takes text"),
        ("cf_short_text = printf('%256d', 1)", "cf_short_text takes text of at most 255 characters; NULL clears it"),
        ("cf_must = NULL", "cf_must takes text of at most 255 characters; it cannot be cleared"),
        ("cf_must = ''", "cf_must takes text of at most 255 characters; it cannot be cleared"),
        ("cf_long_text = printf('%10001d', 1)", "cf_long_text takes text of at most 10000 characters"),
        ("cf_integer = 1.5", "cf_integer takes a whole number"),
        ("cf_integer = 9223372036854775808", "cf_integer takes a whole number"),
        ("cf_integer = 'many'", "cf_integer takes a whole number"),
        ("cf_integer = 9e999", "cf_integer takes a whole number"),
        ("cf_decimal = '1e3'", "cf_decimal takes a decimal as text"),
        ("cf_decimal = '100000000000000000000'", "cf_decimal takes a decimal as text"),
        ("cf_decimal = '0.12345678901'", "cf_decimal takes a decimal as text"),
        ("cf_decimal = '1.'", "cf_decimal takes a decimal as text"),
        ("cf_decimal = ''", "cf_decimal takes a decimal as text"),
        ("cf_boolean = 2", "cf_boolean takes 0 (false) or 1 (true)"),
        ("cf_boolean = 'true'", "cf_boolean takes 0 (false) or 1 (true)"),
        ("cf_date = '2023-02-29'", "cf_date takes a real date"),
        ("cf_date = 'now'", "cf_date takes a real date"),
        ("cf_date = '2024-02-29T00:00:00Z'", "cf_date takes a real date"),
        ("cf_datetime = '2026-01-02T03:04:05'", "cf_datetime takes a timestamp with a time zone"),
        ("cf_datetime = '2026-01-02T24:00:00Z'", "cf_datetime takes a timestamp with a time zone"),
        ("cf_datetime = '2026-02-30T03:04:05Z'", "cf_datetime takes a timestamp with a time zone"),
        ("cf_datetime = '2026-13-45T99:99:99.000000Z'", "cf_datetime takes a timestamp with a time zone"),
        ("cf_datetime = ''", "cf_datetime takes a timestamp with a time zone"),
        ("cf_single_select = 'Ex'", "cf_single_select takes the value of one of its options"),
        ("cf_multi_select = ''", "cf_multi_select takes a JSON array"),
        ("cf_multi_select = 'x'", "cf_multi_select takes a JSON array"),
        ("cf_multi_select = '\"x\"'", "cf_multi_select takes a JSON array"),
        ("cf_multi_select = '[\"x\", \"w\"]'", "cf_multi_select takes a JSON array"),
        ("cf_multi_select = '[1]'", "cf_multi_select takes a JSON array"),
        (
            "cf_multi_select = (WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 101)
             SELECT json_group_array('x') FROM n)",
            "cf_multi_select takes a JSON array of at most 100",
        ),
    ] {
        let refused = edit(&mirror, &format!("UPDATE contacts_full SET {set} WHERE id = 'a'"));
        let refused = refused.expect_err(set);
        assert!(refused.contains(message), "{set}: {refused}");
        assert_eq!((mirror.count("outbox"), mirror.count("outbox_events")), (0, 0), "{set}");
    }
    for (sql, message) in [
        ("UPDATE companies_full SET industry = ' ' || char(160, 9)", "industry takes text with a character"),
        ("UPDATE companies_full SET notes = 'x'", "notes is read-only at the service"),
        (
            "UPDATE companies_full SET revenue_num = 1",
            "revenue_num is derived from revenue: change that column instead",
        ),
        ("INSERT INTO contacts_full (id) VALUES ('n')", "cannot modify contacts_full because it is a view"),
        ("DELETE FROM companies_full WHERE id = 'p'", "cannot modify companies_full because it is a view"),
    ] {
        let refused = edit(&mirror, sql).expect_err(sql);
        assert!(refused.contains(message), "{sql}: {refused}");
    }
    assert_eq!(mirror.count("outbox"), 0);
    assert_eq!(mirror.count("companies"), 1);
}

#[tokio::test]
async fn without_write_back_nothing_is_queued_and_the_error_shows_how_to_enable_it() {
    let (crm, mut mirror) = mirrored(world()).await;
    mirror.settings.write_back = false;
    mirror.sync(&crm).await;
    let change = "UPDATE contacts_full SET position = 'CTO' WHERE id = 'a'";
    let refused = edit(&mirror, change).unwrap_err();
    assert!(refused.contains("set enabled = true below [write_back]"), "{refused}");
    assert_eq!(mirror.count("outbox"), 0);
    let triggers =
        || mirror.one("SELECT count(*) FROM sqlite_schema WHERE tbl_name = 'contacts_full' AND type = 'trigger'");
    assert_eq!(triggers(), "1", "every connection to the file parses and keeps them");
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    edit(&mirror, change).unwrap();
    assert_eq!(mirror.count("outbox"), 1);
}

#[tokio::test]
async fn detail_fields_are_edited_on_the_version_that_was_seen() {
    let (crm, mut mirror) = mirrored(world()).await;
    let seen = mirror.one("SELECT etag FROM contact_details WHERE contact_id = 'a'");
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"notes": "newer", "position": "CIO"})));
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    let current = mirror.one("SELECT etag FROM contacts WHERE id = 'a'");
    assert_ne!(current, seen);
    let none = "NULL".to_string();
    for set in ["position = 'x'", "position = 'x', notes = 'x'", "cf_long_text = 'x'"] {
        edit(&mirror, &format!("UPDATE contacts_full SET {set} WHERE id = 'a'")).unwrap();
    }
    let base = |id: i64| mirror.one(&format!("SELECT base_etag FROM outbox WHERE id = {id}"));
    assert_eq!([base(1), base(2), base(3)], [current, none.clone(), none], "of another version: it is read first");
}

#[tokio::test]
async fn fifteen_hundred_fields_can_be_edited_in_a_stock_shell() {
    let fields = 1500;
    let mut world = World::new(noon());
    for n in 0..fields {
        let data_type = [DataType::ShortText, DataType::MultiSelect, DataType::DateTime][n % 3];
        world.fields().define(NewField::new(CONTACT, &format!("f{n:04}"), data_type).options(&["a", "b"]));
    }
    world.create(CONTACT, &json!({"id": "ct", "customFields": {"f0000": "x"}}));
    let (_crm, mirror) = mirrored(world).await;
    edit(&mirror, "UPDATE contacts_full SET cf_f0000 = 'y', cf_f1498 = '[\"b\"]', cf_f1499 = '2026-01-02T03:04:05Z'")
        .unwrap();
    let fields = json!({"cf_f0000": ["x", "y"], "cf_f1498": [null, "[\"b\"]"],
                        "cf_f1499": [null, "2026-01-02T03:04:05.000000Z"]});
    assert_eq!(queued(&mirror), [("ct".to_string(), fields)]);
    let refused = edit(&mirror, "UPDATE contacts_full SET cf_f1498 = '[\"c\"]'").unwrap_err();
    assert!(refused.contains("cf_f1498 takes a JSON array"), "{refused}");
    let set = |count: usize| {
        let sets: Vec<String> = (0..count).map(|n| format!("cf_f{:04} = 'v'", n * 3)).collect();
        format!("UPDATE contacts_full SET {}", sets.join(", "))
    };
    edit(&mirror, &set(100)).unwrap();
    let refused = edit(&mirror, &set(101)).unwrap_err();
    assert!(refused.contains("at most 100 custom fields"), "{refused}");
    assert_eq!(mirror.count("outbox"), 2);
    assert_eq!(mirror.one("PRAGMA integrity_check"), "'ok'");
}

#[tokio::test]
async fn hostile_keys_and_ids_can_be_edited() {
    let mut world = World::new(noon());
    let keys = ["x'); DROP TABLE outbox; --", "a\"b", "$.a", "line\nbreak"];
    let id = "x'; DELETE FROM contacts; --\"";
    for key in keys {
        world.fields().define(NewField::new(CONTACT, key, DataType::SingleSelect).options(&["'\"", "b"]));
    }
    world.create(CONTACT, &json!({"id": id, "name": "Eve"}));
    let (_crm, mirror) = mirrored(world).await;
    edit(
        &mirror,
        "UPDATE contacts_full SET cf_x____drop_table_outbox____ = '''\"', cf_a_b = 'b', cf___a = 'b', cf_line_break = 'b'",
    )
    .unwrap();
    let one = json!([null, "b"]);
    let fields =
        json!({"cf_x____drop_table_outbox____": [null, "'\""], "cf_a_b": one, "cf___a": one, "cf_line_break": one});
    assert_eq!(queued(&mirror), [(id.to_string(), fields)]);
    assert_eq!(mirror.count("contacts"), 1);
}

#[tokio::test]
async fn unreadable_row_of_the_outbox_is_rejected_and_blocks_nothing() {
    let (crm, mirror) = mirrored(world()).await;
    edit(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id = 'b'").unwrap();
    for fields in ["'no JSON'", "'{}'", "CAST(x'7b22706f736974696f6e223a5b6e756c6c2c22ff225d7d' AS TEXT)"] {
        by_hand(
            &mirror,
            &format!(
                "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
                 VALUES ('contact', 'a', 'sql', {fields}, '2026-03-01T12:00:00.000000Z')"
            ),
        );
    }
    mirror.sync(&crm).await;
    let there = crm.sandbox.with_world(|world| world.detail_json(CONTACT, "b")).unwrap();
    assert_eq!(there["position"], json!("CTO"));
    assert_eq!(
        mirror.one("SELECT group_concat(state) FROM (SELECT state FROM outbox ORDER BY id)"),
        "'applied,rejected,rejected,rejected'"
    );
    let why = mirror.one("SELECT group_concat(why, '; ') FROM outbox_events WHERE to_state = 'rejected'");
    for part in ["cannot be parsed", "changes no field", "not UTF-8"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(mirror.one("SELECT count(*) FROM pending_edits"), "0");
}

/// Anybody can write to `outbox`: a row with impossible columns.
#[tokio::test]
async fn row_that_is_no_edit_hides_and_blocks_no_other() {
    let (crm, mirror) = mirrored(world()).await;
    edit(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id = 'b'").unwrap();
    const NOT_UTF8: &str = "CAST(x'ff' AS TEXT)";
    for (column, value) in [
        ("object_type", "'dog'"),
        ("object_type", NOT_UTF8),
        ("state", "'unknown'"),
        ("record_id", NOT_UTF8),
        ("source", NOT_UTF8),
        ("status", "70000"),
        ("answer", NOT_UTF8),
        ("theirs", NOT_UTF8),
        ("queued_at", NOT_UTF8),
        ("last_sent_at", NOT_UTF8),
        ("finished_at", NOT_UTF8),
    ] {
        let insert = "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
            VALUES ('contact', 'a', 'sql', '{\"notes\":[\"old\",\"new\"]}', '2026-03-01T12:00:00.000000Z')";
        let change = format!("UPDATE outbox SET {column} = {value} WHERE id = (SELECT max(id) FROM outbox)");
        by_hand(&mirror, &format!("{insert}; {change}"));
    }
    by_hand(
        &mirror,
        "UPDATE outbox SET attempts = 9223372036854775807 WHERE id = 1;
         INSERT INTO outbox_events (outbox_id, at, to_state, why) VALUES (1, CAST(x'ff' AS TEXT), '', CAST(x'ff' AS TEXT));
         INSERT INTO outbox_delays VALUES ('contact', 'record', 'b', -1, 4294967296, '', CAST(x'ff' AS TEXT), NULL)",
    );
    let now = crm.clock.now();
    {
        let reader = Reader::open(&mirror.path).unwrap();
        let moment = reader.begin().unwrap();
        let ids = |all| outbox_report::edits(&moment, all).unwrap().iter().map(|line| line.id).collect::<Vec<_>>();
        // The last one has a time at which it finished.
        assert_eq!(ids(false), [1, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(ids(true), [1, 5, 6, 7, 8, 9, 10, 11, 12], "a row that is no edit is not listed");
        let (line, trail) = outbox_report::edit(&moment, 1).unwrap();
        assert_eq!((line.attempts, trail.len()), (i64::MAX.unsigned_abs(), 2));
        assert_eq!(outbox_report::edit(&moment, 2).unwrap_err().to_string(), "there is no edit 2");
        assert_eq!(outbox_report::counts(&moment).unwrap().queued, 10);
        assert_eq!(outbox::EditWatch::new(&mirror.path).outlook(now).unwrap().0, Some(now));
    }
    mirror.run(&crm, &Job::push()).await.unwrap();
    let there = crm.sandbox.with_world(|world| world.detail_json(CONTACT, "b")).unwrap();
    assert_eq!(there["position"], json!("CTO"));
    assert_eq!(mirror.one("SELECT attempts FROM outbox WHERE id = 1"), i64::MAX.to_string());
}

/// As the daemon queues edits: through the writer, in a separate transaction.
#[tokio::test]
async fn edit_through_the_writer_is_validated_and_queued() {
    let (crm, mirror) = mirrored(world()).await;
    let request = |changes: &[(&str, Value)]| EditRequest {
        object: CONTACT,
        record: "a".into(),
        changes: changes.iter().map(|(name, value)| (name.to_string(), Given::Json(value.clone()))).collect(),
    };
    let (good, bad) = (
        request(&[("position", json!("CTO")), ("cf_boolean", json!(false)), ("cf_short_text", json!("s"))]),
        request(&[("cf_boolean", json!(0))]),
    );
    let store = Store::open(&mirror.path).unwrap();
    let now = crm.clock.now();
    let (queued, refused) = store
        .write_durably(move |tx| {
            let queue = |request| outbox::queue(tx, request, now);
            Ok((queue(&good), queue(&bad)))
        })
        .await
        .unwrap();
    store.close().await;
    assert_eq!(queued.unwrap().edit, Some(1));
    assert!(refused.unwrap_err().to_string().contains("`cf_boolean` takes 0 (false) or 1 (true)"));
    assert_eq!(self::queued(&mirror), [("a".to_string(), json!({"position": ["CEO", "CTO"], "cf_boolean": [1, 0]}))]);
    assert_eq!(
        mirror.one("SELECT concat_ws('|', source, queued_at, why) FROM outbox, outbox_events"),
        format!("'edit|{now}|changed with `crm-mirror edit`'")
    );
}

#[tokio::test]
async fn tables_refuse_changes_and_name_the_view_and_a_dump_can_be_restored() {
    let (crm, mirror) = mirrored(world()).await;
    for (table, part) in [
        ("contacts", "change contacts_full instead"),
        ("contact_details", "change contacts_full instead"),
        ("companies", "change companies_full instead"),
        ("company_details", "change companies_full instead"),
        ("team_members", "contacts_full and companies_full take edits"),
        ("custom_field_definitions", "contacts_full and companies_full take edits"),
        ("custom_field_options", "contacts_full and companies_full take edits"),
        ("custom_multi_values", "contacts_full and companies_full take edits"),
        ("removed_records", "contacts_full and companies_full take edits"),
        ("changes", "contacts_full and companies_full take edits"),
    ] {
        let column = mirror.one(&format!("SELECT name FROM pragma_table_info('{table}') LIMIT 1"));
        let column = column.trim_matches('\'');
        let rows = mirror.count(table);
        let refuses = |sql: String| {
            let refused = edit(&mirror, &sql).expect_err(&sql);
            assert!(refused.contains(&format!("{table} is written by crm-mirror alone: {part}")), "{sql}: {refused}");
        };
        refuses(format!("INSERT INTO {table} ({column}) VALUES ('1')"));
        if rows > 0 {
            refuses(format!("UPDATE {table} SET {column} = {column}"));
            refuses(format!("DELETE FROM {table}"));
        }
        assert_eq!(mirror.count(table), rows);
    }
    // The program itself is not refused.
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"name": "Bea"})));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    if !shell::is_there() {
        return;
    }
    let dump = std::process::Command::new("sqlite3").arg(&mirror.path).arg(".dump").output().unwrap().stdout;
    let restored = mirror.dir.path().join("restored.db");
    let conn = rusqlite::Connection::open(&restored).unwrap();
    conn.execute_batch(&String::from_utf8(dump).unwrap()).unwrap();
    let count: i64 = conn.query_row("SELECT count(*) FROM contacts_full", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}
