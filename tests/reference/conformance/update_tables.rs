//! Values of updates: a table of custom values and a table of bodies.

use crm_mirror::model::Object;
use serde_json::{Map, Value, json};

const CONTACT: Object = Object::Contact;

/// A custom value, whether it is accepted, and the value read back.
pub fn values() -> Vec<(&'static str, &'static str, Value, Option<Value>)> {
    let take = |v: Value| Some(v);
    vec![
        ("short text", "short_text", json!("hi"), take(json!("hi"))),
        ("255 characters", "short_text", json!("é".repeat(255)), take(json!("é".repeat(255)))),
        ("256 characters", "short_text", json!("é".repeat(256)), None),
        ("empty short text clears", "short_text", json!(""), take(Value::Null)),
        ("a number for a short text", "short_text", json!(1), None),
        ("10,000 characters", "long_text", json!("x".repeat(10_000)), take(json!("x".repeat(10_000)))),
        ("10,001 characters", "long_text", json!("x".repeat(10_001)), None),
        ("empty long text clears", "long_text", json!(""), take(Value::Null)),
        ("integer", "integer", json!(-5), take(json!(-5))),
        ("largest integer", "integer", json!(i64::MAX), take(json!(i64::MAX))),
        ("integer beyond 64 bits", "integer", json!(u64::MAX), None),
        ("fraction for an integer", "integer", json!(1.5), None),
        ("text for an integer", "integer", json!("5"), None),
        (
            "widest decimal",
            "decimal",
            json!("-99999999999999999999.9999999999"),
            take(json!("-99999999999999999999.9999999999")),
        ),
        ("21 integer digits", "decimal", json!("100000000000000000000"), None),
        ("11 fractional digits", "decimal", json!("0.12345678901"), None),
        ("number for a decimal", "decimal", json!(1.5), None),
        ("exponent for a decimal", "decimal", json!("1e3"), None),
        ("boolean", "boolean", json!(false), take(json!(false))),
        ("text for a boolean", "boolean", json!("true"), None),
        ("date", "date", json!("2024-02-29"), take(json!("2024-02-29"))),
        ("date that is none", "date", json!("2023-02-29"), None),
        ("timestamp for a date", "date", json!("2024-02-29T00:00:00Z"), None),
        ("datetime", "datetime", json!("2024-02-29T00:00:00.000Z"), take(json!("2024-02-29T00:00:00.000Z"))),
        ("datetime without a zone", "datetime", json!("2024-02-29T00:00:00"), None),
        ("option", "single_select", json!("x"), take(json!("x"))),
        ("no option", "single_select", json!("w"), None),
        ("options", "multi_select", json!(["z", "x"]), take(json!(["z", "x"]))),
        ("no option among options", "multi_select", json!(["x", "w"]), None),
        ("empty multi-select clears", "multi_select", json!([]), take(Value::Null)),
        ("101 items", "multi_select", json!(vec!["x"; 101]), None),
        ("text for a multi-select", "multi_select", json!("x"), None),
        ("null clears", "single_select", Value::Null, take(Value::Null)),
        ("unknown key", "nobody", json!("x"), None),
        ("archived key", "old", json!("x"), None),
        ("read-only key", "fixed", json!("x"), None),
        ("key of the other object", "code", json!("x"), None),
    ]
}

/// Bodies that are refused: name, object, body, status.
pub fn bodies() -> Vec<(&'static str, Object, Value, u16)> {
    let company = Object::Company;
    let many: Map<String, Value> = (0..101).map(|n| (format!("k{n}"), Value::Null)).collect();
    vec![
        ("an email", CONTACT, json!({"email": "b@x.com"}), 422),
        ("the same email", CONTACT, json!({"email": "a@x.com", "position": "x"}), 422),
        ("a null email", CONTACT, json!({"email": null}), 422),
        ("a mobile", CONTACT, json!({"mobile": "+1"}), 422),
        ("an empty body", CONTACT, json!({}), 400),
        ("a list", CONTACT, json!([]), 400),
        ("an unknown field", CONTACT, json!({"colour": "red"}), 400),
        ("a read-only field", CONTACT, json!({"qualification": true}), 400),
        ("the score", CONTACT, json!({"score": 5}), 400),
        ("an id", CONTACT, json!({"id": "b"}), 400),
        ("a number for a text", CONTACT, json!({"position": 5}), 400),
        ("customFields as a list", CONTACT, json!({"customFields": []}), 400),
        ("101 custom keys", CONTACT, json!({"customFields": many}), 400),
        ("a blank company text", company, json!({"industry": "  \t"}), 422),
        ("fit data", company, json!({"customerFitScore": 1}), 400),
        ("company notes", company, json!({"notes": "x"}), 400),
    ]
}
