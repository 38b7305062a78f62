//! Writes records: compares first, writes only changes, keeps what an answer does not contain, and never overwrites a
//! newer answer with an older one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, params};

use crate::model::{DataType, Extra, FieldValue, Instant, Object, Record, RequestStamp, SqlValue, field_value};
use crate::store::records::feed_entries::of_detail;
use crate::store::records::versions::{VersionFit, is_coarser};
use crate::store::{Compared, FieldDifference, MirrorTx, RecordsTx, Result, Shape, Shows, Source, Statements, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Inserted,
    Updated,
    Unchanged,
    /// The mirror has a newer answer; nothing was written.
    Older,
}

impl Applied {
    pub fn is_new(self) -> bool {
        matches!(self, Applied::Inserted | Applied::Updated)
    }
}

/// The answer that a row is written from.
#[derive(Clone, Copy)]
pub(in crate::store) struct WrittenAnswer<'a> {
    pub asked: &'a RequestStamp,
    pub read_at: Instant,
    /// Whether it is known to follow the version of the row.
    pub follows: bool,
    /// Whether the service shows the record now: what was kept of an earlier answer is no evidence of it.
    pub is_shown: bool,
}

impl<'a> From<&'a RequestStamp> for WrittenAnswer<'a> {
    fn from(asked: &'a RequestStamp) -> WrittenAnswer<'a> {
        WrittenAnswer { asked, read_at: asked.at.wall, follows: false, is_shown: true }
    }
}

