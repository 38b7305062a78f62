//! The rows of one table: which of the mirror's are published, and each as a row of PostgreSQL: every value in its column's
//! text form, values that cannot be stored in `extra`, and nothing that is excluded.

use std::borrow::Cow;

use super::state::TargetState;
use super::tables::{PgType, Publication, PublishedColumn, PublishedTable};
use super::value::{self, ESCAPED};
use crate::model::{Object, SqlValue};
use crate::store::{Moment, POINTERS, SourceRow, StoreError, is_last_page};

/// A row, in the order of the table's columns; `None` is NULL.
pub(super) type PgRow = Vec<Option<String>>;

pub(super) type RowPage = (Vec<SourceRow>, Option<Vec<SqlValue>>);

#[derive(Debug)]
pub(super) struct PublishedRows<'a> {
    pub(super) table: &'a PublishedTable,
    pub(super) publication: &'a Publication,
    pub(super) state: &'a TargetState,
}

impl PublishedRows<'_> {
    fn value<'r>(&self, row: &'r [SqlValue], name: &str) -> Option<&'r SqlValue> {
        row.get(self.table.place(name)?)
    }

    /// Whether a row of the feed is after the cursor.
    fn is_beyond(&self, row: &SourceRow) -> bool {
        matches!(self.value(row, "seq"), Some(SqlValue::Int(seq)) if *seq > self.state.seq())
    }

    /// Whether a row is published, and not after the cursor.
    pub(super) fn keeps(&self, row: &SourceRow) -> bool {
        !self.is_beyond(row) && self.is_chosen(row)
    }

    /// Whether a row belongs to an object, and to a field, that is published.
    pub(super) fn is_chosen(&self, row: &SourceRow) -> bool {
        let Some(object) = self.value(row, "object_type").filter(|_| !self.table.is_small()) else { return true };
        let Some(object) = object.as_text().and_then(|object| object.parse::<Object>().ok()) else { return false };
        let multi_selects = &self.publication.multi_selects;
        let of_field = self.value(row, "field_key").is_none_or(|field| {
            multi_selects.iter().any(|(of, key)| *of == object && Some(key.as_str()) == field.as_text())
        });
        self.state.loaded.contains(&object) && of_field
    }

    /// The published rows of the page after a key, and the key to go on after; `None` after the last page.
    pub(super) fn page(&self, moment: &Moment<'_>, after: Option<&[SqlValue]>) -> Result<RowPage, StoreError> {
        let page = moment.page(&self.table.query(), after)?;
        let last = page.last().filter(|last| !is_last_page(&page) && !self.is_beyond(last));
        let next = last.map(|last| self.table.key_of(last));
        Ok((page.into_iter().filter(|row| self.keeps(row)).collect(), next))
    }

    pub(super) fn convert(&self, row: &[SqlValue]) -> PgRow {
        let extra = self.table.place("extra");
        let mut escapes: Vec<(&str, String)> = Vec::new();
        let mut out: PgRow = Vec::with_capacity(row.len());
        for (column, value) in self.table.columns.iter().zip(row) {
            let value = self.without_hidden(&column.name, value, row);
            // The key of another row must have the same form as that key.
            let is_pointer = POINTERS.iter().any(|pointer| pointer.from == column.name);
            if column.is_key || is_pointer || extra.is_none() && column.pg_type == PgType::Text {
                out.push(match value.as_ref() {
                    SqlValue::Text(text) => Some(value::key(text)),
                    SqlValue::Int(i) => Some(i.to_string()),
                    SqlValue::Real(_) | SqlValue::Null => None,
                });
                continue;
            }
            let stored = value::stored(&value, column.pg_type, column.is_indexed).map(Cow::into_owned);
            // A joined name is kept with the record that has it.
            if stored.is_none() && *value != SqlValue::Null && !is_joined(&column.name) {
                escapes.push((column.wire.as_deref().unwrap_or(&column.name), value::json(&*value)));
            }
            out.push(stored);
        }
        if extra.is_some() {
            self.shed(row, &mut out, &mut escapes);
        }
        if let Some(extra) = extra.filter(|_| !escapes.is_empty()) {
            out[extra] = Some(with_escapes(out[extra].as_deref(), &escapes));
        }
        out
    }

    /// Moves the last values of custom fields to `extra` until the row fits on a page of the database.
    fn shed<'t>(&'t self, row: &[SqlValue], out: &mut PgRow, escapes: &mut Vec<(&'t str, String)>) {
        let columns = &self.table.columns;
        if columns.len() * value::MAX_STORED <= MAX_ROW_BYTES {
            return;
        }
        let is_custom = |place: &usize| columns[*place].name.starts_with("cf_");
        let mut bytes = stored_bytes(columns, out);
        for place in (0..columns.len()).rev().filter(is_custom) {
            if bytes <= MAX_ROW_BYTES {
                return;
            }
            if out[place].take().is_some() {
                let wire = columns[place].wire.as_deref();
                escapes.extend(wire.map(|wire| (wire, value::json(&row[place]))));
                bytes = stored_bytes(columns, out);
            }
        }
    }

    pub(super) fn without_hidden<'v>(&self, column: &str, value: &'v SqlValue, row: &[SqlValue]) -> Cow<'v, SqlValue> {
        let SqlValue::Text(text) = value else { return Cow::Borrowed(value) };
        let layout = &self.publication.layout;
        if layout.exclusions.is_empty() {
            return Cow::Borrowed(value);
        }
        let object = self.table.object().or_else(|| self.value(row, "object_type")?.as_text()?.parse().ok());
        let kept = match (column, object) {
            ("extra" | "detail_extra", object) => {
                layout.extra_without(object.map_or(self.table.name, Object::table), text)
            }
            ("record" | "fields", Some(object)) => layout.document_without(object.table(), text),
            _ => return Cow::Borrowed(value),
        };
        // A document that cannot be parsed could contain excluded values, so it is not published.
        Cow::Owned(kept.map_or(SqlValue::Null, |kept| SqlValue::Text(kept.into())))
    }
}

