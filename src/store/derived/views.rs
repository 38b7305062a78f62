//! `contacts_full` and `companies_full`: record and detail in one row, with active custom fields and the names of the
//! owner and the company.
//!
//! The views are recreated inside the transaction that changes the columns, so no reader finds one missing. Every join is an
//! outer join by a unique key, so SQLite skips those whose columns a query does not use.
//!
//! # `contact_history` and `company_history`
//! Every value of every field, with the time it was valid (a slowly changing dimension of type 2), from `changes`, the current
//! rows, the columns of archived fields, and the values that a field had before its type changed. A value ends with the next one,
//! or when its field is archived or gets another type.
//!
//! SQLite reads a few records by index, also those of a join or a subquery, only if a column has the same affinity in every
//! part of the UNION. No index can be used for an expression: without statistics SQLite would prefer an index of times, or of
//! objects, to that of records, and read half of all changes for the state of one record. DuckDB misprints a unary plus,
//! which would do the same.

use crate::model::Object;
use crate::store::records::shape::{is_number, with_details};
use crate::store::table_shapes::From;
use crate::store::{
    DerivedTx, POINTERS, Pointer, Result, Shape, Statements, ViewColumn, accepted_values, history_view, physical,
};

/// A text column as an expression without affinity. An index on the same expression serves filters on it.
pub(in crate::store) fn as_written(column: &str) -> String {
    format!("coalesce({column}, NULL)")
}

