//! What the fields accept, and what a body may contain.

use serde_json::json;

use super::*;

fn custom_field(data_type: DataType) -> Editable {
    Editable {
        object: Object::Contact,
        column: "cf_x".into(),
        wire: "x".into(),
        data_type: Some(data_type),
        clearable: true,
        detail_only: data_type.detail_only(),
        options: vec!["a".into(), "b".into()],
    }
}

fn standard() -> Editable {
    Editable::standard(Object::Contact, "position").unwrap()
}

/// The value for the body, or what the refusal says about the field.
fn accepted(field: &Editable, value: &Value) -> Result<Value, String> {
    super::field(field, value).map_err(|refusal| {
        let text = refusal.to_string();
        text.strip_prefix(&format!("`{}` ", field.column)).unwrap().to_string()
    })
}

#[test]
fn standard_field_takes_text_or_nothing() {
    for value in [json!("x"), json!(""), json!(null)] {
        assert_eq!(accepted(&standard(), &value), Ok(value.clone()));
    }
    for value in [json!(1), json!(true), json!(["x"])] {
        assert_eq!(
            accepted(&standard(), &value),
            Err("takes text without the character U+0000".to_string()),
            "{value}"
        );
    }
}

const MULTI: &str = "takes a JSON array of at most 100 different values of its options, see select_labels: a, b";
const DATE: &str = "takes a real date, YYYY-MM-DD, of the years 0001 to 9999";
const TIMESTAMP: &str = "takes a timestamp with a time zone, such as 2026-01-02T03:04:05Z, of the years 0001 to 9999 and to \
    the microsecond at most";

#[test]
fn custom_field_takes_the_values_of_its_type() {
    use DataType::{
        Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect, Unknown,
    };
    for (data_type, value, expected) in [
        (Unknown, json!(null), Err("takes no value, because its type is unknown")),
        (ShortText, json!(null), Ok(json!(null))),
        (ShortText, json!(""), Ok(json!(null))),
        (ShortText, json!("ä"), Ok(json!("ä"))),
        (LongText, json!(1), Err("takes text of at most 10000 characters")),
        (Integer, json!(i64::MIN), Ok(json!(i64::MIN))),
        (Integer, json!(u64::MAX), Err("takes a whole number of 64 bits")),
        (Integer, json!(1.5), Err("takes a whole number of 64 bits")),
        (Integer, json!("1"), Err("takes a whole number of 64 bits")),
        (Decimal, json!("1.50"), Ok(json!("1.50"))),
        (
            Decimal,
            json!("1.12345678901"),
            Err("takes a decimal as text, at most 20 digits before the point and 10 after it"),
        ),
        (Boolean, json!(0), Ok(json!(false))),
        (Boolean, json!(1), Ok(json!(true))),
        (Boolean, json!(2), Err("takes 0 (false) or 1 (true)")),
        (Boolean, json!("1"), Err("takes 0 (false) or 1 (true)")),
        (Date, json!("2024-02-29"), Ok(json!("2024-02-29"))),
        (Date, json!("2023-02-29"), Err(DATE)),
        (DateTime, json!("2026-01-02T03:04:05+01:00"), Ok(json!("2026-01-02T03:04:05+01:00"))),
        (DateTime, json!("2026-01-02T03:04:05"), Err(TIMESTAMP)),
        (SingleSelect, json!("a"), Ok(json!("a"))),
        (SingleSelect, json!(""), Ok(json!(null))),
        (SingleSelect, json!("c"), Err("takes the value of one of its options, see select_labels: a, b")),
        (MultiSelect, json!("[]"), Ok(json!(null))),
        (MultiSelect, json!("[\"a\", \"b\"]"), Ok(json!(["a", "b"]))),
        (MultiSelect, json!("[\"a\", \"c\"]"), Err(MULTI)),
        (MultiSelect, json!("a"), Err(MULTI)),
        (MultiSelect, json!("[\"a\", \"b\", \"a\"]"), Err(MULTI)),
        (MultiSelect, json!("[]\0"), Err("takes no text with the character U+0000")),
        (Date, json!("0000-01-01"), Err(DATE)),
        (Date, json!("0001-01-01"), Ok(json!("0001-01-01"))),
        (DateTime, json!("0000-01-01T00:00:00Z"), Err(TIMESTAMP)),
        (DateTime, json!("0001-01-01T00:00:00+01:00"), Err(TIMESTAMP)),
        (DateTime, json!("2026-01-02T03:04:05Z\0"), Err("takes no text with the character U+0000")),
        // The mirror could not tell it from another value, in an answer that has to show it.
        (DateTime, json!("2026-01-02T03:04:05.1234569Z"), Err(TIMESTAMP)),
        (DateTime, json!("2026-01-02T03:04:60+01:00"), Err(TIMESTAMP)),
        (DateTime, json!("2026-01-02T03:04:05.1234560Z"), Ok(json!("2026-01-02T03:04:05.1234560Z"))),
    ] {
        assert_eq!(accepted(&custom_field(data_type), &value), expected.map_err(String::from), "{data_type:?} {value}");
    }
}

