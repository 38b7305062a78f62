//! Derived data that is built in bulk at the end of a first copy: multi-select rows, full-text search and secondary
//! indexes.
//!
//! A first copy writes plain rows only; building derived data once at its end is several times cheaper than maintaining
//! it page by page. After a kill in between, the object is still in its first copy and the data is built again.

use std::sync::LazyLock;

use rusqlite::params;
use sha2::{Digest, Sha256};

use crate::model::{CustomField, DataType, Object};
use crate::store::program_objects::{is_program_view, make_missing};
use crate::store::{BuiltFrom, DerivedTx, Goal, ReadTx, Result, Statements, ViewOptions, migrate, objects, open};

/// SQLite's page cache for sequential reads, in KiB.
const SMALL_CACHE_KIB: i32 = 1024;

impl ReadTx<'_> {
    /// Whether the first copy is finished: history and derived data are updated with every page. Before that there is no
    /// history, and derived data is built at its end.
    pub fn is_copied(&self, object: Object) -> Result<bool> {
        self.goals().is_set(Goal::Copied(object))
    }
}

impl DerivedTx<'_> {
    pub fn finish_first_copy(&self, object: Object) -> Result<()> {
        if self.tx.is_copied(object)? {
            return Ok(());
        }
        self.derive(object)?;
        self.tx.claims().set(Goal::Copied(object))?;
        if object == Object::Company {
            // Contacts may be published without companies, but with their names, which the copy has just filled in.
            self.tx.feed().requeue_all(Object::Contact)?;
        }
        self.note_objects()
    }

    /// Builds derived data that another revision of the program built, or that a process which was killed did not build.
    pub(in crate::store) fn catch_up(&self) -> Result<()> {
        if BuiltFrom::read(&self.tx.conn)?.revision == *REVISION { Ok(()) } else { self.tx.custom().relayout() }
    }

    /// Makes the program's views, triggers and indexes again if another program has dropped or added any.
    pub(in crate::store) fn mend_objects(&self) -> Result<()> {
        let built = BuiltFrom::read(&self.tx.conn)?;
        if built.revision != *REVISION || built.objects == objects::count_own(&self.tx.conn)? {
            return Ok(());
        }
        let tables: Vec<String> = self.column("SELECT lower(name) FROM sqlite_schema WHERE type = 'table'", [])?;
        if let Some(table) = tables.iter().find(|table| is_program_view(table)) {
            tracing::warn!("Another program's table {table} is in the place of a view of the mirror, and stays");
            return Ok(());
        }
        tracing::warn!("Another program has dropped or added views, triggers or indexes: they are made again");
        make_missing(&self.tx.conn)?;
        for object in Object::ALL {
            if self.tx.is_copied(object)? {
                self.bring_indexes_in_step(object)?;
            }
        }
        self.rebuild_views()
    }

    pub(in crate::store) fn note_objects(&self) -> Result<()> {
        let there = objects::count_own(&self.tx.conn)?;
        self.now_built_from(|built| built.objects = there)
    }

    pub fn configure_views(&self, options: &ViewOptions) -> Result<()> {
        let known = BuiltFrom::read(&self.tx.conn)?.options;
        if known != *options {
            self.now_built_from(|built| {
                // What was excluded in the meantime, and is again, has values in the file.
                built.erased.retain(|column| options.exclude.contains(column));
                built.options = options.clone();
            })?;
            if known.exclude != options.exclude {
                self.tx.custom().change_exclusions(&known.exclude, options)?;
            }
            self.tx.custom().relayout()?;
        }
        self.refresh_view_files()
    }

    pub(in crate::store) fn derive(&self, object: Object) -> Result<()> {
        self.sequentially(|| {
            self.rebuild_multi_values(object)?;
            self.bring_search_in_step(object)?;
            self.bring_indexes_in_step(object)
        })
    }

    /// What reads all rows, once and in order, never reads a cached page again: a small cache is faster, reduces the peak
    /// memory of a first copy by a quarter, and leaves little to an idle daemon.
    pub(super) fn sequentially<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let cache = |kib: i32| self.tx.conn.pragma_update(None, "cache_size", -kib);
        cache(SMALL_CACHE_KIB)?;
        let done = work();
        cache(open::CACHE_KIB)?;
        done
    }

    fn rebuild_multi_values(&self, object: Object) -> Result<()> {
        self.run("DELETE FROM custom_multi_values WHERE object_type = ?1", [object])?;
        let layout = self.tx.layout();
        let fields = layout.of(object);
        // Of two fields with one key, that one which answers are decoded for.
        let is_multi = |field: &&CustomField| {
            field.data_type == DataType::MultiSelect
                && fields.by_key(field.key.as_str()).map(|(_, of)| of) == Some(*field)
        };
        fields.fields().iter().filter(is_multi).try_for_each(|field| self.make_multi_values(object, field, None))
    }

    /// Makes the rows of a multi-select's values, of one record in place of those before, or of all.
    pub(in crate::store) fn make_multi_values(
        &self,
        object: Object,
        field: &CustomField,
        record: Option<&str>,
    ) -> Result<()> {
        let (key, table, column) = (field.key.as_str(), object.table(), &field.column);
        if record.is_some() {
            let sql = "DELETE FROM custom_multi_values WHERE object_type = ?1 AND record_id = ?3 AND field_key = ?2";
            self.run(sql, params![object, key, record])?;
        }
        // The plus prevents SQLite from reading all rows by their ids, in random order: sorting is cheaper.
        let (of_record, order) = if record.is_some() { ("r.id = ?3", "v.key") } else { ("?3 IS NULL", "+r.id, v.key") };
        let sql = format!(
            "INSERT INTO custom_multi_values (object_type, record_id, field_key, position, value)
             SELECT ?1, r.id, ?2, v.key, v.value FROM {table} AS r, json_each(r.{column}) AS v
             WHERE r.{column} IS NOT NULL AND {of_record} ORDER BY {order}"
        );
        self.run(&sql, params![object, key, record])
    }
}

