//! The mirror as one stream of JSON lines: a snapshot, and what changed after a cursor.
//!
//! A record is sent whole whenever anything in it changes, so lines may be repeated, and applying them again is
//! harmless. The cursor contains the position in the feed, the number of the newest changed record, and a digest of the
//! columns: if the columns differ, everything is sent again, marked as complete.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use super::error::PublishError;
use super::json;
use super::load::RowFilter;
use super::row::Converter;
use super::state::{FeedEnd, TargetState};
use super::tables::{self, PgType, Publication, PublishedTable};
use super::value;
use crate::model::field_value::SqlValue;
use crate::model::{Object, Resource};
use crate::store::publishing::source::{ChangedRecord, Moment, PublishSource, SourceRow};
use crate::store::{StoreError, write_beside};

/// The number of rows that are read in one snapshot.
const PAGE: u32 = 1_000;

/// A position in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    mirror: String,
    seq: i64,
    changed: i64,
    columns: String,
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.mirror, self.seq, self.changed, self.columns)
    }
}

impl FromStr for StreamCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<StreamCursor, &'static str> {
        const WRONG: &str = "is not a cursor of a stream: copy one from a line {\"cursor\": …}";
        let parts: Vec<&str> = text.split(':').collect();
        let [mirror, seq, changed, columns] = parts[..] else { return Err(WRONG) };
        let number = |text: &str| text.parse().map_err(|_| WRONG);
        Ok(StreamCursor {
            mirror: mirror.into(),
            seq: number(seq)?,
            changed: number(changed)?,
            columns: columns.into(),
        })
    }
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The mirror could not be read, or does not fit the settings.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The stream cannot be continued from the cursor.
    #[error("the stream cannot be continued from this cursor: {0}")]
    Cursor(&'static str),
    /// The reader closed the pipe, or the disk is full.
    #[error("could not write the stream")]
    Output(#[from] io::Error),
}

impl From<StoreError> for StreamError {
    fn from(error: StoreError) -> StreamError {
        StreamError::Publish(error.into())
    }
}

/// A mirror that is read as a stream.
#[derive(Debug)]
pub struct MirrorStream {
    source: PublishSource,
    resources: Option<Vec<Resource>>,
    exclude: Vec<String>,
    cursor: Option<StreamCursor>,
    /// Digests of the small tables as they were last sent.
    small: BTreeMap<&'static str, String>,
}

/// One snapshot of the mirror, with what every step needs.
struct Scene {
    publication: Publication,
    state: TargetState,
    end: FeedEnd,
    mirror: String,
    columns: String,
}

impl MirrorStream {
    /// Opens a mirror. From now on the mirror records which records change.
    ///
    /// # Errors
    /// Returns an error if it cannot be read; the first time, also if it cannot be written.
    pub fn open(
        path: &Path,
        resources: Option<Vec<Resource>>,
        exclude: Vec<String>,
    ) -> Result<MirrorStream, StreamError> {
        let source = PublishSource::open(path)?;
        if !source.moment(|moment| moment.is_recording())? {
            write_beside::<_, StoreError>(path, |tx| tx.begin_recording())?;
        }
        Ok(MirrorStream { source, resources, exclude, cursor: None, small: BTreeMap::new() })
    }

    /// Continues after a cursor. The small tables are sent again, completely.
    ///
    /// # Errors
    /// [`StreamError::Cursor`] for a cursor of another mirror, or if the history no longer reaches back to it.
    pub fn resume(&mut self, cursor: StreamCursor) -> Result<(), StreamError> {
        let scene = self.source.moment(|moment| self.scene(moment))??;
        if cursor.mirror != scene.mirror {
            return Err(StreamError::Cursor("it belongs to a different mirror"));
        }
        if cursor.seq > scene.end.span.newest || cursor.changed > scene.end.changed {
            return Err(StreamError::Cursor("it is newer than the mirror, which was restored from a backup"));
        }
        if cursor.seq < scene.end.span.forgotten {
            return Err(StreamError::Cursor("the mirror's history no longer reaches back to it"));
        }
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Writes a consistent group of the changes since the last one, and its cursor; first, without
    /// [`MirrorStream::resume`], everything. Returns whether there was anything to write.
    ///
    /// # Errors
    /// Returns an error if the mirror cannot be read, or the output cannot be written.
    pub fn step(&mut self, out: &mut impl Write) -> Result<bool, StreamError> {
        let scene = self.source.moment(|moment| self.scene(moment))??;
        match &self.cursor {
            Some(cursor) if cursor.columns == scene.columns => {
                let cursor = cursor.clone();
                self.changes(&scene, &cursor, out)
            }
            _ => {
                self.everything(&scene, out)?;
                Ok(true)
            }
        }
    }

    /// A number that changes whenever another connection has committed something.
    pub fn version(&self) -> Result<i64, StreamError> {
        Ok(self.source.version()?)
    }

    fn scene(&self, moment: &Moment<'_>) -> Result<Result<Scene, PublishError>, StoreError> {
        let publication = match tables::publication(moment, self.resources.as_deref(), &self.exclude)? {
            Ok(publication) => publication,
            Err(error) => return Ok(Err(error)),
        };
        let end = FeedEnd { span: moment.span()?, changed: moment.newest_changed()? };
        let mut copied = Vec::new();
        for object in &publication.objects {
            if moment.is_copied(*object)? {
                copied.push(*object);
            }
        }
        let mirror = moment.mirror_id()?.unwrap_or_default();
        let state = TargetState::default().loaded(&mirror, end, &publication, &copied);
        let columns: Vec<String> = publication
            .tables
            .iter()
            .filter(|table| !table.is_small())
            .flat_map(|table| {
                table.columns.iter().map(move |column| format!("{} {} {}", table.name, column.source, column.meaning))
            })
            .collect();
        let columns = format!("{columns:?} {:?} {:?} {copied:?}", publication.exclusions, publication.multi_selects);
        let columns = value::digest(columns.as_bytes())[..16].to_string();
        Ok(Ok(Scene { publication, state, end, mirror, columns }))
    }

    /// Writes every table from its beginning. Changes made meanwhile are part of the next group.
    fn everything(&mut self, scene: &Scene, out: &mut impl Write) -> Result<(), StreamError> {
        for table in &scene.publication.tables {
            // Small tables are sent whole with the next group.
            let is_copied = table.object().is_none_or(|object| scene.state.details.loaded.contains(&object));
            if table.is_small() || !is_copied {
                continue;
            }
            schema_line(table, true, out)?;
            let converter = Converter::of(&scene.publication, table);
            let filter = RowFilter::new(table, &scene.publication, &scene.state);
            let (query, layout) = (table.query(), scene.publication.layout);
            let mut after: Option<Vec<SqlValue>> = None;
            loop {
                let page = self.source.moment(|moment| {
                    let is_current = moment.layout()? == layout;
                    Ok(if is_current { Some(moment.page(&query, after.as_deref(), PAGE)?) } else { None })
                })?;
                // The columns changed: the next step starts again.
                let Some(page) = page else { return Ok(()) };
                for row in page.iter().filter(|row| filter.keeps(row)) {
                    row_line(table, &converter, row, out)?;
                }
                match page.last() {
                    Some(last) if page.len() == PAGE as usize && !filter.is_beyond(last) => {
                        after =
                            Some(table.key.iter().filter_map(|key| Some(last[table.place(key)?].clone())).collect());
                    }
                    _ => break,
                }
            }
        }
        self.small.clear();
        self.finish(scene, scene.end.span.newest, scene.end.changed, out)
    }

    fn changes(&mut self, scene: &Scene, cursor: &StreamCursor, out: &mut impl Write) -> Result<bool, StreamError> {
        let publication = &scene.publication;
        if cursor.seq < scene.end.span.forgotten {
            return Err(StreamError::Cursor("the mirror's history no longer reaches back to it"));
        }
        let group = self.source.moment(|moment| Group::read(moment, publication, &scene.state, cursor))?;
        let Some(group) = group else { return Ok(true) };
        let mut wrote = false;
        for (table, rows, digest) in &group.small {
            if self.small.get(table.name) != Some(digest) {
                wrote = true;
                schema_line(table, true, out)?;
                let converter = Converter::of(publication, table);
                rows.iter().try_for_each(|row| row_line(table, &converter, row, out))?;
                self.small.insert(table.name, digest.clone());
            }
        }
        wrote |= !group.records.is_empty() || !group.changes.is_empty();
        for record in &group.records {
            record_lines(publication, record, &group.rows, out)?;
        }
        if let Some(table) = publication.table("changes") {
            let converter = Converter::of(publication, table);
            group.changes.iter().try_for_each(|row| row_line(table, &converter, row, out))?;
        }
        let moved = group.seq != cursor.seq || group.changed != cursor.changed;
        if wrote || moved {
            self.finish(scene, group.seq, group.changed, out)?;
        }
        Ok(wrote || moved)
    }

    fn finish(&mut self, scene: &Scene, seq: i64, changed: i64, out: &mut impl Write) -> Result<(), StreamError> {
        let cursor = StreamCursor { mirror: scene.mirror.clone(), seq, changed, columns: scene.columns.clone() };
        writeln!(out, "{{\"cursor\":{}}}", json::quoted(&cursor.to_string()))?;
        out.flush()?;
        self.cursor = Some(cursor);
        Ok(())
    }
}

/// The contents of one group, read in one snapshot.
struct Group<'a> {
    records: Vec<ChangedRecord>,
    /// The number of the newest changed record that this group covers.
    changed: i64,
    rows: BTreeMap<&'static str, Vec<SourceRow>>,
    changes: Vec<SourceRow>,
    seq: i64,
    small: Vec<(&'a PublishedTable, Vec<SourceRow>, String)>,
}

impl<'a> Group<'a> {
    /// `None` if the columns have changed.
    fn read(
        moment: &Moment<'_>,
        publication: &'a Publication,
        state: &TargetState,
        cursor: &StreamCursor,
    ) -> Result<Option<Group<'a>>, StoreError> {
        if moment.layout()? != publication.layout {
            return Ok(None);
        }
        let mut records = moment.changed_records(cursor.changed, PAGE)?;
        let changed = records.last().map_or(cursor.changed, |record| record.seq);
        records.retain(|record| publication.objects.contains(&record.object));
        let mut rows = BTreeMap::new();
        for object in &publication.objects {
            let ids: Vec<&str> = records.iter().filter(|r| r.object == *object).map(|r| r.id.as_str()).collect();
            for (name, key, of_object) in tables_of_record(*object) {
                if let Some(table) = publication.table(name).filter(|_| !ids.is_empty()) {
                    let found = moment.of_records(&table.query(), key, of_object.then_some(*object), &ids)?;
                    let filter = RowFilter::new(table, publication, state);
                    rows.entry(table.name)
                        .or_insert_with(Vec::new)
                        .extend(found.into_iter().filter(|row| filter.is_chosen(row)));
                }
            }
        }
        let (mut changes, mut seq) = (Vec::new(), cursor.seq);
        if let Some(table) = publication.table("changes") {
            let page = moment.page(&table.query(), Some(&[SqlValue::Int(cursor.seq)]), PAGE)?;
            seq = match page.last().and_then(|row| row.get(table.place("seq")?)) {
                Some(SqlValue::Int(last)) => *last,
                _ => cursor.seq,
            };
            let filter = RowFilter::new(table, publication, state);
            changes = page.into_iter().filter(|row| filter.is_chosen(row)).collect();
        }
        let mut small = Vec::new();
        for table in publication.tables.iter().filter(|table| table.is_small()) {
            let rows = moment.page(&table.query(), None, u32::MAX)?;
            let digest = value::digest(format!("{rows:?}").as_bytes());
            small.push((table, rows, digest));
        }
        Ok(Some(Group { records, changed, rows, changes, seq, small }))
    }
}

/// The tables with rows of a record, the column with its id, and whether they contain both objects.
const fn tables_of_record(object: Object) -> [(&'static str, &'static str, bool); 3] {
    [(object.table(), "id", false), ("custom_multi_values", "record_id", true), ("removed_records", "id", true)]
}

fn schema_line(table: &PublishedTable, is_complete: bool, out: &mut impl Write) -> Result<(), StreamError> {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let comment = column.comment.as_deref().map_or("null".into(), json::quoted);
            let (name, pg_type) = (json::quoted(&column.source), column.pg_type.as_sql());
            format!("{{\"name\":{name},\"type\":\"{pg_type}\",\"comment\":{comment}}}")
        })
        .collect();
    let key: Vec<String> = table.key.iter().map(|column| json::quoted(column)).collect();
    writeln!(
        out,
        "{{\"schema\":\"{}\",\"complete\":{is_complete},\"key\":[{}],\"columns\":[{}]}}",
        table.name,
        key.join(","),
        columns.join(",")
    )?;
    Ok(())
}

