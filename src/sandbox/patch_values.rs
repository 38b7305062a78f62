//! Custom values in an update, validated by the reference's table *Custom values*.
//!
//! A key that cannot be written gives a 422; so does a well-formed JSON value of the wrong type.

use serde_json::{Map, Value};

use crate::model::{DataType, Object, decimal, field_value};

use super::cell::Cell;
use super::definition::CustomDefinition;
use super::error_answer::ErrorAnswer;
use super::world::World;

const SHORT_TEXT: usize = 255;
const LONG_TEXT: usize = 10_000;
const MULTI_SELECT: usize = 100;

/// Parses the values by their definitions' indexes; `None` clears.
pub(crate) fn read(
    world: &World,
    object: Object,
    values: &Map<String, Value>,
) -> Result<Vec<(u32, Option<Cell>)>, ErrorAnswer> {
    let mut cells = Vec::new();
    for (key, value) in values {
        let field = format!("customFields.{key}");
        let Some((place, definition)) = world.active(object, key) else {
            return Err(ErrorAnswer::of_field(422, &field, "is not an active custom field"));
        };
        if !definition.writable {
            return Err(ErrorAnswer::of_field(422, &field, "is not writable"));
        }
        let cell = cell(definition, value).map_err(|message| ErrorAnswer::of_field(422, &field, &message))?;
        if cell.is_none() && (definition.required || !definition.nullable) {
            return Err(ErrorAnswer::of_field(422, &field, "cannot be cleared"));
        }
        cells.push((place, cell));
    }
    Ok(cells)
}

/// Parses one value of a field; `None` clears it.
pub(crate) fn cell(definition: &CustomDefinition, value: &Value) -> Result<Option<Cell>, String> {
    let data_type = definition.kind();
    let known = |value: &str| definition.options.iter().any(|option| option.value == value);
    let text = |text: &str| Ok(Some(Cell::Text(text.to_string().into())));
    match (data_type, value) {
        (_, Value::Null) => Ok(None),
        (_, Value::String(t)) if t.contains('\0') => Err("must not contain U+0000".to_string()),
        // Empty text and an empty multi-select are stored as cleared values (rule 6).
        (DataType::ShortText | DataType::LongText, Value::String(t)) if t.is_empty() => Ok(None),
        (DataType::ShortText, Value::String(t)) => within(t, SHORT_TEXT).and_then(text),
        (DataType::LongText, Value::String(t)) => within(t, LONG_TEXT).and_then(text),
        (DataType::Integer, Value::Number(n)) if n.is_i64() => Ok(n.as_i64().map(Cell::Int)),
        (DataType::Integer, _) => Err("must be a 64-bit integer".to_string()),
        (DataType::Decimal, Value::String(t)) if decimal::is_within_bounds(t) => text(without_trailing_zeros(t)),
        (DataType::Decimal, _) => {
            Err("must be a decimal string of up to 20 integer and 10 fractional digits".to_string())
        }
        (DataType::Boolean, Value::Bool(flag)) => Ok(Some(Cell::Bool(*flag))),
        (DataType::Boolean, _) => Err("must be true or false".to_string()),
        (DataType::Date, Value::String(t)) if field_value::is_date(t) && !t.starts_with("0000") => text(t),
        (DataType::Date, _) => Err("must be a real date, YYYY-MM-DD".to_string()),
        (DataType::DateTime, Value::String(t)) if t.parse::<crate::model::Instant>().is_ok() => {
            Ok(Cell::from_json(value, true))
        }
        (DataType::DateTime, _) => Err("must be an ISO timestamp with a timezone".to_string()),
        (DataType::SingleSelect, Value::String(t)) if t.is_empty() => Ok(None),
        (DataType::SingleSelect, Value::String(t)) if known(t) => text(t),
        (DataType::SingleSelect, _) => Err("must be the value of an option".to_string()),
        (DataType::MultiSelect, Value::Array(items)) if items.is_empty() => Ok(None),
        (DataType::MultiSelect, Value::Array(items)) if items.len() > MULTI_SELECT => {
            Err("has more than 100 items".to_string())
        }
        (DataType::MultiSelect, Value::Array(items))
            if items.iter().enumerate().any(|(place, item)| items[..place].contains(item)) =>
        {
            Err("has an item twice".to_string())
        }
        (DataType::MultiSelect, Value::Array(items)) if items.iter().all(|item| item.as_str().is_some_and(known)) => {
            Ok(Cell::from_json(value, false))
        }
        (DataType::MultiSelect, _) => Err("must be an array of the values of options".to_string()),
        (DataType::ShortText | DataType::LongText, _) => Err("must be a string".to_string()),
        (DataType::Unknown, _) => Ok(Cell::from_json(value, false)),
    }
}

/// Trailing zeros are removed, because the reference does not promise to keep them.
fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn within(text: &str, most: usize) -> Result<&str, String> {
    if text.chars().count() > most {
        return Err(format!("has more than {most} characters"));
    }
    Ok(text)
}
