//! Converts the input of users and programs to the form of a column. [`validate`](super::validate) checks it.

use serde_json::Value;

use crate::model::custom::DataType;
use crate::model::editable::Editable;

#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A text, as on a command line. An empty text clears.
    Text(String),
    /// JSON, as the service writes values: `true`, `12`, `"12.50"`, `["a", "b"]`, `null`.
    Json(Value),
}

impl Given {
    /// The value in the form of the field's column; an invalid value stays text, for the check to refuse.
    pub fn column(&self, field: &Editable) -> Value {
        match (self, field.data_type) {
            (Given::Json(Value::Bool(flag)), Some(DataType::Boolean)) => Value::from(i64::from(*flag)),
            // A number is not a valid boolean, although the column contains one.
            (Given::Json(number @ Value::Number(_)), Some(DataType::Boolean)) => Value::String(number.to_string()),
            (Given::Json(Value::Array(items)), Some(DataType::MultiSelect)) => {
                Value::String(Value::from(items.clone()).to_string())
            }
            // The column contains the text of an array, but a text is not a valid value of the field.
            (Given::Json(text @ Value::String(_)), Some(DataType::MultiSelect)) => Value::from(vec![text.clone()]),
            (Given::Json(value), _) => value.clone(),
            (Given::Text(text), _) if text.is_empty() => Value::Null,
            (Given::Text(text), Some(data_type)) => typed(data_type, &field.options, text),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Object;
    use serde_json::json;

    fn custom_field(data_type: DataType) -> Editable {
        Editable {
            object: Object::Contact,
            column: "cf_x".into(),
            wire: "x".into(),
            data_type: Some(data_type),
            clearable: true,
            detail_only: data_type.detail_only(),
            options: vec!["a".into(), "b, c".into()],
        }
    }

    #[test]
    fn text_becomes_a_value_of_the_type() {
        use DataType::{Boolean, Date, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect};
        for (data_type, text, value) in [
            (ShortText, "", json!(null)),
            (MultiSelect, "", json!(null)),
            (ShortText, "12", json!("12")),
            (LongText, "[1]", json!("[1]")),
            (Decimal, "1.50", json!("1.50")),
            (Date, "2026-01-02", json!("2026-01-02")),
            (SingleSelect, "b, c", json!("b, c")),
            (Integer, "-12", json!(-12)),
            (Integer, "12.5", json!("12.5")),
            (Boolean, "1", json!(1)),
            (Boolean, "true", json!(1)),
            (Boolean, "0", json!(0)),
            (Boolean, "false", json!(0)),
            (Boolean, "yes", json!("yes")),
            (MultiSelect, r#"["a","b, c"]"#, json!(r#"["a","b, c"]"#)),
            (MultiSelect, "a", json!(r#"["a"]"#)),
            (MultiSelect, "b, c", json!(r#"["b, c"]"#)),
            (MultiSelect, "a, d", json!(r#"["a","d"]"#)),
        ] {
            assert_eq!(Given::Text(text.into()).column(&custom_field(data_type)), value, "{data_type:?} {text}");
        }
        let standard = Editable::standard(Object::Contact, "position").unwrap();
        assert_eq!(Given::Text(String::new()).column(&standard), json!(null));
        assert_eq!(Given::Text("true".into()).column(&standard), json!("true"));
    }

    #[test]
    fn json_becomes_a_value_in_the_form_of_the_column() {
        use DataType::{Boolean, Integer, MultiSelect, ShortText};
        for (data_type, given, value) in [
            (Boolean, json!(true), json!(1)),
            (Boolean, json!(false), json!(0)),
            (Boolean, json!(1), json!("1")),
            (MultiSelect, json!(["a"]), json!(r#"["a"]"#)),
            (MultiSelect, json!("a"), json!(["a"])),
            (MultiSelect, json!(null), json!(null)),
            (Integer, json!(12), json!(12)),
            (Integer, json!(true), json!(true)),
            (ShortText, json!(["a"]), json!(["a"])),
        ] {
            assert_eq!(Given::Json(given.clone()).column(&custom_field(data_type)), value, "{data_type:?} {given}");
        }
    }
}
