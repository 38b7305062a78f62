//! What is published: tables, their columns and types, from the mirror's data dictionary; and the columns that
//! `publish.exclude` keeps back wherever their values are: in rows, in the history, in removed records and in `extra`.

use std::collections::BTreeSet;

use serde::Deserialize;
use strum::IntoStaticStr;

use super::PublishError;
use crate::model::exclusions::object_of;
use crate::model::{DataType, Exclusions, Layout, Object, Resource};
use crate::store::publishing::source::FeedEnd;
use crate::store::{ColumnLine, Moment, PageQuery, guide};

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, Deserialize)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub(super) enum PgType {
    Text,
    Bigint,
    Boolean,
    Numeric,
    #[strum(serialize = "double precision")]
    #[serde(rename = "double precision")]
    DoublePrecision,
    Timestamptz,
    Date,
    Jsonb,
}

impl PgType {
    pub(super) fn as_sql(self) -> &'static str {
        self.into()
    }

    /// The type of a column, by that of the dictionary, in which some columns of these tables are plain texts.
    fn of(table: &str, column: &ColumnLine) -> PgType {
        match (column.data_type.as_str(), table, column.name.as_str()) {
            (_, "removed_records", "removed_at") | (_, "changes", "seen_at") => PgType::Timestamptz,
            (_, "removed_records", "record") | (_, "changes", "fields") => PgType::Jsonb,
            ("integer" | "INTEGER", ..) => PgType::Bigint,
            ("boolean" | "BOOLEAN", ..) => PgType::Boolean,
            ("number" | "real", ..) => PgType::DoublePrecision,
            ("DECIMAL", ..) => PgType::Numeric,
            ("timestamp" | "DATETIME", ..) => PgType::Timestamptz,
            ("DATE", ..) => PgType::Date,
            ("json" | "MULTI_SELECT", ..) => PgType::Jsonb,
            _ => PgType::Text,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishedColumn {
    pub(super) name: String,
    pub(super) pg_type: PgType,
    /// The name in the service's answers, under which `extra` has values that cannot be stored.
    pub(super) wire: Option<String>,
    /// The type in the mirror's dictionary.
    pub(super) data_type: String,
    pub(super) comment: Option<String>,
    pub(super) is_key: bool,
    /// Whether the column is in an index, which bounds the length of its values.
    pub(super) is_indexed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishedTable {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
    pub(super) columns: Vec<PublishedColumn>,
    /// The columns of each index, other than the key, whether they are published or not.
    pub(super) indexes: &'static [&'static [&'static str]],
    pub(super) about: &'static str,
    /// Whether it is published; otherwise it has no rows.
    pub(super) is_chosen: bool,
}

impl PublishedTable {
    pub(super) fn query(&self) -> PageQuery {
        PageQuery {
            table: source(self.name).into(),
            columns: self.columns.iter().map(|column| column.name.clone()).collect(),
            key: self.key.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub(super) fn key_of<V: Clone>(&self, row: &[V]) -> Vec<V> {
        self.key.iter().filter_map(|key| Some(row[self.place(key)?].clone())).collect()
    }

    pub(super) fn is_small(&self) -> bool {
        ["team_members", "custom_field_definitions", "custom_field_options"].contains(&self.name)
    }

    pub(super) fn object(&self) -> Option<Object> {
        Object::ALL.into_iter().find(|object| object.table() == self.name)
    }
}

/// Everything that is published, in one snapshot of the mirror.
#[derive(Clone, Debug, Default)]
pub(super) struct Publication {
    /// The custom columns, with what is not published as their exclusions.
    pub(super) layout: Layout,
    /// What was erased is erased in the copies by sending everything again.
    pub(super) rewrites: u32,
    pub(super) end: FeedEnd,
    /// The objects whose first copy is finished.
    pub(super) copied: Vec<Object>,
    pub(super) tables: Vec<PublishedTable>,
    /// Object and field key of the multi-selects whose values are published.
    pub(super) multi_selects: Vec<(Object, String)>,
    /// The tables that the database does not let be brought to shape, or written: nothing is sent to them.
    pub(super) blocked: BTreeSet<&'static str>,
}

impl Publication {
    pub(super) fn table(&self, name: &str) -> Option<&PublishedTable> {
        self.open_tables().find(|table| table.name == name)
    }

    /// The tables that are published, if the database lets them.
    pub(super) fn chosen_tables(&self) -> impl Iterator<Item = &PublishedTable> {
        self.tables.iter().filter(|table| table.is_chosen)
    }

    /// The tables that rows can be sent to.
    pub(super) fn open_tables(&self) -> impl Iterator<Item = &PublishedTable> {
        self.chosen_tables().filter(|table| !self.blocked.contains(table.name))
    }
}

/// The name of a table, its key, the columns of its other indexes, and the resource that it is published with; `None` for any
/// object of records.
type TableSpec = (&'static str, &'static [&'static str], &'static [&'static [&'static str]], Option<Resource>);

const SPECS: [TableSpec; 8] = [
    ("contacts", &["id"], &[&["owner_id"], &["company_id"], &["email"], &["updated_at"]], Some(Resource::Contacts)),
    ("companies", &["id"], &[&["owner_id"], &["updated_at"]], Some(Resource::Companies)),
    ("team_members", &["id"], &[], Some(Resource::TeamMembers)),
    ("custom_field_definitions", &["id"], &[], Some(Resource::CustomFields)),
    ("custom_field_options", &["definition_id", "position"], &[], Some(Resource::CustomFields)),
    ("custom_multi_values", &["object_type", "record_id", "field_key", "position"], &[], None),
    ("removed_records", &["object_type", "id"], &[], None),
    ("changes", &["seq"], &[&["object_type", "record_id"]], None),
];

/// The table or view of the mirror that a table is published from.
fn source(name: &'static str) -> &'static str {
    object_of(name).map_or(name, Object::full_view)
}

pub(super) fn names() -> BTreeSet<&'static str> {
    SPECS.iter().map(|(name, ..)| *name).collect()
}

pub(super) fn publication(
    moment: &Moment<'_>,
    resources: Option<&[Resource]>,
    exclude: &[String],
) -> Result<Publication, PublishError> {
    let layout = moment.layout_without(exclude)?;
    let chosen = |resource: Resource| resources.is_none_or(|chosen| chosen.contains(&resource));
    let objects: Vec<Object> = Object::ALL.into_iter().filter(|object| chosen(object.resource())).collect();
    // What `sync.exclude` keeps out of the mirror is a column all the same.
    let of_catalogue = Object::ALL
        .into_iter()
        .flat_map(|object| object.fields().iter().map(move |f| (object.table().to_string(), f.column.to_string())));
    let mut known: BTreeSet<(String, String)> = of_catalogue.collect();
    let mut tables = Vec::new();
    for spec in SPECS {
        let (name, _, _, resource) = spec;
        let columns = guide::columns_without_options(moment.tx, source(name))?;
        known.extend(columns.iter().map(|column| (name.to_string(), column.name.clone())));
        if columns.is_empty() {
            continue;
        }
        let is_chosen = resource.map_or(!objects.is_empty(), chosen);
        tables.push(table(spec, columns, &layout, is_chosen));
    }
    if !tables.iter().any(|table| table.is_chosen) {
        return Err(PublishError::Empty);
    }
    check(&layout.exclusions, &known)?;
    let fields =
        objects.iter().flat_map(|object| layout.of(*object).fields().iter().map(move |field| (*object, field)));
    let multi_selects = fields.filter(|(_, field)| field.data_type == DataType::MultiSelect);
    let multi_selects = multi_selects.map(|(object, field)| (object, field.key.to_string())).collect();
    let is_copied = |object: &Object| moment.tx.is_copied(*object).map(|is| is.then_some(*object)).transpose();
    let copied = objects.iter().filter_map(is_copied).collect::<Result<_, _>>()?;
    Ok(Publication {
        layout,
        rewrites: moment.rewrites()?,
        end: moment.end()?,
        copied,
        tables,
        multi_selects,
        blocked: BTreeSet::new(),
    })
}

fn table(
    (name, key, indexes, _): TableSpec,
    columns: Vec<ColumnLine>,
    layout: &Layout,
    is_chosen: bool,
) -> PublishedTable {
    let has_labels = !hides(layout, "custom_field_definitions", "label");
    let columns = columns
        .into_iter()
        .filter(|column| !hides(layout, name, &column.name))
        .map(|column| PublishedColumn {
            pg_type: PgType::of(name, &column),
            comment: comment(&column, has_labels),
            is_key: key.contains(&column.name.as_str()),
            is_indexed: indexes.iter().any(|index| index.contains(&column.name.as_str())),
            wire: column.wire_name,
            data_type: column.data_type,
            name: column.name,
        })
        .collect();
    PublishedTable { name, key, columns, indexes, about: guide::about(source(name)), is_chosen }
}

fn comment(column: &ColumnLine, has_labels: bool) -> Option<String> {
    let wire = column.wire_name.as_ref().map(|wire| format!("{wire} in the API"));
    let label = column.label.as_ref().filter(|_| has_labels);
    let parts = label.into_iter().chain(&column.about).chain(&wire);
    let parts: Vec<String> = parts.map(|part| part.replace('\0', "")).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Whether a column of a published table is excluded. A name without a table hides no column that identifies rows: the
/// position of a value in a list is no contact's position.
pub(super) fn hides(layout: &Layout, table: &str, column: &str) -> bool {
    !is_key(table, column) && layout.hides_column(table, column)
}

/// As [`hides`], of a column in the database: one that was set aside may have a number.
pub(super) fn hides_stored(layout: &Layout, table: &str, column: &str) -> bool {
    hides(layout, table, column.split_once('$').map_or(column, |(name, _)| name))
}

fn is_key(table: &str, column: &str) -> bool {
    SPECS.iter().any(|(name, key, ..)| *name == table && key.contains(&column))
}

/// Checks every entry against the columns: a mistake would publish too much. A custom field may be created later.
fn check(exclusions: &Exclusions, known: &BTreeSet<(String, String)>) -> Result<(), PublishError> {
    for (of, column) in &exclusions.entries {
        let mut named = known.iter().filter(|(table, name)| of.as_ref().is_none_or(|of| of == table) && name == column);
        let is_known = named.clone().next().is_some();
        let text = || of.iter().chain([column]).cloned().collect::<Vec<_>>().join(".");
        if is_known && named.all(|(table, name)| is_key(table, name)) || column == "id" {
            return Err(PublishError::Exclude { column: text(), reason: "which identifies rows" });
        }
        if !is_known && !column.starts_with("cf_") {
            return Err(PublishError::Exclude { column: text(), reason: "which is not a column" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CustomFields;
    use std::collections::HashSet;
    use std::sync::Arc;

    #[test]
    fn what_is_made_from_a_column_follows_it() {
        let entries = ["cf_salary", "contact_details.notes", "last_name", "companies.name"];
        let hidden = Layout { exclusions: Exclusions::new(&entries.map(String::from)).into(), ..Layout::default() };
        let of_salary = ["cf_salary", "cf_salary_num", "archived_cf_salary", "archived_cf_salary_num"];
        for column in of_salary.into_iter().chain(["owner_name", "company_name"]) {
            assert!(hides(&hidden, "companies", column), "{column}");
        }
        assert!(hides(&hidden, "contacts", "notes"));
        for column in ["company", "name", "first_name", "cf_x", "cf_salary_2", "cf_salary_label", "notes_at"] {
            assert!(!hides(&hidden, "contacts", column), "{column}");
        }
        assert!(!hides(&hidden, "companies", "notes"));
        assert!(hidden.excludes_key(Object::Contact, "Salary"));
        let own = ["cf_salary_num".to_string()].into();
        let hidden = Layout { contact: Arc::new(CustomFields::default().of_all(HashSet::new(), own)), ..hidden };
        assert!(!hides(&hidden, "contacts", "archived_cf_salary_num") && hides(&hidden, "companies", "cf_salary_num"));
    }

    #[test]
    fn entry_without_a_matching_column_is_an_error() {
        let of_contacts = [("contacts", "id"), ("contacts", "notes"), ("contacts", "position")];
        let known = of_contacts.into_iter().chain([("custom_field_options", "position"), ("changes", "seq")]);
        let known = known.map(|(table, column)| (table.to_string(), column.to_string())).collect();
        let check = |entry: &str| check(&Exclusions::new(&[entry.into()]), &known).is_ok();
        assert!(check("notes") && check("contacts.notes") && check("cf_later") && check("position"));
        assert!(!check("note") && !check("companies.notes") && !check("id") && !check("contacts.id"));
        assert!(!check("seq") && !check("custom_field_options.position"));
        let hidden = Layout { exclusions: Exclusions::new(&["position".into()]).into(), ..Layout::default() };
        assert!(hides(&hidden, "contacts", "position") && !hides(&hidden, "custom_field_options", "position"));
    }
}
