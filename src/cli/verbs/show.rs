//! `crm-mirror show`: one record, now or at an earlier time.

use serde_json::Value;

use crate::cli::{Failure, Global, objects, output};
use crate::exit::Exit;
use crate::format::plain;
use crate::model::{Instant, Object};
use crate::store::Reader;
use crate::store::record::{self, RecordView};

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
}

pub(super) fn time(text: &str) -> Result<Instant, &'static str> {
    let whole_day = format!("{text}T00:00:00Z");
    let at = text
        .parse()
        .or_else(|_| whole_day.parse())
        .map_err(|_| "must be a time such as 2026-03-01T12:00:00Z, or a day such as 2026-03-01")?;
    if at > Instant::system_now() { Err("is in the future") } else { Ok(at) }
}

pub fn run(global: &Global, args: &ShowArgs) -> Result<Exit, Failure> {
    let database = global.mirror()?;
    let reader = Reader::open(&database)?;
    let moment = reader.begin()?;
    let view = record::record(&moment, args.object, &args.id, args.at)?;
    reader.unchanged()?;
    Ok(output::report(global.json, &view, || text(&view))?)
}

fn text(view: &RecordView) -> String {
    let mut text = format!("{} {}", view.object, plain(&view.id));
    match (&view.at, &view.removed_at) {
        (Some(at), _) => text.push_str(&format!(" as of {at}")),
        (None, Some(at)) => text.push_str(&format!(", removed {at}")),
        (None, None) => {}
    }
    text.push_str("\n\n");
    let rows = view.values.iter().map(|(name, value)| vec![name.clone(), value_text(value)]);
    text.push_str(&output::table(&["column", "value"], &[], rows));
    text
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
