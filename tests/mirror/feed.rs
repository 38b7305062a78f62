//! The change feed as a follower reads it, and the history derived from it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::publish::{MirrorStream, PublishError, StreamCursor};
use crm_mirror::sandbox::{CustomDefinition, NewField, World};
use crm_mirror::store::Reader;
use crm_mirror::store::record::record;
use rusqlite::Connection;
use serde_json::{Value, json};

/// The interval after which definitions are read again.
const INTERVAL: u64 = 6 * 3600;

/// Columns that the feed omits: stamps, etags, names of other records, and derived columns.
const NOT_IN_THE_FEED: [&str; 6] = ["synced_at", "fetched_at", "etag", "details_current", "owner_name", "company_name"];

type Row = BTreeMap<String, Value>;

/// The contacts of a mirror as in `contacts_full`.
fn contacts(path: &Path) -> BTreeMap<String, Row> {
    let conn = Connection::open(path).unwrap();
    let mut stmt = conn.prepare("SELECT * FROM contacts_full").unwrap();
    let names: Vec<String> = stmt.column_names().map(String::from).collect();
    let rows = stmt.query_map([], |row| {
        let mut columns = Row::new();
        for (place, name) in names.iter().enumerate() {
            let value = match row.get(place)? {
                rusqlite::types::Value::Null => Value::Null,
                rusqlite::types::Value::Integer(integer) => integer.into(),
                rusqlite::types::Value::Real(real) => real.into(),
                rusqlite::types::Value::Text(text) => text.into(),
                rusqlite::types::Value::Blob(_) => panic!("a blob"),
            };
            if !NOT_IN_THE_FEED.contains(&name.as_str()) {
                columns.insert(name.clone(), value);
            }
        }
        Ok(columns)
    });
    rows.unwrap().map(Result::unwrap).map(|row| (row["id"].as_str().unwrap().to_string(), row)).collect()
}

/// A copy that follows the feed without other queries to the mirror.
struct Follower {
    rows: BTreeMap<String, Row>,
    columns: Vec<String>,
    seq: i64,
}

impl Follower {
    fn copy(path: &Path) -> Follower {
        let conn = Connection::open(path).unwrap();
        let seq = conn.query_row("SELECT coalesce(max(seq), 0) FROM changes", [], |row| row.get(0)).unwrap();
        let mut stmt = conn.prepare("SELECT name FROM pragma_table_info('contacts_full')").unwrap();
        let columns = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
        let columns = columns.filter(|name: &String| !NOT_IN_THE_FEED.contains(&name.as_str())).collect();
        Follower { rows: contacts(path), columns, seq }
    }

    fn follow(&mut self, path: &Path) {
        let conn = Connection::open(path).unwrap();
        let mut stmt = conn
            .prepare(
                "SELECT seq, record_id, kind, fields FROM changes
                 WHERE object_type = 'contact' AND seq > ?1 ORDER BY seq",
            )
            .unwrap();
        let entries = stmt.query_map([self.seq], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        });
        for (seq, id, kind, fields) in entries.unwrap().map(Result::unwrap) {
            self.seq = seq;
            let fields: serde_json::Map<String, Value> = serde_json::from_str(&fields).unwrap();
            match kind.as_str() {
                "schema" => self.reshape(&fields),
                "remove" => _ = self.rows.remove(&id),
                _ => self.write(&id, &kind, fields),
            }
        }
    }

    fn reshape(&mut self, fields: &serde_json::Map<String, Value>) {
        let column = fields["column"].as_str().unwrap().to_string();
        match fields["op"].as_str().unwrap() {
            "added" | "restored" => {
                assert!(!self.columns.contains(&column), "{column} twice");
                self.columns.push(column.clone());
                self.rows.values_mut().for_each(|row| _ = row.insert(column.clone(), Value::Null));
            }
            "retyped" => self.rows.values_mut().for_each(|row| _ = row.insert(column.clone(), Value::Null)),
            "archived" | "removed" => {
                self.columns.retain(|name| *name != column);
                self.rows.values_mut().for_each(|row| _ = row.remove(&column));
            }
            other => panic!("{other}"),
        }
    }

    fn write(&mut self, id: &str, kind: &str, fields: serde_json::Map<String, Value>) {
        if kind == "insert" {
            let mut row: Row = self.columns.iter().map(|name| (name.clone(), Value::Null)).collect();
            row.insert("id".into(), id.into());
            self.rows.insert(id.into(), row);
        }
        let row = self.rows.get_mut(id).unwrap_or_else(|| panic!("{kind} of {id}"));
        for (column, values) in fields {
            if !NOT_IN_THE_FEED.contains(&column.as_str()) {
                assert!(self.columns.contains(&column), "a value of {column}, which was not announced");
                row.insert(column, values[1].clone());
            }
        }
    }
}