fn row_line(
    table: &PublishedTable,
    converter: &Converter<'_>,
    row: &SourceRow,
    out: &mut impl Write,
) -> Result<(), StreamError> {
    let members: Vec<String> = table
        .columns
        .iter()
        .zip(converter.visible(row))
        .map(|(column, value)| format!("{}:{}", json::quoted(&column.source), json_value(&value, column.pg_type)))
        .collect();
    writeln!(out, "{{\"upsert\":\"{}\",\"row\":{{{}}}}}", table.name, members.join(","))?;
    Ok(())
}

/// A value as JSON: an exact decimal is a string, as in the mirror; a document is embedded.
fn json_value(value: &SqlValue, pg_type: PgType) -> String {
    match (pg_type, value) {
        (_, SqlValue::Null) => "null".into(),
        (PgType::Boolean, SqlValue::Int(i @ 0..=1)) => (*i == 1).to_string(),
        (_, SqlValue::Int(i)) => i.to_string(),
        (_, SqlValue::Real(r)) if r.is_finite() => serde_json::Value::from(*r).to_string(),
        (_, SqlValue::Real(_)) => "null".into(),
        (PgType::Jsonb, SqlValue::Text(text)) => json::on_one_line(text).unwrap_or_else(|| json::quoted(text)),
        (_, SqlValue::Text(text)) => json::quoted(text),
    }
}

