//! `publish --verify`: every difference is named and repaired, and none is reported on an equal copy.

use std::collections::BTreeSet;

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{Check, Comparison, PublishError, PublishSettings};
use crm_mirror::sandbox::{NewField, generate};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::documented::DocumentTable;
use crate::equal::{assert_equal, differences};
use crate::histories::killed_after;
use crate::refusals::verb;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

/// A workspace with values of every type, mirrored and published.
pub async fn published(contacts: usize) -> Option<(Crm, Mirror, Postgres)> {
    let postgres = Postgres::start().await?;
    let mut world = generate(31, contacts, 12, noon());
    for data_type in DataType::ALL {
        let key = format!("typed_{}", data_type.as_str().to_lowercase());
        world.fields().define(NewField::new(Object::Contact, &key, data_type).options(&["a", "b"]));
    }
    let ids = world.ids(Resource::Contacts);
    for (n, id) in ids.iter().enumerate() {
        let values = json!({
            "typed_short_text": format!("text {n}"), "typed_long_text": "long", "typed_single_select": "a",
            "typed_multi_select": ["a", "b"], "typed_integer": n, "typed_decimal": format!("{n}.50"),
            "typed_boolean": n % 2 == 0, "typed_date": "2026-02-28", "typed_datetime": "2026-02-28T10:00:00Z",
        });
        world.edit(Object::Contact, id, &json!({"customFields": values}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for id in &ids[..8] {
            world.edit(Object::Contact, id, &json!({"position": "moved"}));
        }
        world.remove(Object::Contact, &ids[9]);
        world.remove(Object::Company, &world.ids(Resource::Companies)[0].clone());
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
    Some((crm, mirror, postgres))
}

async fn checked(mirror: &Mirror, postgres: &Postgres, check: Check) -> Result<Comparison, PublishError> {
    let settings = PublishSettings { check, ..Postgres::settings(mirror) };
    Ok(postgres.try_publish(&settings).await?.comparison.unwrap())
}

const TABLES: [(&str, &str); 8] = [
    ("contacts", "id"),
    ("companies", "id"),
    ("team_members", "id"),
    ("custom_field_definitions", "id"),
    ("custom_field_options", "definition_id, position"),
    ("custom_multi_values", "object_type, record_id, field_key, position"),
    ("removed_records", "object_type, id"),
    ("changes", "seq"),
];

/// A different value of the same type, as near as the type allows.
fn another(column: &str, data_type: &str) -> String {
    let c = format!("\"{column}\"");
    match data_type {
        "text" => format!("coalesce({c}, '') || ' '"),
        "bigint" => format!("coalesce({c}, 0) + 1"),
        "boolean" => format!("{c} IS NOT TRUE"),
        "numeric" => format!("coalesce({c} * 1.0, 0)"),
        "double precision" => format!("coalesce({c} * (1 + 1e-15) + 1e-300, 0)"),
        "timestamp with time zone" => format!("coalesce({c}, 'epoch') + interval '1 microsecond'"),
        "date" => format!("coalesce({c}, '2026-01-01') + 1"),
        "jsonb" => format!("jsonb_build_array({c}, 1.10)"),
        other => panic!("{other}"),
    }
}

/// Changes single values in the database. Returns table, key and column of each.
async fn plant(postgres: &Postgres, rng: &mut Rng, number: usize) -> BTreeSet<(String, String, String)> {
    let mut cells = Vec::new();
    let mut types = BTreeSet::new();
    for (table, key) in TABLES {
        let columns = postgres
            .rows(&format!(
                "SELECT column_name, data_type FROM information_schema.columns
                 WHERE table_schema = 'crm' AND table_name = '{table}' AND column_name NOT IN ('synced_at', 'fetched_at')"
            ))
            .await;
        let texts: Vec<String> = key.split(", ").map(|name| format!("{name}::text")).collect();
        let keys = postgres.rows(&format!("SELECT concat_ws(' ', {}) FROM crm.{table}", texts.join(", "))).await;
        assert!(!keys.is_empty(), "{table}");
        for column in columns {
            let [name, data_type] = [0, 1].map(|n| column[n].clone().unwrap());
            if !key.split(", ").any(|part| part == name) {
                types.insert(data_type.clone());
                let cell =
                    |row: &Vec<Option<String>>| (table, row[0].clone().unwrap(), name.clone(), data_type.clone());
                cells.extend(keys.iter().map(cell));
            }
        }
    }
    assert_eq!(types.len(), 8, "{types:?}");
    rng.shuffle(&mut cells);
    // Of every table, however few rows it has.
    let seen = |table: &str| cells.iter().filter(|cell| cell.0 == table).take(3).cloned().collect::<Vec<_>>();
    let mut chosen: Vec<_> = TABLES.iter().flat_map(|(table, _)| seen(table)).collect();
    chosen.extend(
        cells.iter().filter(|cell| !chosen.contains(cell)).take(number - chosen.len()).cloned().collect::<Vec<_>>(),
    );
    let mut statements = String::new();
    for (table, key, column, data_type) in &chosen {
        let of_key = TABLES.iter().find(|(name, _)| name == table).unwrap().1;
        let texts: Vec<String> = of_key.split(", ").map(|name| format!("{name}::text")).collect();
        statements.push_str(&format!(
            "UPDATE crm.{table} SET \"{column}\" = {} WHERE concat_ws(' ', {}) = '{key}';\n",
            another(column, data_type),
            texts.join(", ")
        ));
    }
    postgres.run(&statements).await;
    chosen.into_iter().map(|(table, key, column, _)| (table.to_string(), key, column)).collect()
}

#[tokio::test]
async fn thousand_planted_differences_of_every_type_are_named_and_repaired() {
    let Some((_crm, mirror, postgres)) = published(60).await else { return };
    let clean = checked(&mirror, &postgres, Check::Compare).await.unwrap();
    assert!(clean.differences == 0 && clean.rows > 300, "{clean:?}");
    let mut rng = Rng::with_seed(7);
    let planted = plant(&postgres, &mut rng, 1_000).await;
    assert_eq!(planted.len(), 1_000);
    let found = checked(&mirror, &postgres, Check::Compare).await.unwrap();
    let named: BTreeSet<(String, String, String)> = found
        .differing
        .iter()
        .map(|difference| {
            let column = difference.column.clone().unwrap_or_else(|| panic!("{difference:?}"));
            (difference.table.clone(), difference.key.clone(), column)
        })
        .collect();
    let missed: Vec<_> = planted.difference(&named).take(5).collect();
    let false_ones: Vec<_> = named.difference(&planted).take(5).collect();
    assert!(missed.is_empty() && false_ones.is_empty(), "missed {missed:?}, false {false_ones:?}");
    assert_eq!((found.differences, found.repaired), (1_000, 0));
    let repaired = checked(&mirror, &postgres, Check::Repair).await.unwrap();
    assert_eq!((repaired.differences, repaired.repaired), (1_000, 1_000));
    assert_equal(&mirror, &postgres).await;
    assert_eq!(checked(&mirror, &postgres, Check::Compare).await.unwrap().differences, 0);
}

#[tokio::test]
async fn missing_and_extra_rows_are_named_and_repaired_and_what_is_on_its_way_is_no_difference() {
    let Some((crm, mirror, postgres)) = published(40).await else { return };
    let gone =
        postgres.one("SELECT string_agg(id, ' ' ORDER BY id) FROM (SELECT id FROM crm.contacts LIMIT 3) t").await;
    postgres
        .run(
            "DELETE FROM crm.contacts WHERE id IN (SELECT id FROM crm.contacts LIMIT 3);
             INSERT INTO crm.contacts (id, name) VALUES ('stranger', 'Nobody');
             INSERT INTO crm.changes SELECT seq + 100000, object_type, record_id, kind, fields, seen_at FROM crm.changes LIMIT 1;
             INSERT INTO crm.custom_multi_values VALUES ('contact', 'stranger', 'typed_multi_select', 0, 'a')",
        )
        .await;
    crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[20], &json!({"position": "on its way"}));
        world.remove(Object::Contact, &ids[21]);
        let company = world.ids(Resource::Companies)[1].clone();
        world.edit(Object::Company, &company, &json!({"name": "Renamed"}));
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    let found = checked(&mirror, &postgres, Check::Repair).await.unwrap();
    let texts: BTreeSet<String> = found.differing.iter().map(ToString::to_string).collect();
    let mut expected: BTreeSet<String> = gone.split(' ').map(|id| format!("contacts {id}: missing")).collect();
    expected.insert("contacts stranger: not in the mirror".into());
    expected.insert("custom_multi_values contact stranger typed_multi_select 0: not in the mirror".into());
    let seq = texts.iter().find(|text| text.starts_with("changes ")).unwrap().clone();
    expected.insert(seq);
    assert_eq!(texts, expected);
    assert_eq!((found.differences, found.repaired), (6, 6));
    assert_equal(&mirror, &postgres).await;
    // The name of an owner loads the tables that show it.
    crm.sandbox.with_world(|world| {
        let member = world.ids(Resource::TeamMembers)[0].clone();
        world.edit(Resource::TeamMembers, &member, &json!({"firstName": "Renamed"}));
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    assert_eq!(checked(&mirror, &postgres, Check::Compare).await.unwrap().differences, 0);
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn repair_that_is_killed_anywhere_leaves_nothing_that_the_next_does_not_repair() {
    let Some((_crm, mirror, postgres)) = published(20).await else { return };
    let mut rng = Rng::with_seed(3);
    let mut finished = 0;
    for polls in (0..).step_by(47) {
        plant(&postgres, &mut rng, 60).await;
        let settings = PublishSettings { check: Check::Repair, ..Postgres::settings(&mirror) };
        finished += u32::from(killed_after(polls, postgres.try_publish(&settings)).await.is_some());
        let left = loop {
            match checked(&mirror, &postgres, Check::Repair).await {
                // The session of a killed publisher may still be ending.
                Err(PublishError::Busy { .. }) => tokio::task::yield_now().await,
                found => break found.unwrap(),
            }
        };
        assert_eq!(left.left(), 0);
        let found = differences(&mirror, &postgres).await;
        assert!(found.is_empty(), "after {polls}: {found:?}");
        if finished > 1 {
            // Replies that arrive together are one poll: on a busy machine there are fewer.
            assert!(polls > 36, "{polls}");
            return;
        }
    }
}

#[tokio::test]
async fn verb_and_status_say_what_differs_and_when_both_were_last_equal() {
    let Some((_crm, mirror, postgres)) = published(20).await else { return };
    let status =
        || serde_json::from_str::<Value>(&verb(&mirror, "", &["status", "--json"]).1).unwrap()["publish"].clone();
    assert_eq!(status()["equal_at"], Value::Null);
    assert!(verb(&mirror, "", &["status"]).1.contains("not compared with the mirror since"));
    let (code, out, err) = verb(&mirror, &postgres.url(), &["publish", "--verify"]);
    assert!(code == Some(0) && out.contains("every value is equal"), "{out}{err}");
    let equal_at = status()["equal_at"].clone();
    assert!(equal_at.is_string());
    let id = postgres
        .one("UPDATE crm.contacts SET cf_typed_decimal = 7 WHERE id = (SELECT min(id) FROM crm.contacts) RETURNING id")
        .await;
    // What was not compared is not reported.
    let (code, _, _) = verb(&mirror, &postgres.url(), &["publish"]);
    assert_eq!(code, Some(0));
    let (code, out, _) = verb(&mirror, &postgres.url(), &["publish", "--verify", "--json"]);
    assert_eq!(code, Some(1));
    let report: Value = serde_json::from_str(&out).unwrap();
    DocumentTable::read("publish", &[0]).check(std::slice::from_ref(&report));
    let expected = json!([{"table": "contacts", "key": id, "column": "cf_typed_decimal", "kind": "value"}]);
    assert_eq!(report["comparison"]["differing"], expected);
    let publish = status();
    assert_eq!(
        (&publish["differences"], &publish["differing"], &publish["equal_at"]),
        (&json!(1), &expected, &equal_at)
    );
    let (_, text, _) = verb(&mirror, "", &["status"]);
    assert!(
        text.contains("1 difference when compared") && text.contains(&format!("contacts {id}: cf_typed_decimal")),
        "{text}"
    );
    let (code, out, _) = verb(&mirror, &postgres.url(), &["publish", "--verify", "--repair"]);
    assert!(code == Some(0) && out.contains("1 difference, all repaired"), "{out}");
    assert_eq!(status()["differences"], 0);
    assert_equal(&mirror, &postgres).await;
}
