//! `crm-mirror edit`: queues a change of one record's fields, with or without a daemon; or many edits from the rows of a CSV
//! file, all or none, whose cells are parsed like `field=value`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::app::person;
use crate::cli::ui::cost::EditPrice;
use crate::cli::{Failure, Global, objects, output};
use crate::config::Config;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditedFields, Instant, Object, RecordId, is_unknown, unfit_source};
use crate::outbox::queue;
use crate::outbox::{EditRequest, Given};
use crate::store::queue::QueuedValues;
use crate::store::{Reader, StoreError, outbox_report, write_beside};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror edit contact ct_1 position='Chief Data Officer' cf_tier=gold\n  \
                  crm-mirror edit contact ct_1 \"notes=$(cat notes.txt)\" cf_topics=api,pricing cf_region=\n  \
                  crm-mirror edit company co_1 industry=Media cf_public=true --dry-run\n  \
                  crm-mirror edit contact --from rows.csv --yes")]
pub struct EditArgs {
    /// contact or company.
    #[arg(value_parser = objects())]
    object: Object,
    /// The record's id.
    #[arg(allow_hyphen_values = true, required_unless_present = "from")]
    id: Option<String>,
    /// field=value sets the value, and an empty value clears the field. Separate several options of a multi-select with
    /// commas.
    #[arg(value_name = "FIELD=VALUE", required_unless_present = "from")]
    changes: Vec<String>,
    /// Queue an edit for each row of a CSV file, all or none. The column `id` names the record; every other column is set
    /// to the value of the row, and an empty cell clears the field.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "changes"])]
    from: Option<PathBuf>,
    /// Only show the request that would be sent, as JSON.
    #[arg(long)]
    dry_run: bool,
    /// Queue the edits of a file without asking for confirmation.
    #[arg(long, requires = "from")]
    yes: bool,
}

pub fn run(global: &Global, args: &EditArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    if !config.write_back.enabled {
        if !args.dry_run {
            return Err(off());
        }
        output::note("writing back is disabled: without `--dry-run` this is refused");
    }
    if let Some(file) = &args.from {
        return edit_from_file(&config, file, args, global.json);
    }
    let id = args.id.as_deref().unwrap_or_default();
    let request = EditRequest {
        object: args.object,
        record: RecordId::new(id),
        changes: args.changes.iter().map(|change| given(change)).collect::<Result<_, _>>()?,
    };
    if args.dry_run {
        return Ok(output::json(&queue::prepare(&Reader::open(&config.database)?.begin()?, &request)?)?);
    }
    let queued = write_beside(&config.database, |tx| {
        tx.by(person());
        queue::queue(tx, &request, Instant::system_now())
    })?;
    if global.json {
        return Ok(output::json(&EditReply { object: request.object, id: request.record, queued })?);
    }
    if let Some(edit) = queued.edit {
        output::text(&format!("edit {edit} of {} {id} is queued\n{}", request.object, lines(&queued.fields)))?;
        output::note(&format!(
            "`crm-mirror push` sends what waits at once; `crm-mirror outbox show {edit}` shows what becomes of it"
        ));
    }
    Ok(output::text(&not_queued(&queued))?)
}

/// What became of the values that are not in a new edit.
pub(super) fn not_queued(QueuedValues { edit, cancelled, waiting, .. }: &QueuedValues) -> String {
    let text = match (waiting, edit.is_none() && cancelled.is_empty()) {
        (Some(waiting), true) => format!("nothing to do: edit {waiting} already waits with these values\n"),
        (Some(waiting), false) => format!("edit {waiting} already waits with the other values\n"),
        (None, true) => "nothing to do: the record already has these values\n".into(),
        (None, false) => String::new(),
    };
    if cancelled.is_empty() {
        text
    } else {
        format!("cancelled: the waiting edits of {}\n{text}", cancelled.join(", "))
    }
}

