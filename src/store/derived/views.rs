//! `contacts_full` and `companies_full`: record and detail side by side, active custom fields included, and what the
//! owner and the company are called.
//!
//! The views are dropped and made again inside the transaction that changes the columns, so no reader ever meets a
//! missing view or one that names a column that is gone. Every join is outer and by a unique key, so that SQLite runs
//! only those whose columns a question names.

use crate::model::catalogue::Object;
use crate::store::derived::history_views;
use crate::store::derived::view_columns::{POINTERS, columns};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::takes;
use crate::store::tx::MirrorTx;

/// A text column as an expression without an affinity. An index on the same expression serves filters on it.
pub(in crate::store) fn as_written(column: &str) -> String {
    format!("coalesce({column}, NULL)")
}

impl MirrorTx<'_> {
    pub(in crate::store) fn drop_views(&self) -> Result<(), StoreError> {
        for object in Object::ALL {
            for view in [object.full_view(), history_views::name(object)] {
                self.conn.execute_batch(&format!("DROP VIEW IF EXISTS {view}")).doing("remake the views")?;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn remake_views(&self) -> Result<(), StoreError> {
        self.drop_views()?;
        for object in Object::ALL {
            let (list, detail) = (self.shapes.list(object), self.shapes.detail(object));
            // A trigger must see a value as it was written: an expression has no affinity that would turn it into text first.
            // DuckDB, which parses the views of the files that it reads, knows `coalesce` of a text, but no `+`.
            let editable = self.editable(object)?;
            let shown: Vec<String> = columns(&list, &detail)
                .iter()
                .map(|column| match editable.get(&column.name) {
                    Some(field) if takes::could_be_rounded(field) => {
                        format!("{} AS {}", as_written(&column.from.sql()), column.name)
                    }
                    _ => format!("{} AS {}", column.from.sql(), column.name),
                })
                .collect();
            let joins: Vec<&str> =
                POINTERS.iter().filter(|(from, ..)| list.place(from).is_some()).map(|(.., join)| *join).collect();
            // `d.etag IS r.etag` says the same, but only to SQLite: DuckDB parses the views of the files that it reads.
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
            self.conn.execute_batch(&sql).doing("remake the views")?;
            let history = history_views::create(object, &list, &detail);
            self.conn.execute_batch(&history).doing("remake the views of the history")?;
        }
        self.make_edit_triggers()?;
        self.make_table_guards()
    }
}
