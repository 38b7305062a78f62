//! Writing records: compare first, write only what changed, keep what an answer does not tell, never let an older
//! answer overwrite a newer one.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, OptionalExtension, params};

use crate::model::catalogue::Object;
use crate::model::field_value::multi_values;
use crate::model::instant::Instant;
use crate::model::record::{Extra, Record};
use crate::store::error::{Doing, StoreError};
use crate::store::records::feed_entries::of_detail;
use crate::store::records::shape::{Shape, Source, owned, told};
use crate::store::tx::MirrorTx;

/// How far ahead of our clock a version may be dated and still count.
const PLAUSIBLY_AHEAD: std::time::Duration = std::time::Duration::from_secs(86_400);

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was new here.
    Inserted,
    /// It had changed.
    Updated,
    /// The mirror says the same already; nothing was written.
    Unchanged,
    /// The mirror holds a newer answer; nothing was written.
    Older,
}

/// How far the mirror is with an object, as the writer needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first copy is under way: no history, and what is derived from rows is built at its end.
    FirstCopy,
    /// The first copy is finished: history and everything derived are kept with every page.
    Kept,
}

/// A difference in one column: name, old and new value.
pub(in crate::store) type ColumnDifference = (String, Value, Value);

/// What writing to one table did.
pub(in crate::store) enum Written {
    Inserted(Vec<ColumnDifference>),
    Updated(Vec<ColumnDifference>),
    Unchanged,
    Older,
}

impl Written {
    const fn is_new(&self) -> bool {
        matches!(self, Written::Inserted(_) | Written::Updated(_))
    }
}

