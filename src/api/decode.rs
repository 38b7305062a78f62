//! Decodes the bytes of an answer to records: lenient with a single invalid value, strict with a page that cannot be
//! decoded.
//!
//! Every value is read from its source text, so nothing passes through a parsed number. A value that does not fit its
//! column goes verbatim to `extra`; an excluded field (`sync.exclude`) ends here; an item without an identifier is counted
//! and reported, because it cannot be stored.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::catalogue::{FieldProjection, Resource};
use crate::model::custom::{Choice, Layout};
use crate::model::field_value::{self, FieldValue, SqlValue};
use crate::model::ids::{Cursor, FieldKey, RecordId};
use crate::model::instant::Instant;
use crate::model::record::{Extra, Record};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerProjection {
    List,
    Detail,
}

impl AnswerProjection {
    /// What null in place of a group says about its fields: a list may omit them, only a detail shows them all.
    fn null_group(self, of_detail: FieldValue<SqlValue>) -> FieldValue<SqlValue> {
        if self == AnswerProjection::List { FieldValue::Omitted } else { of_detail }
    }
}

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

/// The envelope of a list, with its parts as source text except the items, which are read as `T`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct ListEnvelope<'a, T> {
    #[serde(default, deserialize_with = "present")]
    data: Option<T>,
    #[serde(borrow, default, deserialize_with = "present", rename = "nextCursor")]
    next_cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    total: Option<&'a RawValue>,
}

/// Reads a member that is present, null included: a plain `Option` would not distinguish null from a missing member.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// The next cursor of a page, read without decoding the records: an error if the body is no list at all.
pub fn next_cursor(body: &[u8]) -> Result<Option<Cursor>, NotUnderstood> {
    envelope::<&RawValue>(body).map(|(_, next)| next)
}

fn envelope<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<(ListEnvelope<'a, T>, Option<Cursor>), NotUnderstood> {
    // UTF-8 is validated once for the whole text instead of once per part.
    let envelope = match std::str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    };
    let envelope: ListEnvelope<'a, T> = envelope.map_err(|e| not_json(&e))?;
    let next = match envelope.next_cursor {
        None => return Err(NotUnderstood("the list has no `nextCursor`".into())),
        Some(raw) if raw.get() == "null" => None,
        Some(raw) => match field_value::string(raw) {
            Some(text) if !text.is_empty() => Some(Cursor::new(text.into_owned())),
            _ => return Err(NotUnderstood("`nextCursor` is neither a text nor null".into())),
        },
    };
    Ok((envelope, next))
}

fn not_json(e: &serde_json::Error) -> NotUnderstood {
    // Only the position and class: the error's own text may quote the body.
    NotUnderstood(format!("the body is not the expected JSON ({:?} error at byte {})", e.classify(), e.column()))
}

pub fn page(resource: Resource, body: &[u8], layout: &Layout) -> Result<ListPage, NotUnderstood> {
    // One pass decodes nearly every page. One invalid item must not affect the others, so if that pass fails, the page
    // is read again item by item.
    let (items, mut unusable, next, total) = match envelope::<Items<'_>>(body) {
        Ok((ListEnvelope { data: Some(items), total, .. }, next)) => (items, 0, next, total),
        _ => {
            let (envelope, next) = envelope::<&RawValue>(body)?;
            let data = envelope.data.ok_or_else(|| NotUnderstood("the list has no `data`".into()))?;
            let raw: Vec<&RawValue> =
                serde_json::from_str(data.get()).map_err(|_| NotUnderstood("`data` is not an array".into()))?;
            let mut items = Items::default();
            raw.iter().for_each(|item| items.read(item));
            let unusable = (raw.len() - items.ends.len()) as u32;
            (items, unusable, next, envelope.total)
        }
    };
    let mut records = Vec::with_capacity(items.ends.len());
    let mut inner = Vec::new();
    for item in items.each() {
        match record(resource, AnswerProjection::List, item, layout, &mut inner) {
            Some(record) => records.push(record),
            None => unusable += 1,
        }
    }
    // No list has 2^32 items: a larger number is not known, so that no sum or product of totals overflows.
    let total = total.and_then(|raw| raw.get().parse().ok()).map(|total: u32| total.into());
    Ok(ListPage { records, next, total, unusable })
}

pub fn detail(resource: Resource, body: &[u8], layout: &Layout) -> Result<Record, NotUnderstood> {
    #[derive(Deserialize)]
    struct Single<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        data: Option<&'a RawValue>,
    }
    let single: Single<'_> = serde_json::from_slice(body).map_err(|e| not_json(&e))?;
    let data = single.data.ok_or_else(|| NotUnderstood("the answer has no `data`".into()))?;
    let mut members = Vec::new();
    read_members(data, &mut members)
        .and_then(|()| record(resource, AnswerProjection::Detail, &members, layout, &mut Vec::new()))
        .ok_or_else(|| NotUnderstood("`data` is not a record with an `id`".into()))
}