pub(super) fn off() -> Failure {
    Failure::new(Exit::Config, "writing back is disabled: edits are neither accepted nor sent")
        .hint("set `enabled = true` under `[write_back]` in the configuration; the key needs a write scope")
}

pub(super) fn lines(fields: &EditedFields) -> String {
    fields
        .iter()
        .map(|(column, (before, after))| format!("  {column}: {} -> {}\n", shown(before), shown(after)))
        .collect()
}

pub(super) fn shown(value: &Value) -> String {
    output::cut(&whole(value), 60)
}

pub(super) fn whole(value: &Value) -> String {
    match (is_unknown(value), unfit_source(value)) {
        (true, _) => "unknown".into(),
        (false, Some(source)) => format!("{} (does not fit the column)", output::plain(source)),
        (false, None) => output::plain(&value.to_string()),
    }
}

pub(super) fn given(change: &str) -> Result<(String, Given), Failure> {
    let wrong = || Failure::new(Exit::Usage, format!("`{}` is not of the form field=value", output::plain(change)));
    let (name, value) = change.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name.into(), Given::Text(value.into())))
}

const NAMED: usize = 10;

#[derive(Serialize)]
struct EditReply {
    object: Object,
    id: RecordId,
    #[serde(flatten)]
    queued: QueuedValues,
}

#[derive(Serialize)]
struct RowEdits {
    edits: Vec<EditReply>,
    #[serde(flatten)]
    price: EditPrice,
}

impl RowEdits {
    /// Queues an edit for each row, or none if a row is refused, or if this is only a plan.
    fn queue(config: &Config, rows: &[(u64, EditRequest)], is_plan: bool) -> Result<RowEdits, Failure> {
        let (now, mut planned) = (Instant::system_now(), None);
        let done = write_beside(&config.database, |tx| {
            tx.by(person());
            let (mut edits, mut refused, mut lines) = (Vec::new(), Vec::new(), HashMap::new());
            for (line, request) in rows {
                let EditRequest { object, record, changes, .. } = request;
                for (column, _) in changes {
                    if let Some(first) = lines.insert((record, column), line) {
                        refused
                            .push(format!("line {line}: `{column}` of this record is set twice, in line {first} too"));
                    }
                }
                match queue::queue(tx, request, now) {
                    Ok(queued) => edits.push(EditReply { object: *object, id: record.clone(), queued }),
                    Err(StoreError::Refused(why)) => refused.push(format!("line {line}: {why}")),
                    Err(error) => return Err(error.into()),
                }
            }
            if !refused.is_empty() {
                let named: Vec<String> = refused.iter().take(NAMED).map(|why| output::plain(why)).collect();
                let (count, of, named) = (refused.len(), rows.len(), named.join("\n  "));
                let why = format!("{count} of {of} rows cannot be queued, so none was queued:\n  {named}");
                return Err(Failure::new(Exit::Usage, why));
            }
            let ids: HashSet<i64> = edits.iter().filter_map(|of_row| of_row.queued.edit).collect();
            let waiting = outbox_report::edits(tx, false)?;
            let ru = outbox_report::price(waiting.iter().filter(|edit| ids.contains(&edit.id)));
            if !is_plan {
                return Ok((edits, ru));
            }
            planned = Some((edits, ru));
            // With an error nothing is stored.
            Err(Failure::new(Exit::Done, "only planned"))
        });
        let (edits, ru) = planned.map_or(done, Ok)?;
        Ok(RowEdits { edits, price: EditPrice::of(config, ru)? })
    }

    fn text(&self, done: &str) -> String {
        let is_idle = |of_row: &&EditReply| of_row.queued.edit.is_none() && of_row.queued.cancelled.is_empty();
        let nothing = format::counted(self.edits.iter().filter(is_idle).count() as u64, "row", "rows");
        let what = format::counted(count(&self.edits), "edit", "edits");
        let cancelled = match self.cancelled() {
            0 => String::new(),
            count => format!("{} cancelled; ", format::counted(count, "waiting change", "waiting changes")),
        };
        format!("{what} {done}; {cancelled}{nothing} without a change\n{}\n", self.price.text())
    }

