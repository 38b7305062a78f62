//! Values written in SQL are sent exactly or refused, and the last write to a column wins.

use crate::support::cases::Cases;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Instant, Object, RecordId};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::outbox::{EditRequest, queue};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::store::write_beside;
use crm_mirror::sync::Job;
use proptest::prelude::*;
use serde_json::{Value, json};

const CONTACT: Object = Object::Contact;

fn world() -> World {
    let mut world = World::new(noon());
    for data_type in DataType::ALL {
        let key = data_type.as_str().to_lowercase();
        world.fields().define(NewField::new(CONTACT, &key, data_type).options(&["x", "1.5"]));
    }
    for id in ["a", "b"] {
        world.create(CONTACT, &json!({"id": id, "name": "Ann", "position": "CEO", "language": "en", "notes": "old"}));
    }
    world
}

async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(world()).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.write_back = true;
        mirror.sync(&crm).await;
        crm.wait(3_600);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared("outbox_exact".into(), make).await
}

fn sql(mirror: &Mirror, sql: &str) -> Result<(), String> {
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(sql).map_err(|e| e.to_string())
}

/// Does what `crm-mirror edit` does.
fn in_shell(mirror: &Mirror, id: &str, column: &str, value: &str) -> Option<i64> {
    let request = EditRequest {
        object: CONTACT,
        record: RecordId::from(id),
        changes: vec![(column.into(), Given::Text(value.into()))],
    };
    let now = Instant::system_now();
    write_beside(&mirror.path, |tx| queue(tx, &request, now)).unwrap().edit
}

async fn push(mirror: &Mirror, crm: &Crm) {
    mirror.run(crm, &Job::push()).await.unwrap();
}

fn states(mirror: &Mirror) -> String {
    mirror
        .one("SELECT coalesce(group_concat(state, ' '), '') FROM (SELECT state FROM outbox ORDER BY id)")
        .trim_matches('\'')
        .to_string()
}

fn there(crm: &Crm, id: &str) -> Value {
    crm.sandbox.world().detail_json(CONTACT, id).unwrap()
}

