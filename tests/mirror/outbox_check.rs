//! Every value at and beyond every limit is accepted or refused exactly as by the service: the check before queueing is
//! compared with the sandbox, and the triggers of the views with the check.

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::editable::Editable;
use crm_mirror::model::{DataType, Object};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::{EditRequest, queue, validate};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::{StoreError, write_beside};
use rusqlite::types::Value as Sql;
use serde_json::{Map, Value, json};

const OPTIONS: [&str; 4] = ["x", "y", "a,b", "it's"];

/// Texts at the limits of every type, and just beyond them.
const TEXTS: &[&str] = &[
    "",
    " ",
    "x",
    "y",
    "w",
    "X",
    "a,b",
    "it's",
    "0",
    "1",
    "true",
    "null",
    "é",
    "\u{1F980}",
    // Decimals.
    "5",
    "-0",
    "007.50",
    "1.",
    ".5",
    "+1",
    "1e3",
    "1,5",
    "--1",
    "-",
    "1.2.3",
    "0x1",
    " 1",
    "99999999999999999999.9999999999",
    "-99999999999999999999.9999999999",
    "100000000000000000000",
    "000099999999999999999999",
    "0.1234567890",
    "0.12345678901",
    "0.12345678900",
    // Dates and timestamps.
    "2024-02-29",
    "2023-02-29",
    "2024-02-30",
    "2024-13-01",
    "2024-00-10",
    "2024-2-9",
    "20240229",
    "2024-W09-4",
    "0000-01-01",
    "9999-12-31",
    "now",
    "2024-02-29 ",
    "2024-02-29T23:59:59Z",
    "2024-02-29T23:59:59.123456Z",
    "2024-02-29T23:59:59.1+02:00",
    "2024-02-29T24:00:00Z",
    "2023-02-29T00:00:00Z",
    "2024-02-29T00:00:00",
    "2024-02-29T00:00Z",
    "2024-02-29T00:00:00.Z",
    "2024-02-29T00:00:00 Z",
    "2024-02-29T00:60:00Z",
    "2024-02-29 00:00:00Z",
    "2024-02-29T00:00:00-23:59",
    "2024-02-29T00:00:00+2:00",
    "2024-02-29T00:00:00-00:00Z",
    // Arrays are not texts.
    "[]",
    "[\"x\"]",
];

/// Values of every JSON kind, and for every type values at its limits and just beyond them.
fn values() -> Vec<Value> {
    let mut values = vec![json!(null), json!(true), json!(false), json!({}), json!([])];
    values.extend([0, 1, -1, 2, 7, i64::MAX, i64::MIN].map(|n| json!(n)));
    values.extend([json!(u64::MAX), json!(1.0), json!(1.5), json!(-0.0), json!(1e300)]);
    values.extend(TEXTS.iter().map(|text| json!(text)));
    for most in [255, 10_000] {
        for count in [most, most + 1] {
            values.extend([json!("é".repeat(count)), json!("\u{1F980}".repeat(count)), json!(" ".repeat(count))]);
        }
    }
    values.extend([
        json!(["x"]),
        json!(["x", "x"]),
        json!(["y", "a,b", "it's", "x"]),
        json!(["w"]),
        json!(["x", "w"]),
        json!(["x", null]),
        json!([1]),
        json!([true]),
        json!([["x"]]),
        json!([""]),
        json!({"x": "y"}),
        json!(vec!["x"; 100]),
        json!(vec!["x"; 101]),
    ]);
    values
}

fn key(data_type: DataType, clearable: bool) -> String {
    format!("{}{}", data_type.as_str().to_lowercase(), if clearable { "" } else { "_must" })
}

fn field(data_type: DataType, clearable: bool) -> Editable {
    let key = key(data_type, clearable);
    Editable {
        object: Object::Contact,
        column: format!("cf_{key}").into(),
        wire: key.into(),
        data_type: Some(data_type),
        clearable,
        detail_only: data_type.detail_only(),
        options: if data_type.is_select() { OPTIONS.map(String::from).to_vec() } else { vec![] },
    }
}

fn world() -> World {
    let mut world = World::new(noon());
    for data_type in DataType::ALL {
        let options: &[&str] = if data_type.is_select() { &OPTIONS } else { &[] };
        for clearable in [true, false] {
            world
                .fields()
                .define(NewField::new(Object::Contact, &key(data_type, clearable), data_type).options(options));
        }
        world.fields().redefine(Object::Contact, &key(data_type, false), |field| field.required = true);
    }
    world.create(Object::Contact, &json!({"id": "ct", "name": "Ann", "position": "CEO"}));
    world.create(Object::Company, &json!({"id": "co", "name": "Acme", "industry": "Food"}));
    world
}

