//! Updates (reference, *PATCH /contacts/{id}*, *PATCH /companies/{id}*), with the checks in the order of the service:
//! record, If-Match, Idempotency-Key, replay, body, stale version, values. Custom values are validated by the reference's
//! table *Custom values*: a key that cannot be written gives a 422, and so does a value of the wrong type.
//!
//! # Invariants
//! - A refused update changes nothing.
//! - A stored answer is replayed only for the identical request; failures are not stored, so they can be retried.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::CustomDefinition;
use super::exchange::{Complaints, ErrorAnswer, IncomingRequest, Success};
use super::render::{self, RecordProjection};
use super::table::{Cell, slot};
use super::world::World;
use crate::model::editable::{CUSTOM_KEYS, LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::{DataType, Instant, Object, decimal, field_value};

/// How long a stored answer is kept (reference, *Limits*).
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Default)]
pub(crate) struct Replays {
    pub(crate) stored: BTreeMap<String, StoredReplay>,
    /// The answers that are not in the state file yet.
    pub(crate) new: BTreeSet<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredReplay {
    at: Instant,
    path: String,
    if_match: String,
    body: Vec<u8>,
    answer: String,
    etag: Option<String>,
}

impl StoredReplay {
    fn answer(&self, replayed: bool) -> Success {
        Success { body: self.answer.clone(), etag: self.etag.clone(), replayed: Some(replayed), rows: 1 }
    }
}

impl Replays {
    fn find(
        &mut self,
        key: &str,
        if_match: &str,
        request: &IncomingRequest,
        now: Instant,
    ) -> Result<Option<Success>, ErrorAnswer> {
        self.stored.retain(|_, stored| now.since(stored.at) < RETENTION);
        let Some(stored) = self.stored.get(key) else { return Ok(None) };
        if stored.path != request.asked.path || stored.if_match != if_match || stored.body != request.body {
            return Err(ErrorAnswer::new(409, "The Idempotency-Key was used with a different request"));
        }
        Ok(Some(stored.answer(true)))
    }

