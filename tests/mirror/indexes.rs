//! Secondary indexes and views: common queries are answered without full table scans, by the built-in SQLite and by the
//! machine's.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon, searched, shell};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::MAX_INDEXED;
use serde_json::json;

fn world() -> World {
    let mut world = World::new(noon());
    for (key, data_type) in [
        ("tier", DataType::SingleSelect),
        ("tags", DataType::MultiSelect),
        ("fee", DataType::Decimal),
        ("since", DataType::Date),
        ("story", DataType::LongText),
    ] {
        world.fields().define(NewField::new(Object::Contact, key, data_type).options(&["gold", "tin"]));
    }
    world.fields().define(NewField::new(Object::Contact, "secret", DataType::ShortText).operators(&[]));
    let owner =
        world.create(crm_mirror::model::Resource::TeamMembers, &json!({"firstName": "Ada", "lastName": "Okafor"}));
    let nameless = world.create(crm_mirror::model::Resource::TeamMembers, &json!({"username": "nn"}));
    for (id, owner) in [("co1", json!(owner.as_str())), ("co2", json!(null))] {
        world.create(Object::Company, &json!({"id": id, "name": format!("Company {id}"), "ownerId": owner}));
    }
    for (id, owner, company) in [
        ("ct1", json!(owner.as_str()), json!("co1")),
        ("ct2", json!(nameless.as_str()), json!("unseen")),
        ("ct3", json!(null), json!(null)),
    ] {
        world.create(
            Object::Contact,
            &json!({"id": id, "name": id, "email": format!("{id}@x.example"), "ownerId": owner, "companyId": company,
                    "customFields": {"tier": "gold", "tags": ["tin", "gold"], "fee": "10.50"}}),
        );
    }
    world
}

async fn mirrored() -> (Crm, Mirror) {
    let crm = Crm::serve(world()).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    (crm, mirror)
}

