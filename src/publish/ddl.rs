//! The steps from the existing columns to the wanted ones: repeatable, and decided without a database.
//!
//! The steps follow from the database's catalogue, never from what was done before, so a publisher that is killed
//! between two of them leaves nothing that the next one would not finish.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::tables::{PgType, PublishedColumn, PublishedTable, hides_stored};
use crate::model::Layout;

/// The beginning of the comment on a table that is kept only because something of a person needs it.
pub(super) const LEFT_BEHIND: &str = "left behind by crm-mirror: ";

/// What the name of a table that was left behind has after that of the table.
pub(super) const LEFT_BEHIND_TABLE: &str = "__left_behind_";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ExistingColumn {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) pg_type: Option<PgType>,
    /// Whether the database makes its values.
    pub(super) is_computed: bool,
}

/// A table of the database, from `tables.sql`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ExistingTable {
    /// Whether it is a table, and not a view or a partitioned or foreign table.
    pub(super) is_plain: bool,
    pub(super) is_left_behind: bool,
    pub(super) has_row_security: bool,
    /// The column numbers in use, those of dropped columns included.
    pub(super) used: usize,
    pub(super) columns: Vec<ExistingColumn>,
    pub(super) key: Vec<String>,
    /// Its indexes, as [`super::sql::index_form`] has them.
    pub(super) indexes: Vec<String>,
    /// The views that use it, and the tables that it belongs to.
    pub(super) users: BTreeSet<String>,
}

impl ExistingTable {
    fn column(&self, name: &str) -> Option<&ExistingColumn> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The number of columns that a table of PostgreSQL can have in its life.
const MAX_NUMBERS: usize = 1_600;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaPlan {
    /// The old and the new names of columns whose field was archived, or restored.
    pub(super) renamed: Vec<(String, String)>,
    pub(super) added: Vec<PublishedColumn>,
    /// Whether a column needs values: the table is loaded.
    pub(super) refills: bool,
    /// Why the table cannot be brought to its columns step by step: it is replaced by a new one.
    pub(super) replace: Option<String>,
}

/// Plans one table. `existing` is `None` if it does not exist.
pub(super) fn plan(table: &PublishedTable, existing: Option<&ExistingTable>, layout: &Layout) -> SchemaPlan {
    let Some(existing) = existing else {
        return SchemaPlan { replace: Some("it was missing".into()), ..SchemaPlan::default() };
    };
    let (mut plan, mut first_reason) = (SchemaPlan::default(), None);
    let mut replace = |why: String| _ = first_reason.get_or_insert(why);
    if existing.key != table.key {
        replace("its primary key was changed".into());
    }
    for old in &existing.columns {
        let is_wanted = table.columns.iter().any(|column| column.name == old.name);
        if hides_stored(layout, table.name, &old.name) {
            replace(format!("{} is not published", old.name));
        } else if !is_wanted && old.name.starts_with("cf_") {
            // It keeps its last values, and views follow.
            plan.renamed.push((old.name.clone(), free_name(&format!("archived_{}", old.name), existing)));
        }
    }
    for column in &table.columns {
        match existing.column(&column.name) {
            Some(old) if old.pg_type == Some(column.pg_type) => {}
            Some(_) => replace(format!("the type of {} was changed", column.name)),
            None => {
                // If the archived column has the same type, it is renamed back, for the views that use it; its values may be old.
                let from = format!("archived_{}", column.name);
                match existing.column(&from).filter(|old| old.pg_type == Some(column.pg_type)) {
                    Some(_) => plan.renamed.push((from, column.name.clone())),
                    None => plan.added.push(column.clone()),
                }
                plan.refills = true;
            }
        }
    }
    if existing.used + plan.added.len() > MAX_NUMBERS {
        replace("its column numbers are used up".into());
    }
    SchemaPlan { replace: first_reason, ..plan }
}

/// The columns that a new table takes over: those of archived fields with their last values, and a person's own, as many
/// as there is room for. Nothing without the columns of the key.
pub(super) fn carried<'e>(
    table: &PublishedTable,
    existing: &'e ExistingTable,
    layout: &Layout,
) -> Vec<&'e ExistingColumn> {
    if table.key.iter().any(|key| existing.column(key).is_none()) {
        return Vec::new();
    }
    let unwanted = existing.columns.iter().filter(|old| {
        !hides_stored(layout, table.name, &old.name) && table.columns.iter().all(|column| column.name != old.name)
    });
    unwanted.take(MAX_NUMBERS.saturating_sub(table.columns.len())).collect()
}

