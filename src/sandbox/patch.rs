//! Updates (reference, *PATCH /contacts/{id}*, *PATCH /companies/{id}*), with the checks in the order of the service:
//! record, If-Match, Idempotency-Key, replay, body, stale version, values. Custom values are validated by the reference's
//! table *Custom values*: a key that cannot be written gives a 422, and so does a value of the wrong type.
//!
//! # Invariants
//! - A refused update changes nothing.
//! - A stored answer is replayed only for the identical request; failures are not stored, so they can be retried.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::definition::CustomDefinition;
use super::exchange::{Answer, IncomingRequest, REPLAYED};
use super::render::{self, RecordProjection};
use super::table::{JsonSource, ValueName, custom_name, field};
use super::world::World;
use crate::model::editable::{CUSTOM_KEYS, LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::{DataType, Instant, Object, decimal, field_value};

/// How long a stored answer is kept (reference, *Limits*).
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The name of a field, and its new value; `None` clears it.
type CheckedValue = (ValueName, Option<JsonSource>);

pub(crate) type Replays = BTreeMap<String, StoredReplay>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredReplay {
    at: Instant,
    /// The path, the version and the body of the request.
    asked: (String, String, Vec<u8>),
    answer: String,
    etag: Option<String>,
}

impl StoredReplay {
    fn answer(&self, replayed: bool) -> Answer {
        Answer::record(&self.answer, self.etag.as_ref()).with(REPLAYED, Some(replayed))
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
) -> Result<Answer, Answer> {
    if let Some((name, _)) = request.asked.query.first() {
        return Err(Answer::of_field(400, name, "is not a parameter of an update"));
    }
    let (now, etag) = (world.now, world.etag(object, id));
    let (if_match, key) = (request.header("if-match"), request.header("idempotency-key"));
    let missing = || Answer::refused(404, format!("There is no such {object}"));
    // A stored answer is kept even if its record is removed.
    if etag.is_none() && !key.as_ref().is_some_and(|key| replays.contains_key(&**key)) {
        return Err(missing());
    }
    let if_match = if_match.ok_or_else(|| Answer::refused(428, "The If-Match header is required"))?.into_owned();
    let key = match key {
        Some(key) if (1..=255).contains(&key.len()) => key.into_owned(),
        Some(_) => return Err(Answer::of_field(400, "Idempotency-Key", "must be 1 to 255 characters")),
        None => return Err(Answer::of_field(400, "Idempotency-Key", "is required")),
    };
    replays.retain(|_, stored| now.since(stored.at) < RETENTION);
    let asked = (request.asked.path.clone(), if_match, request.body.clone());
    if let Some(stored) = replays.get(&key) {
        if stored.asked != asked {
            return Err(Answer::refused(409, "The Idempotency-Key was used with a different request"));
        }
        return Ok(stored.answer(true));
    }
    let etag = etag.ok_or_else(missing)?;
    let changes = changes(world, custom, object, &body(request)?)?;
    if etag != asked.1 {
        let details = json!({"details": "If-Match does not match the current etag"});
        return Err(Answer::error(412, "The record has changed since", &details));
    }
    let answer = carry_out(changes, world, object, id);
    let stored = StoredReplay { at: now, asked, answer, etag: world.etag(object, id) };
    let answer = stored.answer(false);
    replays.insert(key, stored);
    Ok(answer)
}

fn changes(
    world: &World,
    is_editable: bool,
    object: Object,
    body: &Map<String, Value>,
) -> Result<Vec<CheckedValue>, Answer> {
    let mut changes = standard(object, body)?;
    let Some(values) = body.get("customFields") else { return Ok(changes) };
    let values = values.as_object().ok_or_else(|| Answer::of_field(400, "customFields", "must be an object"))?;
    if values.len() > CUSTOM_KEYS {
        return Err(Answer::of_field(400, "customFields", "has more than 100 keys"));
    }
    if !is_editable {
        return Err(Answer::refused(403, "The plan does not allow custom fields to be edited"));
    }
    for (key, value) in values {
        changes.push(custom(world, object, key, value)?);
    }
    Ok(changes)
}

fn carry_out(changes: Vec<CheckedValue>, world: &mut World, object: Object, id: &str) -> String {
    let resource = object.resource();
    let submitted: Vec<ValueName> = changes.iter().map(|(name, _)| name.clone()).collect();
    let now = JsonSource::of_text(&world.tick().to_wire());
    world.change(resource, id, |world, record| {
        world.bump_etag(record);
        if submitted.contains(&"notes".into()) {
            record.set("notesAt", Some(now.clone()));
        }
        record.set("updatedAt", Some(now));
        for (name, value) in changes {
            record.set(name, value);
        }
    });
    let shown = RecordProjection::Confirmation(&submitted);
    let record = world.table(resource).get(id);
    record.map_or_else(String::new, |record| render::record(world, resource, record, shown, Vec::new()))
}

fn body(request: &IncomingRequest) -> Result<Map<String, Value>, Answer> {
    let content_type = request.header("content-type").unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Answer::of_field(400, "Content-Type", "must be application/json"));
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(body)) if body.is_empty() => Err(Answer::refused(400, "The body names nothing to update")),
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(Answer::refused(400, "The body must be a JSON object")),
        Err(_) => Err(Answer::refused(400, "The body is not valid JSON")),
    }
}

