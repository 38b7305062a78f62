//! The admin interface next to `/v1`: tests change the world, the clock and the faults while their program runs.
//!
//! Every answer is `{"data": …}`; every error has the API's error envelope. No key is needed, nothing is charged or
//! logged, and faults do not apply. A misspelt field is an error, so that a test does not pass for the wrong reason.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::definition::{CustomDefinition, NewField};
use super::exchange::{Answer, LoggedRequest};
use super::handle::Sandbox;
use super::values::{CheckedValue, checked};
use super::world::World;
use crate::model::{Instant, Resource, duration};

pub(crate) const PREFIX: &str = "/_sandbox";
const FARTHEST: Duration = Duration::from_secs(100 * 366 * 86_400);

type AdminVerb = fn(&Sandbox, &AdminRequest) -> Result<Value, Answer>;

/// Each verb with its method.
const VERBS: [(&str, &str, AdminVerb); 7] = [
    ("/log", "GET", |sandbox, _| Ok(log(sandbox))),
    ("/create", "POST", |sandbox, request| sandbox.change(|world| create(world, request))?),
    ("/change", "POST", |sandbox, request| sandbox.change(|world| change(world, request))?),
    ("/delete", "POST", |sandbox, request| sandbox.change(|world| delete(world, request))?),
    ("/faults", "POST", faults),
    ("/clock", "POST", clock),
    ("/reset", "POST", |sandbox, _| Ok(sandbox.reset().map(|()| json!({}))?)),
];

/// The members of any body.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AdminRequest {
    object: Option<String>,
    id: Option<String>,
    fields: Map<String, Value>,
    fault: Option<String>,
    advance: Option<String>,
}

fn required<'a>(name: &str, given: Option<&'a String>) -> Result<&'a str, Answer> {
    given.map(String::as_str).ok_or_else(|| Answer::of_field(400, name, "is required"))
}

impl AdminRequest {
    fn resource(&self) -> Result<Resource, Answer> {
        let is_named = |name: &&str| self.object.as_deref() == Some(name);
        let place = ["contact", "company", "team-member", "custom-field"].iter().position(is_named);
        let unknown = || Answer::of_field(400, "object", "must be contact, company, team-member or custom-field");
        place.map(|place| Resource::ALL[place]).ok_or_else(unknown)
    }

    fn fields(&self) -> Result<&Map<String, Value>, Answer> {
        match self.fields.contains_key("id") {
            true => Err(Answer::of_field(400, "fields.id", "cannot be set; `id` belongs next to `fields`")),
            false => Ok(&self.fields),
        }
    }

    /// An object and a record of it that exists.
    fn existing(&self, world: &World) -> Result<(Resource, &str), Answer> {
        let (resource, id) = (self.resource()?, required("id", self.id.as_ref())?);
        match world.table(resource).get(id) {
            Some(_) => Ok((resource, id)),
            None => Err(Answer::refused(404, format!("There is no record `{id}` in {}", resource.path()))),
        }
    }
}

pub(crate) fn answer(sandbox: &Sandbox, method: &str, path: &str, body: &[u8]) -> Result<Value, Answer> {
    let is_asked = |verb: &str| path.strip_prefix(PREFIX) == Some(verb) && sandbox.memory().origin.is_some();
    let Some((_, wanted, verb)) = VERBS.iter().find(|(verb, ..)| is_asked(verb)) else {
        return Err(Answer::refused(404, "There is no such path"));
    };
    if *wanted != if method == "HEAD" { "GET" } else { method } {
        return Err(Answer::refused(405, format!("{method} is not supported here; use {wanted}")));
    }
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let request =
        serde_json::from_slice::<Map<String, Value>>(body).and_then(|body| serde_json::from_value(body.into()));
    let request = request.map_err(|error| Answer::refused(400, format!("The body is invalid: {error}")))?;
    Ok(json!({ "data": verb(sandbox, &request)? }))
}

fn create(world: &mut World, request: &AdminRequest) -> Result<Value, Answer> {
    let wrong = |field: &str, why: &str| Err(Answer::of_field(400, field, why));
    let (resource, mut fields) = (request.resource()?, request.fields()?.clone());
    match &request.id {
        Some(id) if id.is_empty() => return wrong("id", "must not be empty"),
        Some(id) if world.table(resource).get(id).is_some() => return wrong("id", &format!("`{id}` already exists")),
        _ => {}
    }
    let id = if resource == Resource::CustomFields {
        fields.extend(request.id.iter().map(|id| ("id".to_string(), id.as_str().into())));
        let definition = CustomDefinition::from_json(&fields.into());
        let definition = definition.map_err(|why| Answer::of_field(400, "fields", &why))?;
        if world.definitions().iter().any(|d| d.object == definition.object && d.key == definition.key) {
            return wrong("key", "already exists");
        }
        world.fields().define(NewField(definition))
    } else {
        let values = values(world, resource, &fields)?;
        let id = world.create(resource, &json!({ "id": request.id }));
        set(world, resource, id.as_str(), values);
        id
    };
    Ok(world.detail_json(resource, id.as_str()).unwrap_or_default())
}

