//! The custom columns: each definition's column is named once, parked while the field is archived, and comes back.
//!
//! # Always true
//! - A name once given to a definition never goes to another one.
//! - What the layout lists is in the tables, and nothing else named `cf_…` is.
//! - Only [`ColumnName`]s enter statements; keys are bound or stay in Rust.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Connection, params};

use crate::model::catalogue::Object;
use crate::model::column_name::ColumnName;
use crate::model::custom::{CustomField, CustomFields, DataType, Definition, Layout};
use crate::model::ids::{FieldKey, RecordId};
use crate::model::instant::Instant;
use crate::model::record::Record;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::records::feed_entries::ColumnChange;
use crate::store::records::upsert::{Applied, Phase};
use crate::store::shapes::Shapes;
use crate::store::state::{StateKey, read_state};
use crate::store::tx::MirrorTx;

/// The most custom columns that one object's tables may have together, companions and parked ones included. SQLite
/// allows 2,000 columns in a table and in a view's result; values of further fields are kept in `extra`.
pub const MOST_COLUMNS: usize = 1_850;

/// A definition's row, as far as columns are concerned.
struct Row {
    definition: Definition,
    column: Option<ColumnName>,
    readable: bool,
}

impl Row {
    /// Whether records carry the field's values, so that its column is in use.
    fn is_shown(&self) -> bool {
        self.definition.active && self.readable
    }

    /// Whether the field became a decimal after another one was given the name of its companion.
    fn is_squeezed(&self, rows: &[Row]) -> bool {
        let Some(column) = self.column.as_ref().filter(|_| self.definition.data_type.has_num()) else {
            return false;
        };
        let num = column.num();
        rows.iter().any(|other| other.column.as_ref().is_some_and(|name| name.as_str() == num))
    }
}

/// The names of an object's custom columns: who has which.
struct Names {
    taken: BTreeSet<String>,
    /// What the companions of decimals without a column yet will be called: they win over a key of that name.
    promised: Vec<(RecordId, String)>,
}

impl Names {
    fn of(rows: &[Row]) -> Names {
        let mut names = Names { taken: BTreeSet::new(), promised: Vec::new() };
        for row in rows {
            match &row.column {
                Some(column) if row.is_squeezed(rows) => names.take(column, DataType::Unknown),
                Some(column) => names.take(column, row.definition.data_type),
                None if row.definition.data_type.has_num() => {
                    let plain = ColumnName::for_key(row.definition.key.as_str(), false, &BTreeSet::new());
                    names.promised.push((row.definition.id.clone(), plain.num()));
                }
                None => {}
            }
        }
        names
    }

    fn take(&mut self, column: &ColumnName, data_type: DataType) {
        self.taken.insert(column.as_str().into());
        if data_type.has_num() {
            self.taken.insert(column.num());
        }
    }

    /// The column of a definition: the one it has, or a new one; `None` where its values can have none.
    fn give(&mut self, row: &Row, squeezed: bool) -> Option<ColumnName> {
        let Definition { id, key, data_type, .. } = &row.definition;
        if row.column.is_some() && !squeezed {
            return row.column.clone();
        }
        if *data_type == DataType::Unknown || self.taken.len() + 2 > MOST_COLUMNS {
            return None;
        }
        let others = self.promised.iter().filter(|(other, _)| other != id).map(|(_, name)| name.clone());
        let unfree: BTreeSet<String> = self.taken.iter().cloned().chain(others).collect();
        let column = ColumnName::for_key(key.as_str(), data_type.has_num(), &unfree);
        self.take(&column, *data_type);
        Some(column)
    }
}

/// Where what becomes of an object's columns is announced.
struct ColumnFeed {
    object: Object,
    seen_at: Instant,
    /// Whether there is a feed: it begins at the end of the first copy.
    is_kept: bool,
}

/// What refreshing the definitions did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redefined {
    /// Whether any definition or option changed.
    pub changed: bool,
    /// Fields whose column is new, empty again or back, and so needs its values.
    pub to_fill: Vec<(Object, FieldKey)>,
    /// Active fields that got no column, because there is no room or their type is unknown.
    pub without_column: Vec<FieldKey>,
}

/// Reads the layout that the definitions in the file give.
///
/// # Errors
/// If SQLite refuses.
pub(in crate::store) fn layout(conn: &Connection) -> Result<Layout, StoreError> {
    let version = read_state(conn, &StateKey::Layout)?.unwrap_or(0);
    let of = |object| -> Result<Arc<CustomFields>, StoreError> {
        let rows = rows(conn, object)?;
        let unplaced = rows
            .iter()
            .filter(|r| r.definition.active && (r.column.is_none() || !r.readable))
            .map(|r| r.definition.key.clone());
        let unplaced = unplaced.collect();
        let fields = rows
            .into_iter()
            .filter(Row::is_shown)
            .filter_map(|row| {
                let Definition { id, key, data_type, .. } = row.definition;
                Some(CustomField { definition: id, key, data_type, column: row.column? })
            })
            .collect();
        Ok(Arc::new(CustomFields::new(fields, unplaced)))
    };
    Ok(Layout { version, contact: of(Object::Contact)?, company: of(Object::Company)? })
}