const SOURCES: [(&str, &str); 15] = [
    ("build.rs", include_str!("build.rs")),
    ("dictionary.rs", include_str!("dictionary.rs")),
    ("indexes.rs", include_str!("indexes.rs")),
    ("options.rs", include_str!("options.rs")),
    ("search.rs", include_str!("search.rs")),
    ("search_document.rs", include_str!("search_document.rs")),
    ("views.rs", include_str!("views.rs")),
    ("../custom/rows.rs", include_str!("../custom/rows.rs")),
    ("../table_shapes.rs", include_str!("../table_shapes.rs")),
    ("../records/shape.rs", include_str!("../records/shape.rs")),
    ("../claims.rs", include_str!("../claims.rs")),
    ("../outbox/accepted_values.rs", include_str!("../outbox/accepted_values.rs")),
    ("../outbox/known_values.rs", include_str!("../outbox/known_values.rs")),
    ("../outbox/queue.rs", include_str!("../outbox/queue.rs")),
    ("../outbox/triggers.rs", include_str!("../outbox/triggers.rs")),
];

/// The revision of the code that makes derived data: the schema, and a digest of the sources. The statements are assembled from
/// the layout, so no constant holds them, and a number that is raised by hand is forgotten.
pub(in crate::store) static REVISION: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for (name, source) in SOURCES {
        digest.update(name);
        digest.update(source);
    }
    let digest = digest.finalize();
    format!("{}-{:02x}{:02x}{:02x}{:02x}", migrate::KNOWN, digest[0], digest[1], digest[2], digest[3])
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_derived_data_is_named() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/derived");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .collect();
        there.sort();
        let named: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("..")).collect();
        assert_eq!(named, there);
    }
}
