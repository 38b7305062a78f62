//! `describe`: what the tables and columns mean.

use serde_json::json;

use crate::binary::{Service, TestDir};

fn mirrored() -> (Service, TestDir) {
    let service = Service::with(20, 4);
    let place = TestDir::of(&service);
    place.run("sync").done();
    (service, place)
}

#[test]
fn every_table_has_a_purpose_and_a_row_count() {
    let (_service, place) = mirrored();
    let text = place.run("describe").done().out;
    let line = text.lines().find(|line| line.starts_with("contacts_full ")).unwrap();
    assert!(line.contains("view") && line.contains(" 20  "), "{line}");
    assert!(!text.contains("doubts"), "{text}");
    let found = place.run("describe --json").done().json();
    let tables = found["tables"].as_array().unwrap();
    assert!(tables.len() >= 16);
    for table in tables {
        assert!(!table["about"].as_str().unwrap().is_empty(), "{table}");
        assert!(table.get("columns").is_none());
        let sql = format!("SELECT count(*) FROM {}", table["name"].as_str().unwrap());
        assert_eq!(place.ask(&sql), table["rows"].to_string(), "{table}");
    }
    assert_eq!(tables[0]["name"], "contacts_full");
}

#[test]
fn columns_have_labels_and_options() {
    let (_service, place) = mirrored();
    let text = place.run("describe Contacts_Full").done().out;
    assert!(text.starts_with("contacts_full (view, 20 rows): "), "{text}");
    let line = text.lines().find(|line| line.starts_with("cf_tier ")).unwrap();
    for part in
        ["SINGLE_SELECT", "Tier", "customFields.tier", "custom", "gold = Gold, silver = Silver, bronze = Bronze"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    let found = place.run("describe companies --json").done().json();
    assert_eq!((&found["name"], &found["rows"]), (&json!("companies"), &json!(4)));
    let columns = found["columns"].as_array().unwrap();
    let column = |name: &str| columns.iter().find(|column| column["name"] == name).unwrap();
    assert_eq!(column("hq_country")["wire_name"], "hqCountry");
    assert_eq!(column("cf_region")["options"][0], json!({"value": "emea", "label": "EMEA"}));
    assert_eq!(columns.len().to_string(), {
        place.ask("SELECT count(*) FROM mirror_columns WHERE table_name = 'companies'")
    });
}

#[test]
fn unknown_table_is_a_usage_error_with_a_suggestion() {
    let (_service, place) = mirrored();
    let ended = place.run("describe contact_ful").code(2);
    assert!(ended.out.is_empty());
    assert!(ended.err.contains("no table or view `contact_ful`"), "{}", ended.err);
    assert!(ended.err.contains("`crm-mirror describe` lists them all"), "{}", ended.err);
    place.run("describe state").code(2);
}

#[test]
fn describe_without_a_mirror_shows_how_to_create_one() {
    let ended = TestDir::empty().run("describe").code(74);
    assert!(ended.err.contains("crm-mirror sync"), "{}", ended.err);
}
