//! The full-text search document of a record: which texts belong to which column of the search table, and the resulting
//! statements.

use rusqlite::types::ValueRef;
use rusqlite::{Row, types::Value};

use crate::model::catalogue::Object;
use crate::model::custom::{CustomFields, DataType};

/// A column of a search table and its texts: `r.` is the record, `d.` its detail. The columns have the same order as in
/// `schema/`, after `record_id`; the last one contains the custom texts.
type Texts = (&'static str, &'static [&'static str]);

const CONTACT: &[Texts] = &[
    ("name", &["r.name", "r.first_name", "r.last_name"]),
    ("email", &["r.email"]),
    ("company", &["r.company"]),
    ("position", &["r.position"]),
    ("notes", &["d.notes"]),
    ("summaries", &["d.session_summary_discussed", "d.session_summary_requests"]),
    ("custom", &[]),
];

const COMPANY: &[Texts] = &[
    ("name", &["r.name"]),
    ("company", &["r.registered_name", "r.website_url"]),
    ("notes", &["d.notes"]),
    ("custom", &[]),
];

const fn texts(object: Object) -> &'static [Texts] {
    match object {
        Object::Contact => CONTACT,
        Object::Company => COMPANY,
    }
}

/// The documents of one object, under one layout.
#[derive(Clone, Debug)]
pub struct Document {
    pub table: &'static str,
    /// The number of texts in each of its columns.
    spans: Vec<usize>,
    /// The columns of the record and of its detail that are searched.
    searched: [Vec<String>; 2],
    /// The custom texts, each with its table: an index that was built with others is out of date.
    pub custom: Vec<String>,
    /// Key and texts of every record, and its row number, in the order of row numbers.
    pub select_all: String,
    /// Key and texts of the record `?1`.
    pub select_one: String,
    /// The stored document `?1`.
    pub stored: String,
    /// A new document: docid, key, columns.
    pub insert: String,
    /// Updates a document: docid, columns.
    pub update: String,
    /// Deletes the document `?1`.
    pub delete: String,
}

impl Document {
    pub fn new(object: Object, fields: &CustomFields) -> Document {
        let table = object.search_table();
        let mut sources: Vec<String> = Vec::new();
        let mut spans = Vec::new();
        let mut custom = Vec::new();
        for (column, texts) in texts(object) {
            let before = sources.len();
            sources.extend(texts.iter().map(|text| (*text).to_string()));
            if *column == "custom" {
                custom = fields
                    .fields()
                    .iter()
                    .filter(|f| matches!(f.data_type, DataType::ShortText | DataType::LongText))
                    .map(|f| format!("{}.{}", if f.data_type.detail_only() { "d" } else { "r" }, f.column))
                    .collect();
                sources.extend(custom.iter().cloned());
            }
            spans.push(sources.len() - before);
        }
        let names: Vec<&str> = texts(object).iter().map(|(column, _)| *column).collect();
        let marks = |from: usize| -> Vec<String> { (from..from + names.len()).map(|n| format!("?{n}")).collect() };
        let sets: Vec<String> = names.iter().zip(marks(2)).map(|(n, mark)| format!("{n} = {mark}")).collect();
        let of = |alias: &str| -> Vec<String> {
            sources.iter().filter_map(|source| source.strip_prefix(alias)).map(String::from).collect()
        };
        let texts = sources.join(", ");
        let from = format!(
            "FROM {} AS r LEFT JOIN {} AS d ON d.{} = r.id",
            object.table(),
            object.detail_table(),
            object.detail_key()
        );
        Document {
            table,
            searched: [of("r."), of("d.")],
            select_one: format!("SELECT r.id, {texts} {from} WHERE r.id = ?1"),
            select_all: format!("SELECT r.id, {texts}, r.rowid {from} ORDER BY r.rowid"),
            stored: format!("SELECT record_id, {} FROM {table} WHERE rowid = ?1", names.join(", ")),
            insert: format!(
                "INSERT INTO {table} (rowid, record_id, {}) VALUES (?1, ?2, {})",
                names.join(", "),
                marks(3).join(", ")
            ),
            update: format!("UPDATE {table} SET {} WHERE rowid = ?1", sets.join(", ")),
            delete: format!("DELETE FROM {table} WHERE rowid = ?1"),
            spans,
            custom,
        }
    }

    /// Whether a column of the record's table, or of its detail's, is searched.
    pub fn takes(&self, detail: bool, column: &str) -> bool {
        self.searched[usize::from(detail)].iter().any(|name| name == column)
    }

    /// The columns of a document, from a row of one of the selects.
    pub fn read(&self, row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
        let mut columns = self.blank();
        self.fill(&mut columns, row)?;
        let value = |column: String| if column.is_empty() { Value::Null } else { column.into() };
        Ok(columns.into_iter().map(value).collect())
    }

    /// Empty columns of a document.
    pub fn blank(&self) -> Vec<String> {
        vec![String::new(); self.spans.len()]
    }

    /// Fills the columns of a document with the texts of a row; an empty column represents NULL.
    pub fn fill(&self, columns: &mut [String], row: &Row<'_>) -> rusqlite::Result<()> {
        let mut place = 1;
        let last = self.spans.len() - 1;
        for (n, (span, column)) in self.spans.iter().zip(columns).enumerate() {
            column.clear();
            for index in place..place + span {
                if let ValueRef::Text(text) = row.get_ref(index)? {
                    let text = String::from_utf8_lossy(text);
                    if n == last || !has_words(column, &text) {
                        add(column, &text);
                    }
                }
            }
            place += span;
        }
        Ok(())
    }

    /// The row number of a row of `select_all`.
    pub fn row_number(&self, row: &Row<'_>) -> rusqlite::Result<i64> {
        row.get(1 + self.spans.iter().sum::<usize>())
    }

    /// The columns of a stored document, from a row of `stored`.
    pub fn read_stored(&self, row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
        (1..=self.spans.len()).map(|index| row.get(index)).collect()
    }
}

fn add(column: &mut String, text: &str) {
    if !column.is_empty() && !text.is_empty() {
        column.push('\n');
    }
    column.push_str(text);
}

/// Whether a text already contains these whole words: a first name that is part of the full name counts once. Words
/// begin where the text does, or behind white space, so few places are looked at.
fn has_words(column: &str, words: &str) -> bool {
    let ends = |rest: &str| rest.chars().next().is_none_or(char::is_whitespace);
    let begins = column.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
    std::iter::once(0).chain(begins).any(|at| column[at..].strip_prefix(words).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        for (words, contained) in
            [("Anna", false), ("Annabel", true), ("Lee", true), ("Annabel Lee", true), ("bel Lee", false), ("L", false)]
        {
            assert_eq!(has_words("Annabel Lee", words), contained, "{words}");
        }
        assert!(!has_words("", "Anna"));
    }
}
