//! Triggers that refuse changes to the tables that only crm-mirror writes.
//!
//! The service's next answer would overwrite such a change, or it would never be noticed. The triggers are plain: every
//! SQLite runs them. The program's own connections disable triggers (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); a dump writes
//! its rows before its triggers, and a backup copies pages, so both are unaffected.

use super::queue_statements::EFFECT_OPEN;
use crate::store::error::{Doing, StoreError};
use crate::store::program_objects::GUARDED_TABLES;
use crate::store::tx::EditsTx;

/// What to do instead of writing to the outbox, whose trail says what was done.
const OUTBOX: &str = "contacts_full and companies_full take edits, crm-mirror outbox decides on them";

impl EditsTx<'_> {
    pub(in crate::store) fn make_table_guards(&self) -> Result<(), StoreError> {
        for (table, what, and) in [
            ("outbox", "INSERT", "NEW.fields IS NOT NULL AND "),
            ("outbox", "UPDATE", ""),
            ("outbox_events", "INSERT", ""),
        ] {
            // The triggers of the views write these: they have the values of a statement meanwhile. An edit without
            // columns is left out by another trigger.
            self.make_guard(table, what, &format!(" WHEN {and}NOT EXISTS (SELECT 1 FROM outbox_values)"), OUTBOX)?;
        }
        // The table is empty between two statements, so nothing else can be done to it.
        self.make_guard("outbox_values", "INSERT", &format!(" WHEN NEW.effect <> {EFFECT_OPEN}"), OUTBOX)?;
        for (table, what) in [("outbox", "DELETE"), ("outbox_events", "UPDATE"), ("outbox_events", "DELETE")] {
            self.make_guard(table, what, "", OUTBOX)?;
        }
        for (table, object) in GUARDED_TABLES {
            let instead = match object {
                Some(object) => format!("change {} instead", object.full_view()),
                None => "contacts_full and companies_full take edits".into(),
            };
            for what in ["INSERT", "UPDATE", "DELETE"] {
                self.make_guard(table, what, "", &instead)?;
            }
        }
        Ok(())
    }

    fn make_guard(&self, table: &str, what: &str, when: &str, instead: &str) -> Result<(), StoreError> {
        let sql = format!(
            "CREATE TRIGGER IF NOT EXISTS {table}_refuse_{} BEFORE {what} ON {table}{when} BEGIN
SELECT RAISE(ABORT, '{table} is written by crm-mirror alone: {instead}'); END",
            what.to_lowercase()
        );
        self.tx.conn.execute_batch(&sql).doing("guard the tables")
    }
}