    fn insert(&mut self, key: &str, stored: StoredReplay) {
        self.stored.insert(key.to_string(), stored);
        self.new.insert(key.to_string());
    }
}

/// `custom`: whether the plan allows custom fields to be edited.
pub(crate) fn patch(
    world: &mut World,
    custom: bool,
    replays: &mut Replays,
    object: Object,
    id: &str,
    request: &IncomingRequest,
) -> Result<Success, ErrorAnswer> {
    let mut wrong = Complaints::default();
    for (name, _) in &request.asked.query {
        wrong.add(name, "is not a parameter of an update");
    }
    wrong.or(())?;
    // A stored answer is kept even if its record is removed.
    let stored = request.idempotency_key.as_ref().is_some_and(|key| replays.stored.contains_key(key));
    let etag = world.etag(object, id);
    if etag.is_none() && !stored {
        return Err(ErrorAnswer::new(404, format!("There is no such {object}")));
    }
    let Some(if_match) = request.if_match.as_deref() else {
        return Err(ErrorAnswer::new(428, "The If-Match header is required"));
    };
    let key = match request.idempotency_key.as_deref() {
        Some(key) if (1..=255).contains(&key.len()) => key,
        Some(_) => return Err(ErrorAnswer::of_field(400, "Idempotency-Key", "must be 1 to 255 characters")),
        None => return Err(ErrorAnswer::of_field(400, "Idempotency-Key", "is required")),
    };
    if let Some(stored) = replays.find(key, if_match, request, world.now())? {
        return Ok(stored);
    }
    let Some(etag) = etag else {
        return Err(ErrorAnswer::new(404, format!("There is no such {object}")));
    };
    let changes = changes(world, custom, object, &body(request)?)?;
    if etag != if_match {
        return Err(ErrorAnswer::new(412, "The record has changed since")
            .with_details("If-Match does not match the current etag"));
    }
    let answer = carry_out(changes, world, object, id);
    let stored = StoredReplay {
        at: world.now(),
        path: request.asked.path.clone(),
        if_match: if_match.to_string(),
        body: request.body.clone(),
        answer,
        etag: world.etag(object, id),
    };
    let success = stored.answer(false);
    replays.insert(key, stored);
    Ok(success)
}

/// New values by slot, all of them valid; `None` clears.
type PatchChanges = Vec<(usize, Option<Cell>)>;

fn changes(
    world: &World,
    is_editable: bool,
    object: Object,
    body: &Map<String, Value>,
) -> Result<PatchChanges, ErrorAnswer> {
    let mut changes = standard(object, body)?;
    changes.extend(match body.get("customFields") {
        None => Vec::new(),
        Some(Value::Object(values)) if values.len() > CUSTOM_KEYS => {
            return Err(ErrorAnswer::of_field(400, "customFields", "has more than 100 keys"));
        }
        Some(Value::Object(_)) if !is_editable => {
            return Err(ErrorAnswer::new(403, "The plan does not allow custom fields to be edited"));
        }
        Some(Value::Object(values)) => custom(world, object, values)?,
        Some(_) => return Err(ErrorAnswer::of_field(400, "customFields", "must be an object")),
    });
    Ok(changes)
}

fn carry_out(changes: PatchChanges, world: &mut World, object: Object, id: &str) -> String {
    let resource = object.resource();
    let submitted: Vec<usize> = changes.iter().map(|(slot, _)| *slot).collect();
    let now = world.tick();
    world.change(resource, id, |world, record| {
        world.bump_etag(resource, record);
        world.set_slot(resource, record, "updatedAt", Some(Cell::Time(now)));
        if world.table(resource).slot("notes").is_some_and(|notes| submitted.contains(&notes)) {
            world.set_slot(resource, record, "notesAt", Some(Cell::Time(now)));
        }
        for (slot, cell) in changes {
            record.set(slot, cell);
        }
    });
    let shown = world.table(resource).get(id).map_or_else(
        || "null".to_string(),
        |record| render::record(world, resource, record, RecordProjection::Confirmation(&submitted), &[]),
    );
    format!("{{\"data\":{shown}}}")
}

fn body(request: &IncomingRequest) -> Result<Map<String, Value>, ErrorAnswer> {
    let json = request
        .content_type
        .as_deref()
        .is_some_and(|t| t.split(';').next().is_some_and(|t| t.trim().eq_ignore_ascii_case("application/json")));
    if !json {
        return Err(ErrorAnswer::of_field(400, "Content-Type", "must be application/json"));
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(body)) if body.is_empty() => Err(ErrorAnswer::new(400, "The body names nothing to update")),
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(ErrorAnswer::new(400, "The body must be a JSON object")),
        Err(_) => Err(ErrorAnswer::new(400, "The body is not valid JSON")),
    }
}

fn standard(object: Object, body: &Map<String, Value>) -> Result<PatchChanges, ErrorAnswer> {
    let identity = |wire: &&str| object == Object::Contact && body.contains_key(*wire);
    if let Some(wire) = ["email", "mobile"].iter().find(|wire| identity(wire)) {
        let message = format!("CONTACT_IDENTITY_READ_ONLY: {wire} cannot be changed here");
        return Err(ErrorAnswer::new(422, message).with_details("CONTACT_IDENTITY_READ_ONLY"));
    }
    let mut wrong = Complaints::default();
    let mut changes = Vec::new();
    for (wire, value) in body.iter().filter(|(wire, _)| *wire != "customFields") {
        let slot = slot(object.fields(), wire).filter(|slot| object.fields()[*slot].writable);
        match (slot, value) {
            (None, _) => wrong.add(wire, "cannot be updated"),
            (Some(slot), Value::Null) => changes.push((slot, None)),
            (_, Value::String(text)) if text.contains('\0') => wrong.add(wire, "must not contain U+0000"),
            (Some(slot), Value::String(text)) => changes.push((slot, Some(Cell::Text(text.clone().into())))),
            _ => wrong.add(wire, "must be a string or null"),
        }
    }
    let changes = wrong.or(changes)?;
    let texts: Vec<&Cell> = changes.iter().filter_map(|(_, cell)| cell.as_ref()).collect();
    let blank = |cell: &&Cell| cell.text().is_none_or(|text| text.trim().is_empty());
    if object == Object::Company && !texts.is_empty() && texts.iter().all(blank) {
        let field = object.fields()[changes[0].0].wire;
        return Err(ErrorAnswer::of_field(422, field, "must contain a character that is not white space"));
    }
    Ok(changes)
}

