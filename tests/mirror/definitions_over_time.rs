//! Definitions are added, changed, archived and restored: columns follow, values are correct, and only necessary
//! requests are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Choice, DataType, Object, Resource};
use crm_mirror::sandbox::{BodyRewrite, Fault, Hidden, LoggedRequest, NewField, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

/// The interval after which definitions are read again.
pub const INTERVAL: u64 = 6 * 3600;

/// A workspace of this many contacts, mirrored, one interval later.
pub async fn settled(contacts: usize, fields: &[NewField]) -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        for field in fields {
            world.fields().define(field.clone());
        }
        for n in 0..contacts {
            world.create(Object::Contact, &json!({"id": format!("ct{n:03}"), "name": format!("Name {n}")}));
        }
        let crm = Crm::serve(world).await;
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        crm.wait(INTERVAL);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared(format!("definitions_over_time {contacts} {fields:?}"), make).await
}

pub fn field(key: &str, data_type: DataType) -> NewField {
    NewField::new(Object::Contact, key, data_type).options(&["a", "b", "gold"])
}

/// Gives contacts values without a change of `updatedAt`, like a field that is defined with values.
pub fn fill(crm: &Crm, contacts: impl Iterator<Item = usize>, key: &str, value: &serde_json::Value) {
    crm.sandbox.with_world(|world| {
        for n in contacts {
            world.edit_silently(Object::Contact, &format!("ct{n:03}"), &json!({"customFields": {key: value}}));
        }
    });
}

/// Lists of contacts, except the changes walk.
pub fn other_lists(crm: &Crm) -> Vec<LoggedRequest> {
    let log = crm.sandbox.log();
    log.entries()
        .iter()
        .filter(|entry| entry.asked.lists(Resource::Contacts) && entry.asked.param("sort") != Some("updatedAt"))
        .cloned()
        .collect()
}

/// The custom columns of a table or view, by name.
fn columns(mirror: &Mirror, table: &str) -> String {
    mirror.one(&format!(
        "SELECT coalesce(group_concat(name, ' '), '') FROM (SELECT name FROM pragma_table_info('{table}')
         WHERE name LIKE '%cf\\_%' ESCAPE '\\' ORDER BY name)"
    ))
}

#[tokio::test]
async fn field_defined_later_is_filled_from_records_with_a_value() {
    let (crm, mirror) = settled(250, &[]).await;
    crm.sandbox.with_world(|world| world.fields().define(field("tier", DataType::SingleSelect)));
    fill(&crm, 0..120, "tier", &json!("gold"));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let asked = other_lists(&crm);
    assert_eq!(asked.len(), 2, "120 records with a value, 100 a page");
    assert!(asked.iter().all(|entry| entry.asked.param("filter[customFields.tier][isNull]") == Some("false")));
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0);
    // Definitions, team, the changes walks, the fill.
    assert_eq!(crm.charged(), 4 + 1 + 2 + 2);
    assert_eq!(mirror.one("SELECT count(*) FROM contacts_full WHERE cf_tier = 'gold'"), "120");
}

#[tokio::test]
async fn long_text_defined_later_reads_only_details_with_a_value() {
    let (crm, mirror) = settled(150, &[]).await;
    crm.sandbox.with_world(|world| world.fields().define(field("story", DataType::LongText)));
    fill(&crm, 10..17, "story", &json!("Once upon a time"));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(other_lists(&crm).len(), 1);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 7);
}

#[tokio::test]
async fn long_text_without_a_filter_reads_every_detail_once() {
    let (crm, mirror) = settled(20, &[]).await;
    crm.sandbox.with_world(|world| world.fields().define(field("story", DataType::LongText).operators(&[])));
    fill(&crm, 3..5, "story", &json!("Once upon a time"));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 20);
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