impl MirrorTx<'_> {
    /// Writes a list item. `asked_at` is when the answer was asked for.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn apply_list(
        &self,
        object: Object,
        record: &Record,
        asked_at: Instant,
        phase: Phase,
    ) -> Result<Applied, StoreError> {
        let shape = self.shapes.list(object);
        let written = self.write(object, &shape, record, record.extra.to_json().as_deref(), asked_at, phase)?;
        self.finish(object, record, written, asked_at, phase)
    }

    /// Writes a detail: what lists return too, and what only details carry. Says what became of the list's part, and
    /// how many values were put into `extra` on either side.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn apply_detail(
        &self,
        object: Object,
        record: &Record,
        asked_at: Instant,
        phase: Phase,
    ) -> Result<(Applied, u64), StoreError> {
        let list = self.shapes.list(object);
        let (extra, detail_extra) = self.divided_extra(object, record)?;
        let written = self.write(object, &list, record, extra.to_json().as_deref(), asked_at, phase)?;
        let mut kept = if written.is_new() { extra.len() as u64 } else { 0 };
        if matches!(written, Written::Older) {
            // A newer answer is here: this detail is of a version that is gone, and its etag would say so anyway.
            return Ok((Applied::Older, 0));
        }
        let applied = self.finish(object, record, written, asked_at, phase)?;
        let detail = self.shapes.detail(object);
        let written = self.write(object, &detail, record, detail_extra.to_json().as_deref(), asked_at, phase)?;
        if written.is_new() {
            kept += detail_extra.len() as u64;
        }
        if let Written::Inserted(differences) | Written::Updated(differences) = &written {
            self.unsearch_changed(object, record.id.as_str(), true, differences, phase);
        }
        match written {
            // The first reading of a detail is no change of it, unless the record itself came after the first copy.
            Written::Inserted(differences) if phase == Phase::Kept && self.was_inserted(object, &record.id)? => {
                self.remember(object, record.id.as_str(), "update", &of_detail(differences), asked_at)?;
            }
            Written::Updated(differences) if phase == Phase::Kept => {
                self.remember(object, record.id.as_str(), "update", &of_detail(differences), asked_at)?;
            }
            _ => {}
        }
        Ok((applied, kept))
    }

    pub(in crate::store) fn finish(
        &self,
        object: Object,
        record: &Record,
        written: Written,
        asked_at: Instant,
        phase: Phase,
    ) -> Result<Applied, StoreError> {
        let (applied, kind, differences) = match written {
            Written::Unchanged => return Ok(Applied::Unchanged),
            Written::Older => return Ok(Applied::Older),
            Written::Inserted(differences) => (Applied::Inserted, "insert", differences),
            Written::Updated(differences) => (Applied::Updated, "update", differences),
        };
        self.unsettle(object)?;
        if applied == Applied::Inserted {
            self.unsearch(object, record.id.as_str(), phase);
        } else {
            self.unsearch_changed(object, record.id.as_str(), false, &differences, phase);
        }
        if phase == Phase::Kept {
            self.remember(object, record.id.as_str(), kind, &differences, asked_at)?;
        }
        Ok(applied)
    }

    /// Writes a team member or a definition.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn apply_plain(&self, shape: &Shape, record: &Record, asked_at: Instant) -> Result<Applied, StoreError> {
        let extra = record.extra.to_json();
        let incoming: Vec<_> = shape.columns.iter().map(|c| told(c.source, record, extra.as_deref())).collect();
        let id = record.id.as_str();
        Ok(match self.compare(shape, id, &incoming)? {
            RowComparison::Missing => {
                self.execute(&shape.insert, id, &incoming, asked_at)?;
                Applied::Inserted
            }
            RowComparison::Same => Applied::Unchanged,
            RowComparison::Differs { merged, changed, .. } => {
                self.execute(&shape.update(&changed), id, &refs(&merged, &changed), asked_at)?;
                Applied::Updated
            }
        })
    }

    pub(in crate::store) fn write(
        &self,
        object: Object,
        shape: &Shape,
        record: &Record,
        extra: Option<&str>,
        asked_at: Instant,
        phase: Phase,
    ) -> Result<Written, StoreError> {
        let incoming: Vec<_> = shape.columns.iter().map(|c| told(c.source, record, extra)).collect();
        let id = record.id.as_str();
        let is_detail = shape.key != "id";
        if is_detail {
            self.note_before(object, id)?;
        }
        // In a first copy nearly every row is new: try that first, and compare only what is there already.
        if phase == Phase::FirstCopy && self.execute(&shape.insert, id, &incoming, asked_at)? == 1 {
            if !is_detail {
                self.note_new(object, id);
            }
            return Ok(Written::Inserted(Vec::new()));
        }
        match self.compare(shape, id, &incoming)? {
            RowComparison::Same => Ok(Written::Unchanged),
            RowComparison::Missing => {
                if !self.may_return(object, shape, id, asked_at)? {
                    return Ok(Written::Older);
                }
                self.note_before(object, id)?;
                self.execute(&shape.insert, id, &incoming, asked_at)?;
                self.note_changed(object, id);
                self.index_multi_values(object, shape, record, &incoming, None, phase)?;
                let differences = shape
                    .columns
                    .iter()
                    .zip(&incoming)
                    .filter_map(|(column, value)| {
                        let new = (*value).filter(|v| *v != ValueRef::Null)?;
                        Some((column.name.clone(), Value::Null, owned(new)))
                    })
                    .collect();
                Ok(Written::Inserted(differences))
            }
            RowComparison::Differs { merged, changed, old } => {
                if !self.accepts_older.get() && is_behind(shape, &incoming, &old, asked_at) {
                    return Ok(Written::Older);
                }
                self.note_before(object, id)?;
                self.execute(&shape.update(&changed), id, &refs(&merged, &changed), asked_at)?;
                self.note_changed(object, id);
                self.index_multi_values(object, shape, record, &incoming, Some(&changed), phase)?;
                let differences =
                    changed.iter().map(|&i| (shape.columns[i].name.clone(), old[i].clone(), merged[i].clone()));
                Ok(Written::Updated(differences.collect()))
            }
        }
    }

    /// Compares a row with what an answer tells about it.
    fn compare(&self, shape: &Shape, id: &str, incoming: &[Option<ValueRef<'_>>]) -> Result<RowComparison, StoreError> {
        let doing = "read a record";
        let mut stmt = self.conn.prepare_cached(&shape.select).doing(doing)?;
        let mut rows = stmt.query([id]).doing(doing)?;
        let Some(row) = rows.next().doing(doing)? else {
            return Ok(RowComparison::Missing);
        };
        let mut changed = Vec::new();
        for (index, told) in incoming.iter().enumerate() {
            if let Some(new) = told
                && row.get_ref(index).doing(doing)? != *new
            {
                changed.push(index);
            }
        }
        if changed.is_empty() {
            return Ok(RowComparison::Same);
        }
        let count = shape.columns.len();
        let old = (0..count).map(|i| row.get::<_, Value>(i)).collect::<Result<Vec<_>, _>>().doing(doing)?;
        let mut merged = old.clone();
        for &index in &changed {
            if let Some(new) = incoming[index] {
                merged[index] = owned(new);
            }
        }
        Ok(RowComparison::Differs { merged, changed, old })
    }

    fn execute(
        &self,
        sql: &str,
        id: &str,
        values: &[Option<ValueRef<'_>>],
        asked_at: Instant,
    ) -> Result<usize, StoreError> {
        let doing = "write a record";
        let mut stmt = self.conn.prepare_cached(sql).doing(doing)?;
        bind(&mut stmt, id, values, asked_at).and_then(|()| stmt.raw_execute()).doing(doing)
    }

    /// Whether a record that is not here may be written: an answer older than a confirmed removal brings nothing back.
    fn may_return(&self, object: Object, shape: &Shape, id: &str, asked_at: Instant) -> Result<bool, StoreError> {
        if shape.key != "id" {
            return Ok(true);
        }
        let doing = "look up a removed record";
        let removed_at: Option<String> = self
            .conn
            .prepare_cached("SELECT removed_at FROM removed_records WHERE object_type = ?1 AND id = ?2")
            .and_then(|mut stmt| stmt.query_row(params![object.as_str(), id], |row| row.get(0)).optional())
            .doing(doing)?;
        let Some(removed_at) = removed_at else { return Ok(true) };
        if asked_at.to_string() < removed_at {
            return Ok(false);
        }
        self.conn
            .prepare_cached("DELETE FROM removed_records WHERE object_type = ?1 AND id = ?2")
            .and_then(|mut stmt| stmt.execute(params![object.as_str(), id]))
            .doing(doing)?;
        Ok(true)
    }

    /// Keeps `custom_multi_values` in step with a row that was written.
    fn index_multi_values(
        &self,
        object: Object,
        shape: &Shape,
        record: &Record,
        incoming: &[Option<ValueRef<'_>>],
        changed: Option<&[usize]>,
        phase: Phase,
    ) -> Result<(), StoreError> {
        if phase == Phase::FirstCopy {
            return Ok(());
        }
        let doing = "write the values of a multi-select";
        for &(place, slot) in &shape.multi {
            if changed.is_some_and(|changed| !changed.contains(&place)) {
                continue;
            }
            let key = self.shapes.layout.of(object).fields()[slot].key.as_str();
            self.conn
                .prepare_cached(
                    "DELETE FROM custom_multi_values WHERE object_type = ?1 AND record_id = ?2 AND field_key = ?3",
                )
                .and_then(|mut stmt| stmt.execute(params![object.as_str(), record.id.as_str(), key]))
                .doing(doing)?;
            let Some(Some(ValueRef::Text(text))) = incoming.get(place) else {
                continue;
            };
            let values = std::str::from_utf8(text).ok().and_then(multi_values).unwrap_or_default();
            let mut stmt = self
                .conn
                .prepare_cached(
                    "INSERT INTO custom_multi_values (object_type, record_id, field_key, position, value)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )
                .doing(doing)?;
            for (position, value) in values.iter().enumerate() {
                stmt.execute(params![object.as_str(), record.id.as_str(), key, position as i64, value]).doing(doing)?;
            }
        }
        Ok(())
    }

    /// Both `extra` columns after a detail was read. What the detail tells about list fields replaces what stood in the
    /// list's. What no catalogue and no definition knows stays with the list where a list told it, so that a list never
    /// clears what only a detail carries.
    fn divided_extra(&self, object: Object, record: &Record) -> Result<(Extra, Extra), StoreError> {
        let doing = "read a record";
        let sql = match object {
            Object::Contact => "SELECT extra FROM contacts WHERE id = ?1",
            Object::Company => "SELECT extra FROM companies WHERE id = ?1",
        };
        let old: Option<Option<String>> = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut stmt| stmt.query_row([record.id.as_str()], |row| row.get(0)).optional())
            .doing(doing)?;
        let Some(Some(old)) = old else {
            return Ok((record.extra.clone(), record.detail_extra.clone()));
        };
        let old = Extra::from_json(&old);
        let (mut list, mut detail) = (record.extra.clone(), record.detail_extra.clone());
        for (name, source) in old.fields {
            let catalogued = object.list_fields().any(|field| field.wire == name);
            if !catalogued && !GROUPS.contains(&name.as_str()) {
                list.fields.entry(name).or_insert(source);
            }
        }
        for (group, members) in old.nested {
            for (name, source) in members {
                let known = match group.as_str() {
                    "customFields" => self.shapes.layout.of(object).by_key(&name).is_some(),
                    _ => object.list_fields().any(|field| field.wire == format!("{group}.{name}")),
                };
                if !known {
                    // FieldValue by lists: the detail's word for it belongs there too.
                    let told = detail.nested.get_mut(&group).and_then(|told| told.remove(&name));
                    list.nested.entry(group.clone()).or_default().insert(name, told.unwrap_or(source));
                }
            }
        }
        detail.nested.retain(|_, members| !members.is_empty());
        Ok((list, detail))
    }
}

/// Fields of a record that are objects themselves.
const GROUPS: [&str; 2] = ["customFields", "location"];

/// How a row stands to an answer.
enum RowComparison {
    Missing,
    Same,
    Differs { merged: Vec<Value>, changed: Vec<usize>, old: Vec<Value> },
}

/// The values at these places.
fn refs<'a>(values: &'a [Value], places: &[usize]) -> Vec<Option<ValueRef<'a>>> {
    places.iter().map(|&place| Some(ValueRef::from(&values[place]))).collect()
}

