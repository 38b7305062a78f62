//! The simulated CRM: its records, definitions and team members, in memory, without a server.
//!
//! # Invariants
//! - A change that the service would show sets `updatedAt` to now and the `etag` to a value that the record never had,
//!   even if two changes happen in one tick of the clock.
//! - Changes that move neither have `silently` in their name: [`World::edit_silently`].
//! - A field that is not in the catalogue is kept and returned verbatim, so a test can make the service send anything;
//!   [`World::set_raw`] does the same for source text that no JSON value can represent. Filters and orders ignore raw
//!   values.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::definition::CustomDefinition;
use super::table::{Id, JsonSource, ValueName, WorldRecord, WorldTable, custom_name, field};
use crate::model::{Instant, Object, RecordId, Resource};

const MAX_UNDO: usize = 10_000;

/// One record as it was before a change, or that it did not exist.
#[derive(Clone, Debug)]
pub(super) struct PastRecord {
    changed_at: Instant,
    resource: Resource,
    id: Id,
    before: Option<Arc<WorldRecord>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    /// The time for new changes. The sandbox sets it from its clock before every request.
    pub now: Instant,
    tables: BTreeMap<Resource, WorldTable>,
    /// Every definition, including archived ones, in the order of creation.
    pub definitions: Vec<CustomDefinition>,
    born: u64,
    /// How often a record was changed, made or removed.
    pub(super) changes: u64,
    /// Earlier states of the records that changed last, oldest first: a lagging replica answers from them.
    #[serde(skip)]
    pub(super) undo: VecDeque<PastRecord>,
    /// Whether lists omit custom keys without a value; details always have them.
    pub lists_omit_nulls: bool,
}

/// The members of a JSON object, with the source of each; none of anything else.
fn members(source: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(source).unwrap_or_default()
}

impl World {
    pub fn new(now: Instant) -> World {
        World {
            now,
            tables: Resource::ALL.map(|r| (r, WorldTable::default())).into(),
            definitions: Vec::new(),
            born: 0,
            changes: 0,
            undo: VecDeque::new(),
            lists_omit_nulls: false,
        }
    }

    /// Creates an item from its fields by wire name, including `customFields` and nested objects. A missing `id` is
    /// generated; missing timestamps are now. An explicit null stays null.
    pub fn create(&mut self, of: impl Into<Resource>, fields: &Value) -> RecordId {
        self.create_from(of.into(), &fields.to_string())
    }

