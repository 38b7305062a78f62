//! What people do: in the CRM, and in `file` with the mirror's file beside the daemon.

mod file;

pub use file::{decide, edit_in_sql, empty_in_sql, spoil_edit, take_back, undo, waiting_edits, write_junk};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crm_mirror::model::{DataType, Instant, Object, RecordId, Resource};
use crm_mirror::sandbox::{NewField, World, generate};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::script::{Script, What};
use crate::support::noon;

const FIELDS: [(&str, DataType); 6] = [
    ("motto", DataType::ShortText),
    ("tier", DataType::SingleSelect),
    ("fee", DataType::Decimal),
    ("tags", DataType::MultiSelect),
    ("story", DataType::LongText),
    ("until", DataType::DateTime),
];

/// What people edit in SQL: the object, its column, and where the column is in the body of an update.
pub const EDITED: [(Object, &str, &[&str]); 6] = [
    (Object::Contact, "position", &["position"]),
    (Object::Contact, "language", &["language"]),
    (Object::Contact, "cf_motto", &["customFields", "motto"]),
    (Object::Company, "industry", &["industry"]),
    (Object::Contact, "cf_fee", FEE),
    // Only details have it.
    (Object::Contact, "cf_story", &["customFields", "story"]),
];

const FEE: &[&str] = &["customFields", "fee"];

/// The end of every number that people write: as a literal without quotes, SQLite rounds it.
const NUMBER_END: &str = "000000000.123456789";

/// The text that an edit writes.
pub fn text_of(number: u32) -> String {
    match EDITED[number as usize % EDITED.len()] {
        (_, _, path) if path == FEE => format!("{number}{NUMBER_END}"),
        _ => format!("ours {number}"),
    }
}

/// The number of the edit that wrote a text.
fn number_of(path: &[&str], text: &str) -> Option<u32> {
    let number = if path == FEE { text.strip_suffix(NUMBER_END) } else { text.strip_prefix("ours ") };
    number?.parse().ok()
}

/// An edit that was queued.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub column: &'static str,
    /// Its place in the order of edits.
    pub place: usize,
}

