//! Puts an edit into the outbox: the statements that turn the values of one UPDATE into an edit of the record. The
//! triggers of the views execute them in any shell, [`insert`] for `crm-mirror edit`. The values are collected in
//! `outbox_values`.
//!
//! # Invariants
//! - The last edit counts. A value is compared with the value of a waiting or sent edit of the column, and only if
//!   there is none with the record. It is not queued again if the last of them has it and will be sent by itself: an
//!   edit that is held is replaced by an equal one, too.
//! - At most one unsent edit of a record contains a column. A later edit takes its columns from the earlier one; an
//!   edit without columns ends as `replaced`.
//! - Setting the service's value cancels the edit that would change it, unless that one is being sent.
//! - An edit in conflict is not changed: a person resolves it. Nor is one that was sent and is held, in a copy.
//! - The cost of a row does not depend on the number of edits: every statement finds the record's open edits by their
//!   index, and its plan is tested.
//! - A row of an UPDATE without waiting edits opens no temporary table: SQLite makes one for a list of more than two
//!   constants, a grouping, an UPDATE of several rows, and an INSERT of a SELECT into a table with triggers, and each
//!   costs more than the rest of the row. So what only waiting edits need is a trigger of its own (`merge`).

use std::sync::LazyLock;

use rusqlite::params;
use serde::Serialize;
use serde_json::Value;

use super::fields_of;
use crate::model::{EditedFields, Etag, Instant, Object, RecordId};
use crate::store::{MirrorTx, OPEN, Result, Statements};

const GIVEN: EditedRecord<'_> = EditedRecord { object: "?1", record: "?2", now: "?3", who: "?4" };

static MERGE: LazyLock<[String; 3]> = LazyLock::new(|| merge(GIVEN));

static WAITING: LazyLock<String> =
    LazyLock::new(|| format!("SELECT max((SELECT max(o.id) {})) FROM outbox_values WHERE effect = 0", pending(GIVEN)));

static INSERT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO outbox (object_type, record_id, queued_at, source, undoes, base_etag, fields)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, {NEW_FIELDS} WHERE {NEW_FIELDS} <> '{{}}'"
    )
});

#[derive(Clone, Debug, PartialEq)]
pub struct NewEdit<'a> {
    pub object: Object,
    pub record: &'a RecordId,
    /// `edit`, `undo` or `assistant`; the triggers queue edits made with SQL.
    pub source: &'a str,
    /// `{column: [before, after]}`, also for unchanged columns, which cancel a waiting edit.
    pub fields: &'a EditedFields,
    pub base_etag: Option<&'a Etag>,
    /// The applied edit that it reverts.
    pub undoes: Option<i64>,
}

/// What became of the values of an edit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueuedValues {
    /// The new edit; `None` if nothing is left to send.
    pub edit: Option<i64>,
    pub fields: EditedFields,
    /// The columns whose waiting edits were cancelled.
    pub cancelled: Vec<String>,
    /// The edit that waits already with the values that are in neither.
    pub waiting: Option<i64>,
}

pub fn insert(tx: &MirrorTx<'_>, edit: &NewEdit<'_>, why: &str, now: Instant) -> Result<QueuedValues> {
    let conn = &tx.conn;
    conn.run("DELETE FROM outbox_values", [])?;
    for (column, (before, after)) in edit.fields {
        let change = Value::from(vec![before.clone(), after.clone()]).to_string();
        conn.run("INSERT INTO outbox_values (column_name, change) VALUES (?1, ?2)", [column, &change])?;
    }
    let (NewEdit { object, record, source, undoes, base_etag, .. }, who) = (edit, tx.author.borrow());
    let [decide, note, replace] = &*MERGE;
    conn.run(EFFECT, [])?;
    conn.run(decide, params![object, record])?;
    conn.run(note, params![object, record, now, *who])?;
    conn.run(replace, params![object, record, now])?;
    let mut queued =
        QueuedValues { waiting: conn.value(&WAITING, params![object, record])?, ..QueuedValues::default() };
    let inserted = conn.change(&INSERT, params![object, record, now, source, undoes, base_etag])?;
    queued.edit = (inserted > 0).then(|| conn.last_insert_rowid());
    let effects: Vec<(String, i64)> = conn.tuples("SELECT column_name, effect FROM outbox_values", [])?;
    for (column, effect) in effects {
        match (effect, edit.fields.get(&column)) {
            (1, Some(change)) => _ = queued.fields.insert(column, change.clone()),
            (2, _) => queued.cancelled.push(column),
            _ => {}
        }
    }
    if let Some(id) = queued.edit {
        let sql = "INSERT INTO outbox_events (outbox_id, at, to_state, who, why) VALUES (?1, ?2, 'queued', ?3, ?4)";
        conn.run(sql, params![id, now, *who, why])?;
    }
    conn.run(END, [])?;
    Ok(queued)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EditedRecord<'a> {
    pub object: &'a str,
    pub record: &'a str,
    pub now: &'a str,
    pub who: &'a str,
}

