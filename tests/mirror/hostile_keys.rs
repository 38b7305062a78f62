//! Custom keys are hostile until proven otherwise: whatever a tenant calls a field, its values are in a plain column
//! that users can query, and no other column is affected.

use crate::support::{Crm, Mirror, noon, shell};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::MAX_COLUMNS;
use serde_json::json;

/// Keys and their columns, in order of definition.
fn hostile() -> Vec<(String, &'static str)> {
    let long = |last: &str| format!("{}{last}", "k".repeat(499));
    [
        ("x\"; DROP TABLE contacts; --", "cf_x___drop_table_contacts____"),
        ("Tier", "cf_tier"),
        ("tier", "cf_tier_2"),
        ("TIER", "cf_tier_3"),
        ("select", "cf_select"),
        ("id", "cf_id"),
        ("\u{1F980}", "cf__"),
        (" ", "cf___2"),
        ("\u{200B}", "cf___3"),
        (".", "cf___4"),
        ("a][b", "cf_a__b"),
        ("a'b", "cf_a_b"),
        ("a,b", "cf_a_b_2"),
        ("a%20b&c=d", "cf_a_20b_c_d"),
        ("line\nbreak\0nul", "cf_line_break_nul"),
        ("customFields", "cf_customfields"),
        ("extra", "cf_extra"),
        ("cf_extra", "cf_cf_extra"),
        ("\u{130}stanbul", "cf__stanbul"),
        ("$.a", "cf___a"),
    ]
    .map(|(key, column)| (key.to_string(), column))
    .into_iter()
    .chain([
        (long("y"), "cf_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"),
        (long("z"), "cf_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk_2"),
    ])
    .collect()
}

fn value_of(key: &str) -> String {
    format!("of {}", key.chars().rev().take(40).collect::<String>().replace('\0', "~"))
}