/// The edits that were queued, by number and record.
#[derive(Clone, Debug, Default)]
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

    /// The edits of a column of a record that these fields hold are not to be sent.
    fn withdraw(&mut self, record: &str, column: &str, fields: &str) {
        self.queued.retain(|(number, id), edit| {
            id != record || edit.column != column || !fields.contains(&format!("\"{}\"]", text_of(*number)))
        });
    }

    /// Whether a person wants this edit once more.
    pub fn is_expected_again(&self, number: u32, id: &str) -> bool {
        let wanted = json!(text_of(number)).to_string();
        self.expected.iter().any(|(record, _, value)| record == id && *value == wanted)
    }

    /// Returns to the edits of a file that was saved before, when these were the `saved` ones. What was withdrawn since is
    /// wanted again, and what was queued since is lost.
    pub fn return_to(&mut self, saved: Edits, conn: &Connection) {
        self.queued.extend(saved.queued);
        self.expected.extend(saved.expected);
        let Ok(mut stmt) = conn.prepare("SELECT record_id, fields FROM outbox") else {
            self.queued.clear();
            return;
        };
        let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(String, String)> = rows.map(Result::unwrap).collect();
        self.queued.retain(|(number, id), _| {
            let value = format!("\"{}\"]", text_of(*number));
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
            let number = value.as_str().and_then(|text| number_of(&path, text));
            match (known, number) {
                (Some((_, column, _)), Some(number))
                    if self.queued.get(&(number, id.to_string())).is_some_and(|edit| edit.column == *column) =>
                {
                    numbers.insert(number);
                }
                // An undo returns to another's value, or to one of an edit that a restored file does not have.
                (Some((_, column, _)), _)
                    if self.expected.contains(&(id.to_string(), column.to_string(), value.to_string())) => {}
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
    if script.frozen {
        return frozen_world();
    }
    made_a_day_before(script, start, 0)
}

/// The records of another workspace: some with the ids of the first one, created at other times.
pub fn other_world(script: &Script, now: Instant, which: u32) -> World {
    let mut world = made_a_day_before(script, now.minus(Duration::from_secs((which % 100).into())), which);
    for object in Object::ALL {
        for id in world.ids(object.resource()).into_iter().step_by(5) {
            world.remove(object, &id);
        }
    }
    world.now = now;
    world
}

fn made_a_day_before(script: &Script, start: Instant, first: u32) -> World {
    let mut world = World::new(start.minus(Duration::from_secs(86_400)));
    if script.omits_nulls {
        world.lists_omit_nulls = true;
    }
    for object in Object::ALL {
        for (key, data_type) in FIELDS {
            let field = NewField::new(object, key, data_type);
            world.fields().define(if data_type.is_select() { field.options(&["a", "b", "gold"]) } else { field });
        }
    }
    for (object, count) in [(Object::Contact, script.contacts), (Object::Company, script.companies)] {
        for n in 0..count {
            let mut fields = values(first + n);
            if object == Object::Contact {
                fields["location"] = json!({ "city": format!("City {n}") });
            }
            if !script.tied {
                let at = json!(world.tick().plus(Duration::from_secs(n.into())));
                (fields["createdAt"], fields["updatedAt"]) = (at.clone(), at);
            }
            world.create(object, &fields);
        }
    }
    for n in 0..script.members {
        world.create(Resource::TeamMembers, &json!({ "firstName": format!("Member {n}"), "status": "ACTIVE" }));
    }
    world
}

/// What the frozen file is a copy of: the world of its time, with the one change that it saw.
fn frozen_world() -> World {
    let mut world = generate(5, 6, 3, noon());
    let at = noon().plus(Duration::from_secs(3600));
    let contact = world.ids(Resource::Contacts).remove(0);
    world.edit_at(Object::Contact, &contact, &json!({ "position": "Harbour master" }), Some(at));
    world
}

/// No date, the usual one for "never", and the first.
const DATES: [Option<&str>; 3] = [None, Some("9999-12-31T23:59:59.999Z"), Some("0001-01-01T00:00:00.000Z")];

fn values(v: u32) -> Value {
    json!({
        "name": format!("Name {v}"),
        "customFields": {
            "motto": if v.is_multiple_of(5) { json!(null) } else { json!(format!("Motto {v}")) },
            "tier": if v.is_multiple_of(3) { json!(null) } else { json!("gold") },
            "fee": format!("{v}.10"),
            "tags": if v.is_multiple_of(2) { json!(["a", "b"]) } else { json!(["b"]) },
            "until": DATES[v as usize % DATES.len()],
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
        What::Create(v) => drop(create(world, *v)),
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
        What::DateAhead(r, v) => {
            if let Some(id) = pick(world, object(*r), *r) {
                world.edit_at(object(*r), &id, &values(*v), "2099-01-01T00:00:00Z".parse().ok());
            }
        }
        What::OddLocation(r, n) => odd_location(world, *r, *n),
        What::Return(r) => bring_back(world, *r),
        What::TiedEdit(share, v) => {
            let (ids, at) = (world.ids(Resource::Contacts), world.tick());
            for id in ids.iter().take(ids.len() * *share as usize / 100) {
                world.edit_at(Object::Contact, id, &values(*v), Some(at));
            }
        }
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
            world.create(Resource::TeamMembers, &json!({ "firstName": format!("Member {v}"), "status": "PENDING" }));
        }
        What::Archive(f) => {
            if let Some(key) = pick_field(world, *f, false) {
                world.fields().archive(Object::Contact, key);
            }
        }
        What::Reactivate(f) => {
            if let Some(key) = pick_field(world, *f, true) {
                world.fields().reactivate(Object::Contact, key);
            }
        }
        What::Relabel(f) => {
            world
                .fields()
                .redefine(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0, |d| d.label = "Another label".into());
        }
        What::Define(n) => define(world, *n),
        _ => {}
    }
}

pub fn create(world: &mut World, v: u32) -> RecordId {
    world.create(object(v), &values(v))
}

/// One of the fields of contacts that are archived, or of those that are not.
fn pick_field(world: &World, which: u32, archived: bool) -> Option<&'static str> {
    let is_so = |key: &str| {
        let mut of_contacts = world.definitions.iter().filter(|known| known.object == Object::Contact);
        of_contacts.any(|known| known.key == key && known.is_active() != archived)
    };
    let keys: Vec<&str> = FIELDS.iter().map(|(key, _)| *key).filter(|key| is_so(key)).collect();
    keys.get(which as usize % keys.len().max(1)).copied()
}

fn edit(world: &mut World, which: u32, changes: &Value) {
    if let Some(id) = pick(world, object(which), which) {
        world.edit(object(which), &id, changes);
    }
}

/// In how many turns every record changes.
pub const TURNS: u32 = 3;

/// Every third record of an object changes.
pub fn edit_a_few(world: &mut World, object: Object, turn: u32) {
    let in_turn = |(n, _): &(usize, &String)| *n as u32 % TURNS == turn % TURNS;
    for (n, id) in world.ids(object.resource()).iter().enumerate().filter(in_turn) {
        // By its second, a record that cannot be read is told from the others.
        let at = world.tick().minus(Duration::from_secs(n as u64 % 50));
        world.edit_at(object, id, &values(n as u32 + turn), Some(at));
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

/// A change after which a contact has null, or something else than an object, in the place of its location; or its location
/// again.
fn odd_location(world: &mut World, which: u32, n: u32) {
    let Some(id) = pick(world, Object::Contact, which) else { return };
    world.edit(Object::Contact, &id, &json!({ "name": format!("Moved {n}") }));
    match ["[]", "null", "\"\"", "{}"][n as usize % 4] {
        "{}" => world.clear_raw(Object::Contact, &id),
        source => world.set_raw(Object::Contact, &id, "location", source),
    };
}

/// The service is restored to its records of so many hours ago. Returns those that changed back, with their dates.
pub fn rewind(world: &mut World, hours: u32) -> Vec<(String, Instant)> {
    let past = world.as_of(world.now.minus(Duration::from_secs(3_600 * u64::from(hours))));
    let mut dated_back = Vec::new();
    for object in Object::ALL {
        let ids: BTreeSet<String> = [world, &past].iter().flat_map(|of| of.ids(object.resource())).collect();
        for id in &ids {
            if world.etag(object, id) == past.etag(object, id) {
                continue;
            }
            let Some(before) = past.detail_json(object, id) else {
                world.remove(object, id);
                continue;
            };
            let at: Option<Instant> = before["updatedAt"].as_str().and_then(|text| text.parse().ok());
            if !world.edit_at(object, id, &before, at) {
                world.create(object, &before);
            }
            dated_back.extend(at.map(|at| (id.clone(), at)));
        }
    }
    dated_back
}

/// Most contacts change within the seconds before now.
pub fn bulk_edit_over_seconds(world: &mut World, v: u32) {
    let (ids, began) = (world.ids(Resource::Contacts), world.tick().minus(Duration::from_secs(20)));
    for (n, id) in ids.iter().enumerate().skip(1).take(ids.len() / 2) {
        world.edit_at(Object::Contact, id, &values(v), Some(began.plus(Duration::from_millis(20 * n as u64))));
    }
}

/// One of them changes again, and with a date in their middle another contact, which had not changed for a day: of one that
/// had, a count has its earlier version, and only a sweep is promised to find the later one.
pub fn change_beside_bulk(world: &mut World, v: u32) {
    let (ids, day_ago) = (world.ids(Resource::Contacts), world.now.minus(Duration::from_secs(86_400)));
    let middle = world.list_json(Resource::Contacts, &ids[ids.len() / 4]).unwrap()["updatedAt"].clone();
    world.edit(Object::Contact, &ids[1], &values(v + 1));
    let settled = |id: &&String| world.updated_at(Object::Contact, id).is_some_and(|at| at < day_ago);
    if let Some(late) = ids.iter().find(settled) {
        world.edit_at(Object::Contact, late, &values(v + 1), middle.as_str().and_then(|text| text.parse().ok()));
    }
}

/// A contact is removed, and one appears that is dated before it.
pub fn swap(world: &mut World, id: &str, v: u32) {
    let at = world.tick().minus(Duration::from_secs(600));
    let mut fields = values(v);
    (fields["createdAt"], fields["updatedAt"]) = (json!(at), json!(at));
    world.remove(Object::Contact, id);
    world.create(Object::Contact, &fields);
}

/// A change of a record that is dated before the one before it. Returns the record and the date.
pub fn edit_back(world: &mut World, which: u32, seconds: u32) -> Option<(String, Instant)> {
    let id = pick(world, object(which), which)?;
    let before: Instant = world.detail_json(object(which), &id)?["updatedAt"].as_str()?.parse().ok()?;
    let at = before.minus(Duration::from_secs(seconds.into()));
    world.edit_at(object(which), &id, &values(which + seconds), Some(at)).then_some((id, at))
}

/// A record that was removed within three days returns, with its old id and date of creation.
fn bring_back(world: &mut World, which: u32) {
    let object = object(which);
    let before = world.as_of(world.now.minus(Duration::from_secs(3 * 86_400)));
    let removed: Vec<String> =
        before.ids(object.resource()).into_iter().filter(|id| world.etag(object, id).is_none()).collect();
    let Some(id) = removed.get(which as usize % removed.len().max(1)) else { return };
    let mut fields = values(which);
    fields["id"] = json!(id);
    fields["createdAt"] = before.list_json(object.resource(), id).unwrap()["createdAt"].clone();
    world.create(object, &fields);
}

fn define(world: &mut World, n: u32) {
    let key = format!("New {}", n % 3);
    if world.definitions.iter().all(|definition| definition.key != key) {
        world.fields().define(NewField::new(Object::Contact, &key, DataType::ShortText));
        if let Some(id) = pick(world, Object::Contact, n) {
            world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
        }
    }
}

/// Whether the outbox has a later edit of this column of a record than the one with this text: one that empties, takes back
/// or undoes may have taken its place.
pub fn has_later_edit(conn: &Connection, id: &str, column: &str, text: &str) -> bool {
    let sql = "SELECT 1 FROM outbox AS l, json_each(CASE WHEN json_valid(l.fields) THEN l.fields ELSE '{}' END) AS f
               WHERE l.record_id = ?1 AND f.key = ?2 AND l.id > (
                 SELECT max(id) FROM outbox WHERE record_id = ?1 AND instr(fields, ?3) > 0)";
    conn.prepare_cached(sql).unwrap().exists((id, column, format!("\"{text}\"]"))).unwrap()
}
