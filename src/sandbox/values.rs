//! The values of custom fields (reference, *Custom values*).

use serde_json::Value;

use super::definition::CustomDefinition;
use super::table::JsonSource;
use crate::model::editable::{LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::{DataType, Instant, decimal, field_value};

/// Checks one value of a field; `None` clears it.
pub(crate) fn custom_value(definition: &CustomDefinition, value: &Value) -> Result<Option<JsonSource>, String> {
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
