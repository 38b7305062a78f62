//! The simulated CRM: its records, definitions and team members, in memory, without a server.
//!
//! # Invariants
//! - A change that the service would show sets `updatedAt` to now and the `etag` to a value that the record never had,
//!   even if two changes happen in one tick of the clock.
//! - Changes that move neither have `silently` in their name: [`World::edit_silently`].
//! - A field that is not in the catalogue is kept and returned verbatim, so a test can make the service send anything;
//!   [`World::set_raw`] does the same for source text that no JSON value can represent. Filters and orders ignore raw
//!   values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;

use super::definition::{CustomDefinition, NewField};
use super::fault::Hidden;
use super::table::{Cell, Id, WorldRecord, WorldTable, custom_slot};
use crate::model::catalogue::FieldKind;
use crate::model::{DataType, Instant, Object, RecordId, Resource};

const MAX_UNDO: usize = 10_000;

/// One record as it was before a change, or that it did not exist.
#[derive(Clone, Debug)]
pub(super) struct PastRecord {
    changed_at: Instant,
    resource: Resource,
    id: Id,
    before: Option<WorldRecord>,
}

#[derive(Clone, Debug)]
pub struct World {
    now: Instant,
    pub(super) tables: BTreeMap<Resource, WorldTable>,
    pub(super) definitions: Vec<CustomDefinition>,
    pub(super) born: u64,
    /// Earlier states of the records that changed last, oldest first: a lagging replica answers from them.
    pub(super) undo: VecDeque<PastRecord>,
    /// The records that changed since a state file was last written; `None` without a state file.
    pub(super) touched: Option<BTreeSet<(Resource, Id)>>,
    pub(crate) lists_omit_nulls: bool,
}

impl World {
    pub fn new(now: Instant) -> World {
        World {
            now,
            tables: Resource::ALL.map(|r| (r, WorldTable::new(r))).into(),
            definitions: Vec::new(),
            born: 0,
            undo: VecDeque::new(),
            touched: None,
            lists_omit_nulls: false,
        }
    }

    /// Makes lists omit custom keys without a value; details always have them.
    pub fn omit_nulls_in_lists(&mut self) {
        self.lists_omit_nulls = true;
    }

    /// The time for new changes. The sandbox sets it from its clock before every request.
    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Creates a record or a team member from its fields by wire name, including `customFields` and nested objects. A
    /// missing `id` is generated; missing timestamps are now. An explicit null stays null.
    pub fn create(&mut self, of: impl Into<Resource>, fields: &Value) -> RecordId {
        let resource = of.into();
        let id: Id = match fields.get("id").and_then(Value::as_str) {
            Some(id) => id.into(),
            None => self.new_id(resource).into(),
        };
        let mut record = WorldRecord::new(id.clone());
        let now = self.tick();
        for wire in ["createdAt", "updatedAt"] {
            if let Some(slot) = self.table(resource).slot(wire) {
                record.set(slot, Some(Cell::Time(now)));
            }
        }
        self.bump_etag(resource, &mut record);
        self.apply(resource, &mut record, fields);
        self.set_slot(resource, &mut record, "id", Some(Cell::Text(id.to_string().into())));
        self.put(resource, record);
        RecordId::new(id.as_ref())
    }

    /// Changes fields by wire name; `customFields` merges by key. Returns false if there is no such record.
    pub fn edit(&mut self, of: impl Into<Resource>, id: &str, changes: &Value) -> bool {
        let now = self.tick();
        self.edit_at(of, id, changes, Some(now))
    }

    /// Changes fields with a different `updatedAt`: a late commit in the past, a date in the future, or none at all.
    pub fn edit_at(&mut self, of: impl Into<Resource>, id: &str, changes: &Value, updated_at: Option<Instant>) -> bool {
        let resource = of.into();
        self.change(resource, id, |world, record| {
            world.set_slot(resource, record, "updatedAt", updated_at.map(Cell::Time));
            // Before the changes, so that a test can set the etag too.
            world.bump_etag(resource, record);
            world.apply(resource, record, changes);
        })
    }

    /// Changes fields without moving `updatedAt` or the etag, as a service should not do.
    pub fn edit_silently(&mut self, object: Object, id: &str, changes: &Value) -> bool {
        self.change(object.resource(), id, |world, record| world.apply(object.resource(), record, changes))
    }

    /// Sets `updatedAt`: ties, the future, the past or null. The etag changes too.
    pub fn set_updated_at(&mut self, object: Object, id: &str, updated_at: Option<Instant>) -> bool {
        self.edit_at(object, id, &Value::Null, updated_at)
    }

    /// Makes answers contain `source` verbatim as the record's `wire` field; a dot addresses fields in `location` and
    /// `customFields`.
    pub fn set_raw(&mut self, object: Object, id: &str, wire: &str, source: &str) -> bool {
        self.raw(object, id, wire, Some(source.to_string()))
    }

    /// Omits a field of the record from answers.
    pub fn leave_out(&mut self, object: Object, id: &str, wire: &str) -> bool {
        self.raw(object, id, wire, None)
    }

