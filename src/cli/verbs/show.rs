//! `crm-mirror show`: one record, now or at an earlier time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::cli::{Failure, Global, MirrorArgs, objects, output};
use crate::exit::Exit;
use crate::format::plain;
use crate::model::{Instant, Object};
use crate::store::record::{self, RecordError, RecordView};
use crate::store::{ColumnLine, Reader, guide};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror show contact ct_01h8x\n  \
                        crm-mirror show company co_01h8x --at 2026-03-01T00:00:00Z --json")]
pub struct ShowArgs {
    /// The kind of record.
    #[arg(value_name = "OBJECT", value_parser = objects())]
    object: Object,
    /// The id.
    #[arg(value_name = "ID")]
    id: String,
    /// Show the record as the mirror saw it at this time: 2026-03-01T12:00:00Z, or a day, which means its beginning in
    /// UTC.
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Instant>,
    #[command(flatten)]
    common: MirrorArgs,
}

pub(super) fn time(text: &str) -> Result<Instant, &'static str> {
    let whole_day = format!("{text}T00:00:00Z");
    let at = text
        .parse()
        .or_else(|_| whole_day.parse())
        .map_err(|_| "must be a time such as 2026-03-01T12:00:00Z, or a day such as 2026-03-01")?;
    if at > Instant::system_now() { Err("is in the future") } else { Ok(at) }
}

#[derive(Serialize)]
struct ShowDocument<'a> {
    #[serde(flatten)]
    view: &'a RecordView,
    labels: &'a BTreeMap<&'a str, ColumnLabels>,
}

#[derive(Serialize)]
struct ColumnLabels {
    field: Option<String>,
    value: Option<String>,
}

pub fn run(global: &Global, args: &ShowArgs) -> Result<Exit, Failure> {
    let database = global.database(args.common.database.as_deref())?;
    let reader = Reader::open(&database)?;
    let moment = reader.begin()?;
    let object = args.object;
    let view = record::record(&moment, object, &args.id, args.at)?;
    let columns = guide::columns(&moment, object.full_view())?;
    let labels = labels(&view, &columns);
    reader.unchanged()?;
    let document = ShowDocument { view: &view, labels: &labels };
    Ok(output::report(args.common.json, &document, || text(&view, &labels))?)
}

fn labels<'a>(view: &RecordView, columns: &'a [ColumnLine]) -> BTreeMap<&'a str, ColumnLabels> {
    let with_labels = columns.iter().filter(|column| column.label.is_some());
    with_labels
        .filter_map(|column| {
            let (_, value) = view.values.iter().find(|(name, _)| *name == column.name)?;
            let value = option_labels(column, value);
            Some((column.name.as_str(), ColumnLabels { field: column.label.clone(), value }))
        })
        .collect()
}

/// The labels of a value's options: one, or one per item of a list.
fn option_labels(column: &ColumnLine, value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let chosen: Vec<String> = match serde_json::from_str::<Vec<String>>(text) {
        Ok(several) if column.data_type == "MULTI_SELECT" => several,
        _ => vec![text.into()],
    };
    if column.options.is_empty() {
        return None;
    }
    let label = |value: &String| {
        let option = column.options.iter().find(|option| option.value == *value);
        option.and_then(|option| option.label.clone()).unwrap_or_else(|| value.clone())
    };
    Some(chosen.iter().map(label).collect::<Vec<String>>().join(", "))
}

fn text(view: &RecordView, labels: &BTreeMap<&str, ColumnLabels>) -> String {
    let mut text = format!("{} {}", view.object, plain(&view.id));
    match (&view.at, &view.removed_at) {
        (Some(at), _) => text.push_str(&format!(" as of {at}")),
        (None, Some(at)) => text.push_str(&format!(", removed {at}")),
        (None, None) => {}
    }
    text.push_str("\n\n");
    let titles = ["column", "label", "value"];
    let rows = view.values.iter().map(|(name, value)| {
        let labels = labels.get(name.as_str());
        let shown = labels.and_then(|labels| labels.value.clone()).unwrap_or_else(|| value_text(value));
        vec![name.clone(), labels.and_then(|labels| labels.field.clone()).unwrap_or_default(), shown]
    });
    text.push_str(&output::render(&titles, &[], rows, false));
    if !view.pending_edits.is_empty() {
        text.push_str("\npending edits\n");
        for edit in &view.pending_edits {
            let after = plain(&value_text(&edit.after));
            let _ = writeln!(text, "  edit {} ({}): {} = {after}", edit.edit, edit.state, plain(&edit.column));
        }
    }
    text
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        match error {
            RecordError::Store(error) => error.into(),
            error @ RecordError::Unknown { .. } => Failure::new(Exit::Usage, error)
                .hint("`crm-mirror sql \"SELECT id, name FROM contacts WHERE name LIKE 'Ada%'\"` finds an id"),
            error => Failure::new(Exit::Usage, error),
        }
    }
}
