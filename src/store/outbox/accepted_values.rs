//! Which values a column accepts, as SQL: the condition on a new value, its stored form, and the error message.
//! `outbox::validate` implements the same rules in Rust, and validates again before anything is sent.

use crate::model::editable::{LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::model::{DataType, Editable};

/// White space by Unicode; the service requires another character in the texts of a company.
const SPACES: &str =
    "char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200, 8201,
    8202, 8232, 8233, 8239, 8287, 12288)";

/// The largest whole number that is a double and to which no other whole number is rounded: 2^53 - 1.
const EXACT: i64 = 9_007_199_254_740_991;

/// Splits the text of a timestamp, and gives the canonical form of a valid one: `[seconds][fraction][zone]`.
const TIMESTAMP: &str = "CASE WHEN t.seconds IS strftime('%Y-%m-%dT%H:%M:%S', t.seconds, '+0 days')
    AND (t.fraction = '' OR t.fraction GLOB '.[0-9]*' AND length(t.fraction) <= 7
         AND substr(t.fraction, 2) NOT GLOB '*[^0-9]*')
  THEN strftime('%Y-%m-%dT%H:%M:%S', t.seconds || t.zone)
         || '.' || substr(substr(t.fraction, 2) || '000000', 1, 6) || 'Z' END";

/// Whether a number may have been rounded before a trigger sees it, because its column would convert it to text.
pub(in crate::store) fn could_be_rounded(field: &Editable) -> bool {
    matches!(field.data_type, None | Some(DataType::ShortText | DataType::LongText | DataType::Decimal))
}

/// The condition that a number may have been rounded, and the error's hint; `None` if every value arrives exactly.
pub(super) fn rounded(field: &Editable) -> Option<(String, String)> {
    let new = format!("NEW.{}", field.column);
    if could_be_rounded(field) {
        let hint =
            format!("SQLite keeps only 15 digits of this number; write it in quotes, as in {} = '12.50'", field.column);
        return Some((format!("typeof({new}) = 'real'"), hint));
    }
    // The column turns a double without a fraction into an integer. From 2^53 on a double may be another number than
    // the one that was written; an integer that no double equals was written as such, and so was the least of all.
    let condition = format!(
        "typeof({new}) = 'integer' AND {new} IS NOT OLD.{column} AND {new} NOT BETWEEN -{EXACT} AND {EXACT}
    AND {new} = CAST({new} AS REAL) AND {new} <> -9223372036854775807 - 1",
        column = field.column
    );
    let hint = "SQLite may have rounded this number; use crm-mirror edit for such large numbers".into();
    (field.data_type == Some(DataType::Integer)).then_some((condition, hint))
}

pub(super) fn definition(field: &Editable) -> String {
    format!(
        "(SELECT d.id FROM custom_field_definitions AS d WHERE d.object_type = '{}' AND d.column_name = '{}')",
        field.object, field.column
    )
}

/// Whether the column accepts the value, if that is not NULL.
fn value(field: &Editable) -> String {
    let new = format!("NEW.{}", field.column);
    let text = format!("typeof({new}) IN ('text', 'integer')");
    let Some(data_type) = field.data_type else {
        let is_blank = format!(" AND trim({new}, {SPACES}) <> ''");
        return text + field.object.pick("", is_blank.as_str());
    };
    match data_type {
        DataType::ShortText => format!("{text} AND length({new}) <= {SHORT_TEXT}"),
        DataType::LongText => format!("{text} AND length({new}) <= {LONG_TEXT}"),
        DataType::Integer => format!("typeof({new}) = 'integer'"),
        DataType::Boolean => format!("typeof({new}) = 'integer' AND {new} IN (0, 1)"),
        DataType::Decimal => {
            let digits = format!("ltrim(CAST({new} AS TEXT), '-')");
            format!(
                "{text} AND CAST({new} AS TEXT) NOT GLOB '-[-]*' AND {digits} NOT GLOB '*[^0-9.]*' AND {digits} GLOB '[0-9]*'
    AND {digits} GLOB '*[0-9]' AND {digits} NOT GLOB '*.*.*'
    AND instr({digits} || '.', '.') <= 21 AND length(substr({digits}, instr({digits} || '.', '.') + 1)) <= 10"
            )
        }
        DataType::Date => format!("typeof({new}) = 'text' AND {new} IS date({new}, '+0 days') AND {new} >= '0001'"),
        DataType::DateTime => {
            let at = timestamp(&new);
            format!("typeof({new}) = 'text' AND {at} GLOB '[0-9][0-9][0-9][0-9]-*' AND {at} >= '0001'")
        }
        DataType::SingleSelect => format!(
            "typeof({new}) = 'text' AND EXISTS (SELECT 1 FROM custom_field_options AS o WHERE o.definition_id = {}
    AND o.value = {new})",
            definition(field)
        ),
        DataType::MultiSelect => format!(
            "CASE WHEN typeof({new}) <> 'text' THEN 0 WHEN json_valid({new}) = 0 THEN 0
    WHEN json_type({new}) <> 'array' THEN 0 WHEN json_array_length({new}) > {MULTI_SELECT} THEN 0
    WHEN (SELECT count(DISTINCT j.value) FROM json_each({new}) AS j) < json_array_length({new}) THEN 0
    ELSE NOT EXISTS (SELECT 1 FROM json_each({new}) AS j WHERE j.type <> 'text' OR j.value NOT IN (
      SELECT o.value FROM custom_field_options AS o WHERE o.definition_id = {})) END",
            definition(field)
        ),
        DataType::Unknown => "0".into(),
    }
}

