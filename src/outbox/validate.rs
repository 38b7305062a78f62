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
use crate::model::editable::{CUSTOM_KEYS, Editable, LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::instant::Instant;
use crate::model::{decimal, field_value};

/// Fields of a contact that a body must not contain, not even unchanged.
const IDENTITY: [&str; 2] = ["email", "mobile"];

const NAMED_OPTIONS: usize = 12;

/// Converts a column value to the value for the body, if the field accepts it.
pub fn field(field: &Editable, value: &Value) -> Result<Value, String> {
    let is_select = matches!(field.data_type, Some(DataType::SingleSelect | DataType::MultiSelect));
    let why = match wire(field, value) {
        _ if value.as_str().is_some_and(|text| text.contains('\0')) => "takes no text with the character U+0000".into(),
        Some(Value::Null) if !field.clearable => "cannot be cleared: its definition requires a value".into(),
        Some(wire) => return Ok(wire),
        None if is_select => {
            let more = field.options.len().saturating_sub(NAMED_OPTIONS);
            let named = field.options[..field.options.len() - more].join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}: {named}{more}", field.accepts())
        }
        None => field.accepts(),
    };
    Err(format!("`{}` {why}", field.column))
}

fn wire(field: &Editable, value: &Value) -> Option<Value> {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    let known = |value: &str| field.options.iter().any(|option| option == value);
    let as_is = |is_valid: bool| is_valid.then(|| value.clone());
    let Some(data_type) = field.data_type else { return as_is(value.is_null() || value.is_string()) };
    match (data_type, value) {
        (Unknown, _) => None,
        (_, Value::Null) => Some(Value::Null),
        // An empty text is stored as a cleared value (*Custom values*, rule 6).
        (ShortText | LongText | SingleSelect, Value::String(text)) if text.is_empty() => Some(Value::Null),
        (ShortText, Value::String(text)) => as_is(text.chars().count() <= SHORT_TEXT),
        (LongText, Value::String(text)) => as_is(text.chars().count() <= LONG_TEXT),
        (Integer, _) => as_is(value.is_i64()),
        (Decimal, Value::String(text)) => as_is(decimal::is_within_bounds(text)),
        (Boolean, _) => value.as_i64().filter(|flag| [0, 1].contains(flag)).map(|flag| Value::Bool(flag == 1)),
        (Date, Value::String(text)) => as_is(field_value::is_date(text) && !text.starts_with("0000")),
        // An answer has to show what was sent, and the mirror could not tell a finer timestamp from another one.
        (DateTime, Value::String(text)) => {
            as_is(text.parse::<Instant>().is_ok() && Instant::canonical(text).is_ok_and(|(_, exact)| exact))
        }
        (SingleSelect, Value::String(text)) => as_is(known(text)),
        (MultiSelect, Value::String(text)) => {
            let items = field_value::multi_values(text)?;
            let is_valid = items.len() <= MULTI_SELECT
                && items.iter().collect::<BTreeSet<_>>().len() == items.len()
                && items.iter().all(|item| known(item));
            is_valid.then(|| if items.is_empty() { Value::Null } else { items.into() })
        }
        _ => None,
    }
}

pub fn body(object: Object, body: &Map<String, Value>) -> Result<(), String> {
    if let Some(name) = IDENTITY.into_iter().find(|name| object == Object::Contact && body.contains_key(*name)) {
        return Err(format!("`{name}` is read-only at the service"));
    }
    let custom = body.get("customFields").and_then(Value::as_object);
    match custom.map(Map::len) {
        Some(keys) if keys > CUSTOM_KEYS => {
            return Err(format!("an edit changes at most {CUSTOM_KEYS} custom fields at once, not {keys}"));
        }
        keys if body.is_empty() || keys == Some(0) && body.len() == 1 => {
            return Err("the edit changes nothing".into());
        }
        _ => {}
    }
    let mut texts = body.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let blank = |text: &str| text.trim().is_empty();
    match texts.clone().next() {
        Some((name, _)) if object == Object::Company && texts.all(|(_, text)| blank(text)) => {
            Err(format!("`{name}` must contain a character that is not white space"))
        }
        _ => Ok(()),
    }
}

/// The body that sets these fields to these column values.
pub fn request<'a>(
    object: Object,
    changes: impl IntoIterator<Item = (&'a Editable, &'a Value)>,
) -> Result<Map<String, Value>, String> {
    let (mut standard, mut custom) = (Map::new(), Map::new());
    for (field, value) in changes {
        let wire = self::field(field, value)?;
        let members = if field.data_type.is_some() { &mut custom } else { &mut standard };
        members.insert(field.wire.to_string(), wire);
    }
    if !custom.is_empty() {
        standard.insert("customFields".into(), custom.into());
    }
    body(object, &standard)?;
    Ok(standard)
}

/// The form that a valid value has in the column: null if cleared, in one spelling. Invalid values stay unchanged.
pub fn settled(field: &Editable, value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    match field.data_type {
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
        || match (field.data_type, &a, &b) {
            // The reference does not say whether the service keeps an empty text of a standard field or clears the field.
            (None, ..) => empty(&a) && empty(&b),
            (Some(DataType::Decimal), Value::String(x), Value::String(y)) => decimal::same_number(x, y),
            _ => false,
        }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
