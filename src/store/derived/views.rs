//! `contacts_full` and `companies_full`: record and detail in one row, with active custom fields and the names of the
//! owner and the company.
//!
//! The views are recreated inside the transaction that changes the columns, so no reader finds a missing view or one
//! with a missing column. Every join is an outer join by a unique key, so SQLite skips those whose columns a query does
//! not use.

use crate::model::catalogue::Object;
use crate::store::custom::rows::physical;
use crate::store::derived::view_columns::{POINTERS, columns};
use crate::store::derived::{history_views, lookup_views};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::accepted_values;
use crate::store::program_objects::{history_view, lookup_view};
use crate::store::tx::DerivedTx;

/// A text column as an expression without affinity. An index on the same expression serves filters on it.
pub(in crate::store) fn as_written(column: &str) -> String {
    format!("coalesce({column}, NULL)")
}

impl DerivedTx<'_> {
    pub(in crate::store) fn drop_views(&self) -> Result<(), StoreError> {
        self.remove_user_objects()?;
        for object in Object::ALL {
            for view in [object.full_view(), lookup_view(object), history_view(object)] {
                self.tx.conn.execute_batch(&format!("DROP VIEW IF EXISTS {view}")).doing("remake the views")?;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn rebuild_views(&self) -> Result<(), StoreError> {
        self.drop_views()?;
        for object in Object::ALL {
            let (list, detail) = (self.tx.shapes().list(object), self.tx.shapes().detail(object));
            // A trigger must see a value as it was written: an expression has no affinity that would convert it to text
            // first. DuckDB, which parses the views of SQLite files, supports `coalesce` of a text, but not `+`.
            let editable = self.tx.edits().editable(object)?;
            let columns = columns(&self.tx.shapes(), object);
            let shown: Vec<String> = columns
                .iter()
                .map(|column| match editable.get(&column.name) {
                    Some(field) if accepted_values::could_be_rounded(field) => {
                        format!("{} AS {}", as_written(&column.from.sql()), column.name)
                    }
                    _ => format!("{} AS {}", column.from.sql(), column.name),
                })
                .collect();
            let joins: Vec<&str> =
                POINTERS.iter().filter(|(from, ..)| list.place(from).is_some()).map(|(.., join)| *join).collect();
            // `d.etag IS r.etag` is equivalent, but DuckDB cannot parse it.
            let sql = format!(
                "CREATE VIEW {view} AS SELECT {shown}, (d.{key} IS NOT NULL AND \
                 coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current \
                 FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id {joins}",
                joins = joins.join(" "),
                view = object.full_view(),
                shown = shown.join(", "),
                table = list.table,
                details = detail.table,
                key = detail.key,
            );
            self.tx.conn.execute_batch(&sql).doing("remake the views")?;
            let lookup = lookup_views::create(object, &list, &detail, &columns);
            self.tx.conn.execute_batch(&lookup).doing("recreate the views for joins")?;
            let mut archived = Vec::new();
            for (table, is_detail) in [(list.table, false), (detail.table, true)] {
                let names = physical(&self.tx.conn, table)?.into_iter().filter(|name| name.starts_with("archived_"));
                archived.extend(names.map(|name| (name, is_detail)));
            }
            let history = history_views::create(object, &list, &detail, columns, &archived);
            self.tx.conn.execute_batch(&history).doing("remake the views of the history")?;
        }
        self.tx.edits().make_edit_triggers()?;
        self.tx.edits().make_table_guards()?;
        self.restore_user_objects()
    }
}
