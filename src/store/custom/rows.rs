//! The definitions in the file, as far as columns are concerned, and the layout that they give.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use crate::model::{
    ColumnName, CustomField, CustomFields, DataType, Definition, ExcludedFields, FieldKey, Layout, Object, RecordId,
};
use crate::store::{BuiltFrom, Result, Statements};

pub(super) struct DefinitionRow {
    pub(super) definition: Definition,
    pub(super) column: Option<ColumnName>,
    pub(super) readable: bool,
    pub(super) excluded: bool,
}

impl DefinitionRow {
    /// Whether the field's values are mirrored, so that its column is in use.
    pub(super) fn is_shown(&self) -> bool {
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
    let version = BuiltFrom::read(conn)?.layout;
    let exclusions = Arc::new(exclusions(conn)?);
    let of = |object| -> Result<Arc<CustomFields>> {
        let rows = rows(conn, object)?;
        let excluded = rows.iter().filter(|r| r.excluded).map(|r| r.definition.key.clone()).collect();
        let columns = rows.iter().filter_map(|r| Some(r.column.as_ref()?.as_str().to_string())).collect();
        let unplaced = rows
            .iter()
            .filter(|r| r.definition.active && (r.column.is_none() || !r.readable))
            .map(|r| r.definition.key.clone());
        let unplaced = unplaced.collect();
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
    Ok(Layout { version, contact: of(Object::Contact)?, company: of(Object::Company)?, exclusions })
}

pub(in crate::store) fn exclusions(conn: &Connection) -> Result<ExcludedFields> {
    Ok(ExcludedFields::new(&BuiltFrom::read(conn)?.options.exclude))
}

/// The definitions of an object in order of their creation, which is the order of their columns.
pub(super) fn rows(conn: &Connection, object: Object) -> Result<Vec<DefinitionRow>> {
    let exclusions = exclusions(conn)?;
    type Row = (RecordId, String, Option<String>, String, bool, bool, String, Option<String>, bool);
    conn.rows(
        "SELECT id, key, label, coalesce(data_type, ''), status IS 'ACTIVE', coalesce(filterable, 0),
                    coalesce(allowed_operators, ''), column_name, readable IS NOT 0
             FROM custom_field_definitions WHERE object_type = ?1 AND key IS NOT NULL
             ORDER BY created_at IS NULL, created_at, id",
        [object],
        |row| {
            let (id, key, label, data_type, active, filterable, operators, column, readable): Row = row.try_into()?;
            let excluded = match &column {
                Some(column) => exclusions.takes_own_column(object, column),
                None => exclusions.takes_key(object, &key),
            };
            let operators: Vec<String> = serde_json::from_str(&operators).unwrap_or_default();
            let null_filter = filterable && operators.iter().any(|operator| operator == "isNull");
            let (key, data_type) = (FieldKey::new(key), DataType::from_name(&data_type));
            let definition = Definition { id, key, label, data_type, object, active, null_filter };
            Ok(DefinitionRow { definition, column: column.as_deref().and_then(ColumnName::given), readable, excluded })
        },
    )
}

pub(super) fn definition_in<'r>(rows: &'r [DefinitionRow], id: &RecordId) -> Option<&'r Definition> {
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
    /// Fields that were archived or are no longer on any list.
    pub archived: u64,
    pub restored: u64,
    pub changed: u64,
    pub options: u64,
}

impl DefinitionChanges {
    pub fn add(&mut self, other: DefinitionChanges) {
        self.added += other.added;
        self.archived += other.archived;
        self.restored += other.restored;
        self.changed += other.changed;
        self.options += other.options;
    }

    /// Separates archived and restored fields from other changes.
    pub(super) fn count_states(&mut self, before: &[DefinitionRow], now: &[DefinitionRow]) {
        for Definition { id, active, .. } in now.iter().map(|row| &row.definition) {
            match (definition_in(before, id).map(|known| known.active), active) {
                (Some(true), false) => self.archived += 1,
                (Some(false), true) => self.restored += 1,
                _ => {}
            }
        }
        self.changed = self.changed.saturating_sub(self.archived + self.restored);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldToBackFill {
    pub definition: RecordId,
    /// Whether the column is new and empty; otherwise it was restored from the archive with its last values, or its
    /// type changed.
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
