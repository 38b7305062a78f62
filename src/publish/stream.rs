//! The mirror as one stream of JSON lines: a snapshot, and what changed after a cursor.
//!
//! A record is sent whole whenever anything in it changes, so lines may be repeated, and applying them again is
//! harmless. The cursor contains the position in the feed, the number of the newest changed record, and digests of the
//! columns: if those of an object differ, its rows are sent again. The names of owners and companies, which change with
//! other records, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::row::{self, PublishedRows};
use super::sides::{ChangedRows, Unsent, expect_layout, tables_of_record};
use super::state::TargetState;
use super::tables::{self, PgType, Publication, PublishedTable};
use super::{PublishError, value};
use crate::model::{Object, Resource, SqlValue};
use crate::store::publishing::queue;
use crate::store::{FileId, Moment, Reader, SourceRow, StateKey, StoreError, feed, write_beside};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    mirror: String,
    seq: i64,
    changed: i64,
    /// A digest of what is sent, but for the columns of each object.
    settings: String,
    /// A digest of the columns and multi-selects of each object; empty until its first copy is finished.
    objects: [String; 2],
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.objects;
        write!(f, "{}:{}:{}:{}-{one}-{other}", self.mirror, self.seq, self.changed, self.settings)
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
        let Ok([settings, one, other]) = <[String; 3]>::try_from(digests) else { return Err(WRONG) };
        let (seq, changed) = (number(seq)?, number(changed)?);
        Ok(StreamCursor { mirror: mirror.into(), seq, changed, settings, objects: [one, other] })
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
    /// The objects that are sent, and the position: that of the cursor, or the end of the feed.
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
        let mut scene = self.source.moment(|moment| {
            cursor.iter().try_for_each(|cursor| cursor.continues(moment))?;
            self.scene(moment).map_err(StreamError::from)
        })?;
        let wrote = match cursor {
            Some(cursor) if cursor.settings == scene.newest.settings => {
                (scene.state.cursor, scene.state.changed) = (Some((cursor.mirror.clone(), cursor.seq)), cursor.changed);
                match cursor.objects == scene.newest.objects {
                    true => self.changes(&scene, &cursor, out),
                    false => self.changed_columns(&scene, &cursor, out).map(|()| true),
                }
            }
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
        for table in &mut publication.tables {
            table.columns.retain(|column| !row::is_joined(&column.source));
        }
        let state = TargetState::default().after_load(&publication);
        let columns = |table: &PublishedTable| -> Vec<String> {
            table.columns.iter().map(|column| format!("{} {}", column.source, column.data_type)).collect()
        };
        // The columns of objects have digests of their own, and small tables are sent whole.
        let is_described = |table: &PublishedTable| table.object().is_none() && !table.is_small();
        let described = |table| if is_described(table) { columns(table) } else { Vec::new() };
        let tables: Vec<_> = publication.chosen_tables().map(|table| (table.name, described(table))).collect();
        let settings = format!("{tables:?} {:?} {}", publication.layout.exclusions.entries(), publication.rewrites);
        let digest_of = |object: Object| {
            let table = publication.table(object.table()).filter(|table| state.is_loaded(table));
            let keys: BTreeSet<_> = publication.multi_selects.iter().filter(|(of, _)| *of == object).collect();
            table.map(|table| short_digest(&format!("{:?} {keys:?}", columns(table)))).unwrap_or_default()
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
        // Small tables are sent whole with the next group.
        for table in scene.publication.tables.iter().filter(|table| !table.is_chosen || !table.is_small()) {
            // One that is not published may have been published before.
            if !table.is_chosen || scene.state.is_loaded(table) {
                Lines { out, announced: &mut self.announced }.schema(table, true)?;
            }
            if scene.state.is_loaded(table) {
                self.rows(scene, &scene.newest, (table, None), out)?;
            }
        }
        self.small.clear();
        self.finish(scene.newest.clone(), out)
    }

    /// Writes the rows of the objects whose columns differ from those of the cursor, but for the history.
    fn changed_columns(
        &mut self,
        scene: &Scene,
        cursor: &StreamCursor,
        out: &mut impl Write,
    ) -> Result<(), StreamError> {
        let objects = Object::ALL.into_iter().enumerate();
        for (_, object) in objects.filter(|(place, _)| cursor.objects[*place] != scene.newest.objects[*place]) {
            for (name, _, of_object) in tables_of_record(object) {
                let Some(table) = scene.publication.table(name) else { continue };
                let mut lines = Lines { out, announced: &mut self.announced };
                match of_object {
                    true => lines.remove(table, &[("object_type", object.as_str())])?,
                    false => lines.schema(table, true)?,
                }
                self.rows(scene, cursor, (table, of_object.then_some(object)), out)?;
            }
        }
        self.finish(StreamCursor { objects: scene.newest.objects.clone(), ..cursor.clone() }, out)
    }

    /// Writes the rows of a table; with an object, only its rows.
    fn rows(
        &mut self,
        scene: &Scene,
        reached: &StreamCursor,
        (table, object): (&PublishedTable, Option<Object>),
        out: &mut impl Write,
    ) -> Result<(), StreamError> {
        let published = PublishedRows::new(table, &scene.publication, &scene.state);
        let is_of = |row: &SourceRow| {
            let of = table.place("object_type").and_then(|place| row[place].as_text());
            object.is_none_or(|object| of == Some(object.as_str()))
        };
        let mut after: Option<Vec<SqlValue>> = None;
        loop {
            let page = self.source.moment(|moment| {
                expect_layout(moment, scene.publication.layout.version)?;
                reached.continues(moment)?;
                published.page(moment, after.as_deref()).map_err(StreamError::from)
            });
            let (rows, next) = page?;
            let mut lines = Lines { out, announced: &mut self.announced };
            rows.iter().filter(|row| is_of(row)).try_for_each(|row| lines.row(table, &published, row))?;
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn changes(&mut self, scene: &Scene, cursor: &StreamCursor, out: &mut impl Write) -> Result<bool, StreamError> {
        let Scene { publication, state, .. } = scene;
        let read = |moment: &Moment<'_>| {
            expect_layout(moment, publication.layout.version)?;
            cursor.continues(moment)?;
            Unsent::read(moment, publication, state).map_err(StreamError::from)
        };
        let group = self.source.moment(read)?;
        let changed = group.records.last().map_or(cursor.changed, |record| record.seq);
        let seq = group.last.unwrap_or(cursor.seq);
        let mut lines = Lines { out, announced: &mut self.announced };
        let mut wrote = false;
        for table in publication.chosen_tables() {
            let Some((rows, digest)) = group.small.get(table.name) else { continue };
            if self.small.get(table.name) != Some(digest) {
                wrote = true;
                lines.schema(table, true)?;
                lines.rows(scene, table, rows)?;
                self.small.insert(table.name, digest.clone());
            }
        }
        for object in &state.loaded {
            for change in group.of_records(publication, *object) {
                lines.change(&change)?;
                lines.rows(scene, change.table, change.rows)?;
            }
        }
        if let Some(table) = publication.table("changes") {
            lines.rows(scene, table, &group.entries)?;
        }
        let moved = (changed, seq) != (cursor.changed, cursor.seq);
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

fn short_digest(text: &str) -> String {
    value::digest(text.as_bytes())[..12].to_string()
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

    fn row(&mut self, table: &PublishedTable, published: &PublishedRows<'_>, row: &SourceRow) -> io::Result<()> {
        self.announce(table)?;
        let members: Vec<String> = table
            .columns
            .iter()
            .zip(published.visible(row))
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

    fn rows(&mut self, scene: &Scene, table: &PublishedTable, rows: &[SourceRow]) -> io::Result<()> {
        let published = PublishedRows::new(table, &scene.publication, &scene.state);
        rows.iter().try_for_each(|row| self.row(table, &published, row))
    }

    /// What is removed before the rows of a change are written.
    fn change(&mut self, change: &ChangedRows<'_>) -> io::Result<()> {
        let of_object = change.object.map(|object| ("object_type", object.as_str()));
        let key = |id| of_object.into_iter().chain([(change.key, id)]).collect::<Vec<_>>();
        change.gone.iter().try_for_each(|id| self.remove(change.table, &key(*id)))
    }
}

/// A value as JSON: an exact decimal is a string, as in the mirror; a document is embedded.
fn json_value(value: &SqlValue, pg_type: PgType) -> String {
    match (pg_type, value) {
        (PgType::Boolean, SqlValue::Int(i @ 0..=1)) => (*i == 1).to_string(),
        (PgType::Jsonb, SqlValue::Text(text)) => value::on_one_line(text).unwrap_or_else(|| value::quoted(text)),
        _ => serde_json::Value::from(value).to_string(),
    }
}