/// The sent bodies.
fn bodies(crm: &Crm) -> Vec<Value> {
    let log = crm.sandbox.log();
    let sent = log.entries().iter().filter(|entry| entry.asked.method == "PATCH");
    sent.map(|entry| serde_json::from_str(entry.body.as_deref().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn rounded_number_is_refused_with_a_message_how_to_write_it() {
    let (crm, mirror) = mirrored().await;
    for set in [
        "cf_decimal = 99999999999999.99",
        "cf_decimal = 1234567890.123456789",
        "cf_decimal = 1.5",
        "cf_decimal = 1e3",
        "position = 12345678901234567890",
        "notes = 0.1 + 0.2",
        "cf_short_text = 1.10",
        "cf_long_text = -1e300",
        "cf_decimal = cf_decimal_num * 2, cf_short_text = 1.5",
    ] {
        let refused = sql(&mirror, &format!("UPDATE contacts_full SET {set} WHERE id = 'a'")).expect_err(set);
        assert!(refused.contains("write it in quotes, as in"), "{set}: {refused}");
    }
    assert_eq!(mirror.count("outbox"), 0);
    sql(
        &mirror,
        "UPDATE contacts_full SET cf_decimal = '12345678901234567890.0123456789', position = '12345678901234567890',
         notes = 42, cf_short_text = '1.10', cf_integer = 9007199254740993, cf_single_select = 1.5 WHERE id = 'a'",
    )
    .unwrap();
    push(&mirror, &crm).await;
    assert_eq!(
        bodies(&crm),
        [json!({"position": "12345678901234567890", "notes": "42", "customFields": {
            "decimal": "12345678901234567890.0123456789", "short_text": "1.10", "integer": 9007199254740993_i64,
            "single_select": "1.5"}})]
    );
    assert_eq!(states(&mirror), "applied");
}

#[tokio::test]
async fn whole_number_is_sent_as_written_or_refused() {
    let (crm, mirror) = mirrored().await;
    for (literal, arrives) in [
        ("12", Some(12)),
        ("13.0", Some(13)),
        ("9007199254740991.0", Some(9_007_199_254_740_991)),
        ("9007199254740993", Some(9_007_199_254_740_993)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("12.5", None),
        ("9007199254740993.0", None),
        ("9007199254740993.5", None),
        ("1e17", None),
        ("123456789012345678.0", None),
        ("9223372036854775807.0", None),
    ] {
        let set = sql(&mirror, &format!("UPDATE contacts_full SET cf_integer = {literal} WHERE id = 'a'"));
        assert_eq!(set.is_ok(), arrives.is_some(), "{literal}: {set:?}");
        if let Some(number) = arrives {
            push(&mirror, &crm).await;
            assert_eq!(there(&crm, "a")["customFields"]["integer"], json!(number), "{literal}");
        }
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_refused_and_any_other_is_sent() {
    let (crm, mirror) = mirrored().await;
    for bytes in ["61ff62", "c3", "6180", "e282", "eda080", "c080", "f8888080", "e0808a", "f4908080"] {
        for (column, before) in [("notes", ""), ("cf_short_text", ""), ("notes", &"x".repeat(600))] {
            let set = format!("{column} = '{before}' || CAST(x'{bytes}' AS TEXT)");
            let refused = sql(&mirror, &format!("UPDATE contacts_full SET {set} WHERE id = 'a'")).expect_err(&set);
            assert!(refused.contains("not UTF-8") || refused.contains("at most 255"), "{set}: {refused}");
        }
    }
    assert_eq!(mirror.count("outbox"), 0);
    let text =
        format!("gr\u{fc}\u{df}e \u{1f600} \u{fffd}\u{ffff}\u{fffe}\u{80}\u{7ff}\u{800}{}", "\u{e9}".repeat(900));
    sql(&mirror, &format!("UPDATE contacts_full SET notes = '{text}' WHERE id = 'a'")).unwrap();
    push(&mirror, &crm).await;
    assert_eq!(there(&crm, "a")["notes"], json!(text));
}

#[tokio::test]
async fn filters_on_the_views_use_their_indexes() {
    let (_crm, mirror) = mirrored().await;
    let conn = mirror.read();
    let plan = |question: &str| -> String {
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {question}")).unwrap();
        let lines = stmt.query_map([], |row| row.get::<_, String>(3)).unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    for view in ["contacts", "contacts_full"] {
        for filter in ["cf_short_text = 'x'", "cf_short_text > 'x' ORDER BY cf_short_text"] {
            let plan = plan(&format!("SELECT id FROM {view} WHERE {filter}"));
            assert!(
                plan.contains("USING INDEX ix_") || plan.contains("USING COVERING INDEX ix_"),
                "{view} {filter}: {plan}"
            );
            assert!(!plan.contains("SCAN"), "{view} {filter}: {plan}");
        }
    }
}

#[tokio::test]
async fn last_edit_counts_and_only_it_is_sent() {
    let (crm, mirror) = mirrored().await;
    let set =
        |value: &str| sql(&mirror, &format!("UPDATE contacts_full SET position = '{value}' WHERE id = 'a'")).unwrap();
    // The old value again: the waiting edit is cancelled.
    set("Wrong");
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'").unwrap();
    assert_eq!(mirror.count("pending_edits"), 2, "an edit of another column cancels nothing");
    set("CEO");
    assert_eq!(states(&mirror), "dropped queued");
    push(&mirror, &crm).await;
    assert_eq!(bodies(&crm), [json!({"language": "de"})]);
    // Two users edit one field: the earlier edit is replaced.
    set("First");
    assert_eq!(in_shell(&mirror, "a", "position", "Second"), Some(4));
    set("Second");
    assert_eq!(states(&mirror), "dropped applied replaced queued", "waiting values are not queued again");
    // A part of an edit is replaced, the rest stays.
    sql(&mirror, "UPDATE contacts_full SET position = 'Third', language = 'fr' WHERE id = 'a'").unwrap();
    set("Fourth");
    assert_eq!(states(&mirror), "dropped applied replaced replaced queued queued");
    push(&mirror, &crm).await;
    assert_eq!(bodies(&crm)[1..], [json!({"language": "fr", "position": "Fourth"})]);
    assert_eq!(states(&mirror), "dropped applied replaced replaced applied applied");
    // From the command line, too.
    set("Wrong");
    assert_eq!(in_shell(&mirror, "a", "position", "Fourth"), None);
    push(&mirror, &crm).await;
    assert_eq!(bodies(&crm).len(), 2);
    assert_eq!(there(&crm, "a")["position"], json!("Fourth"));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn edit_that_is_being_sent_is_reverted_by_a_later_edit() {
    let (crm, mirror) = mirrored().await;
    let set =
        |value: &str| sql(&mirror, &format!("UPDATE contacts_full SET position = '{value}' WHERE id = 'a'")).unwrap();
    set("Wrong");
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    push(&mirror, &crm).await;
    set("Wrong");
    assert_eq!(states(&mirror), "sending", "it has been sent");
    set("CEO");
    assert_eq!(states(&mirror), "sending queued");
    crm.wait(10);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), there(&crm, "a")["position"].clone()), ("applied applied", json!("CEO")));
}

#[tokio::test]
async fn row_that_is_matched_several_times_is_one_edit_with_the_last_value() {
    let (crm, mirror) = mirrored().await;
    sql(
        &mirror,
        "UPDATE contacts_full SET position = t.p, language = t.l
         FROM (VALUES ('a', 'One', 'de'), ('a', 'Two', 'fr'), ('a', 'Three', 'it')) AS v
         JOIN (SELECT column1 AS id, column2 AS p, column3 AS l FROM
               (VALUES ('a', 'One', 'de'), ('a', 'Two', 'fr'), ('a', 'Three', 'it'))) AS t ON t.id = v.column1
         WHERE t.id = contacts_full.id",
    )
    .unwrap();
    assert_eq!(mirror.one("SELECT count(*) FROM outbox WHERE state = 'queued'"), "1");
    push(&mirror, &crm).await;
    assert_eq!(
        (bodies(&crm).len(), mirror.one("SELECT count(*) FROM outbox WHERE state = 'applied'").as_str()),
        (1, "1")
    );
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn empty_text_and_null_are_equal_and_cause_no_conflict() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": null})));
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    sql(&mirror, "UPDATE contacts_full SET position = '' WHERE id = 'a'").unwrap();
    assert_eq!(mirror.count("outbox"), 0);
    sql(&mirror, "UPDATE contacts_full SET position = 'x' WHERE id = 'a'").unwrap();
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": ""})));
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), there(&crm, "a")["position"].clone()), ("applied", json!("x")));
}

#[tokio::test]
async fn unread_notes_are_read_before_an_edit_of_them_and_not_overwritten() {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    let refused = sql(&mirror, "UPDATE contacts_full SET notes = 'ours' WHERE id = 'a'").unwrap_err();
    assert!(refused.contains("notes is unknown in one of these rows"), "{refused}");
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"notes": null})));
    for id in ["a", "b"] {
        in_shell(&mirror, id, "notes", "ours");
    }
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied conflict", "only an empty value is replaced");
    assert_eq!((there(&crm, "a")["notes"].clone(), there(&crm, "b")["notes"].clone()), (json!("ours"), json!("old")));
    assert_eq!(crm.charged(), 4, "two reads and an update");
    assert_eq!(mirror.one("SELECT json_extract(theirs, '$.notes') FROM outbox WHERE record_id = 'b'"), "'old'");
}