async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
        world.fields().define(NewField::new(Object::Contact, "amount", DataType::Decimal));
        for n in 0..8 {
            let fields = json!({"tier": format!("t{n}"), "amount": format!("{n}.50")});
            world.create(
                Object::Contact,
                &json!({"id": format!("ct{n}"), "name": format!("N {n}"), "customFields": fields}),
            );
        }
        let crm = Crm::serve(world).await;
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        (crm, mirror)
    };
    prepared("feed".into(), make).await
}

#[tokio::test]
async fn follower_of_the_feed_ends_equal_whatever_happens_to_fields() {
    let (crm, mirror) = mirrored().await;
    let mut follower = Follower::copy(&mirror.path);
    for step in 0..10 {
        crm.wait(INTERVAL);
        crm.sandbox.with_world(|world| {
            let of = |key: &str, value: Value| json!({"customFields": {key: value}});
            match step {
                0 => _ = world.fields().archive(Object::Contact, "tier"),
                1 => _ = world.fields().reactivate(Object::Contact, "tier"),
                2 => {
                    world.fields().redefine(Object::Contact, "tier", |definition| {
                        definition.data_type = "INTEGER".into();
                        definition.allowed_operators = vec!["isNull".into()];
                    });
                    for n in 0..8 {
                        let value = if n < 6 { json!(n) } else { Value::Null };
                        world.edit_silently(Object::Contact, &format!("ct{n}"), &of("tier", value));
                    }
                }
                3 => {
                    world.edit(Object::Contact, "ct1", &json!({"notes": "new", "firstName": "Eve"}));
                    world.remove(Object::Contact, "ct2");
                    world.create(Object::Contact, &json!({"id": "ct9", "name": "Nine"}));
                }
                4 => _ = world.fields().archive(Object::Contact, "amount"),
                5 => _ = world.edit_silently(Object::Contact, "ct3", &of("amount", json!("9.99"))),
                6 => _ = world.fields().reactivate(Object::Contact, "amount"),
                // Of a type that the mirror does not know, it has no column.
                7 => {
                    let field = NewField::new(Object::Contact, "colour", DataType::ShortText);
                    world.fields().define(field.of_type("COLOUR"));
                }
                8 => {
                    let known = |definition: &mut CustomDefinition| definition.data_type = "SHORT_TEXT".into();
                    _ = world.fields().redefine(Object::Contact, "colour", known);
                }
                _ => _ = world.edit(Object::Contact, "ct4", &of("colour", json!("red"))),
            }
        });
        if step == 3 {
            mirror.resync(&crm).await;
        }
        mirror.sync(&crm).await;
        follower.follow(&mirror.path);
        let here = contacts(&mirror.path);
        assert_eq!(follower.rows, here, "step {step}");
    }
    mirror.assert_exact(&crm);
    // The type before a value returned is its old value.
    let emitted = mirror.one(
        "SELECT fields FROM changes WHERE record_id = 'ct1' AND json_type(fields, '$.cf_tier') IS NOT NULL
         ORDER BY seq DESC LIMIT 1",
    );
    assert!(emitted.contains(r#""cf_tier":["t1",1]"#), "{emitted}");
    assert_eq!(
        mirror.one("SELECT count(*) FROM change_fields WHERE column_name = 'extra' AND new_value LIKE '%notes%'"),
        "0"
    );
}

#[tokio::test]
async fn change_of_etags_only_has_no_entry() {
    let (crm, mirror) = mirrored().await;
    let before = mirror.one("SELECT count(*) FROM changes");
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute("UPDATE contacts SET etag = 'old' WHERE id = 'ct1'", []).unwrap();
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    assert_ne!(mirror.one("SELECT etag FROM contacts WHERE id = 'ct1'"), "'old'");
    assert_eq!(mirror.one("SELECT count(*) FROM changes"), before);
}

#[tokio::test]
async fn history_has_every_value_with_its_time() {
    let (crm, mirror) = mirrored().await;
    let mut times: Vec<(Instant, BTreeMap<String, Row>)> = Vec::new();
    for step in 0..6 {
        crm.wait(3600);
        crm.sandbox.with_world(|world| match step {
            0 => _ = world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": "gold"}, "firstName": "Ada"})),
            1 => _ = world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": null}})),
            2 => _ = world.create(Object::Contact, &json!({"id": "new", "name": "New"})),
            3 => _ = world.remove(Object::Contact, "ct2"),
            4 => _ = world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": "tin"}, "notes": "n"})),
            _ => _ = world.remove(Object::Contact, "ct1"),
        });
        mirror.resync(&crm).await;
        let conn = Connection::open(&mirror.path).unwrap();
        let now: String = conn.query_row("SELECT max(seen_at) FROM changes", [], |row| row.get(0)).unwrap();
        times.push((now.parse().unwrap(), contacts(&mirror.path)));
    }
    let conn = Connection::open(&mirror.path).unwrap();
    for (time, rows) in &times {
        // One column of every record at a time, in SQL.
        let mut stmt = conn
            .prepare(
                "SELECT id, value FROM contact_history WHERE column_name = 'cf_tier' AND value IS NOT NULL
                 AND (valid_from IS NULL OR valid_from <= ?1) AND (valid_to IS NULL OR valid_to > ?1)",
            )
            .unwrap();
        let tiers: BTreeMap<String, Value> = stmt
            .query_map([time.to_string()], |row| Ok((row.get(0)?, row.get::<_, String>(1)?.into())))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let expected: BTreeMap<String, Value> = rows
            .iter()
            .filter(|(_, row)| !row["cf_tier"].is_null())
            .map(|(id, row)| (id.clone(), row["cf_tier"].clone()))
            .collect();
        assert_eq!(tiers, expected, "at {time}");
    }
    let plan = |sql: &str| {
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines = stmt.query_map([], |row| row.get::<_, String>(3)).unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    };
    let one = plan("SELECT * FROM contact_history WHERE id = 'ct1'");
    assert!(!one.contains("SCAN c\n") && !one.contains("SCAN r\n"), "{one}");
    let range = plan("SELECT * FROM changes WHERE object_type = 'contact' AND seen_at >= '2026' AND seen_at < '2027'");
    assert!(range.contains("changes_by_time"), "{range}");
}

/// What fills a column from `extra` was read long ago; its entries are the newest all the same.
#[tokio::test]
async fn record_is_shown_as_it_was_before_an_edit_although_a_field_was_filled_since() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
    let values = json!({"tier": "gold", "story": "Long"});
    world.create(Object::Contact, &json!({"id": "ct", "name": "Old", "customFields": values}));
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    let some = ["contacts:read", "companies:read", "team-members:read"];
    crm.sandbox.set_key(&crm.key, &some);
    mirror.sync(&crm).await;
    let then = mirror.one("SELECT max(finished_at) FROM sync_runs").trim_matches('\'').parse().unwrap();
    crm.wait(3_600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct", &json!({"name": "New"})));
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.sandbox.set_key(&crm.key, &[&some[..], &["custom-fields:read"]].concat());
    crm.wait(3_600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT cf_tier || cf_story FROM contacts_full"), "'goldLong'");
    let reader = Reader::open(&mirror.path).unwrap();
    let shown = record(&reader.begin().unwrap(), Object::Contact, "ct", Some(then)).unwrap();
    let name = shown.values.into_iter().find(|(column, _)| column == "name");
    assert_eq!(name.map(|(_, name)| name), Some(json!("Old")));
    assert_eq!(
        mirror.one("SELECT count(*) FROM changes AS a JOIN changes AS b ON b.seq > a.seq AND b.seen_at < a.seen_at"),
        "0"
    );
}

/// Whatever ends a type or a field, in whatever order.
#[tokio::test]
async fn what_a_field_held_before_its_column_was_dropped_is_in_the_history() {
    let of_type = |data_type: &'static str| (Some(data_type), None);
    let archived = |is: bool| (None, Some(is));
    let orders = [
        vec![of_type("COLOUR")],
        vec![of_type("COLOUR"), of_type("INTEGER")],
        vec![of_type("INTEGER"), of_type("BOOLEAN")],
        vec![of_type("INTEGER"), archived(true), archived(false)],
        vec![archived(true), of_type("INTEGER"), archived(false)],
        vec![(Some("INTEGER"), Some(true)), archived(false)],
        vec![archived(true), (Some("INTEGER"), Some(false))],
    ];
    for steps in orders {
        let mut world = World::new(noon());
        for (key, data_type) in [("tier", DataType::ShortText), ("fee", DataType::Decimal)] {
            world.fields().define(NewField::new(Object::Contact, key, data_type));
        }
        for id in ["ct0", "ct1"] {
            world.create(Object::Contact, &json!({"id": id, "customFields": {"tier": "gold", "fee": "1.50"}}));
        }
        let crm = Crm::serve(world).await;
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        let mut follower = Follower::copy(&mirror.path);
        let then = mirror.one("SELECT max(finished_at) FROM sync_runs");
        let mut end = String::new();
        for step in 0..steps.len() {
            let (data_type, is_archived) = steps[step];
            crm.wait(INTERVAL);
            crm.sandbox.with_world(|world| {
                for key in ["tier", "fee"] {
                    world.fields().redefine(Object::Contact, key, |field| {
                        field.data_type = data_type.map_or(field.data_type.clone(), Into::into);
                        let status = is_archived.map(|is_archived| if is_archived { "ARCHIVED" } else { "ACTIVE" });
                        field.status = status.map_or(field.status.clone(), Into::into);
                    });
                }
                let values = match data_type.unwrap_or("INTEGER") {
                    "INTEGER" => json!({"tier": 7, "fee": 7}),
                    "BOOLEAN" => json!({"tier": true, "fee": true}),
                    _ => json!({"tier": "red", "fee": "red"}),
                };
                world.edit_silently(Object::Contact, "ct1", &json!({ "customFields": values }));
                world.edit_silently(Object::Contact, "ct0", &json!({"customFields": {"tier": null, "fee": null}}));
            });
            mirror.sync(&crm).await;
            if step == 0 {
                end = mirror.one("SELECT max(seen_at) FROM changes WHERE kind = 'schema'");
            }
            follower.follow(&mirror.path);
            assert_eq!(follower.rows, contacts(&mirror.path), "{steps:?}, {step}");
            let reader = Reader::open(&mirror.path).unwrap();
            for id in ["ct0", "ct1"] {
                for (column, value) in [("cf_tier", "'gold'"), ("cf_fee", "'1.50'"), ("cf_fee_num", "1.5")] {
                    let history = |what: &str| {
                        mirror.one(&format!(
                            "SELECT {what} FROM contact_history WHERE id = '{id}' AND column_name = '{column}' AND value IS NOT NULL
                             AND (valid_from IS NULL OR valid_from <= {then}) AND (valid_to IS NULL OR valid_to > {then})"
                        ))
                    };
                    assert_eq!(history("max(value)"), value, "{steps:?}, {step}: {id} {column}");
                    assert_eq!(
                        history("count(*) || max(valid_to)"),
                        end.replacen('\'', "'1", 1),
                        "{steps:?}, {step}: {id} {column}"
                    );
                    let at = then.trim_matches('\'').parse().unwrap();
                    let shown = record(&reader.begin().unwrap(), Object::Contact, id, Some(at)).unwrap();
                    assert!(shown.values.iter().any(|(name, _)| name == column), "{steps:?}, {step}: {id} {column}");
                }
            }
        }
    }
}

#[tokio::test]
async fn values_of_retyped_and_archived_fields_are_in_the_history_until_their_end() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal));
    for n in 0..6 {
        let fields = json!({"tier": format!("t{n}"), "fee": format!("0.{n}0000000000000004")});
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "N", "customFields": fields}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let mut times: Vec<(String, BTreeMap<String, Row>)> = Vec::new();
    for step in 0..7 {
        crm.sandbox.with_world(|world| match step {
            0 => {}
            1 => _ = world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": "new", "fee": "7.5"}})),
            2 => _ = world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "INTEGER".into()),
            3 => _ = world.edit(Object::Contact, "ct2", &json!({"customFields": {"tier": 7}})),
            4 => _ = world.fields().archive(Object::Contact, "fee"),
            5 => {
                _ = world.edit(Object::Contact, "ct3", &json!({"position": "moved"}));
                world.remove(Object::Contact, "ct5");
            }
            _ => _ = world.fields().reactivate(Object::Contact, "fee"),
        });
        for _ in 0..2 {
            crm.wait(INTERVAL);
            if step == 5 {
                mirror.resync(&crm).await
            } else {
                mirror.sync(&crm).await
            };
        }
        let now = mirror.one("SELECT max(finished_at) FROM sync_runs").trim_matches('\'').to_string();
        times.push((now, contacts(&mirror.path)));
        let conn = Connection::open(&mirror.path).unwrap();
        let reader = Reader::open(&mirror.path).unwrap();
        for (time, rows) in &times {
            for (id, row) in rows {
                for column in ["cf_tier", "cf_fee", "cf_fee_num"] {
                    let found: Vec<Value> = conn
                        .prepare(
                            "SELECT id, value FROM contact_history
                             WHERE id = ?1 AND column_name = ?2 AND value IS NOT NULL
                             AND (valid_from IS NULL OR valid_from <= ?3) AND (valid_to IS NULL OR valid_to > ?3)",
                        )
                        .unwrap()
                        .query_map([id, column, time], |row| {
                            Ok(match row.get(1)? {
                                rusqlite::types::Value::Real(real) => real.into(),
                                rusqlite::types::Value::Integer(integer) => integer.into(),
                                _ => row.get::<_, String>(1)?.into(),
                            })
                        })
                        .unwrap()
                        .map(Result::unwrap)
                        .collect();
                    let expected: Vec<Value> =
                        row.get(column).filter(|value| !value.is_null()).cloned().into_iter().collect();
                    assert_eq!(found, expected, "step {step}: {column} of {id} at {time}");
                    let shown = record(&reader.begin().unwrap(), Object::Contact, id, Some(time.parse().unwrap()));
                    let shown = shown.unwrap().values.into_iter().find(|(name, _)| name == column);
                    assert_eq!(
                        shown.map(|(_, value)| value),
                        expected.first().cloned(),
                        "step {step}: {column} at {time}"
                    );
                }
            }
        }
    }
    assert!(!contacts(&mirror.path).contains_key("ct5"));
    assert_eq!(mirror.one("SELECT count(*) FROM changes WHERE fields LIKE '%archived_cf%'"), "0");
}

