//! The recipes of `docs/sql.md` run on the demo's mirror in the system's shell and return rows.

use crm_mirror::cli::recipes;
use crm_mirror::model::decimal::same_number;

use crate::binary::{TestDir, has_sqlite3, sqlite3};

fn demo() -> TestDir {
    let place = TestDir::empty();
    place.run("demo --path demo.db").done();
    place.set("CRM_MIRROR_DATABASE__PATH", "demo.db")
}

#[test]
fn every_recipe_returns_rows() {
    let place = demo();
    let (mut ran, mut empty) = (0, Vec::new());
    for recipe in recipes::all() {
        if let Some(table) = &recipe.needs
            && place.ask(&format!("SELECT count(*) FROM sqlite_schema WHERE name = '{table}'")) == "0"
        {
            eprintln!("SKIPPED: `{}` needs {table}", recipe.title);
            continue;
        }
        ran += 1;
        if place.ask(recipe.sql.trim().trim_end_matches(';')).is_empty() {
            empty.push(recipe.title.clone());
        }
        if has_sqlite3() && sqlite3(&place.path("demo.db"), &recipe.sql).trim().is_empty() {
            empty.push(recipe.title);
        }
    }
    assert!(empty.is_empty(), "{empty:?}");
    assert!(ran >= 28, "{ran}");
}

#[test]
fn sum_by_integers_is_exact() {
    let place = demo();
    let recipe = recipes::all().into_iter().find(|recipe| recipe.title == "Add decimals exactly").unwrap();
    // Every sign, carry and length.
    for values in [
        "cf_lifetime_value",
        "CASE WHEN cf_lifetime_value_num > 0 THEN '-' || cf_lifetime_value END",
        "CASE rowid % 4 WHEN 0 THEN '-0.9999999999' WHEN 1 THEN '0.0000000001' WHEN 2 THEN '7' END",
        "CASE rowid % 3 WHEN 0 THEN '-3.75' WHEN 1 THEN '3.7499999999' WHEN 2 THEN '-0.5' END",
        "CASE rowid % 2 WHEN 0 THEN '100' ELSE '-99.9' END",
    ] {
        let given = format!(
            "given AS (SELECT {values} AS v FROM main.contacts WHERE instr(cf_lifetime_value || '.', '.') <= 16)"
        );
        let sql = recipe.sql.replace("cf_lifetime_value", "v").replace("FROM contacts", "FROM given").replacen(
            "WITH",
            &format!("WITH {given},"),
            1,
        );
        let found = place.ask(sql.trim().trim_end_matches(';'));
        let (total, left_out) = found.split_once(',').unwrap();
        assert_eq!(left_out, "0", "{values}");
        let exact = place.ask(&format!("WITH {given} SELECT decimal_sum(v) FROM given"));
        assert!(same_number(total, &exact), "{values}: {total} {exact}");
    }
}
