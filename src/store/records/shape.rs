//! The shape of the record tables: which column has which part of a record, and the resulting statements.

use rusqlite::types::ValueRef;

use crate::model::{
    CustomFields, DataType, FieldKind, FieldProjection, FieldValue, Layout, Object, Record, Resource, SqlValue, decimal,
};

pub(crate) const DEFINITIONS: &str = "custom_field_definitions";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A standard field, by its index in the catalogue.
    Field(usize),
    /// A custom field, by its slot.
    Slot(usize),
    /// Values that the columns cannot hold; merged by the writer.
    Extra,
}

impl Source {
    /// What a record has of the field.
    pub(in crate::store) fn field(self, record: &Record) -> Option<&FieldValue> {
        match self {
            Source::Field(index) => record.fields.get(index),
            Source::Slot(slot) => record.custom.get(slot),
            Source::Extra => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub source: Source,
    /// Whether it holds the nearest double of its field.
    pub is_num: bool,
    /// The type of its field, where a value has several spellings.
    pub data_type: Option<DataType>,
}

impl Column {
    fn new(name: impl Into<String>, source: Source) -> Column {
        Column { name: name.into(), source, is_num: false, data_type: None }
    }

    /// Its value in a record; `None` if the record does not contain it and the column stays unchanged. `extra` is the text for
    /// the `extra` column, which is merged with the existing one.
    pub fn value<'a>(&self, record: &'a Record, extra: Option<&'a str>) -> Option<ValueRef<'a>> {
        if self.source == Source::Extra {
            return Some(extra.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())));
        }
        match self.source.field(record)? {
            FieldValue::Absent | FieldValue::Omitted => None,
            FieldValue::Null | FieldValue::Withheld | FieldValue::Unrepresentable => Some(ValueRef::Null),
            FieldValue::Exact(value) | FieldValue::Truncated(value) => Some(match value {
                _ if !self.is_num => value.into(),
                SqlValue::Text(text) => decimal::nearest_double(text).map_or(ValueRef::Null, ValueRef::Real),
                SqlValue::Null | SqlValue::Int(_) | SqlValue::Real(_) => ValueRef::Null,
            }),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Shape {
    pub table: &'static str,
    pub key: &'static str,
    pub stamp: &'static str,
    /// The columns between key and stamp.
    pub columns: Vec<Column>,
    /// `SELECT columns, stamp … WHERE key = ?1`.
    pub select: String,
    /// `INSERT OR IGNORE`: key, columns, stamp.
    pub insert: String,
}

impl Shape {
    fn new(table: &'static str, key: &'static str, stamp: &'static str, columns: Vec<Column>) -> Shape {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let list = names.join(", ");
        let last = names.len() + 2;
        let marks: Vec<String> = (1..=last).map(|n| format!("?{n}")).collect();
        Shape {
            table,
            key,
            stamp,
            select: format!("SELECT {list}, {stamp} FROM {table} WHERE {key} = ?1"),
            insert: format!("INSERT OR IGNORE INTO {table} ({key}, {list}, {stamp}) VALUES ({})", marks.join(", ")),
            columns,
        }
    }

    /// `UPDATE … WHERE key = ?1`: key, the columns at these indexes, stamp. SQLite updates every index of a column that
    /// is set, even if its value does not change.
    pub fn update(&self, places: &[usize]) -> String {
        let sets: String =
            places.iter().zip(2..).map(|(place, n)| format!("{} = ?{n}, ", self.columns[*place].name)).collect();
        let (table, key, stamp) = (self.table, self.key, self.stamp);
        format!("UPDATE {table} SET {sets}{stamp} = ?{} WHERE {key} = ?1", places.len() + 2)
    }

    pub fn list(object: Object, layout: &Layout) -> Shape {
        let mut columns = mirrored(object, FieldProjection::List, layout);
        columns.push(Column::new("extra", Source::Extra));
        slots(&mut columns, layout.of(object), false);
        Shape::new(object.table(), "id", "synced_at", columns)
    }

    pub fn detail(object: Object, layout: &Layout) -> Shape {
        let mut columns = mirrored(object, FieldProjection::Detail, layout);
        let etag = object.fields().iter().position(|field| field.kind == FieldKind::Etag);
        columns.extend(etag.map(|index| Column::new("etag", Source::Field(index))));
        columns.push(Column::new("extra", Source::Extra));
        slots(&mut columns, layout.of(object), true);
        Shape::new(object.detail_table(), object.detail_key(), "fetched_at", columns)
    }

    /// The table of a resource without details and custom fields.
    pub fn plain(resource: Resource) -> Shape {
        let mut columns = standard(resource, FieldProjection::List);
        columns.push(Column::new("extra", Source::Extra));
        Shape::new(resource.table(), "id", "synced_at", columns)
    }

    /// The values of the columns in a record.
    pub fn values<'a>(&self, record: &'a Record, extra: Option<&'a str>) -> Vec<Option<ValueRef<'a>>> {
        self.columns.iter().map(|column| column.value(record, extra)).collect()
    }

    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
}

/// The records `r` of an object, each with its detail `d`, if there is one.
pub(in crate::store) fn with_details(object: Object) -> String {
    let (records, details, key) = (object.table(), object.detail_table(), object.detail_key());
    format!("{records} AS r LEFT JOIN {details} AS d ON d.{key} = r.id")
}

pub(in crate::store) fn is_number(object: Object, shape: &Shape, column: &str) -> bool {
    let is_number = |source| matches!(source, Source::Field(index) if object.fields()[index].kind == FieldKind::Number);
    shape.columns.iter().any(|known| known.name == column && (known.is_num || is_number(known.source)))
}

/// The columns of the standard fields that are not excluded. The table has the others too: they are NULL.
fn mirrored(object: Object, shown: FieldProjection, layout: &Layout) -> Vec<Column> {
    let mut columns = standard(object.resource(), shown);
    columns.retain(|column| !layout.exclusions.takes(object.table(), &column.name));
    columns
}

fn standard(resource: Resource, shown: FieldProjection) -> Vec<Column> {
    let mut columns = Vec::new();
    for (index, field) in resource.fields().iter().enumerate() {
        if field.projection != shown || field.kind == FieldKind::Id {
            continue;
        }
        let data_type = (field.kind == FieldKind::Instant).then_some(DataType::DateTime);
        columns.push(Column { data_type, ..Column::new(field.column, Source::Field(index)) });
        if field.kind.has_num() {
            let num = Column::new(format!("{}_num", field.column), Source::Field(index));
            columns.push(Column { is_num: true, ..num });
        }
    }
    columns
}

fn slots(columns: &mut Vec<Column>, custom: &CustomFields, detail: bool) {
    for (slot, field) in custom.fields().iter().enumerate().filter(|(_, f)| f.data_type.detail_only() == detail) {
        let data_type = Some(field.data_type);
        columns.push(Column { data_type, ..Column::new(field.column.as_str(), Source::Slot(slot)) });
        if field.data_type.has_num() {
            columns.push(Column { is_num: true, ..Column::new(field.column.num(), Source::Slot(slot)) });
        }
    }
}
