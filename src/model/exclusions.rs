//! Columns that are kept back: from the mirror (`sync.exclude`), from what is published (`publish.exclude`) and from
//! assistants (`mcp.exclude`). What is made from such a column follows it.
//!
//! `sync.exclude` keeps fields out of the mirror: decoding, tables, views and documents follow one layout without them.

use std::collections::BTreeSet;

use super::catalogue::{Field, Object, Resource};
use super::column_name::ColumnName;

/// Fields that no mirror can be without: they identify a record and its version, and order the lists.
const NEEDED: [&str; 4] = ["id", "etag", "created_at", "updated_at"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Table, if one is named, and column.
    pub entries: Vec<(Option<String>, String)>,
}

impl Exclusions {
    /// Parses entries such as `notes` and `contacts.notes`.
    pub fn new(texts: &[String]) -> Exclusions {
        let entry = |text: &String| match text.split_once('.') {
            Some((table, column)) => (Some(table_of(table).to_string()), column.to_string()),
            None => (None, text.clone()),
        };
        Exclusions { entries: texts.iter().map(entry).collect() }
    }

    /// Why an entry cannot be excluded from the mirror, phrased to follow its name; `None` if it can. A custom field may be
    /// created later.
    pub fn check(entry: &str) -> Option<&'static str> {
        let (table, column) = entry.split_once('.').map_or((None, entry), |(table, column)| (Some(table), column));
        let objects = match table.map(object_of) {
            Some(None) => return Some("is not a column of contacts or companies"),
            Some(Some(object)) => vec![object],
            None => Object::ALL.to_vec(),
        };
        if NEEDED.contains(&column) {
            return Some("cannot be left out: a mirror is kept up to date by it");
        }
        let is_standard = objects.iter().any(|object| object.fields().iter().any(|field| field.column == column));
        (!is_standard && !column.starts_with("cf_")).then_some("is not a field of the service")
    }

    /// An accepted entry with its tables: where others are named too, a name without one means all of them.
    pub fn of_tables(entry: &str) -> impl Iterator<Item = String> {
        let of_each = Object::ALL.map(|object| format!("{}.{entry}", object.table()));
        let entries = of_each.into_iter().chain([entry.to_string()]);
        entries.filter(|entry| entry.contains('.') && Exclusions::check(entry).is_none())
    }

    /// With the columns of custom fields, given as key and column: an entry means the key of the field that has the column, and
    /// so every column that a field of this key has or had.
    pub fn of_keys(mut self, object: Object, fields: &[(String, String)]) -> Exclusions {
        let named: BTreeSet<&str> = self.columns(object.table()).collect();
        let keys = fields.iter().filter(|(_, column)| named.contains(column.as_str())).map(|(key, _)| key);
        let keys: BTreeSet<&String> = keys.collect();
        let meant = fields.iter().filter(|(key, _)| keys.contains(key));
        let entries = meant.map(|(_, column)| (Some(object.table().to_string()), column.clone()));
        self.entries.extend(entries.collect::<Vec<_>>());
        self
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The columns that are named for a table, or for any.
    pub fn columns(&self, table: &str) -> impl Iterator<Item = &str> {
        let table = table_of(table);
        let of_table = self.entries.iter().filter(move |(of, _)| of.as_deref().is_none_or(|of| of == table));
        of_table.map(|(_, column)| column.as_str())
    }

    pub fn takes_field(&self, object: Object, index: usize) -> bool {
        !self.is_empty() && self.takes(object.table(), object.fields()[index].column)
    }

    /// Whether a column is kept back, by itself or with what it is made from.
    pub fn takes(&self, table: &str, column: &str) -> bool {
        made_from(table, column).iter().any(|(of, column)| self.takes(of, column))
            || self.columns(table).any(|excluded| belongs_to(column, excluded))
    }

    /// As [`Exclusions::takes`], of the column that a field was given: it is no companion of another one.
    pub fn takes_own_column(&self, object: Object, column: &str) -> bool {
        self.columns(object.table()).any(|excluded| plain_name(column) == excluded)
    }

    /// Whether a custom field may be excluded whose column is not known yet.
    pub fn takes_key(&self, table: &str, key: &str) -> bool {
        self.columns(table).any(|excluded| ColumnName::may_name(excluded, key))
    }

    pub fn takes_wire(&self, table: &str, wire: &str) -> bool {
        fields_of(table).iter().any(|field| field.wire == wire && self.takes(table, field.column))
    }

    /// Whether a container of the answers has an excluded field: a container of a foreign shape may hold its value.
    pub fn takes_part_of(&self, table: &str, group: &str) -> bool {
        let is_of_group = |field: &Field| field.wire.split_once('.').is_some_and(|(of, _)| of == group);
        group == "customFields" && self.columns(table).any(|excluded| excluded.starts_with("cf_"))
            || fields_of(table).iter().any(|field| is_of_group(field) && self.takes(table, field.column))
    }
}

