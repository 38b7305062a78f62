//! Triggers that refuse changes of the tables that crm-mirror alone writes.
//!
//! A change of them would be overwritten by the service's next answer, or never be found. The triggers are plain: any
//! SQLite runs them. The program's own connections turn triggers off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); a dump writes its
//! rows before its triggers, and a backup copies pages, so both work unhindered.

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::tx::MirrorTx;

/// The tables, each with the view that takes edits of what it holds.
const GUARDED: [(&str, Option<Object>); 10] = [
    ("contacts", Some(Object::Contact)),
    ("contact_details", Some(Object::Contact)),
    ("companies", Some(Object::Company)),
    ("company_details", Some(Object::Company)),
    ("team_members", None),
    ("custom_field_definitions", None),
    ("custom_field_options", None),
    ("custom_multi_values", None),
    ("removed_records", None),
    ("changes", None),
];

impl MirrorTx<'_> {
    /// Makes the triggers, where they are not there yet.
    pub(in crate::store) fn make_table_guards(&self) -> Result<(), StoreError> {
        for (table, object) in GUARDED {
            let instead = match object {
                Some(object) => format!("change {} instead", object.full_view()),
                None => "contacts_full and companies_full take edits".into(),
            };
            for what in ["INSERT", "UPDATE", "DELETE"] {
                let sql = format!(
                    "CREATE TRIGGER IF NOT EXISTS {table}_refuse_{} BEFORE {what} ON {table} BEGIN
SELECT RAISE(ABORT, '{table} is written by crm-mirror alone: {instead}'); END",
                    what.to_lowercase()
                );
                self.conn.execute_batch(&sql).doing("guard the tables")?;
            }
        }
        Ok(())
    }
}