fn custom(world: &World, object: Object, values: &Map<String, Value>) -> Result<PatchChanges, ErrorAnswer> {
    let mut cells = Vec::new();
    for (key, value) in values {
        let field = format!("customFields.{key}");
        let Some((slot, definition)) = world.active(object, key) else {
            return Err(ErrorAnswer::of_field(422, &field, "is not an active custom field"));
        };
        if !definition.writable {
            return Err(ErrorAnswer::of_field(422, &field, "is not writable"));
        }
        let cell = cell(definition, value).map_err(|message| ErrorAnswer::of_field(422, &field, &message))?;
        if cell.is_none() && (definition.required || !definition.nullable) {
            return Err(ErrorAnswer::of_field(422, &field, "cannot be cleared"));
        }
        cells.push((slot, cell));
    }
    Ok(cells)
}

/// Parses one value of a field; `None` clears it.
pub(crate) fn cell(definition: &CustomDefinition, value: &Value) -> Result<Option<Cell>, String> {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    let data_type = definition.kind();
    let is_option = |value: &Value| definition.options.iter().any(|option| value.as_str() == Some(&option.value));
    let has_twice = |items: &[Value]| (1..items.len()).any(|n| items[..n].contains(&items[n]));
    let is_valid = match (data_type, value) {
        (_, Value::Null) => return Ok(None),
        (_, Value::String(t)) if t.contains('\0') => return Err("must not contain U+0000".to_string()),
        // Empty text and an empty multi-select are stored as cleared values (rule 6).
        (ShortText | LongText | SingleSelect, Value::String(t)) if t.is_empty() => return Ok(None),
        (MultiSelect, Value::Array(items)) if items.is_empty() => return Ok(None),
        (ShortText, Value::String(t)) => is_within(t, SHORT_TEXT)?,
        (LongText, Value::String(t)) => is_within(t, LONG_TEXT)?,
        (Integer, _) => value.is_i64(),
        // Trailing zeros are removed, because the reference does not promise to keep them.
        (Decimal, Value::String(t)) if decimal::is_within_bounds(t) && t.contains('.') => {
            return Ok(Some(Cell::Text(t.trim_end_matches('0').trim_end_matches('.').to_string().into())));
        }
        (Decimal, _) => value.as_str().is_some_and(decimal::is_within_bounds),
        (Boolean, _) => value.is_boolean(),
        (Date, _) => value.as_str().is_some_and(|t| field_value::is_date(t) && !t.starts_with("0000")),
        (DateTime, _) => value.as_str().is_some_and(|t| t.parse::<Instant>().is_ok()),
        (SingleSelect, _) => is_option(value),
        (MultiSelect, Value::Array(items)) if items.len() > MULTI_SELECT => {
            return Err("has more than 100 items".to_string());
        }
        (MultiSelect, Value::Array(items)) if has_twice(items) => return Err("has an item twice".to_string()),
        (MultiSelect, _) => value.as_array().is_some_and(|items| items.iter().all(is_option)),
        (ShortText | LongText, _) => false,
        (Unknown, _) => true,
    };
    if is_valid {
        return Ok(Cell::from_json(value, data_type == DateTime));
    }
    let wanted = match data_type {
        ShortText | LongText | Unknown => "a string",
        Integer => "a 64-bit integer",
        Decimal => "a decimal string of up to 20 integer and 10 fractional digits",
        Boolean => "true or false",
        Date => "a real date, YYYY-MM-DD",
        DateTime => "an ISO timestamp with a timezone",
        SingleSelect => "the value of an option",
        MultiSelect => "an array of the values of options",
    };
    Err(format!("must be {wanted}"))
}

fn is_within(text: &str, most: usize) -> Result<bool, String> {
    if text.chars().count() > most { Err(format!("has more than {most} characters")) } else { Ok(true) }
}