    /// As [`World::create`], from source: numbers keep their digits.
    pub(crate) fn create_from(&mut self, resource: Resource, source: &str) -> RecordId {
        let id = members(source).get("id").and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        let id = id.unwrap_or_else(|| self.new_id(resource));
        let mut record = WorldRecord::new(id.as_str().into());
        let now = JsonSource::of_text(&self.tick().to_wire());
        record.set("createdAt", Some(now.clone()));
        record.set("updatedAt", Some(now));
        self.bump_etag(&mut record);
        self.apply(resource, &mut record, source);
        record.set("id", Some(JsonSource::of_text(&id)));
        self.put(resource, record);
        RecordId::new(id.as_str())
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
            record.set("updatedAt", updated_at.map(|at| JsonSource::of_text(&at.to_wire())));
            // Before the changes, so that a test can set the etag too.
            world.bump_etag(record);
            world.apply(resource, record, &changes.to_string());
        })
    }

    /// Changes fields without moving `updatedAt` or the etag, as a service should not do.
    pub fn edit_silently(&mut self, object: Object, id: &str, changes: &Value) -> bool {
        let resource = object.resource();
        self.change(resource, id, |world, record| world.apply(resource, record, &changes.to_string()))
    }

    /// Makes answers contain `source` verbatim as the record's `wire` field; a dot addresses fields in `location` and
    /// `customFields`.
    pub fn set_raw(&mut self, object: Object, id: &str, wire: &str, source: &str) -> bool {
        self.change(object.resource(), id, |_, record| drop(record.raw.insert(wire.into(), Some(source.into()))))
    }

    /// Omits a field of the record from answers.
    pub fn leave_out(&mut self, object: Object, id: &str, wire: &str) -> bool {
        self.change(object.resource(), id, |_, record| drop(record.raw.insert(wire.into(), None)))
    }

    pub fn clear_raw(&mut self, object: Object, id: &str) -> bool {
        self.change(object.resource(), id, |_, record| record.raw.clear())
    }

    /// Removes an item without a trace in the API. No record has a value of a removed field.
    pub fn remove(&mut self, of: impl Into<Resource>, id: &str) -> bool {
        let resource = of.into();
        let removed = self.definitions.iter_mut().find(|known| resource == Resource::CustomFields && known.id == id);
        removed.into_iter().for_each(|definition| definition.status = "ARCHIVED".into());
        self.take(resource, id).is_some()
    }

    pub fn ids(&self, resource: Resource) -> Vec<String> {
        self.table(resource).iter().map(|record| record.id.to_string()).collect()
    }

    pub fn count(&self, resource: Resource) -> usize {
        self.table(resource).records.len()
    }

    pub fn etag(&self, object: Object, id: &str) -> Option<String> {
        let record = self.table(object.resource()).get(id)?;
        match record.raw.get("etag") {
            Some(raw) => serde_json::from_str(raw.as_deref()?).ok(),
            None => Some(record.text("etag")?.into_owned()),
        }
    }

    pub fn updated_at(&self, object: Object, id: &str) -> Option<Instant> {
        self.table(object.resource()).get(id)?.time("updatedAt")
    }

    pub(crate) fn table(&self, resource: Resource) -> &WorldTable {
        &self.tables[&resource]
    }

    pub(crate) fn table_mut(&mut self, resource: Resource) -> &mut WorldTable {
        self.tables.entry(resource).or_default()
    }

    pub(crate) fn active(&self, object: Object, key: &str) -> Option<&CustomDefinition> {
        self.definitions.iter().find(|d| d.is_active() && d.object == object && d.key == key)
    }

    /// The definition that a key has: the newest active one, else the first that had the key.
    pub(crate) fn defined(&self, object: Object, key: &str) -> Option<&CustomDefinition> {
        let mut of_key = self.definitions.iter().filter(|d| d.object == object && d.key == key);
        of_key.clone().rfind(|d| d.is_active()).or_else(|| of_key.next())
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
        change(self, Arc::make_mut(&mut record));
        // The undo log already contains the earlier state, since the record was taken out.
        self.enter(resource, record);
        true
    }

    fn put(&mut self, resource: Resource, record: WorldRecord) {
        self.remember(resource, &record.id);
        self.enter(resource, Arc::new(record));
    }

    /// Adds a record to its table. The values of records follow the definitions.
    fn enter(&mut self, resource: Resource, record: Arc<WorldRecord>) {
        let id = record.id.clone();
        self.table_mut(resource).put(record);
        if resource == Resource::CustomFields
            && let Some(json) = self.list_json(resource, &id)
            && let Ok(definition) = serde_json::from_value::<CustomDefinition>(json)
        {
            match self.definitions.iter_mut().find(|known| known.id == definition.id) {
                Some(known) => *known = definition,
                None => self.definitions.push(definition),
            }
        }
    }

    fn take(&mut self, resource: Resource, id: &str) -> Option<Arc<WorldRecord>> {
        self.table(resource).get(id)?;
        self.remember(resource, &Id::from(id));
        self.table_mut(resource).remove(id)
    }

    fn remember(&mut self, resource: Resource, id: &Id) {
        self.changes += 1;
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

    pub(crate) fn without(&self, is_hidden: impl Fn(&str) -> bool) -> World {
        let mut world = self.without_undo();
        for resource in Resource::ALL {
            for id in world.ids(resource).iter().filter(|id| is_hidden(id)) {
                world.table_mut(resource).remove(id);
            }
        }
        world
    }

    fn without_undo(&self) -> World {
        let (tables, definitions) = (self.tables.clone(), self.definitions.clone());
        World { tables, definitions, undo: VecDeque::new(), ..*self }
    }

    /// Sets the members of a JSON object; `location` and `customFields` merge.
    pub(crate) fn apply(&self, resource: Resource, record: &mut WorldRecord, changes: &str) {
        for (wire, source) in members(changes) {
            let is_group = wire == "customFields" || wire == "location" && resource == Resource::Contacts;
            match source.get() {
                object if is_group && object.starts_with('{') => {
                    for (part, source) in members(object) {
                        self.apply_one(resource, record, &format!("{wire}.{part}"), source.get());
                    }
                }
                source => self.apply_one(resource, record, &wire, source),
            }
        }
    }

    fn apply_one(&self, resource: Resource, record: &mut WorldRecord, wire: &str, source: &str) {
        let custom = wire.strip_prefix("customFields.").and_then(|key| self.defined(resource.object()?, key));
        let name = match custom {
            Some(definition) => Some(custom_name(&definition.id)),
            None => field(resource, wire).map(|field| ValueName::Borrowed(field.wire)),
        };
        match name {
            Some(name) => record.set(name, JsonSource::of_json(source)),
            None => drop(record.raw.insert(wire.to_string(), Some(source.to_string()))),
        }
    }

    pub(crate) fn bump_etag(&self, record: &mut WorldRecord) {
        // An etag of a fixture or a test may be a timestamp too.
        let old: Option<Instant> = record.text("etag").and_then(|etag| etag.trim_matches('"').parse().ok());
        let etag = old.map_or(self.tick(), |old| self.tick().max(old.plus(Duration::from_micros(1))));
        record.set("etag", Some(JsonSource::of_text(&format!("\"{}\"", etag.to_wire()))));
    }

    /// Now, in the precision of the timestamps that the service makes.
    pub fn tick(&self) -> Instant {
        self.now.millisecond_before()
    }

    /// Identifiers do not increase with time, so that no client relies on their order.
    fn new_id(&mut self, resource: Resource) -> String {
        self.born += 1;
        let scrambled = self.born.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF;
        // In the order of the resources.
        format!("{}_{scrambled:012x}", ["ct", "co", "tm", "cf"][resource as usize])
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
    pub fn define(&mut self, mut definition: CustomDefinition) -> RecordId {
        if definition.id.is_empty() {
            definition.id = self.world.new_id(Resource::CustomFields);
        }
        let now = self.world.tick().to_wire();
        definition.created_at.get_or_insert_with(|| now.clone());
        definition.updated_at.get_or_insert(now);
        self.list(definition)
    }

    /// Defines a field by the JSON of its list, or changes the one with its id.
    pub(crate) fn define_json(&mut self, json: &Value) -> Result<RecordId, String> {
        CustomDefinition::from_json(json).map(|definition| self.define(definition))
    }

    pub fn redefine(&mut self, object: Object, key: &str, change: impl FnOnce(&mut CustomDefinition)) -> bool {
        let Some(mut definition) = self.world.defined(object, key).cloned() else { return false };
        definition.updated_at = Some(self.world.tick().to_wire());
        change(&mut definition);
        self.list(definition);
        true
    }

    /// Makes lists of definitions contain it.
    fn list(&mut self, mut definition: CustomDefinition) -> RecordId {
        let archived_at = definition.archived_at.take().unwrap_or_else(|| self.world.tick().to_wire());
        definition.archived_at = Some(archived_at).filter(|_| !definition.is_active());
        let mut record = WorldRecord::new(definition.id.as_str().into());
        self.world.apply(Resource::CustomFields, &mut record, &definition.to_json().to_string());
        self.world.put(Resource::CustomFields, record);
        RecordId::new(definition.id.as_str())
    }

    /// Archives a field: its values are omitted from records until it is reactivated.
    pub fn archive(&mut self, object: Object, key: &str) -> bool {
        self.redefine(object, key, |d| d.status = "ARCHIVED".into())
    }

    pub fn reactivate(&mut self, object: Object, key: &str) -> bool {
        self.redefine(object, key, |d| d.status = "ACTIVE".into())
    }

    pub fn undefine(&mut self, object: Object, key: &str) -> bool {
        let id = self.world.defined(object, key).map(|definition| definition.id.clone());
        id.is_some_and(|id| self.world.remove(Resource::CustomFields, &id))
    }
}