fn bind(
    stmt: &mut CachedStatement<'_>,
    id: &str,
    values: &[Option<ValueRef<'_>>],
    asked_at: Instant,
) -> rusqlite::Result<()> {
    stmt.raw_bind_parameter(1, id)?;
    for (index, value) in values.iter().enumerate() {
        stmt.raw_bind_parameter(index + 2, ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))?;
    }
    stmt.raw_bind_parameter(values.len() + 2, asked_at.to_string())
}

/// Whether an answer is of an older version of the record than the row, by the service's own `updatedAt`. However late it
/// was asked for: replicas lag, and caches return old bodies. A row that is dated in the future by more than any clock is
/// wrong holds nothing up.
fn is_behind(shape: &Shape, incoming: &[Option<ValueRef<'_>>], old: &[Value], asked_at: Instant) -> bool {
    let Some(place) = shape.columns.iter().position(|c| c.name == "updated_at" && matches!(c.source, Source::Field(_)))
    else {
        // A detail table: its list part was judged already.
        return false;
    };
    match (incoming[place], &old[place]) {
        (Some(ValueRef::Text(new)), Value::Text(old)) => {
            new < old.as_bytes() && *old <= asked_at.plus(PLAUSIBLY_AHEAD).to_string()
        }
        _ => false,
    }
}
