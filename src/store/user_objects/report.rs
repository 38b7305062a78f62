//! Users' objects around a change of the columns: removed before it, and restored afterwards; and those that do not work, for
//! `status` and `check`.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use super::files::{self, ViewFiles};
use crate::model::Object;
use crate::store::derived::indexes::configured;
use crate::store::derived::search::search_damage;
use crate::store::{AppliedFiles, BuiltFrom, DerivedTx, ReadTx, Result, objects, quoted};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenObject {
    /// `view`, `index` for one of `database.indexes`, `file` for one of `database.views`, or `search index`.
    pub kind: String,
    pub name: String,
    pub why: String,
}

/// SQLite's errors for objects that need functions or modules of another program, which is no defect.
const UNKNOWN_HERE: [&str; 3] = ["no such function", "no such collation sequence", "no such module"];

pub fn broken(tx: &ReadTx<'_>) -> Result<Vec<BrokenObject>> {
    let BuiltFrom { files, options, .. } = BuiltFrom::read(&tx.conn)?;
    let mut broken = views(&tx.conn, &files)?;
    for entry in options.indexes {
        if configured(&tx.conn, &entry)?.is_none() {
            let why = "database.indexes names it, but there is no such column".into();
            broken.push(BrokenObject { kind: "index".into(), name: entry, why });
        }
    }
    broken.extend(files.refused.into_iter().map(|(name, why)| BrokenObject { kind: "file".into(), name, why }));
    Ok(broken)
}

/// The search indexes that another program has damaged. This reads the documents of every record.
pub fn damaged_search(tx: &ReadTx<'_>) -> Result<Vec<BrokenObject>> {
    let mut broken = Vec::new();
    for object in Object::ALL {
        if let Some(why) = search_damage(tx, object)? {
            let why = format!("{why}; the next run builds it again");
            broken.push(BrokenObject { kind: "search index".into(), name: object.search_table().into(), why });
        }
    }
    Ok(broken)
}

/// Users' indexes and triggers, as `index by_name`. A run drops those that are in its way.
pub fn not_kept(tx: &ReadTx<'_>) -> Result<Vec<String>> {
    let found = objects::of_users(&tx.conn, "type IN ('index', 'trigger')")?;
    Ok(found.into_iter().map(|object| format!("{} {}", object.kind, object.name)).collect())
}

/// Users' views that do not compile; for a view from a file, the file.
pub(super) fn views(conn: &Connection, files: &AppliedFiles) -> Result<Vec<BrokenObject>> {
    Ok(objects::of_users(conn, "type = 'view'")?
        .into_iter()
        .filter_map(|view| {
            let sql = format!("SELECT 1 FROM main.{} LIMIT 0", quoted(&view.name));
            let why = conn.prepare(&sql).err().map(|error| objects::sqlite_message(&error))?;
            let is_unknown_here = UNKNOWN_HERE.iter().any(|start| why.starts_with(start));
            let (kind, name, why) = match files.file_of(&view.name) {
                Some(file) => ("file".into(), file.into(), format!("{}: {why}", view.name)),
                None => (view.kind, view.name, why),
            };
            (!is_unknown_here).then_some(BrokenObject { kind, name, why })
        })
        .collect())
}

fn view_files(built: &BuiltFrom) -> ViewFiles {
    built.options.folder.as_ref().map(|folder| files::read(Path::new(folder))).unwrap_or_default()
}

impl DerivedTx<'_> {
    pub(in crate::store) fn remove_user_objects(&self) -> Result<()> {
        let mut aside = self.tx.pending.aside.borrow_mut();
        if aside.is_none() {
            *aside = Some(objects::set_aside(&self.tx.conn)?);
        }
        Ok(())
    }

    pub(in crate::store) fn restore_user_objects(&self) -> Result<()> {
        let Some(mut views) = self.tx.pending.aside.take() else { return Ok(()) };
        let built = BuiltFrom::read(&self.tx.conn)?;
        views.retain(|view| built.files.file_of(&view.name).is_none());
        objects::restore(&self.tx.conn, &views);
        self.apply_view_files(&built.files, &view_files(&built))
    }

    pub(in crate::store) fn refresh_view_files(&self) -> Result<()> {
        let built = BuiltFrom::read(&self.tx.conn)?;
        let (known, found) = (&built.files, view_files(&built));
        if known.digest == files::digest(&found) || known.digest.is_empty() && found.is_empty() {
            return Ok(());
        }
        self.apply_view_files(known, &found)
    }

    fn apply_view_files(&self, known: &AppliedFiles, found: &ViewFiles) -> Result<()> {
        let now = files::apply(&self.tx.conn, known, found)?;
        for (file, why) in now.refused.iter().filter(|(file, _)| !known.refused.contains_key(*file)) {
            tracing::warn!("The file `{file}` of database.views was not applied: {why}");
        }
        for broken in views(&self.tx.conn, &now)? {
            tracing::warn!("The {} `{}` does not work: {}", broken.kind, broken.name, broken.why);
        }
        self.now_built_from(|built| built.files = now)
    }
}
