//! `contact_history` and `company_history`: every value that a field ever had, with the time it was valid (a slowly
//! changing dimension of type 2).
//!
//! The views follow from `changes` and the present rows; nothing is stored twice. `valid_from` is NULL where the value is
//! older than the history, `valid_to` where it is the present one. They are made again with the `_full` views, whose
//! columns they name.

use super::view_columns::{self as views, From};
use crate::model::catalogue::Object;
use crate::store::records::shape::Shape;

/// Arguments of one `json_object`: SQLite takes 127 at most.
const PAIRS: usize = 60;

/// The view of an object's history.
pub(in crate::store) const fn name(object: Object) -> &'static str {
    match object {
        Object::Contact => "contact_history",
        Object::Company => "company_history",
    }
}

/// Whether a change `e` of a record says what a column `f.key` held from then on.
const TOUCHES: &str = "(e.kind IN ('insert', 'remove') OR json_type(e.fields, '$.\"' || f.key || '\"') IS NOT NULL)";

/// The statement that makes the view.
pub(in crate::store) fn create(object: Object, list: &Shape, detail: &Shape) -> String {
    let pairs: Vec<String> = views::columns(list, detail)
        .into_iter()
        .filter(|column| !["id", "synced_at", "fetched_at"].contains(&column.name.as_str()))
        .filter_map(|column| match column.from {
            From::List(source) => Some(format!("'{}', r.{source}", column.name)),
            From::Detail(source) => Some(format!("'{}', d.{source}", column.name)),
            From::Name(..) => None,
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
SELECT c.record_id, f.key, json_extract(f.value, '$[1]'), c.seen_at,
    (SELECT e.seen_at FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = c.record_id AND e.seq > c.seq
     AND {TOUCHES} ORDER BY e.seq LIMIT 1)
FROM changes AS c JOIN json_each(c.fields) AS f
WHERE c.object_type = '{object}' AND c.kind IN ('insert', 'update')
UNION ALL
SELECT c.record_id, f.key, json_extract(f.value, '$[0]'), NULL, c.seen_at
FROM changes AS c JOIN json_each(c.fields) AS f
WHERE c.object_type = '{object}' AND c.kind IN ('update', 'remove') AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = c.record_id AND e.seq < c.seq
    AND {TOUCHES})
UNION ALL
SELECT r.id, f.key, f.value, NULL, NULL
FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id
JOIN json_each(json_array({parts})) AS p JOIN json_each(p.value) AS f
WHERE f.value IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = r.id AND {TOUCHES})",
        view = name(object),
        table = list.table,
        details = detail.table,
        key = detail.key,
        parts = parts.join(", "),
    )
}
