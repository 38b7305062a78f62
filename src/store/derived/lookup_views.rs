//! `contacts_lookup` and `companies_lookup`: the columns of the `_full` views, for the right side of a `LEFT JOIN`.
//!
//! SQLite flattens a view on the right side of a `LEFT JOIN` only if the view itself contains no join; otherwise it
//! materializes the whole view. These views read one table and everything else with subqueries by key: looking up a row
//! by id is fast, and a scan of all columns is slower than with the `_full` views.

use super::view_columns::{From, ViewColumn};
use crate::model::catalogue::Object;
use crate::store::program_objects::lookup_view;
use crate::store::records::shape::Shape;

pub(in crate::store) fn create(object: Object, list: &Shape, detail: &Shape, columns: &[ViewColumn]) -> String {
    let of_detail =
        |expression: &str| format!("(SELECT {expression} FROM {} AS d WHERE d.{} = r.id)", detail.table, detail.key);
    let shown: Vec<String> = columns
        .iter()
        .map(|column| {
            let expression = match &column.from {
                From::Detail(source) => of_detail(&format!("d.{source}")),
                From::Name { expression, join, .. } => {
                    let (table, condition) = join.split_once(" ON ").unwrap_or((join, "1"));
                    let table = table.trim_start_matches("LEFT JOIN ");
                    format!("(SELECT {expression} FROM {table} WHERE {condition})")
                }
                other => other.sql(),
            };
            format!("{expression} AS {}", column.name)
        })
        .collect();
    let current = of_detail("coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)");
    format!(
        "CREATE VIEW {} AS SELECT {}, coalesce({current}, 0) AS details_current FROM {} AS r",
        lookup_view(object),
        shown.join(", "),
        list.table
    )
}
