//! A world that survives restarts and kills: its file, written with every request that changes something.
//!
//! The file is a journal with one JSON object per line. The first line has the format and the seed; the others contain
//! records, definitions, stored PATCH answers and the clock's advance, and later lines replace earlier ones. The
//! changes of one request are one line, written before the request is answered, so a kill keeps either all of them or
//! none: a last line without its line break is dropped. When the journal has grown to a multiple of the world, it is
//! rewritten to a new file, which is renamed over the old one.
//!
//! # Invariants
//! - Two processes cannot use the same file: `FILE.lock` is locked until the process ends.
//! - Every value is restored byte for byte, including source text that no JSON value in memory can represent.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Instant, Resource};

use super::cell::Cell;
use super::definition::CustomDefinition;
use super::patch::{Replays, StoredReplay};
use super::table::WorldRecord;
use super::world::{Touched, World};

/// The format of this version.
const FORMAT: u32 = 1;
/// A smaller journal is not rewritten.
const SMALL: u64 = 16 << 20;

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// An error of the file system.
    #[error("{what} the state file {path}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process uses it.
    #[error("the state file {0} is in use by another process")]
    InUse(PathBuf),
    /// It is not a state file, or was written by a newer version.
    #[error("{path} is not a state file of this sandbox: line {line}: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct StateHeader {
    crm_mirror_sandbox: u32,
    seed: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StateLine {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    put: Vec<StoredRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<(String, String)>,
    /// All definitions, if one of them changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<Vec<StoredDefinition>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    replays: BTreeMap<String, StoredReplay>,
    /// The number of identifiers created.
    #[serde(skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
    /// The clock's advance.
    #[serde(skip_serializing_if = "Option::is_none")]
    advanced: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct StoredDefinition {
    definition: Value,
    /// Whether lists of definitions contain it.
    listed: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    of: String,
    id: String,
    cells: BTreeMap<String, StoredCell>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    custom: Vec<(u32, StoredCell)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    raw: BTreeMap<String, Option<String>>,
}

/// A value in a form that is restored unchanged.
#[derive(Serialize, Deserialize)]
enum StoredCell {
    Bool(bool),
    Int(i64),
    Text(Box<str>),
    Time(Instant),
    Etag(Instant),
    List(Box<[Box<str>]>),
    Source(Box<str>),
}

impl From<&Cell> for StoredCell {
    fn from(cell: &Cell) -> StoredCell {
        match cell {
            Cell::Bool(flag) => StoredCell::Bool(*flag),
            Cell::Int(integer) => StoredCell::Int(*integer),
            // The digits instead of the double, because answers show the digits.
            Cell::Real(real) => StoredCell::Source(Value::from(*real).to_string().into()),
            Cell::Text(text) => StoredCell::Text(text.clone()),
            Cell::Word(word) => StoredCell::Text((*word).into()),
            Cell::Time(instant) => StoredCell::Time(*instant),
            Cell::Etag(instant) => StoredCell::Etag(*instant),
            Cell::List(items) => StoredCell::List(items.clone()),
            Cell::Source(source) => StoredCell::Source(source.clone()),
        }
    }
}

impl From<StoredCell> for Cell {
    fn from(stored: StoredCell) -> Cell {
        match stored {
            StoredCell::Bool(flag) => Cell::Bool(flag),
            StoredCell::Int(integer) => Cell::Int(integer),
            StoredCell::Text(text) => Cell::Text(text),
            StoredCell::Time(instant) => Cell::Time(instant),
            StoredCell::Etag(instant) => Cell::Etag(instant),
            StoredCell::List(items) => Cell::List(items),
            StoredCell::Source(source) => Cell::Source(source),
        }
    }
}

/// The contents of a state file when it was opened.
#[derive(Debug)]
pub(crate) struct StoredState {
    /// The world.
    pub world: World,
    /// The seed of the file's first line.
    pub seed: u64,
    /// The clock's advance.
    pub advanced: Duration,
    pub(crate) replays: Replays,
}

/// An open state file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    seed: u64,
    journal: File,
    appended: u64,
    base: u64,
    /// Held until the process ends.
    _lock: File,
}

