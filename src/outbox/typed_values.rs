//! Converts the input of users and programs to the form of a column. [`check`](super::check) validates it.

use serde_json::Value;

use crate::model::custom::DataType;
use crate::model::editable::{EditTarget, Editable};

/// A given value.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A text, as on a command line. An empty text clears.
    Text(String),
    /// JSON, as the service writes values: `true`, `12`, `"12.50"`, `["a", "b"]`, `null`.
    Json(Value),
    /// A value in the form of the column.
    Column(Value),
}

impl Given {
    /// The value in the form of the field's column; an invalid value stays text, for the check to refuse.
    pub fn column(&self, field: &Editable) -> Value {
        let data_type = match &field.target {
            EditTarget::Standard(_) => None,
            EditTarget::Custom(custom) => Some((custom.data_type, &custom.options)),
        };
        match (self, data_type) {
            (Given::Json(Value::Bool(flag)), Some((DataType::Boolean, _))) => Value::from(i64::from(*flag)),
            // A number is not a valid boolean, although the column contains one.
            (Given::Json(number @ Value::Number(_)), Some((DataType::Boolean, _))) => Value::String(number.to_string()),
            (Given::Json(Value::Array(items)), Some((DataType::MultiSelect, _))) => {
                Value::String(Value::from(items.clone()).to_string())
            }
            // The column contains the text of an array, but a text is not a valid value of the field.
            (Given::Json(text @ Value::String(_)), Some((DataType::MultiSelect, _))) => Value::from(vec![text.clone()]),
            (Given::Json(value) | Given::Column(value), _) => value.clone(),
            (Given::Text(text), _) if text.is_empty() => Value::Null,
            (Given::Text(text), Some((data_type, options))) => typed(data_type, options, text),
            (Given::Text(text), None) => Value::from(text.as_str()),
        }
    }
}

fn typed(data_type: DataType, options: &[String], text: &str) -> Value {
    let as_is = || Value::from(text);
    match data_type {
        DataType::Integer => text.parse::<i64>().map_or_else(|_| as_is(), Value::from),
        DataType::Boolean => match text {
            "1" | "true" => Value::from(1),
            "0" | "false" => Value::from(0),
            _ => as_is(),
        },
        DataType::MultiSelect if text.starts_with('[') => as_is(),
        // An option's value may contain a comma.
        DataType::MultiSelect if options.iter().any(|option| option == text) => {
            Value::String(Value::from(vec![text]).to_string())
        }
        DataType::MultiSelect => {
            let items: Vec<&str> = text.split(',').map(str::trim).collect();
            Value::String(Value::from(items).to_string())
        }
        _ => as_is(),
    }
}
