//! `export --snapshot`: a follower that implements only the documentation ends equal to the mirror.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{MirrorStream, StreamCursor};
use crm_mirror::sandbox::{NewField, World, generate};
use crm_mirror::store::{Erasure, StoreError, write_beside};
use fastrand::Rng;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::histories::happen;
use crate::support::cases::cases;
use crate::support::{Crm, Mirror, noon};

/// Columns whose newer values a stream may send later than the record.
const LATE: [&str; 4] = ["synced_at", "fetched_at", "owner_name", "company_name"];

#[derive(Clone, Default)]
struct Table {
    key: Vec<String>,
    types: BTreeMap<String, String>,
    rows: Vec<Value>,
}

/// Does what the documentation requires of a follower.
#[derive(Clone, Default)]
pub struct Follower {
    tables: BTreeMap<String, Table>,
    pub cursor: Option<String>,
}

impl Follower {
    /// Returns whether a group ends here.
    fn apply(&mut self, line: &Value) -> bool {
        if let Some(table) = line["schema"].as_str() {
            let table = self.tables.entry(table.into()).or_default();
            table.key = line["key"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().into()).collect();
            let columns = line["columns"].as_array().unwrap();
            let types: BTreeMap<String, String> = columns
                .iter()
                .map(|c| (c["name"].as_str().unwrap().into(), c["type"].as_str().unwrap().into()))
                .collect();
            for row in table.rows.iter_mut().filter_map(Value::as_object_mut) {
                row.retain(|name, _| types.contains_key(name));
                for (name, of_type) in types.iter().filter(|(name, of_type)| table.types.get(*name) != Some(of_type)) {
                    assert!(!of_type.is_empty());
                    row.insert(name.clone(), Value::Null);
                }
            }
            table.types = types;
            if line["complete"] == true {
                table.rows.clear();
            }
        } else if let Some(table) = line["upsert"].as_str() {
            let table = self.tables.get_mut(table).expect("its schema came first");
            let row = &line["row"];
            table.rows.retain(|old| table.key.iter().any(|key| old[key] != row[key]));
            table.rows.push(row.clone());
        } else if let Some(table) = line["remove"].as_str() {
            let table = self.tables.get_mut(table).expect("its schema came first");
            let key = line["key"].as_object().unwrap();
            table.rows.retain(|old| key.iter().any(|(name, value)| old[name] != *value));
        } else {
            self.cursor = Some(line["cursor"].as_str().unwrap().into());
        }
        line.get("cursor").is_some()
    }

    /// Applies whole groups. Lines after the last cursor are discarded, as after a kill.
    pub fn apply_groups(&mut self, text: &[u8]) {
        let mut group = self.clone();
        for line in text.lines() {
            if group.apply(&serde_json::from_str(&line.unwrap()).unwrap()) {
                *self = group.clone();
            }
        }
    }

    pub fn differences(&self, mirror: &Mirror) -> Vec<String> {
        let mut out = Vec::new();
        for (name, source) in [
            ("contacts", "contacts_full"),
            ("companies", "companies_full"),
            ("team_members", "team_members"),
            ("custom_field_definitions", "custom_field_definitions"),
            ("custom_field_options", "custom_field_options"),
            ("custom_multi_values", "custom_multi_values"),
            ("removed_records", "removed_records"),
            ("changes", "changes"),
        ] {
            let Some(table) = self.tables.get(name) else {
                out.push(format!("{name} never came"));
                continue;
            };
            let conn = mirror.read();
            let mut stmt = conn.prepare(&format!("SELECT * FROM {source}")).unwrap();
            let names: Vec<String> = stmt.column_names().map(String::from).collect();
            let mut here: Vec<Value> = stmt
                .query_map([], |row| {
                    let members = names.iter().enumerate().map(|(place, name)| {
                        let text = table.types.get(name).map_or("text", String::as_str);
                        Ok((name.clone(), as_json(row.get(place)?, text)))
                    });
                    members.collect::<rusqlite::Result<serde_json::Map<_, _>>>().map(Value::from)
                })
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let mut there = table.rows.clone();
            for row in here.iter_mut().chain(&mut there) {
                LATE.iter().for_each(|late| drop(row.as_object_mut().unwrap().remove(*late)));
            }
            let order = |row: &Value| table.key.iter().map(|key| row[key].to_string()).collect::<Vec<_>>();
            here.sort_by_key(order);
            there.sort_by_key(order);
            if here.len() != there.len() {
                out.push(format!("{name}: {} rows here, {} there", here.len(), there.len()));
            }
            out.extend(here.iter().zip(&there).filter(|(a, b)| a != b).map(|(a, b)| format!("{name}:\n  {a}\n  {b}")));
        }
        out
    }
}