/// The name itself, or with a number behind a sign that no column of the mirror has.
fn free_name(name: &str, existing: &ExistingTable) -> String {
    let is_free = |name: &String| existing.column(name).is_none();
    let numbered = |n: u32| format!("{name}${n}");
    // Terminates: a table has finitely many columns.
    std::iter::once(name.to_string()).chain((2..).map(numbered)).find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Exclusions;

    fn column(name: &str, pg_type: PgType) -> PublishedColumn {
        PublishedColumn {
            name: name.into(),
            pg_type,
            wire: None,
            data_type: pg_type.as_sql().into(),
            comment: None,
            is_key: name == "id",
            is_indexed: false,
        }
    }

    fn table(columns: &[(&str, PgType)]) -> PublishedTable {
        let columns = columns.iter().map(|(name, pg_type)| column(name, *pg_type)).collect();
        PublishedTable { name: "contacts", key: &["id"], columns, indexes: &[], about: "", is_chosen: true }
    }

    fn existing(columns: &[(&str, &str)]) -> ExistingTable {
        let column = |(name, of_type): &(&str, &str)| ExistingColumn {
            name: (*name).into(),
            data_type: (*of_type).into(),
            pg_type: serde_json::from_value((*of_type).into()).ok(),
            is_computed: false,
        };
        let columns: Vec<ExistingColumn> = columns.iter().map(column).collect();
        ExistingTable { is_plain: true, used: columns.len(), columns, key: vec!["id".into()], ..Default::default() }
    }

    /// With the key's column, which every table has.
    fn planned(wanted: &[(&str, PgType)], there: &[(&str, &str)]) -> SchemaPlan {
        plan(&table(wanted), Some(&existing(there)), &Layout::default())
    }

    #[test]
    fn correct_columns_need_no_step() {
        let there = [("id", "text"), ("archived_cf_old", "text"), ("peoples_own", "text")];
        assert_eq!(planned(&[("id", PgType::Text)], &there), SchemaPlan::default());
    }

    #[test]
    fn table_that_no_step_leads_to_is_replaced_and_keeps_what_is_not_published() {
        let wanted = [("id", PgType::Text), ("score", PgType::Bigint), ("cf_fee", PgType::Numeric)];
        let there = [("id", "text"), ("score", "bigint"), ("cf_fee", "numeric"), ("cf_old", "text"), ("own", "int4")];
        let why =
            |there: &ExistingTable| plan(&table(&wanted), Some(there), &Layout::default()).replace.unwrap_or_default();
        let fits = existing(&there);
        assert_eq!(why(&fits), "");
        assert!(why(&ExistingTable { key: Vec::new(), ..fits.clone() }).contains("primary key"));
        let widened = existing(&[("id", "text"), ("score", "numeric"), ("cf_fee", "numeric")]);
        assert_eq!(why(&widened), "the type of score was changed");
        let retyped = existing(&[("id", "text"), ("score", "bigint"), ("cf_fee", "text")]);
        assert_eq!(why(&retyped), "the type of cf_fee was changed");
        let added = existing(&[("id", "text"), ("score", "bigint")]);
        assert_eq!(why(&added), "");
        assert!(why(&ExistingTable { used: 1_600, ..added }).contains("used up"));
        assert_eq!(why(&ExistingTable { used: 1_600, ..fits.clone() }), "");
        assert!(planned_missing().contains("missing"));
        let names = carried(&table(&wanted), &fits, &Layout::default());
        assert_eq!(names.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["cf_old", "own"]);
    }

    fn planned_missing() -> String {
        plan(&table(&[]), None, &Layout::default()).replace.unwrap_or_default()
    }

    #[test]
    fn archived_field_keeps_its_column_under_another_name_and_is_restored() {
        let archived = planned(&[("id", PgType::Text)], &[("id", "text"), ("cf_tier", "text")]);
        let rename = |from: &str, to: &str| [(from.to_string(), to.to_string())];
        assert_eq!(archived.renamed, rename("cf_tier", "archived_cf_tier"));
        let wanted = [("id", PgType::Text), ("cf_tier", PgType::Text)];
        let restored = planned(&wanted, &[("id", "text"), ("archived_cf_tier", "text")]);
        assert_eq!(restored.renamed, rename("archived_cf_tier", "cf_tier"));
        assert!(restored.refills && !archived.refills);
        // With a different type, the old values stay in the archived column.
        let retyped = planned(&wanted, &[("id", "text"), ("archived_cf_tier", "bigint")]);
        assert_eq!((retyped.added, retyped.renamed), (vec![column("cf_tier", PgType::Text)], Vec::new()));
    }

    #[test]
    fn added_column_is_filled_and_an_archived_name_that_is_taken_gets_a_number() {
        let added = planned(&[("id", PgType::Text), ("cf_fee", PgType::Numeric)], &[("id", "text")]);
        assert!(added.refills && added.renamed.is_empty());
        assert_eq!(added.added, [column("cf_fee", PgType::Numeric)]);
        let there = [("id", "text"), ("cf_fee", "text"), ("archived_cf_fee", "numeric")];
        let archived = planned(&[("id", PgType::Text)], &there);
        let renamed = vec![("cf_fee".to_string(), "archived_cf_fee$2".to_string())];
        assert_eq!((archived.renamed, archived.added, archived.replace), (renamed, Vec::new(), None));
    }

    #[test]
    fn excluded_column_replaces_the_table_even_if_it_is_archived() {
        let layout = Layout { exclusions: Exclusions::new(&["cf_pay".into()]).into(), ..Layout::default() };
        let again = free_name("archived_cf_pay", &existing(&[("archived_cf_pay", "text")]));
        for name in ["cf_pay", "cf_pay_num", "archived_cf_pay", again.as_str()] {
            let there = existing(&[("id", "text"), (name, "text")]);
            let wanted = table(&[("id", PgType::Text)]);
            let plan = plan(&wanted, Some(&there), &layout);
            assert_eq!(plan.replace, Some(format!("{name} is not published")));
            assert!(plan.renamed.is_empty() && plan.added.is_empty() && carried(&wanted, &there, &layout).is_empty());
        }
    }
}
