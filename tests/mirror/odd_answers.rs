//! Answers that violate the reference: valid parts are mirrored, the rest is kept verbatim in `extra`, and an answer
//! that cannot be parsed at all changes nothing.
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::api::ErrorClass;
use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{BodyRewrite, Fault, NewField, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, SyncError};
use serde_json::{Value, json};

/// A workspace with one field of every type for contacts, and one plain contact.
fn world() -> World {
    let mut world = World::new(noon());
    for data_type in DataType::ALL {
        let key = data_type.as_str().to_lowercase();
        world.fields().define(NewField::new(Object::Contact, &key, data_type).options(&["a", "b"]));
    }
    world.create(Object::Contact, &json!({"id": "plain", "name": "Plain"}));
    world
}

/// A workspace with a contact `odd` whose fields have these source texts in answers.
fn odd(sources: &[(&str, &str)]) -> World {
    let mut world = world();
    world.create(Object::Contact, &json!({"id": "odd", "name": "Ann", "email": "ann@example.org"}));
    for (wire, source) in sources {
        world.set_raw(Object::Contact, "odd", wire, source);
    }
    world
}

async fn mirrored(world: World) -> (Crm, Mirror, u64) {
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    let report = mirror.sync(&crm).await;
    (crm, mirror, report.tally.warnings)
}

/// The columns of the contact `odd` as SQL shows them.
fn columns(mirror: &Mirror, columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| mirror.one(&format!("SELECT {column} FROM contacts_full WHERE id = 'odd'"))).collect()
}

