//! What people and the service do to the records, between the runs and during them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::sandbox::{NewField, World};
use proptest::prelude::*;
use serde_json::json;

/// A change of the world.
#[derive(Clone, Debug)]
pub enum WorldChange {
    Create(u8),
    Edit(u8, u8),
    EditDetail(u8),
    EditLong(u8, u8),
    EditSilently(u8),
    /// Edits one of the first records silently.
    Overtake(u8),
    CommitLate(u8, u8),
    DateAhead(u8),
    Undate(u8),
    Tie(Vec<u8>),
    Remove(u8),
    Archive(u8),
    Reactivate(u8),
    Define(u8),
    Relabel(u8),
}

pub fn change() -> impl Strategy<Value = WorldChange> {
    prop_oneof![
        3 => any::<u8>().prop_map(WorldChange::Create),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::Edit(r, v)),
        2 => any::<u8>().prop_map(WorldChange::EditDetail),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::EditLong(r, v)),
        1 => any::<u8>().prop_map(WorldChange::EditSilently),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::CommitLate(r, v)),
        1 => any::<u8>().prop_map(WorldChange::DateAhead),
        1 => any::<u8>().prop_map(WorldChange::Undate),
        2 => prop::collection::vec(any::<u8>(), 2..12).prop_map(WorldChange::Tie),
        2 => any::<u8>().prop_map(WorldChange::Remove),
        1 => any::<u8>().prop_map(WorldChange::Archive),
        1 => any::<u8>().prop_map(WorldChange::Reactivate),
        1 => any::<u8>().prop_map(WorldChange::Define),
        1 => any::<u8>().prop_map(WorldChange::Relabel),
    ]
}

/// What is known about the changes of a history so far.
#[derive(Clone, Debug, Default)]
pub struct Changed(Arc<ChangedInner>);

#[derive(Debug, Default)]
struct ChangedInner {
    needs_sweep: AtomicBool,
    serial: AtomicU32,
}

impl Changed {
    /// Whether there was something that only a sweep can find.
    pub fn needs_sweep(&self) -> bool {
        self.0.needs_sweep.load(Ordering::Relaxed)
    }

    pub fn note_need_of_sweep(&self) {
        self.0.needs_sweep.store(true, Ordering::Relaxed);
    }

    /// A text that is later than all before, as [`serial`] says.
    fn text(&self, text: &str) -> String {
        format!("{text} #{}", self.0.serial.fetch_add(1, Ordering::Relaxed))
    }

    /// The values of a record.
    pub fn values(&self, v: u8) -> serde_json::Value {
        json!({
            "name": self.text(&format!("Name {v}")),
            "customFields": {
                "tier": if v.is_multiple_of(3) { json!(null) } else { json!("gold") },
                "fee": format!("{v}.10"),
                "tags": if v.is_multiple_of(2) { json!(["a", "b"]) } else { json!(["b"]) },
                "rank": i64::from(v),
                "motto": if v.is_multiple_of(5) { json!(null) } else { json!(format!("Motto {v}")) },
            },
        })
    }
}

/// The position of a text among all texts of a history: the greater, the later it was written.
pub fn serial(text: &str) -> Option<u32> {
    text.rsplit_once('#')?.1.parse().ok()
}

/// Every kind of custom field that histories use.
pub const FIELDS: [(&str, DataType); 6] = [
    ("motto", DataType::ShortText),
    ("tier", DataType::SingleSelect),
    ("fee", DataType::Decimal),
    ("tags", DataType::MultiSelect),
    ("story", DataType::LongText),
    ("rank", DataType::Integer),
];

fn field(which: u8) -> &'static str {
    FIELDS[usize::from(which) % FIELDS.len()].0
}

/// The context of a change.
pub struct ChangeContext<'a> {
    pub world: &'a mut World,
    pub changed: &'a Changed,
}