/// A value that does not fit its column is kept in `extra`: NULL in the column does not mean that there is none.
#[tokio::test]
async fn value_that_does_not_fit_its_column_is_overwritten_only_by_who_saw_it() {
    let unfit = |crm: &Crm, column: &str| {
        crm.sandbox.with_world(|world| match column {
            "position" => world.edit(CONTACT, "a", &json!({"position": 7})),
            _ => world.edit(CONTACT, "a", &json!({"customFields": {"integer": "seven"}})),
        });
    };
    for (column, source, ours) in [("position", "7", "ours"), ("cf_integer", "\"seven\"", "12")] {
        // Before the edit is made, or before it is sent.
        for late in [false, true] {
            let (crm, mirror) = mirrored().await;
            if !late {
                unfit(&crm, column);
                mirror.sync(&crm).await;
                assert_eq!(mirror.one(&format!("SELECT {column} FROM contacts WHERE id = 'a'")), "NULL", "{column}");
                let refused = sql(&mirror, &format!("UPDATE contacts_full SET {column} = '{ours}' WHERE id = 'a'"));
                assert!(refused.unwrap_err().contains("does not fit the column"), "{column}");
            }
            in_shell(&mirror, "a", column, ours).unwrap();
            let known = mirror.one("SELECT before_known FROM pending_edits");
            assert_eq!(known, if late { "1" } else { "0" }, "{column}");
            if late {
                unfit(&crm, column);
            }
            crm.sandbox.clear_log();
            push(&mirror, &crm).await;
            assert_eq!(states(&mirror), "conflict", "{column}, late: {late}");
            assert_eq!(mirror.one("SELECT theirs FROM pending_edits"), format!("'{source}'"), "{column}, late: {late}");
            assert_eq!(crm.sandbox.log().carried_out().count(), 0, "{column}, late: {late}");
            let now = Instant::system_now();
            write_beside(&mirror.path, |tx| user_decisions::decide(tx, 1, Decision::Mine, now)).unwrap();
            push(&mirror, &crm).await;
            let sent = crm.sandbox.log().carried_out().count();
            assert_eq!((states(&mirror).as_str(), sent), ("applied", 1), "the person saw it: {column}, late: {late}");
        }
    }
}

