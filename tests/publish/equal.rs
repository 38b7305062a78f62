//! Compares PostgreSQL with the mirror: every column of every published table, by plain SQL on both sides.

use std::collections::BTreeMap;

use crm_mirror::model::decimal;
use rusqlite::types::Value;

use crate::server::Postgres;
use crate::support::Mirror;

/// A published table, the equal query on the mirror, and its key.
const TABLES: [(&str, &str, &str); 8] = [
    ("contacts", "contacts_full", "id"),
    ("companies", "companies_full", "id"),
    ("team_members", "team_members", "id"),
    ("custom_field_definitions", "custom_field_definitions", "id"),
    ("custom_field_options", "custom_field_options", "definition_id, position"),
    ("custom_multi_values", "custom_multi_values", "object_type, record_id, field_key, position"),
    ("removed_records", "removed_records", "object_type, id"),
    ("changes", "changes", "seq"),
];

/// Columns that may differ.
const STAMPS: [&str; 2] = ["synced_at", "fetched_at"];

/// The expression that makes a column comparable with the mirror's text.
fn read(name: &str, data_type: &str) -> String {
    match data_type {
        "timestamp with time zone" => {
            format!(r#"to_char("{name}" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"#)
        }
        "boolean" => format!(r#""{name}"::int::text"#),
        _ => format!(r#""{name}"::text"#),
    }
}

/// A document with every number as a double: `jsonb` formats numbers differently.
fn doubles(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => number.as_f64().unwrap().into(),
        Value::Array(items) => items.into_iter().map(doubles).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, doubles(value))).collect(),
        other => other,
    }
}

fn is_equal(data_type: &str, here: &Value, there: Option<&str>) -> bool {
    let (Some(there), false) = (there, *here == Value::Null) else {
        return there.is_none() && *here == Value::Null;
    };
    match (data_type, here) {
        ("jsonb", Value::Text(here)) => {
            let json = |text: &str| doubles(serde_json::from_str(text).unwrap());
            json(here) == json(there)
        }
        ("numeric", Value::Text(here)) => here == there || decimal::same_number(here, there),
        ("double precision", Value::Real(here)) => there.parse::<f64>().unwrap() == *here,
        (_, Value::Text(here)) => here == there,
        (_, Value::Integer(here)) => here.to_string() == there,
        _ => false,
    }
}

/// Every difference between a mirror and the tables of the schema `crm`.
pub async fn differences(mirror: &Mirror, postgres: &Postgres) -> Vec<String> {
    let mut out = Vec::new();
    for (table, source, key) in TABLES {
        let conn = mirror.read();
        let columns: Vec<String> = conn
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .unwrap()
            .query_map([source], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .filter(|name: &String| !STAMPS.contains(&name.as_str()))
            .collect();
        let types: BTreeMap<String, String> = postgres
            .rows(&format!(
                "SELECT column_name, data_type FROM information_schema.columns
                 WHERE table_schema = 'crm' AND table_name = '{table}'"
            ))
            .await
            .into_iter()
            .map(|row| (row[0].clone().unwrap(), row[1].clone().unwrap()))
            .collect();
        if let Some(missing) = columns.iter().find(|name| !types.contains_key(*name)) {
            out.push(format!("{table} has no column {missing}"));
            continue;
        }
        let left = types.keys().filter(|name| name.starts_with("cf_") && !columns.contains(name));
        out.extend(left.map(|name| format!("{table} still has {name}")));
        let names = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let here: Vec<Vec<Value>> = conn
            .prepare(&format!("SELECT {names} FROM {source} ORDER BY {key}"))
            .unwrap()
            .query_map([], |row| (0..columns.len()).map(|place| row.get(place)).collect())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let there_columns: Vec<String> = columns.iter().map(|name| read(name, &types[name])).collect();
        // By the stored columns, not by their text.
        let there_key: Vec<String> = key
            .split(", ")
            .map(|name| format!("t.{name}{}", if types[name] == "text" { " COLLATE \"C\"" } else { "" }))
            .collect();
        let there = postgres
            .rows(&format!(
                "SELECT {} FROM crm.{table} AS t ORDER BY {}",
                there_columns.join(", "),
                there_key.join(", ")
            ))
            .await;
        if here.len() != there.len() {
            out.push(format!("{table}: {} rows here, {} there", here.len(), there.len()));
            continue;
        }
        for (here, there) in here.iter().zip(&there) {
            for ((name, here_value), there_value) in columns.iter().zip(here).zip(there) {
                if !is_equal(&types[name], here_value, there_value.as_deref()) {
                    out.push(format!("{table} {:?} {name}: {here_value:?} here, {there_value:?} there", here[0]));
                }
            }
        }
    }
    out
}

#[track_caller]
fn none(differences: &[String]) {
    let shown = &differences[..differences.len().min(12)];
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

pub async fn assert_equal(mirror: &Mirror, postgres: &Postgres) {
    none(&differences(mirror, postgres).await);
}