#[tokio::test]
async fn new_label_and_options_are_mirrored() {
    let (crm, mirror) = settled(3, &[field("tier", DataType::SingleSelect)]).await;
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |d| d.label = "Stufe".into());
        let choice = |value: &str, label: &str| Choice { value: value.into(), label: Some(label.into()) };
        world
            .fields()
            .redefine(Object::Contact, "tier", |d| d.options = vec![choice("gold", "Gold!"), choice("tin", "Tin")]);
    });
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    for table in ["contacts", "contacts_full"] {
        let label =
            format!("SELECT label FROM mirror_columns WHERE table_name = '{table}' AND column_name = 'cf_tier'");
        assert_eq!(mirror.one(&label), "'Stufe'");
    }
    let options = "SELECT group_concat(value || '=' || coalesce(label, 'none'))
                   FROM (SELECT * FROM custom_field_options ORDER BY position)";
    assert_eq!(mirror.one(options), "'gold=Gold!,tin=Tin'");
    assert_eq!(other_lists(&crm).len(), 0, "no value changed");
    // What is not of its shape says nothing of the other options, and keeps none that is no longer there.
    for (from, to, left) in [
        (r#""label":"Gold!""#, r#""label":{"en":"Gold"}"#, "'gold=none,tin=Tin'"),
        (r#""value":"gold""#, r#""value":7"#, "'tin=Tin'"),
        (r#""options":["#, r#""options":{},"choices":["#, "'tin=Tin'"),
    ] {
        let rewrite: BodyRewrite = |body, with| with.split_once('|').map(|(from, to)| body.replace(from, to)).unwrap();
        let fault = Fault::Rewritten(rewrite, format!("{from}|{to}"));
        crm.sandbox.faults().add(Rule::new(fault).on(Resource::CustomFields).forever());
        crm.wait(90_000);
        mirror.sync(&crm).await;
        assert_eq!(mirror.one(options), left, "{to}");
        crm.sandbox.faults().clear();
    }
}

#[tokio::test]
async fn archived_field_is_restored_with_the_changes_made_meanwhile() {
    let fields = [
        field("tier", DataType::SingleSelect),
        field("fee", DataType::Decimal),
        field("tags", DataType::MultiSelect),
        field("story", DataType::LongText),
    ];
    let (crm, mirror) = settled(8, &fields).await;
    let set = |n: usize, values: serde_json::Value| {
        let crm = &crm;
        crm.sandbox
            .with_world(|world| world.edit(Object::Contact, &format!("ct{n:03}"), &json!({"customFields": values})));
    };
    for n in 0..6 {
        set(n, json!({"tier": "a", "fee": "1.10", "tags": ["a", "b"], "story": "First"}));
    }
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    crm.sandbox.with_world(|world| {
        for key in ["tier", "fee", "tags", "story"] {
            world.fields().archive(Object::Contact, key);
        }
    });
    crm.wait(INTERVAL);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(columns(&mirror, "contacts"), "'archived_cf_fee archived_cf_fee_num archived_cf_tags archived_cf_tier'");
    assert_eq!(columns(&mirror, "contact_details"), "'archived_cf_story'");
    assert_eq!(columns(&mirror, "contacts_full"), "''");
    assert_eq!(mirror.count("custom_multi_values"), 0);
    assert_eq!(mirror.one("SELECT count(*) FROM mirror_columns WHERE column_name LIKE '%cf\\_%' ESCAPE '\\'"), "0");
    assert_eq!(mirror.one("SELECT archived_cf_fee FROM contacts WHERE id = 'ct000'"), "'1.10'", "nothing is lost");

    // While they are archived: one changes, one is cleared, one gets its first value, one silently loses its values.
    set(0, json!({"tier": "b", "fee": "2.20", "tags": ["b"], "story": "Second"}));
    set(1, json!({"tier": null, "fee": null, "tags": null, "story": null}));
    set(7, json!({"tier": "a", "fee": "7.70", "tags": ["a"], "story": "New"}));
    crm.sandbox.with_world(|world| {
        world.edit_silently(
            Object::Contact,
            "ct002",
            &json!({"customFields": {"tier": null, "fee": null, "tags": null, "story": null}}),
        )
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for key in ["tier", "fee", "tags", "story"] {
            world.fields().reactivate(Object::Contact, key);
        }
    });
    crm.wait(INTERVAL);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(columns(&mirror, "contacts"), "'cf_fee cf_fee_num cf_tags cf_tier'");
    assert_eq!(mirror.count("custom_multi_values"), 3 * 2 + 1 + 1);
    // A sweep costs less than one page per field; the other list says who has a long text.
    assert_eq!(other_lists(&crm).len(), 1 + 1);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 7, "the five that changed, the two that lost their values");
}

#[tokio::test]
async fn changed_type_makes_a_new_column_with_values_of_that_type() {
    let changes = [
        ("INTEGER", json!(7)),
        ("DECIMAL", json!("7.70")),
        ("BOOLEAN", json!(true)),
        ("MULTI_SELECT", json!(["a", "b"])),
        ("LONG_TEXT", json!("Seven, in many words")),
        ("DATE", json!("2026-01-02")),
        ("DATETIME", json!("2026-01-02T03:04:05.000Z")),
        ("SINGLE_SELECT", json!("gold")),
        ("COLOUR", json!("red")),
        ("SHORT_TEXT", json!("seven")),
    ];
    let (crm, mirror) = settled(3, &[field("it", DataType::ShortText)]).await;
    for (data_type, value) in changes {
        fill(&crm, 0..2, "it", &value);
        crm.sandbox.with_world(|world| {
            world.fields().redefine(Object::Contact, "it", |d| {
                d.data_type = data_type.into();
                d.allowed_operators = vec!["isNull".into()];
            })
        });
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        if data_type == "COLOUR" {
            crm.wait(600);
            mirror.resync(&crm).await;
            assert_eq!(
                mirror.one("SELECT extra FROM contacts WHERE id = 'ct000'"),
                r#"'{"customFields":{"it":"red"}}'"#
            );
        } else {
            assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE extra IS NOT NULL"), "0", "{data_type}");
        }
        mirror.assert_exact(&crm);
    }
    assert_eq!(mirror.one("PRAGMA integrity_check"), "'ok'");
}

#[tokio::test]
async fn unreadable_field_is_archived_until_it_is_readable() {
    let (crm, mirror) = settled(3, &[field("tier", DataType::SingleSelect)]).await;
    fill(&crm, 0..2, "tier", &json!("a"));
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    let readable = |yes: bool| {
        let crm = &crm;
        crm.sandbox.with_world(|world| world.fields().redefine(Object::Contact, "tier", |d| d.readable = yes));
        crm.wait(INTERVAL);
    };
    readable(false);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(columns(&mirror, "contacts_full"), "''");
    fill(&crm, 0..1, "tier", &json!("b"));
    fill(&crm, 1..2, "tier", &json!(null));
    readable(true);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct000'"), "'b'");
}

#[tokio::test]
async fn field_that_was_never_readable_has_no_column_and_no_warning() {
    let (crm, mirror) = settled(3, &[]).await;
    crm.sandbox.with_world(|world| {
        world.fields().define(field("secret", DataType::ShortText));
        world.fields().redefine(Object::Contact, "secret", |d| d.readable = false)
    });
    fill(&crm, 0..2, "secret", &json!("x"));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.warnings, [""; 0]);
    mirror.assert_exact(&crm);
    assert_eq!(columns(&mirror, "contacts_full"), "''");
    assert_eq!(other_lists(&crm).len(), 0);
}