/// A value as written in SQL, and the text that a reader of the statement expects.
fn literal() -> impl Strategy<Value = (String, Option<String>)> {
    prop_oneof![
        "[1-9][0-9]{0,17}".prop_map(|digits| (digits.clone(), Some(digits))),
        "[1-9][0-9]{0,19}\\.[0-9]{1,10}".prop_map(|number| (number, None)),
        "[1-9][0-9]{19,25}".prop_map(|number| (number, None)),
        "[1-9]e[0-9]{1,2}".prop_map(|number| (number, None)),
        "[1-9][0-9]{0,19}(\\.[0-9]{1,9}[1-9])?".prop_map(|text| (format!("'{text}'"), Some(text))),
    ]
}

/// Any literal written to a decimal or a text is sent as written or refused.
#[test]
fn any_literal_is_sent_as_written_or_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Cases::per_thousand(120).check(400, prop::collection::vec((literal(), 0_usize..4), 1..6), |values| {
        runtime.block_on(async {
            let (crm, mirror) = mirrored().await;
            for ((literal, expected), column) in values {
                let (column, wire) = [
                    ("cf_decimal", "decimal"),
                    ("position", "position"),
                    ("cf_short_text", "short_text"),
                    ("cf_long_text", "long_text"),
                ][column];
                let set = sql(&mirror, &format!("UPDATE contacts_full SET {column} = {literal} WHERE id = 'a'"));
                match expected {
                    None => assert!(set.unwrap_err().contains("in quotes"), "{literal}"),
                    Some(text) => {
                        set.unwrap();
                        push(&mirror, &crm).await;
                        let body = bodies(&crm).pop();
                        let held = mirror.one(&format!("SELECT {column} FROM contacts_full WHERE id = 'a'"));
                        // A value that the record already has is not sent.
                        let sent = body
                            .is_some_and(|body| body[wire] == json!(text) || body["customFields"][wire] == json!(text));
                        assert!(sent || held == format!("'{text}'"), "{literal} to {column}: {held}");
                    }
                }
            }
            let open = mirror.one("SELECT count(*) FROM outbox WHERE state <> 'applied'");
            assert_eq!(open, "0");
        });
        Ok(())
    });
}