    fn raw(&mut self, object: Object, id: &str, wire: &str, source: Option<String>) -> bool {
        self.change(object.resource(), id, |_, record| {
            record.raw.insert(wire.to_string(), source);
        })
    }

    pub fn clear_raw(&mut self, object: Object, id: &str) -> bool {
        self.change(object.resource(), id, |_, record| record.raw.clear())
    }

    /// Removes a record or a team member without a trace in the API.
    pub fn remove(&mut self, of: impl Into<Resource>, id: &str) -> bool {
        self.take(of.into(), id).is_some()
    }

    /// Every definition, including archived ones, in the order of creation.
    pub fn definitions(&self) -> &[CustomDefinition] {
        &self.definitions
    }

    pub fn ids(&self, resource: Resource) -> Vec<String> {
        self.table(resource).iter().map(|record| record.id.to_string()).collect()
    }

    pub fn count(&self, resource: Resource) -> usize {
        self.table(resource).len()
    }

    pub fn etag(&self, object: Object, id: &str) -> Option<String> {
        let table = self.table(object.resource());
        let record = table.get(id)?;
        match record.raw("etag") {
            Some(raw) => serde_json::from_str(raw?).ok(),
            None => record.cell(table.slot("etag")?)?.text().map(|text| text.into_owned()),
        }
    }

    pub fn updated_at(&self, object: Object, id: &str) -> Option<Instant> {
        let table = self.table(object.resource());
        table.get(id)?.cell(table.slot("updatedAt")?)?.time()
    }

    pub(crate) fn table(&self, resource: Resource) -> &WorldTable {
        &self.tables[&resource]
    }

    pub(crate) fn table_mut(&mut self, resource: Resource) -> &mut WorldTable {
        self.tables.entry(resource).or_insert_with(|| WorldTable::new(resource))
    }

    pub(crate) fn active(&self, object: Object, key: &str) -> Option<(usize, &CustomDefinition)> {
        let place = self.definitions.iter().position(|d| d.active && d.object == object && d.key == key)?;
        Some((custom_slot(place), &self.definitions[place]))
    }

    /// The definition that a key has: the newest active one, else the first that had it.
    fn newest(&self, object: Object, key: &str) -> Option<usize> {
        let has_key = |d: &CustomDefinition| d.object == object && d.key == key;
        let active = self.definitions.iter().rposition(|d| d.active && has_key(d));
        active.or_else(|| self.definitions.iter().position(has_key))
    }

    /// Takes a record out, changes it and puts it back, so that the table's orders stay valid.
    pub(crate) fn change(
        &mut self,
        resource: Resource,
        id: &str,
        change: impl FnOnce(&World, &mut WorldRecord),
    ) -> bool {
        let Some(mut record) = self.take(resource, id) else {
            return false;
        };
        change(self, &mut record);
        // The undo log already contains the earlier state, since the record was taken out.
        self.table_mut(resource).put(record);
        true
    }

    pub(super) fn put(&mut self, resource: Resource, record: WorldRecord) {
        self.remember(resource, &record.id);
        self.table_mut(resource).put(record);
    }

    pub(super) fn take(&mut self, resource: Resource, id: &str) -> Option<WorldRecord> {
        self.table(resource).get(id)?;
        self.remember(resource, &Id::from(id));
        self.table_mut(resource).remove(id)
    }

    fn remember(&mut self, resource: Resource, id: &Id) {
        if let Some(touched) = &mut self.touched {
            touched.insert((resource, id.clone()));
        }
        if self.undo.len() == MAX_UNDO {
            self.undo.pop_front();
        }
        let before = self.table(resource).get(id).cloned();
        self.undo.push_back(PastRecord { changed_at: self.now, resource, id: id.clone(), before });
    }

    /// The records as they were at another time, or at the earliest that is known, for a lagging replica. Custom field
    /// definitions keep their current type and status inside records; only their own list is the earlier one.
    pub fn as_of(&self, at: Instant) -> World {
        let mut world = self.without_undo();
        // The clock may have been set back in between, so the first change after `at` decides, not the time of each change.
        let first = self.undo.iter().position(|past| past.changed_at > at).unwrap_or(self.undo.len());
        for past in self.undo.range(first..).rev() {
            let table = world.table_mut(past.resource);
            match &past.before {
                Some(record) => table.put(record.clone()),
                None => drop(table.remove(&past.id)),
            }
        }
        world
    }

    pub(crate) fn without(&self, hidden: &Hidden) -> World {
        let mut world = self.without_undo();
        for resource in Resource::ALL {
            for id in world.ids(resource).iter().filter(|id| hidden.hides(id)) {
                world.table_mut(resource).remove(id);
            }
        }
        world
    }

    fn without_undo(&self) -> World {
        let (tables, definitions) = (self.tables.clone(), self.definitions.clone());
        World { tables, definitions, undo: VecDeque::new(), touched: None, ..*self }
    }

