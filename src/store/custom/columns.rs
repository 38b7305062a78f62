//! The custom columns: each definition's column is named once, archived with its field, and restored with it.
//!
//! # Invariants
//! - A name that was given to a definition is never given to another one.
//! - The tables have exactly the `cf_…` columns of the layout.
//! - Only [`ColumnName`]s become part of statements; keys are bound as parameters.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use crate::model::{ColumnName, DataType, Definition, Instant, Object, Record, RecordId};
use crate::store::custom::rows::{DefinitionRow, definition_in, exclusions, names, rows, table};
use crate::store::derived::build::REVISION;
use crate::store::records::feed_entries::{ColumnChange, ColumnFeed};
use crate::store::user_objects::objects::drop_indexes_on;
use crate::store::{
    Applied, CustomTx, DefinitionChanges, FieldToBackFill, Goal, MirrorTx, ReadOf, ReadTx, Redefined, Result,
    Statements, json_list, physical, shapes_of,
};

/// The maximum number of custom columns of one object's tables, including companions and archived columns. SQLite
/// allows 2,000 columns in a table and in a view's result; values of further fields are kept in `extra`.
pub const MAX_COLUMNS: usize = 1_850;

/// The names that columns and their companions have.
struct Names(BTreeSet<String>);

impl Names {
    fn of(rows: &[DefinitionRow]) -> Names {
        let mut names = Names(BTreeSet::new());
        for row in rows {
            match &row.column {
                Some(column) if row.name_is_taken(rows) => names.take(column, DataType::Unknown),
                Some(column) => names.take(column, row.definition.data_type),
                None => {}
            }
        }
        names
    }

    fn take(&mut self, column: &ColumnName, data_type: DataType) {
        self.0.extend(names(column, data_type).into_iter().map(|(name, _)| name));
    }

    /// The column of a definition: its existing one, or a new one; `None` if its values cannot have a column. An excluded
    /// field is known by its name: that does not move, and a field made again under the key is excluded without one.
    fn assign_name(&mut self, row: &DefinitionRow, rows: &[DefinitionRow]) -> Option<ColumnName> {
        let Definition { key, data_type, .. } = &row.definition;
        if row.column.is_some() && (row.excluded || !row.name_is_taken(rows)) {
            return row.column.clone();
        }
        let hides_key =
            |other: &DefinitionRow| other.excluded && other.column.is_some() && other.definition.key == *key;
        if *data_type == DataType::Unknown || row.column.is_none() && rows.iter().any(hides_key) {
            return None;
        }
        let column = ColumnName::for_key(key.as_str(), data_type.has_num(), &self.0);
        self.take(&column, *data_type);
        Some(column)
    }
}

/// The custom columns of an object's tables while they change: read once, and not again for each field.
struct ColumnTables<'t> {
    tx: &'t MirrorTx<'t>,
    feed: ColumnFeed<'t>,
    by_table: BTreeMap<&'static str, BTreeSet<String>>,
}

