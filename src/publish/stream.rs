//! The mirror as one stream of JSON lines: a snapshot, and what changed after a cursor.
//!
//! A record is sent whole whenever anything in it changes, so lines may be repeated, and applying them again is harmless. If
//! the columns differ from those of the cursor, all rows but the history are sent again. The names of owners and companies,
//! which change with other records, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::row::{self, PublishedRows};
use super::sides::{self, Unsent, expect_layout};
use super::state::TargetState;
use super::tables::{self, PgType, Publication, PublishedTable};
use super::{PublishError, value};
use crate::model::{Resource, SqlValue};
use crate::store::publishing::queue;
use crate::store::publishing::source::FeedEnd;
use crate::store::{FileId, Moment, Reader, SourceRow, StoreError, write_beside};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    mirror: String,
    seq: i64,
    changed: i64,
    /// A digest of what is published.
    settings: String,
    /// A digest of the columns and multi-selects of the objects whose first copy is finished.
    columns: String,
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}-{}", self.mirror, self.seq, self.changed, self.settings, self.columns)
    }
}

impl StreamCursor {
    /// Requires that the mirror goes on from it: whoever restores a mirror puts another one, or an older one, in its place.
    fn continues(&self, moment: &Moment<'_>) -> Result<(), PublishError> {
        let refused = moment.end()?.refuses(&self.mirror, self.seq, self.changed);
        refused.map_or(Ok(()), |why| Err(PublishError::Cursor(why)))
    }
}

