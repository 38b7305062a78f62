//! The `include` parameter: related records, and legacy names that add nothing (reference, *Versioning*).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::model::{Object, Resource};

use super::exchange::ErrorAnswer;
use super::keys::TenantKey;
use super::render::{self, RecordProjection};
use super::table::{WorldRecord, slot};
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Include {
    Owner,
    Company,
    ContactSummary,
}

/// The values that an endpoint accepts; `None` for values that add nothing.
pub(crate) type IncludeTable = &'static [(&'static str, Option<Include>)];

pub(crate) const CONTACT: IncludeTable = &[
    ("company", Some(Include::Company)),
    ("owner", Some(Include::Owner)),
    ("profile", None),
    ("notes", None),
    ("insights", None),
    ("engagement", None),
    ("enrichment", None),
    ("consent", None),
    ("contactability", None),
];

pub(crate) const COMPANY: IncludeTable = &[
    ("owner", Some(Include::Owner)),
    ("contactSummary", Some(Include::ContactSummary)),
    ("fit", None),
    ("enrichment", None),
];

pub(crate) const fn accepted(object: Object) -> IncludeTable {
    match object {
        Object::Contact => CONTACT,
        Object::Company => COMPANY,
    }
}

pub(crate) fn read(accepted: IncludeTable, value: &str) -> Result<BTreeSet<Include>, String> {
    let mut includes = BTreeSet::new();
    for name in value.split(',') {
        match accepted.iter().find(|(known, _)| *known == name) {
            Some((_, include)) => includes.extend(*include),
            None => return Err(format!("has no value `{name}`")),
        }
    }
    Ok(includes)
}

/// Each include needs the read scope of its resource.
pub(crate) fn require(key: &TenantKey, includes: &BTreeSet<Include>) -> Result<(), ErrorAnswer> {
    includes.iter().try_for_each(|include| {
        let related = match include {
            Include::Owner => Resource::TeamMembers,
            Include::Company => Resource::Companies,
            Include::ContactSummary => Resource::Contacts,
        };
        key.require(related.read_scope())
    })
}

/// The data for the includes of one answer, looked up once for all its records.
pub(crate) struct Expansion<'a> {
    world: &'a World,
    object: Object,
    includes: &'a BTreeSet<Include>,
    /// Contacts by company, if they are included.
    contacts: HashMap<String, usize>,
}

impl<'a> Expansion<'a> {
    pub(crate) fn new(world: &'a World, object: Object, includes: &'a BTreeSet<Include>) -> Expansion<'a> {
        let mut contacts = HashMap::new();
        if includes.contains(&Include::ContactSummary) {
            let table = world.table(Resource::Contacts);
            let company = |record: &WorldRecord| Some(record.cell(table.slot("companyId")?)?.text()?.into_owned());
            for company in table.iter().filter_map(company) {
                *contacts.entry(company).or_default() += 1;
            }
        }
        Expansion { world, object, includes, contacts }
    }

    /// The members that the includes add to a record. The reference does not specify their inner structure.
    pub(crate) fn of(&self, record: &WorldRecord) -> Vec<(&'static str, String)> {
        let mut members = Vec::new();
        let mut expanded = serde_json::Map::new();
        for include in self.includes {
            match include {
                Include::Owner => {
                    expanded.insert("owner".into(), self.other(record, "ownerId", Resource::TeamMembers));
                }
                Include::Company => {
                    expanded.insert("company".into(), self.other(record, "companyId", Resource::Companies));
                }
                Include::ContactSummary => {
                    let total = self.contacts.get(record.id.as_ref()).copied().unwrap_or(0);
                    members.push(("contactSummary", json!({"total": total}).to_string()));
                }
            }
        }
        if !expanded.is_empty() {
            members.push(("related", Value::from(expanded).to_string()));
        }
        members
    }

    fn other(&self, record: &WorldRecord, field: &str, resource: Resource) -> Value {
        let id = slot(self.object.fields(), field).and_then(|slot| record.cell(slot)?.text());
        let found = id.and_then(|id| self.world.table(resource).get(&id));
        found.map_or(Value::Null, |found| {
            let text = render::record(self.world, resource, found, RecordProjection::List, &[], &[]);
            serde_json::from_str(&text).unwrap_or(Value::Null)
        })
    }
}