/// The definitions of an object in order of their creation, which is the order of their columns.
fn rows(conn: &Connection, object: Object) -> Result<Vec<Row>, StoreError> {
    let doing = "read the custom field definitions";
    let mut stmt = conn
        .prepare_cached(
            "SELECT id, key, label, data_type, status = 'ACTIVE', filterable, allowed_operators, column_name,
                    readable IS NOT 0
             FROM custom_field_definitions WHERE object_type = ?1 AND key IS NOT NULL
             ORDER BY created_at IS NULL, created_at, id",
        )
        .doing(doing)?;
    let rows = stmt.query_map([object.as_str()], |row| {
        let operators: Option<String> = row.get(6)?;
        let operators: Vec<String> = operators.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let data_type: Option<String> = row.get(3)?;
        let column: Option<String> = row.get(7)?;
        Ok(Row {
            definition: Definition {
                id: RecordId::new(row.get::<_, String>(0)?),
                key: FieldKey::new(row.get::<_, String>(1)?),
                label: row.get(2)?,
                data_type: DataType::from_name(data_type.as_deref().unwrap_or_default()),
                object,
                active: row.get::<_, Option<bool>>(4)?.unwrap_or(false),
                null_filter: row.get::<_, Option<bool>>(5)?.unwrap_or(false) && operators.iter().any(|o| o == "isNull"),
                options: Vec::new(),
            },
            column: column.as_deref().and_then(ColumnName::given),
            readable: row.get(8)?,
        })
    });
    rows.and_then(Iterator::collect).doing(doing)
}

/// The columns of a table that were made for custom fields, parked ones included.
fn physical(conn: &Connection, table: &str) -> Result<BTreeSet<String>, StoreError> {
    let doing = "read the custom columns";
    let mut stmt = conn
        .prepare("SELECT name FROM pragma_table_info(?1) WHERE substr(name, 1, 3) = 'cf_' OR substr(name, 1, 12) = 'archived_cf_'")
        .doing(doing)?;
    stmt.query_map([table], |row| row.get(0)).and_then(Iterator::collect).doing(doing)
}

