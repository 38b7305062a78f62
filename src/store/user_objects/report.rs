//! Users' objects that do not work, for `status` and `check`, and those that a run may drop, for `check`.

use rusqlite::Connection;
use serde::Serialize;

use super::files::AppliedFiles;
use super::objects;
use crate::model::catalogue::Object;
use crate::store::derived::indexes::configured;
use crate::store::derived::options::BuiltFrom;
use crate::store::derived::search::search_damage;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenObject {
    /// `view`, `index` for one of `database.indexes`, `file` for one of `database.views`, or `search index`.
    pub kind: String,
    pub name: String,
    /// SQLite's error message.
    pub why: String,
}

/// SQLite's errors for objects that need functions or modules of another program, which is no defect.
const UNKNOWN_HERE: [&str; 3] = ["no such function", "no such collation sequence", "no such module"];

pub fn broken(tx: &ReadTx<'_>) -> Result<Vec<BrokenObject>, StoreError> {
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
pub fn damaged_search(tx: &ReadTx<'_>) -> Result<Vec<BrokenObject>, StoreError> {
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
pub fn not_kept(tx: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let found = [objects::indexes(&tx.conn)?, objects::triggers(&tx.conn)?];
    Ok(found.into_iter().flatten().map(|object| format!("{} {}", object.kind, object.name)).collect())
}

/// Users' views that do not compile; for a view from a file, the file.
pub(super) fn views(conn: &Connection, files: &AppliedFiles) -> Result<Vec<BrokenObject>, StoreError> {
    Ok(objects::views(conn)?
        .into_iter()
        .filter_map(|view| {
            let sql = format!("SELECT 1 FROM main.\"{}\" LIMIT 0", view.name.replace('"', "\"\""));
            let why = conn.prepare(&sql).err().map(|error| objects::sqlite_message(&error))?;
            let is_unknown_here = UNKNOWN_HERE.iter().any(|start| why.starts_with(start));
            let broken = match files.file_of(&view.name) {
                Some(file) => {
                    BrokenObject { kind: "file".into(), name: file.into(), why: format!("{}: {why}", view.name) }
                }
                None => BrokenObject { kind: view.kind, name: view.name, why },
            };
            (!is_unknown_here).then_some(broken)
        })
        .collect())
}
