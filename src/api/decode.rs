//! Decodes an answer's bytes to records: lenient with one invalid value, strict with a page that cannot be decoded.
//!
//! Every value is read from its source text, so nothing passes through a parsed number. A value that does not fit its
//! column goes verbatim to `extra`; an excluded field (`sync.exclude`) ends here; an item without an identifier is counted
//! and reported, because it cannot be stored.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::catalogue::{FieldProjection, Resource};
use crate::model::custom::{Choice, Layout};
use crate::model::field_value::{self, FieldValue};
use crate::model::ids::{Cursor, FieldKey, RecordId};
use crate::model::instant::Instant;
use crate::model::record::{Extra, Record};

#[derive(Clone, Debug, PartialEq)]
pub struct ListPage {
    /// The items that have an identifier, in the order of the page.
    pub records: Vec<Record>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// The size of the full matching set, if `count=exact` was sent; below 2^32.
    pub total: Option<u64>,
    /// Items that cannot be mirrored: not an object, or without an identifier.
    pub unusable: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotUnderstood(pub String);

/// The envelope of an answer, with its data read as `T` in the same pass. Of two members with one name, the later counts.
struct Envelope<'a, T> {
    data: Option<T>,
    next: Option<&'a RawValue>,
    total: Option<&'a RawValue>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Envelope<'de, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Envelope<'de, T>, D::Error> {
        struct Parts<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
            type Value = Envelope<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Envelope<'de, T>, M::Error> {
                let mut envelope = Envelope { data: None, next: None, total: None };
                while let Some(Name(name)) = map.next_key()? {
                    match name.as_ref() {
                        "data" => envelope.data = Some(map.next_value()?),
                        "nextCursor" => envelope.next = Some(map.next_value()?),
                        "total" => envelope.total = Some(map.next_value()?),
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Parts(PhantomData))
    }
}

fn envelope<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<Envelope<'a, T>, NotUnderstood> {
    // Checked once for the whole text, not for each of its parts.
    let text = str::from_utf8(body)
        .map_err(|e| NotUnderstood(format!("the body is not UTF-8 (at byte {})", e.valid_up_to() + 1)))?;
    // Only the position and class: the error's own text may quote the body.
    let not_json = |e: serde_json::Error| {
        NotUnderstood(format!("the body is not the expected JSON ({:?} error at byte {})", e.classify(), e.column()))
    };
    serde_json::from_str(text).map_err(not_json)
}

impl<T> Envelope<'_, T> {
    fn next(&self) -> Result<Option<Cursor>, NotUnderstood> {
        match self.next {
            None => Err(NotUnderstood("the list has no `nextCursor`".into())),
            Some(raw) if raw.get() == "null" => Ok(None),
            Some(raw) => match field_value::string(raw) {
                // No cursor leads on, as with null.
                Some(text) => Ok((!text.is_empty()).then(|| Cursor::new(text.into_owned()))),
                None => Err(NotUnderstood("`nextCursor` is neither a text nor null".into())),
            },
        }
    }

    fn page(self, decode: impl Fn(T) -> Vec<Option<Record>>) -> Result<ListPage, NotUnderstood> {
        let next = self.next()?;
        let items = decode(self.data.ok_or_else(|| NotUnderstood("the list has no `data`".into()))?);
        let count = items.len();
        let records: Vec<Record> = items.into_iter().flatten().collect();
        let unusable = (count - records.len()) as u32;
        // No list has 2^32 items: a larger number is not known, so that no sum or product of totals overflows.
        let total = self.total.and_then(|raw| raw.get().parse().ok()).map(|total: u32| total.into());
        Ok(ListPage { records, next, total, unusable })
    }
}

/// The next cursor of a page, read without decoding the records: an error if the body is no list at all.
pub fn next_cursor(body: &[u8]) -> Result<Option<Cursor>, NotUnderstood> {
    envelope::<IgnoredAny>(body)?.next()
}

pub fn page(resource: Resource, body: &[u8], layout: &Layout) -> Result<ListPage, NotUnderstood> {
    let record = |members| record(resource, false, members, layout);
    // One pass reads nearly every page. An invalid item must not affect the others: then they are read one by one.
    if let Ok(list) = envelope::<Vec<Members<'_>>>(body) {
        return list.page(|items| items.into_iter().map(record).collect());
    }
    let list = envelope::<Vec<&RawValue>>(body)?;
    list.page(|items| items.into_iter().map(|item| members(item).and_then(record)).collect())
}