impl MirrorTx<'_> {
    /// Takes the whole list of an object's definitions, active and archived, and brings columns, views and dictionary
    /// in line with it.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn apply_definitions(
        &mut self,
        object: Object,
        records: &[Record],
        asked_at: Instant,
    ) -> Result<Redefined, StoreError> {
        let before: Vec<(RecordId, DataType)> =
            rows(&self.conn, object)?.into_iter().map(|r| (r.definition.id, r.definition.data_type)).collect();
        let mut out = Redefined::default();
        for record in records {
            out.changed |= self.apply_definition(record, asked_at)?;
        }
        out.changed |= self.drop_missing_definitions(object, records)?;
        if !out.changed {
            return Ok(out);
        }
        self.reconcile(object, &before, asked_at, &mut out)?;
        self.relayout()?;
        Ok(out)
    }

    /// Writes one definition and its options. Says whether anything changed.
    fn apply_definition(&self, record: &Record, asked_at: Instant) -> Result<bool, StoreError> {
        let doing = "write the options of a custom field";
        let shape = self.shapes.definitions();
        let mut changed = self.apply_plain(&shape, record, asked_at)? != Applied::Unchanged;
        let Some(options) = &record.options else {
            return Ok(changed);
        };
        let id = record.id.as_str();
        let mut stmt = self
            .conn
            .prepare_cached("SELECT value, label FROM custom_field_options WHERE definition_id = ?1 ORDER BY position")
            .doing(doing)?;
        let known: Vec<(String, Option<String>)> =
            stmt.query_map([id], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).doing(doing)?;
        if !known.iter().map(|(v, l)| (v, l)).eq(options.iter().map(|o| (&o.value, &o.label))) {
            changed = true;
            self.conn.execute("DELETE FROM custom_field_options WHERE definition_id = ?1", [id]).doing(doing)?;
            for (position, option) in options.iter().enumerate() {
                self.conn
                    .prepare_cached("INSERT INTO custom_field_options VALUES (?1, ?2, ?3, ?4)")
                    .and_then(|mut stmt| stmt.execute(params![id, position as i64, option.value, option.label]))
                    .doing(doing)?;
            }
        }
        Ok(changed)
    }

    /// A definition that is on neither list any more is treated as archived: its column is parked, nothing is lost.
    fn drop_missing_definitions(&self, object: Object, records: &[Record]) -> Result<bool, StoreError> {
        let listed: BTreeSet<&str> = records.iter().map(|r| r.id.as_str()).collect();
        let mut changed = false;
        for row in rows(&self.conn, object)? {
            if row.definition.active && !listed.contains(row.definition.id.as_str()) {
                self.conn
                    .execute(
                        "UPDATE custom_field_definitions SET status = 'ARCHIVED' WHERE id = ?1",
                        [row.definition.id.as_str()],
                    )
                    .doing("archive a custom field that is no longer listed")?;
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Gives, parks and brings back columns until the tables match the definitions.
    fn reconcile(
        &mut self,
        object: Object,
        before: &[(RecordId, DataType)],
        seen_at: Instant,
        out: &mut Redefined,
    ) -> Result<(), StoreError> {
        let rows = rows(&self.conn, object)?;
        let feed = ColumnFeed { object, seen_at, is_kept: self.phase(object)? == Phase::Kept };
        let mut names = Names::of(&rows);
        // Statements on tables that are about to change must not outlive the change.
        self.conn.flush_prepared_statement_cache();
        let squeezed: Vec<bool> = rows.iter().map(|row| row.is_squeezed(&rows)).collect();
        for (row, squeezed) in rows.into_iter().zip(squeezed) {
            let definition = &row.definition;
            let known = before.iter().find(|(id, _)| *id == definition.id).map(|(_, data_type)| *data_type);
            if let (Some(known), Some(column)) = (known, &row.column)
                && known != definition.data_type
            {
                self.retype(&feed, column, known, &row)?;
            }
            let Some(column) = names.give(&row, squeezed) else {
                if row.is_shown() {
                    out.without_column.push(definition.key.clone());
                }
                continue;
            };
            if !row.is_shown() {
                self.park(&feed, definition, &column)?;
            } else if definition.data_type == DataType::Unknown {
                self.name_column(definition, None)?;
                out.without_column.push(definition.key.clone());
                continue;
            } else if self.place(&feed, &column, definition.data_type, known)? {
                out.to_fill.push((object, definition.key.clone()));
            }
            if row.column.as_ref() != Some(&column) {
                self.name_column(definition, Some(&column))?;
            }
        }
        Ok(())
    }

    fn name_column(&self, definition: &Definition, column: Option<&ColumnName>) -> Result<(), StoreError> {
        self.conn
            .execute(
                "UPDATE custom_field_definitions SET column_name = ?2 WHERE id = ?1",
                params![definition.id.as_str(), column.map(ColumnName::as_str)],
            )
            .doing("name a custom column")?;
        Ok(())
    }

    fn tables(object: Object) -> [&'static str; 2] {
        [object.table(), object.detail_table()]
    }

    /// Sees to it that an active field has its column. Says whether that is new, or back from the archive.
    fn place(
        &self,
        feed: &ColumnFeed,
        column: &ColumnName,
        data_type: DataType,
        known: Option<DataType>,
    ) -> Result<bool, StoreError> {
        let detail = usize::from(data_type.detail_only());
        let table = Self::tables(feed.object)[detail];
        let there = physical(&self.conn, table)?;
        if there.contains(column.as_str()) {
            return Ok(false);
        }
        self.drop_views()?;
        if there.contains(&column.archived()) {
            self.rename(table, &column.archived(), column.as_str())?;
            if data_type.has_num() {
                self.rename(table, &format!("{}_num", column.archived()), &column.num())?;
            }
            self.announce(feed, column, ColumnChange::Restored, (None, Some(data_type)))?;
            if feed.is_kept {
                let mut columns = vec![column.as_str().to_string()];
                columns.extend(data_type.has_num().then(|| column.num()));
                let key = ["id", feed.object.detail_key()][detail];
                self.emit_restored(feed.object, table, key, &columns, feed.seen_at)?;
            }
            return Ok(true);
        }
        self.alter(&format!("ALTER TABLE {table} ADD COLUMN {column} {}", data_type.sql_type()))?;
        if data_type.has_num() {
            self.alter(&format!("ALTER TABLE {table} ADD COLUMN {} REAL", column.num()))?;
        }
        // A column whose type changed was announced when the old one went.
        if known.is_none_or(|known| known == data_type) {
            self.announce(feed, column, ColumnChange::Added, (None, Some(data_type)))?;
        }
        Ok(true)
    }

    /// Parks the column of an archived field: its last values stay in the file, out of the views.
    fn park(&self, feed: &ColumnFeed, definition: &Definition, column: &ColumnName) -> Result<(), StoreError> {
        let object = feed.object;
        self.forget_retyped(object, column.as_str())?;
        self.conn
            .execute(
                "DELETE FROM custom_multi_values WHERE object_type = ?1 AND field_key = ?2",
                [object.as_str(), definition.key.as_str()],
            )
            .doing("park a custom column")?;
        for table in Self::tables(object) {
            let there = physical(&self.conn, table)?;
            if there.contains(column.as_str()) {
                self.drop_views()?;
                self.drop_index(table, column.as_str())?;
                self.rename(table, column.as_str(), &column.archived())?;
                self.announce(feed, column, ColumnChange::Archived, (Some(definition.data_type), None))?;
            }
            if there.contains(column.as_str()) && definition.data_type.has_num() && there.contains(&column.num()) {
                self.drop_index(table, &column.num())?;
                self.rename(table, &column.num(), &format!("{}_num", column.archived()))?;
            }
        }
        Ok(())
    }

    /// Drops the columns of a field whose type changed, and says so in the feed.
    fn retype(&self, feed: &ColumnFeed, column: &ColumnName, known: DataType, row: &Row) -> Result<(), StoreError> {
        let detail = usize::from(known.detail_only());
        let table = Self::tables(feed.object)[detail];
        let data_type = row.definition.data_type;
        if feed.is_kept && physical(&self.conn, table)?.contains(column.as_str()) {
            let change = match (row.is_shown(), data_type) {
                (false, _) => ColumnChange::Archived,
                (true, DataType::Unknown) => ColumnChange::Removed,
                (true, _) => ColumnChange::Retyped,
            };
            if change == ColumnChange::Retyped {
                let key = ["id", feed.object.detail_key()][detail];
                self.forget_retyped(feed.object, column.as_str())?;
                self.keep_retyped_values(feed.object, table, key, column.as_str())?;
                self.announce(feed, column, change, (Some(known), Some(data_type)))?;
            } else {
                self.announce(feed, column, change, (Some(known), None))?;
            }
        }
        self.drop_columns(feed.object, column, known.has_num())
    }

    /// Enters what became of a column, and of its companion, into the feed.
    fn announce(
        &self,
        feed: &ColumnFeed,
        column: &ColumnName,
        change: ColumnChange,
        (from, to): (Option<DataType>, Option<DataType>),
    ) -> Result<(), StoreError> {
        if !feed.is_kept {
            return Ok(());
        }
        let types = (from.map(DataType::as_str), to.map(DataType::as_str));
        self.remember_column(feed.object, column.as_str(), change, types, feed.seen_at)?;
        let num = |data_type: Option<DataType>| data_type.is_some_and(DataType::has_num).then_some("number");
        let change = match (num(from), num(to), change) {
            (None, None, _) => return Ok(()),
            (Some(_), None, ColumnChange::Retyped) => ColumnChange::Removed,
            (None, Some(_), ColumnChange::Retyped) => ColumnChange::Added,
            (_, _, change) => change,
        };
        self.remember_column(feed.object, &column.num(), change, (num(from), num(to)), feed.seen_at)
    }

    /// Drops the columns of a field whose type changed: the old values mean nothing under the new type.
    fn drop_columns(&self, object: Object, column: &ColumnName, had_num: bool) -> Result<(), StoreError> {
        let mut names = vec![column.as_str().to_string(), column.archived()];
        if had_num {
            // Without one, a column of this name is another field's.
            names.extend([column.num(), format!("{}_num", column.archived())]);
        }
        for table in Self::tables(object) {
            let there = physical(&self.conn, table)?;
            for name in names.iter().filter(|name| there.contains(*name)) {
                self.drop_views()?;
                self.drop_index(table, name)?;
                self.alter(&format!("ALTER TABLE {table} DROP COLUMN {name}"))?;
            }
        }
        Ok(())
    }

    fn rename(&self, table: &str, from: &str, to: &str) -> Result<(), StoreError> {
        self.alter(&format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}"))
    }

    fn alter(&self, sql: &str) -> Result<(), StoreError> {
        self.conn.execute_batch(sql).doing("change the custom columns")
    }

    /// Makes a new layout from the definitions, and views and dictionary with it.
    pub(in crate::store) fn relayout(&mut self) -> Result<(), StoreError> {
        self.set_state(&StateKey::Layout, &(self.shapes.layout.version + 1))?;
        self.shapes = Shapes::new(Arc::new(layout(&self.conn)?));
        for object in Object::ALL {
            // A column that came back brings its values back too.
            if self.phase(object)? == Phase::Kept {
                self.derive(object)?;
            }
        }
        self.remake_views()?;
        self.remake_dictionary()?;
        self.note_derived()
    }
}

impl ReadTx<'_> {
    /// The active definitions of an object, options left out.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn definitions(&self, object: Object) -> Result<Vec<Definition>, StoreError> {
        Ok(rows(&self.conn, object)?.into_iter().map(|row| row.definition).filter(|d| d.active).collect())
    }
}
