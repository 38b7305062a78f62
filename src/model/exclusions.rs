//! `sync.exclude`: fields whose values never reach the mirror. The decoding drops them, and the tables, views and
//! documents are made without them, because all of these are made from one layout.

use super::catalogue::{Field, FieldKind, Object};
use super::column_name::ColumnName;

/// Fields that no mirror can be without: they identify a record and its version, and order the lists.
const NEEDED: [&str; 4] = ["id", "etag", "created_at", "updated_at"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedFields {
    /// Object, if one is named, and column.
    entries: Vec<(Option<Object>, String)>,
    /// By object, then by the field's index in the catalogue.
    fields: [Vec<bool>; 2],
}

impl ExcludedFields {
    /// Parses entries such as `notes` and `contacts.notes`, which [`ExcludedFields::check`] has accepted.
    pub fn new(texts: &[String]) -> ExcludedFields {
        let entries = entries(texts).into_iter().map(|(of, column)| (of.as_deref().and_then(object_of), column));
        let mut exclusions = ExcludedFields { entries: entries.collect(), fields: Default::default() };
        if !exclusions.is_empty() {
            exclusions.fields = Object::ALL.map(|object| {
                object.fields().iter().map(|field| exclusions.takes_column(object, field.column)).collect()
            });
        }
        exclusions
    }

    /// Why an entry cannot be excluded, phrased to follow its name; `None` if it can. A custom field may be created later.
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
        (!is_standard && !column.starts_with("cf_")).then_some("is not a column that the service fills")
    }

    /// An accepted entry with its tables: where others are named too, a name without one means all of them.
    pub fn of_tables(entry: &str) -> impl Iterator<Item = String> {
        let of_each = Object::ALL.map(|object| format!("{}.{entry}", object.table()));
        let entries = of_each.into_iter().chain([entry.to_string()]);
        entries.filter(|entry| entry.contains('.') && ExcludedFields::check(entry).is_none())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn columns(&self, object: Object) -> impl Iterator<Item = &str> {
        let of_object = self.entries.iter().filter(move |(of, _)| of.is_none_or(|of| of == object));
        of_object.map(|(_, column)| column.as_str())
    }

    pub fn takes_field(&self, object: Object, index: usize) -> bool {
        self.fields[object as usize].get(index) == Some(&true)
    }

    pub fn takes_wire(&self, object: Object, wire: &str) -> bool {
        object.fields().iter().zip(&self.fields[object as usize]).any(|(field, taken)| *taken && field.wire == wire)
    }

    pub fn takes_column(&self, object: Object, column: &str) -> bool {
        self.columns(object).any(|excluded| belongs_to(column, excluded))
    }

    /// As [`ExcludedFields::takes_column`], of the column that a field was given: it is no companion of another one.
    pub fn takes_own_column(&self, object: Object, column: &str) -> bool {
        self.columns(object).any(|excluded| plain_name(column) == excluded)
    }

    /// Whether a custom field may be excluded whose column is not known yet.
    pub fn takes_key(&self, object: Object, key: &str) -> bool {
        self.columns(object).any(|excluded| ColumnName::may_name(excluded, key))
    }

    /// Whether a container of the answers has an excluded field: a container of a foreign shape may hold its value.
    pub fn takes_part_of(&self, object: Object, group: &str) -> bool {
        let is_of_group = |field: &Field| field.wire.split_once('.').is_some_and(|(of, _)| of == group);
        group == "customFields" && self.columns(object).any(|excluded| excluded.starts_with("cf_"))
            || object.fields().iter().zip(&self.fields[object as usize]).any(|(f, taken)| *taken && is_of_group(f))
    }

    pub fn leave_a_detail_field(&self, object: Object) -> bool {
        let is_kept = |field: &&Field| field.kind != FieldKind::Id && !self.takes_column(object, field.column);
        object.detail_fields().any(|field| is_kept(&field))
    }
}

/// The name of a column while its field is active.
pub fn plain_name(column: &str) -> &str {
    column.strip_prefix("archived_").filter(|rest| rest.starts_with("cf_")).unwrap_or(column)
}

/// Whether a column is the one of that name, or follows it: the companion of a decimal, the labels of a select field, and
/// an archived column.
pub fn belongs_to(column: &str, name: &str) -> bool {
    let column = plain_name(column);
    column == name || ["_num", "_label"].iter().any(|suffix| column.strip_suffix(suffix) == Some(name))
}

/// Table, if one is named, and column of entries such as `notes` and `contacts.notes`.
pub fn entries(texts: &[String]) -> Vec<(Option<String>, String)> {
    let entry = |text: &String| match text.split_once('.') {
        Some((table, column)) => (Some(table_of(table).to_string()), column.to_string()),
        None => (None, text.clone()),
    };
    texts.iter().map(entry).collect()
}

/// The table of an object's records, for the table of its details and its views; any other name as it is.
pub fn table_of(name: &str) -> &str {
    object_of(name).map_or(name, |object| object.table())
}

pub fn object_of(table: &str) -> Option<Object> {
    let has = |o: &Object| [o.table(), o.detail_table(), o.full_view()].contains(&table);
    Object::ALL.into_iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_an_excluded_column_follows_it() {
        let excluded =
            ExcludedFields::new(&["cf_salary".into(), "contact_details.notes".into(), "contacts.cf_x_2".into()]);
        for column in ["cf_salary", "cf_salary_num", "archived_cf_salary", "archived_cf_salary_num", "cf_salary_label"]
        {
            assert!(excluded.takes_column(Object::Company, column), "{column}");
        }
        assert!(excluded.takes_column(Object::Contact, "notes") && !excluded.takes_column(Object::Company, "notes"));
        assert!(!excluded.takes_column(Object::Contact, "cf_salary_2"));
        assert!(excluded.takes_key(Object::Contact, "Salary") && excluded.takes_key(Object::Contact, "x"));
        assert!(!excluded.takes_key(Object::Company, "x") && !excluded.takes_key(Object::Company, "sal"));
        let notes = Object::Contact.fields().iter().position(|field| field.column == "notes").unwrap();
        assert!(
            excluded.takes_field(Object::Contact, notes) && !ExcludedFields::default().takes_field(Object::Contact, 0)
        );
        assert!(excluded.leave_a_detail_field(Object::Contact));
    }

    #[test]
    fn only_fields_of_the_service_can_be_excluded() {
        for good in ["notes", "contacts.notes", "companies_full.industry", "location_country", "contacts.cf_later"] {
            assert_eq!(ExcludedFields::check(good), None, "{good}");
        }
        for wrong in ["note", "companies.mobile", "id", "contacts.etag", "team_members.email", "contacts.owner_name"] {
            assert!(ExcludedFields::check(wrong).is_some(), "{wrong}");
        }
    }
}
