//! The steps from the existing columns to the wanted ones: repeatable, and decided without a database.
//!
//! The steps follow from the database's catalogue, never from what was done before, so a publisher that is killed
//! between two of them leaves nothing that the next one would not finish.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::tables::{Exclusions, PgType, PublishedColumn, PublishedTable, archived_name};
use crate::store::Requeue;

/// The beginning of the comment on what is kept only because somebody's view uses it.
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
    /// Whether it is kept only for the views that use it.
    pub(super) is_left_behind: bool,
}

/// A table of the database, from `tables.sql`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ExistingTable {
    /// Whether it is a table, and not a view or a partitioned or foreign table.
    pub(super) is_plain: bool,
    pub(super) is_left_behind: bool,
    /// The column numbers in use, those of dropped columns included.
    pub(super) used: usize,
    pub(super) columns: Vec<ExistingColumn>,
    pub(super) key: Vec<String>,
    /// The views that use it, by column; those that use no column of it are under an empty name.
    pub(super) users: BTreeMap<String, BTreeSet<String>>,
}

impl ExistingTable {
    fn column(&self, name: &str) -> Option<&ExistingColumn> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The number of columns that a table of PostgreSQL can have in its life.
const MAX_NUMBERS: usize = 1_600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SchemaStep {
    Add(PublishedColumn),
    /// Rename a column: its field was archived, or restored.
    Rename {
        from: String,
        to: String,
    },
    /// Drop a column whose values are obsolete. If views depend on it, it is renamed to `aside` instead.
    Drop {
        name: String,
        aside: String,
    },
    /// Drop a column that must not be published. If views depend on it, its values are cleared instead.
    Withdraw {
        name: String,
    },
    /// Drop a column that was kept for views, none of which uses it any more.
    Forget {
        name: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaPlan {
    pub(super) steps: Vec<SchemaStep>,
    /// The records to publish again for new columns.
    pub(super) refills: Vec<Requeue>,
    /// Why the table cannot be brought to its columns step by step: it is replaced by a new one.
    pub(super) replace: Option<String>,
}

/// Plans one table. `existing` is `None` if it does not exist; `meanings` are those of the values published so far.
pub(super) fn plan(
    table: &PublishedTable,
    existing: Option<&ExistingTable>,
    exclusions: &Exclusions,
    meanings: &BTreeMap<String, String>,
) -> SchemaPlan {
    let Some(existing) = existing else {
        return SchemaPlan { replace: Some("it was missing".into()), ..SchemaPlan::default() };
    };
    let mut plan = SchemaPlan::default();
    let mut names: Vec<String> = existing.columns.iter().map(|column| column.name.clone()).collect();
    for old in &existing.columns {
        let is_wanted = table.columns.iter().any(|column| column.name == old.name);
        if exclusions.hides_stored(table.name, &old.name) {
            plan.steps.push(SchemaStep::Withdraw { name: old.name.clone() });
        } else if old.is_left_behind {
            let is_unused = !existing.users.contains_key(&old.name);
            plan.steps.extend(is_unused.then(|| SchemaStep::Forget { name: old.name.clone() }));
        } else if !is_wanted && PublishedTable::is_custom(&old.name) {
            plan.set_aside(&old.name, &mut names);
        }
    }
    for column in &table.columns {
        match existing.column(&column.name) {
            Some(old) if old.pg_type == Some(column.pg_type) => {
                let meaning = meanings.get(&key(table, column));
                if meaning.is_some_and(|meaning| *meaning != column.meaning) {
                    plan.refills.push(Requeue::All);
                }
            }
            Some(_) => {
                let aside = free_name(&archived_name(&column.name), &names);
                names.push(aside.clone());
                plan.steps.push(SchemaStep::Drop { name: column.name.clone(), aside });
                plan.add(column);
            }
            None => plan.restore_or_add(column, existing),
        }
    }
    plan.replace = unfit(table, existing, &plan);
    plan
}

fn unfit(table: &PublishedTable, existing: &ExistingTable, plan: &SchemaPlan) -> Option<String> {
    if existing.key != table.key {
        return Some("its primary key was changed".into());
    }
    let changed = table
        .columns
        .iter()
        .filter(|column| !column.is_custom())
        .find(|column| existing.column(&column.name).is_some_and(|old| old.pg_type != Some(column.pg_type)));
    if let Some(column) = changed {
        return Some(format!("the type of {} was changed", column.name));
    }
    let added = plan.steps.iter().filter(|step| matches!(step, SchemaStep::Add(_))).count();
    (existing.used + added > MAX_NUMBERS).then(|| "its column numbers are used up".into())
}

/// The columns that a new table takes over: those of archived fields with their last values, those that views use, and a
/// person's own; each with its name there, as many as there is room for. Nothing without the columns of the key.
pub(super) fn carried<'e>(table: &PublishedTable, existing: &'e ExistingTable) -> Vec<(&'e ExistingColumn, String)> {
    if table.key.iter().any(|key| existing.column(key).is_none()) {
        return Vec::new();
    }
    let mut names: Vec<String> = existing.columns.iter().map(|column| column.name.clone()).collect();
    let unwanted = existing.columns.iter().filter(|old| table.columns.iter().all(|column| column.name != old.name));
    let carried = unwanted.map(|old| {
        let name = match PublishedTable::is_custom(&old.name) {
            true => free_name(&archived_name(&old.name), &names),
            false => old.name.clone(),
        };
        names.push(name.clone());
        (old, name)
    });
    carried.take(MAX_NUMBERS.saturating_sub(table.columns.len())).collect()
}

pub(super) fn key(table: &PublishedTable, column: &PublishedColumn) -> String {
    format!("{}.{}", table.name, column.name)
}

/// The name itself, or with a number behind a sign that no column of the mirror has.
fn free_name(name: &str, taken: &[String]) -> String {
    let is_free = |name: &String| !taken.contains(name);
    let numbered = |n: u32| format!("{}${n}", name.chars().take(61).collect::<String>());
    // Terminates: `taken` is finite.
    std::iter::once(name.to_string()).chain((2..).map(numbered)).find(is_free).unwrap_or_default()
}

impl SchemaPlan {
    /// Renames the column of an archived field, which keeps its last values; views follow the rename.
    fn set_aside(&mut self, name: &str, names: &mut Vec<String>) {
        let to = archived_name(name);
        if names.contains(&to) {
            let aside = free_name(&to, names);
            names.push(aside.clone());
            self.steps.push(SchemaStep::Drop { name: to.clone(), aside });
        }
        names.push(to.clone());
        self.steps.push(SchemaStep::Rename { from: name.into(), to });
    }

    fn add(&mut self, column: &PublishedColumn) {
        self.steps.push(SchemaStep::Add(column.clone()));
        self.refills.push(Requeue::WithValue(column.source.clone()));
    }

    /// If the archived column has the same type, it is renamed back, for the views that use it; its values may be old.
    fn restore_or_add(&mut self, column: &PublishedColumn, existing: &ExistingTable) {
        let archived = archived_name(&column.name);
        let old = existing.column(&archived).filter(|old| !old.is_left_behind);
        if old.is_some_and(|old| old.pg_type == Some(column.pg_type)) {
            self.steps.push(SchemaStep::Rename { from: archived, to: column.name.clone() });
            self.refills.push(Requeue::All);
        } else {
            self.add(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, pg_type: PgType) -> PublishedColumn {
        PublishedColumn {
            source: name.into(),
            name: name.into(),
            pg_type,
            wire: None,
            meaning: pg_type.as_sql().into(),
            comment: None,
            is_key: name == "id",
            is_indexed: false,
        }
    }

    fn table(columns: &[(&str, PgType)]) -> PublishedTable {
        let columns = columns.iter().map(|(name, pg_type)| column(name, *pg_type)).collect();
        PublishedTable { name: "contacts", key: &["id"], columns, indexes: vec![], about: "" }
    }

    fn existing(columns: &[(&str, &str)]) -> ExistingTable {
        let column = |(name, of_type): &(&str, &str)| ExistingColumn {
            name: (*name).into(),
            data_type: (*of_type).into(),
            pg_type: serde_json::from_value((*of_type).into()).ok(),
            is_computed: false,
            is_left_behind: false,
        };
        let columns: Vec<ExistingColumn> = columns.iter().map(column).collect();
        ExistingTable { is_plain: true, used: columns.len(), columns, key: vec!["id".into()], ..Default::default() }
    }

    /// With the key's column, which every table has.
    fn planned(wanted: &[(&str, PgType)], there: &[(&str, &str)]) -> SchemaPlan {
        plan(&table(wanted), Some(&existing(there)), &Exclusions::default(), &BTreeMap::new())
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
        let why = |there: &ExistingTable| {
            plan(&table(&wanted), Some(there), &Exclusions::default(), &BTreeMap::new()).replace.unwrap_or_default()
        };
        let fits = existing(&there);
        assert_eq!(why(&fits), "");
        assert!(why(&ExistingTable { key: Vec::new(), ..fits.clone() }).contains("primary key"));
        let widened = existing(&[("id", "text"), ("score", "numeric"), ("cf_fee", "numeric")]);
        assert_eq!(why(&widened), "the type of score was changed");
        let retyped = existing(&[("id", "text"), ("score", "bigint"), ("cf_fee", "text")]);
        assert_eq!(why(&retyped), "");
        assert!(why(&ExistingTable { used: 1_600, ..retyped }).contains("used up"));
        assert_eq!(why(&ExistingTable { used: 1_600, ..fits.clone() }), "");
        assert!(planned_missing().contains("missing"));
        let names: Vec<String> = carried(&table(&wanted), &fits).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["archived_cf_old", "own"]);
    }

    fn planned_missing() -> String {
        plan(&table(&[]), None, &Exclusions::default(), &BTreeMap::new()).replace.unwrap_or_default()
    }

    #[test]
    fn archived_field_keeps_its_column_under_another_name_and_is_restored() {
        let archived = planned(&[("id", PgType::Text)], &[("id", "text"), ("cf_tier", "text")]);
        let rename = |from: &str, to: &str| SchemaStep::Rename { from: from.into(), to: to.into() };
        assert_eq!(archived.steps, [rename("cf_tier", "archived_cf_tier")]);
        let wanted = [("id", PgType::Text), ("cf_tier", PgType::Text)];
        let restored = planned(&wanted, &[("id", "text"), ("archived_cf_tier", "text")]);
        assert_eq!(restored.steps, [rename("archived_cf_tier", "cf_tier")]);
        assert_eq!(restored.refills, [Requeue::All]);
        // With a different type, the old values stay in the archived column.
        let retyped = planned(&wanted, &[("id", "text"), ("archived_cf_tier", "bigint")]);
        assert_eq!(retyped.steps, [SchemaStep::Add(column("cf_tier", PgType::Text))]);
    }

    #[test]
    fn changed_type_is_a_new_column_and_a_changed_meaning_new_values() {
        let wanted = [("cf_fee", PgType::Numeric)];
        let retyped = planned(&wanted, &[("cf_fee", "text")]);
        let drop = SchemaStep::Drop { name: "cf_fee".into(), aside: "archived_cf_fee".into() };
        assert_eq!(retyped.steps, [drop, SchemaStep::Add(column("cf_fee", PgType::Numeric))]);
        assert_eq!(retyped.refills, [Requeue::WithValue("cf_fee".into())]);
        let meanings = BTreeMap::from([("contacts.cf_fee".to_string(), "another".to_string())]);
        let same = plan(&table(&wanted), Some(&existing(&[("cf_fee", "numeric")])), &Exclusions::default(), &meanings);
        assert_eq!((same.steps, same.refills), (vec![], vec![Requeue::All]));
    }

    #[test]
    fn excluded_column_is_withdrawn_even_if_it_is_archived() {
        let exclusions = Exclusions::new(&["cf_pay".into()], Default::default());
        let again = free_name("archived_cf_pay", &["archived_cf_pay".into()]);
        let there = existing(&[
            ("cf_pay", "numeric"),
            ("cf_pay_num", "double precision"),
            ("archived_cf_pay", "text"),
            (again.as_str(), "text"),
        ]);
        let plan = plan(&table(&[]), Some(&there), &exclusions, &BTreeMap::new());
        let names: Vec<SchemaStep> =
            there.columns.iter().map(|old| SchemaStep::Withdraw { name: old.name.clone() }).collect();
        assert_eq!(plan.steps, names);
    }
}
