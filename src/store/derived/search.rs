//! `contact_search` and `company_search`: full-text search over names, addresses, notes, summaries and custom texts.
//!
//! One list of SQL expressions, in [`crate::store::derived::search_document`], makes every document, in bulk and for a page. So
//! the index always equals a rebuilt one.
//!
//! # Invariants
//! - Once an object's first copy is finished, each of its records has one document, up to date at every commit.
//! - A transaction compares the documents of the records that it changed and writes those that differ once, in ascending
//!   order of docid: FTS5 starts a new segment for every step back.
//! - The search tables store the texts too: this needs no extension newer than 3.37, survives a VACUUM, and allows
//!   snippets.

use rusqlite::Params;

use crate::error_chain::error_chain;
use crate::model::Object;
use crate::store::{DerivedTx, Document, ReadTx, Result, StateKey, Statements, migrate};

/// Which of the two objects a document is of: a 0 or a 1 takes no byte in a row, nor in the index.
fn is_company(object: Object) -> i64 {
    i64::from(object == Object::Company)
}

/// What a few counts and one search show to be wrong with the index of an object; `None` also if there is none yet.
pub(in crate::store) fn search_damage(tx: &ReadTx<'_>, object: Object) -> Result<Option<String>> {
    if tx.state::<Vec<String>>(&StateKey::searched(object))?.is_none() {
        return Ok(None);
    }
    let (table, search) = (object.table(), object.search_table());
    let count = |sql: &str| tx.conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    // SQLite calls a table without its parts a damaged file, and then refuses to write for the rest of the transaction.
    let parts = PARTS.map(|part| format!("'{search}_{part}'")).join(", ");
    let parts = count(&format!("SELECT count(*) FROM sqlite_schema WHERE name IN ('{search}', {parts})"));
    if parts? <= PARTS.len() as i64 {
        return Ok(Some("one of its tables is missing".into()));
    }
    let records = count(&format!("SELECT count(*) FROM {table}"))?;
    // The pages of the index, which FTS5 numbers by segment and place, and its version, which a connection reads only once.
    // A merge under way removes the pages of a segment from its beginning.
    let pages = format!("FROM {search}_data WHERE id BETWEEN i.segid << 37 AND (i.segid << 37) + (1 << 31) - 1");
    let lost_parts = format!(
        "SELECT count(*) + (EXISTS (SELECT 1 FROM {search}_data WHERE id >> 37) AND NOT EXISTS (SELECT 1 FROM {search}_idx))
            + NOT EXISTS (SELECT 1 FROM {search}_config WHERE k = 'version' AND v IN (4, 5))
         FROM {search}_idx AS i WHERE NOT EXISTS (SELECT 1 FROM {search}_data WHERE id = (i.segid << 37) + (i.pgno >> 1))
            AND (i.segid << 37) + (i.pgno >> 1) > coalesce((SELECT min(id) {pages}), 0)"
    );
    let looked_at = || -> rusqlite::Result<(i64, [i64; 3])> {
        // No term is smaller, of words or of sequences of three characters: every segment is read from its first page on.
        count(&format!("SELECT count(*) FROM (SELECT 1 FROM {search} WHERE {search} MATCH '0 OR \"   \"' LIMIT 1)"))?;
        let documents = [
            count(&format!("SELECT count(*) FROM search_documents WHERE is_company = {}", is_company(object)))?,
            count(&format!("SELECT count(*) FROM {search}_docsize"))?,
            count(&format!("SELECT count(*) FROM {search}_content"))?,
        ];
        Ok((count(&lost_parts)?, documents))
    };
    let differ = |documents: i64| format!("it has {documents} documents of {records} records");
    Ok(match looked_at() {
        Err(error) => Some(error.to_string()),
        Ok((1.., _)) => Some("parts of it are missing".into()),
        Ok((_, documents)) => documents.into_iter().find(|documents| *documents != records).map(differ),
    })
}