#[tokio::test]
async fn history_of_many_records_by_join_or_subquery_reads_these_records_only() {
    let (_crm, mirror) = mirrored().await;
    let conn = Connection::open(&mirror.path).unwrap();
    for sql in [
            "SELECT h.* FROM contact_history AS h WHERE h.id = 'ct1'",
            "SELECT h.* FROM contact_history AS h WHERE h.id IN (SELECT id FROM contacts WHERE company_id = 'co1')",
            "SELECT h.value FROM contacts AS c JOIN contact_history AS h ON h.id = c.id WHERE c.company_id = 'co1'",
            "WITH h AS MATERIALIZED (SELECT * FROM contact_history WHERE id IN (SELECT id FROM contacts WHERE company_id = 'x'))
             SELECT id, count(*) FROM h GROUP BY id",
        ] {
            let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let lines = stmt.query_map([], |row| row.get::<_, String>(3)).unwrap();
            let plan = lines.map(Result::unwrap).collect::<Vec<_>>().join("\n");
            for whole in ["SCAN c\n", "SCAN r\n", "SCAN contacts", "SEARCH c USING INDEX changes_by_time", "MATERIALIZE contact_history"] {
                assert!(!plan.contains(whole), "{sql}\n{plan}");
            }
            assert!(plan.contains("changes_by_record (record_id=?"), "{sql}\n{plan}");
        }
}

#[tokio::test]
async fn cursor_identifies_its_mirror_permanently() {
    let (crm, mirror) = mirrored().await;
    let id = mirror.one("SELECT value FROM state WHERE name = 'mirror_id'");
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT value FROM state WHERE name = 'mirror_id'"), id);
    let cursor = || {
        let mut lines = Vec::new();
        let mut stream = MirrorStream::open(&mirror.path, None, Vec::new()).unwrap();
        while stream.step(&mut lines).unwrap() {}
        let last: Value = serde_json::from_str(String::from_utf8(lines).unwrap().lines().last().unwrap()).unwrap();
        last["cursor"].as_str().unwrap().parse::<StreamCursor>().unwrap()
    };
    let here = cursor();
    assert!(MirrorStream::open(&mirror.path, None, Vec::new()).unwrap().resume(here.clone()).is_ok());
    let (_, other) = mirrored().await;
    let resumed = MirrorStream::open(&other.path, None, Vec::new()).unwrap().resume(here);
    assert!(matches!(resumed, Err(PublishError::Cursor(_))));
}
