//! A record as decoded from one answer, in the form of the mirror's columns.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::catalogue::{FieldKind, Object, Resource};
use super::custom::Choice;
use super::field_value::{FieldValue, SqlValue};
use super::ids::{FieldKey, RecordId};
use super::instant::Instant;
use super::time_range::TimeField;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub id: RecordId,
    /// When it was created and last changed, as the answer shows it: in full precision, whatever its columns can hold.
    pub created_at: Option<Instant>,
    pub updated_at: Option<Instant>,
    /// The standard fields, parallel to the catalogue's table of the resource.
    pub fields: Vec<FieldValue>,
    /// The custom values, by slot of the layout that was used for decoding.
    pub custom: Vec<FieldValue>,
    pub extra: Extra,
    /// The values for `extra` of the detail table; empty for a list item.
    pub detail_extra: Extra,
    pub options: Option<Vec<Choice>>,
    /// The number of values that did not fit their column exactly.
    pub inexact: u32,
    /// The keys in `customFields` that are not in the layout.
    pub unknown_keys: Vec<FieldKey>,
    /// The keys in `customFields` that have no column and are null: `extra` has no value for them.
    pub null_keys: Vec<FieldKey>,
}

/// What the columns cannot hold, verbatim, by wire name: `{"xNew": …, "customFields": {KEY: …}, "location": {…}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The source texts by the wire name of the nested object, empty for a field of the record itself, and by that of the field.
    pub sources: BTreeMap<(String, String), String>,
}

impl Record {
    pub fn version(&self, object: Object) -> Option<&str> {
        self.text(object.resource(), "etag")
    }

    pub const fn time(&self, field: TimeField) -> Option<Instant> {
        field.pick(self.created_at, self.updated_at)
    }

    /// The text of a standard field, by its wire name.
    pub fn text(&self, resource: Resource, wire: &str) -> Option<&str> {
        let place = resource.fields().iter().position(|field| field.wire == wire)?;
        match self.fields.get(place)? {
            FieldValue::Exact(value) => value.as_text(),
            _ => None,
        }
    }

    /// Takes the etag from the header, which has the same value, where the body lacks it (*GET /contacts/{id}*). Where the
    /// body has null, lists have it too: with the header's value, the detail would differ from each of them.
    pub fn take_header_etag(&mut self, object: Object, etag: &str) {
        for (field, value) in object.fields().iter().zip(&mut self.fields) {
            if field.kind == FieldKind::Etag && *value == FieldValue::Absent {
                *value = FieldValue::Exact(SqlValue::from(etag));
            }
        }
    }

    #[must_use]
    pub fn with_field(&self, object: Object, wire: &str, value: FieldValue) -> Record {
        let mut record = self.clone();
        if let Some(place) = object.fields().iter().position(|field| field.wire == wire) {
            record.fields[place] = value;
        }
        record
    }
}

impl Extra {
    pub fn get(&self, object: &str, name: &str) -> Option<&String> {
        self.sources.get(&(object.to_string(), name.to_string()))
    }

    pub fn remove(&mut self, object: &str, name: &str) -> Option<String> {
        self.sources.remove(&(object.to_string(), name.to_string()))
    }

    pub fn keep(&mut self, object: &str, name: &str, source: &RawValue) {
        self.sources.insert((object.to_string(), name.to_string()), source.get().to_string());
    }

    /// The column's text; `None` if there is nothing to keep.
    pub fn to_json(&self) -> Option<String> {
        let mut objects: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((object, name), source) in &self.sources {
            objects.entry(object).or_default().push(member(name, source));
        }
        let mut members = objects.remove("").unwrap_or_default();
        members.extend(objects.iter().map(|(object, inner)| member(object, &format!("{{{}}}", inner.join(",")))));
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }

    /// Parses the column's text of an object; any other text gives an empty extra.
    pub fn from_json(object: Object, text: &str) -> Extra {
        let mut extra = Extra::default();
        let Ok(members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
            return extra;
        };
        for (name, source) in members {
            match serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(source.get()) {
                Ok(inner) if object.has_group(&name) => {
                    for (key, value) in inner {
                        extra.keep(&name, &key, &value);
                    }
                }
                _ => extra.keep("", &name, &source),
            }
        }
        extra
    }
}

fn member(name: &str, source: &str) -> String {
    format!("{}:{source}", serde_json::Value::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_round_trips_source_texts() {
        let mut extra = Extra::default();
        extra.keep("", "x\"New", &RawValue::from_string("1.10".into()).unwrap());
        extra.keep("customFields", "big", &RawValue::from_string("1180591620717411303424".into()).unwrap());
        let json = extra.to_json().unwrap();
        assert_eq!(json, r#"{"x\"New":1.10,"customFields":{"big":1180591620717411303424}}"#);
        assert_eq!(Extra::from_json(Object::Contact, &json), extra);
        assert_eq!(Extra::default().to_json(), None);
    }
}