impl ColumnTables<'_> {
    fn there(&mut self, table: &'static str) -> &mut BTreeSet<String> {
        self.by_table.entry(table).or_default()
    }

    /// Whether there is room for a field's columns, in place of those that it `had`.
    fn fit(&self, needed: usize, had: &[(String, String)]) -> bool {
        let (mut columns, mut own) = (0, 0);
        for there in self.by_table.values() {
            columns += there.len();
            own += had.iter().filter(|(name, archived)| there.contains(name) || there.contains(archived)).count();
        }
        columns - own + needed <= columns.max(MAX_COLUMNS)
    }

    /// Returns whether the column was made, and not restored; `None` if it was there.
    fn ensure(&mut self, column: &ColumnName, data_type: DataType, is_announced: bool) -> Result<Option<bool>> {
        let (table, key) = table(self.feed.object, data_type.detail_only());
        let there = self.there(table);
        if there.contains(column.as_str()) {
            return Ok(None);
        }
        let names = names(column, data_type);
        if there.contains(&column.archived()) {
            names.iter().try_for_each(|(name, archived)| self.rename(table, archived, name))?;
            self.feed.announce(column, ColumnChange::Restored, None, Some(data_type))?;
            self.feed.emit_restored(table, key, &names)?;
            return Ok(Some(false));
        }
        for ((name, _), sql_type) in names.into_iter().zip([data_type.sql_type(), "REAL"]) {
            self.alter(table, &format!("ADD COLUMN {name} {sql_type}"))?;
            self.there(table).insert(name);
        }
        // The change of a type was announced when the old column was dropped.
        if !is_announced {
            self.feed.announce(column, ColumnChange::Added, None, Some(data_type))?;
        }
        Ok(Some(true))
    }

    /// The last values of the column stay in the file.
    fn archive(&mut self, definition: &Definition, column: &ColumnName) -> Result<()> {
        let object = self.feed.object;
        self.tx.run(
            "DELETE FROM custom_multi_values WHERE object_type = ?1 AND field_key = ?2",
            (object, definition.key.as_str()),
        )?;
        for table in [object.table(), object.detail_table()] {
            if !self.there(table).contains(column.as_str()) {
                continue;
            }
            for (name, archived) in names(column, definition.data_type) {
                if self.there(table).contains(&name) {
                    self.tx.derived().drop_index(table, &name)?;
                    self.rename(table, &name, &archived)?;
                }
            }
            self.feed.announce(column, ColumnChange::Archived, Some(definition.data_type), None)?;
        }
        Ok(())
    }

    fn withdraw(&mut self, definition: &Definition, column: &ColumnName) -> Result<()> {
        self.feed.forget_ended_values(column)?;
        if self.by_table.values().any(|there| there.contains(column.as_str())) {
            self.feed.announce(column, ColumnChange::Removed, Some(definition.data_type), None)?;
        }
        self.drop_columns(column, definition.data_type)
    }

    /// Drops the columns of a field whose type changed, and leaves their values to the history. Returns whether the feed
    /// says that the column goes on with the new type.
    fn retype(&mut self, column: &ColumnName, known: DataType, row: &DefinitionRow, goes_on: bool) -> Result<bool> {
        let (table, key) = table(self.feed.object, known.detail_only());
        let change = match (row.is_shown(), goes_on) {
            (false, _) => ColumnChange::Archived,
            (true, false) => ColumnChange::Removed,
            (true, true) => ColumnChange::Retyped,
        };
        let is_retyped = change == ColumnChange::Retyped;
        let is_active = self.there(table).contains(column.as_str());
        if is_active {
            self.feed.announce(column, change, Some(known), is_retyped.then_some(row.definition.data_type))?;
        }
        for (name, archived) in names(column, known) {
            let source = if is_active { &name } else { &archived };
            if self.there(table).contains(source) {
                self.feed.keep_ended_values((table, key), source, &name)?;
            }
        }
        self.drop_columns(column, known)?;
        Ok(is_retyped && is_active)
    }

    fn drop_columns(&mut self, column: &ColumnName, known: DataType) -> Result<()> {
        let object = self.feed.object;
        for (table, key) in [table(object, false), table(object, true)] {
            for name in names(column, known).into_iter().flat_map(|(name, archived)| [name, archived]) {
                if !self.there(table).remove(&name) {
                    continue;
                }
                self.tx.derived().drop_index(table, &name)?;
                drop_indexes_on(&self.tx.conn, table, &name)?;
                // Where these records are published, a column of this name may be there again, and keep their values.
                let filled = format!("SELECT ?1, {key} FROM {table} WHERE {name} IS NOT NULL");
                self.tx.feed().requeue_selected(&filled, &[&object])?;
                self.alter(table, &format!("DROP COLUMN {name}"))?;
            }
        }
        Ok(())
    }

    fn rename(&mut self, table: &'static str, from: &str, to: &str) -> Result<()> {
        self.alter(table, &format!("RENAME COLUMN {from} TO {to}"))?;
        let there = self.there(table);
        there.remove(from);
        there.insert(to.into());
        Ok(())
    }

    fn alter(&mut self, table: &str, change: &str) -> Result<()> {
        self.tx.derived().drop_views()?;
        self.tx.batch(&format!("ALTER TABLE {table} {change}"))
    }
}