impl DerivedTx<'_> {
    pub(in crate::store) fn drop_views(&self) -> Result<()> {
        self.remove_user_objects()?;
        for object in Object::ALL {
            for view in [object.full_view(), history_view(object)] {
                self.batch(&format!("DROP VIEW IF EXISTS {view}"))?;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn rebuild_views(&self) -> Result<()> {
        self.drop_views()?;
        for object in Object::ALL {
            let (list, detail) = (self.tx.shapes().list(object), self.tx.shapes().detail(object));
            // A trigger must see a value as it was written: an expression has no affinity that would convert it to text
            // first. DuckDB, which parses the views of SQLite files, supports `coalesce` of a text, but not `+`.
            let editable = self.tx.edits().editable(object)?;
            let columns = self.tx.shapes().view(object);
            let shown: Vec<String> = columns
                .iter()
                .map(|column| {
                    let (sql, field) = (column.from.sql(), editable.get(&column.name));
                    let is_rounded = field.is_some_and(accepted_values::could_be_rounded);
                    format!("{} AS {}", if is_rounded { as_written(&sql) } else { sql }, column.name)
                })
                .collect();
            let joins: Vec<String> = POINTERS
                .iter()
                .filter(|pointer| list.place(pointer.from).is_some())
                .map(|Pointer { from, key, .. }| format!("LEFT JOIN {key} = r.{from}"))
                .collect();
            // `d.etag IS r.etag` is equivalent, but DuckDB cannot parse it.
            let sql = format!(
                "CREATE VIEW {view} AS SELECT {shown}, (d.{key} IS NOT NULL AND \
                 coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current \
                 FROM {records} {joins}",
                joins = joins.join(" "),
                view = object.full_view(),
                shown = shown.join(", "),
                records = with_details(object),
                key = detail.key,
            );
            self.batch(&sql)?;
            let mut archived = Vec::new();
            for (table, is_detail) in [(list.table, false), (detail.table, true)] {
                let names = physical(&self.tx.conn, table)?.into_iter().filter(|name| name.starts_with("archived_"));
                archived.extend(names.map(|name| (name, is_detail)));
            }
            let history = create_history(object, &list, &detail, columns, &archived);
            self.batch(&history)?;
        }
        self.tx.edits().make_edit_triggers()?;
        self.tx.edits().make_table_guards()?;
        self.restore_user_objects()?;
        self.note_objects()
    }
}

/// Pairs in one `json_object`. SQLite accepts 127 arguments, and some builds accept 100 (the JDBC driver); a build that
/// accepts fewer could not read the file at all.
const PAIRS: usize = 25;

/// Whether a change `e` of a record determines the value of a column `f.key`.
const TOUCHES: &str = "(e.kind IN ('insert', 'remove') OR json_type(e.fields, '$.\"' || f.key || '\"') IS NOT NULL)";

/// Whether an entry `e` of the columns ends every value of a column.
pub(in crate::store) fn ends(column: &str) -> String {
    format!(
        "e.kind = 'schema' AND json_extract(e.fields, '$.column') = {column} \
         AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed')"
    )
}

/// A value as an argument of a JSON function, which by itself keeps 15 digits of a double.
pub(in crate::store) fn json_argument(value: &str) -> String {
    format!(
        "CASE WHEN typeof({value}) = 'real' AND abs({value}) < 9e999 THEN json(printf('%!.17g', {value})) ELSE {value} END"
    )
}

/// `archived` are the columns of archived fields, and whether each is of the detail.
pub(in crate::store) fn create_history(
    object: Object,
    list: &Shape,
    detail: &Shape,
    columns: Vec<ViewColumn>,
    archived: &[(String, bool)],
) -> String {
    let pair = |name: &str, value: String, shape: &Shape, source: &str| match is_number(object, shape, source) {
        true => format!("'{name}', {}", json_argument(&value)),
        false => format!("'{name}', {value}"),
    };
    let mut pairs: Vec<String> = columns
        .into_iter()
        .filter(|column| !["id", "synced_at", "fetched_at"].contains(&column.name.as_str()))
        .filter_map(|column| match column.from {
            From::List(source) | From::Detail(source) if source.starts_with("archived_") => None,
            From::List(source) => Some(pair(&column.name, format!("r.{source}"), list, &source)),
            From::Detail(source) => Some(pair(&column.name, format!("d.{source}"), detail, &source)),
            From::Name(_) => None,
        })
        .collect();
    let plain = |name: &str| name.strip_prefix("archived_").unwrap_or(name).to_string();
    pairs.extend(archived.iter().map(|(name, is_detail)| {
        let value = format!("{}.{name}", if *is_detail { "d" } else { "r" });
        format!("'{}', {}", plain(name), json_argument(&value))
    }));
    let parts: Vec<String> = pairs.chunks(PAIRS).map(|pairs| format!("json_object({})", pairs.join(", "))).collect();
    let ended = |column: &str, which: &str| {
        format!(
            "(SELECT e.seen_at FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = '' AND {} {which} LIMIT 1)",
            ends(column)
        )
    };
    let mut names: Vec<String> = archived.iter().map(|(name, _)| format!("'{}'", plain(name))).collect();
    // A list that is empty is SQL of SQLite alone.
    names.push("''".into());
    let is_archived = format!("f.key IN ({})", names.join(", "));
    format!(
        "CREATE VIEW {view} (
    id, -- the record's id
    column_name, -- the column of the _full view
    value, -- what it held
    valid_from, -- since when, UTC; NULL: since before the history
    valid_to -- until when, UTC; NULL: still
) AS
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[1]'), CAST(c.seen_at AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id IN (c.record_id, '')
     AND e.seq > c.seq AND (e.kind <> 'schema' AND {TOUCHES} OR {ends}) ORDER BY e.seq LIMIT 1) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = '{object}' AND c.kind IN ('insert', 'update')
UNION ALL
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[0]'), CAST(NULL AS TEXT),
    CAST(coalesce({ended_before}, c.seen_at) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = '{object}' AND c.kind IN ('update', 'remove') AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = c.record_id AND e.seq < c.seq
    AND {TOUCHES})
UNION ALL
SELECT r.id, coalesce(f.key, NULL), coalesce(f.value, NULL), CAST(NULL AS TEXT), CAST({archived_at} AS TEXT)
FROM {records}
CROSS JOIN json_each(json_array({parts})) AS p CROSS JOIN json_each(p.value) AS f
WHERE f.value IS NOT NULL AND (NOT {is_archived} OR {archived_at} IS NOT NULL) AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = r.id AND {TOUCHES})
UNION ALL
SELECT f.record_id, coalesce(f.key, NULL), json_extract(f.value, '$'), CAST(NULL AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.seq = f.ended_by) AS TEXT)
FROM (SELECT record_id, column_name AS key, value, ended_by FROM ended_values WHERE object_type = '{object}') AS f
WHERE NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = '{object}' AND e.record_id = f.record_id AND {TOUCHES})",
        view = history_view(object),
        ends = ends("f.key"),
        ended_before = ended("f.key", "AND e.seq < c.seq ORDER BY e.seq"),
        archived_at = ended("f.key", &format!("AND {is_archived} ORDER BY e.seq DESC")),
        records = with_details(object),
        parts = parts.join(", "),
    )
}
