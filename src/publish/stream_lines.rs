//! The lines of the stream.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::json;
use super::reading::tables_of_record;
use super::row::Converter;
use super::tables::{PgType, Publication, PublishedTable};
use crate::model::field_value::SqlValue;
use crate::store::publishing::source::{ChangedRecord, SourceRow};

/// Writes lines. The columns of a table are written before its first row.
pub(super) struct Lines<'a, W: Write> {
    pub(super) out: &'a mut W,
    /// The tables whose columns were written.
    pub(super) announced: &'a mut BTreeSet<&'static str>,
}

impl<W: Write> Lines<'_, W> {
    /// The columns of a table; `is_complete` if its rows follow.
    pub(super) fn schema(&mut self, table: &PublishedTable, is_complete: bool) -> io::Result<()> {
        self.announced.insert(table.name);
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                let comment = column.comment.as_deref().map_or("null".into(), json::quoted);
                let (name, pg_type) = (json::quoted(&column.source), column.pg_type.as_sql());
                format!("{{\"name\":{name},\"type\":\"{pg_type}\",\"comment\":{comment}}}")
            })
            .collect();
        let key: Vec<String> = table.key.iter().map(|column| json::quoted(column)).collect();
        writeln!(
            self.out,
            "{{\"schema\":\"{}\",\"complete\":{is_complete},\"key\":[{}],\"columns\":[{}]}}",
            table.name,
            key.join(","),
            columns.join(",")
        )
    }

    fn announce(&mut self, table: &PublishedTable) -> io::Result<()> {
        if self.announced.contains(table.name) { Ok(()) } else { self.schema(table, false) }
    }

    pub(super) fn row(&mut self, table: &PublishedTable, converter: &Converter<'_>, row: &SourceRow) -> io::Result<()> {
        self.announce(table)?;
        let members: Vec<String> = table
            .columns
            .iter()
            .zip(converter.visible(row))
            .map(|(column, value)| format!("{}:{}", json::quoted(&column.source), json_value(&value, column.pg_type)))
            .collect();
        writeln!(self.out, "{{\"upsert\":\"{}\",\"row\":{{{}}}}}", table.name, members.join(","))
    }

    pub(super) fn remove(&mut self, table: &PublishedTable, key: &[(&str, &str)]) -> io::Result<()> {
        self.announce(table)?;
        let members: Vec<String> =
            key.iter().map(|(name, value)| format!("{}:{}", json::quoted(name), json::quoted(value))).collect();
        writeln!(self.out, "{{\"remove\":\"{}\",\"key\":{{{}}}}}", table.name, members.join(","))
    }

    /// The current rows of one record. If a table can have several rows of it, they are removed first.
    pub(super) fn record(
        &mut self,
        publication: &Publication,
        record: &ChangedRecord,
        rows: &BTreeMap<&'static str, Vec<SourceRow>>,
    ) -> io::Result<()> {
        let (object, id) = (record.object.as_str(), record.id.as_str());
        if let Some(changes) = publication.table("changes").filter(|_| record.erase > 0) {
            self.remove(changes, &[("object_type", object), ("record_id", id)])?;
        }
        for (name, key, of_object) in tables_of_record(record.object) {
            let Some(table) = publication.table(name) else { continue };
            let (Some(id_place), object_place) = (table.place(key), table.place("object_type")) else { continue };
            let is_of = |row: &SourceRow| {
                let of = object_place.and_then(|place| row[place].as_text());
                row[id_place].as_text() == Some(id) && (!of_object || of == Some(object))
            };
            let found: Vec<&SourceRow> = rows.get(name).into_iter().flatten().filter(|row| is_of(row)).collect();
            if of_object {
                self.remove(table, &[("object_type", object), (key, id)])?;
            } else if found.is_empty() {
                self.remove(table, &[(key, id)])?;
            }
            let converter = Converter::of(publication, table);
            found.into_iter().try_for_each(|row| self.row(table, &converter, row))?;
        }
        Ok(())
    }
}

/// A value as JSON: an exact decimal is a string, as in the mirror; a document is embedded.
fn json_value(value: &SqlValue, pg_type: PgType) -> String {
    match (pg_type, value) {
        (_, SqlValue::Null) => "null".into(),
        (PgType::Boolean, SqlValue::Int(i @ 0..=1)) => (*i == 1).to_string(),
        (_, SqlValue::Int(i)) => i.to_string(),
        (_, SqlValue::Real(r)) if r.is_finite() => serde_json::Value::from(*r).to_string(),
        (_, SqlValue::Real(_)) => "null".into(),
        (PgType::Jsonb, SqlValue::Text(text)) => json::on_one_line(text).unwrap_or_else(|| json::quoted(text)),
        (_, SqlValue::Text(text)) => json::quoted(text),
    }
}