#[tokio::test]
async fn every_key_becomes_a_plain_column_with_its_values() {
    let mut world = World::new(noon());
    let mut values = serde_json::Map::new();
    for (n, (key, _)) in hostile().iter().enumerate() {
        world.now = noon().plus(std::time::Duration::from_secs(n as u64));
        world.fields().define(NewField::new(Object::Contact, key, DataType::ShortText));
        values.insert(key.clone(), json!(value_of(key)));
    }
    world.create(Object::Contact, &json!({"id": "ct", "name": "Ann", "customFields": values}));
    world.create(Object::Contact, &json!({"id": "x'; DELETE FROM contacts; --", "name": "Eve"}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    for (key, column) in hostile() {
        let given: String = mirror
            .read()
            .query_row("SELECT column_name FROM custom_field_definitions WHERE key = ?1", [&key], |row| row.get(0))
            .unwrap();
        assert_eq!(given, column, "{key:?}");
        let value: String = mirror
            .read()
            .query_row(&format!("SELECT {column} FROM contacts_full WHERE id = 'ct'"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(value, value_of(&key), "{key:?}");
    }
    assert_eq!(mirror.one("PRAGMA integrity_check"), "'ok'");
    assert_eq!(mirror.count("contacts"), 2);
    if shell::is_there() {
        assert_eq!(shell::run(&mirror.path, "PRAGMA integrity_check").unwrap(), "ok");
        let found = shell::run(
            &mirror.path,
            "SELECT cf_tier, cf_tier_2, cf_tier_3, cf_select FROM contacts_full WHERE id = 'ct'",
        );
        assert_eq!(found.unwrap(), "of reiT|of reit|of REIT|of tceles");
    }
    // The names are stable over refreshes, archiving and restoring.
    crm.sandbox.with_world(|world| {
        for (key, _) in hostile() {
            world.fields().archive(Object::Contact, &key);
        }
    });
    crm.wait(600);
    mirror.resync(&crm).await;
    assert_eq!(
        mirror.one("SELECT count(*) FROM pragma_table_info('contacts_full') WHERE name LIKE 'cf\\_%' ESCAPE '\\'"),
        "0"
    );
    crm.sandbox.with_world(|world| {
        for (key, _) in hostile() {
            world.fields().reactivate(Object::Contact, &key);
        }
    });
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    for (key, column) in hostile() {
        let given: String = mirror
            .read()
            .query_row("SELECT column_name FROM custom_field_definitions WHERE key = ?1", [&key], |row| row.get(0))
            .unwrap();
        assert_eq!(given, column, "{key:?}");
    }
}

/// `fee` and `fee_num` of these types, defined in this order.
async fn fees(fee: DataType, num_first: bool) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    let mut fields =
        vec![NewField::new(Object::Contact, "fee", fee), NewField::new(Object::Contact, "fee_num", DataType::Integer)];
    if num_first {
        fields.reverse();
    }
    for (n, field) in fields.into_iter().enumerate() {
        world.now = noon().plus(std::time::Duration::from_secs(n as u64));
        world.fields().define(field);
    }
    world.create(Object::Contact, &json!({"id": "ct", "customFields": {"fee": "1.10", "fee_num": 7}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    (crm, mirror)
}

fn shown(mirror: &Mirror, columns: &str) -> String {
    let sql = format!("SELECT concat_ws(' ', {columns}) FROM contacts_full");
    mirror.one(&sql)
}

#[tokio::test]
async fn companion_of_a_decimal_and_a_key_with_its_name_get_columns_of_their_own() {
    for (num_first, columns) in
        [(false, "cf_fee, cf_fee_num, cf_fee_num_2"), (true, "cf_fee_2, cf_fee_2_num, cf_fee_num")]
    {
        let (crm, mirror) = fees(DataType::Decimal, num_first).await;
        mirror.assert_exact(&crm);
        assert_eq!(shown(&mirror, columns), "'1.10 1.1 7'");
    }
}

#[tokio::test]
async fn field_named_like_a_companion_is_independent_of_the_decimal() {
    let (crm, mirror) = fees(DataType::ShortText, false).await;
    assert_eq!(shown(&mirror, "cf_fee, cf_fee_num"), "'1.10 7'");
    // Archived and restored.
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "fee"));
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(shown(&mirror, "cf_fee_num"), "'7'");
    assert_eq!(
        mirror.one(
            "SELECT group_concat(name) FROM pragma_table_info('contacts') WHERE name LIKE '%cf\\_fee%' ESCAPE '\\'"
        ),
        "'archived_cf_fee,cf_fee_num'"
    );
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "fee"));
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    // Another type, first without and then with a companion.
    for (data_type, value) in [("INTEGER", json!(3)), ("DECIMAL", json!("2.50")), ("SHORT_TEXT", json!("two"))] {
        crm.sandbox.with_world(|world| {
            world.fields().redefine(Object::Contact, "fee", |field| field.data_type = data_type.into());
            world.edit(Object::Contact, "ct", &json!({"customFields": {"fee": value}}));
        });
        crm.wait(600);
        mirror.resync(&crm).await;
        mirror.assert_exact(&crm);
        assert_eq!(shown(&mirror, "cf_fee_num"), "'7'", "{data_type}");
    }
}

#[tokio::test]
async fn hundreds_of_fields_of_every_type_have_columns() {
    let mut world = World::new(noon());
    let mut values = serde_json::Map::new();
    for n in 0..300 {
        let data_type = DataType::ALL[n % DataType::ALL.len()];
        let key = format!("Field {n}");
        world.fields().define(NewField::new(Object::Contact, &key, data_type).options(&["a", "b"]));
        let value = match data_type {
            DataType::Integer => json!(n),
            DataType::Decimal => json!(format!("{n}.10")),
            DataType::Boolean => json!(n % 2 == 0),
            DataType::Date => json!("2026-01-02"),
            DataType::DateTime => json!("2026-01-02T03:04:05.000Z"),
            DataType::MultiSelect => json!(["b", "a"]),
            _ => json!(format!("value {n}")),
        };
        values.insert(key, value);
    }
    for n in 0..5 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "customFields": values}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("custom_multi_values"), 5 * 33 * 2);
}