#[test]
fn limits_of_custom_values_are_those_of_the_reference() {
    for (data_type, most) in [(DataType::ShortText, SHORT_TEXT), (DataType::LongText, LONG_TEXT)] {
        let text = |characters: usize| json!("ä".repeat(characters));
        assert_eq!(accepted(&custom_field(data_type), &text(most)), Ok(text(most)));
        let refused = format!("takes text of at most {most} characters");
        assert_eq!(accepted(&custom_field(data_type), &text(most + 1)), Err(refused));
    }
    let names: Vec<String> = (0..MULTI_SELECT + 2).map(|n| n.to_string()).collect();
    let several = |count: usize| json!(json!(names[..count]).to_string());
    let mut field = custom_field(DataType::MultiSelect);
    field.options.clone_from(&names);
    assert_eq!(accepted(&field, &several(MULTI_SELECT)), Ok(json!(names[..MULTI_SELECT])));
    for count in [MULTI_SELECT + 1, MULTI_SELECT + 2] {
        let refused = accepted(&field, &several(count)).unwrap_err();
        assert!(refused.starts_with("takes a JSON array of at most 100 different values"), "{refused}");
    }
}

#[test]
fn required_value_cannot_be_cleared() {
    for (data_type, cleared, value) in [
        (DataType::ShortText, json!(""), json!("x")),
        (DataType::Integer, json!(null), json!(1)),
        (DataType::SingleSelect, json!(""), json!("a")),
    ] {
        let mut field = custom_field(data_type);
        field.clearable = false;
        assert_eq!(
            accepted(&field, &cleared),
            Err("cannot be cleared: its definition requires a value".to_string()),
            "{data_type:?}"
        );
        assert_eq!(accepted(&field, &value), Ok(value), "{data_type:?}");
    }
}

#[test]
fn refusal_shows_the_options() {
    let options = |count: usize| {
        let mut field = custom_field(DataType::SingleSelect);
        field.options = (1..=count).map(|n| n.to_string()).collect();
        accepted(&field, &json!("x")).unwrap_err()
    };
    assert_eq!(options(1), "takes the value of one of its options, see select_labels: 1");
    assert_eq!(options(3), "takes the value of one of its options, see select_labels: 1, 2, 3");
    let all = "takes the value of one of its options, see select_labels: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12";
    assert_eq!(options(12), all);
    assert_eq!(options(20_000), format!("{all} and 19988 more"));
}