impl FromStr for StreamCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<StreamCursor, &'static str> {
        let parse = || {
            let [mirror, seq, changed, digests] = text.split(':').collect::<Vec<&str>>().try_into().ok()?;
            let (settings, columns) = digests.split_once('-')?;
            let [mirror, settings, columns] = [mirror, settings, columns].map(String::from);
            Some(StreamCursor { mirror, seq: seq.parse().ok()?, changed: changed.parse().ok()?, settings, columns })
        };
        parse().ok_or("it is not a cursor of a stream: copy one from a line {\"cursor\": …}")
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
    ) -> Result<MirrorStream, PublishError> {
        let file = FileId::of(path);
        let source = Reader::open(path)?;
        if !source.moment(|moment| queue::is_recording(moment.tx))? {
            write_beside::<_, StoreError>(path, |tx| tx.feed().begin_recording())?;
        }
        let (small, announced) = (BTreeMap::new(), BTreeSet::new());
        Ok(MirrorStream { path: path.into(), file, source, resources, exclude, cursor: None, small, announced })
    }

    /// Continues after a cursor, and sends the small tables again. [`PublishError::Cursor`] for a cursor of another
    /// mirror, or if the history no longer reaches back to it.
    pub fn resume(&mut self, cursor: StreamCursor) -> Result<(), PublishError> {
        self.source.moment(|moment| cursor.continues(moment))?;
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Writes a consistent group of the changes since the last one, and its cursor; first, without
    /// [`MirrorStream::resume`], everything. Returns whether there was anything to write.
    pub fn step(&mut self, out: &mut impl Write) -> Result<bool, PublishError> {
        let cursor = self.cursor.clone();
        let mut scene = self.source.moment(|moment| {
            cursor.iter().try_for_each(|cursor| cursor.continues(moment))?;
            self.scene(moment)
        })?;
        let mut lines = Lines { out, announced: std::mem::take(&mut self.announced) };
        let reached = match cursor.filter(|cursor| cursor.settings == scene.newest.settings) {
            Some(cursor) if cursor.columns == scene.newest.columns => {
                (scene.state.cursor, scene.state.changed) = (Some((cursor.mirror.clone(), cursor.seq)), cursor.changed);
                self.changes(&scene, cursor, &mut lines)
            }
            cursor => self.everything(&scene, cursor.as_ref(), &mut lines).map(Some),
        };
        self.announced = lines.announced;
        match reached {
            // The columns changed meanwhile: the next step starts again.
            Err(PublishError::Unsettled) => Ok(true),
            reached => {
                let Some(cursor) = reached? else { return Ok(false) };
                writeln!(out, "{}", json!({"cursor": cursor.to_string()}))?;
                out.flush()?;
                self.cursor = Some(cursor);
                Ok(true)
            }
        }
    }

    /// A number that changes whenever another connection commits; [`PublishError::Cursor`] if the mirror was replaced.
    pub fn version(&self) -> Result<i64, PublishError> {
        if FileId::of(&self.path) != self.file {
            return Err(PublishError::Cursor("another file is at the mirror's path"));
        }
        Ok(self.source.data_version()?)
    }

    fn scene(&self, moment: &Moment<'_>) -> Result<Scene, PublishError> {
        let mut publication = tables::publication(moment, self.resources.as_deref(), &self.exclude)?;
        for table in &mut publication.tables {
            table.columns.retain(|column| !row::is_joined(&column.name));
        }
        let state = TargetState::default().after_load(&publication);
        let tables = publication.chosen_tables().filter(|table| !table.is_small() && state.is_loaded(table));
        let columns = |table: &PublishedTable| -> Vec<String> {
            table.columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect()
        };
        let columns: Vec<_> = tables.map(|table| (table.name, columns(table))).collect();
        let columns = value::digest(format!("{columns:?} {:?}", publication.multi_selects).as_bytes());
        let [settings, columns] = [&state.settings, &columns].map(|digest| digest[..12].to_string());
        let FeedEnd { mirror, newest: seq, changed, .. } = publication.end.clone();
        Ok(Scene { newest: StreamCursor { mirror, seq, changed, settings, columns }, publication, state })
    }

    /// Writes all rows, which take the place of those that were sent before; with a cursor, of which only the columns differ,
    /// those of the history stay. Changes made meanwhile are part of the next group.
    fn everything(
        &mut self,
        scene: &Scene,
        cursor: Option<&StreamCursor>,
        lines: &mut Lines<'_, impl Write>,
    ) -> Result<StreamCursor, PublishError> {
        let Scene { publication, state, newest } = scene;
        let is_sent = |table: &&PublishedTable| match table.name {
            "changes" if cursor.is_some() => false,
            // Small tables are sent whole with the next group; one that is not published may have been published before. A
            // table whose first copy is not finished stays as it is.
            _ => !table.is_chosen || !table.is_small() && state.is_loaded(table),
        };
        let reached = cursor.unwrap_or(newest);
        for table in publication.tables.iter().filter(is_sent) {
            lines.schema(table, true)?;
            let published = PublishedRows { table, publication, state };
            let mut page_after = table.is_chosen.then_some(None::<Vec<SqlValue>>);
            while let Some(after) = page_after {
                let (rows, next) = self.source.moment(|moment| {
                    expect_layout(moment, publication.layout.version)?;
                    reached.continues(moment)?;
                    published.page(moment, after.as_deref()).map_err(PublishError::from)
                })?;
                lines.rows(&published, &rows)?;
                page_after = next.map(Some);
            }
        }
        self.small.clear();
        Ok(StreamCursor { columns: newest.columns.clone(), ..reached.clone() })
    }

    /// Returns the cursor after what was written, if there was anything.
    fn changes(
        &mut self,
        scene: &Scene,
        cursor: StreamCursor,
        lines: &mut Lines<'_, impl Write>,
    ) -> Result<Option<StreamCursor>, PublishError> {
        let Scene { publication, state, .. } = scene;
        let published = |table| PublishedRows { table, publication, state };
        let (group, small) = self.source.moment(|moment| {
            expect_layout(moment, publication.layout.version)?;
            cursor.continues(moment)?;
            let small = publication.open_tables().filter(|table| table.is_small());
            let small = small.map(|table| Ok((table, sides::whole(moment, table)?)));
            let small = small.collect::<Result<Vec<_>, StoreError>>()?;
            Ok::<_, PublishError>((Unsent::read(moment, publication, state)?, small))
        })?;
        let changed = group.records.last().map_or(cursor.changed, |record| record.seq);
        let seq = group.last.unwrap_or(cursor.seq);
        let mut is_news = (changed, seq) != (cursor.changed, cursor.seq);
        for (table, (rows, digest)) in small {
            if self.small.get(table.name) != Some(&digest) {
                is_news = true;
                lines.schema(table, true)?;
                lines.rows(&published(table), &rows)?;
                self.small.insert(table.name, digest);
            }
        }
        for change in group.changes.values() {
            let Some(table) = publication.table(change.table) else { continue };
            let of_object = change.object.map(|object| ("object_type", object.as_str()));
            for id in &change.gone {
                lines.remove(table, of_object.into_iter().chain([(change.key, id.as_str())]))?;
            }
            lines.rows(&published(table), &change.rows)?;
        }
        if let Some(table) = publication.table("changes") {
            lines.rows(&published(table), &group.entries)?;
        }
        Ok(is_news.then_some(StreamCursor { seq, changed, ..cursor }))
    }
}

