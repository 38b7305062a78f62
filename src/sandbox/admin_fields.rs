//! The fields that the admin interface accepts: names of the catalogue and of defined custom fields, with values of
//! their types. A misspelt name is an error, so that a test does not pass for the wrong reason.

use serde_json::{Map, Value};

use crate::model::{FieldKind, Instant, Resource};

use super::error_answer::{Complaints, ErrorAnswer};
use super::patch_values;
use super::table::slot;
use super::world::World;

/// The fields in the form of the world, or an error with everything that is wrong.
pub(crate) fn checked(
    world: &World,
    resource: Resource,
    fields: &Map<String, Value>,
) -> Result<Map<String, Value>, ErrorAnswer> {
    let mut wrong = Complaints::default();
    let mut checked = fields.clone();
    for (wire, value) in fields {
        match (wire.as_str(), value) {
            ("id", _) => wrong.add("fields.id", "cannot be set; `id` belongs next to `fields`"),
            ("customFields", Value::Object(values)) if resource.object().is_some() => {
                checked.insert(wire.clone(), custom(world, resource, values, &mut wrong));
            }
            ("location", Value::Object(parts)) if resource == Resource::Contacts => {
                for (part, value) in parts {
                    standard(resource, &format!("location.{part}"), value, &mut wrong);
                }
            }
            ("customFields" | "location", _) => wrong.add(&format!("fields.{wire}"), "must be an object"),
            _ => standard(resource, wire, value, &mut wrong),
        }
    }
    wrong.or(checked)
}

fn standard(resource: Resource, wire: &str, value: &Value, wrong: &mut Complaints) {
    let Some(slot) = slot(resource.fields(), wire) else {
        return wrong.add(&format!("fields.{wire}"), format!("is not a field of {}", resource.path()));
    };
    let message = match (resource.fields()[slot].kind, value) {
        (_, Value::Null) | (FieldKind::Value { .. } | FieldKind::Json, _) => return,
        (FieldKind::Id | FieldKind::Text | FieldKind::Etag, Value::String(_))
        | (FieldKind::Boolean, Value::Bool(_)) => return,
        (FieldKind::Integer, Value::Number(number)) if number.is_i64() => return,
        (FieldKind::Number, Value::Number(_)) => return,
        (FieldKind::Instant, Value::String(text)) if text.parse::<Instant>().is_ok() => return,
        (FieldKind::Id | FieldKind::Text | FieldKind::Etag, _) => "must be a string or null",
        (FieldKind::Boolean, _) => "must be true, false or null",
        (FieldKind::Integer, _) => "must be a 64-bit integer or null",
        (FieldKind::Number, _) => "must be a number or null",
        (FieldKind::Instant, _) => "must be an ISO timestamp with a timezone, or null",
    };
    wrong.add(&format!("fields.{wire}"), message);
}

fn custom(world: &World, resource: Resource, values: &Map<String, Value>, wrong: &mut Complaints) -> Value {
    let mut stored = values.clone();
    for (key, value) in values {
        let field = format!("fields.customFields.{key}");
        let definition = world.definitions().iter().find(|d| Some(d.object) == resource.object() && d.key == *key);
        match definition.map(|definition| patch_values::cell(definition, value)) {
            // Empty texts and lists are stored as cleared values.
            Some(Ok(None)) => {
                stored.insert(key.clone(), Value::Null);
            }
            Some(Ok(Some(_))) => {}
            Some(Err(message)) => wrong.add(&field, message),
            None => wrong.add(&field, "is not a custom field"),
        }
    }
    Value::Object(stored)
}
