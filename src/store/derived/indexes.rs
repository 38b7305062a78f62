//! Secondary indexes: those of the schema, and one for each custom field that lists can be filtered by.
//!
//! All of them are built in bulk at the end of an object's first copy. The indexes of custom fields come and go with
//! their columns, and there are only so many of them, as configured: each is written with every row, and thousands of
//! fields must not make thousands of indexes. The file remembers how many, so whoever opens it keeps the same ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::catalogue::Object;
use crate::model::column_name::ColumnName;
use crate::model::custom::DataType;
use crate::store::derived::views;
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::takes;
use crate::store::reader::ReadTx;
use crate::store::records::upsert::Phase;
use crate::store::state::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "build the indexes";
const SHARED: &str = include_str!("../../../schema/deferred/shared.sql");

const fn standard(object: Object) -> &'static str {
    match object {
        Object::Contact => include_str!("../../../schema/deferred/contacts.sql"),
        Object::Company => include_str!("../../../schema/deferred/companies.sql"),
    }
}

/// How many custom fields of each object have an index where nobody says otherwise: the first ones by creation.
pub const MOST_INDEXED: u32 = 4;

/// The index of a column.
fn name(table: &str, column: &str) -> String {
    format!("ix_{table}_{column}")
}

/// The index of a column as its `_full` view shows it.
fn name_in_view(table: &str, column: &str) -> String {
    format!("ix_full_{table}_{column}")
}

impl ReadTx<'_> {
    /// Whether the indexes of the schema are there. The transaction that ends a first copy builds them, so they show
    /// that it ended where the entry that says so is lost.
    pub(in crate::store) fn has_standard_indexes(&self, object: Object) -> Result<bool, StoreError> {
        self.conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1)")
            .and_then(|mut stmt| stmt.query_row([format!("{}_by_created_at", object.table())], |row| row.get(0)))
            .doing("look for the indexes")
    }
}

impl MirrorTx<'_> {
    /// Changes how many custom fields of each object have an index, and builds or drops what follows from that.
    pub(in crate::store) fn index_at_most(&self, most: u32) -> Result<(), StoreError> {
        if self.state(&StateKey::CustomIndexes)? == Some(most) {
            return Ok(());
        }
        self.set_state(&StateKey::CustomIndexes, &most)?;
        for object in Object::ALL {
            if self.phase(object)? == Phase::Kept {
                self.bring_indexes_in_step(object)?;
            }
        }
        Ok(())
    }

    /// Builds the indexes that an object lacks, and drops those of custom fields that have none any more.
    pub(in crate::store) fn bring_indexes_in_step(&self, object: Object) -> Result<(), StoreError> {
        self.conn.execute_batch(standard(object)).doing(DOING)?;
        self.conn.execute_batch(SHARED).doing(DOING)?;
        let table = object.table();
        let editable = self.editable(object)?;
        let mut wanted = BTreeMap::new();
        for column in self.indexed_columns(object)? {
            // A filter on the view names an expression where its column could hide a rounded number.
            if editable.get(&column).is_some_and(takes::could_be_rounded) {
                wanted.insert(name_in_view(table, &column), views::as_written(&column));
            }
            wanted.insert(name(table, &column), column);
        }
        let there = self.custom_indexes(table)?;
        for index in there.iter().filter(|index| !wanted.contains_key(*index)) {
            self.conn.execute_batch(&format!("DROP INDEX {index}")).doing(DOING)?;
        }
        for (index, column) in wanted.iter().filter(|(index, _)| !there.contains(*index)) {
            self.conn.execute_batch(&format!("CREATE INDEX {index} ON {table} ({column})")).doing(DOING)?;
        }
        Ok(())
    }

    /// Drops the index of a column that is about to be parked or dropped.
    pub(in crate::store) fn drop_index(&self, table: &str, column: &str) -> Result<(), StoreError> {
        for index in [name(table, column), name_in_view(table, column)] {
            self.conn.execute_batch(&format!("DROP INDEX IF EXISTS {index}")).doing("drop an index")?;
        }
        Ok(())
    }

    /// The columns that are to have an index: a decimal's is its companion, whose order is that of numbers. The values
    /// of multi-selects have their own table.
    fn indexed_columns(&self, object: Object) -> Result<Vec<String>, StoreError> {
        let most = self.state(&StateKey::CustomIndexes)?.unwrap_or(MOST_INDEXED);
        let mut stmt = self
            .conn
            .prepare_cached(
                "SELECT column_name, data_type FROM custom_field_definitions
                 WHERE object_type = ?1 AND status = 'ACTIVE' AND readable IS NOT 0 AND filterable = 1
                   AND column_name IS NOT NULL AND key IS NOT NULL AND data_type NOT IN ('LONG_TEXT', 'MULTI_SELECT')
                 ORDER BY created_at IS NULL, created_at, id LIMIT ?2",
            )
            .doing(DOING)?;
        let rows = stmt.query_map(rusqlite::params![object.as_str(), most], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        });
        let rows: Vec<_> = rows.and_then(Iterator::collect).doing(DOING)?;
        let columns = rows.into_iter().filter_map(|(column, data_type)| {
            let column = ColumnName::given(&column)?;
            let data_type = DataType::from_name(data_type.as_deref().unwrap_or_default());
            Some(if data_type.has_num() { column.num() } else { column.as_str().to_string() })
        });
        Ok(columns.collect())
    }

    fn custom_indexes(&self, table: &str) -> Result<BTreeSet<String>, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND substr(name, 1, 3) = 'ix_'",
            )
            .and_then(|mut stmt| stmt.query_map([table], |row| row.get(0))?.collect())
            .doing(DOING)
    }
}
