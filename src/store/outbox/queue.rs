//! Puts an edit into the outbox from the program. The triggers queue edits made with SQL; both use the statements of
//! `queue_statements`.

use std::sync::LazyLock;

use rusqlite::ToSql;
use serde_json::Value;

use super::queue_statements::{self, EditedRecord, NEW_FIELDS};
use crate::model::{EditedFields, Etag, Instant, Object, RecordId};
use crate::store::error::{Doing, StoreError};
use crate::store::statements::Statements;
use crate::store::tx::MirrorTx;

const DOING: &str = "queue an edit";

static MERGE: LazyLock<[String; 3]> = LazyLock::new(|| {
    queue_statements::merge(EditedRecord { object: ":object", record: ":record", now: ":now", who: ":who" })
});

static INSERT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO outbox (object_type, record_id, source, undoes, repeats, fields, base_etag, queued_at)
SELECT :object, :record, :source, :undoes, :repeats, {NEW_FIELDS}, :base_etag, :now WHERE {NEW_FIELDS} <> '{{}}'"
    )
});

#[derive(Clone, Debug, PartialEq)]
pub struct NewEdit<'a> {
    pub object: Object,
    pub record: &'a RecordId,
    /// Its source: `edit` or `socket`; the triggers queue edits made with SQL.
    pub source: &'a str,
    /// `{column: [before, after]}`, also for unchanged columns, which cancel a waiting edit.
    pub fields: &'a EditedFields,
    /// The version that it was made on.
    pub base_etag: Option<&'a Etag>,
    /// The applied edit that it reverts.
    pub undoes: Option<i64>,
    /// The finished edit that it tries again.
    pub repeats: Option<i64>,
}

/// Puts an edit into the outbox, with the first entry of its history. Returns its id; `None` if nothing is left to
/// send.
pub fn insert(tx: &MirrorTx<'_>, edit: &NewEdit<'_>, why: &str, now: Instant) -> Result<Option<i64>, StoreError> {
    let conn = &tx.conn;
    conn.execute("DELETE FROM outbox_values", []).doing(DOING)?;
    for (column, (before, after)) in edit.fields {
        let change = Value::from(vec![before.clone(), after.clone()]).to_string();
        conn.run("INSERT INTO outbox_values (column_name, change) VALUES (?1, ?2)", [column, &change], DOING)?;
    }
    let (record, etag, now) = (edit.record.as_str(), edit.base_etag.map(Etag::as_str), now.to_string());
    let object = edit.object.as_str();
    let who = tx.author.borrow();
    let values: [(&str, &dyn ToSql); 9] = [
        (":object", &object),
        (":record", &record),
        (":base_etag", &etag),
        (":source", &edit.source),
        (":undoes", &edit.undoes),
        (":repeats", &edit.repeats),
        (":why", &why),
        (":now", &now),
        (":who", &*who),
    ];
    let execute = |sql: &str| -> Result<usize, StoreError> {
        let mut stmt = conn.prepare_cached(sql).doing(DOING)?;
        for (name, value) in values {
            if let Some(index) = stmt.parameter_index(name).doing(DOING)? {
                stmt.raw_bind_parameter(index, value).doing(DOING)?;
            }
        }
        stmt.raw_execute().doing(DOING)
    };
    execute(queue_statements::EFFECT)?;
    for sql in &*MERGE {
        execute(sql)?;
    }
    let queued = (execute(&INSERT)? > 0).then(|| conn.last_insert_rowid());
    if queued.is_some() {
        execute(
            "INSERT INTO outbox_events (outbox_id, at, to_state, who, why) VALUES (last_insert_rowid(), :now, 'queued', :who, :why)",
        )?;
    }
    execute(queue_statements::END)?;
    Ok(queued)
}
