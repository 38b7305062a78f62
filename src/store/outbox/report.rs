//! The edits of the outbox: all of them, those of a record, and the history of one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::{Params, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{EditState, EditedFields, Etag, Instant, Object, RecordId, Ru, SqlValue};
use crate::store::outbox::delays::WAITS_FOR;
use crate::store::records::removals::AWAITS_REMOVAL;
use crate::store::{OPEN, ReadTx, Result, Statements, StoreError, StoredTime};

#[derive(Clone, Debug, Serialize)]
pub struct Edit {
    /// Edits of one record are sent in this order.
    pub id: i64,
    pub object: Object,
    pub record: RecordId,
    pub name: Option<String>,
    pub state: EditState,
    /// `sql`, `edit`, `undo` or `assistant`.
    pub source: String,
    pub fields: EditedFields,
    /// In a conflict, the service's values of the columns.
    pub theirs: Option<BTreeMap<String, Value>>,
    pub attempts: u64,
    pub status: Option<u16>,
    /// The service's answer, or why the edit was refused here.
    pub answer: Option<Box<RawValue>>,
    /// The edit that was merged with this one and is sent for both.
    pub merged_into: Option<i64>,
    pub queued_at: String,
    pub last_sent_at: Option<String>,
    pub finished_at: Option<String>,
    /// The time before which no request is made for its record, UTC.
    pub not_before: Option<String>,
    pub undoes: Option<i64>,
    /// The edit in conflict of the same record that has to be resolved before it is sent.
    pub behind: Option<i64>,
    /// Whether its record seems to be removed, and a person has to decide that.
    pub awaits_removal: bool,
    /// The version that the edit was made on; `None` if it touches values that were never read.
    #[serde(skip)]
    pub base_etag: Option<Etag>,
    /// The request's body, once it is fixed.
    #[serde(skip)]
    pub body: Option<String>,
    #[serde(skip)]
    pub if_match: Option<Etag>,
    #[serde(skip)]
    pub idempotency_key: Option<String>,
    #[serde(skip)]
    pub first_sent_at: Option<Instant>,
    /// Why it is no valid edit: its row was written by hand, or damaged.
    pub unreadable: Option<String>,
}

impl Edit {
    /// Whether its record is read before anything is sent.
    fn reads_first(&self) -> bool {
        self.base_etag.is_none() || self.first_sent_at.is_some() && self.state != EditState::Conflict
    }

    /// Whether it ended, or waits for a decision, although its request may have been carried out, or may still be: by
    /// the file of which this one is a copy.
    pub const fn in_doubt(&self) -> bool {
        use EditState::{Conflict, Dropped, Held, Rejected};
        self.first_sent_at.is_some() && matches!(self.state, Conflict | Dropped | Held | Rejected)
    }

    /// Whether a push sends it, unless the limit on new edits holds it.
    pub const fn waits(&self) -> bool {
        matches!(self.state, EditState::Queued | EditState::Sending) && self.behind.is_none()
    }
}

/// What edits take at the most, if nothing fails. A record's edits are sent with one request; one that may have been sent
/// already is settled by itself before.
pub fn price<'a>(edits: impl IntoIterator<Item = &'a Edit>) -> Ru {
    let mut requests: BTreeMap<(Object, &RecordId, bool), bool> = BTreeMap::new();
    for edit in edits {
        let is_sent = edit.state == EditState::Sending;
        *requests.entry((edit.object, &edit.record, is_sent)).or_default() |= edit.reads_first();
    }
    Ru::of_edits(requests.len() as u64, requests.values().filter(|reads| **reads).count() as u64)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EditCounts {
    pub queued: u64,
    /// Edits that a person has to release.
    pub held: u64,
    /// Edits whose request may have been applied.
    pub sending: u64,
    pub conflict: u64,
    /// Edits that were rejected, and not dropped since.
    pub rejected: u64,
    pub oldest: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrailLine {
    pub at: String,
    /// The state before; `None` for the first step.
    pub from: Option<String>,
    pub to: String,
    /// Who took it: a user of the operating system, `sql` or `mcp`; `None` where crm-mirror did.
    pub who: Option<String>,
    pub why: String,
}

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), o.state, o.source, o.fields,
        o.theirs, o.attempts, o.status, o.answer, o.merged_into, o.queued_at, o.last_sent_at, o.finished_at,
        CASE WHEN o.state IN ('queued', 'sending') THEN (SELECT max(w.not_before) FROM outbox_delays AS w WHERE {}) END,
        o.undoes, o.base_etag, o.body, o.if_match, o.idempotency_key, o.first_sent_at,
        CASE WHEN o.state IN ('queued', 'sending') THEN (SELECT min(b.id) FROM outbox AS b
            WHERE b.object_type = o.object_type AND b.record_id = o.record_id AND b.{OPEN} AND b.state = 'conflict'
              AND b.merged_into IS NULL AND b.id < o.id) END,
        o.state IN ('queued', 'sending') AND {AWAITS_REMOVAL}
    FROM outbox AS o
    LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
    LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id",
        *WAITS_FOR
    )
});

