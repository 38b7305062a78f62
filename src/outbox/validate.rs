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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    #[error("`{column}` {why}")]
    Value { column: Box<str>, why: Accepts },
    #[error("the edit changes nothing")]
    Nothing,
    #[error("an edit changes at most {CUSTOM_KEYS} custom fields at once, not {0}")]
    TooManyKeys(usize),
    /// The primary e-mail address or mobile number, which no update may contain.
    #[error("`{0}` is read-only at the service")]
    Identity(&'static str),
    /// An update of a company whose texts are all blank.
    #[error("`{0}` must contain a character that is not white space")]
    Blank(Box<str>),
}

/// What a field accepts, phrased to follow its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Accepts {
    #[error("takes text")]
    Text,
    #[error("takes at most {most} characters, not {are}")]
    Length { most: usize, are: usize },
    #[error("takes no text with the character U+0000")]
    Nul,
    #[error("takes a whole number of 64 bits")]
    Integer,
    #[error("takes a decimal of at most 20 digits before the point and 10 after it")]
    Decimal,
    #[error("takes 1 (true) or 0 (false)")]
    Boolean,
    #[error("takes a real date, YYYY-MM-DD, of the years 0001 to 9999")]
    Date,
    #[error(
        "takes a timestamp with a time zone, such as 2026-01-02T03:04:05Z, of the years 0001 to 9999 and to the microsecond at most"
    )]
    DateTime,
    #[error("takes one of its options: {}", list(.0))]
    Option(Vec<String>),
    #[error("takes a list of its options: {}", list(.0))]
    Options(Vec<String>),
    #[error("takes at most {MULTI_SELECT} options at once, not {0}")]
    TooMany(usize),
    #[error("takes each option once")]
    Twice,
    #[error("cannot be cleared: its definition requires a value")]
    Required,
    #[error("has a type that crm-mirror does not support")]
    UnknownType,
}

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
        _ if value.as_str().is_some_and(|text| text.contains('\0')) => Err(Accepts::Nul),
        EditTarget::Standard(_) => match value {
            Value::Null | Value::String(_) => Ok(value.clone()),
            _ => Err(Accepts::Text),
        },
        EditTarget::Custom(custom) => self::custom(custom, value),
    };
    wire.map_err(|why| EditRefusal::Value { column: field.column.clone(), why })
}

fn custom(custom: &CustomTarget, value: &Value) -> Result<Value, Accepts> {
    let known = |value: &str| custom.options.iter().any(|option| option == value);
    let options = || custom.options.clone();
    let wire = match (custom.data_type, value) {
        (DataType::Unknown, _) => Err(Accepts::UnknownType),
        (_, Value::Null) => Ok(Value::Null),
        (DataType::ShortText, Value::String(text)) => within(text, SHORT_TEXT),
        (DataType::LongText, Value::String(text)) => within(text, LONG_TEXT),
        (DataType::ShortText | DataType::LongText, _) => Err(Accepts::Text),
        (DataType::Integer, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
        (DataType::Integer, _) => Err(Accepts::Integer),
        (DataType::Decimal, Value::String(text)) if decimal::is_within_bounds(text) => Ok(value.clone()),
        (DataType::Decimal, _) => Err(Accepts::Decimal),
        (DataType::Boolean, value) => match value.as_i64() {
            Some(0) => Ok(Value::Bool(false)),
            Some(1) => Ok(Value::Bool(true)),
            _ => Err(Accepts::Boolean),
        },
        (DataType::Date, Value::String(text)) if field_value::is_date(text) && !text.starts_with("0000") => {
            Ok(value.clone())
        }
        (DataType::Date, _) => Err(Accepts::Date),
        // An answer has to show what was sent, and the mirror could not tell a finer timestamp from another one.
        (DataType::DateTime, Value::String(text))
            if text.parse::<Instant>().is_ok() && Instant::canonical(text).is_ok_and(|(_, exact)| exact) =>
        {
            Ok(value.clone())
        }
        (DataType::DateTime, _) => Err(Accepts::DateTime),
        (DataType::SingleSelect, Value::String(text)) if text.is_empty() => Ok(Value::Null),
        (DataType::SingleSelect, Value::String(text)) if known(text) => Ok(value.clone()),
        (DataType::SingleSelect, _) => Err(Accepts::Option(options())),
        (DataType::MultiSelect, Value::String(text)) => match field_value::multi_values(text) {
            Some(items) if items.is_empty() => Ok(Value::Null),
            Some(items) if items.len() > MULTI_SELECT => Err(Accepts::TooMany(items.len())),
            Some(items) if items.iter().collect::<BTreeSet<_>>().len() < items.len() => Err(Accepts::Twice),
            Some(items) if items.iter().all(|item| known(item)) => Ok(Value::from(items)),
            _ => Err(Accepts::Options(options())),
        },
        (DataType::MultiSelect, _) => Err(Accepts::Options(options())),
    }?;
    if wire.is_null() && !custom.clearable {
        return Err(Accepts::Required);
    }
    Ok(wire)
}

/// A text of a custom field; an empty text is stored as a cleared value (*Custom values*, rule 6).
fn within(text: &str, most: usize) -> Result<Value, Accepts> {
    match text.chars().count() {
        0 => Ok(Value::Null),
        are if are > most => Err(Accepts::Length { most, are }),
        _ => Ok(Value::from(text)),
    }
}

pub fn body(object: Object, body: &Map<String, Value>) -> Result<(), EditRefusal> {
    if let Some(name) = IDENTITY.into_iter().find(|name| object == Object::Contact && body.contains_key(*name)) {
        return Err(EditRefusal::Identity(name));
    }
    let custom = body.get("customFields").and_then(Value::as_object);
    match custom.map(Map::len) {
        Some(keys) if keys > CUSTOM_KEYS => return Err(EditRefusal::TooManyKeys(keys)),
        keys if body.is_empty() || keys == Some(0) && body.len() == 1 => return Err(EditRefusal::Nothing),
        _ => {}
    }
    let mut texts = body.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let blank = |text: &str| text.trim().is_empty();
    match texts.clone().next() {
        Some((name, _)) if object == Object::Company && texts.all(|(_, text)| blank(text)) => {
            Err(EditRefusal::Blank(name.as_str().into()))
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
