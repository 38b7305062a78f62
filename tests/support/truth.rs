//! The expected columns of a world, computed from the service's answers.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crm_mirror::model::{DataType, Field, FieldKind, FieldProjection, Instant, Object, Resource};
use crm_mirror::sandbox::Sandbox;
use crm_mirror::store::{Reader, report};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The columns of a row with their values. Both sides name them in about the same order, which makes looking them up quick.
type Row<'c> = Vec<(Cow<'c, str>, String)>;
type Rows<'c> = BTreeMap<String, Row<'c>>;

/// The rows of the mirror: the names of the columns, and the values by key.
struct Mirrored {
    names: InOrder<String>,
    rows: BTreeMap<String, Vec<String>>,
}

/// Named things that are looked up in about the order in which they are: each search begins behind what was found last.
struct InOrder<T> {
    items: Vec<T>,
    next: Cell<usize>,
}

impl<T> InOrder<T> {
    fn new(items: Vec<T>) -> InOrder<T> {
        InOrder { items, next: Cell::new(0) }
    }

    fn place(&self, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let begin = self.next.get().min(self.items.len());
        let at = (begin..self.items.len()).chain(0..begin).find(|at| is_it(&self.items[*at]))?;
        self.next.set(at + 1);
        Some(at)
    }
}

/// The members of a JSON object with their source text.
struct Raw<'t>(InOrder<(String, &'t RawValue)>);

impl<'t> Raw<'t> {
    fn get(&self, name: &str) -> Option<&'t str> {
        self.0.place(|(other, _)| other == name).map(|at| self.0.items[at].1.get())
    }
}

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw<'de>, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Raw<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
                let mut members = Vec::with_capacity(64);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Raw(InOrder::new(members)))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

pub fn shown(value: Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(text) => format!("'{text}'"),
        Value::Blob(_) => "a blob".into(),
    }
}

fn object(text: &str) -> Raw<'_> {
    serde_json::from_str(text).unwrap()
}

/// A group of fields; none, if something else than an object is in its place.
fn group_of<'t>(record: &Raw<'t>, group: &str) -> Raw<'t> {
    let group = record.get(group).filter(|source| source.starts_with('{'));
    group.map_or_else(|| Raw(InOrder::new(Vec::new())), object)
}

fn string(source: &str) -> Cow<'_, str> {
    match source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        _ => Cow::Owned(serde_json::from_str(source).unwrap()),
    }
}

fn text(source: &str) -> String {
    format!("'{}'", string(source))
}

fn instant(source: &str) -> String {
    format!("'{}'", string(source).parse::<Instant>().unwrap())
}

fn boolean(source: &str) -> String {
    if source == "true" { "1" } else { "0" }.into()
}

fn double(text: &str) -> String {
    text.parse::<f64>().map_or("NULL".into(), |value| format!("{value:?}"))
}

/// The expected column of a standard field for this source text.
fn standard(kind: FieldKind, source: Option<&str>) -> String {
    let Some(source) = source.filter(|s| *s != "null") else {
        return "NULL".into();
    };
    match kind {
        FieldKind::Id | FieldKind::Text | FieldKind::Etag => text(source),
        FieldKind::Instant => instant(source),
        FieldKind::Integer => source.into(),
        FieldKind::Number => double(source),
        FieldKind::Boolean => boolean(source),
        FieldKind::Value { .. } if source.starts_with('"') => text(source),
        FieldKind::Value { .. } | FieldKind::Json => format!("'{source}'"),
    }
}

fn custom(data_type: DataType, source: Option<&str>) -> String {
    let Some(source) = source.filter(|s| *s != "null") else {
        return "NULL".into();
    };
    match data_type {
        DataType::Integer => source.into(),
        DataType::Boolean => boolean(source),
        DataType::DateTime => instant(source),
        DataType::MultiSelect => {
            let values: Vec<String> = serde_json::from_str(source).unwrap();
            format!("'{}'", serde_json::to_string(&values).unwrap())
        }
        _ => text(source),
    }
}

fn unquoted(shown: &str) -> &str {
    shown.trim_matches('\'')
}

fn standard_columns(row: &mut Row<'_>, fields: impl Iterator<Item = &'static Field>, record: &Raw<'_>) {
    // Groups have many fields, so each is read once.
    let mut groups: BTreeMap<&str, Raw<'_>> = BTreeMap::new();
    for field in fields {
        let source = match field.wire.split_once('.') {
            None => record.get(field.wire),
            Some((group, name)) => groups.entry(group).or_insert_with(|| group_of(record, group)).get(name),
        };
        let value = standard(field.kind, source);
        if field.kind.has_num() {
            let num = if value == "NULL" { value.clone() } else { double(unquoted(&value)) };
            row.push((format!("{}_num", field.column).into(), num));
        }
        row.push((field.column.into(), value));
    }
}

/// The rows of a query whose first column is the key.
fn rows(conn: &Connection, sql: &str) -> Mirrored {
    let mut stmt = conn.prepare(sql).unwrap();
    let names = InOrder::new(stmt.column_names().map(String::from).collect());
    let mut found = stmt.query([]).unwrap();
    let mut rows = BTreeMap::new();
    while let Some(row) = found.next().unwrap() {
        let columns = (0..names.items.len()).map(|index| shown(row.get(index).unwrap())).collect();
        rows.insert(row.get(0).unwrap(), columns);
    }
    Mirrored { names, rows }
}

fn compare(table: &str, truth: &Rows<'_>, mirror: &Mirrored, out: &mut Vec<String>) {
    for (id, expected) in truth {
        match mirror.rows.get(id) {
            None => out.push(format!("{table} lacks {id}")),
            Some(found) => {
                for (column, value) in expected {
                    let there = mirror.names.place(|name| name == column);
                    let there = there.map_or("no such column", |at| &found[at]);
                    if there != value {
                        out.push(format!("{table} {id} {column}: is {there}, should be {value}"));
                    }
                }
            }
        }
    }
    for id in mirror.rows.keys().filter(|id| !truth.contains_key(*id)) {
        out.push(format!("{table} has {id}, which the service has not"));
    }
}