impl StateFile {
    /// Opens the file and reads its world; a missing or empty file has none.
    ///
    /// # Errors
    /// Returns a [`StateError`] if the file is in use, cannot be read, or is not a state file.
    pub(crate) fn open(path: &Path, seed: u64, empty: World) -> Result<(StateFile, Option<StoredState>), StateError> {
        let failed = |what| move |source| StateError::Io { what, path: path.to_path_buf(), source };
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed("could not lock"))?;
        if lock.try_lock().is_err() {
            return Err(StateError::InUse(path.to_path_buf()));
        }
        let journal = OpenOptions::new().read(true).create(true).append(true).open(path);
        let journal = journal.map_err(failed("could not open"))?;
        let (stored, whole) = read(path, BufReader::new(&journal), empty)?;
        // An incomplete last line is removed, so that the next line does not continue it.
        journal.set_len(whole).map_err(failed("could not repair"))?;
        let seed = stored.as_ref().map_or(seed, |stored| stored.seed);
        let file = StateFile { path: path.to_path_buf(), seed, journal, appended: 0, base: whole, _lock: lock };
        Ok((file, stored))
    }

    /// Appends the changes since the last call. If writing fails, they are written with the next change.
    pub(crate) fn append(
        &mut self,
        world: &mut World,
        replays: &mut Replays,
        advanced: Duration,
    ) -> Result<(), StateError> {
        if !world.touched().is_any() && !replays.has_new() {
            return Ok(());
        }
        self.note(world, replays, advanced)
    }

    /// Appends a line even if no record changed.
    pub(crate) fn note(
        &mut self,
        world: &mut World,
        replays: &mut Replays,
        advanced: Duration,
    ) -> Result<(), StateError> {
        if self.appended > SMALL.max(self.base) {
            return self.rewrite(world, replays, advanced);
        }
        let line = changes(world, world.touched(), replays.new_ones(), advanced);
        let text = text(&line);
        let failed = |source| StateError::Io { what: "could not write to", path: self.path.clone(), source };
        self.journal.write_all(&text).map_err(failed)?;
        self.appended += text.len() as u64;
        world.forget_touched();
        replays.forget_new();
        Ok(())
    }

    /// Writes the whole world to a new file and renames it over this one.
    pub(crate) fn rewrite(
        &mut self,
        world: &mut World,
        replays: &mut Replays,
        advanced: Duration,
    ) -> Result<(), StateError> {
        let written = self.write_beside(world, replays, advanced);
        let (journal, bytes) =
            written.map_err(|source| StateError::Io { what: "could not write", path: self.path.clone(), source })?;
        (self.journal, self.base, self.appended) = (journal, bytes, 0);
        world.forget_touched();
        replays.forget_new();
        Ok(())
    }

    fn write_beside(&self, world: &World, replays: &Replays, advanced: Duration) -> io::Result<(File, u64)> {
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(".new");
        let mut out = BufWriter::new(File::create(&beside)?);
        out.write_all(&text(&StateHeader { crm_mirror_sandbox: FORMAT, seed: self.seed }))?;
        let mut first = changes(world, &Touched::default(), replays.all(), advanced);
        first.definitions = Some(definitions(world));
        out.write_all(&text(&first))?;
        for resource in Resource::ALL.into_iter().filter(|resource| *resource != Resource::CustomFields) {
            for record in world.table(resource).iter() {
                let put = vec![stored_record(world, resource, record)];
                out.write_all(&text(&StateLine { put, ..StateLine::default() }))?;
            }
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        if let Some(directory) = self.path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            File::open(directory)?.sync_all()?;
        }
        let bytes = file.metadata()?.len();
        Ok((OpenOptions::new().append(true).open(&self.path)?, bytes))
    }
}

