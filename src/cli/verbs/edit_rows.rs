//! `crm-mirror edit OBJECT --from FILE`: many edits from the rows of a file, all or none.
//!
//! A CSV file has a header with `id` and the columns to set; every cell is parsed like `field=value`, so an empty one
//! clears the field. In NDJSON every line is an object with `id` and the columns to set, with values as the service
//! writes them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::app::person;
use crate::cli::Failure;
use crate::cli::ui::cost::EditPrice;
use crate::cli::ui::output;
use crate::cli::ui::output::confirm;
use crate::config::Config;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditedFields, HELD_COMMANDS, Instant, Object, RecordId};
use crate::outbox::typed_values::Given;
use crate::outbox::{EditRequest, EditSource, QueueError, queue};
use crate::store::{StoreError, write_beside};

/// The maximum number of rows in an error message.
const NAMED: usize = 10;

#[derive(Serialize)]
pub(super) struct EditReply<'a> {
    /// Its id; null if the record already has these values.
    pub edit: Option<i64>,
    pub object: Object,
    pub id: &'a RecordId,
    pub fields: &'a EditedFields,
}

/// The JSON document of edits from a file.
#[derive(Serialize)]
struct EditReplies<'a> {
    edits: Vec<EditReply<'a>>,
    #[serde(flatten)]
    price: EditPrice,
}

struct EditRow {
    line: u64,
    request: EditRequest,
}

/// The outcome for the rows; nothing is queued if one of them is refused.
#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error("{refused} of {of} rows cannot be queued, so none was queued:\n{lines}")]
    Refused { refused: usize, of: usize, lines: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What becomes of the rows of a file.
struct RowEdits {
    /// Each with its edit, if it changes something.
    rows: Vec<(Option<i64>, RecordId, EditedFields)>,
    price: EditPrice,
}

impl RowEdits {
    /// Queues an edit for each row, or takes all of them back if this is only a plan.
    fn queue(config: &Config, rows: &[EditRow], is_plan: bool) -> Result<RowEdits, Failure> {
        let now = Instant::system_now();
        let (mut queued, mut reads) = (Vec::new(), 0);
        let result = write_beside(&config.database, |tx| {
            tx.by(person());
            let (mut refused, mut lines) = (Vec::new(), HashMap::new());
            for row in rows {
                for (column, _) in &row.request.changes {
                    if let Some(first) = lines.insert((&row.request.record, column), row.line) {
                        let why =
                            format!("  line {}: `{column}` of this record is set twice, in line {first} too", row.line);
                        refused.push(output::plain(&why));
                    }
                }
                match queue(tx, &row.request, EditSource::Edit, now) {
                    Ok((id, prepared)) => {
                        reads += u64::from(id.is_some() && prepared.base_etag.is_none());
                        queued.push((id, row.request.record.clone(), prepared.fields));
                    }
                    Err(QueueError::Store(error)) => return Err(RowsError::Store(error)),
                    Err(error) => refused.push(output::plain(&format!("  line {}: {error}", row.line))),
                }
            }
            if refused.is_empty() && !is_plan {
                return Ok(());
            }
            // An error takes everything back.
            let count = refused.len();
            refused.truncate(NAMED);
            Err(RowsError::Refused { refused: count, of: rows.len(), lines: refused.join("\n") })
        });
        match result {
            Ok(()) | Err(RowsError::Refused { refused: 0, .. }) => {}
            Err(RowsError::Store(error)) => return Err(error.into()),
            Err(error) => return Err(Failure::new(Exit::Usage, error.to_string())),
        }
        let edits = queued.iter().filter(|(edit, ..)| edit.is_some()).count() as u64;
        Ok(RowEdits { rows: queued, price: EditPrice::of(config, edits, reads)? })
    }

    fn edits(&self) -> u64 {
        self.rows.iter().filter(|(edit, ..)| edit.is_some()).count() as u64
    }

    /// Two lines: how many edits, and their price.
    fn text(&self, done: &str) -> String {
        let nothing = format::counted(self.rows.len() as u64 - self.edits(), "row", "rows");
        let what = format::counted(self.edits(), "edit", "edits");
        format!("{what} {done}; {nothing} without a change\n{}\n", self.price.text())
    }
}

/// Queues the edits of a file, once a person has seen their price.
pub(super) fn run(
    config: &Config,
    (object, file): (Object, &Path),
    (dry_run, yes): (bool, bool),
    json: bool,
) -> Result<Exit, Failure> {
    let rows = read(object, file)?;
    let mut edits = RowEdits::queue(config, &rows, !yes || dry_run)?;
    if edits.edits() > config.max_edits {
        output::note(&format!("they are more than `write_back.max_edits` and will be held: {HELD_COMMANDS}"));
    }
    if !yes && !dry_run {
        let question = format!("Queue {}?", format::counted(edits.edits(), "edit", "edits"));
        let what = "this sends edits to the service";
        if edits.edits() > 0 && !confirm(what, &format!("{}{question}", edits.text("to be queued")))? {
            output::note("nothing was changed");
            return Ok(Exit::Done);
        }
        edits = RowEdits::queue(config, &rows, false)?;
    }
    let replies = edits.rows.iter().map(|(edit, id, fields)| EditReply { edit: *edit, object, id, fields });
    let replies = EditReplies { edits: replies.collect(), price: edits.price };
    Ok(output::report(json, &replies, || edits.text(if dry_run { "would be queued" } else { "queued" }))?)
}

fn read(object: Object, file: &Path) -> Result<Vec<EditRow>, Failure> {
    let usage = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let open = || std::fs::File::open(file).map_err(|e| usage(format!("could not be read: {e}")));
    match extension {
        "csv" => csv_rows(object, open()?).map_err(usage),
        "ndjson" | "jsonl" => json_rows(object, BufReader::new(open()?)).map_err(usage),
        _ => Err(usage("is neither .csv nor .ndjson".into())),
    }
}

fn csv_rows(object: Object, file: impl std::io::Read) -> Result<Vec<EditRow>, String> {
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let id = header.iter().position(|name| name == "id").ok_or("the header has no column `id`")?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let changes = header.iter().zip(&record).enumerate().filter(|(place, _)| *place != id);
        let changes = changes.map(|(_, (name, value))| (name.to_string(), Given::Text(value.into()))).collect();
        let record = RecordId::new(&record[id]);
        rows.push(EditRow { line, request: EditRequest { object, record, changes, if_match: None } });
    }
    Ok(rows)
}