/// The current rows of one record. If a table can have several rows of it, they are removed first.
fn record_lines(
    publication: &Publication,
    record: &ChangedRecord,
    rows: &BTreeMap<&'static str, Vec<SourceRow>>,
    out: &mut impl Write,
) -> Result<(), StreamError> {
    let id = json::quoted(&record.id);
    if record.erase > 0 && publication.table("changes").is_some() {
        let object = record.object;
        writeln!(out, "{{\"remove\":\"changes\",\"key\":{{\"object_type\":\"{object}\",\"record_id\":{id}}}}}")?;
    }
    for (name, key, of_object) in tables_of_record(record.object) {
        let Some(table) = publication.table(name) else { continue };
        let (Some(id_place), object_place) = (table.place(key), table.place("object_type")) else { continue };
        let found: Vec<&SourceRow> = rows
            .get(name)
            .into_iter()
            .flatten()
            .filter(|row| {
                row[id_place].as_text() == Some(&record.id)
                    && (!of_object
                        || object_place.and_then(|place| row[place].as_text()) == Some(record.object.as_str()))
            })
            .collect();
        if of_object {
            let object = record.object;
            writeln!(out, "{{\"remove\":\"{name}\",\"key\":{{\"object_type\":\"{object}\",\"{key}\":{id}}}}}")?;
        } else if found.is_empty() {
            writeln!(out, "{{\"remove\":\"{name}\",\"key\":{{\"{key}\":{id}}}}}")?;
        }
        let converter = Converter::of(publication, table);
        found.into_iter().try_for_each(|row| row_line(table, &converter, row, out))?;
    }
    Ok(())
}
