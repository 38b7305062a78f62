//! The admin interface next to `/v1`: tests change the world, the clock and the faults while their program runs.
//!
//! Every answer is `{"data": …}`; every error has the API's error envelope. No key is needed, nothing is charged or
//! logged, and faults do not apply. A misspelt field is an error, so that a test does not pass for the wrong reason.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::definition::{CustomDefinition, NewField};
use super::exchange::{Complaints, ErrorAnswer};
use super::faults::FaultLine;
use super::handle::Sandbox;
use super::patch;
use super::table::slot;
use super::world::World;
use crate::model::{FieldKind, Instant, Resource, duration};

pub(crate) const PREFIX: &str = "/_sandbox";
const FARTHEST: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(crate) fn answer(sandbox: &Sandbox, method: &str, path: &str, body: &[u8]) -> Result<Value, ErrorAnswer> {
    let verb = path.strip_prefix(PREFIX).unwrap_or(path);
    let data = match (verb, method) {
        _ if !sandbox.has_admin() => return Err(ErrorAnswer::new(404, "There is no such path")),
        ("/log", "GET" | "HEAD") => log(sandbox),
        ("/create", "POST") => create(sandbox, &read(body)?)?,
        ("/change", "POST") => change(sandbox, &read(body)?)?,
        ("/delete", "POST") => delete(sandbox, &read(body)?)?,
        ("/faults", "POST") => faults(sandbox, &read(body)?)?,
        ("/clock", "POST") => clock(sandbox, &read(body)?)?,
        ("/reset", "POST") => {
            let _: Nothing = read(if body.trim_ascii().is_empty() { b"{}" } else { body })?;
            sandbox.reset()?;
            json!({})
        }
        ("/log" | "/create" | "/change" | "/delete" | "/faults" | "/clock" | "/reset", _) => {
            let wanted = if verb == "/log" { "GET" } else { "POST" };
            return Err(ErrorAnswer::new(405, format!("{method} is not supported here; use {wanted}")));
        }
        _ => return Err(ErrorAnswer::new(404, "There is no such path")),
    };
    Ok(json!({ "data": data }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordRequest {
    #[serde(rename = "object", with = "AdminObject")]
    resource: Resource,
    id: Option<String>,
    #[serde(default)]
    fields: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(remote = "Resource")]
enum AdminObject {
    #[serde(rename = "contact")]
    Contacts,
    #[serde(rename = "company")]
    Companies,
    #[serde(rename = "team-member")]
    TeamMembers,
    #[serde(rename = "custom-field")]
    CustomFields,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRequest {
    fault: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockRequest {
    advance: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ErrorAnswer> {
    serde_json::from_slice(body).map_err(|error| ErrorAnswer::new(400, format!("The body is invalid: {error}")))
}

impl RecordRequest {
    fn id(&self) -> Result<Option<&str>, ErrorAnswer> {
        match self.id.as_deref() {
            _ if self.fields.contains_key("id") => {
                Err(ErrorAnswer::of_field(400, "fields.id", "cannot be set; `id` belongs next to `fields`"))
            }
            Some("") => Err(ErrorAnswer::of_field(400, "id", "must not be empty")),
            id => Ok(id),
        }
    }

    fn existing(&self, world: &World) -> Result<(Resource, &str), ErrorAnswer> {
        let resource = self.resource;
        let id = self.id()?.ok_or_else(|| ErrorAnswer::of_field(400, "id", "is required"))?;
        match world.table(resource).get(id) {
            Some(_) => Ok((resource, id)),
            None => Err(ErrorAnswer::new(404, format!("There is no record `{id}` in {}", resource.path()))),
        }
    }
}

fn create(sandbox: &Sandbox, request: &RecordRequest) -> Result<Value, ErrorAnswer> {
    let (resource, id) = (request.resource, request.id()?);
    sandbox.change(|world| {
        if let Some(id) = id.filter(|id| world.table(resource).get(id).is_some()) {
            return Err(ErrorAnswer::of_field(400, "id", &format!("`{id}` already exists")));
        }
        let mut record = match resource {
            Resource::CustomFields => request.fields.clone(),
            _ => checked(world, resource, &request.fields)?,
        };
        if let Some(id) = id {
            record.insert("id".into(), id.into());
        }
        let record = Value::Object(record);
        let id = if resource == Resource::CustomFields {
            let definition = CustomDefinition::from_json(&record);
            let definition = definition.map_err(|why| ErrorAnswer::of_field(400, "fields", &why))?;
            if world.definitions().iter().any(|d| d.object == definition.object && d.key == definition.key) {
                return Err(ErrorAnswer::of_field(400, "key", "already exists"));
            }
            world.fields().define(NewField(definition))
        } else {
            world.create(resource, &record)
        };
        Ok(world.detail_json(resource, id.as_str()).unwrap_or_default())
    })?
}

fn change(sandbox: &Sandbox, request: &RecordRequest) -> Result<Value, ErrorAnswer> {
    sandbox.change(|world| {
        let (resource, id) = request.existing(world)?;
        if resource == Resource::CustomFields {
            redefine(world, id, &request.fields)?;
        } else {
            let changes = checked(world, resource, &request.fields)?;
            world.edit(resource, id, &Value::Object(changes));
        }
        Ok(world.detail_json(resource, id).unwrap_or_default())
    })?
}

/// Changes a definition by the members of its JSON, except the key and the object.
fn redefine(world: &mut World, id: &str, fields: &Map<String, Value>) -> Result<(), ErrorAnswer> {
    let wrong = |why: &str| ErrorAnswer::of_field(400, "fields", why);
    let found = world.definitions().iter().find(|definition| definition.id == id).cloned();
    let Some(known) = found else { return Err(wrong("there is no such definition")) };
    let mut json = known.to_json();
    for (name, value) in fields {
        json[name] = value.clone();
    }
    let archived = json["status"] == "ARCHIVED";
    let now = if archived && known.active { Value::from(world.now().to_wire()) } else { Value::Null };
    if archived != (known.archived_at.is_some()) && !fields.contains_key("archivedAt") {
        json["archivedAt"] = now;
    }
    let changed = CustomDefinition::from_json(&json).map_err(|why| wrong(&why))?;
    if (changed.object, &changed.key) != (known.object, &known.key) {
        return Err(wrong("the key and the objectType of a definition cannot be changed"));
    }
    world.fields().redefine(known.object, &known.key, |definition| {
        let updated_at = definition.updated_at;
        *definition = changed;
        if !fields.contains_key("updatedAt") {
            definition.updated_at = updated_at;
        }
    });
    Ok(())
}

fn delete(sandbox: &Sandbox, request: &RecordRequest) -> Result<Value, ErrorAnswer> {
    sandbox.change(|world| {
        let (resource, id) = request.existing(world)?;
        match world.definitions().iter().find(|definition| definition.id == id).cloned() {
            Some(definition) if resource == Resource::CustomFields => {
                world.fields().undefine(definition.object, &definition.key)
            }
            _ => world.remove(resource, id),
        };
        Ok(json!({ "id": id }))
    })?
}

fn faults(sandbox: &Sandbox, request: &FaultRequest) -> Result<Value, ErrorAnswer> {
    let line = request.fault.parse::<FaultLine>().map_err(|why| ErrorAnswer::of_field(400, "fault", &why))?;
    sandbox.apply_faults(&line);
    Ok(json!({ "fault": line.text }))
}

fn clock(sandbox: &Sandbox, request: &ClockRequest) -> Result<Value, ErrorAnswer> {
    let by = duration(&request.advance).map_err(|why| ErrorAnswer::of_field(400, "advance", why))?;
    let last: Option<Instant> = "9000-01-01T00:00:00Z".parse().ok();
    if by > FARTHEST || last.is_some_and(|last| sandbox.clock().now().plus(by) > last) {
        return Err(ErrorAnswer::of_field(400, "advance", "is too far"));
    }
    sandbox.advance(by)?;
    Ok(json!({ "now": sandbox.clock().now().to_wire() }))
}

fn log(sandbox: &Sandbox) -> Value {
    let log = sandbox.log();
    let line = |entry: &super::exchange::LoggedRequest| {
        json!({
            "at": entry.at.to_wire(), "method": entry.asked.method, "path": entry.asked.line(),
            "status": entry.status, "ru": entry.ru.get(), "replayed": entry.replayed,
        })
    };
    log.entries().iter().map(line).collect()
}

pub(crate) fn checked(
    world: &World,
    resource: Resource,
    fields: &Map<String, Value>,
) -> Result<Map<String, Value>, ErrorAnswer> {
    let mut wrong = Complaints::default();
    let mut checked = fields.clone();
    for (wire, value) in fields {
        match (wire.as_str(), value) {
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
        match definition.map(|definition| patch::cell(definition, value)) {
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
