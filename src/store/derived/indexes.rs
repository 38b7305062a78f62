//! Secondary indexes: those of the schema, and one for each custom field that lists can be filtered by.
//!
//! All of them are built in bulk at the end of an object's first copy. The indexes of custom fields are created and
//! dropped with their columns, and their number is limited, because each is written with every row.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::model::exclusions::object_of;
use crate::model::{DataType, Object};
use crate::store::custom::rows::rows;
use crate::store::derived::views;
use crate::store::program_objects::{SHARED, standard};
use crate::store::{BuiltFrom, DerivedTx, Result, Statements, accepted_values, objects};

/// The number of custom fields of each object with an index: the oldest ones.
pub const MAX_INDEXED: usize = 4;

fn name(table: &str, column: &str) -> String {
    format!("ix_{table}_{column}")
}

/// The index of a column in the form of its `_full` view.
fn name_in_view(table: &str, column: &str) -> String {
    format!("ix_full_{table}_{column}")
}

/// The table and column of an entry of `database.indexes`, such as `contacts.cf_tier`; `None` if there is none.
pub(in crate::store) fn configured(conn: &Connection, entry: &str) -> Result<Option<(&'static str, String)>> {
    let Some((of, column)) = entry.split_once('.') else { return Ok(None) };
    let Some(object) = object_of(of) else { return Ok(None) };
    for table in [object.table(), object.detail_table()] {
        let is_there: bool =
            conn.value("SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)", [table, column])?;
        if is_there && (of == table || of != object.detail_table()) {
            return Ok(Some((table, column.into())));
        }
    }
    Ok(None)
}

impl DerivedTx<'_> {
    pub(in crate::store) fn bring_indexes_in_step(&self, object: Object) -> Result<()> {
        self.batch(standard(object))?;
        self.batch(SHARED)?;
        let editable = self.tx.edits().editable(object)?;
        let entries = BuiltFrom::read(&self.tx.conn)?.options.indexes;
        let configured = entries.iter().filter_map(|entry| configured(&self.tx.conn, entry).transpose());
        let configured: Vec<_> = configured.collect::<Result<_>>()?;
        for table in [object.table(), object.detail_table()] {
            let mut columns = if table == object.table() { self.indexed_columns(object)? } else { Vec::new() };
            columns.extend(configured.iter().filter(|(of, _)| *of == table).map(|(_, column)| column.clone()));
            let mut wanted = BTreeMap::new();
            for column in columns {
                // A filter on the view contains an expression if its column could hide a rounded number.
                if editable.get(&column).is_some_and(accepted_values::could_be_rounded) {
                    wanted.insert(name_in_view(table, &column), views::as_written(&column));
                }
                wanted.insert(name(table, &column), column);
            }
            let there = objects::own_indexes(&self.tx.conn, table)?;
            for (index, sql) in there.iter().filter(|(index, _)| !wanted.contains_key(*index)) {
                tracing::info!("The index {index} is dropped: no field or setting asks for it. It was: {sql}");
                self.batch(&format!("DROP INDEX {index}"))?;
            }
            for (index, column) in wanted.iter().filter(|(index, _)| !there.contains_key(*index)) {
                // A person's index may have the name, of another table too.
                self.batch(&format!("CREATE INDEX IF NOT EXISTS {index} ON {table} ({column})"))?;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn drop_index(&self, table: &str, column: &str) -> Result<()> {
        for index in [name(table, column), name_in_view(table, column)] {
            self.batch(&format!("DROP INDEX IF EXISTS {index}"))?;
        }
        Ok(())
    }

    /// The columns to index: of a decimal its companion, which sorts as numbers; multi-selects have their own table.
    fn indexed_columns(&self, object: Object) -> Result<Vec<String>> {
        let columns = rows(&self.tx.conn, object)?.into_iter().filter_map(|row| {
            let (column, data_type) = (row.column.as_ref()?, row.definition.data_type);
            let is_indexed =
                row.is_shown() && row.filterable && !matches!(data_type, DataType::LongText | DataType::MultiSelect);
            is_indexed.then(|| if data_type.has_num() { column.num() } else { column.as_str().to_string() })
        });
        Ok(columns.take(MAX_INDEXED).collect())
    }
}