#[test]
fn body_is_checked_as_a_whole() {
    let keys =
        |count: usize| json!({ "customFields": (0..count).map(|n| (n.to_string(), json!(n))).collect::<Map<_, _>>() });
    for (object, body, expected) in [
        (Object::Contact, json!({}), Err("the edit changes nothing")),
        (Object::Contact, json!({ "customFields": {} }), Err("the edit changes nothing")),
        (Object::Contact, json!({ "customFields": {}, "position": "x" }), Ok(())),
        (Object::Contact, json!({ "position": null }), Ok(())),
        (Object::Contact, keys(CUSTOM_KEYS), Ok(())),
        (Object::Contact, keys(CUSTOM_KEYS + 1), Err("an edit changes at most 100 custom fields at once, not 101")),
        (Object::Contact, json!({ "email": "a@b.c", "position": "x" }), Err("`email` is read-only at the service")),
        (Object::Contact, json!({ "mobile": null }), Err("`mobile` is read-only at the service")),
        (Object::Company, json!({ "email": "a@b.c" }), Ok(())),
        (Object::Contact, json!({ "position": " " }), Ok(())),
        (Object::Company, json!({ "name": "x" }), Ok(())),
        (Object::Company, json!({ "name": " " }), Err("`name` must contain a character that is not white space")),
        (
            Object::Company,
            json!({ "name": " ", "website": "" }),
            Err("`name` must contain a character that is not white space"),
        ),
        (Object::Company, json!({ "name": " ", "website": "x" }), Ok(())),
        (Object::Company, json!({ "name": "x", "website": " " }), Ok(())),
        (Object::Company, json!({ "name": null, "customFields": { "x": "" } }), Ok(())),
    ] {
        let checked = super::body(object, body.as_object().unwrap()).map_err(|refusal| refusal.to_string());
        assert_eq!(checked, expected.map_err(String::from), "{body}");
    }
}

#[test]
fn values_settle_in_the_form_of_the_column() {
    for (data_type, value, expected) in [
        (DataType::ShortText, json!(""), json!(null)),
        (DataType::LongText, json!("x"), json!("x")),
        (DataType::SingleSelect, json!(""), json!(null)),
        (DataType::Date, json!(""), json!("")),
        (DataType::Integer, json!(1), json!(1)),
        (DataType::MultiSelect, json!("[]"), json!(null)),
        (DataType::MultiSelect, json!("[ \"b\" ]"), json!("[\"b\"]")),
        (DataType::MultiSelect, json!("b"), json!("b")),
        (DataType::DateTime, json!("2026-01-02T03:04:05+00:00"), json!("2026-01-02T03:04:05.000000Z")),
        (DataType::DateTime, json!("2026-01-02T03:04:05.0000001Z"), json!("2026-01-02T03:04:05.0000001Z")),
        (DataType::DateTime, json!("today"), json!("today")),
    ] {
        assert_eq!(settled(&custom_field(data_type), &value), expected, "{data_type:?} {value}");
    }
    assert_eq!(settled(&standard(), &json!("")), json!(""));
}

#[test]
fn values_are_the_same_by_meaning() {
    let custom = |data_type| custom_field(data_type);
    for (field, a, b, expected) in [
        (standard(), json!(null), json!(""), true),
        (standard(), json!("x"), json!("x"), true),
        (standard(), json!(null), json!("x"), false),
        (standard(), json!("x"), json!(""), false),
        (custom(DataType::ShortText), json!(null), json!(""), true),
        (custom(DataType::Date), json!(""), json!(null), false),
        (custom(DataType::Date), json!(null), json!(""), false),
        (custom(DataType::Decimal), json!("1.50"), json!("1.5"), true),
        (custom(DataType::Decimal), json!("1.5"), json!("1.6"), false),
        (custom(DataType::Decimal), json!("many"), json!("many"), true),
        (custom(DataType::DateTime), json!("2026-01-02T03:04:05.0000001Z"), json!("2026-01-02T03:04:05Z"), false),
        (custom(DataType::DateTime), json!("2026-01-02T04:04:05+01:00"), json!("2026-01-02T03:04:05.0Z"), true),
        (custom(DataType::DateTime), json!("2026-01-02T03:04:05Z"), json!("2026-01-02T03:04:06Z"), false),
        (custom(DataType::DateTime), json!("today"), json!("today"), true),
        (custom(DataType::DateTime), json!("today"), json!("tomorrow"), false),
        (custom(DataType::LongText), json!("1.50"), json!("1.5"), false),
    ] {
        assert_eq!(same(&field, &a, &b), expected, "{a} {b}");
        assert_eq!(same(&field, &b, &a), expected, "{b} {a}");
    }
}
