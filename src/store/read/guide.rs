//! Reads the data dictionary for `describe` and for the metadata of other tools: the purpose of each table and column.
//!
//! The columns come from `mirror_columns`, which follows the definitions; the purposes of tables are defined here.

use serde::{Deserialize, Serialize};

use crate::model::exclusions::object_of;
use crate::model::{Choice, Exclusions, Object};
use crate::store::{ReadTx, Result, Statements, quoted};

/// The purpose of each table and view with a row per record or item of the service, in the order of the documentation.
const SHAPED: [(&str, &str); 8] = [
    ("contacts_full", "a row per contact with every field: list, detail and active custom fields"),
    ("companies_full", "a row per company with every field: list, detail and active custom fields"),
    ("contacts", "contacts as the service's lists return them, custom fields included"),
    ("contact_details", "what only the detail of a contact returns"),
    ("companies", "companies as the service's lists return them, custom fields included"),
    ("company_details", "what only the detail of a company returns"),
    ("team_members", "team members, who own records"),
    ("custom_field_definitions", "the custom fields, active and archived"),
];

/// The same of those that only the schema describes.
pub(in crate::store) const PLAIN: [(&str, &str); 18] = [
    ("custom_field_options", "the options of select fields, with their labels"),
    ("select_labels", "the labels of select values, by column"),
    ("custom_multi_values", "multi-select values, one row each"),
    ("changes", "changes since the first copy, field by field"),
    ("change_fields", "changes, one row per field"),
    ("contact_history", "every value that a contact's fields had, with the time it was valid"),
    ("company_history", "every value that a company's fields had, with the time it was valid"),
    ("removed_records", "records that the service no longer has, as they last were"),
    ("pending_edits", "edits that are not applied yet, one row per edited column"),
    ("outbox", "edits made in the mirror, and their states"),
    ("outbox_events", "every step of every edit"),
    ("contact_search", "full-text index of contacts"),
    ("company_search", "full-text index of companies"),
    ("search_documents", "the records of the rows of the full-text indexes"),
    ("mirror_columns", "the data dictionary: one row per column"),
    ("sync_runs", "runs: what each read and what it cost"),
    ("audits", "counts of the mirror compared with counts of the service"),
    ("service_oddities", "anomalies: where the service breaks its own documentation"),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableLine {
    pub name: String,
    /// `table` or `view`.
    pub kind: String,
    pub about: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnLine {
    pub name: String,
    /// What it holds: `text`, `timestamp`, `DECIMAL`, …
    #[serde(rename = "type")]
    pub data_type: String,
    pub label: Option<String>,
    /// The name in the service's answers; `None` for the mirror's own columns.
    pub wire_name: Option<String>,
    /// `list`, `detail`, `custom` or `mirror`.
    pub source: String,
    pub about: Option<String>,
    /// The options of a select field, in the service's order.
    #[serde(default)]
    pub options: Vec<Choice>,
}

/// The purpose of a table or view; empty if it has none here.
pub fn about(name: &str) -> &'static str {
    SHAPED.iter().chain(&PLAIN).find(|(table, _)| *table == name).map_or("", |(_, about)| about)
}

/// The tables and views for queries, the most useful first.
pub fn tables(tx: &ReadTx<'_>) -> Result<Vec<TableLine>> {
    let found: Vec<(String, String)> = tx.tuples(
        "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND
             (name IN (SELECT table_name FROM mirror_columns) OR name IN ('contact_search', 'company_search'))",
        [],
    )?;
    let place = |name: &str| SHAPED.iter().chain(&PLAIN).position(|(table, _)| *table == name);
    let mut tables: Vec<TableLine> =
        found.into_iter().map(|(name, kind)| TableLine { about: about(&name).into(), name, kind }).collect();
    tables.sort_by_key(|table| (place(&table.name).unwrap_or(usize::MAX), table.name.clone()));
    Ok(tables)
}

/// Tables and views that are private: their form may change.
pub fn internal_tables(tx: &ReadTx<'_>) -> Result<Vec<String>> {
    tx.column(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
             AND name NOT IN (SELECT table_name FROM mirror_columns)
             AND name NOT LIKE 'contact\\_search%' ESCAPE '\\' AND name NOT LIKE 'company\\_search%' ESCAPE '\\'
             ORDER BY name",
        [],
    )
}

pub fn rows(tx: &ReadTx<'_>, table: &str) -> Result<u64> {
    tx.count(&format!("SELECT count(*) FROM {}", quoted(table)), [])
}

/// What these entries keep back from others than the mirror itself, by the fields that there are.
pub fn kept_back(tx: &ReadTx<'_>, entries: &[String]) -> Result<Exclusions> {
    let sql = "SELECT key, column_name FROM custom_field_definitions
               WHERE object_type = ?1 AND key IS NOT NULL AND column_name IS NOT NULL";
    let with = |exclusions: Exclusions, object| {
        Ok(exclusions.of_keys(object, &tx.tuples::<(String, String), Vec<_>>(sql, [object])?))
    };
    Object::ALL.into_iter().try_fold(Exclusions::new(entries), with)
}

pub fn columns(tx: &ReadTx<'_>, table: &str) -> Result<Vec<ColumnLine>> {
    let mut columns = columns_without_options(tx, table)?;
    if let Some(object) = object_of(table) {
        for column in columns.iter_mut().filter(|column| column.source == "custom") {
            column.options = options(tx, object, &column.name)?;
        }
    }
    Ok(columns)
}

pub fn columns_without_options(tx: &ReadTx<'_>, table: &str) -> Result<Vec<ColumnLine>> {
    tx.parsed(
        "SELECT column_name AS name, data_type AS type, label, wire_name, source, about
             FROM mirror_columns WHERE table_name = ?1 ORDER BY position",
        [table],
    )
}

/// The first of these columns, given as `column` or `table.column`, that no table has; a custom field may be created later.
pub fn unknown_column(tx: &ReadTx<'_>, names: &[String]) -> Result<Option<String>> {
    let known =
        "SELECT EXISTS (SELECT 1 FROM mirror_columns WHERE column_name = ?2 AND (?1 IS NULL OR table_name = ?1))";
    for name in names {
        let (table, column) =
            name.split_once('.').map_or((None, name.as_str()), |(table, column)| (Some(table), column));
        if Exclusions::check(name).is_some() && !tx.value::<bool>(known, (table, column))? {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

fn options(tx: &ReadTx<'_>, object: Object, column: &str) -> Result<Vec<Choice>> {
    tx.parsed(
        "SELECT o.value, o.label FROM custom_field_definitions AS d
             JOIN custom_field_options AS o ON o.definition_id = d.id
             WHERE d.object_type = ?1 AND d.column_name = ?2 ORDER BY o.position",
        (object, column),
    )
}