/// Writes lines. The columns of a table are written before its first row.
struct Lines<'a, W: Write> {
    out: &'a mut W,
    announced: BTreeSet<&'static str>,
}

impl<W: Write> Lines<'_, W> {
    /// The columns of a table; `is_complete` if its rows follow.
    fn schema(&mut self, table: &PublishedTable, is_complete: bool) -> io::Result<()> {
        self.announced.insert(table.name);
        let columns = table.columns.iter().map(|column| {
            let (name, comment) = (value::json(column.name.as_str()), json!(column.comment));
            let pg_type = column.pg_type.as_sql();
            format!("{{\"name\":{name},\"type\":\"{pg_type}\",\"comment\":{comment}}}")
        });
        let (columns, key) = (columns.collect::<Vec<_>>().join(","), json!(table.key));
        let name = table.name;
        writeln!(self.out, "{{\"schema\":\"{name}\",\"complete\":{is_complete},\"key\":{key},\"columns\":[{columns}]}}")
    }

    fn announce(&mut self, table: &PublishedTable) -> io::Result<()> {
        if self.announced.contains(table.name) { Ok(()) } else { self.schema(table, false) }
    }

    fn rows(&mut self, published: &PublishedRows<'_>, rows: &[SourceRow]) -> io::Result<()> {
        let table = published.table;
        for row in rows {
            self.announce(table)?;
            let members = table.columns.iter().zip(row).map(|(column, value)| {
                let value = published.without_hidden(&column.name, value, row);
                format!("{}:{}", value::json(column.name.as_str()), json_value(&value, column.pg_type))
            });
            let members = members.collect::<Vec<_>>().join(",");
            writeln!(self.out, "{{\"upsert\":\"{}\",\"row\":{{{members}}}}}", table.name)?;
        }
        Ok(())
    }

    fn remove<'k>(
        &mut self,
        table: &PublishedTable,
        key: impl IntoIterator<Item = (&'static str, &'k str)>,
    ) -> io::Result<()> {
        self.announce(table)?;
        let key: Map<String, Value> = key.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        writeln!(self.out, "{{\"remove\":\"{}\",\"key\":{}}}", table.name, Value::from(key))
    }
}

/// A value as JSON: an exact decimal is a string, as in the mirror; a document is embedded.
fn json_value(value: &SqlValue, pg_type: PgType) -> String {
    match (pg_type, value) {
        (PgType::Boolean, SqlValue::Int(i @ 0..=1)) => (*i == 1).to_string(),
        (PgType::Jsonb, SqlValue::Text(text)) => value::on_one_line(text).unwrap_or_else(|| value::json(text.as_str())),
        _ => value::json(value),
    }
}
