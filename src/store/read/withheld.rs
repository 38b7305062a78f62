//! Columns that a reader may not see (`mcp.exclude`). SQLite's authorizer asks for every column that a statement reads, by
//! whatever view, so a value that is withheld is NULL in all that is computed from it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::Authorization;

use crate::model::Object;
use crate::model::exclusions::{belongs_to, table_of};

/// Columns with documents, values of any column or texts of edits: a part of them cannot be withheld.
const DOCUMENTS: [(&str, &[&str]); 9] = [
    ("contacts", &["extra"]),
    ("companies", &["extra"]),
    ("team_members", &["extra"]),
    ("changes", &["fields"]),
    ("removed_records", &["record"]),
    ("retyped_values", &["value"]),
    ("custom_multi_values", &["value"]),
    ("outbox", &["fields", "body", "answer", "theirs"]),
    ("state", &["value"]),
];

/// The withheld columns, and those of them that statements have asked for.
#[derive(Clone, Debug, Default)]
pub struct WithheldColumns {
    /// Table, if one is named, and column.
    entries: Arc<Vec<(Option<String>, String)>>,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl WithheldColumns {
    /// Withholds entries such as `notes` and `contacts.notes`, with what is computed from them.
    pub fn new(entries: &[String]) -> WithheldColumns {
        let entry = |text: &String| match text.split_once('.') {
            Some((table, column)) => (Some(table_of(table).to_string()), column.to_string()),
            None => (None, text.clone()),
        };
        WithheldColumns { entries: Arc::new(entries.iter().map(entry).collect()), asked: Arc::default() }
    }

    pub fn takes(&self, table: &str, column: &str) -> bool {
        let table = table_of(table);
        let is_document = || {
            let column = if column == "detail_extra" { "extra" } else { column };
            DOCUMENTS.iter().any(|(of, columns)| *of == table && columns.contains(&column))
        };
        self.names(table, column) || !self.entries.is_empty() && is_document()
    }

    fn names(&self, table: &str, column: &str) -> bool {
        self.entries.iter().any(|(of, name)| of.as_deref().is_none_or(|of| of == table) && belongs_to(column, name))
    }

    /// What a statement gets of a column; nothing of an index of words, which tells what it finds. Columns that it names itself
    /// are noted.
    pub(in crate::store) fn access(&self, table: &str, column: &str, is_named: bool) -> Authorization {
        if self.is_index_of_withheld(table) {
            return Authorization::Deny;
        }
        if !self.takes(table, column) {
            return Authorization::Allow;
        }
        if is_named {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{table}.{column}"));
        }
        Authorization::Ignore
    }

    /// Whether a table belongs to a search index that has words of a withheld column.
    pub fn is_index_of_withheld(&self, table: &str) -> bool {
        let of = |object: &Object| table.starts_with(object.search_table());
        Object::ALL.iter().find(|object| of(object)).is_some_and(|object| {
            let table = object.table();
            let is_text = |(of, column): &(Option<String>, String)| {
                let is_searched = column.starts_with("cf_") || object.fields().iter().any(|f| f.column == column);
                of.as_deref().is_none_or(|of| of == table) && is_searched
            };
            self.entries.iter().any(is_text)
        })
    }

    /// The withheld columns that statements have named since the last call.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_from_a_withheld_column_is_withheld() {
        let withheld =
            WithheldColumns::new(&["contacts.notes".into(), "cf_salary".into(), "team_members.email".into()]);
        for (table, column) in [
            ("contact_details", "notes"),
            ("contacts_full", "notes"),
            ("companies", "cf_salary_num"),
            ("companies", "archived_cf_salary"),
            ("contacts_full", "detail_extra"),
            ("changes", "fields"),
            ("team_members", "email"),
        ] {
            assert!(withheld.takes(table, column), "{table}.{column}");
        }
        for (table, column) in [("company_details", "notes"), ("contacts", "email"), ("changes", "seq")] {
            assert!(!withheld.takes(table, column), "{table}.{column}");
        }
        assert_eq!(withheld.access("contact_search_content", "c4", true), Authorization::Deny);
        assert!(!WithheldColumns::default().takes("changes", "fields"));
        let only_companies = WithheldColumns::new(&["companies.notes".into()]);
        assert!(!only_companies.is_index_of_withheld("contact_search"));
        assert_eq!(withheld.access("contact_details", "notes", false), Authorization::Ignore);
        assert!(withheld.take_asked().is_empty());
        withheld.access("contacts_full", "notes", true);
        assert_eq!(withheld.take_asked(), ["contacts_full.notes"]);
    }
}
