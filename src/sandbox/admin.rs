//! The admin interface next to `/v1`: tests change the world, the clock and the faults while their program runs.
//!
//! Every answer is `{"data": …}`; every error has the API's error envelope and names the invalid members. No key is
//! needed, nothing is charged or logged, and faults do not apply.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::model::{Instant, Resource, duration};

use super::admin_fields::{self, existing};
use super::definition::{CustomDefinition, NewField};
use super::error_answer::{Complaints, ErrorAnswer};
use super::fault_line::FaultLine;
use super::fixture::resource_named;
use super::handle::Sandbox;
use super::world::World;

/// The prefix of the interface's paths.
pub(crate) const PREFIX: &str = "/_sandbox";
/// The maximum advance of the clock in one request.
const FARTHEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Answers one admin request with the body of the success.
pub(crate) fn answer(sandbox: &Sandbox, method: &str, path: &str, body: &[u8]) -> Result<Value, ErrorAnswer> {
    let verb = path.strip_prefix(PREFIX).unwrap_or(path);
    let data = match (verb, method) {
        _ if !sandbox.has_admin() => return Err(ErrorAnswer::new(404, "There is no such path")),
        ("/log", "GET" | "HEAD") => log(sandbox),
        ("/create", "POST") => create(sandbox, &members(body, &["object", "id", "fields"])?)?,
        ("/change", "POST") => change(sandbox, &members(body, &["object", "id", "fields"])?)?,
        ("/delete", "POST") => delete(sandbox, &members(body, &["object", "id"])?)?,
        ("/faults", "POST") => faults(sandbox, &members(body, &["fault"])?)?,
        ("/clock", "POST") => clock(sandbox, &members(body, &["advance"])?)?,
        ("/reset", "POST") => {
            if !body.iter().all(u8::is_ascii_whitespace) {
                members(body, &[])?;
            }
            sandbox.reset().map_err(unwritten)?;
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

/// The members of the body; unknown members are an error.
fn members(body: &[u8], known: &[&str]) -> Result<Map<String, Value>, ErrorAnswer> {
    let members = match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(ErrorAnswer::new(400, "The body must be a JSON object")),
        Err(error) => return Err(ErrorAnswer::new(400, format!("The body is not valid JSON: {error}"))),
    };
    let mut wrong = Complaints::default();
    for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
        wrong.add(name, format!("is not expected here; known members: {}", known.join(", ")));
    }
    wrong.or(members)
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a str, ErrorAnswer> {
    match members.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ErrorAnswer::of_field(400, name, "must be a string")),
        None => Err(ErrorAnswer::of_field(400, name, "is required")),
    }
}

fn resource(members: &Map<String, Value>) -> Result<Resource, ErrorAnswer> {
    let object = text(members, "object")?;
    resource_named(object)
        .ok_or_else(|| ErrorAnswer::of_field(400, "object", "must be contact, company, team-member or custom-field"))
}

fn id(members: &Map<String, Value>) -> Result<&str, ErrorAnswer> {
    match text(members, "id")? {
        "" => Err(ErrorAnswer::of_field(400, "id", "must not be empty")),
        id => Ok(id),
    }
}

fn fields<'a>(
    members: &'a Map<String, Value>,
    none: &'a Map<String, Value>,
) -> Result<&'a Map<String, Value>, ErrorAnswer> {
    match members.get("fields") {
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(ErrorAnswer::of_field(400, "fields", "must be an object")),
        None => Ok(none),
    }
}

fn unwritten(error: impl std::fmt::Display) -> ErrorAnswer {
    ErrorAnswer::new(500, error.to_string())
}

