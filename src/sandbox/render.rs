//! Records in answers (reference, *Projections by response*), written as text to preserve raw source; and the `include`
//! parameter: related records, and legacy names that add nothing (*Versioning*).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::exchange::ErrorAnswer;
use super::keys::TenantKey;
use super::table::{Cell, WorldRecord, custom_slot, slot, write_text};
use super::world::World;
use crate::model::{FieldProjection, Object, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordProjection<'a> {
    List,
    Detail,
    /// The compact confirmation of a PATCH, with the detail fields of these slots, which were submitted.
    Confirmation(&'a [usize]),
}

/// A record's JSON; `related` is appended verbatim.
pub(crate) fn record(
    world: &World,
    resource: Resource,
    record: &WorldRecord,
    projection: RecordProjection<'_>,
    related: &[(&str, String)],
) -> String {
    let fields = resource.fields();
    let shown = fields.iter().enumerate().filter(|(slot, field)| match (field.projection, projection) {
        (FieldProjection::FilterOnly, _) | (FieldProjection::Detail, RecordProjection::List) => false,
        (FieldProjection::Detail, RecordProjection::Confirmation(submitted)) => submitted.contains(slot),
        // The confirmation of a company has no fit data.
        (FieldProjection::List, RecordProjection::Confirmation(_)) => field.wire != "customerFitScore",
        _ => true,
    });
    let mut out = String::new();
    object(&mut out, |out| {
        let mut written = "";
        for (slot, field) in shown {
            match field.wire.split_once('.') {
                None => value(out, record, field.wire, field.wire, record.cell(slot)),
                Some((name, _)) if name == written => {}
                Some((name, _)) => {
                    written = name;
                    let parts = fields.iter().enumerate().filter(|(_, part)| is_in(part.wire, name).is_some());
                    let write = |out: &mut String| {
                        parts.for_each(|(n, part)| value(out, record, part.wire, part.filter_name(), record.cell(n)));
                    };
                    group(out, record, name, write, |wire| fields.iter().any(|field| field.wire == wire));
                }
            }
        }
        if let Some(object) = resource.object() {
            custom(out, world, record, object, projection == RecordProjection::List);
        }
        for (wire, source) in &record.raw {
            let is_part = ["customFields", "location"].iter().any(|name| is_in(wire, name).is_some());
            let is_group = wire == "customFields" && resource.object().is_some() || wire == written;
            // A raw value of a catalogue field outside of this projection is omitted.
            if let Some(source) = source
                && !is_part
                && !is_group
                && slot(fields, wire).is_none()
            {
                member(out, wire, |out| out.push_str(source));
            }
        }
        for (name, source) in related {
            member(out, name, |out| out.push_str(source));
        }
    });
    out
}

/// The rest of a wire name, if it is a member of this object.
fn is_in<'w>(wire: &'w str, object: &str) -> Option<&'w str> {
    wire.strip_prefix(object)?.strip_prefix('.')
}

fn custom(out: &mut String, world: &World, record: &WorldRecord, object: Object, is_list: bool) {
    let of_object = || world.definitions().iter().enumerate().filter(|(_, definition)| definition.object == object);
    let write = |out: &mut String| {
        for (place, definition) in of_object() {
            if !definition.active || !definition.readable || is_list && definition.kind().detail_only() {
                continue;
            }
            let (wire, cell) = (format!("customFields.{}", definition.key), record.cell(custom_slot(place)));
            if is_list && world.lists_omit_nulls && cell.is_none() && record.raw(&wire).is_none() {
                continue;
            }
            value(out, record, &wire, &definition.key, cell);
        }
    };
    let is_defined =
        |wire: &str| of_object().any(|(_, definition)| is_in(wire, "customFields") == Some(&definition.key));
    group(out, record, "customFields", write, is_defined);
}

fn value(out: &mut String, record: &WorldRecord, wire: &str, name: &str, cell: Option<&Cell>) {
    overridden(out, record, wire, name, |out| match cell {
        Some(cell) => cell.write(out),
        None => out.push_str("null"),
    });
}

/// Writes an object with its members, and the raw ones that are not known.
fn group(
    out: &mut String,
    record: &WorldRecord,
    name: &str,
    write: impl FnOnce(&mut String),
    is_known: impl Fn(&str) -> bool,
) {
    overridden(out, record, name, name, |out| {
        object(out, |out| {
            write(out);
            for (wire, source) in record.raw.iter().filter(|(wire, _)| !is_known(wire)) {
                if let (Some(key), Some(source)) = (is_in(wire, name), source) {
                    member(out, key, |out| out.push_str(source));
                }
            }
        });
    });
}

/// Writes a member, unless its raw source overrides it or leaves it out.
fn overridden(out: &mut String, record: &WorldRecord, wire: &str, name: &str, write: impl FnOnce(&mut String)) {
    match record.raw(wire) {
        None => member(out, name, write),
        Some(Some(source)) => member(out, name, |out| out.push_str(source)),
        Some(None) => {}
    }
}

fn member(out: &mut String, name: &str, write: impl FnOnce(&mut String)) {
    write_text(name, out);
    out.push(':');
    write(out);
    out.push(',');
}

fn object(out: &mut String, write_members: impl FnOnce(&mut String)) {
    out.push('{');
    write_members(out);
    // The comma behind the last member.
    if out.ends_with(',') {
        out.pop();
    }
    out.push('}');
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

pub(crate) fn require(key: &TenantKey, includes: &BTreeSet<Resource>) -> Result<(), ErrorAnswer> {
    includes.iter().try_for_each(|related| key.require(related.read_scope()))
}

/// What the includes of an answer add to a record. The reference does not specify the inner structure of these members.
pub(crate) fn related(
    world: &World,
    includes: &BTreeSet<Resource>,
    of: Resource,
    record: &WorldRecord,
) -> Vec<(&'static str, String)> {
    let points_to = |of: Resource, record: &WorldRecord, pointer: &str| -> Option<String> {
        Some(record.cell(slot(of.fields(), pointer)?)?.text()?.into_owned())
    };
    let mut members = Vec::new();
    let mut related = Map::new();
    for resource in includes {
        let (name, pointer) = match resource {
            Resource::TeamMembers => ("owner", "ownerId"),
            Resource::Companies => ("company", "companyId"),
            Resource::Contacts | Resource::CustomFields => {
                let contacts = world.table(*resource).iter();
                let companies = contacts.filter_map(|contact| points_to(*resource, contact, "companyId"));
                let total = companies.filter(|company| **company == *record.id).count();
                members.push(("contactSummary", json!({"total": total}).to_string()));
                continue;
            }
        };
        let found = points_to(of, record, pointer).and_then(|id| world.list_json(*resource, &id));
        related.insert(name.into(), found.unwrap_or_default());
    }
    if !related.is_empty() {
        members.push(("related", Value::from(related).to_string()));
    }
    members
}