fn change(world: &mut World, request: &AdminRequest) -> Result<Value, Answer> {
    let (resource, id) = request.existing(world)?;
    let fields = request.fields()?;
    if resource == Resource::CustomFields {
        redefine(world, id, fields.clone())?;
    } else {
        let values = values(world, resource, fields)?;
        world.edit(resource, id, &Value::Null);
        set(world, resource, id, values);
    }
    Ok(world.detail_json(resource, id).unwrap_or_default())
}

/// Changes a definition by the members of its JSON, except the key and the object.
fn redefine(world: &mut World, id: &str, fields: Map<String, Value>) -> Result<(), Answer> {
    let wrong = |why: &str| Answer::of_field(400, "fields", why);
    let known = world.definitions().iter().find(|definition| definition.id == id).cloned();
    let known = known.ok_or_else(|| wrong("there is no such definition"))?;
    let mut json = known.to_json();
    let is_archived = fields.get("status").unwrap_or(&json["status"]) == "ARCHIVED";
    if is_archived != known.archived_at.is_some() {
        json["archivedAt"] = if is_archived { world.now().to_wire().into() } else { Value::Null };
    }
    json["updatedAt"] = world.tick().to_wire().into();
    if let Some(json) = json.as_object_mut() {
        json.extend(fields);
    }
    let changed = CustomDefinition::from_json(&json).map_err(|why| wrong(&why))?;
    if (changed.object, &changed.key) != (known.object, &known.key) {
        return Err(wrong("the key and the objectType of a definition cannot be changed"));
    }
    world.fields().redefine(known.object, &known.key, |definition| *definition = changed);
    Ok(())
}

fn delete(world: &mut World, request: &AdminRequest) -> Result<Value, Answer> {
    let (resource, id) = request.existing(world)?;
    let of_field = world.definitions().iter().find(|d| d.id == id && resource == Resource::CustomFields).cloned();
    match of_field {
        Some(definition) => world.fields().undefine(definition.object, &definition.key),
        None => world.remove(resource, id),
    };
    Ok(json!({ "id": id }))
}

fn faults(sandbox: &Sandbox, request: &AdminRequest) -> Result<Value, Answer> {
    let line = required("fault", request.fault.as_ref())?;
    sandbox.faults().set(&line.parse().map_err(|why: String| Answer::of_field(400, "fault", &why))?);
    Ok(json!({ "fault": line }))
}

fn clock(sandbox: &Sandbox, request: &AdminRequest) -> Result<Value, Answer> {
    let by = duration(required("advance", request.advance.as_ref())?);
    let by = by.map_err(|why| Answer::of_field(400, "advance", why))?;
    let last: Option<Instant> = "9000-01-01T00:00:00Z".parse().ok();
    if by > FARTHEST || last.is_some_and(|last| sandbox.clock().now().plus(by) > last) {
        return Err(Answer::of_field(400, "advance", "is too far"));
    }
    sandbox.advance(by)?;
    Ok(json!({ "now": sandbox.clock().now().to_wire() }))
}

fn log(sandbox: &Sandbox) -> Value {
    let line = |entry: &LoggedRequest| {
        json!({
            "at": entry.at.to_wire(), "method": entry.asked.method, "path": entry.asked.line(),
            "status": entry.status, "ru": entry.ru.get(), "replayed": entry.replayed,
        })
    };
    sandbox.log().entries().iter().map(line).collect()
}

/// The values of a record's fields, all of them valid.
fn values(world: &World, resource: Resource, fields: &Map<String, Value>) -> Result<Vec<CheckedValue>, Answer> {
    let one = |wire: &str, value: &Value| {
        checked(world, resource, wire, value).map_err(|why| Answer::of_field(400, &format!("fields.{wire}"), &why))
    };
    let mut values = Vec::new();
    for (wire, value) in fields {
        match value {
            Value::Object(parts) if resource.object().is_some_and(|object| object.has_group(wire)) => {
                for (part, value) in parts {
                    values.push(one(&format!("{wire}.{part}"), value)?);
                }
            }
            _ => values.push(one(wire, value)?),
        }
    }
    Ok(values)
}

fn set(world: &mut World, resource: Resource, id: &str, values: Vec<CheckedValue>) {
    world.change(resource, id, |_, record| values.into_iter().for_each(|(name, value)| record.set(name, value)));
}
