//! Records in answers (reference, *Projections by response*), written as text to preserve raw source; and the `include`
//! parameter: related records, and legacy names that add nothing (*Versioning*).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::table::{JsonSource, WorldRecord, custom_name, field};
use super::world::World;
use crate::model::{FieldProjection, Object, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordProjection<'a> {
    List,
    Detail,
    /// The compact confirmation of a PATCH, with these detail fields, which were submitted.
    Confirmation(&'a [&'a str]),
}

/// The members of an object in their order, each with the source of its value.
type MemberSources<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// A record's JSON; `related` is appended verbatim.
pub(crate) fn record(
    world: &World,
    resource: Resource,
    record: &WorldRecord,
    projection: RecordProjection<'_>,
    related: &[(&str, String)],
) -> String {
    let is_shown = |wire: &str, of: FieldProjection| match (of, projection) {
        (FieldProjection::FilterOnly, _) | (FieldProjection::Detail, RecordProjection::List) => false,
        (FieldProjection::Detail, RecordProjection::Confirmation(submitted)) => submitted.contains(&wire),
        // The confirmation of a company has no fit data.
        (FieldProjection::List, RecordProjection::Confirmation(_)) => wire != "customerFitScore",
        _ => true,
    };
    let fields = || resource.fields().iter().filter(|field| is_shown(field.wire, field.projection));
    let mut members = MemberSources::new();
    for shown in fields() {
        match shown.wire.split_once('.') {
            None => members.push((shown.wire, source(record.get(shown.wire)))),
            Some((group, _)) if members.iter().any(|(name, _)| *name == group) => {}
            Some((group, _)) => {
                let parts =
                    fields().filter_map(|part| Some((inside(part.wire, group)?, source(record.get(part.wire)))));
                let is_hidden = |part: &str| field(resource, &format!("{group}.{part}")).is_some();
                let parts = overridden(parts.collect(), &record.raw, |wire| inside(wire, group), is_hidden);
                members.push((group, object(&parts).into()));
            }
        }
    }
    if let Some(of) = resource.object() {
        let custom = custom(world, record, of, projection == RecordProjection::List);
        members.push((CUSTOM, custom.into()));
    }
    let is_group = |wire: &str| resource.object().is_some_and(|object| object.has_group(wire));
    let outside = |wire: &'_ str| wire.split_once('.').is_none_or(|(group, _)| !is_group(group));
    // A raw value of a catalogue field outside of this projection is omitted.
    let is_hidden = |wire: &str| field(resource, wire).is_some();
    let mut members = overridden(members, &record.raw, |wire| outside(wire).then_some(wire), is_hidden);
    members.extend(related.iter().map(|(name, source)| (*name, source.into())));
    object(&members)
}

const CUSTOM: &str = "customFields";

/// The rest of a wire name, if it is a member of this object.
fn inside<'w>(wire: &'w str, object: &str) -> Option<&'w str> {
    wire.strip_prefix(object)?.strip_prefix('.')
}

fn source(value: Option<&JsonSource>) -> Cow<'_, str> {
    value.map_or("null", JsonSource::as_str).into()
}

fn custom(world: &World, record: &WorldRecord, object_type: Object, is_list: bool) -> String {
    let of_object = || world.definitions().iter().filter(|definition| definition.object == object_type);
    let shown = of_object().filter(|d| d.active && d.readable && !(is_list && d.kind().detail_only()));
    let mut members = MemberSources::new();
    for definition in shown {
        let value = record.get(&custom_name(&definition.id));
        let is_omitted = is_list && world.lists_omit_nulls && value.is_none();
        if !is_omitted || record.raw.contains_key(&format!("{CUSTOM}.{}", definition.key)) {
            members.push((&definition.key, source(value)));
        }
    }
    let is_hidden = |key: &str| of_object().any(|definition| definition.key == key);
    object(&overridden(members, &record.raw, |wire| inside(wire, CUSTOM), is_hidden))
}

/// The members with the raw sources of a record in their places. `member` is the name of a raw source, if it belongs to the
/// object; a hidden one is shown only if the object has the member anyway.
fn overridden<'a>(
    mut members: MemberSources<'a>,
    raw: &'a BTreeMap<String, Option<String>>,
    member: impl Fn(&'a str) -> Option<&'a str>,
    is_hidden: impl Fn(&str) -> bool,
) -> MemberSources<'a> {
    for (wire, source) in raw {
        let Some(name) = member(wire) else { continue };
        let place = members.iter().position(|(known, _)| *known == name);
        match (place, source) {
            (Some(place), Some(source)) => members[place].1 = source.into(),
            (Some(place), None) => drop(members.remove(place)),
            (None, Some(source)) if !is_hidden(name) => members.push((name, source.into())),
            (None, _) => {}
        }
    }
    members
}

fn object(members: &MemberSources<'_>) -> String {
    let mut out = String::from("{");
    for (name, source) in members {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&Value::from(*name).to_string());
        out.push(':');
        out.push_str(source);
    }
    out.push('}');
    out
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
        Some(record(self, resource, self.table(resource).get(id)?, projection, &[]))
    }

    /// [`World::detail_text`], parsed; null if Rust cannot parse it as JSON.
    pub fn detail_json(&self, of: impl Into<Resource>, id: &str) -> Option<Value> {
        self.detail_text(of, id).map(|text| serde_json::from_str(&text).unwrap_or_default())
    }

    /// [`World::list_text`], parsed; null if Rust cannot parse it as JSON.
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