pub fn detail(resource: Resource, body: &[u8], layout: &Layout) -> Result<Record, NotUnderstood> {
    let data = envelope::<&RawValue>(body)?.data.ok_or_else(|| NotUnderstood("the answer has no `data`".into()))?;
    members(data)
        .and_then(|members| record(resource, true, members, layout))
        .ok_or_else(|| NotUnderstood("`data` is not a record with an `id`".into()))
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of an object with their decoded names, each as source text. Of two with one name, the later counts.
struct Members<'a>(Vec<(Name<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                // Read for every record: a sorted map would take a sixth of the time of a page.
                let mut members = Vec::with_capacity(32);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

fn members(raw: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(raw.get()).ok()
}

enum WirePlace {
    /// A field of the catalogue, by its index.
    Field(usize),
    /// A nested object whose fields are in the catalogue.
    Group(FxHashMap<&'static str, usize>),
}

/// Looked up for every value that is decoded; only names of the catalogue are entered.
static PLACES: LazyLock<[FxHashMap<&str, WirePlace>; 4]> = LazyLock::new(|| Resource::ALL.map(places));

fn places(resource: Resource) -> FxHashMap<&'static str, WirePlace> {
    let mut places = FxHashMap::default();
    let fields = resource.fields().iter().enumerate();
    for (index, field) in fields.filter(|(_, field)| field.projection != FieldProjection::FilterOnly) {
        let Some((group, name)) = field.wire.split_once('.') else {
            places.insert(field.wire, WirePlace::Field(index));
            continue;
        };
        if let WirePlace::Group(fields) = places.entry(group).or_insert_with(|| WirePlace::Group(FxHashMap::default()))
        {
            fields.insert(name, index);
        }
    }
    places
}

/// Decodes a record; `None` if it is none, or has no identifier.
fn record(resource: Resource, of_detail: bool, Members(members): Members<'_>, layout: &Layout) -> Option<Record> {
    let fields = resource.fields();
    let places = &PLACES[Resource::ALL.iter().position(|r| *r == resource)?];
    let slots = resource.object().map_or(0, |object| layout.of(object).fields().len());
    let is_excluded =
        |index: usize| resource.object().is_some_and(|object| layout.exclusions.takes_field(object, index));
    let absent = |count| vec![FieldValue::Absent; count];
    let mut out = Record { fields: absent(fields.len()), custom: absent(slots), ..Record::default() };
    let mut id = None;
    for (Name(name), value) in members {
        match places.get(name.as_ref()) {
            Some(WirePlace::Field(index)) if is_excluded(*index) => {}
            Some(WirePlace::Field(index)) => {
                match name.as_ref() {
                    "id" => id = identifier(value),
                    "createdAt" => out.created_at = instant(value),
                    "updatedAt" => out.updated_at = instant(value),
                    _ => {}
                }
                standard(&mut out, resource, *index, of_detail, value, ("", &name));
            }
            Some(WirePlace::Group(group)) => {
                if value.get() == "null" {
                    // A list may omit the fields of a group; only a detail shows them all.
                    let value = if of_detail { FieldValue::Null } else { FieldValue::Omitted };
                    group.values().for_each(|index| out.fields[*index] = value.clone());
                } else if let Some(Members(inner)) = self::members(value) {
                    for (Name(inner_name), value) in inner {
                        match group.get(inner_name.as_ref()) {
                            Some(index) if is_excluded(*index) => {}
                            Some(index) => {
                                standard(&mut out, resource, *index, of_detail, value, (&name, &inner_name));
                            }
                            None => inexact(&mut out, of_detail).keep(&name, &inner_name, value),
                        }
                    }
                } else {
                    out.inexact += 1;
                    // It may hold the value of an excluded member.
                    if !group.values().any(|index| is_excluded(*index)) {
                        out.extra.keep("", &name, value);
                    }
                    group.values().for_each(|index| out.fields[*index] = FieldValue::Unrepresentable);
                }
            }
            None if name == "customFields" && resource.object().is_some() => {
                custom_values(&mut out, resource, of_detail, value, layout);
            }
            None if name == "options" && resource == Resource::CustomFields => options(&mut out, value),
            None => inexact(&mut out, of_detail).keep("", &name, value),
        }
    }
    out.id = id?;
    Some(if resource == Resource::CustomFields { of_definition(out) } else { out })
}

/// Every definition has these: without a text, the answer does not tell what it is, and says nothing against what is known.
fn of_definition(mut definition: Record) -> Record {
    for (field, value) in Resource::CustomFields.fields().iter().zip(&mut definition.fields) {
        let is_needed = matches!(field.wire, "key" | "dataType" | "objectType" | "status");
        if is_needed && !matches!(value, FieldValue::Exact(_)) {
            *value = FieldValue::Absent;
        }
    }
    definition
}

/// Where a value is kept that fits no column exactly: what only a detail shows is kept apart, as lists may lack it.
fn inexact(out: &mut Record, of_detail: bool) -> &mut Extra {
    out.inexact += 1;
    if of_detail { &mut out.detail_extra } else { &mut out.extra }
}

fn instant(raw: &RawValue) -> Option<Instant> {
    Instant::read(&field_value::string(raw)?).map(|(instant, _)| instant)
}

/// A record's identifier: its text, or the digits of a number.
fn identifier(raw: &RawValue) -> Option<RecordId> {
    let source = raw.get();
    match field_value::string(raw) {
        Some(text) if !text.is_empty() => Some(RecordId::new(text.into_owned())),
        None if source.starts_with(|c: char| c.is_ascii_digit()) => Some(RecordId::new(source)),
        _ => None,
    }
}

fn standard(
    out: &mut Record,
    resource: Resource,
    index: usize,
    of_detail: bool,
    value: &RawValue,
    (object, name): (&str, &str),
) {
    let field = &resource.fields()[index];
    // A list with a detail field violates its projection: the value is kept in `extra`, not treated as a detail.
    let misplaced = field.projection == FieldProjection::Detail && !of_detail;
    let decoded = if misplaced { FieldValue::Unrepresentable } else { field_value::standard(field.kind, value) };
    if matches!(decoded, FieldValue::Unrepresentable | FieldValue::Truncated(_)) {
        let extra = inexact(out, field.projection == FieldProjection::Detail && !misplaced);
        extra.keep(object, name, value);
    }
    out.fields[index] = if misplaced { FieldValue::Absent } else { decoded };
}

fn custom_values(out: &mut Record, resource: Resource, of_detail: bool, value: &RawValue, layout: &Layout) {
    const WIRE: &str = "customFields";
    let Some(object) = resource.object() else { return };
    let fields = layout.of(object);
    // The values that this projection has.
    let mut set_all = |unknown: FieldValue| {
        for (field, value) in fields.fields().iter().zip(&mut out.custom) {
            if of_detail || !field.data_type.detail_only() {
                *value = unknown.clone();
            }
        }
    };
    if value.get() == "null" {
        // A detail lists every active key, with null for a missing value: this is not its form.
        set_all(if of_detail { FieldValue::Withheld } else { FieldValue::Omitted });
        return;
    }
    let Some(Members(members)) = members(value) else {
        set_all(FieldValue::Unrepresentable);
        out.inexact += 1;
        if !layout.exclusions.takes_part_of(object.table(), WIRE) {
            out.extra.keep("", WIRE, value);
        }
        return;
    };
    for (Name(key), value) in members {
        let Some((slot, field)) = fields.by_key(&key) else {
            if fields.excluded.contains(&*key) {
                continue;
            }
            // A null has no value to keep: the key alone is known from the definitions.
            if !fields.unplaced.contains(&*key) {
                out.unknown_keys.push(FieldKey::new(&*key));
            }
            if layout.excludes_key(object, &key) {
                continue;
            }
            if value.get() == "null" {
                out.null_keys.push(FieldKey::new(&*key));
            } else {
                inexact(out, of_detail).keep(WIRE, &key, value);
            }
            continue;
        };
        let decoded = field_value::custom(field.data_type, value);
        if matches!(decoded, FieldValue::Unrepresentable | FieldValue::Truncated(_)) {
            inexact(out, of_detail && field.data_type.detail_only()).keep(WIRE, &key, value);
        }
        out.custom[slot] = decoded;
    }
}

/// An option needs a text as its value; a label of another shape is none. The source of what did not fit is kept.
fn options(out: &mut Record, value: &RawValue) {
    let items: Option<Vec<&RawValue>> = serde_json::from_str(value.get()).unwrap_or_default();
    let is_list = items.is_some() || value.get() == "null";
    let (mut fits, mut choices) = (is_list, Vec::new());
    for item in items.unwrap_or_default() {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(item.get()).unwrap_or_default();
        let text = |name: &str| members.get(name).map(|source| serde_json::from_str::<Option<String>>(source.get()));
        let label = text("label").unwrap_or(Ok(None));
        fits &= label.is_ok();
        match text("value") {
            Some(Ok(Some(value))) => choices.push(Choice { value, label: label.unwrap_or_default() }),
            _ => fits = false,
        }
    }
    // Of what is no list, nothing is known.
    out.options = is_list.then_some(choices);
    if !fits {
        inexact(out, false).keep("", "options", value);
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