fn text(mirror: &Mirror, sql: &str) -> Option<String> {
    mirror.read().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn extra(mirror: &Mirror) -> Option<String> {
    text(mirror, "SELECT extra FROM contacts WHERE id = 'odd'")
}

fn detail_extra(mirror: &Mirror) -> Option<String> {
    text(mirror, "SELECT extra FROM contact_details WHERE contact_id = 'odd'")
}

#[tokio::test]
async fn unrepresentable_values_are_kept_verbatim_and_the_rest_of_the_record_is_mirrored() {
    let (_crm, mirror, warnings) = mirrored(odd(&[
        ("name", "7"),
        ("qualification", "\"yes\""),
        ("company", r#""\ud800""#),
        ("enrichmentAt", "\"2026-01-02T03:04:05.1234567Z\""),
        ("xNew", "[1.10, 1E+3]"),
        ("location.zip", "8320"),
        ("customFields.integer", "1180591620717411303424"),
        ("customFields.decimal", "1.50"),
        ("customFields.date", "\"2026-02-30\""),
        ("customFields.boolean", "1"),
        ("customFields.multi_select", "[\"a\", 1]"),
    ]))
    .await;
    assert_eq!(
        extra(&mirror).unwrap(),
        concat!(
            r#"{"company":"\ud800","enrichmentAt":"2026-01-02T03:04:05.1234567Z","name":7,"qualification":"yes","#,
            r#""xNew":[1.10, 1E+3],"customFields":{"boolean":1,"date":"2026-02-30","decimal":1.50,"#,
            r#""integer":1180591620717411303424,"multi_select":["a", 1]},"location":{"zip":8320}}"#
        )
    );
    assert_eq!(
        columns(&mirror, &["name", "qualification", "company", "cf_integer", "cf_decimal", "cf_decimal_num"]),
        ["NULL"; 6]
    );
    assert_eq!(columns(&mirror, &["cf_date", "cf_boolean", "cf_multi_select"]), ["NULL"; 3]);
    assert_eq!(
        columns(&mirror, &["email", "enrichment_at", "details_current"]),
        ["'ann@example.org'", "'2026-01-02T03:04:05.123456Z'", "1"]
    );
    assert_eq!(mirror.count("custom_multi_values"), 0);
    assert_eq!(detail_extra(&mirror).unwrap(), r#"{"xNew":[1.10, 1E+3]}"#);
    // 11 in the list, and the unknown top-level field again in the detail.
    assert_eq!(warnings, 12);
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'plain'"), "'Plain'");
    assert_eq!(mirror.one("SELECT warnings FROM sync_runs"), "12");
}

#[tokio::test]
async fn invalid_value_of_a_detail_field_is_counted_and_kept_in_its_extra() {
    let (crm, mirror, warnings) =
        mirrored(odd(&[("notes", "8"), ("doNotContact", "\"no\""), ("customFields.long_text", "{\"a\":1.10}")])).await;
    assert_eq!(
        detail_extra(&mirror).unwrap(),
        r#"{"doNotContact":"no","notes":8,"customFields":{"long_text":{"a":1.10}}}"#
    );
    assert_eq!(extra(&mirror), None);
    assert_eq!(warnings, 3);
    crm.wait(600);
    assert_eq!(mirror.sync(&crm).await.tally.warnings, 0, "reported once, when it was written");
}

#[tokio::test]
async fn byte_order_mark_before_an_answer_is_ignored() {
    let crm = Crm::serve(world()).await;
    let marked: BodyRewrite = |body, _| format!("\u{feff}{body}");
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(marked, String::new())).forever());
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn all_digits_of_values_and_decimals_are_kept() {
    let mut world = world();
    world.fields().define(NewField::new(Object::Company, "fee", DataType::Decimal));
    world.create(Object::Company, &json!({"id": "c", "name": "Co"}));
    for (wire, source) in [
        ("revenue", "1.10"),
        ("logo", r#"{"url": "x", "size": 1.50}"#),
        ("customFields.fee", "\"-99999999999999999999.9999999999\""),
        ("customerFitScore", "87.5"),
    ] {
        world.set_raw(Object::Company, "c", wire, source);
    }
    let (_crm, mirror, warnings) = mirrored(world).await;
    let one = |column: &str| mirror.one(&format!("SELECT {column} FROM companies_full"));
    assert_eq!(one("revenue"), "'1.10'");
    assert_eq!(one("revenue_num"), "1.1");
    assert_eq!(one("logo"), r#"'{"url": "x", "size": 1.50}'"#);
    assert_eq!(one("cf_fee"), "'-99999999999999999999.9999999999'");
    assert_eq!(one("cf_fee_num"), "-1e20");
    assert_eq!(one("typeof(cf_fee_num)"), "'real'");
    assert_eq!(one("customer_fit_score"), "87.5");
    assert_eq!(one("extra"), "NULL");
    assert_eq!(warnings, 0);
}

#[tokio::test]
async fn etags_are_kept_byte_for_byte_and_timestamps_are_canonical() {
    let (_crm, mirror, warnings) = mirrored(odd(&[
        ("etag", r#""\"2026-03-04T12:00:00.000Z\"""#),
        ("createdAt", "\"2026-03-04T13:00:00+01:00\""),
        ("lastInteractionAt", "\"2026-01-02T03:04:05.123Z\""),
        ("customFields.datetime", "\"2026-01-02T03:04:05-02:30\""),
        ("customFields.date", "\"2024-02-29\""),
    ]))
    .await;
    assert_eq!(
        columns(&mirror, &["etag", "created_at", "last_interaction_at", "cf_datetime", "cf_date"]),
        [
            "'\"2026-03-04T12:00:00.000Z\"'",
            "'2026-03-04T12:00:00.000000Z'",
            "'2026-01-02T03:04:05.123000Z'",
            "'2026-01-02T05:34:05.000000Z'",
            "'2024-02-29'",
        ]
    );
    assert_eq!((extra(&mirror), warnings), (None, 0));
}

#[tokio::test]
async fn objects_of_unknown_shape_are_kept_verbatim() {
    let (_crm, mirror, _) = mirrored(odd(&[("location", "\"Chile\""), ("customFields", "[1, 2]")])).await;
    assert_eq!(extra(&mirror).unwrap(), r#"{"customFields":[1, 2],"location":"Chile"}"#);
    assert_eq!(columns(&mirror, &["location_country", "name"]), ["NULL", "'Ann'"]);
}

#[tokio::test]
async fn unknown_type_keeps_its_values_in_extra_and_is_reported() {
    let mut world = odd(&[("customFields.hue", "\"red\"")]);
    world.fields().define(NewField::new(Object::Contact, "hue", DataType::ShortText).of_type("COLOUR"));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    let report = mirror.sync(&crm).await;
    assert_eq!(extra(&mirror).unwrap(), r#"{"customFields":{"hue":"red"}}"#);
    assert_eq!(detail_extra(&mirror), None, "values from a list stay with the list");
    assert_eq!(report.warnings, ["the values of the custom field `hue` of contact are kept in `extra`"]);
    assert_eq!(
        mirror.one(
            "SELECT data_type || ' ' || coalesce(column_name, 'none') FROM custom_field_definitions WHERE key = 'hue'"
        ),
        "'COLOUR none'"
    );
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 0, "the key is known, its type is not");
}

/// What is a group of one object is a plain field of the other.
#[tokio::test]
async fn unknown_object_stays_verbatim_after_its_detail_is_read() {
    let mut world = world();
    world.create(Object::Company, &json!({"id": "odd", "name": "Odd"}));
    let source = r#"{"region": 1, "country": "CL"}"#;
    world.set_raw(Object::Company, "odd", "location", source);
    let (crm, mirror, _) = mirrored(world).await;
    let kept = format!("{{\"location\":{source}}}");
    assert_eq!(text(&mirror, "SELECT extra FROM companies WHERE id = 'odd'"), Some(kept));
    crm.wait(600);
    let (_, findings) = mirror.verify(&crm, &Job::verify()).await;
    assert!(findings.iter().all(|(_, found)| found.is_clean()), "{findings:?}");
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn field_that_loses_its_type_keeps_its_values() {
    let mut world = odd(&[]);
    world.fields().define(NewField::new(Object::Contact, "hue", DataType::ShortText));
    world.fields().define(NewField::new(Object::Contact, "tale", DataType::LongText));
    world.edit(Object::Contact, "odd", &json!({"customFields": {"hue": "red", "tale": "Once"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let untyped: BodyRewrite = |body, _| body.replace("\"SHORT_TEXT\"", "null").replace("\"ACTIVE\"", "7");
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(untyped, String::new())).on(Resource::CustomFields).forever());
    crm.wait(90_000);
    mirror.sync(&crm).await;
    assert_eq!(columns(&mirror, &["cf_hue"]), ["'red'"], "an answer without a type says nothing of the type");
    crm.sandbox.faults().clear();
    for (key, data_type) in [("hue", "COLOUR"), ("tale", "SAGA")] {
        crm.sandbox
            .with_world(|world| world.fields().redefine(Object::Contact, key, |d| d.data_type = data_type.into()));
    }
    crm.wait(90_000);
    mirror.sync(&crm).await;
    assert_eq!(extra(&mirror).unwrap(), r#"{"customFields":{"hue":"red","tale":"Once"}}"#);
    crm.sandbox.clear_log();
    crm.wait(90_000);
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0, "once");
}

#[tokio::test]
async fn value_of_a_detail_field_survives_every_list() {
    let crm = Crm::serve(odd(&[])).await;
    let mirror = Mirror::one_at_a_time();
    let detail = crm.sandbox.with_world(|world| {
        world.set_raw(Object::Contact, "odd", "customFields.memo", "\"rich\"");
        world.set_raw(Object::Contact, "odd", "location.street", "\"Main\"");
        let text = world.detail_text(Object::Contact, "odd").unwrap();
        world.clear_raw(Object::Contact, "odd");
        format!("{{\"data\":{text}}}")
    });
    crm.sandbox.faults().add(Rule::new(Fault::Body(detail)).record("odd"));
    mirror.sync(&crm).await;
    let kept = r#"{"customFields":{"memo":"rich"},"location":{"street":"Main"}}"#;
    assert_eq!(detail_extra(&mirror).unwrap(), kept);
    crm.wait(600);
    mirror.resync(&crm).await;
    assert_eq!(detail_extra(&mirror).unwrap(), kept);
    assert_eq!(extra(&mirror), None);
    assert_eq!(mirror.count("changes"), 0);
}

#[tokio::test]
async fn texts_with_nul_and_every_unicode_plane_are_mirrored() {
    let mut world = world();
    let name = "a\0b \u{1F980} \u{202E} \u{FFFF} e\u{301} \u{10FFFF}";
    world.create(
        Object::Contact,
        &json!({"id": "odd", "name": name, "customFields": {"short_text": "\0", "multi_select": ["a\0", "\u{1F980}"]}}),
    );
    let (_crm, mirror, warnings) = mirrored(world).await;
    assert_eq!(text(&mirror, "SELECT name FROM contacts WHERE id = 'odd'").unwrap(), name);
    assert_eq!(text(&mirror, "SELECT cf_short_text FROM contacts WHERE id = 'odd'").unwrap(), "\0");
    let values = "SELECT value FROM custom_multi_values WHERE record_id = 'odd' AND position = ";
    assert_eq!(text(&mirror, &format!("{values}0")).unwrap(), "a\0");
    assert_eq!(text(&mirror, &format!("{values}1")).unwrap(), "\u{1F980}");
    assert_eq!(warnings, 0);
}

#[tokio::test]
async fn corrected_value_leaves_extra_at_the_next_change() {
    let (crm, mirror, _) = mirrored(odd(&[("name", "7"), ("notes", "8"), ("xNew", "9")])).await;
    assert_eq!(extra(&mirror).unwrap(), r#"{"name":7,"xNew":9}"#);
    assert_eq!(detail_extra(&mirror).unwrap(), r#"{"notes":8,"xNew":9}"#);
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        world.clear_raw(Object::Contact, "odd");
        world.edit(Object::Contact, "odd", &json!({"name": "Ann Lee", "notes": "Mended"}));
    });
    mirror.sync(&crm).await;
    assert_eq!((extra(&mirror), detail_extra(&mirror)), (None, None));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn item_without_an_id_is_counted_and_affects_no_other_item() {
    let mut world = world();
    world.create(Object::Contact, &json!({"id": "odd"}));
    world.leave_out(Object::Contact, "odd", "id");
    world.create(Object::Contact, &json!({"id": "last", "name": "Last"}));
    let (crm, mirror, warnings) = mirrored(world).await;
    assert_eq!(mirror.one("SELECT group_concat(id) FROM (SELECT id FROM contacts ORDER BY id)"), "'last,plain'");
    assert!(warnings > 0);
    assert_eq!(
        mirror.one("SELECT group_concat(kind || ' ' || resource) FROM service_oddities"),
        "'unusable_item contacts'"
    );
    // The record is known, and then the service omits its id: that is no removal.
    crm.sandbox.with_world(|world| world.clear_raw(Object::Contact, "odd"));
    crm.wait(600);
    mirror.resync(&crm).await;
    assert_eq!(mirror.count("contacts"), 3);
    crm.sandbox.with_world(|world| world.leave_out(Object::Contact, "odd", "id"));
    crm.wait(600);
    mirror.resync(&crm).await;
    assert_eq!(mirror.count("contacts"), 3);
    assert_eq!(mirror.count("removed_records"), 0);
}

#[tokio::test]
async fn duplicate_record_on_a_page_is_one_row_and_an_anomaly() {
    let mut world = world();
    world.create(Object::Contact, &json!({"id": "twin", "name": "Twin"}));
    world.create(Object::Contact, &json!({"id": "odd"}));
    // The other record's complete answer, except for the list's order.
    world.set_raw(Object::Contact, "odd", "id", "\"twin\"");
    let (_crm, mirror, _) = mirrored(world).await;
    assert_eq!(mirror.count("contacts"), 2);
    assert_eq!(
        mirror.one("SELECT group_concat(kind || ' ' || resource) FROM service_oddities"),
        "'duplicate_id contacts'"
    );
}

/// The mirror's records, definitions and checkpoints as one text.
fn everything(mirror: &Mirror) -> String {
    let conn = mirror.read();
    let mut out = String::new();
    for sql in [
        "SELECT * FROM contacts ORDER BY id",
        "SELECT * FROM contact_details ORDER BY 1",
        "SELECT * FROM custom_field_definitions ORDER BY id",
        "SELECT * FROM changes",
        "SELECT * FROM removed_records",
        "SELECT * FROM frontier",
        "SELECT * FROM reads WHERE purpose != 'sweep'",
        "SELECT * FROM state WHERE name NOT IN ('ledger', 'last_writer', 'history_marks', 'service_time', 'step_failures') ORDER BY name",
    ] {
        let mut stmt = conn.prepare(sql).unwrap();
        let columns = stmt.column_count();
        let mut rows = stmt.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                out.push_str(&crate::support::truth::shown(row.get(column).unwrap()));
                out.push('|');
            }
            out.push('\n');
        }
    }
    out
}

#[tokio::test]
async fn undecodable_answer_fails_the_run_and_changes_nothing() {
    let (crm, mut mirror, _) = mirrored(world()).await;
    mirror.tries = 1;
    for body in [
        "<html>moved</html>",
        "",
        "[]",
        r#"{"nextCursor":null}"#,
        r#"{"data":[]}"#,
        r#"{"data":{},"nextCursor":null}"#,
        r#"{"data":null,"nextCursor":null}"#,
        r#"{"data":[],"nextCursor":7}"#,
        r#"{"data":[{"id":"x"}],"nextCursor":null"#,
    ] {
        for job in [Job::sync(), Job::resync()] {
            crm.wait(3600);
            crm.sandbox.with_world(|world| world.edit(Object::Contact, "plain", &json!({"name": "Later"})));
            let before = everything(&mirror);
            // Every list except those of the definitions, so that nothing else is due.
            crm.sandbox.faults().add(Rule::new(Fault::Body(body.into())).on(Resource::Contacts).lists().forever());
            let job = job.of(&[Resource::Contacts]);
            let failed = mirror.run(&crm, &job).await.unwrap_err();
            crm.sandbox.faults().clear();
            let understood = matches!(&failed, SyncError::Api { source, .. } if matches!(source.class(), ErrorClass::Failed | ErrorClass::Retry));
            assert!(understood, "{body}: {failed:?}");
            if job.name() == "sync" {
                assert_eq!(everything(&mirror), before, "{body}");
            }
            assert_eq!(mirror.one("SELECT group_concat(id || name) FROM contacts"), "'plainPlain'", "{body}");
            assert_eq!(mirror.one("SELECT outcome FROM sync_runs ORDER BY id DESC LIMIT 1"), "'failed'");
        }
    }
    crm.wait(3600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn undecodable_detail_blocks_no_other_record() {
    for body in [r#"{"data":null}"#, r#"{"data":{"id":"other"}}"#, "{}", r#"{"data":{"name":"no id"}}"#] {
        let crm = Crm::serve(odd(&[])).await;
        let mirror = Mirror::one_at_a_time();
        crm.sandbox.faults().add(Rule::new(Fault::Body(body.into())).record("odd").forever());
        let report = mirror.sync(&crm).await;
        assert_eq!(report.pending_details, 1, "{body}");
        assert_eq!(mirror.one("SELECT contact_id FROM contact_details"), "'plain'", "{body}");
        crm.sandbox.faults().clear();
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert_eq!(crm.sandbox.log().details(Object::Contact), 0, "{body}: it waits first");
        crm.wait(900);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn definitions_and_team_members_keep_unrepresentable_values() {
    let crm = Crm::serve(world()).await;
    let list = |data: Value| json!({"data": data, "nextCursor": null}).to_string();
    let member = json!([{"id": "tm", "firstName": 5, "badge": "x", "status": "ACTIVE"}, {"firstName": "no id"}]);
    let field = json!([{"id": "d", "key": "hat", "label": 3, "dataType": "SHORT_TEXT", "objectType": "company",
        "status": "ACTIVE", "options": "none", "filterable": "maybe", "unit": "cm"}]);
    crm.sandbox.faults().add(Rule::new(Fault::Body(list(member))).on(Resource::TeamMembers));
    // Active and archived contact fields first, then the company's.
    crm.sandbox.faults().add(Rule::new(Fault::Body(list(field))).on(Resource::CustomFields).after(2));
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT extra FROM team_members"), r#"'{"badge":"x","firstName":5}'"#);
    assert_eq!(mirror.one("SELECT status FROM team_members"), "'ACTIVE'");
    assert_eq!(
        mirror.one("SELECT extra FROM custom_field_definitions WHERE id = 'd'"),
        r#"'{"filterable":"maybe","label":3,"options":"none","unit":"cm"}'"#
    );
    assert_eq!(mirror.one("SELECT column_name FROM custom_field_definitions WHERE id = 'd'"), "'cf_hat'");
    assert_eq!(
        mirror.one("SELECT group_concat(kind || ' ' || resource) FROM service_oddities"),
        "'unusable_item team-members'"
    );
}

/// Whatever number a list has for its size, runs add it to what they count themselves.
#[tokio::test]
async fn total_that_no_list_can_have_is_not_known() {
    for total in [u64::from(u32::MAX), 1 << 32, 9_000_000_000_000_000_000, i64::MAX.unsigned_abs(), u64::MAX] {
        let crm = Crm::serve(crate::evidence::world(450)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        crm.sandbox.faults().add(Rule::new(bodies::total(total)).lists().forever());
        for job in [Job::sync(), Job::resync(), Job::audit(), Job::verify()] {
            let ended = mirror.run(&crm, &job).await;
            // An audit by counts is nothing without them.
            assert!(ended.is_ok() || job.name() == "verify", "{total} {job:?}: {ended:?}");
            mirror.assert_exact_lists(&crm);
            crm.wait(86_400);
        }
        crm.sandbox.faults().clear();
        assert_eq!(mirror.run(&crm, &Job::audit()).await.unwrap().outcome, RunOutcome::Done);
    }
}

#[test]
fn bodies_are_changed_where_they_are_meant_to_be() {
    let body = r#"{"data":[{"id":"a","updatedAt":"2026-01-02T03:04:05.678Z","until":"2026-01-02T03:04:05.678Z","location":{"city":"} \"x"},"customFields":{"a":{}},"etag":"\"2026.5\""}]}"#;
    let rewritten = |fault| match fault {
        Fault::Rewritten(rewrite, with) => rewrite(body, &with),
        other => unreachable!("{other:?}"),
    };
    let whole = body.replacen("05.678Z", "05Z", 1);
    assert_eq!(rewritten(bodies::whole_seconds()), whole, "other times, and etags, keep their fractions");
    assert!(rewritten(bodies::bad_number("a")).contains(r#""id":"a","weight":NaN,"#));
    assert_eq!(rewritten(bodies::bad_number("b")), body);
    let grouped = rewritten(bodies::groups("[]"));
    assert!(grouped.contains(r#""location":[],"customFields":[],"etag""#), "{grouped}");
    assert!(!rewritten(bodies::without("a")).contains("\"a\":"));
    assert_eq!(rewritten(bodies::total(7)), body);
    assert!(!rewritten(bodies::without("etag")).contains("etag"));
}