/// The condition of an edit that was rejected, and not dropped since.
const REJECTED: &str = "o.state = 'rejected' AND o.finished_at IS NOT NULL";

/// The edits in order: the open ones and those that were rejected, or all. Rows that are not edits are omitted.
pub fn edits(tx: &ReadTx<'_>, all: bool) -> Result<Vec<Edit>> {
    // Sorted here: in the order of the ids, SQLite would go through the finished edits too.
    let mut edits = edits_where(tx, if all { "true" } else { REJECTED }, [])?;
    if !all {
        edits.extend(edits_where(tx, &format!("o.{OPEN}"), [])?);
    }
    edits.sort_unstable_by_key(|edit| edit.id);
    Ok(edits)
}

pub(super) fn edits_where(tx: &ReadTx<'_>, condition: &str, values: impl Params) -> Result<Vec<Edit>> {
    let found: Vec<Option<Edit>> = tx.rows(&format!("{} WHERE {condition}", *SELECT), values, parse)?;
    Ok(found.into_iter().flatten().collect())
}

pub fn edit(tx: &ReadTx<'_>, id: i64) -> Result<(Edit, Vec<TrailLine>)> {
    let edit = edit_line(tx, id)?;
    let trail = "SELECT at, from_state AS \"from\", to_state AS \"to\", who, why FROM outbox_events
                 WHERE outbox_id = ?1 ORDER BY id";
    Ok((edit, tx.parsed(trail, [id])?))
}

/// Refused if there is no such row, or it is not an edit.
pub fn edit_line(tx: &ReadTx<'_>, id: i64) -> Result<Edit> {
    let found = edits_where(tx, "o.id = ?1", [id])?.pop();
    found.ok_or_else(|| StoreError::Refused(format!("there is no edit {id}")))
}

pub fn counts(tx: &ReadTx<'_>) -> Result<EditCounts> {
    let sql = format!(
        "SELECT count(iif(state = 'queued', 1, NULL)), count(iif(state = 'held', 1, NULL)),
                count(iif(state = 'sending', 1, NULL)), count(iif(state = 'conflict', 1, NULL)), min(queued_at)
         FROM outbox WHERE {OPEN} AND state IN ('queued', 'held', 'sending', 'conflict')"
    );
    let found: Option<(i64, i64, i64, i64, StoredTime)> = tx.find_tuple(&sql, [])?;
    let (queued, held, sending, conflict, StoredTime(oldest)) = found.unwrap_or_default();
    let [queued, held, sending, conflict] = [queued, held, sending, conflict].map(i64::unsigned_abs);
    let rejected = tx.count(&format!("SELECT count(*) FROM outbox AS o WHERE {REJECTED}"), [])?;
    Ok(EditCounts { queued, held, sending, conflict, rejected, oldest })
}

/// The history's words for an edit that was applied without a request.
pub const SHOWN: &str = "the record already has these values";

/// An applied edit that can be undone.
#[derive(Debug)]
pub struct AppliedEdit {
    pub line: Edit,
    /// The step that applied it.
    pub step: i64,
    /// False for an undo of values that the record had already.
    pub has_changed: bool,
}