#[tokio::test]
async fn fields_beyond_the_column_limit_are_kept_in_extra_and_the_file_stays_usable() {
    let fields = MAX_COLUMNS / 2 + 2;
    let mut world = World::new(noon());
    let mut values = serde_json::Map::new();
    for n in 0..fields {
        world.now = noon().plus(std::time::Duration::from_secs(n as u64));
        let key = format!("d{n:04}");
        world.fields().define(NewField::new(Object::Contact, &key, DataType::Decimal));
        values.insert(key, json!(format!("{n}.5")));
    }
    world.create(Object::Contact, &json!({"id": "ct", "customFields": values}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    let report = mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let columns = "SELECT count(*) FROM pragma_table_info('contacts') WHERE name LIKE 'cf\\_%' ESCAPE '\\'";
    assert_eq!(mirror.one(columns), MAX_COLUMNS.to_string());
    let beyond = ["d0925", "d0926"];
    assert_eq!(mirror.one("SELECT extra FROM contacts"), r#"'{"customFields":{"d0925":"925.5","d0926":"926.5"}}'"#);
    for key in beyond {
        let named = format!("the values of the custom field `{key}` of contact are kept in `extra`");
        assert!(report.warnings.contains(&named), "{:?}", report.warnings);
    }
    assert_eq!(mirror.one("SELECT cf_d0924_num FROM contacts_full"), "924.5");
    if shell::is_there() {
        assert_eq!(shell::run(&mirror.path, "PRAGMA integrity_check").unwrap(), "ok");
        let whole = shell::run(&mirror.path, "SELECT * FROM contacts_full").unwrap();
        assert!(whole.contains("|924.5|"), "{whole}");
    }
    let conn = mirror.read();
    conn.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_FUNCTION_ARG, 100).unwrap();
    let values = "SELECT count(*) FROM contact_history WHERE column_name GLOB 'cf_d*'";
    assert_eq!(conn.query_row(values, [], |row| row.get::<_, i64>(0)).unwrap(), MAX_COLUMNS as i64);
    // Both are known, so their keys cause no further requests, and a change of the record is applied like any other.
    crm.wait(1_800);
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "ct", &json!({"customFields": {"d0926": "1.25", "d0000": "9"}}))
    });
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 3, "two lists and the detail");
    assert_eq!(mirror.one("SELECT cf_d0000 FROM contacts_full"), "'9'");
    assert_eq!(mirror.one("SELECT extra FROM contacts"), r#"'{"customFields":{"d0925":"925.5","d0926":"1.25"}}'"#);
    mirror.assert_exact(&crm);
}

/// Fields that have a column, and whose new type needs a companion beside it.
#[tokio::test]
async fn fields_whose_new_type_needs_more_columns_than_there_are_go_to_extra() {
    let (fields, changed) = (MAX_COLUMNS - 10, 20);
    let key = |n: usize| format!("f{n:04}");
    let mut world = World::new(noon());
    for n in 0..fields {
        world.now = noon().plus(std::time::Duration::from_secs(n as u64));
        world.fields().define(NewField::new(Object::Contact, &key(n), DataType::ShortText));
    }
    let values: serde_json::Map<_, _> = (0..fields).map(|n| (key(n), json!(format!("{n}.5")))).collect();
    world.create(Object::Contact, &json!({"id": "ct", "customFields": values}));
    world.create(Object::Contact, &json!({"id": "other", "name": "Old"}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for n in 0..changed {
            world.fields().redefine(Object::Contact, &key(n), |field| field.data_type = "DECIMAL".into());
        }
        world.edit(Object::Contact, "other", &json!({"name": "New"}));
    });
    crm.wait(6 * 3_600);
    let report = mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'other'"), "'New'");
    let beyond = mirror.one("SELECT count(*) FROM custom_field_definitions WHERE column_name IS NULL");
    assert_eq!(report.warnings.len().to_string(), beyond);
    assert_eq!(beyond, "5", "each that has none leaves a column for another one");
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    let columns = "SELECT count(*) FROM pragma_table_info('contacts') WHERE name LIKE 'cf\\_%' ESCAPE '\\'";
    assert_eq!(mirror.one(columns), MAX_COLUMNS.to_string());
    // Archived ones that return have no more room than the others.
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, &key(0)));
    crm.wait(600);
    mirror.resync(&crm).await;
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, &key(0)));
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
}
