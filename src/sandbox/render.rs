//! Records in answers (reference, *Projections by response*), written as text to preserve raw source; and the `include`
//! parameter: related records, and legacy names that add nothing (*Versioning*).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{JsonSource, ValueName, WorldRecord, custom_name, field};
use super::world::World;
use crate::model::{Field, FieldProjection, Object, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordProjection<'a> {
    List,
    Detail,
    /// The compact confirmation of a PATCH, with these detail fields, which were submitted.
    Confirmation(&'a [ValueName]),
}

const CUSTOM: &str = "customFields";

/// A record's JSON; `related` is appended verbatim.
pub(crate) fn record(
    world: &World,
    resource: Resource,
    record: &WorldRecord,
    projection: RecordProjection<'_>,
    related: Vec<(&str, String)>,
) -> String {
    let is_list = projection == RecordProjection::List;
    let is_shown = |field: &&Field| match (field.projection, projection) {
        (FieldProjection::FilterOnly, _) | (FieldProjection::Detail, RecordProjection::List) => false,
        (FieldProjection::Detail, RecordProjection::Confirmation(submitted)) => submitted.contains(&field.wire.into()),
        // The confirmation of a company has no fit data.
        (FieldProjection::List, RecordProjection::Confirmation(_)) => field.wire != "customerFitScore",
        _ => true,
    };
    // In their order, by wire name, each with the source of its value: none of a group, whose members have entries of their own.
    let mut members: Vec<(Cow<'_, str>, Option<Cow<'_, str>>)> = Vec::new();
    let mut groups: Vec<&str> = resource.object().map(|_| CUSTOM).into_iter().collect();
    for field in resource.fields().iter().filter(is_shown) {
        if let Some((group, _)) = field.wire.split_once('.').filter(|(group, _)| !groups.contains(group)) {
            groups.push(group);
            members.push((group.into(), None));
        }
        members.push((field.wire.into(), Some(source(record.get(field.wire)))));
    }
    let definitions = || world.definitions.iter().filter(|definition| Some(definition.object) == resource.object());
    members.extend(resource.object().map(|_| (CUSTOM.into(), None)));
    for definition in definitions().filter(|d| d.is_active() && d.readable && !(is_list && d.kind().detail_only())) {
        let (name, value) = (format!("{CUSTOM}.{}", definition.key), record.get(&custom_name(&definition.id)));
        let is_omitted = is_list && world.lists_omit_nulls && value.is_none();
        if !is_omitted || record.raw.contains_key(&name) {
            members.push((name.into(), Some(source(value))));
        }
    }
    let has_key = |wire| inside(wire, CUSTOM).is_some_and(|key| definitions().any(|d| d.key == key));
    for (wire, source) in &record.raw {
        match (members.iter().position(|(name, _)| name == wire), source) {
            (Some(place), Some(source)) => members[place].1 = Some(source.into()),
            (Some(place), None) => drop(members.remove(place)),
            // A raw value of a known field outside of this projection is omitted.
            (None, Some(source)) if field(resource, wire).is_none() && !has_key(wire) => {
                members.push((wire.into(), Some(source.into())));
            }
            (None, _) => {}
        }
    }
    members.extend(related.into_iter().map(|(name, source)| (name.into(), Some(source.into()))));
    let is_inside = |name: &str| name.split_once('.').is_some_and(|(group, _)| groups.contains(&group));
    let outside = members.iter().filter(|(name, _)| !is_inside(name));
    object(outside.map(|(name, source)| match source {
        Some(source) => (&**name, source.clone()),
        None => {
            let parts = members.iter().filter_map(|(part, source)| Some((inside(part, name)?, source.clone()?)));
            (&**name, object(parts).into())
        }
    }))
}

/// The rest of a wire name, if it is a member of this object.
fn inside<'w>(wire: &'w str, object: &str) -> Option<&'w str> {
    wire.strip_prefix(object)?.strip_prefix('.')
}

fn source(value: Option<&JsonSource>) -> Cow<'_, str> {
    value.map_or("null", |source| &source.0).into()
}

fn object<'m>(members: impl Iterator<Item = (&'m str, Cow<'m, str>)>) -> String {
    let mut out = String::from("{");
    for (name, source) in members {
        let comma = if out.len() > 1 { "," } else { "" };
        out.extend([comma, &serde_json::to_string(name).unwrap_or_default(), ":", &source]);
    }
    out + "}"
}

impl World {
    /// An item as its detail shows it, byte for byte, or its list if it has no detail.
    pub fn detail_text(&self, of: impl Into<Resource>, id: &str) -> Option<String> {
        self.text(of.into(), id, RecordProjection::Detail)
    }

    /// An item as its list shows it, byte for byte.
    pub fn list_text(&self, resource: Resource, id: &str) -> Option<String> {
        self.text(resource, id, RecordProjection::List)
    }

    fn text(&self, resource: Resource, id: &str, projection: RecordProjection<'_>) -> Option<String> {
        Some(record(self, resource, self.table(resource).get(id)?, projection, Vec::new()))
    }

    /// [`World::detail_text`], parsed; null if Rust cannot parse it as JSON.
    pub fn detail_json(&self, of: impl Into<Resource>, id: &str) -> Option<Value> {
        self.detail_text(of, id).map(|text| serde_json::from_str(&text).unwrap_or_default())
    }

    /// The same of [`World::list_text`].
    pub fn list_json(&self, resource: Resource, id: &str) -> Option<Value> {
        self.list_text(resource, id).map(|text| serde_json::from_str(&text).unwrap_or_default())
    }
}

/// The resources that an `include` adds something of; legacy names add nothing.
pub(crate) fn includes(object: Object, value: &str) -> Result<BTreeSet<Resource>, String> {
    const CONTACT: [&str; 7] =
        ["profile", "notes", "insights", "engagement", "enrichment", "consent", "contactability"];
    let legacy: &[&str] = object.pick(&CONTACT, &["fit", "enrichment"]);
    let mut includes = BTreeSet::new();
    for name in value.split(',') {
        includes.extend(match (object, name) {
            (_, "owner") => Some(Resource::TeamMembers),
            (Object::Contact, "company") => Some(Resource::Companies),
            (Object::Company, "contactSummary") => Some(Resource::Contacts),
            _ if legacy.contains(&name) => None,
            _ => return Err(format!("has no value `{name}`")),
        });
    }
    Ok(includes)
}

/// What the includes of an answer add to a record. The reference does not specify the inner structure of these members.
pub(crate) fn related(
    world: &World,
    includes: &BTreeSet<Resource>,
    record: &WorldRecord,
) -> Vec<(&'static str, String)> {
    let mut members = Vec::new();
    let mut related = Map::new();
    for resource in includes {
        let (name, pointer) = match resource {
            Resource::TeamMembers => ("owner", "ownerId"),
            Resource::Companies => ("company", "companyId"),
            Resource::Contacts | Resource::CustomFields => {
                let contacts = world.table(*resource).iter();
                let is_of = |contact: &&WorldRecord| contact.text("companyId").is_some_and(|id| *id == *record.id);
                let total = contacts.filter(is_of).count();
                members.push(("contactSummary", json!({"total": total}).to_string()));
                continue;
            }
        };
        let found = record.text(pointer).and_then(|id| world.list_json(*resource, &id));
        related.insert(name.into(), found.unwrap_or_default());
    }
    if !related.is_empty() {
        members.push(("related", Value::from(related).to_string()));
    }
    members
}
