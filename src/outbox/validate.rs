//! Validates edits by every limit of the reference (*Custom values*, *Limits*, the PATCH sections). Pure.
//!
//! An edit is validated twice: before it is queued, so that errors are reported at once, and before it is sent, because
//! a definition may have changed meanwhile, and the triggers validate an edit made with SQL only partly.
//!
//! Input values have the form of the mirror's columns: booleans as 0 and 1, decimals as text, a multi-select as the
//! text of its JSON array, a cleared value as null. Output values have the form of a request's body.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::catalogue::Object;
use crate::model::custom::DataType;
use crate::model::editable::{CUSTOM_KEYS, CustomTarget, EditTarget, Editable, LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::instant::Instant;
use crate::model::{decimal, field_value};

/// Fields of a contact that a body must not contain, not even unchanged.
const IDENTITY: [&str; 2] = ["email", "mobile"];

/// Why an edit cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EditRefusal(String);

/// The first options, as many as fit on a line.
fn list(options: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = options.iter().take(SHOWN).map(String::as_str).collect();
    match options.len().checked_sub(SHOWN) {
        _ if options.is_empty() => "none".into(),
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Converts a column value to the value for the body, if the field accepts it.
pub fn field(field: &Editable, value: &Value) -> Result<Value, EditRefusal> {
    let wire = match &field.target {
        _ if value.as_str().is_some_and(|text| text.contains('\0')) => {
            Err("takes no text with the character U+0000".into())
        }
        EditTarget::Standard(_) => match value {
            Value::Null | Value::String(_) => Ok(value.clone()),
            _ => Err("takes text".into()),
        },
        EditTarget::Custom(custom) => self::custom(custom, value),
    };
    wire.map_err(|why| EditRefusal(format!("`{}` {why}", field.column)))
}

fn custom(custom: &CustomTarget, value: &Value) -> Result<Value, String> {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    let known = |value: &str| custom.options.iter().any(|option| option == value);
    let as_is = |is_valid: bool| is_valid.then(|| value.clone());
    let wire = match (custom.data_type, value) {
        (Unknown, _) => None,
        (_, Value::Null) => Some(Value::Null),
        // An empty text is stored as a cleared value (*Custom values*, rule 6).
        (ShortText | LongText | SingleSelect, Value::String(text)) if text.is_empty() => Some(Value::Null),
        (ShortText, Value::String(text)) => as_is(is_within(text, SHORT_TEXT)?),
        (LongText, Value::String(text)) => as_is(is_within(text, LONG_TEXT)?),
        (Integer, _) => as_is(value.is_i64()),
        (Decimal, Value::String(text)) => as_is(decimal::is_within_bounds(text)),
        (Boolean, _) => value.as_i64().filter(|flag| [0, 1].contains(flag)).map(|flag| Value::Bool(flag == 1)),
        (Date, Value::String(text)) => as_is(field_value::is_date(text) && !text.starts_with("0000")),
        // An answer has to show what was sent, and the mirror could not tell a finer timestamp from another one.
        (DateTime, Value::String(text)) => {
            as_is(text.parse::<Instant>().is_ok() && Instant::canonical(text).is_ok_and(|(_, exact)| exact))
        }
        (SingleSelect, Value::String(text)) => as_is(known(text)),
        (MultiSelect, Value::String(text)) => match field_value::multi_values(text) {
            Some(items) if items.is_empty() => Some(Value::Null),
            Some(items) if items.len() > MULTI_SELECT => {
                return Err(format!("takes at most {MULTI_SELECT} options at once, not {}", items.len()));
            }
            Some(items) if items.iter().collect::<BTreeSet<_>>().len() < items.len() => {
                return Err("takes each option once".into());
            }
            items => items.filter(|items| items.iter().all(|item| known(item))).map(Value::from),
        },
        _ => None,
    };
    match wire.ok_or_else(|| wanted(custom))? {
        Value::Null if !custom.clearable => Err("cannot be cleared: its definition requires a value".into()),
        wire => Ok(wire),
    }
}

/// What a field accepts, phrased to follow its name.
fn wanted(custom: &CustomTarget) -> String {
    match custom.data_type {
        DataType::ShortText | DataType::LongText => "takes text".into(),
        DataType::Integer => "takes a whole number of 64 bits".into(),
        DataType::Decimal => "takes a decimal of at most 20 digits before the point and 10 after it".into(),
        DataType::Boolean => "takes 1 (true) or 0 (false)".into(),
        DataType::Date => "takes a real date, YYYY-MM-DD, of the years 0001 to 9999".into(),
        DataType::DateTime => "takes a timestamp with a time zone, such as 2026-01-02T03:04:05Z, of the years 0001 to \
            9999 and to the microsecond at most"
            .into(),
        DataType::SingleSelect => format!("takes one of its options: {}", list(&custom.options)),
        DataType::MultiSelect => format!("takes a list of its options: {}", list(&custom.options)),
        DataType::Unknown => "has a type that crm-mirror does not support".into(),
    }
}

fn is_within(text: &str, most: usize) -> Result<bool, String> {
    let are = text.chars().count();
    if are > most { Err(format!("takes at most {most} characters, not {are}")) } else { Ok(true) }
}

pub fn body(object: Object, body: &Map<String, Value>) -> Result<(), EditRefusal> {
    if let Some(name) = IDENTITY.into_iter().find(|name| object == Object::Contact && body.contains_key(*name)) {
        return Err(EditRefusal(format!("`{name}` is read-only at the service")));
    }
    let custom = body.get("customFields").and_then(Value::as_object);
    match custom.map(Map::len) {
        Some(keys) if keys > CUSTOM_KEYS => {
            let why = format!("an edit changes at most {CUSTOM_KEYS} custom fields at once, not {keys}");
            return Err(EditRefusal(why));
        }
        keys if body.is_empty() || keys == Some(0) && body.len() == 1 => {
            return Err(EditRefusal("the edit changes nothing".into()));
        }
        _ => {}
    }
    let mut texts = body.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let blank = |text: &str| text.trim().is_empty();
    match texts.clone().next() {
        Some((name, _)) if object == Object::Company && texts.all(|(_, text)| blank(text)) => {
            Err(EditRefusal(format!("`{name}` must contain a character that is not white space")))
        }
        _ => Ok(()),
    }
}

/// The body that sets these fields to these column values.
pub fn request<'a>(
    object: Object,
    changes: impl IntoIterator<Item = (&'a Editable, &'a Value)>,
) -> Result<Map<String, Value>, EditRefusal> {
    let (mut standard, mut custom) = (Map::new(), Map::new());
    for (field, value) in changes {
        let wire = self::field(field, value)?;
        let members = if field.key().is_some() { &mut custom } else { &mut standard };
        members.insert(field.wire().into(), wire);
    }
    if !custom.is_empty() {
        standard.insert("customFields".into(), custom.into());
    }
    body(object, &standard)?;
    Ok(standard)
}

/// The form that a valid value will have in the column: cleared values are null, timestamps and lists have one
/// spelling. Invalid values are returned unchanged.
pub fn settled(field: &Editable, value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    match field.data_type() {
        Some(DataType::ShortText | DataType::LongText | DataType::SingleSelect) if text.is_empty() => Value::Null,
        Some(DataType::MultiSelect) => match field_value::multi_values(text) {
            Some(items) if items.is_empty() => Value::Null,
            Some(items) => Value::String(Value::from(items).to_string()),
            None => value.clone(),
        },
        Some(DataType::DateTime) => match Instant::canonical(text) {
            Ok((canonical, true)) => Value::String(canonical.into()),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// Whether two values of a field's column are equivalent: decimals as numbers, timestamps as instants, and for a standard
/// field null and an empty text.
pub fn same(field: &Editable, a: &Value, b: &Value) -> bool {
    let (a, b) = (settled(field, a), settled(field, b));
    let empty = |value: &Value| value.is_null() || value.as_str() == Some("");
    a == b
        || match (field.data_type(), &a, &b) {
            // The reference does not say whether the service keeps an empty text of a standard field or clears the field.
            (None, ..) => empty(&a) && empty(&b),
            (Some(DataType::Decimal), Value::String(x), Value::String(y)) => decimal::same_number(x, y),
            _ => false,
        }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
