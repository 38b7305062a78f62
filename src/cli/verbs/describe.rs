//! `crm-mirror describe`: the data dictionary, or the metadata (JSON) with which Datasette shows a mirror well.
//!
//! The metadata has no facets: each would count the whole table whenever the table is shown.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::{Failure, Global, output};
use crate::exit::Exit;
use crate::format;
use crate::store::{ColumnLine, ReadTx, Reader, StoreError, TableLine, guide};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror describe\n  crm-mirror describe contacts_full\n  \
                        crm-mirror describe contacts_full --json | jq '.columns[].name'\n  \
                        crm-mirror describe --format datasette > metadata.json")]
pub struct DescribeArgs {
    /// The table or view.
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    /// Print the dictionary for another program: datasette is a JSON document for `datasette --metadata`.
    #[arg(long, value_parser = ["datasette"], conflicts_with_all = ["json", "table"])]
    format: Option<String>,
}

#[derive(Serialize)]
struct TableDocument {
    #[serde(flatten)]
    line: TableLine,
    rows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<ColumnLine>>,
}

pub fn run(global: &Global, args: &DescribeArgs) -> Result<Exit, Failure> {
    let database = global.mirror()?;
    let reader = Reader::open_for_queries(&database)?;
    let moment = reader.begin()?;
    let lines = guide::tables(&moment)?;
    if lines.is_empty() {
        return Err(Failure::new(Exit::Storage, "the mirror is empty: nothing was copied yet")
            .hint("run `crm-mirror sync` to make the first copy"));
    }
    if args.format.is_some() {
        let name = database.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let of_database = json!({
            "title": "CRM mirror",
            "description": "A copy of a CRM workspace. Start with contacts_full and companies_full.",
            "tables": tables(&moment)?,
        });
        let document = json!({"title": "CRM mirror", "databases": Map::from_iter([(name, of_database)])});
        return Ok(output::json(&document)?);
    }
    let Some(name) = &args.table else {
        let table =
            |line: TableLine| Ok(TableDocument { rows: guide::rows(&moment, &line.name)?, line, columns: None });
        let tables = lines.into_iter().map(table).collect::<Result<Vec<TableDocument>, StoreError>>()?;
        let row = |TableDocument { line, rows, .. }: &TableDocument| {
            vec![line.name.clone(), line.kind.clone(), format::count(*rows), line.about.clone()]
        };
        let text = || output::table(&["name", "kind", "rows", "purpose"], &[2], tables.iter().map(row));
        return Ok(output::report(global.json, &BTreeMap::from([("tables", &tables)]), text)?);
    };
    let Some(line) = lines.into_iter().find(|line| line.name.eq_ignore_ascii_case(name)) else {
        return Err(Failure::new(Exit::Usage, format!("there is no table or view `{}`", output::plain(name)))
            .hint("`crm-mirror describe` lists them all"));
    };
    let (rows, columns) = (guide::rows(&moment, &line.name)?, guide::columns(&moment, &line.name)?);
    reader.unchanged()?;
    let head = format!("{} ({}, {}): {}\n\n", line.name, line.kind, format::counted(rows, "row", "rows"), line.about);
    let titles = ["column", "type", "label", "wire name", "source", "about"];
    let row = |column: &ColumnLine| {
        vec![
            column.name.clone(),
            column.data_type.clone(),
            column.label.clone().unwrap_or_default(),
            column.wire_name.clone().unwrap_or_default(),
            column.source.clone(),
            about(column),
        ]
    };
    let text = head + &output::table(&titles, &[], columns.iter().map(row));
    Ok(output::report(global.json, &TableDocument { line, rows, columns: Some(columns) }, || text)?)
}

/// The meaning of a column; for a select field also its options, `value = label`.
fn about(column: &ColumnLine) -> String {
    let about = column.about.clone().unwrap_or_default();
    if column.options.is_empty() {
        return about;
    }
    let options: Vec<String> = column
        .options
        .iter()
        .map(|option| match &option.label {
            Some(label) if *label != option.value => format!("{} = {label}", option.value),
            _ => option.value.clone(),
        })
        .collect();
    let apart = if about.is_empty() { "" } else { "; " };
    format!("{about}{apart}{}", options.join(", "))
}

fn tables(tx: &ReadTx<'_>) -> Result<Map<String, Value>, StoreError> {
    let mut tables = Map::new();
    for table in guide::tables(tx)? {
        let columns = guide::columns(tx, &table.name)?;
        let meaning = |column: &ColumnLine| {
            let label = column.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
            (column.name.clone(), Value::from(label + &about(column)))
        };
        let meanings: Map<String, Value> = columns.iter().map(meaning).collect();
        tables.insert(table.name, json!({"description": table.about, "columns": meanings}));
    }
    for table in guide::internal_tables(tx)? {
        tables.insert(table, json!({"hidden": true}));
    }
    Ok(tables)
}