impl DerivedTx<'_> {
    /// Merges the whole index: what was removed stays in it until its segment is merged.
    pub(in crate::store) fn forget_removed_words(&self, object: Object) -> Result<()> {
        let table = object.search_table();
        match self.run(&format!("INSERT INTO {table} ({table}) VALUES ('optimize')"), []) {
            Err(error) if !self.tx.conn.is_autocommit() => self.mend_search(object, &error_chain(&error)),
            done => done,
        }
    }

    pub(in crate::store) fn flush_search(&self) -> Result<()> {
        for object in Object::ALL {
            let changed: serde_json::Value = {
                let changed = self.tx.pending.changed.borrow();
                changed.iter().filter(|(of, _)| *of == object).map(|(_, id)| id.as_str()).collect()
            };
            if changed.as_array().is_none_or(Vec::is_empty) || !self.tx.is_copied(object)? {
                continue;
            }
            // What SQLite would write with the commit is written here, where a failure costs nothing else.
            let table = object.search_table();
            let flush = format!("INSERT INTO {table} ({table}) VALUES ('flush')");
            match self.write_documents(object, &changed.to_string()).and_then(|()| self.run(&flush, [])) {
                // A failure of the disk or of memory has ended the transaction.
                Err(error) if self.tx.conn.is_autocommit() => return Err(error),
                // What was written of the documents goes with the index, so no savepoint is needed: it would write every
                // page of the index twice.
                Err(error) => self.mend_search(object, &error_chain(&error))?,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Rebuilds an index if it is damaged: it is derived, and must not stop the page that it is derived from. An error that
    /// has another reason occurs again here.
    fn mend_search(&self, object: Object, why: &str) -> Result<()> {
        let document = self.tx.shapes().document(object);
        self.recreate_search(object)?;
        self.build_search(object, &document)?;
        self.tx.set_state(&StateKey::searched(object), &document.custom)?;
        tracing::warn!("The search index of {} was damaged, and was built again: {why}", object.table());
        Ok(())
    }

    pub(in crate::store) fn mend_searches(&self) -> Result<()> {
        let found = self.sequentially(|| Ok(Object::ALL.map(|object| search_damage(self.tx, object))))?;
        for (object, damage) in Object::ALL.into_iter().zip(found) {
            if let Some(why) = damage? {
                self.mend_search(object, &why)?;
            }
        }
        Ok(())
    }

    /// Brings the documents of records that changed up to date; `ids` is a JSON array.
    fn write_documents(&self, object: Object, ids: &str) -> Result<()> {
        let document = self.tx.shapes().document(object);
        let (table, search, of) = (object.table(), object.search_table(), is_company(object));
        let known = "m.is_company = ?1 AND m.record_id IN (SELECT value FROM json_each(?2))";
        let gone = format!(
            "SELECT docid FROM search_documents AS m
             WHERE {known} AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = m.record_id)"
        );
        self.run(&format!("DELETE FROM {search} WHERE rowid IN ({gone})"), (of, ids))?;
        self.run(&format!("DELETE FROM search_documents WHERE docid IN ({gone})"), (of, ids))?;
        self.update_documents(&document, known, (of, ids))?;
        let last: i64 = self.value("SELECT coalesce(max(docid), 0) FROM search_documents", [])?;
        let new = format!(
            "INSERT INTO search_documents (is_company, record_id) SELECT ?1, id FROM {table}
             WHERE id IN (SELECT value FROM json_each(?2))
               AND NOT EXISTS (SELECT 1 FROM search_documents WHERE is_company = ?1 AND record_id = id)"
        );
        if self.change(&new, (of, ids))? > 0 { self.run(&document.insert, (of, last)) } else { Ok(()) }
    }

    fn update_documents(&self, document: &Document, which: &str, params: impl Params) -> Result<()> {
        let differing: Vec<i64> = self.column(&document.differing(which), params)?;
        // A statement keeps what it changes until it ends, and writes that of several documents to a temporary file.
        differing.into_iter().try_for_each(|docid| self.run(&document.update, [docid]))
    }

    pub(in crate::store) fn bring_search_in_step(&self, object: Object) -> Result<()> {
        let document = self.tx.shapes().document(object);
        let built = match self.tx.state::<Vec<String>>(&StateKey::searched(object))? {
            Some(custom) if custom == document.custom => return Ok(()),
            Some(_) => self.update_documents(&document, "true", []),
            None => self.build_search(object, &document),
        };
        if let Err(error) = built {
            return self.mend_search(object, &error_chain(&error));
        }
        self.tx.set_state(&StateKey::searched(object), &document.custom)
    }

    fn build_search(&self, object: Object, document: &Document) -> Result<()> {
        // Documents of an index with an unknown form.
        self.run(&format!("DELETE FROM {}", object.search_table()), [])?;
        self.run("DELETE FROM search_documents WHERE is_company = ?1", [is_company(object)])?;
        let before: i64 = self.value("SELECT coalesce(max(docid), 0) FROM search_documents", [])?;
        let map = format!(
            "INSERT INTO search_documents (docid, is_company, record_id)
             SELECT ?1 + rowid, ?2, id FROM {} ORDER BY rowid",
            object.table()
        );
        self.run(&map, (before, is_company(object)))?;
        self.run(&document.insert_all, [before])
    }

    /// Recreates the search table of an object, empty, whatever is left of it.
    pub(in crate::store) fn recreate_search(&self, object: Object) -> Result<()> {
        let table = object.search_table();
        let begin = format!("CREATE VIRTUAL TABLE {table} ");
        let made = migrate::TABLES.split_once(&begin).and_then(|(_, rest)| rest.split_once(");"));
        let definition = made.map_or("", |(definition, _)| definition);
        // Without its parts SQLite can neither open the table nor drop it. Nor can it where documents of this transaction
        // are still to be written, and have to go where a damaged index has others.
        let openable = format!(
            "CREATE TABLE IF NOT EXISTS {table}_data (id INTEGER PRIMARY KEY, block BLOB);
             CREATE TABLE IF NOT EXISTS {table}_idx (segid, term, pgno, PRIMARY KEY (segid, term)) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS {table}_content (id INTEGER PRIMARY KEY);
             CREATE TABLE IF NOT EXISTS {table}_docsize (id INTEGER PRIMARY KEY, sz BLOB);
             CREATE TABLE IF NOT EXISTS {table}_config (k PRIMARY KEY, v) WITHOUT ROWID;
             INSERT OR REPLACE INTO {table}_config VALUES ('version', 4);
             DELETE FROM {table}_idx"
        );
        let is_there: bool = self.value("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)", [table])?;
        if is_there {
            self.batch(&format!("{openable}; DROP TABLE {table}"))?;
        }
        // Another program may have dropped the table and left its parts.
        for part in PARTS {
            self.batch(&format!("DROP TABLE IF EXISTS {table}_{part}"))?;
        }
        self.batch(&format!("{begin}{definition})"))?;
        self.tx.clear_state(&StateKey::searched(object))
    }
}

/// The tables of a search table.
pub(super) const PARTS: [&str; 5] = ["data", "idx", "content", "docsize", "config"];