/// An edit as it was applied, unless it cannot be undone.
pub fn applied_by(tx: &ReadTx<'_>, line: Edit) -> Result<AppliedEdit> {
    let sql = "SELECT id, id <= ?2, why = ?3 FROM outbox_events WHERE outbox_id = ?1 AND to_state = 'applied'
         ORDER BY id DESC LIMIT 1";
    let found = tx.find_tuple(sql, params![line.id, tx.goals().accepted_after()?, SHOWN])?;
    let why = match found.unwrap_or_default() {
        _ if line.state != EditState::Applied && line.in_doubt() => {
            "may have been applied, but not confirmed as it was made: set its fields with another edit"
        }
        _ if line.state != EditState::Applied => "was not applied: there is nothing to undo",
        (_, _, true) if line.undoes.is_none() => {
            "changed nothing, as the record had its values already: there is nothing to undo"
        }
        (_, true, _) => "was applied in the workspace before the accepted one: it cannot be undone in this one",
        (step, false, shown) => return Ok(AppliedEdit { line, step, has_changed: !shown }),
    };
    Err(StoreError::Refused(format!("edit {} {why}", line.id)))
}

/// Edits that were applied at an instant or later, in this workspace, with what has reverted some of them since.
pub fn applied_since(tx: &ReadTx<'_>, since: Instant) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM outbox AS o WHERE state = 'applied' AND finished_at >= ?1
         AND (undoes IS NULL OR EXISTS (SELECT 1 FROM outbox AS u WHERE u.id = o.undoes AND u.finished_at >= ?1))
         AND NOT EXISTS (SELECT 1 FROM outbox_events AS e WHERE e.outbox_id = o.id AND e.to_state = 'applied'
             AND (e.id <= ?2 OR e.why = ?3 AND o.undoes IS NULL))";
    tx.column(sql, params![since, tx.goals().accepted_after()?, SHOWN])
}

/// An edit; `None` for a row that is none: anybody can write one, and it must not hide the others.
fn parse(row: &Row<'_>) -> rusqlite::Result<Option<Edit>> {
    let (text, optional) = (|place| text(row, place), |place| optional_text(row, place));
    let (Ok(object), Ok(state)) = (text(1)?.parse(), text(4)?.parse::<EditState>()) else { return Ok(None) };
    let (theirs, answer, first_sent_at) = (optional(7)?, optional(10)?, optional(21)?);
    let (fields, unreadable) = match serde_json::from_str::<EditedFields>(&text(6)?) {
        // A text that is not UTF-8 could not be sent unchanged.
        _ if [6, 17, 18, 19, 20, 21].iter().any(|place| row.get::<_, Option<String>>(*place).is_err()) => {
            (EditedFields::new(), Some("one of its texts is not UTF-8".into()))
        }
        Ok(fields) if fields.is_empty() && !state.is_final() => (fields, Some("it changes no field".into())),
        Ok(fields) => (fields, None),
        Err(error) => (EditedFields::new(), Some(format!("its fields cannot be parsed: {error}"))),
    };
    let status: Option<i64> = row.get(9)?;
    Ok(Some(Edit {
        id: row.get(0)?,
        object,
        record: RecordId::new(text(2)?),
        name: optional(3)?,
        state,
        source: text(5)?,
        fields,
        theirs: theirs.and_then(|text| serde_json::from_str(&text).ok()),
        attempts: row.get::<_, i64>(8)?.unsigned_abs(),
        status: status.and_then(|status| u16::try_from(status).ok()),
        answer: answer.and_then(|text| RawValue::from_string(text).ok()),
        merged_into: row.get(11)?,
        queued_at: text(12)?,
        last_sent_at: optional(13)?,
        finished_at: optional(14)?,
        not_before: optional(15)?,
        undoes: row.get(16)?,
        base_etag: optional(17)?.map(Etag::new),
        body: optional(18)?,
        if_match: optional(19)?.map(Etag::new),
        idempotency_key: optional(20)?,
        first_sent_at: first_sent_at.and_then(|at| at.parse().ok()),
        behind: row.get(22)?,
        awaits_removal: row.get(23)?,
        unreadable,
    }))
}

/// A text for display: invalid UTF-8 must not hide the other rows.
pub(super) fn text(row: &Row<'_>, place: usize) -> rusqlite::Result<String> {
    Ok(optional_text(row, place)?.unwrap_or_default())
}

fn optional_text(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<String>> {
    Ok(row.get::<_, SqlValue>(place)?.as_text().map(Into::into))
}