/// Lists of one run are one piece of evidence, also where an unknown key was the reason to read them.
#[tokio::test]
async fn lists_for_an_unknown_key_archive_nothing_in_the_same_run() {
    let (crm, mirror) = settled(3, &[field("tier", DataType::SingleSelect)]).await;
    fill(&crm, 0..2, "tier", &json!("a"));
    mirror.resync(&crm).await;
    let tier = crm.sandbox.with_world(|world| world.definitions[0].id.clone());
    crm.sandbox.with_world(|world| world.fields().define(field("added", DataType::SingleSelect)));
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct001", &json!({"customFields": {"added": "b"}})));
    let lags = Rule::new(Fault::Hide(Hidden::ids([tier]))).on(Resource::CustomFields);
    crm.sandbox.faults().add(lags.forever());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 4, "one attempt");
    assert_eq!(columns(&mirror, "contacts"), "'cf_added cf_tier'");
    crm.sandbox.faults().clear();
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn unknown_key_reads_the_definitions_once_and_fills_its_column() {
    let (crm, mirror) = settled(30, &[]).await;
    mirror.sync(&crm).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    crm.sandbox.with_world(|world| {
        world.fields().define(field("tier", DataType::SingleSelect));
        for n in 0..20 {
            world.edit(Object::Contact, &format!("ct{n:03}"), &json!({"customFields": {"tier": "gold"}}));
        }
    });
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 4, "once, both objects, active and archived");
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE cf_tier = 'gold' AND extra IS NULL"), "20");

    // A key without a definition causes one request, not one in every run that reads a record with it.
    crm.sandbox.with_world(|world| {
        for n in 0..20 {
            let id = format!("ct{n:03}");
            world.edit(Object::Contact, &id, &json!({"name": "Again"}));
            world.set_raw(Object::Contact, &id, "customFields.ghost", "1.10");
        }
    });
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 4);
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE extra = '{\"customFields\":{\"ghost\":1.10}}'"), "20");
    assert_eq!(mirror.count("contact_details"), 30);
    assert_eq!(mirror.one("SELECT count(*) FROM contact_details WHERE extra IS NOT NULL"), "0");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct000", &json!({"name": "And again"})));
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct000'"), "'And again'");
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 0, "the key was requested before");

    // A field that was archived and returns is another reason.
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "tier"));
    crm.wait(INTERVAL);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        world.fields().reactivate(Object::Contact, "tier");
        world.edit(Object::Contact, "ct000", &json!({"customFields": {"tier": "a"}}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct000'"), "'a'");
}

#[tokio::test]
async fn empty_answer_archives_no_field() {
    let (crm, mirror) = settled(3, &[field("tier", DataType::SingleSelect), field("rank", DataType::Integer)]).await;
    fill(&crm, 0..2, "tier", &json!("a"));
    fill(&crm, 0..2, "rank", &json!(3));
    mirror.resync(&crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::EmptyList).on(Resource::CustomFields).forever());
    crm.wait(INTERVAL);
    let report = mirror.sync(&crm).await;
    assert_eq!(report.warnings, ["the service no longer lists custom fields of contact: the columns are not changed"]);
    crm.sandbox.faults().clear();
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn without_the_definitions_scope_values_stay_in_extra_until_it_is_granted() {
    let mut world = World::new(noon());
    for (key, data_type) in
        [("tier", DataType::SingleSelect), ("tags", DataType::MultiSelect), ("story", DataType::LongText)]
    {
        world.fields().define(field(key, data_type));
    }
    for n in 0..6 {
        let values = json!({"tier": "gold", "tags": ["a"], "story": "Long"});
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}"), "customFields": values}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    let some = ["contacts:read", "companies:read", "team-members:read"];
    crm.sandbox.set_key(&crm.key, &some);
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    assert_eq!(report.missing_scopes, [(Resource::CustomFields, "custom-fields:read")]);
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 1, "refused once");
    assert_eq!(mirror.one("SELECT DISTINCT extra FROM contacts"), r#"'{"customFields":{"tags":["a"],"tier":"gold"}}'"#);
    assert_eq!(mirror.one("SELECT DISTINCT extra FROM contact_details"), r#"'{"customFields":{"story":"Long"}}'"#);
    assert_eq!(mirror.one("SELECT count(*) FROM contacts_full WHERE details_current"), "6");

    crm.sandbox.set_key(&crm.key, &[&some[..], &["custom-fields:read"]].concat());
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE extra IS NOT NULL"), "0");
    assert_eq!(mirror.one("SELECT count(*) FROM contact_details WHERE extra IS NOT NULL"), "0");
    assert_eq!(mirror.count("custom_multi_values"), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_finds_a_missing_view() {
    let (crm, mirror) = settled(40, &[field("tier", DataType::SingleSelect)]).await;
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let reader = {
        let (path, stop, reads) = (mirror.path.clone(), stop.clone(), reads.clone());
        std::thread::spawn(move || {
            let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
            let conn = rusqlite::Connection::open_with_flags(path, flags).unwrap();
            conn.busy_timeout(Duration::from_secs(10)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for view in ["contacts_full", "companies_full"] {
                    let mut stmt = conn.prepare(&format!("SELECT * FROM {view}")).unwrap();
                    let mut rows = stmt.query([]).unwrap();
                    while rows.next().unwrap().is_some() {}
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    for round in 0..8 {
        crm.sandbox.with_world(|world| {
            world.fields().define(field(&format!("new{round}"), DataType::Decimal));
            if round % 2 == 0 {
                world.fields().archive(Object::Contact, "tier");
            } else {
                world.fields().reactivate(Object::Contact, "tier");
            }
        });
        crm.wait(INTERVAL);
        let before = reads.load(Ordering::Relaxed);
        mirror.sync(&crm).await;
        while reads.load(Ordering::Relaxed) < before + 2 && !reader.is_finished() {
            std::thread::yield_now();
        }
    }
    stop.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn killed_change_of_columns_is_completed_by_the_next_runs() {
    for commits in (0..24).step_by(2) {
        let fields = [
            field("tier", DataType::SingleSelect),
            field("rank", DataType::Integer),
            field("story", DataType::LongText),
        ];
        let (crm, mirror) = settled(12, &fields).await;
        fill(&crm, 0..8, "tier", &json!("a"));
        mirror.resync(&crm).await;
        crm.sandbox.with_world(|world| {
            world.fields().archive(Object::Contact, "tier");
            world.fields().redefine(Object::Contact, "rank", |d| d.data_type = "DECIMAL".into());
            world.fields().define(field("new", DataType::LongText));
        });
        fill(&crm, 0..3, "new", &json!("Long"));
        fill(&crm, 0..3, "rank", &json!("1.5"));
        crm.wait(INTERVAL);
        let _ = mirror.run_killed_after(&crm, &Job::sync(), Some(commits)).await;
        for view in ["contacts_full", "companies_full"] {
            mirror.count(view);
        }
        crm.wait(600);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}
