//! Reads the edits in `outbox`: those of a record, and the records that have some.

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use crate::model::{Edit, EditState, EditedFields, Etag, Object, RecordId};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::OPEN;
use crate::store::reader::ReadTx;
use crate::store::statements::Statements as _;

const READ: &str = "read the outbox";

/// A row of `outbox` that is not a valid edit: written by hand, or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableEdit {
    pub id: i64,
    pub state: Option<EditState>,
    /// The edit that holds its request, if it is another one.
    pub merged_into: Option<i64>,
    pub why: String,
}

impl ReadTx<'_> {
    /// Records with edits to send, those with the fewest failures first.
    pub fn edited_records(&self) -> Result<Vec<(Object, RecordId)>, StoreError> {
        let rows: Vec<(String, String)> = self.conn.rows(
            &format!(
                "SELECT object_type, record_id FROM outbox WHERE {OPEN} AND state IN ('queued', 'sending')
                     GROUP BY object_type, record_id ORDER BY max(attempts), min(id)"
            ),
            [],
            READ,
            |row| Ok((text(row, 0)?, text(row, 1)?)),
        )?;
        let named = rows.into_iter().filter_map(|(object, id)| Some((object.parse().ok()?, RecordId::new(id))));
        Ok(named.collect())
    }

    /// A record's unfinished edits, in order, and those of them that cannot be read.
    pub fn edits_of(&self, object: Object, id: &RecordId) -> Result<(Vec<Edit>, Vec<UnreadableEdit>), StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached(&format!(
                "SELECT id, state, fields, body, if_match, idempotency_key, first_sent_at, status, merged_into,
                            base_etag
                     FROM outbox WHERE object_type = ?1 AND record_id = ?2 AND {OPEN}
                       AND state IN ('queued', 'held', 'sending', 'conflict') ORDER BY id"
            ))
            .doing(READ)?;
        let mut rows = stmt.query(params![object, id]).doing(READ)?;
        let (mut edits, mut unreadable) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next().doing(READ)? {
            match edit(object, id, row) {
                Ok(edit) => edits.push(edit),
                Err(why) => unreadable.push(UnreadableEdit {
                    id: row.get(0).doing(READ)?,
                    state: text(row, 1).ok().and_then(|state| state.parse().ok()),
                    merged_into: row.get(8).ok().flatten(),
                    why,
                }),
            }
        }
        Ok((edits, unreadable))
    }
}

/// Parses a row as an edit; the error is a sentence.
fn edit(object: Object, id: &RecordId, row: &Row<'_>) -> Result<Edit, String> {
    let column = |place| exact(row, place);
    let state = column(1)?.unwrap_or_default();
    let fields: EditedFields = serde_json::from_str(&column(2)?.unwrap_or_default())
        .map_err(|e| format!("its fields cannot be parsed: {e}"))?;
    if fields.is_empty() {
        return Err("it changes no field".into());
    }
    let status: Option<i64> = row.get(7).map_err(|e| e.to_string())?;
    Ok(Edit {
        id: row.get(0).map_err(|e| e.to_string())?,
        object,
        record: id.clone(),
        state: state.parse().ok().ok_or_else(|| format!("it has the unknown state `{state}`"))?,
        fields,
        body: column(3)?,
        if_match: column(4)?.map(Etag::new),
        idempotency_key: column(5)?,
        first_sent_at: column(6)?.and_then(|at| at.parse().ok()),
        status: status.and_then(|status| u16::try_from(status).ok()),
        merged_into: row.get(8).map_err(|e| e.to_string())?,
        base_etag: column(9)?.map(Etag::new),
    })
}

/// A text, exactly; a text that is not UTF-8 is refused, because it could not be sent unchanged.
fn exact(row: &Row<'_>, place: usize) -> Result<Option<String>, String> {
    match row.get_ref(place).map_err(|e| e.to_string())? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Some(text.into())),
            Err(_) => Err("one of its texts is not UTF-8".into()),
        },
        _ => Err("one of its texts has a different type".into()),
    }
}

/// A text for display: invalid UTF-8 must not hide the other rows.
pub(super) fn text(row: &Row<'_>, place: usize) -> rusqlite::Result<String> {
    match row.get_ref(place)? {
        ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => row.get(place),
    }
}

/// Like [`text`], for a column that may be empty.
pub(super) fn optional_text(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(place)? {
        ValueRef::Null => Ok(None),
        _ => text(row, place).map(Some),
    }
}
