//! The definitions in the file, as far as columns are concerned, and the layout and shapes of tables that they give.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use crate::model::{
    ColumnName, CustomField, CustomFields, DataType, Definition, Exclusions, FieldKey, Layout, Object, RecordId,
};
use crate::store::table_shapes::From;
use crate::store::{BuiltFrom, Result, Shapes, Statements, ViewColumn};

pub(in crate::store) struct DefinitionRow {
    pub definition: Definition,
    pub column: Option<ColumnName>,
    pub readable: bool,
    pub writable: bool,
    pub filterable: bool,
    pub clearable: bool,
    pub excluded: bool,
}

impl DefinitionRow {
    /// Whether the field's values are mirrored, so that its column is in use.
    pub(in crate::store) fn is_shown(&self) -> bool {
        self.definition.active && self.readable && !self.excluded
    }

    /// Whether the field became a decimal after another field was given the name of its companion.
    pub(super) fn name_is_taken(&self, rows: &[DefinitionRow]) -> bool {
        let Some(column) = self.column.as_ref().filter(|_| self.definition.data_type.has_num()) else {
            return false;
        };
        let num = column.num();
        rows.iter().any(|other| other.column.as_ref().is_some_and(|name| name.as_str() == num))
    }
}

pub(in crate::store) fn layout(conn: &Connection) -> Result<Layout> {
    layout_without(conn, exclusions(conn)?)
}

/// The layout if these fields are excluded.
pub(in crate::store) fn layout_without(conn: &Connection, exclusions: Exclusions) -> Result<Layout> {
    let version = BuiltFrom::read(conn)?.layout;
    let of = |object| -> Result<Arc<CustomFields>> {
        let rows = rows_without(conn, object, &exclusions)?;
        let excluded = rows.iter().filter(|r| r.excluded).map(|r| r.definition.key.clone()).collect();
        let columns = rows.iter().filter_map(|r| Some(r.column.as_ref()?.as_str().to_string())).collect();
        let is_unplaced = |r: &&DefinitionRow| r.definition.active && (r.column.is_none() || !r.readable);
        let unplaced = rows.iter().filter(is_unplaced).map(|r| r.definition.key.clone()).collect();
        let fields = rows
            .into_iter()
            .filter(DefinitionRow::is_shown)
            .filter_map(|row| {
                let Definition { id, key, data_type, .. } = row.definition;
                Some(CustomField { definition: id, key, data_type, column: row.column? })
            })
            .collect();
        Ok(Arc::new(CustomFields::new(fields, unplaced).of_all(excluded, columns)))
    };
    let (contact, company) = (of(Object::Contact)?, of(Object::Company)?);
    Ok(Layout { version, contact, company, exclusions: exclusions.into() })
}

pub(in crate::store) fn shapes_of(conn: &Connection) -> Result<Shapes> {
    let [contact, company] = Object::ALL;
    Ok(Shapes::new(Arc::new(layout(conn)?), [archived(conn, contact)?, archived(conn, company)?]))
}

/// The columns of a view for archived fields, if `[database]` keeps them.
fn archived(conn: &Connection, object: Object) -> Result<Vec<ViewColumn>> {
    let mut archived = Vec::new();
    if !BuiltFrom::read(conn)?.options.keep_archived {
        return Ok(archived);
    }
    let there = [physical(conn, object.table())?, physical(conn, object.detail_table())?];
    for row in rows(conn, object)?.iter().filter(|row| !row.is_shown()) {
        let Some(column) = &row.column else { continue };
        let is_detail = row.definition.data_type.detail_only();
        let from = if is_detail { From::Detail } else { From::List };
        let names = names(column, row.definition.data_type).into_iter();
        let names = names.filter(|(_, source)| there[usize::from(is_detail)].contains(source));
        archived.extend(names.map(|(name, source)| ViewColumn { name, from: from(source) }));
    }
    Ok(archived)
}