/// Sends updates to the sandbox, each on the record's newest version.
struct Judge<'a> {
    crm: &'a Crm,
    client: reqwest::Client,
    sent: std::cell::Cell<u32>,
}

impl<'a> Judge<'a> {
    fn of(crm: &'a Crm) -> Judge<'a> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Judge { crm, client: reqwest::Client::builder().no_gzip().build().unwrap(), sent: std::cell::Cell::new(0) }
    }

    async fn takes(&self, object: Object, body: &Value) -> bool {
        let id = if object == Object::Contact { "ct" } else { "co" };
        let etag = self.crm.sandbox.with_world(|world| world.etag(object, id)).unwrap();
        self.sent.set(self.sent.get() + 1);
        let request = self
            .client
            .patch(format!("{}{}/{id}", self.crm.base_url(), object.resource().path()))
            .bearer_auth(&self.crm.key)
            .header("content-type", "application/json")
            .header("if-match", etag)
            .header("idempotency-key", format!("k{}", self.sent.get()))
            .body(body.to_string());
        match request.send().await.unwrap().status().as_u16() {
            200 => true,
            400 | 422 => false,
            other => panic!("{other} to {body}"),
        }
    }
}

#[tokio::test]
async fn every_value_is_accepted_or_refused_as_by_the_service() {
    let crm = Crm::serve(world()).await;
    let judge = Judge::of(&crm);
    let (mut taken, mut refused) = (0, 0);
    for data_type in DataType::ALL {
        for clearable in [true, false] {
            let field = field(data_type, clearable);
            let key = field.wire.to_string();
            for value in values() {
                let here = validate::field(&field, &Given::Json(value.clone()).column(&field));
                let there = judge.takes(Object::Contact, &json!({"customFields": {&key: &value}})).await;
                assert_eq!(here.is_ok(), there, "{key} {value}: {here:?}");
                let Ok(wire) = here else {
                    refused += 1;
                    continue;
                };
                taken += 1;
                // The update would contain the intended value or its cleared form.
                let cleared = wire.is_null() && (value == json!("") || value == json!([]));
                assert!(wire == value || cleared, "{key} {value}: {wire}");
                assert!(judge.takes(Object::Contact, &json!({"customFields": {&key: wire}})).await, "{key} {value}");
            }
        }
    }
    assert!(taken > 100 && refused > 1000, "{taken} taken, {refused} refused");
}

#[tokio::test]
async fn standard_fields_and_whole_bodies_are_validated_as_by_the_service() {
    let crm = Crm::serve(world()).await;
    let judge = Judge::of(&crm);
    for object in Object::ALL {
        for name in object.fields().iter().filter(|field| field.writable).map(|field| field.column) {
            let field = Editable::standard(object, name).unwrap();
            for value in values().into_iter().chain([json!("\u{a0}\t\u{2003}"), json!("\u{200b}")]) {
                let here = validate::request(object, [(&field, &value)]);
                let there = judge.takes(object, &json!({&*field.wire: &value})).await;
                assert_eq!(here.is_ok(), there, "{object} {name} {value}: {here:?}");
            }
        }
    }
    let many = |count: usize| -> Map<String, Value> { (0..count).map(|n| (format!("k{n}"), Value::Null)).collect() };
    for (object, body, taken) in [
        (Object::Contact, json!({"email": "a@x.com"}), false),
        (Object::Contact, json!({"email": null, "position": "x"}), false),
        (Object::Contact, json!({"mobile": "+1"}), false),
        (Object::Contact, json!({}), false),
        (Object::Contact, json!({"position": "x"}), true),
        (Object::Contact, json!({"customFields": many(101)}), false),
        (Object::Company, json!({"industry": " \u{2003}"}), false),
        (Object::Company, json!({"industry": null}), true),
        (Object::Company, json!({"industry": "x"}), true),
    ] {
        let here = validate::body(object, body.as_object().unwrap());
        assert_eq!(here.is_ok(), taken, "{body}: {here:?}");
        assert_eq!(judge.takes(object, &body).await, taken, "{body}");
    }
    assert!(validate::body(Object::Contact, json!({"customFields": many(100)}).as_object().unwrap()).is_ok());
}

