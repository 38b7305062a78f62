//! The metadata with which Datasette shows a mirror well: `crm-mirror describe --format datasette`.
//!
//! The document is JSON, which Datasette accepts. Titles and descriptions come from the data dictionary, the queries
//! from `docs/sql.md`, limited to those that this mirror's custom fields can answer. It has no facets: each would count
//! the whole table whenever the table is shown.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::cli::recipes;
use crate::store::guide::{self, ColumnLine};
use crate::store::{ReadTx, Reader, StoreError};

pub(super) fn metadata(database: &Path, reader: &Reader, moment: &ReadTx<'_>) -> Result<Value, StoreError> {
    let name = database.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let of_database = json!({
        "title": "CRM mirror",
        "description": "A copy of a CRM workspace. Start with contacts_full and companies_full.",
        "tables": tables(moment)?,
        "queries": queries(reader),
    });
    Ok(json!({"title": "CRM mirror", "databases": Map::from_iter([(name, of_database)])}))
}

fn tables(tx: &ReadTx<'_>) -> Result<Map<String, Value>, StoreError> {
    let mut tables = Map::new();
    for table in guide::tables(tx)? {
        let columns = guide::columns(tx, &table.name)?;
        let mut about = Map::new();
        about.insert("description".into(), sentence(&table.about).into());
        let meanings: Map<String, Value> =
            columns.iter().filter_map(|column| Some((column.name.clone(), meaning(column)?.into()))).collect();
        if !columns.is_empty() {
            about.insert("columns".into(), meanings.into());
            let sortable: Vec<&str> =
                columns.iter().filter(|column| can_sort(column)).map(|column| column.name.as_str()).collect();
            about.insert("sortable_columns".into(), json!(sortable));
        }
        if let Some(label) = label(&table.name) {
            about.insert("label_column".into(), label.into());
        }
        tables.insert(table.name, about.into());
    }
    for table in guide::internal_tables(tx)? {
        tables.insert(table, json!({"hidden": true}));
    }
    Ok(tables)
}

fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A column's label, description and options, if it has any.
fn meaning(column: &ColumnLine) -> Option<String> {
    let options: Vec<&str> =
        column.options.iter().map(|option| option.label.as_deref().unwrap_or(&option.value)).collect();
    let parts: Vec<String> =
        [column.label.clone(), column.about.clone(), (!options.is_empty()).then(|| options.join(", "))]
            .into_iter()
            .flatten()
            .collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// Whether the column sorts meaningfully. Exact decimals are text: `_num` is next to them.
fn can_sort(column: &ColumnLine) -> bool {
    let plain = ["extra", "detail_extra", "notes", "fields", "record", "logo"];
    !matches!(column.data_type.as_str(), "DECIMAL" | "LONG_TEXT" | "MULTI_SELECT" | "value" | "json" | "etag")
        && !plain.contains(&column.name.as_str())
}

/// The column that represents a row in links from other tables.
fn label(table: &str) -> Option<&'static str> {
    match table {
        "contacts" | "companies" => Some("name"),
        "team_members" => Some("email"),
        "custom_field_definitions" => Some("label"),
        _ => None,
    }
}

/// The recipes that this mirror can answer: others use custom fields that it does not have.
fn queries(reader: &Reader) -> Map<String, Value> {
    recipes::all()
        .into_iter()
        .filter(|recipe| recipe.section == "Twenty questions" && reader.prepare(&recipe.sql).is_ok())
        .map(|recipe| {
            let name: String = recipe
                .title
                .to_lowercase()
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join("-");
            let query = json!({
                "title": recipe.title,
                "description": recipe.about,
                "sql": recipe.sql.trim().trim_end_matches(';'),
            });
            (name, query)
        })
        .collect()
}