/// The bytes that the values of a row may have: a row must fit on a page of 8 KiB, with a header that has a bit for
/// each of up to 1,600 columns, and with columns that a person added.
const MAX_ROW_BYTES: usize = 7_700;

/// The bytes of a row's values on its page, each at the boundary that its type needs.
fn stored_bytes(columns: &[PublishedColumn], row: &PgRow) -> usize {
    columns.iter().zip(row).fold(0, |at, (column, value)| match value {
        Some(text) => {
            let (bytes, boundary) = value::stored_bytes(text, column.pg_type);
            at.next_multiple_of(boundary) + bytes
        }
        None => at,
    })
}

/// Whether a column is the name of another record.
pub(super) fn is_joined(column: &str) -> bool {
    POINTERS.iter().any(|pointer| pointer.name == column)
}

/// `extra` with the values that could not be stored: under [`ESCAPED`], by wire name, the JSON of each value.
fn with_escapes(extra: Option<&str>, escapes: &[(&str, String)]) -> String {
    let members: Vec<String> = escapes
        .iter()
        .map(|(wire, source)| format!("{}:{}", value::json(*wire), value::json(source.as_str())))
        .collect();
    let own = format!("\"{ESCAPED}\":{{{}}}", members.join(","));
    match extra.and_then(|text| text.trim_end().strip_suffix('}')).map(str::trim_end) {
        None => format!("{{{own}}}"),
        Some(open) if open.ends_with('{') => format!("{open}{own}}}"),
        Some(open) => format!("{open},{own}}}"),
    }
}

