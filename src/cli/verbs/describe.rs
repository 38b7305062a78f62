//! `crm-mirror describe`: the data dictionary: the tables, and the meaning of their columns.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::Failure;
use crate::cli::Global;
use crate::cli::args::MirrorArgs;
use crate::cli::ui::output;
use crate::cli::verbs::datasette;
use crate::exit::Exit;
use crate::format;
use crate::store::guide::{self, ColumnLine, TableLine};
use crate::store::{Reader, StoreError};

/// Show what the tables and columns of the mirror mean.
///
/// Without TABLE the tables and views, with TABLE its columns. Custom fields are shown with their labels and options.
/// `--format datasette` prints the metadata with which Datasette shows the mirror well; print it again when the custom
/// fields change.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror describe\n  crm-mirror describe contacts_full\n  \
                        crm-mirror describe contacts_full --json | jq '.columns[].name'\n  \
                        crm-mirror describe --format datasette > metadata.json")]
pub struct DescribeArgs {
    /// The table or view.
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    #[command(flatten)]
    common: MirrorArgs,
    /// How the dictionary is printed.
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["json", "table"])]
    format: DictionaryFormat,
}

/// A form of the data dictionary.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DictionaryFormat {
    /// Columns side by side.
    #[default]
    Text,
    /// A JSON document for `datasette --metadata`.
    Datasette,
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
    let database = global.database(args.common.database.as_deref())?;
    let reader = Reader::open_for_queries(&database)?;
    let moment = reader.begin()?;
    let lines = guide::tables(&moment)?;
    if lines.is_empty() {
        return Err(Failure::new(Exit::Storage, "the mirror is empty: nothing was copied yet")
            .hint("run `crm-mirror sync` to make the first copy"));
    }
    if args.format == DictionaryFormat::Datasette {
        output::json(&datasette::metadata(&database, &reader, &moment)?)?;
        return Ok(Exit::Done);
    }
    let Some(name) = &args.table else {
        let tables: Result<Vec<TableDocument>, StoreError> = lines
            .into_iter()
            .map(|line| Ok(TableDocument { rows: guide::rows(&moment, &line.name)?, line, columns: None }))
            .collect();
        return all(tables?, args.common.json);
    };
    let Some(line) = lines.iter().find(|line| line.name.eq_ignore_ascii_case(name)) else {
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let near: Vec<String> = nearest(name, &names).iter().map(|name| format!("`{name}`")).collect();
        return Err(Failure::new(Exit::Usage, format!("there is no table or view `{}`", output::plain(name)))
            .hint(format!("did you mean {}? `crm-mirror describe` lists them all", near.join(" or "))));
    };
    let table = TableDocument {
        rows: guide::rows(&moment, &line.name)?,
        columns: Some(guide::columns(&moment, &line.name)?),
        line: line.clone(),
    };
    reader.unchanged()?;
    one(&table, args.common.json)
}

fn all(tables: Vec<TableDocument>, json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(&BTreeMap::from([("tables", tables)]))?;
        return Ok(Exit::Done);
    }
    let titles = ["name", "kind", "rows", "purpose"];
    let rows = tables
        .into_iter()
        .map(|table| vec![table.line.name, table.line.kind, format::count(table.rows), table.line.about]);
    output::table(&titles, &[2], rows)?;
    output::text("\n`crm-mirror describe TABLE` shows the columns of one")?;
    Ok(Exit::Done)
}

fn one(table: &TableDocument, json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(table)?;
        return Ok(Exit::Done);
    }
    output::text(&format!(
        "{} ({}, {}): {}\n\n",
        table.line.name,
        table.line.kind,
        format::counted(table.rows, "row", "rows"),
        table.line.about
    ))?;
    let titles = ["column", "type", "label", "wire name", "source", "about"];
    let rows = table.columns.iter().flatten().map(|column| {
        vec![
            column.name.clone(),
            column.data_type.clone(),
            column.label.clone().unwrap_or_default(),
            column.wire_name.clone().unwrap_or_default(),
            column.source.clone(),
            about(column),
        ]
    });
    output::table(&titles, &[], rows)?;
    Ok(Exit::Done)
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

/// Up to three similar names, the most similar first; at least one.
pub(super) fn nearest<'a>(asked: &str, names: &[&'a str]) -> Vec<&'a str> {
    let asked: String = asked.to_lowercase().chars().take(100).collect();
    let mut near: Vec<(usize, &str)> = names.iter().map(|name| (format::distance(&asked, name), *name)).collect();
    near.sort();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter().take_while(|(distance, _)| *distance <= best + 1).take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_found() {
        let names = ["contacts", "contacts_full", "companies", "changes"];
        assert_eq!(nearest("contact", &names), ["contacts"]);
        assert_eq!(nearest("Contacts_ful", &names), ["contacts_full"]);
        assert_eq!(nearest("company", &names), ["companies"]);
        assert!(!nearest("", &names).is_empty());
    }
}