fn standard(object: Object, body: &Map<String, Value>) -> Result<Vec<CheckedValue>, Answer> {
    let identity = |wire: &&str| object == Object::Contact && body.contains_key(*wire);
    if let Some(wire) = ["email", "mobile"].iter().find(|wire| identity(wire)) {
        let message = format!("CONTACT_IDENTITY_READ_ONLY: {wire} cannot be changed here");
        return Err(Answer::error(422, &message, &json!({"details": "CONTACT_IDENTITY_READ_ONLY"})));
    }
    let refused = |wire: &str, why: &str| Answer::of_field(400, wire, why);
    let mut changes: Vec<CheckedValue> = Vec::new();
    for (wire, value) in body.iter().filter(|(wire, _)| *wire != "customFields") {
        let writable = field(object, wire).filter(|field| field.writable);
        let writable = writable.ok_or_else(|| refused(wire, "cannot be updated"))?;
        if !value.is_null() && value.as_str().is_none_or(|text| text.contains('\0')) {
            return Err(refused(wire, "must be a text without U+0000"));
        }
        changes.push((writable.wire.into(), JsonSource::of_json(&value.to_string())));
    }
    let mut texts = changes.iter().filter_map(|(_, value)| value.as_ref()).peekable();
    let is_blank = |value: &JsonSource| value.text().is_none_or(|text| text.trim().is_empty());
    if object == Object::Company && texts.peek().is_some() && texts.all(is_blank) {
        return Err(Answer::of_field(422, &changes[0].0, "must contain a character that is not white space"));
    }
    Ok(changes)
}

fn custom(world: &World, object: Object, key: &str, value: &Value) -> Result<CheckedValue, Answer> {
    let wire = format!("customFields.{key}");
    let refused = |why: &str| Answer::of_field(422, &wire, why);
    let definition = world.active(object, key).ok_or_else(|| refused("is not an active custom field"))?;
    if !definition.writable {
        return Err(refused("is not writable"));
    }
    let value = custom_value(definition, value).map_err(|why| refused(&why))?;
    if value.is_none() && (definition.required || !definition.nullable) {
        return Err(refused("cannot be cleared"));
    }
    Ok((custom_name(&definition.id), value))
}

/// Checks one value of a field (reference, *Custom values*); `None` clears it.
fn custom_value(definition: &CustomDefinition, value: &Value) -> Result<Option<JsonSource>, String> {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    let is_option = |value: &Value| definition.options.iter().any(|option| value.as_str() == Some(&option.value));
    let (text, items) = (value.as_str(), value.as_array().map_or(&[][..], Vec::as_slice));
    let is_text = |most: usize| text.is_some_and(|text| text.chars().count() <= most && !text.contains('\0'));
    let (is_valid, wanted) = match definition.kind() {
        _ if value.is_null() => return Ok(None),
        // Empty text and an empty multi-select are stored as cleared values (rule 6).
        ShortText | LongText | SingleSelect if text == Some("") => return Ok(None),
        MultiSelect if value.is_array() && items.is_empty() => return Ok(None),
        ShortText => (is_text(SHORT_TEXT), "a string of up to 255 characters, without U+0000"),
        LongText => (is_text(LONG_TEXT), "a string of up to 10,000 characters, without U+0000"),
        Integer => (value.is_i64(), "a 64-bit integer"),
        Decimal => (
            text.is_some_and(decimal::is_within_bounds),
            "a decimal string of up to 20 integer and 10 fractional digits",
        ),
        Boolean => (value.is_boolean(), "true or false"),
        Date => {
            let is_date = |text: &str| field_value::is_date(text) && !text.starts_with("0000");
            (text.is_some_and(is_date), "a real date, YYYY-MM-DD")
        }
        DateTime => (text.is_some_and(|text| text.parse::<Instant>().is_ok()), "an ISO timestamp with a timezone"),
        SingleSelect => (is_option(value), "the value of an option"),
        MultiSelect => {
            let are_different = !(1..items.len()).any(|n| items[..n].contains(&items[n]));
            let are_options = (1..=MULTI_SELECT).contains(&items.len()) && items.iter().all(is_option);
            (are_options && are_different, "an array of up to 100 different values of options")
        }
        Unknown => (true, ""),
    };
    if !is_valid {
        return Err(format!("must be {wanted}"));
    }
    // Trailing zeros are removed, because the reference does not promise to keep them.
    Ok(match text.filter(|text| definition.kind() == Decimal && text.contains('.')) {
        Some(text) => Some(JsonSource::of_text(text.trim_end_matches('0').trim_end_matches('.'))),
        None => JsonSource::of_json(&value.to_string()),
    })
}
