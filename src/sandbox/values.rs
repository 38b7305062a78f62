//! The values that fields take, for updates and the admin interface (reference, *Resources and their fields*, *Custom
//! values*).

use serde_json::Value;

use super::definition::CustomDefinition;
use super::rules;
use super::table::{JsonSource, ValueName, custom_name, field, type_of};
use super::world::World;
use crate::model::editable::{LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::{DataType, FieldKind, Instant, Resource, decimal, field_value};

/// The name of a field, and its new value; `None` clears it.
pub(crate) type CheckedValue = (ValueName, Option<JsonSource>);

/// Checks a value of a standard field, or of `customFields.KEY`.
pub(crate) fn checked(world: &World, resource: Resource, wire: &str, value: &Value) -> Result<CheckedValue, String> {
    if value.as_str().is_some_and(|text| text.contains('\0')) {
        return Err("must not contain U+0000".to_string());
    }
    if let Some(key) = wire.strip_prefix("customFields.") {
        let definition = resource.object().and_then(|object| world.defined(object, key));
        let definition = definition.ok_or("is not a custom field")?;
        return Ok((custom_name(&definition.id), custom_value(definition, value)?));
    }
    let field = field(resource, wire).ok_or_else(|| format!("is not a field of {}", resource.path()))?;
    let (data_type, text) = (type_of(field.kind), value.as_str().map_or_else(|| value.to_string(), String::from));
    let is_string = !matches!(data_type, DataType::Boolean | DataType::Integer | DataType::Decimal);
    match field.kind {
        _ if value.is_null() => {}
        FieldKind::Value { .. } | FieldKind::Json => {}
        _ if value.is_string() != is_string => Err(format!("must be a {}", field.kind.as_str()))?,
        // Whatever its length.
        _ if data_type == DataType::ShortText => {}
        _ => rules::check(data_type, &text)?,
    }
    Ok((field.wire.into(), JsonSource::of_json(&value.to_string())))
}

/// Checks one value of a field; `None` clears it.
fn custom_value(definition: &CustomDefinition, value: &Value) -> Result<Option<JsonSource>, String> {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    let is_option = |value: &Value| definition.options.iter().any(|option| value.as_str() == Some(&option.value));
    let (text, items) = (value.as_str(), value.as_array());
    let is_text = |most: usize| match text {
        Some(text) if text.chars().count() > most => Err(format!("has more than {most} characters")),
        text => Ok(text.is_some()),
    };
    let (is_valid, wanted) = match definition.kind() {
        _ if value.is_null() => return Ok(None),
        // Empty text and an empty multi-select are stored as cleared values (rule 6).
        ShortText | LongText | SingleSelect if text == Some("") => return Ok(None),
        MultiSelect if items.is_some_and(Vec::is_empty) => return Ok(None),
        ShortText => (is_text(SHORT_TEXT)?, "a string"),
        LongText => (is_text(LONG_TEXT)?, "a string"),
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
            let items = items.map_or(&[][..], Vec::as_slice);
            if items.len() > MULTI_SELECT {
                return Err(format!("has more than {MULTI_SELECT} items"));
            }
            if (1..items.len()).any(|n| items[..n].contains(&items[n])) {
                return Err("has an item twice".to_string());
            }
            (!items.is_empty() && items.iter().all(is_option), "an array of the values of options")
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
