//! Writes the change feed: entries for records, and for columns that were added, removed or retyped.
//!
//! # Invariants
//! - An entry names columns of the `_full` views: the detail's unknown fields are `detail_extra`.
//! - An update of nothing but etags has no entry.
//! - A `schema` entry precedes the values that it announces. After `restored` and `retyped` every value is emitted
//!   again as an update, whose old value is the last known one.

use rusqlite::params;
use serde_json::{Map, json};
use strum::IntoStaticStr;

use crate::model::{ColumnName, DataType, Instant, Object};
use crate::store::derived::views::{ends, json_argument};
use crate::store::{FeedTx, FieldDifference, Result, Statements};

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(in crate::store) enum ColumnChange {
    Added,
    Archived,
    Restored,
    Retyped,
    Removed,
}

/// A detail's differences in the form of the feed: without its own etag, and with its `extra` as in the `_full` views.
pub(in crate::store) fn of_detail(differences: Vec<FieldDifference>) -> Vec<FieldDifference> {
    let named = |difference: FieldDifference| match difference.column.as_str() {
        "extra" => FieldDifference { column: "detail_extra".into(), ..difference },
        _ => difference,
    };
    differences.into_iter().filter(|difference| difference.column != "etag").map(named).collect()
}

impl FeedTx<'_> {
    pub(in crate::store) fn remember(
        &self,
        object: Object,
        id: &str,
        kind: &str,
        differences: Vec<FieldDifference>,
        seen_at: Instant,
    ) -> Result<()> {
        if kind == "update" && differences.iter().all(|difference| difference.column == "etag") {
            return Ok(());
        }
        let has_ended: bool = self.value("SELECT EXISTS (SELECT 1 FROM ended_values)", [])?;
        let mut fields = Map::new();
        for FieldDifference { column, mut here, there } in differences {
            if has_ended && here.is_null() {
                let ended = "DELETE FROM ended_values WHERE object_type = ?1 AND record_id = ?2 AND column_name = ?3
                     RETURNING value";
                let ended: Option<String> = self.find_value(ended, (object, id, &column))?;
                here = ended.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(here);
            }
            fields.insert(column, vec![here, there].into());
        }
        self.enter_change(object, id, kind, &fields.into(), seen_at)
    }

    fn enter_change(
        &self,
        object: Object,
        id: &str,
        kind: &str,
        fields: &serde_json::Value,
        seen_at: Instant,
    ) -> Result<()> {
        let sql = "INSERT INTO changes (object_type, record_id, kind, fields, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.run(sql, params![object, id, kind, fields.to_string(), seen_at])
    }
}

pub(in crate::store) struct ColumnFeed<'t> {
    pub feed: FeedTx<'t>,
    pub object: Object,
    pub seen_at: Instant,
    /// Whether there is a feed: it begins at the end of the first copy.
    pub is_kept: bool,
}

impl ColumnFeed<'_> {
    /// Enters the change of a column, and of its companion; `from` and `to` are the types of the values.
    pub(in crate::store) fn announce(
        &self,
        column: &ColumnName,
        change: ColumnChange,
        from: Option<DataType>,
        to: Option<DataType>,
    ) -> Result<()> {
        if !self.is_kept {
            return Ok(());
        }
        self.enter(column.as_str(), change, from.map(DataType::as_str), to.map(DataType::as_str))?;
        let num = |data_type: Option<DataType>| data_type.is_some_and(DataType::has_num).then_some("number");
        let (from, to) = (num(from), num(to));
        let change = match (from, to, change) {
            (None, None, _) => return Ok(()),
            (Some(_), None, ColumnChange::Retyped) => ColumnChange::Removed,
            (None, Some(_), ColumnChange::Retyped) => ColumnChange::Added,
            (_, _, change) => change,
        };
        self.enter(&column.num(), change, from, to)
    }

    fn enter(&self, column: &str, change: ColumnChange, from: Option<&str>, to: Option<&str>) -> Result<()> {
        let op: &str = change.into();
        let fields = json!({ "column": column, "op": op, "from": from, "to": to });
        self.feed.enter_change(self.object, "", "schema", &fields, self.seen_at)
    }

    /// Emits the values of a restored column and its companion, as they were when they were archived.
    pub(in crate::store) fn emit_restored(&self, table: &str, key: &str, columns: &[(String, String)]) -> Result<()> {
        let Some((first, _)) = columns.first().filter(|_| self.is_kept) else { return Ok(()) };
        let pairs: Vec<String> = columns
            .iter()
            .map(|(column, _)| format!("'{column}', json_array({value}, {value})", value = json_argument(column)))
            .collect();
        let sql = format!(
            "INSERT INTO changes (object_type, record_id, kind, fields, seen_at)
             SELECT ?1, {key}, 'update', json_object({pairs}), ?2 FROM {table} WHERE {first} IS NOT NULL ORDER BY {key}",
            pairs = pairs.join(", "),
        );
        self.feed.tx.run(&sql, (self.object, self.seen_at))
    }

    /// Keeps what records hold in a column that is dropped, and whose end was announced: for the history, and for the changes
    /// that bring other values.
    pub(in crate::store) fn keep_ended_values(
        &self,
        (table, key): (&str, &str),
        source: &str,
        column: &str,
    ) -> Result<()> {
        let last = format!(
            "SELECT max(e.seq) FROM changes AS e WHERE e.object_type = ?1 AND e.record_id = '' AND {}",
            ends("?2")
        );
        let ended: Option<i64> = self.feed.tx.value(&last, (self.object, column))?;
        let Some(ended) = ended.filter(|_| self.is_kept) else { return Ok(()) };
        let sql = format!(
            "INSERT OR IGNORE INTO ended_values (object_type, record_id, column_name, value, ended_by)
             SELECT ?1, {key}, ?2, json_quote({value}), ?3 FROM {table} WHERE {source} IS NOT NULL",
            value = json_argument(source)
        );
        self.feed.tx.run(&sql, (self.object, column, ended))
    }

    /// Forgets the ended values of an excluded column and its companion.
    pub(in crate::store) fn forget_ended_values(&self, column: &ColumnName) -> Result<()> {
        let sql =
            "DELETE FROM ended_values WHERE object_type = ?1 AND (column_name = ?2 OR column_name = ?3 AND NOT EXISTS
                       (SELECT 1 FROM custom_field_definitions WHERE object_type = ?1 AND column_name = ?3))";
        self.feed.tx.run(sql, (self.object, column.as_str(), column.num()))
    }
}
