//! `publish.exclude`: columns that are never published, wherever their values are: in rows, in the history, in removed
//! records and in `extra`.

use std::collections::BTreeSet;

use super::error::PublishError;
use crate::model::catalogue::Object;
use crate::model::column_name::ColumnName;
use crate::model::exclusions::{belongs_to, table_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exclusions {
    /// Table, if one is named, and column.
    entries: Vec<(Option<String>, String)>,
    /// The columns of each table that identify its rows.
    keys: BTreeSet<(String, String)>,
}

impl Exclusions {
    /// Parses entries such as `notes` and `contacts.notes`. `keys` are the columns of each table that identify its rows.
    pub(super) fn new(entries: &[String], keys: BTreeSet<(String, String)>) -> Exclusions {
        let entry = |text: &String| match text.split_once('.') {
            Some((table, column)) => (Some(table_of(table).to_string()), column.to_string()),
            None => (None, text.clone()),
        };
        Exclusions { entries: entries.iter().map(entry).collect(), keys }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a column of a published table is excluded. A name without a table hides no column that identifies
    /// rows: the position of a value in a list is no contact's position.
    pub(super) fn hides(&self, table: &str, column: &str) -> bool {
        let is_key = || self.keys.contains(&(table.to_string(), column.to_string()));
        self.entries.iter().any(|(of, excluded)| {
            belongs_to(column, excluded) && of.as_deref().map_or_else(|| !is_key(), |of| of == table)
        })
    }

    /// Whether a column of an object's records is excluded.
    pub(super) fn hides_of(&self, object: Object, column: &str) -> bool {
        self.hides(object.table(), column)
    }

    /// Whether the values of a custom field are excluded, even if it has no column.
    pub(super) fn hides_key(&self, table: &str, key: &str) -> bool {
        self.hides(table, ColumnName::for_key(key, false, &BTreeSet::new()).as_str())
    }

    /// Checks every entry against the existing columns: a mistake would publish what must not be published. A custom
    /// field may be created later.
    pub(super) fn check(&self, known: &BTreeSet<(String, String)>) -> Result<(), PublishError> {
        for (of, column) in &self.entries {
            let is = |(table, name): &(String, String)| of.as_deref().is_none_or(|of| of == table) && name == column;
            let text = || of.iter().chain([column]).cloned().collect::<Vec<_>>().join(".");
            let identifies = self.keys.iter().any(is) && known.difference(&self.keys).all(|known| !is(known));
            if identifies || column == "id" {
                return Err(PublishError::Exclude { column: text(), reason: "which identifies rows" });
            }
            if !column.starts_with("cf_") && !known.iter().any(is) {
                return Err(PublishError::Exclude { column: text(), reason: "which is not a column" });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_and_archived_columns_follow_their_column() {
        let hidden = Exclusions::new(&["cf_salary".into(), "contact_details.notes".into()], BTreeSet::new());
        for column in ["cf_salary", "cf_salary_num", "archived_cf_salary", "archived_cf_salary_num", "cf_salary_label"]
        {
            assert!(hidden.hides("companies", column), "{column}");
        }
        assert!(hidden.hides("contacts", "notes"));
        for (table, column) in [("companies", "notes"), ("contacts", "cf_salary_2"), ("contacts", "notes_at")] {
            assert!(!hidden.hides(table, column), "{table}.{column}");
        }
        assert!(hidden.hides_key("contacts", "Salary"));
    }

    #[test]
    fn entry_without_a_matching_column_is_an_error() {
        let known = |names: &[(&str, &str)]| names.iter().map(|(t, c)| (t.to_string(), c.to_string())).collect();
        let keys: BTreeSet<(String, String)> =
            known(&[("contacts", "id"), ("options", "position"), ("changes", "seq")]);
        let mut columns: BTreeSet<(String, String)> = known(&[("contacts", "notes"), ("contacts", "position")]);
        columns.extend(keys.clone());
        let check = |entry: &str| Exclusions::new(&[entry.into()], keys.clone()).check(&columns).is_ok();
        assert!(check("notes") && check("contacts.notes") && check("cf_later") && check("position"));
        assert!(!check("note") && !check("companies.notes") && !check("id") && !check("contacts.id"));
        assert!(!check("seq") && !check("options.position"));
        let hidden = Exclusions::new(&["position".into()], keys);
        assert!(hidden.hides("contacts", "position") && !hidden.hides("options", "position"));
    }
}
