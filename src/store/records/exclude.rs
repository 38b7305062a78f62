//! What a change of `sync.exclude` does to the values that are stored: those of a field that was excluded leave every
//! table, and a field that is mirrored again is read again: until then its NULL means nothing, and is not edited.

use crate::model::exclusions::plain_name;
use crate::model::{Exclusions, FieldProjection, Instant, Layout, Object, SqlValue};
use crate::store::custom::rows::{layout, layout_without};
use crate::store::records::doubts::key_type;
use crate::store::{CustomTx, OPEN, ReadTx, Result, Statements, StoreError, ViewOptions};

/// Table, column with documents, the key of a row among those of its object, and the condition on those to change.
const DOCUMENTS: [(&str, &str, &str, &str); 4] = [
    ("changes", "fields", "seq", "kind <> 'schema'"),
    ("removed_records", "record", "id", "true"),
    ("outbox", "fields", "id", "true"),
    ("outbox", "theirs", "id", "theirs IS NOT NULL"),
];

impl ReadTx<'_> {
    pub fn has_details(&self, object: Object) -> Result<bool> {
        Ok(layout(&self.conn)?.has_details(object))
    }
}

/// Requires that no unfinished edit needs a value that these entries of `sync.exclude` keep out.
fn expect_no_edits_of(tx: &ReadTx<'_>, exclude: &[String]) -> Result<()> {
    let layout = layout_without(&tx.conn, Exclusions::new(exclude))?;
    let sql = format!("SELECT id, object_type, fields FROM outbox WHERE {OPEN} ORDER BY id");
    let edits: Vec<(i64, String, String)> = tx.tuples(&sql, [])?;
    let of_excluded = edits.iter().find(|(_, object, fields)| without_excluded(&layout, object, fields).is_some());
    of_excluded.map_or(Ok(()), |(id, ..)| Err(StoreError::EditOfExcluded { id: *id }))
}

impl CustomTx<'_> {
    /// Makes what is stored follow the exclusions that `options` have instead of those before.
    pub(in crate::store) fn change_exclusions(&self, before: &[String], options: &ViewOptions) -> Result<()> {
        if options.exclude.iter().any(|column| !before.contains(column)) {
            expect_no_edits_of(self.tx, &options.exclude)?;
            self.erase_excluded()?;
        }
        if before.iter().any(|column| !options.exclude.contains(column)) {
            let [was, is] = [before, &options.exclude].map(Exclusions::new);
            Object::ALL.into_iter().try_for_each(|object| self.read_freed(object, &was, &is))?;
        }
        self.reconcile_exclusions(Instant::system_now())
    }

    /// Has the values read again that become mirrored, unless they are of columns that are made for them, which are filled as
    /// those of new fields.
    fn read_freed(&self, object: Object, was: &Exclusions, is: &Exclusions) -> Result<()> {
        let fields = object.fields().iter().enumerate();
        let freed = fields.filter(|(place, _)| was.takes_field(object, *place) && !is.takes_field(object, *place));
        let of_details = freed.map(|(_, field)| field.projection == FieldProjection::Detail);
        // Either `extra` may get the values of a key without a column.
        let keys = "SELECT record_id FROM doubts WHERE object_type = ?2 AND why = 'unknown key' UNION ALL
             SELECT key FROM custom_field_definitions
             WHERE object_type = ?1 AND status = 'ACTIVE' AND column_name IS NULL AND key IS NOT NULL";
        let keys: Vec<String> = self.column(keys, [object.as_str(), &key_type(object)])?;
        let is_freed = keys.iter().any(|key| was.takes_key(object.table(), key) && !is.takes_key(object.table(), key));
        let Some(details) = of_details.chain(is_freed.then_some(true)).max() else { return Ok(()) };
        self.tx.claims().discard_sweep(object)?;
        if details {
            self.tx.knowledge().make_details_due(object, None)?;
        }
        self.tx.claims().forget_fields(object)
    }

    fn erase_excluded(&self) -> Result<()> {
        let layout = layout(&self.tx.conn)?;
        for object in Object::ALL {
            for table in [object.table(), object.detail_table()] {
                // Columns of custom fields are dropped with the new layout.
                let names: Vec<String> = self.column("SELECT name FROM pragma_table_info(?1)", [table])?;
                let is_standard = |name: &&String| !plain_name(name).starts_with("cf_");
                for name in names.iter().filter(is_standard).filter(|name| layout.exclusions.takes(table, name)) {
                    self.run(&format!("UPDATE {table} SET {name} = NULL WHERE {name} IS NOT NULL"), [])?;
                }
                let select = format!("SELECT rowid, extra FROM {table} WHERE extra IS NOT NULL");
                let update = format!("UPDATE {table} SET extra = nullif(?2, '{{}}') WHERE rowid = ?1");
                self.rewrite(&select, &update, |text| {
                    let kept = layout.extra_without(object.table(), text)?;
                    (kept != Layout::default().extra_without(object.table(), text)?).then_some(kept)
                })?;
            }
            // The documents, and the terms of the index, are made again from what is left.
            self.tx.derived().recreate_search(object)?;
            for (table, column, key, condition) in DOCUMENTS {
                let of_object = format!("object_type = '{object}'");
                let select = format!("SELECT {key}, {column} FROM {table} WHERE {of_object} AND {condition}");
                let update = format!("UPDATE {table} SET {column} = ?2 WHERE {of_object} AND {key} = ?1");
                self.rewrite(&select, &update, |text| without_excluded(&layout, object.as_str(), text))?;
            }
        }
        self.tx.derived().now_built_from(|built| built.rewrites = built.rewrites.wrapping_add(1))?;
        // An answer may quote any value of its record.
        self.run("UPDATE outbox SET answer = NULL WHERE answer IS NOT NULL", [])
    }

    /// Changes the texts of a select of key and text, where `change` gives another one.
    fn rewrite(&self, select: &str, update: &str, change: impl Fn(&str) -> Option<String>) -> Result<()> {
        let mut changed: Vec<(SqlValue, String)> = Vec::new();
        let mut stmt = self.tx.conn.prepare(select)?;
        let mut rows = stmt.query([])?;
        while let Some(row) = rows.next()? {
            let (key, text): (_, String) = row.try_into()?;
            changed.extend(change(&text).map(|text| (key, text)));
        }
        drop(rows);
        changed.into_iter().try_for_each(|values| self.run(update, values))
    }
}

/// A document by column without excluded values; `None` if it has none.
fn without_excluded(layout: &Layout, object: &str, text: &str) -> Option<String> {
    let table = object.parse::<Object>().ok()?.table();
    let kept = layout.document_without(table, text)?;
    (kept != Layout::default().document_without(table, text)?).then_some(kept)
}
