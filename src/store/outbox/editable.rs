//! Which columns of the `_full` views can be edited, by the catalogue and the definitions.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

use crate::model::editable::Editability;
use crate::model::{CustomTarget, DataType, EditTarget, Editable, FieldKey, MirroredRecord, Object, RecordId};
use crate::store::outbox::fields_of;
use crate::store::table_shapes::From;
use crate::store::{OPEN, ReadTx, Result, Shapes, Statements, known_values, shapes_of};

/// Every column of an object's `_full` view, in order, and whether it can be edited.
pub(in crate::store) fn columns(
    conn: &Connection,
    object: Object,
    shapes: &Shapes,
) -> Result<Vec<(String, Editability)>> {
    let mut custom = custom_fields(conn, object)?;
    let shown = shapes.view(object).into_iter().map(|shown| {
        let derived = match shown.from {
            From::Name(_) => Some(Editability::Derived(None)),
            From::Labels { of, .. } => Some(Editability::Derived(Some(of.into()))),
            _ => None,
        };
        (shown.name, derived)
    });
    let mut columns: Vec<(String, Editability)> = Vec::new();
    for (name, derived) in shown.chain([("details_current".to_string(), None)]) {
        let editability = if let Some(derived) = derived {
            derived
        } else if let Some(editability) = custom.remove(&name) {
            editability
        } else if let Some(field) = Editable::standard(object, &name) {
            Editability::Editable(field)
        } else if object.fields().iter().any(|field| field.column == name) {
            Editability::ReadOnly
        } else {
            // The mirror's own columns, and the companions of decimals and values.
            Editability::Derived(name.strip_suffix("_num").map(Into::into))
        };
        columns.push((name, editability));
    }
    // Archived fields are in no view unless they are kept, excluded ones are in none: an edit that names one gets an
    // explanation.
    let exclusions = &shapes.layout.exclusions;
    let standard = object.fields().iter().map(|field| (field.column.to_string(), Editability::Excluded));
    columns.extend(standard.filter(|(name, _)| exclusions.takes(object.table(), name)));
    columns.extend(custom.into_iter().filter_map(|(name, editability)| match editability {
        _ if exclusions.takes_own_column(object, &name) => Some((name, Editability::Excluded)),
        Editability::Archived => Some((name, editability)),
        _ => None,
    }));
    Ok(columns)
}

pub fn editability(tx: &ReadTx<'_>, object: Object) -> Result<Vec<(String, Editability)>> {
    let shapes = shapes_of(&tx.conn)?;
    columns(&tx.conn, object, &shapes)
}

fn custom_fields(conn: &Connection, object: Object) -> Result<HashMap<String, Editability>> {
    conn.rows(
        "SELECT column_name, key, data_type, status IS 'ACTIVE', writable IS 1, required IS NOT 1 AND nullable IS NOT 0,
                    (SELECT json_group_array(value) FROM (SELECT value FROM custom_field_options AS o
                     WHERE o.definition_id = d.id ORDER BY o.position))
             FROM custom_field_definitions AS d
             WHERE object_type = ?1 AND column_name IS NOT NULL AND key IS NOT NULL",
        [object],
        |row| {
            let (column, key): (String, String) = (row.get(0)?, row.get(1)?);
            let (data_type, options): (Option<String>, String) = (row.get(2)?, row.get(6)?);
            let editability = match (row.get(3)?, row.get(4)?) {
                (false, _) => Editability::Archived,
                (true, false) => Editability::NotWritable,
                (true, true) => Editability::Editable(Editable {
                    object,
                    column: column.as_str().into(),
                    target: EditTarget::Custom(CustomTarget {
                        key: FieldKey::new(key),
                        data_type: DataType::from_name(data_type.as_deref().unwrap_or_default()),
                        clearable: row.get(5)?,
                        options: serde_json::from_str(&options).unwrap_or_default(),
                    }),
                }),
            };
            Ok((column, editability))
        },
    )
}

/// A record as its editor sees it, with the columns of these fields; `None` if there is no such record.
pub fn seen<'a>(
    tx: &ReadTx<'_>,
    object: Object,
    id: &RecordId,
    fields: impl IntoIterator<Item = &'a Editable>,
) -> Result<Option<MirroredRecord>> {
    let columns: Vec<&str> = fields.into_iter().map(|field| &*field.column).collect();
    let shapes = shapes_of(&tx.conn)?;
    known_values::mirrored(tx, &shapes, object, id, &columns)
}

pub fn pending_columns(tx: &ReadTx<'_>, object: Object, id: &RecordId) -> Result<BTreeSet<String>> {
    let sql = format!(
        "SELECT DISTINCT f.key FROM outbox AS o CROSS JOIN {} AS f
         WHERE o.object_type = ?1 AND o.record_id = ?2 AND o.{OPEN} AND o.state <> 'conflict'",
        fields_of("o")
    );
    tx.column(&sql, (object, id))
}