/// The value of a column of this type after a statement set this value.
fn stored(data_type: DataType, value: &Value) -> Option<(Sql, Value)> {
    let sql = match value {
        Value::Null => Sql::Null,
        Value::Bool(flag) => Sql::Integer(i64::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Sql::Integer(integer),
            None => Sql::Real(number.as_f64().unwrap()),
        },
        Value::String(text) => Sql::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Sql::Text(value.to_string()),
    };
    let integer = data_type.sql_type() == "INTEGER";
    let held = match &sql {
        Sql::Null => Value::Null,
        Sql::Integer(n) if integer => json!(n),
        Sql::Integer(n) => json!(n.to_string()),
        Sql::Text(text) if integer => text.trim().parse::<i64>().map_or_else(|_| json!(text), |n| json!(n)),
        Sql::Text(text) => json!(text),
        // SQLite decides how a double becomes a text or an integer.
        _ => return None,
    };
    // `-0`, `1.` and similar texts become integers, too.
    let odd = integer && held.as_str().is_some_and(|text| text.trim().parse::<f64>().is_ok());
    (!odd).then_some((sql, held))
}

#[tokio::test]
async fn triggers_accept_and_refuse_the_same_values_as_the_check() {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::empty();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    let mut conn = rusqlite::Connection::open(&mirror.path).unwrap();
    // Stricter in SQL: a timestamp whose offset SQLite does not support.
    let stricter = [(DataType::DateTime, json!("2024-02-29T00:00:00-23:59"))];
    let mut judged = 0;
    for data_type in DataType::ALL {
        for clearable in [true, false] {
            let field = field(data_type, clearable);
            for value in values() {
                let Some((sql, held)) = stored(data_type, &value) else {
                    continue;
                };
                let tx = conn.transaction().unwrap();
                let set = format!("UPDATE contacts_full SET {} = ?1 WHERE id = 'ct'", field.column);
                let queued = tx.execute(&set, [&sql]);
                let check = validate::field(&field, &held);
                if stricter.contains(&(data_type, value.clone())) {
                    assert!(queued.is_err(), "{} {value}", field.column);
                    continue;
                }
                // Setting an empty required field to empty is accepted.
                let nothing = validate::settled(&field, &held).is_null() && !clearable;
                assert_eq!(queued.is_ok(), check.is_ok() || nothing, "{} {value}: {queued:?} {check:?}", field.column);
                let after: Option<String> = tx
                    .query_row("SELECT json_extract(fields, '$.' || ?1 || '[1]') FROM outbox", [&field.column], |row| {
                        row.get::<_, Sql>(0).map(|value| match value {
                            Sql::Integer(n) => n.to_string(),
                            Sql::Text(text) => text,
                            other => panic!("{other:?}"),
                        })
                    })
                    .ok();
                // The queued value has the form of the column.
                let settled = match validate::settled(&field, &held) {
                    _ if check.is_err() => None,
                    Value::Null => None,
                    Value::String(text) => Some(text),
                    other => Some(other.to_string()),
                };
                assert_eq!(after, settled, "{} {value}", field.column);
                judged += 1;
            }
        }
    }
    assert!(judged > 1000, "{judged}");
}

/// The service takes a finer timestamp than the mirror can hold, and nothing would show whether it stored that one.
#[tokio::test]
async fn timestamps_that_the_mirror_cannot_hold_are_refused_in_every_place() {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::empty();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    let (field, now) = (field(DataType::DateTime, true), noon());
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    for (text, is_taken) in [
        ("2026-01-01T23:59:59.1234569Z", false),
        ("2026-01-01T23:59:60.123456Z", false),
        ("2026-01-01T23:59:59.123456Z", true),
    ] {
        let changes = vec![(field.column.to_string(), Given::Text(text.into()))];
        let request = EditRequest { object: Object::Contact, record: "ct".into(), changes };
        let queued = write_beside(&mirror.path, |tx| Ok::<_, StoreError>(queue(tx, &request, now).is_ok()));
        assert_eq!(queued.unwrap(), is_taken, "{text}");
        let set = format!("UPDATE contacts_full SET {} = ?1 WHERE id = 'ct'", field.column);
        assert_eq!(conn.execute(&set, [text]).is_ok(), is_taken, "{text}");
    }
}