/// A member of an object: its decoded name, and its value as source text.
type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// Adds the members of an object in order; a repeated name is added twice.
struct AddMembers<'v, 'a>(&'v mut Vec<Member<'a>>);

impl<'de> DeserializeSeed<'de> for AddMembers<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AddMembers<'_, 'de> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            self.0.push((name, map.next_value::<&'de RawValue>()?));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Replaces what the buffer holds by the members of an object; `None` if the value is none.
fn read_members<'a>(raw: &'a RawValue, members: &mut Vec<Member<'a>>) -> Option<()> {
    members.clear();
    AddMembers(members).deserialize(&mut serde_json::Deserializer::from_str(raw.get())).ok()
}

/// The items of a page: the members of all of them in one buffer, since an allocation each would take a good part of the
/// time.
#[derive(Default)]
struct Items<'a> {
    members: Vec<Member<'a>>,
    ends: Vec<usize>,
}

impl<'a> Items<'a> {
    fn read(&mut self, raw: &'a RawValue) {
        let before = self.members.len();
        match AddMembers(&mut self.members).deserialize(&mut serde_json::Deserializer::from_str(raw.get())) {
            Ok(()) => self.ends.push(self.members.len()),
            Err(_) => self.members.truncate(before),
        }
    }

    fn each(&self) -> impl Iterator<Item = &[Member<'a>]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.members[begin..*end])
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Items<'de>, S::Error> {
                let mut items = Items::default();
                while let Some(()) = seq.next_element_seed(AddMembers(&mut items.members))? {
                    items.ends.push(items.members.len());
                }
                Ok(items)
            }
        }
        d.deserialize_seq(Each)
    }
}

enum WirePlace {
    /// A field of the catalogue, by its index.
    Field(usize),
    /// A nested object whose fields are in the catalogue.
    Group(BTreeMap<WireName, usize>),
}

