//! `outbox` and `outbox_events`: the edits on their way, and every step of each.
//!
//! # Always true
//! - A step and its line in the trail are one transaction; write it with [`Store::write_durably`](crate::store::Store).
//! - A step is taken only from the state that it was decided on: other processes queue and drop edits too.

use std::collections::BTreeMap;

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

use crate::model::editable::Editability;
use crate::model::{Edit, EditState, Editable, EditedFields, Etag, Instant, MirroredRecord, Object, RecordId};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::editable;
use crate::store::reader::ReadTx;
use crate::store::records::compare::json;
use crate::store::tx::MirrorTx;

const READ: &str = "read the outbox";
const WRITE: &str = "write the outbox";

/// Edits by what is still to become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenEdits {
    /// On their way: queued or being sent.
    pub waiting: u64,
    /// Waiting for a person.
    pub conflicts: u64,
}

/// A step of an edit.
#[derive(Clone, Copy, Debug)]
pub struct EditStep<'a> {
    /// The state that it was decided on.
    pub from: EditState,
    /// The state that it leads to.
    pub to: EditState,
    /// Why, as a sentence.
    pub why: &'a str,
    /// The status of the answer that led to it.
    pub status: Option<u16>,
    /// What the service said, or why the edit was refused here, as JSON.
    pub answer: Option<&'a str>,
    /// What the edited columns hold at the service, as JSON.
    pub theirs: Option<&'a str>,
}

impl<'a> EditStep<'a> {
    /// A step without an answer.
    pub const fn new(from: EditState, to: EditState, why: &'a str) -> EditStep<'a> {
        EditStep { from, to, why, status: None, answer: None, theirs: None }
    }

    /// With what the service said.
    #[must_use]
    pub const fn answered(mut self, status: Option<u16>, answer: Option<&'a str>) -> EditStep<'a> {
        self.status = status;
        self.answer = answer;
        self
    }

    /// With what the columns hold at the service.
    #[must_use]
    pub const fn theirs(mut self, theirs: &'a str) -> EditStep<'a> {
        self.theirs = Some(theirs);
        self
    }
}

impl ReadTx<'_> {
    /// Records with edits that can go: those that failed least often first, then in the order of their edits.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn edited_records(&self) -> Result<Vec<(Object, RecordId)>, StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached(
                "SELECT object_type, record_id FROM outbox WHERE state IN ('queued', 'sending')
                 GROUP BY object_type, record_id ORDER BY max(attempts), min(id)",
            )
            .doing(READ)?;
        let rows: Vec<(String, String)> =
            stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).doing(READ)?;
        let named = rows.into_iter().filter_map(|(object, id)| Some((object.parse().ok()?, RecordId::new(id))));
        Ok(named.collect())
    }

    /// How many edits are open.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn open_edits(&self) -> Result<OpenEdits, StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE state <> 'conflict'), count(*) FILTER (WHERE state = 'conflict')
                   FROM outbox WHERE state IN ('queued', 'sending', 'conflict')";
        let (waiting, conflicts): (i64, i64) = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut stmt| stmt.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
            .doing(READ)?;
        Ok(OpenEdits { waiting: waiting.unsigned_abs(), conflicts: conflicts.unsigned_abs() })
    }

    /// A record's edits that are not at their end, in order.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn edits_of(&self, object: Object, id: &RecordId) -> Result<Vec<Edit>, StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached(
                "SELECT id, state, fields, body, if_match, idempotency_key, attempts, first_sent_at, status, merged_into
                 FROM outbox WHERE object_type = ?1 AND record_id = ?2 AND state IN ('queued', 'sending', 'conflict')
                 ORDER BY id",
            )
            .doing(READ)?;
        stmt.query_map(params![object.as_str(), id.as_str()], |row| edit(object, id, row))
            .and_then(Iterator::collect)
            .doing(READ)
    }

    /// Whether the mirror's history saw a record take these values since an instant.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn saw_values(
        &self,
        object: Object,
        id: &RecordId,
        since: Instant,
        is_value: impl Fn(&str, &Value) -> bool,
        columns: usize,
    ) -> Result<bool, StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached(
                "SELECT fields FROM changes WHERE object_type = ?1 AND record_id = ?2 AND seen_at >= ?3 ORDER BY seq",
            )
            .doing(READ)?;
        let rows: Vec<String> = stmt
            .query_map(params![object.as_str(), id.as_str(), since.to_string()], |row| row.get(0))
            .and_then(Iterator::collect)
            .doing(READ)?;
        let mut seen = std::collections::BTreeSet::new();
        for text in rows {
            let fields: BTreeMap<String, (Value, Value)> = serde_json::from_str(&text).unwrap_or_default();
            seen.extend(
                fields.into_iter().filter(|(column, (_, new))| is_value(column, new)).map(|(column, _)| column),
            );
        }
        Ok(columns > 0 && seen.len() == columns)
    }
}

