//! Updates (reference, *PATCH /contacts/{id}*, *PATCH /companies/{id}*), in the order that the service checks them:
//! record, If-Match, Idempotency-Key, replay, body, stale version, values.
//!
//! # Always true
//! - A refused update changes nothing.
//! - A stored answer is given again only for the very same request; what failed is not stored, so it may be tried again.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::model::{Instant, Object};

use super::asked::Asked;
use super::cell::Cell;
use super::exchange::{IncomingRequest, Success};
use super::patch_values;
use super::refusal::{Complaints, Refusal};
use super::render::{self, Projection};

use super::settings::Settings;
use super::world::World;

/// How long a stored answer is kept (reference, *Limits*).
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_KEYS: usize = 100;

/// The stored answers, by Idempotency-Key.
#[derive(Debug, Default)]
pub(crate) struct Replays(HashMap<String, Stored>);

#[derive(Debug)]
struct Stored {
    at: Instant,
    asked: Asked,
    if_match: String,
    body: Vec<u8>,
    answer: Success,
}

impl Replays {
    /// The stored answer to this very request; a 409 if the key came with another.
    fn find(
        &mut self,
        key: &str,
        if_match: &str,
        request: &IncomingRequest,
        now: Instant,
    ) -> Result<Option<Success>, Refusal> {
        self.0.retain(|_, stored| now.since(stored.at) < RETENTION);
        let Some(stored) = self.0.get(key) else { return Ok(None) };
        if stored.asked != request.asked || stored.if_match != if_match || stored.body != request.body {
            return Err(Refusal::new(409, "The Idempotency-Key was used with a different request"));
        }
        Ok(Some(Success { replayed: Some(true), ..stored.answer.clone() }))
    }
}

/// Carries an update out, or gives its stored answer again.
pub(crate) fn patch(
    world: &mut World,
    settings: &Settings,
    replays: &mut Replays,
    object: Object,
    id: &str,
    request: &IncomingRequest,
) -> Result<Success, Refusal> {
    let mut wrong = Complaints::default();
    for (name, _) in &request.asked.query {
        wrong.add(name, "is not a parameter of an update");
    }
    wrong.or(())?;
    // A stored answer outlives its record.
    let stored = request.idempotency_key.as_ref().is_some_and(|key| replays.0.contains_key(key));
    let etag = world.etag(object, id);
    if etag.is_none() && !stored {
        return Err(Refusal::new(404, format!("There is no such {object}")));
    }
    let Some(if_match) = request.if_match.as_deref() else {
        return Err(Refusal::new(428, "The If-Match header is required"));
    };
    let key = match request.idempotency_key.as_deref() {
        Some(key) if (1..=255).contains(&key.len()) => key,
        Some(_) => return Err(Refusal::of_field(400, "Idempotency-Key", "must be 1 to 255 characters")),
        None => return Err(Refusal::of_field(400, "Idempotency-Key", "is required")),
    };
    if let Some(stored) = replays.find(key, if_match, request, world.now())? {
        return Ok(stored);
    }
    let Some(etag) = etag else {
        return Err(Refusal::new(404, format!("There is no such {object}")));
    };
    let body = body(request)?;
    let changes = standard(object, &body)?;
    let custom = match body.get("customFields") {
        None => Vec::new(),
        Some(Value::Object(values)) if values.len() > MAX_KEYS => {
            return Err(Refusal::of_field(400, "customFields", "has more than 100 keys"));
        }
        Some(Value::Object(_)) if !settings.custom_fields_editable => {
            return Err(Refusal::new(403, "The plan does not allow custom fields to be edited"));
        }
        Some(Value::Object(values)) => patch_values::read(world, object, values)?,
        Some(_) => return Err(Refusal::of_field(400, "customFields", "must be an object")),
    };
    if etag != if_match {
        return Err(
            Refusal::new(412, "The record has changed since").saying("If-Match does not match the current etag")
        );
    }
    let resource = object.resource();
    let now = world.tick();
    world.change(resource, id, |world, record| {
        world.bump_etag(resource, record);
        world.set_slot(resource, record, "updatedAt", Some(Cell::Time(now)));
        for (wire, cell) in &changes {
            world.set_slot(resource, record, wire, cell.clone());
            if wire == "notes" {
                world.set_slot(resource, record, "notesAt", Some(Cell::Time(now)));
            }
        }
        for (place, cell) in custom {
            record.set_custom(place, cell);
        }
    });
    let submitted: Vec<String> = changes.into_iter().map(|(wire, _)| wire).collect();
    let shown = world.table(resource).get(id).map_or_else(
        || "null".to_string(),
        |record| render::record(world, resource, record, Projection::Confirmation, &submitted, &[]),
    );
    let body = format!("{{\"data\":{shown}}}");
    let answer = Success { body, etag: world.etag(object, id), replayed: Some(false), rows: 1 };
    let stored = Stored {
        at: world.now(),
        asked: request.asked.clone(),
        if_match: if_match.to_string(),
        body: request.body.clone(),
        answer: answer.clone(),
    };
    replays.0.insert(key.to_string(), stored);
    Ok(answer)
}

fn body(request: &IncomingRequest) -> Result<Map<String, Value>, Refusal> {
    let json = request
        .content_type
        .as_deref()
        .is_some_and(|t| t.split(';').next().is_some_and(|t| t.trim().eq_ignore_ascii_case("application/json")));
    if !json {
        return Err(Refusal::of_field(400, "Content-Type", "must be application/json"));
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(body)) if body.is_empty() => Err(Refusal::new(400, "The body names nothing to update")),
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(Refusal::new(400, "The body must be a JSON object")),
        Err(_) => Err(Refusal::new(400, "The body is not valid JSON")),
    }
}

/// The standard fields of a body. What the catalogue does not call writable is refused.
fn standard(object: Object, body: &Map<String, Value>) -> Result<Vec<(String, Option<Cell>)>, Refusal> {
    let identity = |wire: &&str| object == Object::Contact && body.contains_key(*wire);
    if let Some(wire) = ["email", "mobile"].iter().find(|wire| identity(wire)) {
        let message = format!("CONTACT_IDENTITY_READ_ONLY: {wire} cannot be changed here");
        return Err(Refusal::new(422, message).saying("CONTACT_IDENTITY_READ_ONLY"));
    }
    let mut wrong = Complaints::default();
    let mut changes = Vec::new();
    for (wire, value) in body.iter().filter(|(wire, _)| *wire != "customFields") {
        let writable = object.fields().iter().any(|field| field.writable && field.wire == wire);
        match value {
            _ if !writable => wrong.add(wire, "cannot be updated"),
            Value::Null => changes.push((wire.clone(), None)),
            Value::String(text) => changes.push((wire.clone(), Some(Cell::Text(text.as_str().into())))),
            _ => wrong.add(wire, "must be a string or null"),
        }
    }
    let changes = wrong.or(changes)?;
    let texts: Vec<&Cell> = changes.iter().filter_map(|(_, cell)| cell.as_ref()).collect();
    let blank = |cell: &&Cell| cell.text().is_none_or(|text| text.trim().is_empty());
    if object == Object::Company && !texts.is_empty() && texts.iter().all(blank) {
        return Err(Refusal::of_field(422, &changes[0].0, "must contain a character that is not white space"));
    }
    Ok(changes)
}