impl RecordsTx<'_> {
    pub fn apply_list(&self, object: Object, record: &Record, asked: &RequestStamp) -> Result<Applied> {
        let applied = self.write(object, &self.tx.shapes().list(object), record, &record.extra, asked.into())?;
        if applied != Applied::Older {
            self.tx.unread().mark_unshown(object, record, Shows::List)?;
        }
        Ok(applied)
    }

    /// Writes a detail, which also contains the list fields: the `whole` of it, or only the part that lists return, too.
    /// Returns the effect on the list part, and how many values were put into either `extra`. Nothing is written if the
    /// row has a newer version, or may have one.
    pub fn apply_detail(
        &self,
        object: Object,
        record: &Record,
        asked: &RequestStamp,
        whole: bool,
    ) -> Result<(Applied, u64)> {
        let (list, detail) = (self.tx.shapes().list(object), self.tx.shapes().detail(object));
        let (extra, detail_extra, fit) = self.divided(object, &list, record)?;
        let (mut of_list, mut etag) = (Cow::Borrowed(record), record.version(object).map(SqlValue::from));
        match fit {
            VersionFit::Other => {}
            VersionFit::Doubtful => {
                // A later answer explains an earlier version.
                if !self.tx.is_overtaken(object, record.id.as_str(), asked) {
                    let version = Version::of_answer(&list, &list.values(record, None));
                    self.tx.knowledge().doubt_older(object, record.id.as_str(), version)?;
                }
                return Ok((Applied::Older, 0));
            }
            VersionFit::Earlier => {
                of_list = Cow::Owned(record.with_field(object, "updatedAt", FieldValue::Absent));
            }
            VersionFit::OtherEtag(of_lists) => {
                of_list = Cow::Owned(record.with_field(object, "etag", FieldValue::Absent));
                etag = Some(SqlValue::from(&*of_lists));
            }
        }
        // Without an etag, that of the detail before is not its version.
        let of_detail = record.with_field(object, "etag", FieldValue::Exact(etag.unwrap_or(SqlValue::Null)));
        let applied = self.write(object, &list, &of_list, &extra, asked.into())?;
        if applied == Applied::Older {
            return Ok((applied, 0));
        }
        let mut kept = if applied.is_new() { extra.sources.len() as u64 } else { 0 };
        self.tx.unread().mark_unshown(object, record, if whole { Shows::Detail } else { Shows::ListOfDetail })?;
        if whole && self.write(object, &detail, &of_detail, &detail_extra, asked.into())?.is_new() {
            kept += detail_extra.sources.len() as u64;
        }
        Ok((applied, kept))
    }

    pub fn apply_plain(&self, shape: &Shape, record: &Record, asked_at: Instant) -> Result<Applied> {
        let extra = record.extra.to_json();
        let incoming = shape.values(record, extra.as_deref());
        let id = record.id.as_str();
        Ok(match self.compare(shape, record, &incoming)? {
            None => {
                self.execute(&shape.insert, id, &incoming, asked_at)?;
                Applied::Inserted
            }
            Some(row) if row.changed.is_empty() => Applied::Unchanged,
            Some(RowComparison { changed, .. }) => {
                self.execute(&shape.update(&changed), id, &at(&incoming, &changed), asked_at)?;
                Applied::Updated
            }
        })
    }

    /// Writes to the list's or the detail's table, and enters what has changed into feed and search.
    pub(in crate::store) fn write(
        &self,
        object: Object,
        shape: &Shape,
        record: &Record,
        extra: &Extra,
        answer: WrittenAnswer<'_>,
    ) -> Result<Applied> {
        let WrittenAnswer { asked, read_at, follows, is_shown } = answer;
        let extra = extra.to_json();
        let incoming = shape.values(record, extra.as_deref());
        let (id, is_detail) = (record.id.as_str(), shape.key != "id");
        let overtaken = !is_detail && self.tx.is_overtaken(object, id, asked);
        if is_detail {
            self.count_before(object, id)?;
        } else {
            self.tx.remember_order(object, id, asked.order.number());
        }
        let Some(row) = self.compare(shape, record, &incoming)? else {
            // A later answer showed that the record was removed, or this one may be of a moment before.
            let version = Version::of_answer(shape, &incoming);
            if overtaken || !is_detail && self.tx.knowledge().was_just_removed(object, id, version)? {
                return Ok(Applied::Older);
            }
            if !is_detail {
                self.run("DELETE FROM removed_records WHERE object_type = ?1 AND id = ?2", params![object, id])?;
            }
            self.count_before(object, id)?;
            self.execute(&shape.insert, id, &incoming, read_at)?;
            let differences = shape.columns.iter().zip(&incoming).map(|(c, new)| c.difference(&SqlValue::Null, *new));
            let differences = differences.filter(|difference| !difference.there.is_null()).collect();
            self.was_written(object, shape, id, None, differences, asked.at.wall)?;
            return Ok(Applied::Inserted);
        };
        let is_same = row.changed.is_empty();
        let RowComparison { changed, old, omits } = row;
        // What lists show of a detail was accepted before.
        let is_accepted = is_same
            || is_detail
            || self.is_accepted((object, id), shape, &incoming, &old, (asked, overtaken, follows))?;
        if !is_detail && is_shown {
            self.tx.knowledge().was_shown(object, id, is_accepted)?;
        }
        if !is_accepted {
            return Ok(Applied::Older);
        }
        self.tx.unread().doubt_groups(object, id, Version::of_answer(shape, &incoming).etag, &omits)?;
        if is_same {
            if is_detail {
                // The age of a detail is that of the last answer, changed or not.
                self.execute(&shape.update(&[]), id, &[], read_at)?;
            }
            return Ok(Applied::Unchanged);
        }
        if !is_detail {
            self.tx.unread().mark_omitted(object, shape, id, &incoming, &old);
        }
        self.count_before(object, id)?;
        self.execute(&shape.update(&changed), id, &at(&incoming, &changed), read_at)?;
        let has_changed = |name| shape.place(name).is_some_and(|place| changed.contains(&place));
        if has_changed("updated_at") && !has_changed("etag") {
            // It is another version under the same etag.
            self.tx.knowledge().make_details_due(object, Some(std::slice::from_ref(&record.id)))?;
        }
        let differences = changed.iter().map(|&place| shape.columns[place].difference(&old[place], incoming[place]));
        self.was_written(object, shape, id, Some(&changed), differences.collect(), asked.at.wall)?;
        Ok(Applied::Updated)
    }

    pub fn compare_list(&self, object: Object, record: &Record) -> Result<Compared> {
        let shape = self.tx.shapes().list(object);
        let extra = record.extra.to_json();
        let incoming = shape.values(record, extra.as_deref());
        Ok(match self.compare(&shape, record, &incoming)? {
            None => Compared::Missing,
            Some(row) if row.changed.is_empty() => {
                let etag = Version::of_answer(&shape, &incoming).etag;
                match self.tx.unread().are_groups_in_doubt(object, record.id.as_str(), etag, &row.omits)? {
                    true => Compared::Omitted,
                    false => Compared::Same,
                }
            }
            Some(RowComparison { changed, old, .. }) => {
                let difference = |place: usize| shape.columns[place].difference(&old[place], incoming[place]);
                Compared::Differs(changed.into_iter().map(difference).collect())
            }
        })
    }

    /// `None` if there is no row.
    fn compare(
        &self,
        shape: &Shape,
        record: &Record,
        incoming: &[Option<ValueRef<'_>>],
    ) -> Result<Option<RowComparison>> {
        let mut stmt = self.tx.conn.prepare_cached(&shape.select)?;
        let mut rows = stmt.query([&record.id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let count = shape.columns.len();
        let (mut changed, mut omits) = (Vec::new(), BTreeSet::new());
        for (index, (value, column)) in incoming.iter().zip(&shape.columns).enumerate() {
            let is_omitted = || !column.is_num && column.source.field(record) == Some(&FieldValue::Omitted);
            if let Some(new) = value {
                if row.get_ref(index)? != *new {
                    changed.push(index);
                }
            } else if is_omitted() && row.get_ref(index)? != ValueRef::Null {
                let is_custom = matches!(column.source, Source::Slot(_));
                omits.insert(if is_custom { "customFields" } else { &column.name }.to_string());
            }
        }
        if shape.place("etag").is_none_or(|etag| !changed.contains(&etag)) {
            // Within one version, a value in another spelling is the same one. In another version its author may have meant it.
            let is_same = |place: usize, is_same: fn(&str, &str, DataType) -> bool| {
                let new = incoming[place].and_then(|new| new.as_str().ok());
                let old = row.get_ref(place).ok().and_then(|old| old.as_str().ok());
                let texts = shape.columns[place].data_type.zip(new).zip(old);
                texts.is_some_and(|((of, new), old)| is_same(new, old, of))
            };
            changed.retain(|place| !is_same(*place, is_coarser));
            if shape.place("updated_at").is_none_or(|updated_at| !changed.contains(&updated_at)) {
                changed.retain(|place| !is_same(*place, |new, old, of| field_value::is_same(of, new, old)));
            }
        }
        let read = if changed.is_empty() { 0 } else { count };
        let old = (0..read).map(|i| row.get(i)).collect::<Result<_, _>>()?;
        Ok(Some(RowComparison { changed, old, omits }))
    }

    fn execute(&self, sql: &str, id: &str, values: &[Option<ValueRef<'_>>], asked_at: Instant) -> Result<usize> {
        let mut stmt = self.tx.conn.prepare_cached(sql)?;
        bind(&mut stmt, id, values.iter().copied(), &asked_at.to_string())?;
        Ok(stmt.raw_execute()?)
    }

    /// Has feed, search and multi-selects follow a row: a new one, or what has changed of it.
    fn was_written(
        &self,
        object: Object,
        shape: &Shape,
        id: &str,
        changed: Option<&[usize]>,
        differences: Vec<FieldDifference>,
        seen_at: Instant,
    ) -> Result<()> {
        self.tx.feed().mark_changed(object, id);
        if !self.tx.is_copied(object)? {
            return Ok(());
        }
        let is_detail = shape.key != "id";
        // The first reading of a detail is not a change, unless the record itself was created after the first copy.
        let inserted =
            "SELECT EXISTS (SELECT 1 FROM changes WHERE object_type = ?1 AND record_id = ?2 AND kind = 'insert')";
        if !is_detail || changed.is_some() || self.value(inserted, params![object, id])? {
            let kind = if changed.is_none() && !is_detail { "insert" } else { "update" };
            let differences = if is_detail { of_detail(differences) } else { differences };
            self.tx.feed().remember(object, id, kind, differences, seen_at)?;
        }
        let layout = self.tx.layout();
        for (place, column) in shape.columns.iter().enumerate() {
            let Source::Slot(slot) = column.source else { continue };
            let field = &layout.of(object).fields()[slot];
            if field.data_type == DataType::MultiSelect && changed.is_none_or(|changed| changed.contains(&place)) {
                self.tx.derived().make_multi_values(object, field, Some(id))?;
            }
        }
        Ok(())
    }

    /// Both `extra` columns after a detail was read. List fields in the detail replace those in the list's `extra`.
    /// Unknown fields stay with the list if a list contained them, so that a list never clears a value that only a
    /// detail contains.
    fn divided(&self, object: Object, list: &Shape, record: &Record) -> Result<(Extra, Extra, VersionFit)> {
        let sql = format!("SELECT extra, etag, updated_at FROM {} WHERE id = ?1", object.table());
        let row: Option<(Option<String>, Option<String>, Option<String>)> = self.find_tuple(&sql, [&record.id])?;
        let (mut extra, mut detail_extra) = (record.extra.clone(), record.detail_extra.clone());
        let Some((old, etag, updated_at)) = row else { return Ok((extra, detail_extra, VersionFit::Other)) };
        let here = Version { etag: etag.as_deref(), updated_at: updated_at.as_deref() };
        let values = list.values(record, None);
        let version = Version::of_answer(list, &values);
        let fit = version.fit(&here, version.is_other(&here) && self.has_fractions(object)?);
        let Some(old) = old.filter(|_| fit != VersionFit::Doubtful) else { return Ok((extra, detail_extra, fit)) };
        let is_listed = |wire: &str| object.list_fields().any(|field| field.wire == wire);
        for (key, source) in Extra::from_json(object, &old).sources {
            let (group, name) = (key.0.as_str(), key.1.as_str());
            let is_elsewhere = match group {
                "" => is_listed(name) || object.has_group(name),
                "customFields" => {
                    let is_cleared = record.null_keys.iter().any(|key| key.as_str() == name);
                    is_cleared || self.tx.shapes().layout.of(object).by_key(name).is_some()
                }
                _ => is_listed(&format!("{group}.{name}")),
            };
            if is_elsewhere {
                continue;
            }
            if group.is_empty() {
                extra.sources.entry(key).or_insert(source);
            } else {
                // The field was in a list: the detail's value for it belongs there too.
                let newer = detail_extra.sources.remove(&key);
                extra.sources.insert(key, newer.unwrap_or(source));
            }
        }
        Ok((extra, detail_extra, fit))
    }
}

/// What an answer shows of a record beside its row.
struct RowComparison {
    /// The places of the columns that differ.
    changed: Vec<usize>,
    /// The values of the row, if any differs.
    old: Vec<SqlValue>,
    /// Where the answer has null in place of a group of which the row has a value; custom fields are one.
    omits: BTreeSet<String>,
}

fn at<'v>(incoming: &[Option<ValueRef<'v>>], places: &[usize]) -> Vec<Option<ValueRef<'v>>> {
    places.iter().map(|&place| incoming[place]).collect()
}

