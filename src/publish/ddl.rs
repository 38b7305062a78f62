//! The steps from the existing columns to the wanted ones: repeatable, and decided without a database.
//!
//! The steps follow from the database's catalogue, never from what was done before, so a publisher that is killed
//! between two of them leaves nothing that the next one would not finish.

use std::collections::BTreeMap;

use super::exclude::Exclusions;
use super::tables::{PgType, PublishedColumn, PublishedTable, archived_name};

/// An existing column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExistingColumn {
    pub(super) name: String,
    /// The name in `information_schema.columns`.
    pub(super) data_type: String,
}

/// A step towards the wanted columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SchemaStep {
    /// Create the table.
    Create,
    /// Add a column.
    Add(PublishedColumn),
    /// Rename a column: its field was archived, or restored.
    Rename { from: String, to: String },
    /// Drop a column whose values are obsolete. If views depend on it, it is renamed to `aside` instead.
    Drop { name: String, aside: String },
    /// Drop a column that must not be published. If views depend on it, its values are cleared instead.
    Withdraw { name: String },
}

/// The records to publish again for a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refill {
    /// Those with a value in this column of the mirror.
    WithValue(String),
    /// All.
    All,
}

/// The steps of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaPlan {
    pub(super) steps: Vec<SchemaStep>,
    pub(super) refills: Vec<Refill>,
}

/// Plans one table. `existing` is `None` if it does not exist; `meanings` are those of the values published so far.
pub(super) fn plan(
    table: &PublishedTable,
    existing: Option<&[ExistingColumn]>,
    exclusions: &Exclusions,
    meanings: &BTreeMap<String, String>,
) -> SchemaPlan {
    let Some(existing) = existing else {
        return SchemaPlan { steps: vec![SchemaStep::Create], refills: Vec::new() };
    };
    let mut plan = SchemaPlan::default();
    let mut names: Vec<String> = existing.iter().map(|column| column.name.clone()).collect();
    for old in existing {
        let is_wanted = table.columns.iter().any(|column| column.name == old.name);
        if exclusions.hides(table.name, &old.name) {
            plan.steps.push(SchemaStep::Withdraw { name: old.name.clone() });
        } else if !is_wanted && old.name.starts_with("cf_") {
            plan.set_aside(&old.name, &mut names);
        }
    }
    for column in &table.columns {
        match existing.iter().find(|old| old.name == column.name) {
            Some(old) if PgType::of_catalogue(&old.data_type) == Some(column.pg_type) => {
                let meaning = meanings.get(&key(table, column));
                if meaning.is_some_and(|meaning| *meaning != column.meaning) {
                    plan.refills.push(Refill::All);
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
    plan
}

/// The key of a column in the meanings.
pub(super) fn key(table: &PublishedTable, column: &PublishedColumn) -> String {
    format!("{}.{}", table.name, column.name)
}

fn free_name(name: &str, taken: &[String]) -> String {
    let is_free = |name: &String| !taken.contains(name);
    let kept: String = name.chars().take(58).collect();
    // Terminates: `taken` is finite.
    std::iter::once(name.to_string()).chain((2_u32..).map(|n| format!("{kept}_{n}"))).find(is_free).unwrap_or_default()
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
        self.refills.push(Refill::WithValue(column.source.clone()));
    }

    /// If the archived column has the same type, it is renamed back, for the views that use it; its values may be old.
    fn restore_or_add(&mut self, column: &PublishedColumn, existing: &[ExistingColumn]) {
        let archived = archived_name(&column.name);
        let old = existing.iter().find(|old| old.name == archived);
        if old.is_some_and(|old| PgType::of_catalogue(&old.data_type) == Some(column.pg_type)) {
            self.steps.push(SchemaStep::Rename { from: archived, to: column.name.clone() });
            self.refills.push(Refill::All);
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
        PublishedTable { name: "contacts", source: "contacts_full", key: &["id"], columns, indexes: vec![], about: "" }
    }

    fn existing(columns: &[(&str, &str)]) -> Vec<ExistingColumn> {
        columns.iter().map(|(name, t)| ExistingColumn { name: (*name).into(), data_type: (*t).into() }).collect()
    }

    fn planned(wanted: &[(&str, PgType)], there: &[(&str, &str)]) -> SchemaPlan {
        plan(&table(wanted), Some(&existing(there)), &Exclusions::default(), &BTreeMap::new())
    }

    #[test]
    fn correct_columns_need_no_step() {
        let there = [("id", "text"), ("archived_cf_old", "text"), ("peoples_own", "text")];
        assert_eq!(planned(&[("id", PgType::Text)], &there), SchemaPlan::default());
    }

    #[test]
    fn archived_field_keeps_its_column_under_another_name_and_is_restored() {
        let archived = planned(&[("id", PgType::Text)], &[("id", "text"), ("cf_tier", "text")]);
        let rename = |from: &str, to: &str| SchemaStep::Rename { from: from.into(), to: to.into() };
        assert_eq!(archived.steps, [rename("cf_tier", "archived_cf_tier")]);
        let wanted = [("id", PgType::Text), ("cf_tier", PgType::Text)];
        let restored = planned(&wanted, &[("id", "text"), ("archived_cf_tier", "text")]);
        assert_eq!(restored.steps, [rename("archived_cf_tier", "cf_tier")]);
        assert_eq!(restored.refills, [Refill::All]);
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
        assert_eq!(retyped.refills, [Refill::WithValue("cf_fee".into())]);
        let meanings = BTreeMap::from([("contacts.cf_fee".to_string(), "another".to_string())]);
        let same = plan(&table(&wanted), Some(&existing(&[("cf_fee", "numeric")])), &Exclusions::default(), &meanings);
        assert_eq!((same.steps, same.refills), (vec![], vec![Refill::All]));
    }

    #[test]
    fn excluded_column_is_withdrawn_even_if_it_is_archived() {
        let exclusions = Exclusions::new(&["cf_pay".into()], Default::default());
        let there = existing(&[("cf_pay", "numeric"), ("cf_pay_num", "double precision"), ("archived_cf_pay", "text")]);
        let plan = plan(&table(&[]), Some(&there), &exclusions, &BTreeMap::new());
        let names: Vec<SchemaStep> = there.iter().map(|old| SchemaStep::Withdraw { name: old.name.clone() }).collect();
        assert_eq!(plan.steps, names);
    }
}
