//! `contacts_full` and `companies_full`: record and detail side by side, active custom fields included.
//!
//! The views are dropped and made again inside the transaction that changes the columns, so no reader ever meets a
//! missing view or one that names a column that is gone.

use super::batch::Batch;
use super::error::{Doing, StoreError};
use super::shape::Shape;
use crate::model::catalogue::Object;

/// A column of a `_full` view: its name, and the table and column it shows.
pub(super) struct Shown {
    pub name: String,
    pub table: &'static str,
    pub column: String,
}

/// The columns of an object's `_full` view, in order, but for `details_current`.
pub(super) fn columns(object: Object, list: &Shape, detail: &Shape) -> Vec<Shown> {
    let of = |table: &'static str, column: &str, name: &str| Shown {
        name: name.into(),
        table,
        column: column.into(),
    };
    let mut columns = vec![of(list.table, "id", "id")];
    let standard = |c: &&super::shape::Column| !c.name.starts_with("cf_") && c.name != "extra";
    let custom = |c: &&super::shape::Column| c.name.starts_with("cf_");
    columns.extend(
        list.columns
            .iter()
            .filter(standard)
            .map(|c| of(list.table, &c.name, &c.name)),
    );
    let details = detail.columns.iter().filter(standard).filter(|c| c.name != "etag");
    columns.extend(details.map(|c| of(detail.table, &c.name, &c.name)));
    columns.extend(
        list.columns
            .iter()
            .filter(custom)
            .map(|c| of(list.table, &c.name, &c.name)),
    );
    columns.extend(
        detail
            .columns
            .iter()
            .filter(custom)
            .map(|c| of(detail.table, &c.name, &c.name)),
    );
    columns.push(of(list.table, "extra", "extra"));
    columns.push(of(detail.table, "extra", "detail_extra"));
    columns.push(of(list.table, "synced_at", "synced_at"));
    columns.push(of(detail.table, "fetched_at", "fetched_at"));
    debug_assert!(columns.iter().filter(|c| c.table == object.table()).count() > 1);
    columns
}

impl Batch<'_> {
    pub(super) fn drop_views(&self) -> Result<(), StoreError> {
        for object in Object::ALL {
            self.tx
                .execute_batch(&format!("DROP VIEW IF EXISTS {}", object.full_view()))
                .doing("remake the views")?;
        }
        Ok(())
    }

    pub(super) fn remake_views(&self) -> Result<(), StoreError> {
        self.drop_views()?;
        for object in Object::ALL {
            let (list, detail) = (self.shapes.list(object), self.shapes.detail(object));
            let shown: Vec<String> = columns(object, &list, &detail)
                .iter()
                .map(|c| {
                    let alias = if c.table == list.table { "r" } else { "d" };
                    if c.column == c.name {
                        format!("{alias}.{}", c.name)
                    } else {
                        format!("{alias}.{} AS {}", c.column, c.name)
                    }
                })
                .collect();
            // `d.etag IS r.etag` says the same, but only to SQLite: DuckDB parses the views of the files that it reads.
            let sql = format!(
                "CREATE VIEW {view} AS SELECT {shown}, (d.{key} IS NOT NULL AND \
                 coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current \
                 FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id",
                view = object.full_view(),
                shown = shown.join(", "),
                table = list.table,
                details = detail.table,
                key = detail.key,
            );
            self.tx.execute_batch(&sql).doing("remake the views")?;
        }
        Ok(())
    }
}
