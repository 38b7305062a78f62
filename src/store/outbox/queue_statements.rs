//! The statements that turn the values of one UPDATE into an edit of the record.
//!
//! They are used by the triggers of the views, which run in any shell, and by [`queue`](super::queue) for `crm-mirror
//! edit` and the control socket. The values are collected in `outbox_values`.
//!
//! # Invariants
//! - The last edit counts. A value is compared with the value of a waiting or sent edit of the column, and only if
//!   there is none with the record.
//! - At most one unsent edit of a record contains a column. A later edit takes its columns from the earlier one; an
//!   edit without columns ends as `replaced`.
//! - Setting the service's value cancels the edit that would change it, unless that one is being sent.
//! - An edit in conflict is not changed: a person resolves it. Nor is one that was sent and is held, in a copy.
//! - The cost of a row does not depend on the number of edits: every statement finds the record's open edits by their
//!   index, and its plan is tested.

use super::OPEN;
use crate::model::Object;

/// The parts that differ between a trigger and a call from the program, as SQL expressions.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditOrigin<'a> {
    /// The object of the record.
    pub object: Object,
    /// The record's id.
    pub record: &'a str,
    /// The version that the edit is made on; may aggregate over `column_name`.
    pub base_etag: &'a str,
    /// The source: a value of `outbox.source`.
    pub source: &'a str,
    /// The edit that it reverts.
    pub undoes: &'a str,
    /// The edit that it tries again.
    pub repeats: &'a str,
    /// The first entry of its history.
    pub why: &'a str,
    /// The time.
    pub now: &'a str,
}

/// The fields of an edit as rows; none if they are not JSON.
const FIELDS: &str = "json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END)";

/// The statements, in order. The one at [`INSERT`] creates the edit, if there is one.
pub(super) fn statements(of: &EditOrigin<'_>) -> [String; 8] {
    let EditOrigin { object, record, base_etag, source, undoes, repeats, why, now } = *of;
    let pending = format!(
        "FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{{}}' END) AS f
    WHERE o.object_type = '{object}' AND o.record_id = {record} AND o.{OPEN} AND o.state <> 'conflict'
      AND f.key = outbox_values.column_name"
    );
    let unsent = format!(
        "outbox.object_type = '{object}' AND outbox.record_id = {record} AND outbox.{OPEN}
    AND outbox.state IN ('queued', 'held') AND outbox.first_sent_at IS NULL"
    );
    let shared = format!("EXISTS (SELECT 1 FROM {FIELDS} AS f JOIN outbox_values AS v ON v.column_name = f.key)");
    let kept = format!(
        "(SELECT json_group_object(f.key, json(f.value)) FROM {FIELDS} AS f
    WHERE f.key NOT IN (SELECT column_name FROM outbox_values))"
    );
    let taken_back = format!(
        "NOT EXISTS (SELECT 1 FROM {FIELDS} AS f JOIN outbox_values AS v ON v.column_name = f.key WHERE v.cancels = 0)"
    );
    [
        // Values that change nothing.
        format!(
            "DELETE FROM outbox_values WHERE json_extract(change, '$[1]') IS CASE WHEN EXISTS (SELECT 1 {pending})
  THEN (SELECT json_extract(f.value, '$[1]') {pending} ORDER BY o.id DESC LIMIT 1)
  ELSE json_extract(change, '$[0]') END"
        ),
        format!(
            "UPDATE outbox_values SET cancels = 1 WHERE json_extract(change, '$[1]') IS json_extract(change, '$[0]')
  AND NOT EXISTS (SELECT 1 {pending} AND o.first_sent_at IS NOT NULL)"
        ),
        // The history of the edits that this one replaces, completely or in part.
        format!(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
SELECT outbox.id, {now}, outbox.state, CASE WHEN {kept} <> '{{}}' THEN outbox.state WHEN {taken_back} THEN 'dropped' ELSE 'replaced' END,
  CASE WHEN {taken_back} THEN 'taken back: ' ELSE 'replaced by a later edit before it was sent: ' END
    || (SELECT group_concat(f.key, ', ') FROM {FIELDS} AS f JOIN outbox_values AS v ON v.column_name = f.key)
FROM outbox WHERE {unsent} AND {shared}"
        ),
        format!(
            "UPDATE outbox SET state = CASE WHEN {taken_back} THEN 'dropped' ELSE 'replaced' END, finished_at = {now}
WHERE {unsent} AND {shared} AND {kept} = '{{}}'"
        ),
        format!("UPDATE outbox SET fields = {kept} WHERE {unsent} AND {shared}"),
        format!(
            "INSERT INTO outbox (object_type, record_id, source, undoes, repeats, fields, base_etag, queued_at)
SELECT '{object}', {record}, {source}, {undoes}, {repeats}, json_group_object(column_name, json(change)), {base_etag}, {now}
FROM outbox_values WHERE cancels = 0 GROUP BY NULL"
        ),
        format!(
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
SELECT id, queued_at, NULL, state, {why} FROM outbox WHERE id = last_insert_rowid() AND changes() > 0"
        ),
        "DELETE FROM outbox_values".into(),
    ]
}

/// The index of the statement that creates the edit.
pub(super) const INSERT: usize = 5;
