//! What the mirror knows of a record's columns: a value, that there is none, or nothing.
//!
//! NULL alone says nothing: the detail may not have been read, the column may still be filled, or the service's value
//! does not fit it and is kept in `extra`. Nor does any value of a column that the last answer should have shown and
//! did not. The triggers of the views ask the same as SQL ([`unread`], [`unfit`]).

use serde_json::Value;

use crate::model::{Editable, Etag, Extra, MirroredRecord, Object, RecordId, unfit_value, unknown_value};
use crate::store::claims;
use crate::store::records::shape::with_details;
use crate::store::records::unread::unshown_columns;
use crate::store::{Goal, ReadTx, Result, Shapes, Source, Statements, literal};

const CUSTOM: &str = "customFields";

/// The source text of a value that its column cannot hold, as far as this `extra` has it. `has_value`: whether the column
/// has one.
fn unfit_in<'e>(extra: &'e Extra, wire: &str, has_value: bool) -> Option<&'e str> {
    let member = wire.split_once('.').and_then(|(group, name)| {
        // A container of another shape hides what it has for the column, except in a list for those of details.
        let container = extra.get("", group).filter(|_| !has_value);
        container.or_else(|| extra.get(group, name))
    });
    member.or_else(|| extra.get("", wire)).map(String::as_str)
}

/// The record in the mirror, with those of the columns that exist; `None` if it is not mirrored.
pub(in crate::store) fn mirrored(
    tx: &ReadTx<'_>,
    shapes: &Shapes,
    object: Object,
    id: &RecordId,
    columns: &[&str],
) -> Result<Option<MirroredRecord>> {
    let there = columns.iter().filter_map(|column| Some((*column, shapes.source(object, column)?)));
    let there: Vec<(&str, (Source, bool))> = there.collect();
    // Not from the view: a table of a person may be in its place.
    let of = |is_of_detail| if is_of_detail { "d" } else { "r" };
    let name = |(column, (_, detail)): &(&str, (Source, bool))| format!(", {}.{column} AS {column}", of(*detail));
    let names: String = there.iter().map(name).collect();
    let sql = format!(
        "SELECT r.etag AS etag, d.{key} IS NOT NULL AND d.etag IS r.etag AS details_current, d.fetched_at AS fetched_at,
                r.extra AS extra, d.extra AS detail_extra{names}
         FROM {} WHERE r.id = ?1",
        with_details(object),
        key = object.detail_key()
    );
    let Some(row) = tx.objects(&sql, [id])?.pop() else { return Ok(None) };
    let text = |column: &str| row.get(column).and_then(Value::as_str);
    let extras = ["extra", "detail_extra"].map(|column| Extra::from_json(object, text(column).unwrap_or_default()));
    let (details_current, read_at) = (row.get("details_current") == Some(&Value::from(1)), text("fetched_at"));
    let mut known = MirroredRecord { etag: text("etag").map(Etag::from), details_current, ..MirroredRecord::default() };
    let (filled, has_unread) = (tx.goals().filled_fields(object)?, tx.goals().is_set(Goal::UnreadFields(object))?);
    let unshown = unshown_columns(tx, object, id)?;
    for (column, (source, is_of_detail)) in there {
        let value = row.get(column).cloned().unwrap_or_default();
        let (wire, filled_since) = match source {
            Source::Field(index) => (object.fields()[index].wire.to_string(), (!has_unread).then_some(&None)),
            Source::Slot(slot) => {
                let field = &shapes.layout.of(object).fields()[slot];
                (format!("{CUSTOM}.{}", field.key.as_str()), filled.get(&field.definition))
            }
            _ => continue,
        };
        let is_complete = filled_since.is_some();
        if value.is_null() && !(is_complete && (!is_of_detail || read_at.is_some())) {
            known.unread.insert(column.to_string());
        }
        // A list may omit custom values, so only a detail shows that they are of the record's version.
        let is_custom = matches!(source, Source::Slot(_));
        let is_shown = filled_since.and_then(Option::as_deref).is_none_or(|since| read_at > Some(since));
        if !is_complete || (is_of_detail || is_custom) && !(details_current && is_shown) {
            known.unproven.insert(column.to_string());
        }
        let has_value = !value.is_null();
        let unfit = extras.iter().find_map(|extra| unfit_in(extra, &wire, has_value));
        let mut value = unfit.map_or(value, unfit_value);
        if unshown.contains(column) {
            value = unknown_value();
            known.unread.insert(column.to_string());
            known.unproven.insert(column.to_string());
        }
        known.values.insert(column.to_string(), value);
    }
    Ok(Some(known))
}

/// A key as the SQL literals that SQLite's JSON functions may show it as: some versions end a key at U+0000. No SQL
/// text may have that character, so the whole key is written as its bytes.
fn key_literals(key: &str) -> String {
    match key.split_once('\0') {
        Some((start, _)) => {
            let bytes: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("{}, CAST(x'{bytes}' AS TEXT)", literal(start))
        }
        None => literal(key),
    }
}

/// The condition, in a trigger, that the column does not show what the service has.
pub(super) fn unread(field: &Editable, definition: &str) -> String {
    let not_read = if field.detail_only { "OLD.fetched_at IS NULL" } else { "0" };
    let is_incomplete = match field.data_type {
        None => claims::has_unread_fields(field.object),
        Some(_) => claims::is_unfilled(field.object, definition),
    };
    let unshown = format!(
        "EXISTS (SELECT 1 FROM unshown_columns AS u, json_each(u.columns) AS c
    WHERE u.object_type = '{}' AND u.record_id = OLD.id AND c.value = '{}')",
        field.object, field.column
    );
    format!("({not_read} OR OLD.{} IS NULL AND {is_incomplete} OR {unshown})", field.column)
}

/// The condition, in a trigger, that the service has a value that does not fit the column.
pub(super) fn unfit(field: &Editable) -> String {
    let kept = |extra: &str| match field.data_type {
        None => format!("OLD.{extra} IS NOT NULL AND json_type(OLD.{extra}, '$.{}') IS NOT NULL", field.wire),
        Some(_) => format!(
            "OLD.{extra} IS NOT NULL AND CASE json_type(OLD.{extra}, '$.{CUSTOM}') WHEN 'object'
    THEN EXISTS (SELECT 1 FROM json_each(OLD.{extra}, '$.{CUSTOM}') AS x WHERE x.key IN ({}))
    ELSE OLD.{} IS NULL AND json_type(OLD.{extra}, '$.{CUSTOM}') IS NOT NULL END",
            key_literals(&field.wire),
            field.column
        ),
    };
    format!("({} OR {})", kept("extra"), kept("detail_extra"))
}