impl ChangeContext<'_> {
    fn pick(&self, object: Object, which: u8) -> Option<String> {
        let ids = self.world.ids(object.resource());
        (!ids.is_empty()).then(|| ids[usize::from(which) % ids.len()].clone())
    }

    /// Three of four are contacts.
    fn of(which: u8) -> Object {
        if which % 4 == 3 { Object::Company } else { Object::Contact }
    }

    /// The time of a late commit. A record's own version never decreases: an older one would be the answer of a lagging
    /// replica. So the commit is not late if the record has lost its version.
    fn late(&self, object: Object, id: &str, at: Instant) -> Instant {
        let record = self.world.detail_json(object, id);
        let known = record.and_then(|record| record["updatedAt"].as_str().and_then(|at| at.parse().ok()));
        known.map_or(self.world.tick(), |known: Instant| known.max(at))
    }

    /// Changes a record without a new version: only a sweep can find that.
    fn edit_silently(&mut self, object: Object, id: Option<String>) {
        if let Some(id) = id {
            self.world.edit_silently(object, &id, &json!({ "name": self.changed.text("Silent") }));
        }
        self.changed.note_need_of_sweep();
    }

    /// Applies a change.
    pub fn carry_out(&mut self, change: &WorldChange) {
        let now = self.world.tick();
        match change {
            WorldChange::Create(v) => {
                self.world.create(Self::of(*v), &self.changed.values(*v));
            }
            WorldChange::Edit(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &self.changed.values(*v));
                }
            }
            WorldChange::EditDetail(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &json!({ "notes": self.changed.text("Note") }));
                }
            }
            WorldChange::EditLong(r, v) => {
                if let Some(id) = self.pick(Object::Contact, *r) {
                    let value = if v % 4 == 0 { json!(null) } else { json!(self.changed.text("Long")) };
                    self.world.edit(Object::Contact, &id, &json!({ "customFields": { "story": value } }));
                }
            }
            WorldChange::EditSilently(r) => self.edit_silently(Self::of(*r), self.pick(Self::of(*r), *r)),
            WorldChange::Overtake(r) => {
                let id = self.world.ids(Object::Contact.resource()).into_iter().nth(usize::from(*r));
                self.edit_silently(Object::Contact, id);
            }
            WorldChange::CommitLate(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = self.late(Self::of(*r), &id, now.minus(Duration::from_secs(u64::from(*v % 50))));
                    self.world.edit_at(Self::of(*r), &id, &self.changed.values(*v), Some(at));
                }
            }
            WorldChange::DateAhead(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = now.plus(Duration::from_secs(1_000_000));
                    self.world.edit_at(Self::of(*r), &id, &Default::default(), Some(at));
                }
            }
            WorldChange::Undate(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit_at(Self::of(*r), &id, &Default::default(), None);
                }
                self.changed.note_need_of_sweep();
            }
            WorldChange::Tie(which) => {
                for id in which.iter().filter_map(|r| self.pick(Object::Contact, *r)).collect::<Vec<_>>() {
                    self.world.edit_at(Object::Contact, &id, &Default::default(), Some(now));
                }
            }
            WorldChange::Remove(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.remove(Self::of(*r), &id);
                }
                self.changed.note_need_of_sweep();
            }
            WorldChange::Archive(f) => {
                self.world.fields().archive(Object::Contact, field(*f));
            }
            WorldChange::Reactivate(f) => {
                self.world.fields().reactivate(Object::Contact, field(*f));
            }
            WorldChange::Define(n) => {
                let key = format!("New {}", n % 3);
                let known = self.world.definitions.iter().any(|d| d.key == key);
                if !known {
                    self.world.fields().define(NewField::new(Object::Contact, &key, DataType::ShortText));
                    if let Some(id) = self.pick(Object::Contact, *n) {
                        self.world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
                    }
                }
            }
            WorldChange::Relabel(f) => {
                self.world.fields().redefine(Object::Contact, field(*f), |d| d.label = "Another label".into());
            }
        }
    }
}
