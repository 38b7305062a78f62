//! How the columns of the `_full` views stand to edits: from the catalogue and the definitions.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::batch::Shapes;
use super::columns as custom_columns;
use super::error::{Doing, StoreError};
use super::views;
use crate::model::catalogue::Object;
use crate::model::custom::DataType;
use crate::model::editable::{CustomTarget, Editable, Standing, Target};
use crate::model::ids::FieldKey;

const DOING: &str = "read which fields can be edited";

/// Columns that the mirror makes itself.
const OWN: [&str; 5] = ["extra", "detail_extra", "synced_at", "fetched_at", "details_current"];

/// Every column of an object's `_full` view, in order, and how it stands.
pub(super) fn columns(
    conn: &Connection,
    object: Object,
    shapes: &Shapes,
) -> Result<Vec<(String, Standing)>, StoreError> {
    let mut custom = custom_fields(conn, object)?;
    let (list, detail) = (shapes.list(object), shapes.detail(object));
    let shown = views::columns(&list, &detail).into_iter().map(|shown| {
        let pointed = matches!(shown.from, views::From::Name(..));
        (shown.name, pointed)
    });
    let mut columns: Vec<(String, Standing)> = Vec::new();
    for (name, pointed) in shown.chain([("details_current".to_string(), false)]) {
        let standing = if pointed || OWN.contains(&name.as_str()) {
            Standing::Derived(None)
        } else if let Some(standing) = custom.remove(&name) {
            standing
        } else if let Some(field) = Editable::standard(object, &name) {
            Standing::Editable(field)
        } else if object.fields().iter().any(|field| field.column == name) {
            Standing::ReadOnly
        } else {
            // What is left are the companions of decimals and values.
            Standing::Derived(name.strip_suffix("_num").map(Into::into))
        };
        columns.push((name, standing));
    }
    // Archived fields stand in no view, and a person who names one is told so.
    columns.extend(
        custom
            .into_iter()
            .filter(|(_, standing)| matches!(standing, Standing::Archived)),
    );
    Ok(columns)
}

/// As [`columns`], for whoever has no writer's shapes at hand.
///
/// # Errors
/// If SQLite refuses.
pub fn standings(conn: &Connection, object: Object) -> Result<Vec<(String, Standing)>, StoreError> {
    let shapes = Shapes::new(custom_columns::layout(conn)?.into());
    columns(conn, object, &shapes)
}

/// The custom fields that have a column, by its name.
fn custom_fields(conn: &Connection, object: Object) -> Result<HashMap<String, Standing>, StoreError> {
    let mut options = options(conn, object)?;
    let mut stmt = conn
        .prepare_cached(
            "SELECT id, column_name, key, data_type, status IS 'ACTIVE', writable IS 1,
                    required IS NOT 1 AND nullable IS NOT 0
             FROM custom_field_definitions WHERE object_type = ?1 AND column_name IS NOT NULL AND key IS NOT NULL",
        )
        .doing(DOING)?;
    let rows = stmt.query_map([object.word()], |row| {
        let (id, column): (String, String) = (row.get(0)?, row.get(1)?);
        let data_type: Option<String> = row.get(3)?;
        let standing = match (row.get(4)?, row.get(5)?) {
            (false, _) => Standing::Archived,
            (true, false) => Standing::NotWritable,
            (true, true) => Standing::Editable(Editable {
                object,
                column: column.as_str().into(),
                target: Target::Custom(CustomTarget {
                    key: FieldKey::new(row.get::<_, String>(2)?),
                    data_type: DataType::from_wire(data_type.as_deref().unwrap_or_default()),
                    clearable: row.get(6)?,
                    options: options.remove(&id).unwrap_or_default(),
                }),
            }),
        };
        Ok((column, standing))
    });
    rows.and_then(Iterator::collect).doing(DOING)
}

/// The values of the options of an object's select fields, by definition.
fn options(conn: &Connection, object: Object) -> Result<HashMap<String, Vec<String>>, StoreError> {
    let mut stmt = conn
        .prepare_cached(
            "SELECT o.definition_id, o.value FROM custom_field_options AS o
             JOIN custom_field_definitions AS d ON d.id = o.definition_id
             WHERE d.object_type = ?1 ORDER BY o.definition_id, o.position",
        )
        .doing(DOING)?;
    let mut options: HashMap<String, Vec<String>> = HashMap::new();
    let rows = stmt
        .query_map(params![object.word()], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?))
        })
        .doing(DOING)?;
    for row in rows {
        let (definition, value) = row.doing(DOING)?;
        options.entry(definition).or_default().push(value);
    }
    Ok(options)
}