fn as_json(value: Sql, pg_type: &str) -> Value {
    match (pg_type, value) {
        ("boolean", Sql::Integer(i)) => json!(i == 1),
        (_, Sql::Integer(i)) => json!(i),
        (_, Sql::Real(r)) => json!(r),
        ("jsonb", Sql::Text(text)) => serde_json::from_str(&text).unwrap_or(json!(text)),
        (_, Sql::Text(text)) => json!(text),
        _ => Value::Null,
    }
}

pub fn open(mirror: &Mirror) -> MirrorStream {
    MirrorStream::open(&mirror.path, None, Vec::new()).unwrap()
}

/// The lines from the follower's cursor on, until there is nothing more to write.
pub fn next_lines(mirror: &Mirror, follower: &Follower) -> Vec<u8> {
    let (mut stream, mut out) = (open(mirror), Vec::new());
    if let Some(cursor) = &follower.cursor {
        stream.resume(cursor.parse::<StreamCursor>().unwrap()).unwrap();
    }
    while stream.step(&mut out).unwrap() {}
    out
}

async fn live_through(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let crm = Crm::serve(generate(seed, 40, 6, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.settings.concurrency = 1;
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    for _ in 0..14 {
        for _ in 0..rng.u8(1..8) {
            crm.sandbox.with_world(|world| happen(&mut rng, world));
        }
        crm.wait(u64::from(rng.u16(600..40_000)));
        let commits = (rng.u8(..3) == 0).then(|| rng.u64(..6));
        let job = if rng.bool() { crm_mirror::sync::Job::resync() } else { crm_mirror::sync::Job::sync() };
        let _ = mirror.run_killed_after(&crm, &job, commits).await;
        if rng.bool() {
            let lines = next_lines(&mirror, &follower);
            // Killed at any line.
            let kept = rng.usize(..=lines.len());
            let whole = lines[..kept].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            follower.apply_groups(&lines[..whole]);
        }
    }
    crm.wait(40_000);
    mirror.sync(&crm).await;
    let lines = next_lines(&mirror, &follower);
    follower.apply_groups(&lines);
    let found = follower.differences(&mirror);
    assert!(found.is_empty(), "seed {seed}: {} differences\n{}", found.len(), found[..found.len().min(4)].join("\n"));
    // The next step again brings only the small tables, which are complete.
    follower.apply_groups(&next_lines(&mirror, &follower));
    assert!(follower.differences(&mirror).is_empty());
}

#[tokio::test]
async fn killed_follower_ends_equal_to_the_mirror() {
    for seed in 1..=u64::from(cases(8)) {
        live_through(seed).await;
    }
}

/// How many rows of each table some lines have, and which lines of columns say that all rows follow.
fn sent(lines: &[u8]) -> (BTreeMap<String, usize>, Vec<String>) {
    let (mut rows, mut complete) = (BTreeMap::new(), Vec::new());
    for line in lines.lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(table) = line["upsert"].as_str() {
            *rows.entry(table.into()).or_default() += 1;
        }
        complete.extend(line["schema"].as_str().filter(|_| line["complete"] == true).map(String::from));
    }
    (rows, complete)
}

#[tokio::test]
async fn change_of_a_field_sends_the_rows_again_and_no_history() {
    let mut world = generate(4, 60, 8, noon());
    world.fields().define(NewField::new(Object::Contact, "level", DataType::SingleSelect).options(&["a", "b"]));
    world.fields().define(NewField::new(Object::Contact, "marks", DataType::MultiSelect).options(&["a", "b"]));
    let ids = world.ids(Resource::Contacts);
    for id in &ids[..5] {
        world.edit(Object::Contact, id, &json!({"customFields": {"level": "a", "marks": ["a", "b"]}}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    // A detail that is read again changes its record.
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    for id in &ids[20..30] {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, id, &json!({"position": "moved"})));
    }
    crm.wait(600);
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    follower.apply_groups(&next_lines(&mirror, &follower));
    let changes = follower.tables["changes"].rows.len();
    assert!(changes >= 10 && !follower.tables["contacts"].types.contains_key("owner_name"));
    type Step = (&'static str, fn(&mut World));
    let steps: [Step; 5] = [
        ("added", |world| drop(world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal)))),
        ("archived", |world| assert!(world.fields().archive(Object::Contact, "level"))),
        ("restored", |world| assert!(world.fields().reactivate(Object::Contact, "level"))),
        ("archived", |world| assert!(world.fields().archive(Object::Contact, "marks"))),
        ("retyped", |world| {
            assert!(world.fields().redefine(Object::Contact, "level", |f| f.data_type = "INTEGER".into()))
        }),
    ];
    for (op, step) in steps {
        crm.sandbox.with_world(step);
        for _ in 0..2 {
            crm.wait(7 * 3600);
            mirror.sync(&crm).await;
        }
        let lines = next_lines(&mirror, &follower);
        let (rows, complete) = sent(&lines);
        assert!(rows["contacts"] >= 60, "{op}: {rows:?}");
        let of_records = ["contacts", "companies", "changes"];
        let complete: Vec<&str> =
            of_records.into_iter().filter(|table| complete.iter().any(|of| of == table)).collect();
        assert_eq!(complete, ["contacts", "companies"], "{op}");
        assert!(rows.get("changes").is_none_or(|sent| *sent < changes), "{op}: {rows:?}");
        follower.apply_groups(&lines);
        let found = follower.differences(&mirror);
        assert!(found.is_empty(), "{op}: {}", found[..found.len().min(4)].join("\n"));
    }
    // A follower that starts again needs nothing but its cursor: the columns come before the rows.
    crm.sandbox.with_world(|world| world.edit(Object::Contact, &ids[40], &json!({"position": "again"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    let mut known = std::collections::BTreeSet::new();
    for line in next_lines(&mirror, &follower).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        known.extend(line["schema"].as_str().map(String::from));
        for table in [&line["upsert"], &line["remove"]].into_iter().filter_map(Value::as_str) {
            assert!(known.contains(table), "{line}");
        }
    }
    assert!(known.contains("contacts") && !known.contains("companies"), "{known:?}");
}

#[tokio::test]
async fn follower_has_no_rows_of_what_is_not_published_any_more() {
    let crm = Crm::serve(generate(4, 20, 4, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    follower.apply_groups(&next_lines(&mirror, &follower));
    let rows = |follower: &Follower, name: &str| follower.tables[name].rows.len();
    assert!(rows(&follower, "companies") == 4 && rows(&follower, "team_members") > 0);
    let (mut out, chosen) = (Vec::new(), vec![Resource::Contacts, Resource::CustomFields]);
    let mut stream = MirrorStream::open(&mirror.path, Some(chosen), Vec::new()).unwrap();
    stream.resume(follower.cursor.clone().unwrap().parse().unwrap()).unwrap();
    while stream.step(&mut out).unwrap() {}
    follower.apply_groups(&out);
    assert_eq!((rows(&follower, "companies"), rows(&follower, "team_members")), (0, 0));
    assert!(follower.tables["custom_multi_values"].rows.iter().all(|row| row["object_type"] == "contact"));
    // Only a small table more.
    let (mut out, chosen) = (Vec::new(), vec![Resource::Contacts, Resource::CustomFields, Resource::TeamMembers]);
    let mut stream = MirrorStream::open(&mirror.path, Some(chosen), Vec::new()).unwrap();
    stream.resume(follower.cursor.clone().unwrap().parse().unwrap()).unwrap();
    while stream.step(&mut out).unwrap() {}
    follower.apply_groups(&out);
    assert_ne!(rows(&follower, "team_members"), 0);
    follower.apply_groups(&next_lines(&mirror, &follower));
    assert_eq!(follower.differences(&mirror), Vec::<String>::new());
}

#[tokio::test]
async fn document_that_is_no_unicode_is_escaped() {
    let mut world = generate(4, 5, 2, noon());
    let id = world.ids(Resource::Contacts)[0].clone();
    world.set_raw(Object::Contact, &id, "company", r#""\ud800""#);
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    follower.apply_groups(&next_lines(&mirror, &follower));
    let row = follower.tables["contacts"].rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
    assert_eq!(row["extra"]["company"]["crm_mirror_escaped"], r#""\ud800""#, "{row}");
}

pub fn export(mirror: &Mirror, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
    command.arg("export").args(args).env_clear().env("CRM_MIRROR_DATABASE__PATH", &mirror.path);
    command.current_dir(mirror.dir.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn export_follows_until_interrupted() {
    let crm = Crm::serve(generate(4, 20, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let mut child = export(&mirror, &["--snapshot", "--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap().into_bytes());
    let mut follower = Follower::default();
    let mut until = |follower: &mut Follower, is_done: &dyn Fn(&Follower) -> bool| {
        let mut group = follower.clone();
        while !is_done(follower) {
            if group.apply(&serde_json::from_slice(&lines.next().expect("the stream continues")).unwrap()) {
                *follower = group.clone();
            }
        }
    };
    until(&mut follower, &|follower| follower.tables.contains_key("team_members"));
    assert_eq!(follower.tables["contacts"].rows.len(), 20);
    let id = crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[3].clone();
        world.edit(Object::Contact, &id, &json!({"position": "followed"}));
        id
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    let is_there = |follower: &Follower| {
        let mut contacts = follower.tables["contacts"].rows.iter();
        // The run writes the record more than once: with its page, and with its details.
        let sends_contacts =
            || String::from_utf8(next_lines(&mirror, follower)).unwrap().contains("\"upsert\":\"contacts\"");
        contacts.any(|row| row["id"] == id.as_str() && row["position"] == "followed") && !sends_contacts()
    };
    until(&mut follower, &is_there);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::io::read_to_string(child.stderr.take().unwrap()).unwrap(), "");
    // After the cursor there are only complete small tables.
    let cursor = follower.cursor.clone().unwrap();
    let output = export(&mirror, &["--snapshot", "--since", &cursor]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("\"upsert\":\"contacts\""), "{text}");
    for (args, code) in [
        (&["--snapshot", "--since", "7"][..], 2),
        (&["--follow"][..], 2),
        (&["--since", cursor.as_str()][..], 2),
        (&["--snapshot", "--since", "x:1:2:s-c"][..], 74),
    ] {
        assert_eq!(export(&mirror, args).output().unwrap().status.code(), Some(code), "{args:?}");
    }
}

#[tokio::test]
async fn export_is_interrupted_while_its_reader_does_not_read() {
    let crm = Crm::serve(generate(4, 600, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let mut child = export(&mirror, &["--snapshot", "--follow"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The first rows are there, and those that remain are more than a pipe holds.
    stdout.read_exact(&mut [0; 100]).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::io::read_to_string(child.stderr.take().unwrap()).unwrap(), "");
    // The group has no end, so a follower ignores it.
    let mut left = String::new();
    stdout.read_to_string(&mut left).unwrap();
    assert!(!left.is_empty() && !left.contains("\"cursor\""), "{left}");
}

/// What a removal by key takes from the history of a record that returned is sent again.
#[tokio::test]
async fn history_after_an_erasure_is_kept() {
    let crm = Crm::serve(generate(4, 20, 2, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    let id = crm.sandbox.with_world(|world| world.ids(Resource::Contacts)[0].clone());
    // What a mirror does that is published as well.
    write_beside(&mirror.path, |tx| tx.feed().begin_recording()).unwrap();
    crm.sandbox.with_world(|world| {
        let other = world.ids(Resource::Contacts)[1].clone();
        world.edit(Object::Contact, &other, &json!({"name": "Whose history stays"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    follower.apply_groups(&next_lines(&mirror, &follower));
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    let erased = write_beside(&mirror.path, |tx| tx.feed().erase_removed(Object::Contact, &id));
    assert!(matches!(erased, Ok::<_, StoreError>(Erasure::Erased(_))), "{erased:?}");
    let back = json!({"id": id, "name": "Back again"});
    crm.sandbox.with_world(|world| world.create(Object::Contact, &back));
    for name in ["Back again", "Changed", "Changed again"] {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({ "name": name })));
        crm.wait(600);
        mirror.sync(&crm).await;
        follower.apply_groups(&next_lines(&mirror, &follower));
        assert_eq!(follower.differences(&mirror), Vec::<String>::new(), "{name}");
    }
}
