//! The mirror as one stream of JSON lines: a snapshot, and what changed after a cursor.
//!
//! A record is sent whole whenever anything in it changes, so lines may be repeated, and applying them again is
//! harmless. The cursor contains the position in the feed, the number of the newest changed record, and digests of the
//! columns: if those of an object differ, its columns that the feed names are sent again, else its rows. The names of
//! owners and companies, which change with other records, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::row::{self, Converter};
use super::sides::{RowFilter, Unsent, expect_layout, tables_of_record};
use super::state::TargetState;
use super::tables::{self, PgType, Publication, PublishedTable};
use super::{PublishError, value};
use crate::model::{Object, Resource, SqlValue};
use crate::store::publishing::queue;
use crate::store::{
    ChangedRecord, ColumnEvent, FileId, Moment, Reader, SourceRow, StateKey, StoreError, feed, write_beside,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    mirror: String,
    seq: i64,
    changed: i64,
    /// A digest of what is sent, but for the columns of each object.
    settings: String,
    objects: [ObjectDigest; 2],
}

/// Digests of an object's columns, and of its multi-selects; empty until its first copy is finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObjectDigest {
    columns: String,
    multi_selects: String,
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.mirror, self.seq, self.changed, self.settings)?;
        self.objects.iter().try_for_each(|of| write!(f, "-{}-{}", of.columns, of.multi_selects))
    }
}

impl StreamCursor {
    /// Requires that the mirror goes on from it: whoever restores a mirror puts another one, or an older one, in its place.
    fn continues(&self, moment: &Moment<'_>) -> Result<(), StreamError> {
        let mirror: Option<String> = moment.tx.state(&StateKey::MirrorId)?;
        let span = feed::span(moment.tx)?;
        if self.mirror != mirror.unwrap_or_default() {
            return Err(StreamError::Cursor("it belongs to a different mirror"));
        }
        let is_older = self.seq > span.newest || self.changed > moment.newest_changed()?;
        if is_older || !queue::is_recording(moment.tx)? {
            return Err(StreamError::Cursor("it is newer than the mirror, which was restored from a backup"));
        }
        if self.seq < span.forgotten {
            return Err(StreamError::Cursor("the mirror's history no longer reaches back to it"));
        }
        Ok(())
    }
}