/// The canonical form of a timestamp; NULL if it is invalid.
fn timestamp(new: &str) -> String {
    format!(
        "(SELECT {TIMESTAMP} FROM (
    SELECT z.seconds AS seconds, z.zone AS zone, substr(z.rest, 1, length(z.rest) - length(z.zone)) AS fraction FROM (
      SELECT substr({new}, 1, 19) AS seconds, substr({new}, 20) AS rest,
        CASE WHEN {new} GLOB '*Z' THEN 'Z' WHEN {new} GLOB '*[+-][0-9][0-9]:[0-9][0-9]'
          THEN substr({new}, -6) ELSE ' none' END AS zone) AS z) AS t)"
    )
}

pub(super) fn condition(field: &Editable) -> String {
    let new = format!("NEW.{}", field.column);
    let empty = match field.data_type {
        Some(DataType::ShortText | DataType::LongText | DataType::SingleSelect) => {
            format!("nullif({new}, '') IS NULL")
        }
        Some(DataType::MultiSelect) => format!(
            "({new} IS NULL OR CASE WHEN json_valid({new}) THEN json_type({new}) = 'array' AND json_array_length({new}) = 0 END)"
        ),
        _ => format!("{new} IS NULL"),
    };
    // An empty column may be set to empty again.
    let cleared = if field.clearable { "1".into() } else { format!("OLD.{} IS NULL", field.column) };
    // SQLite's functions stop reading a text at U+0000.
    format!("CASE WHEN instr({new}, char(0)) > 0 THEN 0 WHEN {empty} THEN {cleared} ELSE {} END", value(field))
}

/// Whether the new value equals the old one: NULL and an empty text of a standard field are equal.
pub(super) fn same(field: &Editable) -> String {
    let column = &field.column;
    match field.data_type {
        None => format!("nullif(CAST(NEW.{column} AS TEXT), '') IS nullif(OLD.{column}, '')"),
        Some(_) => format!("NEW.{column} IS OLD.{column}"),
    }
}

pub(super) fn settled(field: &Editable) -> String {
    let new = format!("NEW.{}", field.column);
    match field.data_type {
        Some(DataType::ShortText | DataType::LongText) => format!("nullif(CAST({new} AS TEXT), '')"),
        Some(DataType::SingleSelect) => format!("nullif({new}, '')"),
        None | Some(DataType::Decimal) => format!("CAST({new} AS TEXT)"),
        Some(DataType::MultiSelect) => format!(
            "CASE WHEN {new} IS NOT NULL THEN (SELECT nullif(json_group_array(j.value), '[]') FROM json_each({new}) AS j) || '' END"
        ),
        Some(DataType::DateTime) => timestamp(&new),
        Some(_) => new,
    }
}

pub(super) fn message(field: &Editable) -> String {
    let clears = if field.clearable { "NULL clears it" } else { "it cannot be cleared" };
    format!("{} {}; {clears}", field.column, field.accepts())
}
