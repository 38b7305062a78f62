//! What people do: in the CRM, and with the mirror's file beside the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crm_mirror::model::{Clock, DataType, EditState, Instant, Object, Resource};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{NewField, World, generate};
use crm_mirror::store::{StoreError, outbox_report, write_beside};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::script::{Script, What};

const FIELDS: [(&str, DataType); 5] = [
    ("motto", DataType::ShortText),
    ("tier", DataType::SingleSelect),
    ("fee", DataType::Decimal),
    ("tags", DataType::MultiSelect),
    ("story", DataType::LongText),
];

/// What people edit in SQL: the object, its column, and where the column is in the body of an update.
const EDITED: [(Object, &str, &[&str]); 4] = [
    (Object::Contact, "position", &["position"]),
    (Object::Contact, "language", &["language"]),
    (Object::Contact, "cf_motto", &["customFields", "motto"]),
    (Object::Company, "industry", &["industry"]),
];

/// An edit that was queued.
#[derive(Debug)]
pub struct Queued {
    pub column: &'static str,
    /// Its place in the order of edits.
    pub place: usize,
}

/// The edits that were queued, by number and record.
#[derive(Debug, Default)]
pub struct Edits {
    queued: BTreeMap<(u32, String), Queued>,
    /// What may be sent once more, because a person undid or resolved an edit: record, column and value.
    expected: BTreeSet<(String, String, String)>,
    /// How many edits a person wanted to be sent in spite of the limit.
    pub wanted: u64,
}

impl Edits {
    pub fn len(&self) -> usize {
        self.queued.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&(u32, String), &Queued)> {
        self.queued.iter()
    }

    /// A person wants these values in a record.
    fn expect<'v>(&mut self, record: &str, fields: impl Iterator<Item = (&'v String, &'v Value)>) {
        self.expected.extend(fields.map(|(column, value)| (record.to_string(), column.clone(), value.to_string())));
    }

    /// Whether a person wants this edit once more.
    pub fn is_expected_again(&self, number: u32, id: &str) -> bool {
        let wanted = json!(format!("ours {number}")).to_string();
        self.expected.iter().any(|(record, _, value)| record == id && *value == wanted)
    }

    /// Forgets the edits that a file does not have: it is older than they are.
    pub fn keep_those_of(&mut self, conn: &Connection) {
        let Ok(mut stmt) = conn.prepare("SELECT record_id, fields FROM outbox") else {
            self.queued.clear();
            return;
        };
        let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(String, String)> = rows.map(Result::unwrap).collect();
        self.queued.retain(|(number, id), _| {
            let value = format!("\"ours {number}\"]");
            rows.iter().any(|(record, fields)| record == id && fields.contains(&value))
        });
    }

    /// The numbers in the body of an update of a record, or what is not as it was queued.
    pub fn of_body(&self, object: Object, id: &str, body: &str) -> Result<BTreeSet<u32>, String> {
        let body: Value = serde_json::from_str(body).map_err(|error| format!("an update is not JSON: {error}"))?;
        let mut numbers = BTreeSet::new();
        let mut leaves = Vec::new();
        collect(&body, &mut Vec::new(), &mut leaves);
        for (path, value) in leaves {
            let known = EDITED.iter().find(|(of, _, wire)| *of == object && path == *wire);
            let number = value.as_str().and_then(|text| text.strip_prefix("ours ")?.parse().ok());
            match (known, number) {
                (Some((_, column, _)), None)
                    if self.expected.contains(&(id.to_string(), column.to_string(), value.to_string())) => {}
                (Some((_, column, _)), Some(number))
                    if self.queued.get(&(number, id.to_string())).is_some_and(|edit| edit.column == *column) =>
                {
                    numbers.insert(number);
                }
                _ => return Err(format!("{object} {id} was sent {value} for {path:?}, which nobody asked for")),
            }
        }
        Ok(numbers)
    }
}

fn collect<'v>(value: &'v Value, path: &mut Vec<&'v str>, leaves: &mut Vec<(Vec<&'v str>, &'v Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                path.push(name);
                collect(value, path, leaves);
                path.pop();
            }
        }
        leaf => leaves.push((path.clone(), leaf)),
    }
}

/// The service's records in the beginning.
pub fn world(script: &Script, start: Instant) -> World {
    if script.upgrade.is_some() {
        return frozen_world();
    }
    let mut world = World::new(start.minus(Duration::from_secs(86_400)));
    for object in Object::ALL {
        for (key, data_type) in FIELDS {
            let field = NewField::new(object, key, data_type);
            world.define(if data_type.is_select() { field.options(&["a", "b", "gold"]) } else { field });
        }
    }
    for n in 0..script.contacts {
        world.create(Object::Contact, &values(n));
    }
    for n in 0..script.companies {
        world.create(Object::Company, &values(n));
    }
    for n in 0..3 {
        world.add_team_member(&json!({ "firstName": format!("Member {n}"), "status": "ACTIVE" }));
    }
    world
}