pub(in crate::store) fn exclusions(conn: &Connection) -> Result<Exclusions> {
    Ok(Exclusions::new(&BuiltFrom::read(conn)?.options.exclude))
}

/// The definitions of an object in order of their creation, which is the order of their columns.
pub(in crate::store) fn rows(conn: &Connection, object: Object) -> Result<Vec<DefinitionRow>> {
    rows_without(conn, object, &exclusions(conn)?)
}

fn rows_without(conn: &Connection, object: Object, exclusions: &Exclusions) -> Result<Vec<DefinitionRow>> {
    conn.rows(
        "SELECT id, key, label, coalesce(data_type, ''), status IS 'ACTIVE', coalesce(filterable, 0),
                    coalesce(allowed_operators, ''), column_name, readable IS NOT 0, writable IS 1,
                    required IS NOT 1 AND nullable IS NOT 0
             FROM custom_field_definitions WHERE object_type = ?1 AND key IS NOT NULL
             ORDER BY created_at IS NULL, created_at, id",
        [object],
        |row| {
            let (id, key, label, column): (RecordId, String, _, Option<String>) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(7)?);
            let [data_type, operators] = [3, 6].map(|place| row.get::<_, String>(place));
            let (active, filterable, readable) = (row.get(4)?, row.get(5)?, row.get(8)?);
            let excluded = match &column {
                Some(column) => exclusions.takes_own_column(object, column),
                None => exclusions.takes_key(object.table(), &key),
            };
            let operators: Vec<String> = serde_json::from_str(&operators?).unwrap_or_default();
            let null_filter = filterable && operators.iter().any(|operator| operator == "isNull");
            let (key, data_type) = (FieldKey::new(key), DataType::from_name(&data_type?));
            Ok(DefinitionRow {
                definition: Definition { id, key, label, data_type, object, active, null_filter },
                column: column.as_deref().and_then(ColumnName::given),
                readable,
                writable: row.get(9)?,
                filterable,
                clearable: row.get(10)?,
                excluded,
            })
        },
    )
}

pub(in crate::store) fn definition_in<'r>(rows: &'r [DefinitionRow], id: &RecordId) -> Option<&'r Definition> {
    rows.iter().map(|row| &row.definition).find(|definition| definition.id == *id)
}

/// The column of a field and, if its type has one, its companion, each with its name while the field is archived. Without such
/// a type, a column with the name of a companion belongs to another field.
pub(super) fn names(column: &ColumnName, data_type: DataType) -> Vec<(String, String)> {
    let mut names = vec![(column.as_str().to_string(), column.archived())];
    names.extend(data_type.has_num().then(|| (column.num(), format!("{}_num", column.archived()))));
    names
}

pub(super) fn table(object: Object, of_details: bool) -> (&'static str, &'static str) {
    if of_details { (object.detail_table(), object.detail_key()) } else { (object.table(), "id") }
}

/// The columns of a table that were made for custom fields, parked ones included.
pub(in crate::store) fn physical(conn: &Connection, table: &str) -> Result<BTreeSet<String>> {
    let sql = "SELECT name FROM pragma_table_info(?1)
               WHERE substr(name, 1, 3) = 'cf_' OR substr(name, 1, 12) = 'archived_cf_'";
    conn.column(sql, [table])
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct DefinitionChanges {
    pub added: u64,
    /// Fields that changed, or whose options did, and those that were archived or are no longer on any list.
    pub changed: u64,
}

impl DefinitionChanges {
    pub fn add(&mut self, other: DefinitionChanges) {
        self.added += other.added;
        self.changed += other.changed;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldToBackFill {
    pub definition: RecordId,
    /// Whether the column is new and empty; else it was restored with its last values, or its type changed.
    pub is_new: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redefined {
    pub changes: DefinitionChanges,
    /// Fields whose column is new, emptied or restored, and therefore needs its values.
    pub to_fill: Vec<FieldToBackFill>,
    /// Active fields without a column, because there is no room or their type is unknown.
    pub without_column: Vec<FieldKey>,
}