impl MirrorTx<'_> {
    /// What the mirror has of a record: its version, whether the detail is of that version, and these columns as far as
    /// they exist. `None` if the record is not here.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn held(&self, object: Object, id: &RecordId, columns: &[&str]) -> Result<Option<MirroredRecord>, StoreError> {
        let (list, detail) = (self.shapes.list(object), self.shapes.detail(object));
        let mut values = BTreeMap::new();
        let mut etags = [None, None];
        for (shape, etag) in [&list, &detail].into_iter().zip(&mut etags) {
            let row: Option<Vec<Sql>> = self
                .conn
                .prepare_cached(&shape.select)
                .and_then(|mut stmt| {
                    stmt.query_row([id.as_str()], |row| (0..shape.columns.len()).map(|place| row.get(place)).collect())
                        .optional()
                })
                .doing("read a record")?;
            let Some(row) = row else { continue };
            let own = |column: &str| shape.place(column).and_then(|place| row.get(place));
            *etag = Some(own("etag").map(json).unwrap_or_default());
            for column in columns {
                if let Some(value) = own(column) {
                    values.insert((*column).to_string(), json(value));
                }
            }
        }
        let [Some(version), of_detail] = etags else {
            return Ok(None);
        };
        let current = of_detail.is_some_and(|detail| detail == version);
        Ok(Some(MirroredRecord { etag: version.as_str().map(Etag::from), details_current: current, values }))
    }

    /// The fields of an object that can be edited, by column.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn editable(&self, object: Object) -> Result<BTreeMap<String, Editable>, StoreError> {
        let columns = editable::columns(&self.conn, object, &self.shapes)?;
        let fields = columns.into_iter().filter_map(|(column, standing)| match standing {
            Editability::Editable(field) => Some((column, field)),
            _ => None,
        });
        Ok(fields.collect())
    }

    /// Fixes a request: the first edit carries it, the others go along.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn fix_request(
        &self,
        edits: &[i64],
        body: &str,
        if_match: &Etag,
        key: &str,
        now: Instant,
    ) -> Result<(), StoreError> {
        let Some(carrier) = edits.first() else { return Ok(()) };
        for edit in edits {
            let why = match edit == carrier {
                true => "sent".into(),
                false => format!("sent together with edit {carrier}"),
            };
            self.take_step(*edit, &EditStep::new(EditState::Queued, EditState::Sending, &why), now)?;
            self.conn
                .prepare_cached(
                    "UPDATE outbox SET attempts = attempts + 1, first_sent_at = ?2, last_sent_at = ?2,
                            merged_into = CASE WHEN id <> ?3 THEN ?3 END WHERE id = ?1",
                )
                .and_then(|mut stmt| stmt.execute(params![edit, now.to_string(), carrier]))
                .doing(WRITE)?;
        }
        self.conn
            .prepare_cached("UPDATE outbox SET body = ?2, if_match = ?3, idempotency_key = ?4 WHERE id = ?1")
            .and_then(|mut stmt| stmt.execute(params![carrier, body, if_match.as_str(), key]))
            .doing(WRITE)?;
        Ok(())
    }

    /// Notes that a fixed request is sent once more.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn send_again(&self, carrier: i64, now: Instant) -> Result<(), StoreError> {
        let again = EditStep::new(EditState::Sending, EditState::Sending, "sent again, the same request");
        self.take_step(carrier, &again, now)?;
        self.conn
            .prepare_cached(
                "UPDATE outbox SET attempts = attempts + 1, last_sent_at = ?2 WHERE id = ?1 OR merged_into = ?1",
            )
            .and_then(|mut stmt| stmt.execute(params![carrier, now.to_string()]))
            .doing(WRITE)?;
        Ok(())
    }

    /// Lets an edit take a step, with its line in the trail. Says whether it was in the state that the step was decided
    /// on. An edit that goes back to the queue, or waits for a person, gives up its request.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn take_step(&self, edit: i64, step: &EditStep<'_>, now: Instant) -> Result<bool, StoreError> {
        let now = now.to_string();
        debug_assert!(step.from.may_become(step.to), "{step:?}");
        let taken = self
            .conn
            .prepare_cached(
                "UPDATE outbox SET state = ?3, status = coalesce(?4, status), answer = coalesce(?5, answer),
                        theirs = coalesce(?6, theirs), finished_at = ?7 WHERE id = ?1 AND state = ?2",
            )
            .and_then(|mut stmt| {
                stmt.execute(params![
                    edit,
                    step.from.as_str(),
                    step.to.as_str(),
                    step.status,
                    step.answer,
                    step.theirs,
                    step.to.is_final().then_some(&now),
                ])
            })
            .doing(WRITE)?;
        if taken == 0 {
            return Ok(false);
        }
        if matches!(step.to, EditState::Queued | EditState::Conflict) {
            self.conn
                .prepare_cached(
                    "UPDATE outbox SET body = NULL, if_match = NULL, idempotency_key = NULL, first_sent_at = NULL,
                            merged_into = NULL WHERE id = ?1",
                )
                .and_then(|mut stmt| stmt.execute([edit]))
                .doing(WRITE)?;
        }
        self.conn
            .prepare_cached(
                "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why) VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut stmt| stmt.execute(params![edit, now, step.from.as_str(), step.to.as_str(), step.why]))
            .doing(WRITE)?;
        Ok(true)
    }

    /// Replaces what an edit that waits does to its columns: what was there before it has become something else.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn set_edited_fields(&self, edit: i64, fields: &EditedFields, base: Option<&Etag>) -> Result<(), StoreError> {
        let text =
            serde_json::to_string(fields).map_err(|source| StoreError::State { name: "outbox".into(), source })?;
        self.conn
            .prepare_cached("UPDATE outbox SET fields = ?2, base_etag = coalesce(?3, base_etag) WHERE id = ?1")
            .and_then(|mut stmt| stmt.execute(params![edit, text, base.map(Etag::as_str)]))
            .doing(WRITE)?;
        Ok(())
    }
}

fn edit(object: Object, id: &RecordId, row: &Row<'_>) -> rusqlite::Result<Edit> {
    let unreadable = |column, what: String| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.into())
    };
    let state: String = row.get(1)?;
    let fields = editable::text(row, 2)?;
    let first_sent_at: Option<String> = row.get(7)?;
    Ok(Edit {
        id: row.get(0)?,
        object,
        record: id.clone(),
        state: state.parse().map_err(|_| unreadable(1, format!("no state: {state}")))?,
        fields: serde_json::from_str(&fields).map_err(|e| unreadable(2, e.to_string()))?,
        body: row.get(3)?,
        if_match: row.get::<_, Option<String>>(4)?.map(Etag::new),
        idempotency_key: row.get(5)?,
        attempts: row.get(6)?,
        first_sent_at: first_sent_at.and_then(|at| at.parse().ok()),
        status: row.get(8)?,
        merged_into: row.get(9)?,
    })
}
