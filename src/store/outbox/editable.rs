//! Which columns of the `_full` views can be edited, by the catalogue and the definitions.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, params};

use crate::model::editable::Editability;
use crate::model::{Definition, Editable, MirroredRecord, Object, RecordId};
use crate::store::custom::rows::rows;
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
    let derived = |from: &str| Err(format!("is derived from {from}: change that column instead"));
    let computed = || Err("is derived and cannot be changed".to_string());
    let mut columns: Vec<(String, Editability)> = Vec::new();
    for shown in shapes.view(object) {
        let editability = match shown.from {
            From::Name(_) => computed(),
            _ => match (custom.remove(&shown.name), Editable::standard(object, &shown.name)) {
                (Some(editability), _) => editability,
                (None, Some(field)) => Ok(field),
                _ if object.fields().iter().any(|field| field.column == shown.name) => {
                    Err("is read-only at the service".into())
                }
                // The mirror's own columns, and the companions of decimals and values.
                _ => shown.name.strip_suffix("_num").map_or_else(computed, derived),
            },
        };
        columns.push((shown.name, editability));
    }
    columns.push(("details_current".into(), computed()));
    // Views have no excluded fields, and archived ones only if kept: an edit that names one gets an explanation.
    let exclusions = &shapes.layout.exclusions;
    let excluded = || Err("is unknown and cannot be changed: `sync.exclude` keeps it out of the mirror".to_string());
    let standard = object.fields().iter().filter(|field| exclusions.takes(object.table(), field.column));
    columns.extend(standard.map(|field| (field.column.to_string(), excluded())));
    columns.extend(custom.into_iter().filter_map(|(name, editability)| match editability {
        _ if exclusions.takes_own_column(object, &name) => Some((name, excluded())),
        Ok(_) => None,
        refused => Some((name, refused)),
    }));
    Ok(columns)
}

pub fn editability(tx: &ReadTx<'_>, object: Object) -> Result<Vec<(String, Editability)>> {
    let shapes = shapes_of(&tx.conn)?;
    columns(&tx.conn, object, &shapes)
}

fn custom_fields(conn: &Connection, object: Object) -> Result<HashMap<String, Editability>> {
    let options: Vec<(String, String)> = conn.tuples(
        "SELECT o.definition_id, o.value FROM custom_field_definitions AS d JOIN custom_field_options AS o
         ON o.definition_id = d.id WHERE d.object_type = ?1 ORDER BY o.definition_id, o.position",
        [object],
    )?;
    let mut of_fields: HashMap<String, Vec<String>> = HashMap::new();
    options.into_iter().for_each(|(field, value)| of_fields.entry(field).or_default().push(value));
    let fields = rows(conn, object)?.into_iter().filter_map(|row| {
        let column = row.column?;
        let Definition { id, key, data_type, active, .. } = row.definition;
        let editability = match (active, row.writable) {
            (false, _) => Err("is archived and cannot be changed".into()),
            (true, false) => Err("is not writable by its definition".into()),
            (true, true) => Ok(Editable {
                object,
                column: column.as_str().into(),
                wire: key.as_str().into(),
                data_type: Some(data_type),
                clearable: row.clearable,
                detail_only: data_type.detail_only(),
                options: of_fields.remove(id.as_str()).unwrap_or_default(),
            }),
        };
        Some((column.as_str().to_string(), editability))
    });
    Ok(fields.collect())
}

pub fn seen(tx: &ReadTx<'_>, object: Object, id: &RecordId, columns: &[&str]) -> Result<Option<MirroredRecord>> {
    known_values::mirrored(tx, &shapes_of(&tx.conn)?, object, id, columns)
}

/// The columns of the record's waiting and sent edits; `undone`: of its undos in conflict, too.
pub fn pending_columns(tx: &ReadTx<'_>, object: Object, id: &RecordId, undone: bool) -> Result<BTreeSet<String>> {
    let sql = format!(
        "SELECT DISTINCT f.key FROM outbox AS o CROSS JOIN {} AS f
         WHERE o.object_type = ?1 AND o.record_id = ?2 AND o.{OPEN}
           AND (o.state <> 'conflict' OR ?3 AND o.undoes IS NOT NULL)",
        fields_of("o")
    );
    tx.column(&sql, params![object, id, undone])
}