    fn apply(&self, resource: Resource, record: &mut WorldRecord, changes: &Value) {
        for (wire, value) in changes.as_object().into_iter().flatten() {
            match value {
                Value::Object(parts)
                    if wire == "customFields" || wire == "location" && resource == Resource::Contacts =>
                {
                    for (part, value) in parts {
                        self.apply_one(resource, record, &format!("{wire}.{part}"), value);
                    }
                }
                _ => self.apply_one(resource, record, wire, value),
            }
        }
    }

    fn apply_one(&self, resource: Resource, record: &mut WorldRecord, wire: &str, value: &Value) {
        let custom = wire.strip_prefix("customFields.").and_then(|key| {
            let place = self.newest(resource.object()?, key)?;
            Some((custom_slot(place), self.definitions[place].kind() == DataType::DateTime))
        });
        let standard =
            || self.table(resource).slot(wire).map(|slot| (slot, resource.fields()[slot].kind == FieldKind::Instant));
        match custom.or_else(standard) {
            Some((slot, is_time)) => record.set(slot, Cell::from_json(value, is_time)),
            None => drop(record.raw.insert(wire.to_string(), Some(value.to_string()))),
        }
    }

    pub(crate) fn set_slot(&self, resource: Resource, record: &mut WorldRecord, wire: &str, cell: Option<Cell>) {
        if let Some(slot) = self.table(resource).slot(wire) {
            record.set(slot, cell);
        }
    }

    pub(crate) fn bump_etag(&self, resource: Resource, record: &mut WorldRecord) {
        let Some(slot) = self.table(resource).slot("etag") else {
            return;
        };
        let old = match record.cell(slot) {
            Some(Cell::Etag(old)) => Some(*old),
            // An etag of a fixture or a test may be a timestamp too.
            Some(Cell::Text(text)) => text.trim_matches('"').parse().ok(),
            _ => None,
        };
        let etag = old.map_or(self.tick(), |old| self.tick().max(old.plus(Duration::from_micros(1))));
        record.set(slot, Some(Cell::Etag(etag)));
    }

    /// Now, in the precision of the timestamps that the service makes.
    pub fn tick(&self) -> Instant {
        Instant::from_micros(self.now.as_micros().div_euclid(1000) * 1000).unwrap_or(self.now)
    }

    /// Identifiers do not increase with time, so that no client relies on their order.
    pub(crate) fn new_id(&mut self, resource: Resource) -> String {
        self.born += 1;
        let scrambled = self.born.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF;
        let prefix = match resource {
            Resource::Contacts => "ct",
            Resource::Companies => "co",
            Resource::TeamMembers => "tm",
            Resource::CustomFields => "cf",
        };
        format!("{prefix}_{scrambled:012x}")
    }

    pub fn fields(&mut self) -> Fields<'_> {
        Fields { world: self }
    }
}

#[derive(Debug)]
pub struct Fields<'w> {
    world: &'w mut World,
}

impl Fields<'_> {
    /// Its values are null until records get some.
    pub fn define(&mut self, field: NewField) -> RecordId {
        let mut definition = field.0;
        if definition.id.is_empty() {
            definition.id = self.world.new_id(Resource::CustomFields);
        }
        let now = self.world.tick();
        definition.created_at = definition.created_at.or(Some(now));
        definition.updated_at = definition.updated_at.or(Some(now));
        let id = RecordId::new(definition.id.as_str());
        self.world.put(Resource::CustomFields, definition.row());
        self.world.definitions.push(definition);
        id
    }

    pub fn redefine(&mut self, object: Object, key: &str, change: impl FnOnce(&mut CustomDefinition)) -> bool {
        let now = self.world.tick();
        let Some(place) = self.world.newest(object, key) else { return false };
        let definition = &mut self.world.definitions[place];
        definition.updated_at = Some(now);
        change(definition);
        let row = definition.row();
        self.world.put(Resource::CustomFields, row);
        true
    }

    /// Archives a field: its values are omitted from records until it is reactivated.
    pub fn archive(&mut self, object: Object, key: &str) -> bool {
        let now = self.world.tick();
        self.redefine(object, key, |d| {
            d.active = false;
            d.archived_at = Some(now);
        })
    }

    pub fn reactivate(&mut self, object: Object, key: &str) -> bool {
        self.redefine(object, key, |d| {
            d.active = true;
            d.archived_at = None;
        })
    }

    /// Removes a field without a trace: no list contains it, and no record has its values.
    pub fn undefine(&mut self, object: Object, key: &str) -> bool {
        let Some(place) = self.world.newest(object, key) else { return false };
        let definition = &mut self.world.definitions[place];
        definition.active = false;
        let id = definition.id.clone();
        self.world.take(Resource::CustomFields, &id).is_some()
    }

    /// Replaces all definitions; the flag says whether lists of definitions contain it.
    pub(crate) fn restore(&mut self, definitions: Vec<(CustomDefinition, bool)>) {
        self.world.tables.insert(Resource::CustomFields, WorldTable::new(Resource::CustomFields));
        for (definition, _) in definitions.iter().filter(|(_, listed)| *listed) {
            self.world.table_mut(Resource::CustomFields).put(definition.row());
        }
        self.world.definitions = definitions.into_iter().map(|(definition, _)| definition).collect();
    }
}