pub(super) fn copy_line(row: &PgRow, out: &mut String) {
    for (place, value) in row.iter().enumerate() {
        if place > 0 {
            out.push('\t');
        }
        match value {
            None => out.push_str("\\N"),
            Some(text) if !text.contains(['\\', '\t', '\n', '\r']) => out.push_str(text),
            Some(text) => {
                let text = text.replace('\\', "\\\\").replace('\t', "\\t");
                out.push_str(&text.replace('\n', "\\n").replace('\r', "\\r"));
            }
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Exclusions, Layout};

    fn column(name: &str, pg_type: PgType, wire: Option<&str>) -> PublishedColumn {
        PublishedColumn {
            name: name.into(),
            pg_type,
            wire: wire.map(String::from),
            data_type: String::new(),
            comment: None,
            is_key: name == "id",
            is_indexed: false,
        }
    }

    fn contacts() -> PublishedTable {
        PublishedTable {
            name: "contacts",
            key: &["id"],
            columns: vec![
                column("id", PgType::Text, None),
                column("cf_day", PgType::Date, Some("customFields.day")),
                column("extra", PgType::Jsonb, None),
            ],
            indexes: &[],
            about: "",
            is_chosen: true,
        }
    }

    fn publication(exclude: &[&str]) -> Publication {
        let entries: Vec<String> = exclude.iter().map(ToString::to_string).collect();
        let layout = Layout { exclusions: Exclusions::new(&entries).into(), ..Layout::default() };
        Publication { layout, ..Publication::default() }
    }

    #[test]
    fn value_that_does_not_fit_is_null_and_in_extra() {
        let (table, publication, state) = (contacts(), publication(&[]), TargetState::default());
        let converter = PublishedRows { table: &table, publication: &publication, state: &state };
        let convert = |day: &str, extra: SqlValue| converter.convert(&["a".into(), day.into(), extra]);
        let kept = convert("0000-01-01", r#"{"x":1.10}"#.into());
        let expected = r#"{"x":1.10,"crm_mirror_escaped":{"customFields.day":"\"0000-01-01\""}}"#;
        assert_eq!(kept, [Some("a".into()), None, Some(expected.into())]);
        let kept = convert("0000-01-01", SqlValue::Null);
        assert_eq!(kept[2].as_deref().unwrap(), r#"{"crm_mirror_escaped":{"customFields.day":"\"0000-01-01\""}}"#);
        assert_eq!(convert("2026-01-01", SqlValue::Null), [Some("a".into()), Some("2026-01-01".into()), None]);
    }

    #[test]
    fn row_that_is_too_wide_keeps_its_last_values_in_extra() {
        let mut table = contacts();
        let wires: Vec<String> = (0..500).map(|n| format!("customFields.f{n}")).collect();
        table.columns.extend((0..500).map(|n| column(&format!("cf_f{n}"), PgType::Text, Some(&wires[n]))));
        let (publication, state) = (publication(&[]), TargetState::default());
        let converter = PublishedRows { table: &table, publication: &publication, state: &state };
        let row = |text: &str| -> Vec<SqlValue> {
            let standard = ["a".into(), SqlValue::Null, SqlValue::Null].into_iter();
            standard.chain((0..500).map(|_| SqlValue::from(text))).collect()
        };
        let narrow = converter.convert(&row("ten bytes."));
        assert!(narrow[2].is_none() && narrow[502].is_some());
        let wide = converter.convert(&row(&"x".repeat(100)));
        let kept = wide[3..].iter().take_while(|value| value.is_some()).count();
        assert!((300..330).contains(&kept) && wide[3 + kept..].iter().all(Option::is_none), "{kept}");
        let extra = wide[2].as_deref().unwrap();
        assert_eq!(extra.matches("customFields.f").count(), 500 - kept);
        assert!(extra.contains("customFields.f499"));
    }

    #[test]
    fn excluded_values_are_in_no_document() {
        let publication = publication(&["contacts.notes", "cf_salary"]);
        let (table, state) = (contacts(), TargetState::default());
        let converter = PublishedRows { table: &table, publication: &publication, state: &state };
        let extra = r#"{"notes":"s3cret","customFields":{"salary":"s3cret","Salary":"s3cret","tier":"A"}}"#;
        let row = converter.convert(&["a".into(), SqlValue::Null, extra.into()]);
        assert_eq!(row[2].as_deref().unwrap(), r#"{"customFields":{"tier":"A"}}"#);
        let changes = PublishedTable {
            name: "changes",
            columns: vec![column("object_type", PgType::Text, None), column("fields", PgType::Jsonb, None)],
            ..contacts()
        };
        let converter = PublishedRows { table: &changes, publication: &publication, state: &state };
        let fields = format!(
            r#"{{"notes":["s3cret",null],"cf_salary_num":[1,2],"position":["a","b"],"extra":[null,{}]}}"#,
            value::json(r#"{"notes":"s3cret","y":2}"#)
        );
        let row = converter.convert(&["contact".into(), fields.as_str().into()]);
        assert_eq!(row[1].as_deref().unwrap(), r#"{"extra":[null,"{\"y\":2}"],"position":["a","b"]}"#);
    }

    #[test]
    fn copy_line_is_escaped() {
        let mut out = String::new();
        copy_line(&vec![None, Some("a\\b\t\n\r".into()), Some(String::new())], &mut out);
        assert_eq!(out, "\\N\ta\\\\b\\t\\n\\r\t\n");
    }
}