fn text(line: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

fn changes(world: &World, touched: &Touched, replays: BTreeMap<String, StoredReplay>, advanced: Duration) -> StateLine {
    let mut line = StateLine { replays, born: Some(world.born()), advanced: Some(advanced), ..StateLine::default() };
    for (resource, id) in touched.iter() {
        match world.table(resource).get(id) {
            _ if resource == Resource::CustomFields => line.definitions = Some(definitions(world)),
            Some(record) => line.put.push(stored_record(world, resource, record)),
            None => line.removed.push((resource.path().to_string(), id.to_string())),
        }
    }
    line
}

fn definitions(world: &World) -> Vec<StoredDefinition> {
    let listed = |definition: &CustomDefinition| world.table(Resource::CustomFields).get(&definition.id).is_some();
    let stored = |d: &CustomDefinition| StoredDefinition { definition: d.to_json(), listed: listed(d) };
    world.definitions().iter().map(stored).collect()
}

fn stored_record(world: &World, resource: Resource, record: &WorldRecord) -> StoredRecord {
    let fields = world.table(resource).fields;
    let name = |slot: &u8| fields.get(usize::from(*slot)).map_or_else(String::new, |field| field.wire.to_string());
    StoredRecord {
        of: resource.path().to_string(),
        id: record.id.to_string(),
        cells: record.cells.iter().map(|(slot, cell)| (name(slot), StoredCell::from(cell))).collect(),
        custom: record.custom.iter().map(|(place, cell)| (*place, StoredCell::from(cell))).collect(),
        raw: record.raw.clone(),
    }
}

/// Reads a journal; also returns how many of its bytes are complete lines.
fn read(path: &Path, mut from: impl BufRead, mut world: World) -> Result<(Option<StoredState>, u64), StateError> {
    let unreadable = |line, why: String| StateError::Unreadable { path: path.to_path_buf(), line, why };
    let (mut header, mut replays, mut advanced) = (None, Replays::default(), Duration::ZERO);
    let (mut whole, mut number) = (0_u64, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = from.read_until(b'\n', &mut line);
        let bytes =
            bytes.map_err(|source| StateError::Io { what: "could not read", path: path.to_path_buf(), source })?;
        if bytes == 0 || line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        if header.is_none() {
            let read: StateHeader = serde_json::from_slice(&line).map_err(|e| unreadable(number, e.to_string()))?;
            if read.crm_mirror_sandbox != FORMAT {
                return Err(unreadable(number, format!("format {} is unknown", read.crm_mirror_sandbox)));
            }
            header = Some(read);
        } else {
            let read: StateLine = serde_json::from_slice(&line).map_err(|e| unreadable(number, e.to_string()))?;
            advanced = read.advanced.unwrap_or(advanced);
            apply(&mut world, &mut replays, read).map_err(|why| unreadable(number, why))?;
        }
        whole += bytes as u64;
    }
    // A file that is not a state file must not be truncated.
    if header.is_none() && !line.is_empty() {
        return Err(unreadable(1, "it is not the first line of a state file".to_string()));
    }
    world.forget_touched();
    let stored = header.map(|header| StoredState { world, seed: header.seed, advanced, replays });
    Ok((stored, whole))
}

fn apply(world: &mut World, replays: &mut Replays, line: StateLine) -> Result<(), String> {
    let resource = |path: &str| {
        let found = Resource::ALL.into_iter().find(|resource| resource.path() == path);
        found.ok_or_else(|| format!("`{path}` is not a list of the service"))
    };
    if let Some(definitions) = line.definitions {
        let mut read = Vec::new();
        for stored in definitions {
            read.push((CustomDefinition::from_json(&stored.definition)?, stored.listed));
        }
        world.restore_definitions(read);
    }
    for (path, id) in line.removed {
        world.table_mut(resource(&path)?).remove(&id);
    }
    for stored in line.put {
        let resource = resource(&stored.of)?;
        let mut record = WorldRecord::new(stored.id.as_str().into());
        for (wire, cell) in stored.cells {
            let slot = world.table(resource).slot(&wire).ok_or_else(|| format!("`{wire}` is not a field"))?;
            record.set(slot, Some(cell.into()));
        }
        for (place, cell) in stored.custom {
            record.set_custom(place, Some(cell.into()));
        }
        record.raw = stored.raw;
        world.table_mut(resource).put(record);
    }
    replays.restore(line.replays);
    if let Some(born) = line.born {
        world.restore_born(born);
    }
    Ok(())
}
