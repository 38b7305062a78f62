//! The admin interface next to `/v1`: tests change the world, the clock and the faults while their program runs.
//!
//! Every answer is `{"data": …}`; every error has the API's error envelope. No key is needed, nothing is charged or
//! logged, and faults do not apply. A misspelt field is an error, so that a test does not pass for the wrong reason; a value
//! may be anything.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::exchange::{Answer, LoggedRequest};
use super::handle::Sandbox;
use super::state::locked;
use super::table::WorldRecord;
use super::world::World;
use crate::model::{RecordId, Resource, duration};

pub(crate) const PREFIX: &str = "/_sandbox";

/// The bodies by the verb in the path.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum AdminRequest {
    Log {},
    Create(Item),
    Change(Item),
    Delete(Item),
    Faults { fault: String },
    Clock { advance: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    #[serde(deserialize_with = "resource")]
    object: Resource,
    id: Option<String>,
    #[serde(default)]
    fields: Map<String, Value>,
}

fn resource<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resource, D::Error> {
    let name = String::deserialize(deserializer)?;
    let place = ["contact", "company", "team-member", "custom-field"].iter().position(|known| *known == name);
    let unknown = || D::Error::custom("`object` must be contact, company, team-member or custom-field");
    place.map(|place| Resource::ALL[place]).ok_or_else(unknown)
}

pub(crate) fn answer(sandbox: &Sandbox, method: &str, path: &str, body: &[u8]) -> Result<Value, Answer> {
    let verb = path.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
    let wanted = match verb {
        _ if sandbox.memory().standalone.is_none() => None,
        "log" => Some("GET"),
        "create" | "change" | "delete" | "faults" | "clock" => Some("POST"),
        _ => None,
    };
    let wanted = wanted.ok_or_else(|| Answer::refused(404, "There is no such path"))?;
    if wanted != if method == "HEAD" { "GET" } else { method } {
        return Err(Answer::refused(405, format!("{method} is not supported here; use {wanted}")));
    }
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let request = serde_json::from_slice::<Value>(body).and_then(|body| serde_json::from_value(json!({ verb: body })));
    let data = match request.map_err(|error| Answer::refused(400, format!("The body is invalid: {error}")))? {
        AdminRequest::Log {} => log(sandbox),
        AdminRequest::Create(item) => sandbox.write(|world, _| set(world, true, item))??,
        AdminRequest::Change(item) => sandbox.write(|world, _| set(world, false, item))??,
        AdminRequest::Delete(item) => sandbox.write(|world, _| delete(world, &item))??,
        AdminRequest::Faults { fault } => {
            sandbox.faults().set(&fault.parse().map_err(|why: String| Answer::of_field(400, "fault", &why))?);
            json!({ "fault": fault })
        }
        AdminRequest::Clock { advance } => clock(sandbox, &advance)?,
    };
    Ok(json!({ "data": data }))
}

fn set(world: &mut World, is_new: bool, item: Item) -> Result<Value, Answer> {
    let Item { object, id, mut fields } = item;
    let known = id.as_ref().and_then(|id| world.detail_json(object, id));
    let wrong = |field: &str, why: &str| Answer::of_field(400, field, why);
    match &id {
        _ if fields.contains_key("id") => {
            return Err(wrong("fields.id", "cannot be set; `id` belongs next to `fields`"));
        }
        Some(id) if is_new && (id.is_empty() || known.is_some()) => {
            return Err(wrong("id", "is empty or already exists"));
        }
        Some(id) if !is_new && known.is_none() => return Err(unknown(object, id)),
        None if !is_new => return Err(wrong("id", "is required")),
        _ => {}
    }
    fields.extend(id.iter().map(|id| ("id".to_string(), id.as_str().into())));
    if object == Resource::CustomFields {
        let mut whole = known.unwrap_or_else(|| json!({}));
        whole["updatedAt"] = world.tick().to_wire().into();
        whole.as_object_mut().into_iter().for_each(|whole| whole.extend(fields.clone()));
        let id = world.fields().define_json(&whole).map_err(|why| wrong("fields", &why))?;
        return Ok(world.detail_json(object, id.as_str()).unwrap_or_default());
    }
    let mut record = WorldRecord::new(Default::default());
    let fields = Value::from(fields);
    world.apply(object, &mut record, &fields.to_string());
    if let Some(wire) = record.raw.keys().next() {
        return Err(wrong(&format!("fields.{wire}"), "is not a field of this object"));
    }
    let id = match id.filter(|id| world.edit(object, id, &fields)) {
        Some(id) => RecordId::new(id),
        None => world.create(object, &fields),
    };
    Ok(world.detail_json(object, id.as_str()).unwrap_or_default())
}

fn delete(world: &mut World, item: &Item) -> Result<Value, Answer> {
    let id = item.id.as_deref().ok_or_else(|| Answer::of_field(400, "id", "is required"))?;
    world.remove(item.object, id).then(|| json!({ "id": id })).ok_or_else(|| unknown(item.object, id))
}

fn unknown(resource: Resource, id: &str) -> Answer {
    Answer::refused(404, format!("There is no record `{id}` in {}", resource.path()))
}

fn clock(sandbox: &Sandbox, advance: &str) -> Result<Value, Answer> {
    let by = duration(advance).map_err(|why| Answer::of_field(400, "advance", why))?;
    sandbox.write(|_, memory| memory.standalone.iter().for_each(|kept| *locked(&kept.clock.advanced) += by))?;
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