/// A name after its length: comparing numbers is much cheaper, and few names are of one length.
type WireName = (usize, &'static str);

/// Looked up for every value that is decoded; only names of the catalogue are entered.
static PLACES: LazyLock<[BTreeMap<WireName, WirePlace>; 4]> = LazyLock::new(|| Resource::ALL.map(places));

fn places(resource: Resource) -> BTreeMap<WireName, WirePlace> {
    let mut places = BTreeMap::default();
    for (index, field) in
        resource.fields().iter().enumerate().filter(|(_, field)| field.projection != FieldProjection::FilterOnly)
    {
        match field.wire.split_once('.') {
            None => {
                places.insert((field.wire.len(), field.wire), WirePlace::Field(index));
            }
            Some((group, name)) => {
                if let WirePlace::Group(fields) =
                    places.entry((group.len(), group)).or_insert_with(|| WirePlace::Group(BTreeMap::default()))
                {
                    fields.insert((name.len(), name), index);
                }
            }
        }
    }
    places
}

/// Decodes a record from its members; `inner` is a buffer for those of the objects within.
fn record<'a>(
    resource: Resource,
    projection: AnswerProjection,
    item: &[Member<'a>],
    layout: &Layout,
    inner: &mut Vec<Member<'a>>,
) -> Option<Record> {
    let fields = resource.fields();
    let places = &PLACES[Resource::ALL.iter().position(|r| *r == resource)?];
    let slots = resource.object().map_or(0, |object| layout.of(object).fields().len());
    let is_excluded =
        |index: usize| resource.object().is_some_and(|object| layout.exclusions.takes_field(object, index));
    let mut out = Record {
        id: RecordId::new(""),
        created_at: None,
        updated_at: None,
        fields: absent(fields.len()),
        custom: absent(slots),
        extra: Extra::default(),
        detail_extra: Extra::default(),
        options: None,
        inexact: 0,
        unknown_keys: Vec::new(),
        null_keys: Vec::new(),
    };
    let (mut id, of_detail) = (None, projection == AnswerProjection::Detail);
    for (name, value) in item {
        match places.get(&(name.len(), name.as_ref())) {
            Some(WirePlace::Field(index)) if is_excluded(*index) => {}
            Some(WirePlace::Field(index)) => {
                match name.as_ref() {
                    "id" => id = identifier(value),
                    "createdAt" => out.created_at = instant(value),
                    "updatedAt" => out.updated_at = instant(value),
                    _ => {}
                }
                standard(&mut out, resource, *index, projection, value, None);
            }
            Some(WirePlace::Group(group)) => {
                if value.get() == "null" {
                    let value = projection.null_group(FieldValue::Null);
                    group.values().for_each(|index| out.fields[*index] = value.clone());
                } else if read_members(value, inner).is_some() {
                    for (inner_name, inner_value) in inner.iter() {
                        match group.get(&(inner_name.len(), inner_name.as_ref())) {
                            Some(index) if is_excluded(*index) => {}
                            Some(index) => {
                                standard(&mut out, resource, *index, projection, inner_value, Some((name, inner_name)));
                            }
                            None => inexact(&mut out, of_detail).keep_nested(name, inner_name, inner_value),
                        }
                    }
                } else {
                    out.inexact += 1;
                    // It may hold the value of an excluded member.
                    if !group.values().any(|index| is_excluded(*index)) {
                        out.extra.keep(name, value);
                    }
                    group.values().for_each(|index| out.fields[*index] = FieldValue::Unrepresentable);
                }
            }
            None if name == "customFields" && resource.object().is_some() => {
                custom_values(&mut out, resource, projection, value, (layout, inner));
            }
            None if name == "options" && resource == Resource::CustomFields => options(&mut out, value),
            None => inexact(&mut out, of_detail).keep(name, value),
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

/// Where a value is kept that fits no column exactly. What only a detail shows, as any unknown field of it, has a place of its
/// own, because lists may not contain it.
fn inexact(out: &mut Record, of_detail: bool) -> &mut Extra {
    out.inexact += 1;
    if of_detail { &mut out.detail_extra } else { &mut out.extra }
}

fn absent(count: usize) -> Vec<FieldValue<SqlValue>> {
    std::iter::repeat_with(|| FieldValue::Absent).take(count).collect()
}

fn instant(raw: &RawValue) -> Option<Instant> {
    Instant::read(&field_value::string(raw)?).ok().map(|read| read.instant)
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
    projection: AnswerProjection,
    value: &RawValue,
    nested: Option<(&str, &str)>,
) {
    let field = &resource.fields()[index];
    // A list that contains a detail field violates its projection: the value is kept in `extra`, but not treated as a
    // detail.
    let misplaced = field.projection == FieldProjection::Detail && projection == AnswerProjection::List;
    let decoded = if misplaced { FieldValue::Unrepresentable } else { field_value::standard(field.kind, Some(value)) };
    if matches!(decoded, FieldValue::Unrepresentable | FieldValue::Truncated(_)) {
        let extra = inexact(out, field.projection == FieldProjection::Detail && !misplaced);
        match nested {
            Some((object, name)) => extra.keep_nested(object, name, value),
            None => extra.keep(field.wire, value),
        }
    }
    out.fields[index] = if misplaced { FieldValue::Absent } else { decoded };
}

fn custom_values<'a>(
    out: &mut Record,
    resource: Resource,
    projection: AnswerProjection,
    value: &'a RawValue,
    (layout, members): (&Layout, &mut Vec<Member<'a>>),
) {
    const WIRE: &str = "customFields";
    let Some(object) = resource.object() else { return };
    let fields = layout.of(object);
    // The values that this projection has.
    let mut set_all = |unknown: FieldValue<SqlValue>| {
        for (field, value) in fields.fields().iter().zip(&mut out.custom) {
            if projection == AnswerProjection::Detail || !field.data_type.detail_only() {
                *value = unknown.clone();
            }
        }
    };
    if value.get() == "null" {
        // A detail lists every active key, with null for a missing value: this is not its form.
        set_all(projection.null_group(FieldValue::Withheld));
        return;
    }
    let Some(()) = read_members(value, members) else {
        set_all(FieldValue::Unrepresentable);
        out.inexact += 1;
        if !layout.exclusions.takes_part_of(object.table(), WIRE) {
            out.extra.keep(WIRE, value);
        }
        return;
    };
    for (key, value) in members.iter() {
        let Some((slot, field)) = fields.by_key(key) else {
            if fields.is_excluded(key) {
                continue;
            }
            // A null has no value to keep: the key alone is known from the definitions.
            if !fields.is_unplaced(key) {
                out.unknown_keys.push(FieldKey::new(&**key));
            }
            if layout.excludes_key(object, key) {
                continue;
            }
            if value.get() == "null" {
                out.null_keys.push(FieldKey::new(&**key));
            } else {
                inexact(out, projection == AnswerProjection::Detail).keep_nested(WIRE, key, value);
            }
            continue;
        };
        let decoded = field_value::custom(field.data_type, Some(value));
        if matches!(decoded, FieldValue::Unrepresentable | FieldValue::Truncated(_)) {
            let of_detail = field.data_type.detail_only() && projection == AnswerProjection::Detail;
            inexact(out, of_detail).keep_nested(WIRE, key, value);
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
        inexact(out, false).keep("options", value);
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