/// The fields of an edit that the new edit has, or takes back.
const SHARED: &str = "outbox_values AS v ON v.column_name = f.key AND v.effect <> 0";

/// The effect of a value until it is decided on. Only the triggers of the views write it: another row is refused.
pub(super) const EFFECT_OPEN: i64 = -1;

/// Marks the values that the record already has, and those that change something.
pub(super) const EFFECT: &str =
    "UPDATE outbox_values SET effect = json_extract(change, '$[1]') IS NOT json_extract(change, '$[0]')";

pub(super) const NEW_FIELDS: &str =
    "(SELECT json_group_object(column_name, json(change)) FROM outbox_values WHERE effect = 1)";

pub(super) const END: &str = "DELETE FROM outbox_values";

/// The waiting and sent edits of a value's column.
fn pending(EditedRecord { object, record, .. }: EditedRecord<'_>) -> String {
    format!(
        "FROM outbox AS o CROSS JOIN {} AS f
    WHERE o.object_type = {object} AND o.record_id = {record} AND o.{OPEN} AND o.state <> 'conflict'
      AND f.key = outbox_values.column_name",
        fields_of("o")
    )
}

/// Merges the values with the waiting edits of the record, in order.
pub(super) fn merge(of: EditedRecord<'_>) -> [String; 3] {
    let EditedRecord { object, record, now, who } = of;
    let (pending, fields) = (pending(of), fields_of("outbox"));
    let unsent = format!(
        "outbox.object_type = {object} AND outbox.record_id = {record} AND outbox.{OPEN}
    AND outbox.state IN ('queued', 'held') AND outbox.first_sent_at IS NULL
    AND EXISTS (SELECT 1 FROM {fields} AS f JOIN {SHARED})"
    );
    let kept = format!(
        "(SELECT json_group_object(f.key, json(f.value)) FROM {fields} AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0))"
    );
    let taken_back = format!("NOT EXISTS (SELECT 1 FROM {fields} AS f JOIN {SHARED} WHERE v.effect = 1)");
    [
        format!(
            "UPDATE outbox_values SET effect = CASE
  WHEN NOT EXISTS (SELECT 1 {pending}) THEN effect
  WHEN (SELECT o.state <> 'held' AND json_extract(f.value, '$[1]') IS json_extract(change, '$[1]') {pending} ORDER BY o.id DESC LIMIT 1) THEN 0
  WHEN json_extract(change, '$[1]') IS json_extract(change, '$[0]')
    AND NOT EXISTS (SELECT 1 {pending} AND (o.state = 'sending' OR o.first_sent_at IS NOT NULL)) THEN 2
  ELSE 1 END"
        ),
        // The history of the edits that this one replaces, completely or in part.
        format!(
            "INSERT INTO outbox_events (outbox_id, at, from_state, who, to_state, why)
SELECT outbox.id, {now}, outbox.state, {who}, CASE WHEN {kept} <> '{{}}' THEN outbox.state WHEN {taken_back} THEN 'dropped' ELSE 'replaced' END,
  CASE WHEN {taken_back} THEN 'taken back: ' ELSE 'replaced by a later edit before it was sent: ' END
    || (SELECT group_concat(f.key, ', ') FROM {fields} AS f JOIN {SHARED})
FROM outbox WHERE {unsent}"
        ),
        format!(
            "UPDATE outbox SET fields = CASE {kept} WHEN '{{}}' THEN fields ELSE {kept} END,
  state = CASE WHEN {kept} <> '{{}}' THEN state WHEN {taken_back} THEN 'dropped' ELSE 'replaced' END,
  finished_at = CASE {kept} WHEN '{{}}' THEN {now} END
WHERE {unsent}"
        ),
    ]
}

/// The statement in the trigger of a view that starts [`merge`], which is a trigger of `outbox`: SQLite has no other
/// way to execute statements under a condition. Nothing else updates this column.
pub(super) fn start_merge(object: Object, record: &str) -> String {
    format!(
        "UPDATE outbox SET source = source WHERE id = (SELECT id FROM outbox
  WHERE object_type = '{object}' AND record_id = {record} AND {OPEN} LIMIT 1) AND EXISTS (SELECT 1 FROM outbox_values)"
    )
}