impl CustomTx<'_> {
    /// Applies the complete list of an object's definitions, active and archived, which an earlier run may have asked for.
    pub fn apply_definitions(
        &self,
        object: Object,
        records: &[Record],
        gone: &[RecordId],
        (asked_at, now): (Instant, Instant),
    ) -> Result<Redefined> {
        let before = rows(&self.tx.conn, object)?;
        let mut out = Redefined::default();
        for record in records {
            self.apply_definition(record, asked_at, &mut out.changes)?;
        }
        // A definition on neither list any more is treated as archived: its column and values are kept.
        let archived = self.change(
            "UPDATE custom_field_definitions SET status = 'ARCHIVED'
             WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'ACTIVE'",
            [json_list(gone)],
        )?;
        out.changes.changed += archived as u64;
        if out.changes == DefinitionChanges::default() {
            return Ok(out);
        }
        self.reconcile(object, &before, now, &mut out)?;
        self.relayout()?;
        Ok(out)
    }

    fn apply_definition(&self, record: &Record, asked_at: Instant, changes: &mut DefinitionChanges) -> Result<()> {
        let shape = self.tx.shapes().definitions.clone();
        let applied = self.tx.records().apply_plain(&shape, record, asked_at)?;
        changes.added += u64::from(applied == Applied::Inserted);
        changes.changed += u64::from(applied == Applied::Updated);
        let Some(options) = &record.options else {
            return Ok(());
        };
        let id = record.id.as_str();
        let known: Vec<(String, Option<String>)> = self
            .tuples("SELECT value, label FROM custom_field_options WHERE definition_id = ?1 ORDER BY position", [id])?;
        if !known.iter().map(|(v, l)| (v, l)).eq(options.iter().map(|o| (&o.value, &o.label))) {
            changes.changed += u64::from(applied == Applied::Unchanged);
            self.run("DELETE FROM custom_field_options WHERE definition_id = ?1", [id])?;
            for (position, option) in options.iter().enumerate() {
                self.run(
                    "INSERT INTO custom_field_options VALUES (?1, ?2, ?3, ?4)",
                    params![id, position as i64, option.value, option.label],
                )?;
            }
        }
        Ok(())
    }

    fn reconcile(&self, object: Object, before: &[DefinitionRow], seen_at: Instant, out: &mut Redefined) -> Result<()> {
        let rows = rows(&self.tx.conn, object)?;
        let is_kept = self.tx.is_copied(object)?;
        let feed = ColumnFeed { feed: self.tx.feed(), object, seen_at, is_kept };
        let mut taken = Names::of(&rows);
        // Cached statements on tables that are about to change must not be used afterwards.
        self.tx.conn.flush_prepared_statement_cache();
        let given: Vec<Option<ColumnName>> = rows.iter().map(|row| taken.assign_name(row, &rows)).collect();
        let exclusions = exclusions(&self.tx.conn)?;
        let there = |table| Ok((table, physical(&self.tx.conn, table)?));
        let by_table = [object.table(), object.detail_table()].into_iter().map(there).collect::<Result<_>>()?;
        let mut tables = ColumnTables { tx: self.tx, feed, by_table };
        for (mut row, given) in rows.into_iter().zip(given) {
            if let Some(column) = &given {
                row.excluded = exclusions.takes_own_column(object, column.as_str());
            }
            let definition = &row.definition;
            let known = definition_in(before, &definition.id).map(|known| known.data_type);
            let Some(column) = given else {
                if row.is_shown() {
                    out.without_column.push(definition.key.clone());
                }
                continue;
            };
            let had =
                row.column.as_ref().map(|had| names(had, known.unwrap_or(definition.data_type))).unwrap_or_default();
            let needed = names(&column, definition.data_type).len();
            let fits = definition.data_type != DataType::Unknown && tables.fit(needed, &had);
            let mut is_announced = false;
            if let (Some(known), Some(former)) = (known, &row.column)
                && known != definition.data_type
            {
                is_announced = tables.retype(former, known, &row, fits && *former == column)?;
            }
            if row.excluded {
                tables.withdraw(definition, &column)?;
            } else if !row.is_shown() {
                tables.archive(definition, &column)?;
            } else if !fits {
                if row.column.is_some() {
                    // It was dropped: only another answer brings the values to `extra`.
                    if known.is_some_and(|known| known.detail_only() || known == DataType::Unknown) {
                        self.tx.knowledge().make_details_due(object, None)?;
                    }
                    self.tx.claims().set(Goal::WantedSweep(object))?;
                    self.name_column(definition, None)?;
                }
                out.without_column.push(definition.key.clone());
                continue;
            } else if let Some(is_made) = tables.ensure(&column, definition.data_type, is_announced)? {
                // What `extra` has of a field of another type says nothing about the values now.
                let is_new = is_made && known.is_none_or(|known| known == definition.data_type);
                out.to_fill.push(FieldToBackFill { definition: definition.id.clone(), is_new });
            }
            if row.column.as_ref() != Some(&column) {
                self.name_column(definition, Some(&column))?;
            }
        }
        Ok(())
    }

    fn name_column(&self, definition: &Definition, column: Option<&ColumnName>) -> Result<()> {
        self.run(
            "UPDATE custom_field_definitions SET column_name = ?2 WHERE id = ?1",
            params![definition.id, column.map(ColumnName::as_str)],
        )
    }

    /// A back-fill that was under way may be of a column before it was dropped.
    pub(in crate::store) fn reconcile_exclusions(&self, seen_at: Instant) -> Result<()> {
        for object in Object::ALL {
            let mut out = Redefined::default();
            self.reconcile(object, &rows(&self.tx.conn, object)?, seen_at, &mut out)?;
            if !out.to_fill.is_empty() {
                self.tx.claims().fill_again(object, &out.to_fill)?;
                self.tx.claims().end_read(ReadOf::Fill(object))?;
                self.clear_filled(object)?;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn relayout(&self) -> Result<()> {
        let version = self.tx.shapes().layout.version.wrapping_add(1);
        self.tx.derived().now_built_from(|built| {
            built.layout = version;
            built.revision.clone_from(&REVISION);
        })?;
        self.tx.set_shapes(shapes_of(&self.tx.conn)?);
        for object in Object::ALL {
            // A restored column also restores its values.
            if self.tx.is_copied(object)? {
                self.tx.derived().derive(object)?;
            }
        }
        self.tx.derived().rebuild_views()?;
        self.tx.derived().rebuild_dictionary()
    }
}

impl ReadTx<'_> {
    /// The active definitions of an object, without options.
    pub fn definitions(&self, object: Object) -> Result<Vec<Definition>> {
        Ok(rows(&self.conn, object)?.into_iter().map(|row| row.definition).filter(|d| d.active).collect())
    }
}
