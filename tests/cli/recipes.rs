//! The recipes of `docs/recipes.md` run on the demo's mirror in the system's shell and return rows.
//!
//! A recipe is an `sql` block. Its title is the heading above it. A comment `<!-- needs TABLE -->` names a table that it
//! requires.

use crm_mirror::model::decimal::same_number;
use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::sandbox::{NewField, World};
use serde_json::json;

use crate::binary::{Service, TestDir, has_sqlite3, sqlite3};

const TEXT: &str = include_str!("../../docs/recipes.md");

#[derive(Clone, Default)]
struct Recipe {
    section: String,
    title: String,
    sql: String,
    needs: Option<String>,
}

fn all() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    let mut next = Recipe::default();
    let mut lines = TEXT.lines();
    while let Some(line) = lines.next() {
        if let Some(section) = line.strip_prefix("## ") {
            next = Recipe { section: section.into(), ..Recipe::default() };
        } else if let Some(title) = line.strip_prefix("### ") {
            next.title = title.into();
        } else if let Some(table) = line.strip_prefix("<!-- needs ").and_then(|rest| rest.strip_suffix(" -->")) {
            next.needs = Some(table.into());
        } else if line == "```sql" {
            let sql: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            recipes.push(Recipe { sql: sql.join("\n"), ..next.clone() });
            next.needs = None;
        } else if line.starts_with("```") {
            // A block in another language.
            lines.by_ref().find(|line| line.starts_with("```"));
        }
    }
    recipes
}

#[test]
fn every_block_is_a_recipe_with_a_unique_title() {
    let recipes = all();
    assert_eq!(recipes.len(), TEXT.matches("\n```sql\n").count());
    let mut titles: Vec<&str> = recipes.iter().map(|recipe| recipe.title.as_str()).collect();
    assert!(titles.iter().all(|title| !title.is_empty()), "{titles:?}");
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), recipes.len());
    let questions = recipes.iter().filter(|recipe| recipe.section == "Twenty questions").count();
    assert_eq!(questions, 20);
}

fn demo() -> TestDir {
    let place = TestDir::empty();
    place.run("demo --path demo.db").done();
    place.set("CRM_MIRROR_DATABASE__PATH", "demo.db")
}

fn recipe(title: &str) -> String {
    let recipe = all().into_iter().find(|recipe| recipe.title == title).unwrap();
    recipe.sql.trim().trim_end_matches(';').to_string()
}

/// Runs every recipe. Returns how many ran, and the titles of those without rows.
fn run_all(place: &TestDir, file: &str) -> (usize, Vec<String>) {
    let (mut ran, mut empty) = (0, Vec::new());
    for recipe in all() {
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
        if has_sqlite3() && sqlite3(&place.path(file), &recipe.sql).trim().is_empty() {
            empty.push(recipe.title);
        }
    }
    (ran, empty)
}

#[test]
fn every_recipe_returns_rows() {
    let (ran, empty) = run_all(&demo(), "demo.db");
    assert!(empty.is_empty(), "{empty:?}");
    assert!(ran >= 28, "{ran}");
}

/// A mirror whose records and fields come and go, and what it held in `cf_tier` after each step.
struct Life {
    service: Service,
    place: TestDir,
    held: Vec<(Instant, String)>,
}

impl Life {
    fn step(&mut self, change: impl FnOnce(&mut World)) {
        self.service.sandbox.with_world(change);
        self.place.run("resync").done();
        let columns = self.place.ask("SELECT group_concat(name, ' ') FROM pragma_table_info('contacts')");
        let held = match columns.split(' ').any(|name| name == "cf_tier") {
            true => self.place.ask(
                "SELECT cf_tier, count(*) FROM contacts WHERE cf_tier IS NOT NULL GROUP BY cf_tier ORDER BY cf_tier",
            ),
            false => String::new(),
        };
        self.held.push((Instant::system_now(), held));
    }
}