/// What the frozen files are copies of: the world of their time, with the one change that they saw.
fn frozen_world() -> World {
    let mut world = generate(5, 6, 3, "2026-11-21T02:58:37Z".parse().unwrap());
    let at = "2026-11-21T02:58:37.736Z".parse().unwrap();
    world.edit_at(Object::Contact, "ct_04fbe3a36348", &json!({ "position": "Harbour master" }), Some(at));
    world
}

fn values(v: u32) -> Value {
    json!({
        "name": format!("Name {v}"),
        "customFields": {
            "motto": if v.is_multiple_of(5) { json!(null) } else { json!(format!("Motto {v}")) },
            "tier": if v.is_multiple_of(3) { json!(null) } else { json!("gold") },
            "fee": format!("{v}.10"),
            "tags": if v.is_multiple_of(2) { json!(["a", "b"]) } else { json!(["b"]) },
        },
    })
}

/// Three in four records that something happens to are contacts.
pub fn object(which: u32) -> Object {
    if which % 4 == 3 { Object::Company } else { Object::Contact }
}

pub fn pick(world: &World, object: Object, which: u32) -> Option<String> {
    let ids = world.ids(object.resource());
    (!ids.is_empty()).then(|| ids[which as usize % ids.len()].clone())
}

/// What other people do in the CRM.
pub fn in_the_crm(world: &mut World, what: &What) {
    match what {
        What::Create(v) => {
            world.create(object(*v), &values(*v));
        }
        What::Edit(r, v) => edit(world, *r, &values(*v)),
        What::EditNotes(r, v) => edit(world, *r, &json!({ "notes": format!("Note {v}") })),
        What::EditStory(r, v) => {
            let story = if v.is_multiple_of(4) { json!(null) } else { json!(format!("Story {v}")) };
            edit(world, *r, &json!({ "customFields": { "story": story } }));
        }
        What::EditSilently(r, v) => {
            if let Some(id) = pick(world, object(*r), *r) {
                world.edit_silently(object(*r), &id, &json!({ "name": format!("Silent {v}") }));
            }
        }
        What::CommitLate(r, seconds) => commit_late(world, *r, *seconds),
        What::Remove(r) => {
            if let Some(id) = pick(world, object(*r), *r) {
                world.remove(object(*r), &id);
            }
        }
        What::RemoveMany(share) => {
            let ids = world.ids(Resource::Contacts);
            for id in ids.iter().take(ids.len() * *share as usize / 100) {
                world.remove(Object::Contact, id);
            }
        }
        What::BulkEdit(share, v) => {
            let ids = world.ids(Resource::Contacts);
            for id in ids.iter().take(ids.len() * *share as usize / 100) {
                world.edit(Object::Contact, id, &values(*v));
            }
        }
        What::Team(v) => {
            world.add_team_member(&json!({ "firstName": format!("Member {v}"), "status": "PENDING" }));
        }
        What::Archive(f) => {
            world.archive(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0);
        }
        What::Reactivate(f) => {
            world.reactivate(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0);
        }
        What::Relabel(f) => {
            world.relabel(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0, "Another label");
        }
        What::Define(n) => define(world, *n),
        _ => {}
    }
}

fn edit(world: &mut World, which: u32, changes: &Value) {
    if let Some(id) = pick(world, object(which), which) {
        world.edit(object(which), &id, changes);
    }
}

fn commit_late(world: &mut World, which: u32, seconds: u32) {
    let at = world.tick().minus(Duration::from_secs(u64::from(seconds)));
    if let Some(id) = pick(world, object(which), which) {
        let detail = world.detail_json(object(which), &id).unwrap();
        let before: Option<Instant> = detail["updatedAt"].as_str().and_then(|text| text.parse().ok());
        // The service's own dates never go back.
        if before.is_none_or(|before| before < at) {
            world.edit_at(object(which), &id, &values(seconds), Some(at));
        }
    }
}

fn define(world: &mut World, n: u32) {
    let key = format!("New {}", n % 3);
    if world.definitions().iter().all(|definition| definition.key != key) {
        world.define(NewField::new(Object::Contact, &key, DataType::ShortText));
        if let Some(id) = pick(world, Object::Contact, n) {
            world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
        }
    }
}