/// The query plans of the built-in SQLite and the machine's.
fn plans(mirror: &Mirror, sql: &str) -> Vec<String> {
    let conn = mirror.read();
    let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let lines = stmt.query_map([], |row| row.get::<_, String>(3)).unwrap();
    let mut plans = vec![lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")];
    if shell::is_there() {
        plans.push(shell::run(&mirror.path, &format!("EXPLAIN QUERY PLAN {sql}")).unwrap());
    }
    plans
}

fn indexes(mirror: &Mirror) -> String {
    mirror.one("SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE name GLOB 'ix_*' ORDER BY 1)")
}

#[tokio::test]
async fn filters_use_indexes_and_unneeded_joins_are_skipped() {
    let (_crm, mirror) = mirrored().await;
    for (sql, uses, lacks) in [
        ("SELECT name FROM contacts_full WHERE email = 'x'", &["contacts_by_email"][..], &["JOIN", "AS d", "SCAN"][..]),
        ("SELECT name FROM contacts_full WHERE owner_id = 'x'", &["contacts_by_owner"], &["JOIN", "SCAN"]),
        ("SELECT name FROM contacts_full WHERE company_id = 'x'", &["contacts_by_company"], &["JOIN", "SCAN"]),
        (
            "SELECT name, company_name FROM contacts_full WHERE company_id = 'x'",
            &["contacts_by_company", "SEARCH c"],
            &["SEARCH o", "SEARCH d", "SCAN"],
        ),
        (
            "SELECT name FROM contacts_full WHERE last_interaction_at > '2026'",
            &["contacts_by_last_interaction_at"],
            &["JOIN", "SCAN"],
        ),
        ("SELECT id FROM contacts_full WHERE updated_at > '2026'", &["contacts_by_updated_at"], &["JOIN", "SCAN"]),
        ("SELECT name FROM contacts_full WHERE cf_tier = 'gold'", &["ix_contacts_cf_tier"], &["JOIN", "SCAN"]),
        ("SELECT name FROM contacts_full WHERE cf_fee_num > 10", &["ix_contacts_cf_fee_num"], &["JOIN", "SCAN"]),
        ("SELECT name FROM contacts_full WHERE notes IS NULL AND id = 'x'", &["SEARCH d"], &["SEARCH o", "SCAN"]),
        ("SELECT name FROM companies_full WHERE owner_id = 'x'", &["companies_by_owner"], &["JOIN", "SCAN"]),
        (
            "SELECT record_id FROM custom_multi_values WHERE object_type = 'contact' AND field_key = 'tags' AND value = 'tin'",
            &["custom_multi_values_by_value"],
            &["SCAN"],
        ),
        (
            "SELECT c.name, l.label FROM contacts_full AS c JOIN select_labels AS l
             ON l.object_type = 'contact' AND l.column_name = 'cf_tier' AND l.value = c.cf_tier WHERE c.id = 'ct1'",
            &["custom_field_definitions_by_column", "SEARCH o"],
            &["SCAN"],
        ),
        // As `status` does: without it, every page of the records is read.
        (
            "SELECT count(*) FROM removed_records WHERE object_type = 'contact'",
            &["COVERING INDEX removed_records_by_time"],
            &["SCAN"],
        ),
        (
            "SELECT fields FROM changes WHERE object_type = 'contact' AND record_id = 'ct1' ORDER BY seq",
            &["changes_by_record"],
            &["SCAN", "TEMP B-TREE"],
        ),
        (
            "SELECT column_name, value FROM contact_history
             WHERE id = 'ct1' AND valid_from <= '2026-01-01T00:00:00.000000Z' AND valid_to > '2026-01-01T00:00:00.000000Z'",
            &["changes_by_record"],
            &["changes_by_time"],
        ),
        ("SELECT fields FROM changes WHERE seq > 7 ORDER BY seq", &["INTEGER PRIMARY KEY"], &["SCAN", "TEMP B-TREE"]),
        (
            "SELECT docid FROM search_documents WHERE is_company = 0 AND record_id = 'ct1'",
            &["search_documents_by_record"],
            &["SCAN"],
        ),
    ] {
        for plan in plans(&mirror, sql) {
            for word in uses {
                assert!(plan.contains(word), "{sql}\nlacks `{word}`:\n{plan}");
            }
            for word in lacks {
                assert!(!plan.contains(word), "{sql}\nhas `{word}`:\n{plan}");
            }
        }
    }
}

#[tokio::test]
async fn views_have_the_names_of_owners_companies_and_options() {
    let (_crm, mirror) = mirrored().await;
    let names = "SELECT group_concat(id || '|' || coalesce(owner_name, '-') || '|' || coalesce(company_name, '-'), ' ')
                 FROM (SELECT * FROM contacts_full ORDER BY id)";
    assert_eq!(mirror.one(names), "'ct1|Ada Okafor|Company co1 ct2|-|- ct3|-|-'");
    assert_eq!(mirror.one("SELECT owner_name FROM companies_full WHERE id = 'co1'"), "'Ada Okafor'");
    assert_eq!(mirror.one("SELECT count(*) FROM companies_full"), "2");
    let label = "SELECT l.label FROM contacts AS c JOIN select_labels AS l
                 ON l.object_type = 'contact' AND l.column_name = 'cf_tier' AND l.value = c.cf_tier WHERE c.id = 'ct1'";
    let known = mirror.one("SELECT label FROM custom_field_options WHERE value = 'gold' LIMIT 1");
    assert_eq!(mirror.one(label), known);
    let of_many =
        "SELECT count(*) FROM custom_multi_values AS m JOIN select_labels AS l USING (object_type, field_key, value)";
    assert_eq!(mirror.one(of_many), "6");
}

#[tokio::test]
async fn index_of_a_custom_field_follows_its_column() {
    let (crm, mirror) = mirrored().await;
    let all = "'ix_contacts_cf_fee_num ix_contacts_cf_since ix_contacts_cf_tier'";
    assert_eq!(indexes(&mirror), all);
    let sync = async || {
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    };
    crm.sandbox.with_world(|world| {
        world.fields().archive(Object::Contact, "fee");
        world.fields().archive(Object::Contact, "tier");
    });
    sync().await;
    assert_eq!(indexes(&mirror), "'ix_contacts_cf_since'");
    crm.sandbox.with_world(|world| {
        world.fields().reactivate(Object::Contact, "fee");
        world.fields().reactivate(Object::Contact, "tier");
        world.fields().redefine(Object::Contact, "since", |field| field.data_type = "DECIMAL".into());
    });
    sync().await;
    assert_eq!(indexes(&mirror), "'ix_contacts_cf_fee_num ix_contacts_cf_since_num ix_contacts_cf_tier'");
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "fee", |field| field.data_type = "SHORT_TEXT".into());
        world.fields().redefine(Object::Contact, "tier", |field| field.filterable = false);
        for id in ["ct1", "ct2", "ct3"] {
            world.edit(Object::Contact, id, &json!({"customFields": {"fee": "x"}}));
        }
    });
    sync().await;
    // A text has another index for the view, which shows it as an expression.
    let both = "'ix_contacts_cf_fee ix_contacts_cf_since_num ix_full_contacts_cf_fee'";
    assert_eq!(indexes(&mirror), both);
    assert_eq!(mirror.one("PRAGMA integrity_check"), "'ok'");
}

#[tokio::test]
async fn file_with_fifteen_hundred_fields_can_be_queried() {
    let mut world = World::new(noon());
    let mut values = serde_json::Map::new();
    for n in 0..1_500_u64 {
        world.now = noon().plus(Duration::from_secs(n));
        let key = match n % 4 {
            0 => format!("x\"; DROP TABLE contacts; -- {n}"),
            1 => format!("Field {n}"),
            2 => format!("\u{1F980}' || {n}"),
            _ => "k".repeat(400) + &n.to_string(),
        };
        let data_type = if n % 3 == 0 { DataType::LongText } else { DataType::ShortText };
        world.fields().define(NewField::new(Object::Contact, &key, data_type));
        if n % 50 == 1 {
            values.insert(key, json!(format!("word{n}")));
        }
    }
    for n in 0..20 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "Ann", "customFields": values}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(searched::differences(&mirror.read()), [""; 0]);
    assert_eq!(
        mirror.one("SELECT count(*) FROM sqlite_schema WHERE name GLOB 'ix_contacts_*'"),
        MAX_INDEXED.to_string()
    );
    if shell::is_there() {
        for (sql, answer) in [
            ("SELECT count(*) FROM contact_search WHERE contact_search MATCH 'word1 AND word1401'", "20"),
            ("SELECT count(*) FROM contacts_full WHERE name = 'Ann' AND details_current", "20"),
            ("PRAGMA integrity_check", "ok"),
        ] {
            assert_eq!(shell::run(&mirror.path, sql).unwrap(), answer, "{sql}");
        }
    }
    crm.wait(3_600);
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "ct3", &json!({"customFields": {"Field 1": "another"}}));
    });
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(searched::differences(&mirror.read()), [""; 0]);
}