/// The name of a column while its field is active.
pub fn plain_name(column: &str) -> &str {
    column.strip_prefix("archived_").filter(|rest| rest.starts_with("cf_")).unwrap_or(column)
}

/// Whether a column is the one of that name, or follows it: the companion of a decimal, and an archived column.
fn belongs_to(column: &str, name: &str) -> bool {
    let column = plain_name(column);
    column == name || column.strip_suffix("_num") == Some(name)
}

/// Table and column of what a column of an object's views is made from, where another table has that.
fn made_from(table: &str, column: &str) -> &'static [(&'static str, &'static str)] {
    match (object_of(table), column) {
        (Some(_), "owner_name") => &[("team_members", "first_name"), ("team_members", "last_name")],
        (Some(_), "company_name") => &[("companies", "name")],
        _ => &[],
    }
}

/// The table of an object's records, for the table of its details and its views; any other name as it is.
pub fn table_of(name: &str) -> &str {
    object_of(name).map_or(name, |object| object.table())
}

pub fn object_of(table: &str) -> Option<Object> {
    let has = |o: &Object| [o.table(), o.detail_table(), o.full_view()].contains(&table);
    Object::ALL.into_iter().find(has)
}

fn fields_of(table: &str) -> &'static [Field] {
    Resource::ALL.into_iter().find(|resource| resource.table() == table_of(table)).map_or(&[], Resource::fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_means_the_key_of_the_field_that_has_the_column() {
        let field = |key: &str, column: &str| (key.to_string(), column.to_string());
        let fields = [field("pay", "cf_pay"), field("Pay", "cf_pay_2"), field("pay", "cf_pay_3"), field("x", "cf_x")];
        for (entry, hidden) in [
            ("contacts.cf_pay", &["cf_pay", "cf_pay_3"][..]),
            ("cf_pay_2", &["cf_pay_2"]),
            ("cf_pay_4", &["cf_pay_4"]),
            ("companies.cf_pay", &[]),
        ] {
            let excluded = Exclusions::new(&[entry.into()]).of_keys(Object::Contact, &fields);
            for column in ["cf_pay", "cf_pay_2", "cf_pay_3", "cf_pay_4", "cf_x"] {
                assert_eq!(excluded.takes("contacts", column), hidden.contains(&column), "{entry} {column}");
            }
        }
    }

    #[test]
    fn what_belongs_to_an_excluded_column_follows_it() {
        let excluded = Exclusions::new(&["cf_salary".into(), "contact_details.notes".into(), "contacts.cf_x_2".into()]);
        for column in ["cf_salary", "cf_salary_num", "archived_cf_salary", "archived_cf_salary_num"] {
            assert!(excluded.takes("companies", column), "{column}");
        }
        assert!(excluded.takes("contacts", "notes") && !excluded.takes("companies", "notes"));
        assert!(!excluded.takes("contacts", "cf_salary_2") && !excluded.takes("contacts", "cf_salary_label"));
        assert!(excluded.takes_key("contacts", "Salary") && excluded.takes_key("contacts", "x"));
        assert!(!excluded.takes_key("companies", "x") && !excluded.takes_key("companies", "sal"));
        let notes = Object::Contact.fields().iter().position(|field| field.column == "notes").unwrap();
        assert!(excluded.takes_field(Object::Contact, notes) && !Exclusions::default().takes_field(Object::Contact, 0));
    }

    #[test]
    fn only_fields_of_the_service_can_be_excluded() {
        for good in ["notes", "contacts.notes", "companies_full.industry", "location_country", "contacts.cf_later"] {
            assert_eq!(Exclusions::check(good), None, "{good}");
        }
        for wrong in ["note", "companies.mobile", "id", "contacts.etag", "team_members.email", "contacts.owner_name"] {
            assert!(Exclusions::check(wrong).is_some(), "{wrong}");
        }
    }
}
