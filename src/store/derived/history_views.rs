//! `contact_history` and `company_history`: every value of every field, with the time it was valid (a slowly changing
//! dimension of type 2).
//!
//! The views are computed from `changes` and the current rows; nothing is stored twice. `valid_from` is NULL if the
//! value is older than the history, `valid_to` if it is the current one. They are recreated with the `_full` views,
//! whose columns they use.
//!
//! Times are written as `+seen_at`, which no index can be used for: without statistics SQLite prefers the index of times
//! to that of records, and would read half of all changes for the state of one record at a time.

use super::view_columns::{From, ViewColumn};
use crate::model::catalogue::Object;
use crate::store::program_objects::history_view;
use crate::store::records::shape::Shape;

/// Pairs in one `json_object`. SQLite accepts 127 arguments, and some builds accept 100 (the JDBC driver); a build that
/// accepts fewer could not read the file at all.
const PAIRS: usize = 25;

/// Whether a change `e` of a record determines the value of a column `f.key`.
const TOUCHES: &str = "(e.kind IN ('insert', 'remove') OR json_type(e.fields, '$.\"' || f.key || '\"') IS NOT NULL)";

/// The statement that makes the view.
pub(in crate::store) fn create(object: Object, list: &Shape, detail: &Shape, columns: Vec<ViewColumn>) -> String {
    let pairs: Vec<String> = columns
        .into_iter()
        .filter(|column| !["id", "synced_at", "fetched_at"].contains(&column.name.as_str()))
        .filter_map(|column| match column.from {
            From::List(source) => Some(format!("'{}', r.{source}", column.name)),
            From::Detail(source) => Some(format!("'{}', d.{source}", column.name)),
            From::Name { .. } | From::Labels { .. } => None,
        })
        .collect();
    let parts: Vec<String> = pairs.chunks(PAIRS).map(|pairs| format!("json_object({})", pairs.join(", "))).collect();
    format!(
        "CREATE VIEW {view} (
    id, -- the record's id
    column_name, -- the column of the _full view
    value, -- what it held
    valid_from, -- since when, UTC; NULL: since before the history
    valid_to -- until when, UTC; NULL: still
) AS
SELECT c.record_id, f.key, json_extract(f.value, '$[1]'), +c.seen_at,
    (SELECT e.seen_at FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = c.record_id AND e.seq > c.seq
     AND {TOUCHES} ORDER BY e.seq LIMIT 1)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE c.object_type = '{object}' AND c.kind IN ('insert', 'update')
UNION ALL
SELECT c.record_id, f.key, json_extract(f.value, '$[0]'), NULL, +c.seen_at
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE c.object_type = '{object}' AND c.kind IN ('update', 'remove') AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = c.record_id AND e.seq < c.seq
    AND {TOUCHES})
UNION ALL
SELECT r.id, f.key, f.value, NULL, NULL
FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id
CROSS JOIN json_each(json_array({parts})) AS p CROSS JOIN json_each(p.value) AS f
WHERE f.value IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = r.id AND {TOUCHES})",
        view = history_view(object),
        table = list.table,
        details = detail.table,
        key = detail.key,
        parts = parts.join(", "),
    )
}
