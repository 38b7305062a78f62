//! Records in answers (reference, *Projections by response*), written as text to preserve raw source; and the `include`
//! parameter: related records, and legacy names that add nothing (*Versioning*).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::exchange::ErrorAnswer;
use super::keys::TenantKey;
use super::table::{WorldRecord, slot, write_text};
use super::world::World;
use crate::model::{FieldProjection, Object, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordProjection {
    List,
    Detail,
    /// The compact confirmation of a PATCH, with these submitted detail fields.
    Confirmation,
}

/// A record's JSON. `more` names the detail fields that a confirmation echoes; `related` is appended verbatim.
pub(crate) fn record(
    world: &World,
    resource: Resource,
    record: &WorldRecord,
    projection: RecordProjection,
    more: &[String],
    related: &[(&str, String)],
) -> String {
    let mut out = JsonObjectText::new();
    let fields = resource.fields();
    let mut slot = 0;
    while slot < fields.len() {
        let field = &fields[slot];
        let shown = match (field.projection, projection) {
            (FieldProjection::FilterOnly, _) => false,
            (FieldProjection::Detail, RecordProjection::List) => false,
            (FieldProjection::Detail, RecordProjection::Confirmation) => more.iter().any(|wire| wire == field.wire),
            // The confirmation of a company has no fit data.
            (FieldProjection::List, RecordProjection::Confirmation) => field.wire != "customerFitScore",
            _ => true,
        };
        if let Some((object, _)) = field.wire.split_once('.') {
            let end = fields[slot..].iter().position(|f| f.wire.split_once('.').is_none_or(|(o, _)| o != object));
            let end = end.map_or(fields.len(), |n| slot + n);
            if shown {
                nested(&mut out, record, object, &fields[slot..end], slot);
            }
            slot = end;
            continue;
        }
        if shown {
            standard(&mut out, record, field.wire, field.wire, slot);
        }
        slot += 1;
    }
    if let Some(object) = resource.object() {
        custom(&mut out, world, record, object, projection == RecordProjection::List);
    }
    for (wire, source) in &record.raw {
        let known = wire.starts_with("customFields.") || wire.starts_with("location.");
        if let (Some(source), false) = (source, known || out.has(wire)) {
            // A raw value of a catalogue field outside of this projection is omitted.
            if fields.iter().all(|field| field.wire != wire) {
                out.add(wire, source);
            }
        }
    }
    for (name, source) in related {
        out.add(name, source);
    }
    out.close()
}

fn standard(out: &mut JsonObjectText, record: &WorldRecord, wire: &str, name: &str, slot: usize) {
    match record.raw(wire) {
        Some(None) => {}
        Some(Some(source)) => out.add(name, source),
        None => match record.cell(slot) {
            Some(cell) => out.add_with(name, |text| cell.write(text)),
            None => out.add(name, "null"),
        },
    }
}

fn nested(out: &mut JsonObjectText, record: &WorldRecord, object: &str, fields: &[crate::model::Field], first: usize) {
    match record.raw(object) {
        Some(None) => return,
        Some(Some(source)) => return out.add(object, source),
        None => {}
    }
    let mut inner = JsonObjectText::new();
    for (n, field) in fields.iter().enumerate() {
        standard(&mut inner, record, field.wire, field.filter_name(), first + n);
    }
    unknown_keys(&mut inner, record, object, &|_| false);
    out.add(object, &inner.close());
}

fn custom(out: &mut JsonObjectText, world: &World, record: &WorldRecord, object: Object, list: bool) {
    match record.raw("customFields") {
        Some(None) => return,
        Some(Some(source)) => return out.add("customFields", source),
        None => {}
    }
    let mut inner = JsonObjectText::new();
    for (place, definition) in world.definitions().iter().enumerate() {
        let hidden = list && definition.kind().detail_only();
        if definition.object != object || !definition.active || !definition.readable || hidden {
            continue;
        }
        match record.raw(&format!("customFields.{}", definition.key)) {
            Some(None) => {}
            Some(Some(source)) => inner.add(&definition.key, source),
            None => match record.custom(place as u32) {
                Some(cell) => inner.add_with(&definition.key, |text| cell.write(text)),
                None if list && world.lists_omit_nulls => {}
                None => inner.add(&definition.key, "null"),
            },
        }
    }
    let is_defined = |key: &str| world.definitions().iter().any(|d| d.object == object && d.key == key);
    unknown_keys(&mut inner, record, "customFields", &is_defined);
    out.add("customFields", &inner.close());
}

/// Adds the raw members of an object that it does not have yet, except the defined ones.
fn unknown_keys(inner: &mut JsonObjectText, record: &WorldRecord, object: &str, is_defined: &dyn Fn(&str) -> bool) {
    for (wire, source) in &record.raw {
        let name = wire.strip_prefix(object).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(name), Some(source)) = (name, source)
            && !is_defined(name)
            && !inner.has(name)
        {
            inner.add(name, source);
        }
    }
}

/// A JSON object that is being written.
struct JsonObjectText {
    text: String,
    names: Vec<String>,
}

impl JsonObjectText {
    fn new() -> JsonObjectText {
        JsonObjectText { text: String::from("{"), names: Vec::new() }
    }

    fn add(&mut self, name: &str, source: &str) {
        self.add_with(name, |text| text.push_str(source));
    }

    fn add_with(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        write_text(name, &mut self.text);
        self.text.push(':');
        write(&mut self.text);
        self.names.push(name.to_string());
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    fn close(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

impl World {
    /// An item as its detail shows it, byte for byte, or its list if it has no detail; `None` if there is no such item.
    pub fn detail_text(&self, of: impl Into<Resource>, id: &str) -> Option<String> {
        self.text(of.into(), id, RecordProjection::Detail)
    }

    /// An item as its list shows it, byte for byte; `None` if there is no such item.
    pub fn list_text(&self, resource: Resource, id: &str) -> Option<String> {
        self.text(resource, id, RecordProjection::List)
    }

    fn text(&self, resource: Resource, id: &str, projection: RecordProjection) -> Option<String> {
        Some(record(self, resource, self.table(resource).get(id)?, projection, &[], &[]))
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Include {
    Owner,
    Company,
    ContactSummary,
}

/// The values that an endpoint accepts: those that add something, and those that do not.
type IncludeTable = (&'static [(&'static str, Include)], &'static [&'static str]);

const CONTACT: IncludeTable = (
    &[("company", Include::Company), ("owner", Include::Owner)],
    &["profile", "notes", "insights", "engagement", "enrichment", "consent", "contactability"],
);

const COMPANY: IncludeTable =
    (&[("owner", Include::Owner), ("contactSummary", Include::ContactSummary)], &["fit", "enrichment"]);

pub(crate) fn includes(object: Object, value: &str) -> Result<BTreeSet<Include>, String> {
    let (adding, legacy) = object.pick(CONTACT, COMPANY);
    let mut includes = BTreeSet::new();
    for name in value.split(',') {
        match adding.iter().find(|(known, _)| *known == name) {
            Some((_, include)) => includes.extend([*include]),
            None if legacy.contains(&name) => {}
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
            let text = self::record(self.world, resource, found, RecordProjection::List, &[], &[]);
            serde_json::from_str(&text).unwrap_or(Value::Null)
        })
    }
}