#[test]
fn every_recipe_is_right_after_fields_and_records_came_and_went() {
    let service = Service::with(40, 6);
    let place = TestDir::of(&service).set("CRM_MIRROR_DATABASE__PATH", "mirror.db");
    let mut life = Life { service, place, held: Vec::new() };
    life.step(|_| ());
    let ids =
        life.place.ask("SELECT id FROM contacts WHERE cf_tier IS NOT NULL AND cf_tier <> 'gold' ORDER BY id LIMIT 6");
    let ids: Vec<&str> = ids.lines().collect();
    let set = |world: &mut World, id: &str, fields: serde_json::Value| {
        assert!(world.edit(Object::Contact, id, &json!({ "customFields": fields })), "{id}");
    };
    life.step(|world| ids[..3].iter().for_each(|id| set(world, id, json!({"tier": "gold"}))));
    life.step(|world| {
        world.fields().define(NewField::new(Object::Contact, "room_num", DataType::Integer));
        set(world, ids[0], json!({"room_num": 7}));
    });
    life.step(|world| {
        ids[3..5].iter().for_each(|id| assert!(world.remove(Object::Contact, id)));
        // An answer as new as the removed records decides at once.
        set(world, ids[0], json!({"room_num": 8}));
    });
    life.step(|world| assert!(world.fields().archive(Object::Contact, "tier")));
    life.step(|world| assert!(world.fields().reactivate(Object::Contact, "tier")));
    let moves = || life.place.ask(&format!("SELECT sum(moves) FROM ({})", recipe("Count stage moves per week")));
    assert_eq!(moves(), "3");
    let returned = json!({"id": ids[3], "name": "Returned", "customFields": {"tier": "gold"}});
    life.step(|world| _ = world.create(Object::Contact, &returned));
    life.step(|world| {
        assert!(world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "INTEGER".into()));
        set(world, ids[0], json!({"tier": 5}));
        set(world, ids[1], json!({"tier": null}));
    });
    let kinds = "SELECT count(DISTINCT coalesce(json_extract(fields, '$.op'), kind)) FROM changes";
    let (place, held) = (&life.place, &life.held);
    assert_eq!(place.ask(kinds), "7", "insert, update, remove, added, archived, restored, retyped");
    let (_, empty) = run_all(place, "mirror.db");
    assert!(empty.iter().all(|title| !title.contains("histor") && !title.contains("date")), "{empty:?}");

    let on_a_date = recipe("Show a field on a given date");
    assert_eq!(place.ask(&on_a_date), held[0].1, "before the first copy");
    for (n, (at, held)) in held.iter().enumerate() {
        let then = on_a_date.replace("strftime('%Y-%m-%dT%H:%M:%S', 'now', '-30 days')", &format!("'{at}'"));
        assert_ne!(then, on_a_date);
        assert_eq!(place.ask(&then), *held, "after step {n}");
    }
    for title in ["See what changed since yesterday", "Read the history of one record"] {
        let of = |condition: &str| place.ask(&format!("SELECT count(*) FROM ({}) WHERE {condition}", recipe(title)));
        assert_eq!(of("old IS new OR field IN ('etag', 'updated_at', 'cf_lifetime_value_num')"), "0", "{title}");
        assert_ne!(of("field = 'cf_room_num'"), "0", "{title}");
    }
}

#[test]
fn sum_by_integers_is_exact() {
    let place = demo();
    let recipe = recipe("Add decimals exactly");
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
        let sql = recipe.replace("cf_lifetime_value", "v").replace("FROM contacts", "FROM given").replacen(
            "WITH",
            &format!("WITH {given},"),
            1,
        );
        let found = place.ask(&sql);
        let (total, left_out) = found.split_once(',').unwrap();
        assert_eq!(left_out, "0", "{values}");
        let exact = place.ask(&format!("WITH {given} SELECT decimal_sum(v) FROM given"));
        assert!(same_number(total, &exact), "{values}: {total} {exact}");
    }
}
