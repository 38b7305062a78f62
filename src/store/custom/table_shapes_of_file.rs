//! The shapes of the tables and views, from the definitions and the configuration in the file.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use super::rows::{layout, names, physical, rows};
use crate::model::{DataType, Object};
use crate::store::Result;
use crate::store::derived::options::BuiltFrom;
use crate::store::table_shapes::{ArchivedColumn, LabelColumn, ObjectExtras, Shapes};

/// The maximum number of label columns in a view: SQLite allows 2,000 result columns.
const MAX_LABELS: usize = 60;

/// The shapes that the definitions in the file and the configuration give.
pub(in crate::store) fn shapes(conn: &Connection) -> Result<Shapes> {
    let [contact, company] = Object::ALL;
    Ok(Shapes::new(Arc::new(layout(conn)?), [extras(conn, contact)?, extras(conn, company)?]))
}

/// The columns that the definitions and the configuration give.
fn extras(conn: &Connection, object: Object) -> Result<ObjectExtras> {
    let options = BuiltFrom::read(conn)?.options;
    let mut extras = ObjectExtras::default();
    let rows = rows(conn, object)?;
    if options.keep_archived {
        let there = [physical(conn, object.table())?, physical(conn, object.detail_table())?];
        for row in rows.iter().filter(|row| !row.is_shown()) {
            let Some(column) = &row.column else { continue };
            let definition = &row.definition;
            let is_detail = definition.data_type.detail_only();
            let types = [Some(definition.data_type), None];
            for ((name, source), data_type) in names(column, definition.data_type).into_iter().zip(types) {
                if there[usize::from(is_detail)].contains(&source) {
                    extras.archived.push(ArchivedColumn {
                        name,
                        source,
                        is_detail,
                        data_type,
                        key: definition.key.as_str().into(),
                        label: definition.label.clone(),
                    });
                }
            }
        }
    }
    let mut taken: BTreeSet<String> =
        rows.iter().filter_map(|row| Some(row.column.as_ref()?.as_str().into())).collect();
    let is_there = |name: &str| extras.archived.iter().any(|column| column.name == name);
    for row in &rows {
        let Some(column) = &row.column else { continue };
        let is_shown = row.is_shown() || is_there(column.as_str());
        if !is_shown
            || !row.definition.data_type.is_select()
            || !options.labels.takes(object.table(), column.as_str())
            || extras.labels.len() == MAX_LABELS
        {
            continue;
        }
        let name = free_name(&column.label(), &taken);
        taken.insert(name.clone());
        let is_multi = row.definition.data_type == DataType::MultiSelect;
        extras.labels.push(LabelColumn { name, of: column.as_str().into(), object, is_multi });
    }
    Ok(extras)
}

/// A name that no other column has.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    if !taken.contains(name) {
        return name.into();
    }
    // Terminates: `taken` is finite and every number makes another name.
    (2_u64..).map(|n| format!("{name}_{n}")).find(|name| !taken.contains(name)).unwrap_or_default()
}