    /// The number of fields whose waiting edits were cancelled.
    fn cancelled(&self) -> u64 {
        self.edits.iter().map(|of_row| of_row.queued.cancelled.len() as u64).sum()
    }
}

fn count(edits: &[EditReply]) -> u64 {
    edits.iter().filter(|of_row| of_row.queued.edit.is_some()).count() as u64
}

/// Queues the edits of a file, once a person has seen their price.
fn edit_from_file(config: &Config, file: &Path, args: &EditArgs, json: bool) -> Result<Exit, Failure> {
    let (dry_run, yes) = (args.dry_run, args.yes);
    let rows = read(args.object, file)?;
    let mut edits = RowEdits::queue(config, &rows, !yes || dry_run)?;
    let changing = count(&edits.edits);
    if !yes && !dry_run {
        let question = match changing {
            0 => "Cancel them?".into(),
            _ => format!("Queue {}?", format::counted(changing, "edit", "edits")),
        };
        let asks = changing + edits.cancelled() > 0;
        if asks && !output::confirm(&format!("{}{question}", edits.text("to be queued")))? {
            return Ok(Exit::Done);
        }
        edits = RowEdits::queue(config, &rows, false)?;
    }
    Ok(output::report(json, &edits, || edits.text(if dry_run { "would be queued" } else { "queued" }))?)
}

fn read(object: Object, file: &Path) -> Result<Vec<(u64, EditRequest)>, Failure> {
    let refused = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
    let opened = std::fs::File::open(file).map_err(|e| refused(format!("could not be read: {e}")))?;
    csv_rows(object, opened).map_err(refused)
}

/// The requests of a file's rows, and the line of each.
fn csv_rows(object: Object, file: impl std::io::Read) -> Result<Vec<(u64, EditRequest)>, String> {
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let id = header.iter().position(|name| name == "id").ok_or_else(|| {
        let names = header.iter().collect::<Vec<_>>().join(", ");
        format!("the header has no column `id`, but {names}; columns are separated by commas")
    })?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let changes = header.iter().zip(&record).enumerate().filter(|(place, _)| *place != id);
        let changes = changes.map(|(_, (name, value))| (name.to_string(), Given::Text(value.into()))).collect();
        let record = RecordId::new(&record[id]);
        rows.push((line, EditRequest { object, record, changes }));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_texts() {
        let text = |t: &str| Given::Text(t.into());
        for (change, name, value) in [
            ("position=CTO", "position", text("CTO")),
            ("position=", "position", text("")),
            ("notes=a=b", "notes", text("a=b")),
        ] {
            assert_eq!(given(change).ok(), Some((name.to_string(), value)), "{change}");
        }
        for wrong in ["position", "=x"] {
            assert_eq!(given(wrong).map(drop).unwrap_err().exit(), Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn long_values_are_truncated_in_text() {
        assert_eq!(shown(&json!("x".repeat(100))).chars().count(), 61);
        assert_eq!(shown(&json!("\u{1b}[1m")), "\"\\u001b[1m\"");
    }

    #[test]
    fn rows_are_read_with_their_lines() {
        let text = "position,id,cf_word\nCTO,a,\n\"two\nlines\",b,x\n";
        let rows = csv_rows(Object::Contact, text.as_bytes()).unwrap_or_default();
        let lines: Vec<u64> = rows.iter().map(|row| row.0).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(rows[1].1.record.as_str(), "b");
        let text = |value: &str| Given::Text(value.into());
        assert_eq!(rows[1].1.changes, [("position".into(), text("two\nlines")), ("cf_word".into(), text("x"))]);
        assert!(csv_rows(Object::Contact, "position\nCTO\n".as_bytes()).is_err());
    }
}