/// A person at the `sqlite3` prompt: an edit of one record, or of all. Says whether anything was queued.
pub fn edit_in_sql(conn: &Connection, which: Option<u32>, number: u32, edits: &mut Edits) -> bool {
    let (object, column, _) = EDITED[number as usize % EDITED.len()];
    let ids: Vec<String> = match conn.prepare(&format!("SELECT id FROM {} ORDER BY id", object.table())) {
        Ok(mut stmt) => stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect(),
        Err(_) => return false,
    };
    let chosen = match which {
        Some(which) => match ids.get(which as usize % ids.len().max(1)) {
            Some(id) => vec![id.clone()],
            None => return false,
        },
        None => ids,
    };
    let condition = if which.is_some() { "id = ?2" } else { "?2 IS NOT NULL" };
    let sql = format!("UPDATE {} SET {column} = ?1 WHERE {condition}", object.full_view());
    // Refused before the first run allows edits, where the column is archived, and where the disk is full.
    let queued = conn.execute(&sql, (format!("ours {number}"), chosen.first()));
    if queued.is_err() {
        return false;
    }
    if let Some(id) = chosen.first() {
        // The tables take no updates from outside: a silent one would be lost.
        let past_the_view = format!("UPDATE {} SET synced_at = 'never' WHERE id = ?1", object.table());
        assert!(conn.execute(&past_the_view, [id]).is_err(), "{object} took an update past the view");
    }
    let stored = "SELECT record_id FROM outbox WHERE fields LIKE ?1";
    let mut stmt = conn.prepare(stored).unwrap();
    let stored = stmt.query_map([format!("%\"ours {number}\"%")], |row| row.get(0)).unwrap();
    let before = edits.len();
    for id in stored.map(Result::unwrap) {
        let place = edits.len();
        edits.queued.entry((number, id)).or_insert(Queued { column, place });
    }
    edits.len() > before
}

/// A person undoes a few edits that were applied: `outbox undo`.
pub fn undo(path: &std::path::Path, which: u32, clock: &dyn Clock, edits: &mut Edits) -> Result<(), StoreError> {
    let now = clock.now();
    write_beside(path, |tx| {
        let all = outbox_report::edits(tx, true)?;
        let applied: Vec<i64> =
            all.iter().filter(|edit| edit.state == EditState::Applied).map(|edit| edit.id).collect();
        let first = which as usize % applied.len().max(1);
        let chosen: Vec<i64> = applied.into_iter().skip(first).take(1 + which as usize % 3).collect();
        let undone = user_decisions::undo(tx, &chosen, now).unwrap_or_default();
        edits.wanted += undone.len() as u64;
        for of_record in undone {
            let fields = of_record.fields.iter().map(|(column, (_, before))| (column, before));
            edits.expect(of_record.record.as_str(), fields);
        }
        Ok(())
    })
}

/// A person decides on an edit: `outbox retry`, `release`, `drop` or `resolve`; without a number, on all that wait for
/// a person. Returns how many were decided.
pub fn decide(
    path: &std::path::Path,
    which: Option<u32>,
    clock: &dyn Clock,
    edits: &mut Edits,
) -> Result<usize, StoreError> {
    const ANY: [Decision; 5] = [Decision::Retry, Decision::Release, Decision::Drop, Decision::Mine, Decision::Theirs];
    let now = clock.now();
    write_beside(path, |tx| {
        let open = outbox_report::edits(tx, false)?;
        let chosen: Vec<_> = match which {
            Some(which) => {
                let chosen = open.get(which as usize % open.len().max(1));
                chosen.into_iter().map(|edit| (edit, ANY[which as usize % ANY.len()])).collect()
            }
            None => open.iter().filter_map(|edit| Some((edit, settling(edit.id, edit.state)?))).collect(),
        };
        let mut decided = 0;
        for (edit, decision) in chosen {
            // What cannot be decided so is refused, and changes nothing.
            if user_decisions::decide(tx, edit.id, decision, now).is_err() {
                continue;
            }
            decided += 1;
            edits.wanted += u64::from(matches!(decision, Decision::Release | Decision::Mine));
            if edit.state == EditState::Conflict {
                // It may have been carried out before somebody else changed the value; a person wants it once more.
                edits.expect(&edit.record, edit.fields.iter().map(|(column, (_, after))| (column, after)));
            }
        }
        Ok(decided)
    })
}

/// What a person decides in the end.
fn settling(id: i64, state: EditState) -> Option<Decision> {
    match state {
        EditState::Held => Some(Decision::Release),
        EditState::Conflict if id % 2 == 0 => Some(Decision::Mine),
        EditState::Conflict => Some(Decision::Theirs),
        _ => None,
    }
}