impl FromStr for StreamCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<StreamCursor, &'static str> {
        const WRONG: &str = "is not a cursor of a stream: copy one from a line {\"cursor\": …}";
        let parts: Vec<&str> = text.split(':').collect();
        let [mirror, seq, changed, digests] = parts[..] else { return Err(WRONG) };
        let number = |text: &str| text.parse().map_err(|_| WRONG);
        let digests: Vec<String> = digests.split('-').map(String::from).collect();
        let Ok([settings, one, of_one, other, of_other]) = <[String; 5]>::try_from(digests) else { return Err(WRONG) };
        let digest = |columns, multi_selects| ObjectDigest { columns, multi_selects };
        let (seq, changed) = (number(seq)?, number(changed)?);
        let objects = [digest(one, of_one), digest(other, of_other)];
        Ok(StreamCursor { mirror: mirror.into(), seq, changed, settings, objects })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("the stream cannot be continued from this cursor: {0}")]
    Cursor(&'static str),
    #[error("could not write the stream")]
    Output(#[from] io::Error),
}

impl From<StoreError> for StreamError {
    fn from(error: StoreError) -> StreamError {
        StreamError::Publish(error.into())
    }
}

#[derive(Debug)]
pub struct MirrorStream {
    path: PathBuf,
    /// The file that was opened.
    file: Option<FileId>,
    source: Reader,
    resources: Option<Vec<Resource>>,
    exclude: Vec<String>,
    cursor: Option<StreamCursor>,
    /// Digests of the small tables as they were last sent.
    small: BTreeMap<&'static str, String>,
    /// The tables whose columns were sent.
    announced: BTreeSet<&'static str>,
}

struct Scene {
    publication: Publication,
    state: TargetState,
    /// The end of the feed.
    newest: StreamCursor,
}

impl MirrorStream {
    /// Opens a mirror. From now on the mirror records which records change.
    pub fn open(
        path: &Path,
        resources: Option<Vec<Resource>>,
        exclude: Vec<String>,
    ) -> Result<MirrorStream, StreamError> {
        let file = FileId::of(path);
        let source = Reader::open(path)?;
        if !source.moment(|moment| queue::is_recording(moment.tx))? {
            write_beside::<_, StoreError>(path, |tx| tx.feed().begin_recording())?;
        }
        Ok(MirrorStream {
            path: path.into(),
            file,
            source,
            resources,
            exclude,
            cursor: None,
            small: BTreeMap::new(),
            announced: BTreeSet::new(),
        })
    }

    /// Continues after a cursor. The small tables are sent again, completely.
    ///
    /// # Errors
    /// [`StreamError::Cursor`] for a cursor of another mirror, or if the history no longer reaches back to it.
    pub fn resume(&mut self, cursor: StreamCursor) -> Result<(), StreamError> {
        self.source.moment(|moment| cursor.continues(moment))?;
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Writes a consistent group of the changes since the last one, and its cursor; first, without
    /// [`MirrorStream::resume`], everything. Returns whether there was anything to write.
    pub fn step(&mut self, out: &mut impl Write) -> Result<bool, StreamError> {
        let cursor = self.cursor.clone();
        let scene = self.source.moment(|moment| {
            cursor.iter().try_for_each(|cursor| cursor.continues(moment))?;
            self.scene(moment).map_err(StreamError::from)
        })?;
        let wrote = match cursor {
            Some(cursor) if cursor.settings == scene.newest.settings => match cursor.objects == scene.newest.objects {
                true => self.changes(&scene, &cursor, out),
                false => self.changed_columns(&scene, &cursor, out).map(|()| true),
            },
            _ => self.everything(&scene, out).map(|()| true),
        };
        match wrote {
            // The columns changed meanwhile: the next step starts again.
            Err(StreamError::Publish(PublishError::Unsettled)) => Ok(true),
            wrote => wrote,
        }
    }

    /// A number that changes whenever another connection has committed something.
    ///
    /// # Errors
    /// [`StreamError::Cursor`] if another file was put in the place of the mirror.
    pub fn version(&self) -> Result<i64, StreamError> {
        if FileId::of(&self.path) != self.file {
            return Err(StreamError::Cursor("another file is at the mirror's path"));
        }
        Ok(self.source.data_version()?)
    }

    fn scene(&self, moment: &Moment<'_>) -> Result<Scene, PublishError> {
        let mut publication = tables::publication(moment, self.resources.as_deref(), &self.exclude)?;
        for table in publication.tables.iter_mut().chain(&mut publication.others) {
            table.columns.retain(|column| !row::is_joined(&column.source));
        }
        let state = TargetState::default().loaded(&publication);
        // The columns of objects have digests of their own, and small tables are sent whole.
        let is_described = |table: &PublishedTable| table.object().is_none() && !table.is_small();
        let columns_of = |table| if is_described(table) { columns(table) } else { Columns::new() };
        let tables: Vec<_> = publication.tables.iter().map(|table| (table.name, columns_of(table))).collect();
        let settings = format!("{tables:?} {:?} {}", publication.exclusions, publication.rewrites);
        let digest_of = |object: Object| {
            let Some(table) = publication.table(object.table()).filter(|_| publication.copied.contains(&object)) else {
                return ObjectDigest::default();
            };
            let keys = publication.multi_selects.iter().filter(|(of, _)| *of == object);
            let keys: BTreeSet<&str> = keys.map(|(_, key)| key.as_str()).collect();
            ObjectDigest { columns: digest(&columns(table)), multi_selects: short_digest(&format!("{keys:?}")) }
        };
        let newest = StreamCursor {
            mirror: publication.mirror.clone(),
            seq: publication.feed.newest,
            changed: publication.changed,
            settings: short_digest(&settings),
            objects: Object::ALL.map(digest_of),
        };
        Ok(Scene { publication, state, newest })
    }

    /// Changes made meanwhile are part of the next group.
    fn everything(&mut self, scene: &Scene, out: &mut impl Write) -> Result<(), StreamError> {
        for table in &scene.publication.tables {
            // Small tables are sent whole with the next group.
            if table.is_small() || !scene.state.is_loaded(table) {
                continue;
            }
            Lines { out, announced: &mut self.announced }.schema(table, true)?;
            self.rows(scene, &scene.newest, (table, &[], None), out)?;
        }
        for table in &scene.publication.others {
            // They may have been published before.
            Lines { out, announced: &mut self.announced }.schema(table, true)?;
        }
        self.small.clear();
        self.finish(scene.newest.clone(), out)
    }

    /// Writes what the new columns of objects concern: the columns that the feed names since the cursor, or, where it does
    /// not explain the difference, all rows of the object. The history is not written again.
    fn changed_columns(
        &mut self,
        scene: &Scene,
        cursor: &StreamCursor,
        out: &mut impl Write,
    ) -> Result<(), StreamError> {
        for (place, object) in Object::ALL.into_iter().enumerate() {
            let (before, now) = (&cursor.objects[place], &scene.newest.objects[place]);
            let Some(table) = scene.publication.table(object.table()) else { continue };
            if before.columns != now.columns {
                let events = self.source.moment(|moment| feed::column_events(moment.tx, Some(object), cursor.seq))?;
                let filled = filled_since(table, &scene.publication, events, &before.columns);
                Lines { out, announced: &mut self.announced }.schema(table, filled.is_none())?;
                let filled = filled.as_deref();
                if filled.is_none_or(|columns| !columns.is_empty()) {
                    self.rows(scene, cursor, (table, filled.unwrap_or_default(), None), out)?;
                }
            }
            let removed = scene.publication.table("removed_records").filter(|_| *before == ObjectDigest::default());
            if let Some(table) = removed {
                // Until its first copy was finished, nothing of the object was written.
                self.rows(scene, cursor, (table, &[], Some(object)), out)?;
            }
            let multi_values = scene.publication.table("custom_multi_values");
            if let Some(table) = multi_values.filter(|_| before.multi_selects != now.multi_selects) {
                let mut lines = Lines { out, announced: &mut self.announced };
                lines.remove(table, &[("object_type", object.as_str())])?;
                self.rows(scene, cursor, (table, &[], Some(object)), out)?;
            }
        }
        self.finish(StreamCursor { objects: scene.newest.objects.clone(), ..cursor.clone() }, out)
    }

    /// Writes the rows of a table: those with a value in one of these columns, or all; with an object, its rows.
    fn rows(
        &mut self,
        scene: &Scene,
        reached: &StreamCursor,
        (table, filled, object): (&PublishedTable, &[String], Option<Object>),
        out: &mut impl Write,
    ) -> Result<(), StreamError> {
        let converter = Converter::of(&scene.publication, table);
        let filter = RowFilter::new(table, &scene.publication, &scene.state);
        let is_of = |row: &SourceRow| {
            let of = table.place("object_type").and_then(|place| row[place].as_text());
            object.is_none_or(|object| of == Some(object.as_str()))
        };
        let (query, layout) = (table.query(), scene.publication.layout);
        let mut after: Option<Vec<SqlValue>> = None;
        loop {
            let page = self.source.moment(|moment| {
                expect_layout(moment, layout)?;
                reached.continues(moment)?;
                moment.page(&query, filled, after.as_deref()).map_err(StreamError::from)
            })?;
            let mut lines = Lines { out, announced: &mut self.announced };
            page.iter()
                .filter(|row| filter.keeps(row) && is_of(row))
                .try_for_each(|row| lines.row(table, &converter, row))?;
            after = filter.next(table, &page);
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn changes(&mut self, scene: &Scene, cursor: &StreamCursor, out: &mut impl Write) -> Result<bool, StreamError> {
        let publication = &scene.publication;
        let position = (cursor.changed, cursor.seq);
        let read = |moment: &Moment<'_>| {
            cursor.continues(moment)?;
            Unsent::read(moment, publication, &scene.state, position).map_err(StreamError::from)
        };
        let mut group = self.source.moment(read)?;
        let changed = group.records.last().map_or(cursor.changed, |record| record.seq);
        let seq = group.last.unwrap_or(cursor.seq);
        group.records.retain(|record| scene.state.details.loaded.contains(&record.object));
        let mut lines = Lines { out, announced: &mut self.announced };
        let mut wrote = false;
        for table in &publication.tables {
            let Some((rows, digest)) = group.small.get(table.name) else { continue };
            if self.small.get(table.name) != Some(digest) {
                wrote = true;
                lines.schema(table, true)?;
                let converter = Converter::of(publication, table);
                rows.iter().try_for_each(|row| lines.row(table, &converter, row))?;
                self.small.insert(table.name, digest.clone());
            }
        }
        wrote |= !group.records.is_empty() || !group.entries.is_empty();
        for record in &group.records {
            lines.record(publication, record, &group)?;
        }
        if let Some(table) = publication.table("changes") {
            let converter = Converter::of(publication, table);
            // A removal by key removes what a record's history has since then as well.
            let again = Object::ALL.into_iter().flat_map(|object| group.rows_of(table, object));
            again.chain(&group.entries).try_for_each(|row| lines.row(table, &converter, row))?;
        }
        let moved = (changed, seq) != position;
        if wrote || moved {
            self.finish(StreamCursor { seq, changed, ..cursor.clone() }, out)?;
        }
        Ok(wrote || moved)
    }

    fn finish(&mut self, cursor: StreamCursor, out: &mut impl Write) -> Result<(), StreamError> {
        writeln!(out, "{{\"cursor\":{}}}", value::quoted(&cursor.to_string()))?;
        out.flush()?;
        self.cursor = Some(cursor);
        Ok(())
    }
}

type Columns = BTreeMap<String, String>;

fn columns(table: &PublishedTable) -> Columns {
    let of_type = |meaning: &str| meaning.split_once(' ').map_or(meaning, |(of_type, _)| of_type).to_string();
    table.columns.iter().map(|column| (column.source.clone(), of_type(&column.meaning))).collect()
}

fn digest(columns: &Columns) -> String {
    short_digest(&format!("{columns:?}"))
}

fn short_digest(text: &str) -> String {
    value::digest(text.as_bytes())[..12].to_string()
}

/// The columns with values that a follower does not have, if the entries of the feed lead from the columns with the digest
/// `before` to those of the table. `None` if they do not, or if a column got another type and its own again.
fn filled_since(
    table: &PublishedTable,
    publication: &Publication,
    events: Vec<ColumnEvent>,
    before: &str,
) -> Option<Vec<String>> {
    let now = columns(table);
    let (mut then, mut filled, mut retyped) = (now.clone(), BTreeSet::new(), BTreeSet::new());
    let is_shown = |event: &ColumnEvent| !publication.exclusions.hides(table.name, &event.column);
    for event in events.into_iter().rev().filter(is_shown) {
        match event.op.as_str() {
            "added" | "restored" => {
                then.remove(&event.column);
                filled.insert(event.column);
            }
            op => {
                then.insert(event.column.clone(), event.from.unwrap_or_default());
                if op == "retyped" {
                    filled.insert(event.column.clone());
                    retyped.insert(event.column);
                }
            }
        }
    }
    let is_same = |column: &String| now.contains_key(column) && now.get(column) == then.get(column);
    if digest(&then) != before || retyped.iter().any(is_same) {
        return None;
    }
    Some(filled.into_iter().filter(|column| now.contains_key(column)).collect())
}

/// Writes lines. The columns of a table are written before its first row.
struct Lines<'a, W: Write> {
    out: &'a mut W,
    announced: &'a mut BTreeSet<&'static str>,
}

impl<W: Write> Lines<'_, W> {
    /// The columns of a table; `is_complete` if its rows follow.
    fn schema(&mut self, table: &PublishedTable, is_complete: bool) -> io::Result<()> {
        self.announced.insert(table.name);
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                let comment = column.comment.as_deref().map_or("null".into(), value::quoted);
                let (name, pg_type) = (value::quoted(&column.source), column.pg_type.as_sql());
                format!("{{\"name\":{name},\"type\":\"{pg_type}\",\"comment\":{comment}}}")
            })
            .collect();
        let key: Vec<String> = table.key.iter().map(|column| value::quoted(column)).collect();
        writeln!(
            self.out,
            "{{\"schema\":\"{}\",\"complete\":{is_complete},\"key\":[{}],\"columns\":[{}]}}",
            table.name,
            key.join(","),
            columns.join(",")
        )
    }

    fn announce(&mut self, table: &PublishedTable) -> io::Result<()> {
        if self.announced.contains(table.name) { Ok(()) } else { self.schema(table, false) }
    }

    fn row(&mut self, table: &PublishedTable, converter: &Converter<'_>, row: &SourceRow) -> io::Result<()> {
        self.announce(table)?;
        let members: Vec<String> = table
            .columns
            .iter()
            .zip(converter.visible(row))
            .map(|(column, value)| format!("{}:{}", value::quoted(&column.source), json_value(&value, column.pg_type)))
            .collect();
        writeln!(self.out, "{{\"upsert\":\"{}\",\"row\":{{{}}}}}", table.name, members.join(","))
    }

    fn remove(&mut self, table: &PublishedTable, key: &[(&str, &str)]) -> io::Result<()> {
        self.announce(table)?;
        let members: Vec<String> =
            key.iter().map(|(name, value)| format!("{}:{}", value::quoted(name), value::quoted(value))).collect();
        writeln!(self.out, "{{\"remove\":\"{}\",\"key\":{{{}}}}}", table.name, members.join(","))
    }

    /// The current rows of one record. If a table can have several rows of it, they are removed first.
    fn record(&mut self, publication: &Publication, record: &ChangedRecord, group: &Unsent) -> io::Result<()> {
        let (object, id) = (record.object.as_str(), record.id.as_str());
        if let Some(changes) = publication.table("changes").filter(|_| record.erase > 0) {
            self.remove(changes, &[("object_type", object), ("record_id", id)])?;
        }
        for (name, key, of_object) in tables_of_record(record.object) {
            let Some(table) = publication.table(name) else { continue };
            let Some(place) = table.place(key) else { continue };
            let rows = group.rows_of(table, record.object).iter();
            let found: Vec<&SourceRow> = rows.filter(|row| row[place].as_text() == Some(id)).collect();
            if of_object {
                self.remove(table, &[("object_type", object), (key, id)])?;
            } else if found.is_empty() {
                self.remove(table, &[(key, id)])?;
            }
            let converter = Converter::of(publication, table);
            found.into_iter().try_for_each(|row| self.row(table, &converter, row))?;
        }
        Ok(())
    }
}

/// A value as JSON: an exact decimal is a string, as in the mirror; a document is embedded.
fn json_value(value: &SqlValue, pg_type: PgType) -> String {
    match (pg_type, value) {
        (_, SqlValue::Null) => "null".into(),
        (PgType::Boolean, SqlValue::Int(i @ 0..=1)) => (*i == 1).to_string(),
        (_, SqlValue::Int(i)) => i.to_string(),
        (_, SqlValue::Real(r)) if r.is_finite() => serde_json::Value::from(*r).to_string(),
        (_, SqlValue::Real(_)) => "null".into(),
        (PgType::Jsonb, SqlValue::Text(text)) => value::on_one_line(text).unwrap_or_else(|| value::quoted(text)),
        (_, SqlValue::Text(text)) => value::quoted(text),
    }
}
