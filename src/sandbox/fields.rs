//! The definitions of custom fields of a [`World`], and how a tenant changes them.

use super::definition::{CustomDefinition, NewField};
use super::table::WorldTable;
use super::world::World;
use crate::model::{Object, RecordId, Resource};

impl World {
    /// The definitions of custom fields, to be changed.
    pub fn fields(&mut self) -> Fields<'_> {
        Fields { world: self }
    }
}

#[derive(Debug)]
pub struct Fields<'w> {
    world: &'w mut World,
}

impl Fields<'_> {
    /// Defines a custom field. Its values are null until records get some.
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

    /// Changes a definition by key. Returns false if there is none.
    pub fn redefine(&mut self, object: Object, key: &str, change: impl FnOnce(&mut CustomDefinition)) -> bool {
        let now = self.world.tick();
        let found = self.world.definitions.iter_mut().find(|d| d.object == object && d.key == key);
        let Some(definition) = found else { return false };
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

    /// Reactivates an archived field with its values.
    pub fn reactivate(&mut self, object: Object, key: &str) -> bool {
        self.redefine(object, key, |d| {
            d.active = true;
            d.archived_at = None;
        })
    }

    /// Removes a field without a trace: no list contains it, and no record has its values.
    pub fn undefine(&mut self, object: Object, key: &str) -> bool {
        let found = self.world.definitions.iter_mut().find(|d| d.object == object && d.key == key);
        let Some(definition) = found else { return false };
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
