//! `describe --format datasette`: metadata that matches the mirror.

use serde_json::json;

use crate::binary::TestDir;

#[test]
fn metadata_describes_the_tables_of_the_file() {
    let place = TestDir::empty();
    place.run("demo --path my.demo.db").done();
    let found = place.run("describe --format datasette --database my.demo.db").done().json();
    // The name that Datasette gives the database.
    let tables = found["databases"]["my.demo"]["tables"].as_object().unwrap();
    for own in ["state", "doubts", "sqlite_sequence"] {
        assert_eq!(tables[own], json!({"hidden": true}));
    }
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "my.demo.db");
    for (name, table) in tables {
        if table["hidden"] == json!(true) || name.ends_with("_search") {
            continue;
        }
        let real = place.ask(&format!("SELECT name FROM pragma_table_info('{name}')"));
        let real: Vec<&str> = real.lines().collect();
        assert!(!table["description"].as_str().unwrap().is_empty());
        for column in table["columns"].as_object().unwrap().keys() {
            assert!(real.contains(&column.as_str()), "{name}.{column}");
        }
    }
    assert!(tables.values().all(|table| table.get("facets").is_none()), "a facet counts the whole table");
}