/// Writes the records of a page in a first copy, where nearly every row is new: with one statement, which keeps its
/// buffers from row to row.
pub struct NewRows<'t> {
    tx: &'t MirrorTx<'t>,
    object: Object,
    shape: Arc<Shape>,
    asked: &'t RequestStamp,
    asked_at: String,
    insert: Option<CachedStatement<'t>>,
}

impl<'t> RecordsTx<'t> {
    pub fn new_rows(&self, object: Object, asked: &'t RequestStamp) -> NewRows<'t> {
        let shape = self.tx.shapes().list(object);
        NewRows { tx: self.tx, object, shape, asked, asked_at: asked.at.wall.to_string(), insert: None }
    }
}

impl NewRows<'_> {
    /// Inserts a record, unless it has a row, or a later answer showed that it was removed. Returns whether it did.
    pub fn insert(&mut self, record: &Record) -> Result<bool> {
        let (object, id) = (self.object, record.id.as_str());
        if self.tx.is_overtaken(object, id, self.asked) {
            return Ok(false);
        }
        let extra = record.extra.to_json();
        let values = self.shape.columns.iter().map(|column| column.value(record, extra.as_deref()));
        let insert = match &mut self.insert {
            Some(insert) => insert,
            none => none.insert(self.tx.conn.prepare_cached(&self.shape.insert)?),
        };
        bind(insert, id, values, &self.asked_at)?;
        if insert.raw_execute()? == 0 {
            // Whoever compares the row may need the statement.
            self.insert = None;
            return Ok(false);
        }
        self.tx.remember_order(object, id, self.asked.order.number());
        self.tx.records().count_new(object, id);
        self.tx.unread().mark_unshown(object, record, Shows::List)?;
        Ok(true)
    }
}

fn bind<'v>(
    stmt: &mut CachedStatement<'_>,
    id: &str,
    values: impl IntoIterator<Item = Option<ValueRef<'v>>>,
    asked_at: &str,
) -> rusqlite::Result<()> {
    stmt.raw_bind_parameter(1, id)?;
    let mut place = 2;
    for value in values {
        stmt.raw_bind_parameter(place, ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))?;
        place += 1;
    }
    stmt.raw_bind_parameter(place, asked_at)
}