fn shown(world: &World, resource: Resource, id: &str) -> Value {
    let text = match resource.object() {
        Some(object) => world.detail_text(object, id),
        None => world.list_text(resource, id),
    };
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

fn create(sandbox: &Sandbox, members: &Map<String, Value>) -> Result<Value, ErrorAnswer> {
    let none = Map::new();
    let (resource, fields) = (resource(members)?, fields(members, &none)?);
    let id = members.contains_key("id").then(|| id(members)).transpose()?;
    let created = sandbox.change(|world| {
        if let Some(id) = id.filter(|id| world.table(resource).get(id).is_some()) {
            return Err(ErrorAnswer::of_field(400, "id", &format!("`{id}` already exists")));
        }
        let mut record = fields.clone();
        if let Some(id) = id {
            record.insert("id".into(), id.into());
        }
        let id = if resource == Resource::CustomFields {
            let definition = CustomDefinition::from_json(&Value::Object(record));
            let definition = definition.map_err(|why| ErrorAnswer::of_field(400, "fields", &why))?;
            if world.definitions().iter().any(|d| d.object == definition.object && d.key == definition.key) {
                return Err(ErrorAnswer::of_field(400, "key", "already exists"));
            }
            world.fields().define(NewField::from(definition))
        } else {
            record = admin_fields::checked(world, resource, fields)?;
            if let Some(id) = id {
                record.insert("id".into(), id.into());
            }
            match resource.object() {
                Some(object) => world.create(object, &Value::Object(record)),
                None => world.add_team_member(&Value::Object(record)),
            }
        };
        Ok(shown(world, resource, id.as_str()))
    });
    created.map_err(unwritten)?
}

fn change(sandbox: &Sandbox, members: &Map<String, Value>) -> Result<Value, ErrorAnswer> {
    let none = Map::new();
    let (resource, id, fields) = (resource(members)?, id(members)?, fields(members, &none)?);
    let changed = sandbox.change(|world| {
        existing(world, resource, id)?;
        if resource == Resource::CustomFields {
            redefine(world, id, fields)?;
        } else {
            let changes = Value::Object(admin_fields::checked(world, resource, fields)?);
            match resource.object() {
                Some(object) => world.edit(object, id, &changes),
                None => world.edit_team_member(id, &changes),
            };
        }
        Ok(shown(world, resource, id))
    });
    changed.map_err(unwritten)?
}

/// Changes a definition by the members of its JSON, except the id, the key and the object.
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
    if (changed.object, &changed.key, &changed.id) != (known.object, &known.key, &known.id) {
        return Err(wrong("the id, the key and the objectType of a definition cannot be changed"));
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

fn delete(sandbox: &Sandbox, members: &Map<String, Value>) -> Result<Value, ErrorAnswer> {
    let (resource, id) = (resource(members)?, id(members)?);
    let deleted = sandbox.change(|world| {
        existing(world, resource, id)?;
        match resource {
            Resource::CustomFields => {
                let found = world.definitions().iter().find(|definition| definition.id == id).cloned();
                found.is_some_and(|definition| world.fields().undefine(definition.object, &definition.key))
            }
            Resource::TeamMembers => world.remove_team_member(id),
            _ => resource.object().is_some_and(|object| world.remove(object, id)),
        };
        Ok(json!({ "id": id }))
    });
    deleted.map_err(unwritten)?
}

fn faults(sandbox: &Sandbox, members: &Map<String, Value>) -> Result<Value, ErrorAnswer> {
    let line: FaultLine =
        text(members, "fault")?.parse().map_err(|why: String| ErrorAnswer::of_field(400, "fault", &why))?;
    sandbox.apply_faults(&line);
    Ok(json!({ "fault": line.text }))
}

fn clock(sandbox: &Sandbox, members: &Map<String, Value>) -> Result<Value, ErrorAnswer> {
    let by = duration(text(members, "advance")?);
    let by = by.map_err(|why| ErrorAnswer::of_field(400, "advance", why))?;
    let now = sandbox.clock().now();
    let last: Option<Instant> = "9000-01-01T00:00:00Z".parse().ok();
    if by > FARTHEST || last.is_some_and(|last| now.plus(by) > last) {
        return Err(ErrorAnswer::of_field(400, "advance", "is too far"));
    }
    sandbox.advance(by).map_err(unwritten)?;
    Ok(json!({ "now": sandbox.clock().now().to_wire() }))
}

fn log(sandbox: &Sandbox) -> Value {
    let log = sandbox.log();
    let line = |entry: &super::log::LoggedRequest| {
        json!({
            "at": entry.at.to_wire(), "method": entry.asked.method, "path": entry.asked.line(),
            "status": entry.status, "ru": entry.ru.get(), "replayed": entry.replayed,
        })
    };
    log.entries().iter().map(line).collect()
}