fn json_rows(object: Object, file: impl BufRead) -> Result<Vec<EditRow>, String> {
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(file.lines()) {
        let text = text.map_err(|e| format!("line {line}: {e}"))?;
        if text.trim().is_empty() {
            continue;
        }
        let Members(mut members) = serde_json::from_str(&text).map_err(|e| format!("line {line}: {e}"))?;
        let Some(Value::String(id)) = members.remove("id") else {
            return Err(format!("line {line}: `id` is not there, or is not text"));
        };
        let changes = members.into_iter().map(|(name, value)| (name, Given::Json(value))).collect();
        let request = EditRequest { object, record: RecordId::new(id), changes, if_match: None };
        rows.push(EditRow { line, request });
    }
    Ok(rows)
}

/// The members of an object, each once: of two values for a field, none is the one that was meant.
struct Members(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_read_with_their_lines() {
        let text = "position,id,cf_word\nCTO,a,\n\"two\nlines\",b,x\n";
        let rows = csv_rows(Object::Contact, text.as_bytes()).unwrap_or_default();
        let lines: Vec<u64> = rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(rows[1].request.record.as_str(), "b");
        let text = |value: &str| Given::Text(value.into());
        assert_eq!(rows[1].request.changes, [("position".into(), text("two\nlines")), ("cf_word".into(), text("x"))]);

        let lines = "{\"id\": \"a\", \"cf_vip\": true}\n\n{\"id\": \"b\", \"position\": null}\n";
        let rows = json_rows(Object::Contact, lines.as_bytes()).unwrap_or_default();
        assert_eq!((rows[0].line, rows[1].line), (1, 3));
        assert_eq!(rows[0].request.changes, [("cf_vip".into(), Given::Json(json!(true)))]);
        for wrong in
            ["{\"id\": \"a\", \"cf_vip\": true, \"cf_vip\": false}", "{\"cf_vip\": true}", "{\"id\": 7}", "[1]", "{"]
        {
            assert!(json_rows(Object::Contact, wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(csv_rows(Object::Contact, "position\nCTO\n".as_bytes()).is_err());
    }
}