/// The active custom fields of an object: key, type, column.
fn active(conn: &Connection, object: Object) -> Vec<(String, DataType, String)> {
    let mut stmt = conn
        .prepare(
            "SELECT key, data_type, column_name FROM custom_field_definitions
             WHERE object_type = ?1 AND status = 'ACTIVE' AND readable IS NOT 0 AND column_name IS NOT NULL",
        )
        .unwrap();
    let rows = stmt.query_map([object.as_str()], |row| {
        Ok((row.get(0)?, DataType::from_name(&row.get::<_, String>(1)?), row.get(2)?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// The difference between the mirror's stored counts and its tables.
fn miscounted(conn: &Connection, reader: &Reader, kind: Object) -> Option<String> {
    let (table, details, key) = (kind.table(), kind.detail_table(), kind.detail_key());
    let said = report::holds(&reader.begin().unwrap(), kind).unwrap();
    let said = format!("{} {}", said.rows, said.details_current);
    let sql = format!(
        "SELECT (SELECT count(*) FROM {table}) || ' ' || (SELECT count(*) FROM {table} AS r, {details} AS d
         WHERE d.{key} = r.id AND d.etag IS r.etag)"
    );
    let there: String = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
    (said != there).then(|| format!("{kind}: {there} rows and current details, but {said} are stored"))
}

/// Every difference between a mirror and the service's answers.
pub fn differences(conn: &Connection, sandbox: &Sandbox, details: bool) -> Vec<String> {
    let world = sandbox.world();
    let reader = Reader::open(Path::new(conn.path().unwrap())).unwrap();
    let mut out = Vec::new();
    for kind in Object::ALL {
        out.extend(miscounted(conn, &reader, kind));
        let fields = active(conn, kind);
        let mut lists = Rows::new();
        let mut deep = Rows::new();
        let mut multi = Rows::new();
        for id in world.ids(kind.resource()) {
            let shown = if details { world.detail_text(kind, &id) } else { world.list_text(kind.resource(), &id) };
            let shown = shown.unwrap();
            let record = object(&shown);
            let values = group_of(&record, "customFields");
            let mut list = Row::with_capacity(64);
            let mut detail = Row::new();
            standard_columns(&mut list, kind.list_fields(), &record);
            if details {
                standard_columns(&mut detail, kind.detail_fields(), &record);
            }
            detail.extend(list.iter().find(|(column, _)| column == "etag").cloned());
            for (key, data_type, column) in &fields {
                let value = custom(*data_type, values.get(key));
                let row = if data_type.detail_only() { &mut detail } else { &mut list };
                if data_type.has_num() {
                    let num = if value == "NULL" { value.clone() } else { double(unquoted(&value)) };
                    row.push((format!("{column}_num").into(), num));
                }
                if *data_type == DataType::MultiSelect && value != "NULL" {
                    let chosen: Vec<String> = serde_json::from_str(unquoted(&value)).unwrap();
                    for (position, value) in chosen.into_iter().enumerate() {
                        let row = vec![("value".into(), format!("'{value}'"))];
                        multi.insert(format!("{id}|{key}|{position}"), row);
                    }
                }
                row.push((column.into(), value));
            }
            lists.insert(id.clone(), list);
            deep.insert(id, detail);
        }
        let sql = format!("SELECT * FROM {}", kind.table());
        compare(kind.table(), &lists, &rows(conn, &sql), &mut out);
        if details {
            let sql = format!("SELECT * FROM {}", kind.detail_table());
            compare(kind.detail_table(), &deep, &rows(conn, &sql), &mut out);
            let sql = format!("SELECT id FROM {} WHERE NOT details_current", kind.full_view());
            compare("details not current", &Rows::new(), &rows(conn, &sql), &mut out);
        }
        let sql = format!(
            "SELECT record_id || '|' || field_key || '|' || position, value FROM custom_multi_values
             WHERE object_type = '{kind}'"
        );
        compare("custom_multi_values", &multi, &rows(conn, &sql), &mut out);
    }
    for (resource, table) in
        [(Resource::TeamMembers, "team_members"), (Resource::CustomFields, "custom_field_definitions")]
    {
        let mut truth = Rows::new();
        for id in world.ids(resource) {
            let shown = world.list_text(resource, &id).unwrap();
            let record = object(&shown);
            let mut row = Row::new();
            let fields = resource.fields().iter().filter(|field| field.projection == FieldProjection::List);
            standard_columns(&mut row, fields, &record);
            if let Some(options) = record.get("options") {
                compare_options(conn, &id, options, &mut out);
            }
            truth.insert(id, row);
        }
        compare(table, &truth, &rows(conn, &format!("SELECT * FROM {table}")), &mut out);
    }
    out
}

fn compare_options(conn: &Connection, id: &str, source: &str, out: &mut Vec<String>) {
    let options: Vec<BTreeMap<String, Option<String>>> = serde_json::from_str(source).unwrap();
    let expected: Vec<(Option<String>, Option<String>)> =
        options.iter().map(|option| (option["value"].clone(), option["label"].clone())).collect();
    let mut stmt = conn
        .prepare("SELECT value, label FROM custom_field_options WHERE definition_id = ?1 ORDER BY position")
        .unwrap();
    let found: Vec<(Option<String>, Option<String>)> =
        stmt.query_map([id], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    if found != expected {
        out.push(format!("options of {id}: are {found:?}, should be {expected:?}"));
    }
}
