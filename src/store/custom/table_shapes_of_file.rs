//! The shapes of the tables and views, from the definitions and the configuration in the file.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use super::rows::{layout, names, rows};
use crate::model::{DataType, Definition, Object};
use crate::store::table_shapes::{ArchivedField, From};
use crate::store::{BuiltFrom, Result, Shapes, ViewColumn, physical};

/// The maximum number of label columns in a view: SQLite allows 2,000 result columns.
const MAX_LABELS: usize = 60;

pub(in crate::store) fn shapes(conn: &Connection) -> Result<Shapes> {
    let [contact, company] = Object::ALL;
    Ok(Shapes::new(Arc::new(layout(conn)?), [extras(conn, contact)?, extras(conn, company)?]))
}

/// The columns of a view for archived fields and labels, as configured in `[database]`.
fn extras(conn: &Connection, object: Object) -> Result<Vec<ViewColumn>> {
    let options = BuiltFrom::read(conn)?.options;
    let mut extras = Vec::new();
    let rows = rows(conn, object)?;
    if options.keep_archived {
        let there = [physical(conn, object.table())?, physical(conn, object.detail_table())?];
        for row in rows.iter().filter(|row| !row.is_shown()) {
            let Some(column) = &row.column else { continue };
            let Definition { key, label, data_type, .. } = &row.definition;
            let is_detail = data_type.detail_only();
            let from = if is_detail { From::Detail } else { From::List };
            let types = [Some(*data_type), None];
            for ((name, source), data_type) in names(column, *data_type).into_iter().zip(types) {
                if there[usize::from(is_detail)].contains(&source) {
                    let field = ArchivedField { data_type, key: key.as_str().into(), label: label.clone() };
                    extras.push(ViewColumn { name, from: from(source), archived: Some(field) });
                }
            }
        }
    }
    let mut taken: BTreeSet<String> =
        rows.iter().filter_map(|row| Some(row.column.as_ref()?.as_str().into())).collect();
    let mut labels = Vec::new();
    for row in &rows {
        let Some(column) = &row.column else { continue };
        let archived = extras.iter().find(|extra| extra.name == column.as_str());
        if !(row.is_shown() || archived.is_some())
            || !row.definition.data_type.is_select()
            || !options.labels.takes(object.table(), column.as_str())
            || labels.len() == MAX_LABELS
        {
            continue;
        }
        let name = free_name(&column.label(), &taken);
        taken.insert(name.clone());
        let source = archived.map_or_else(|| From::List(column.as_str().into()).sql(), |archived| archived.from.sql());
        let expression = labels_of(object, column.as_str(), &source, row.definition.data_type);
        labels.push(ViewColumn::new(&name, From::Labels { of: column.as_str().into(), expression }));
    }
    extras.extend(labels);
    Ok(extras)
}

/// The labels of the values in a column of the record: a text, or a JSON array for a multi-select. A value without a label is
/// shown itself.
fn labels_of(object: Object, column: &str, source: &str, data_type: DataType) -> String {
    let label = |value: &str| {
        format!(
            "coalesce((SELECT x.label FROM custom_field_options AS x WHERE x.definition_id = \
             (SELECT f.id FROM custom_field_definitions AS f WHERE f.object_type = '{object}' AND f.column_name = '{column}') \
             AND x.value = {value} ORDER BY x.position LIMIT 1), {value})"
        )
    };
    if data_type != DataType::MultiSelect {
        return label(source);
    }
    format!(
        "CASE WHEN {source} IS NOT NULL THEN (SELECT json_group_array(v.label) FROM (SELECT {} AS label \
         FROM json_each({source}) AS e ORDER BY e.key) AS v) END",
        label("e.value")
    )
}

fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    if !taken.contains(name) {
        return name.into();
    }
    // Terminates: `taken` is finite and every number makes another name.
    (2_u64..).map(|n| format!("{name}_{n}")).find(|name| !taken.contains(name)).unwrap_or_default()
}
