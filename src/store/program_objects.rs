//! The names of the views, tables and indexes that the program makes. What has another name belongs to other people.

use crate::model::Object;

pub(in crate::store) const MIGRATED_VIEWS: [&str; 3] = ["select_labels", "pending_edits", "change_fields"];

pub(in crate::store) const fn history_view(object: Object) -> &'static str {
    object.pick("contact_history", "company_history")
}

/// The view of an object for the right side of a `LEFT JOIN`.
pub(in crate::store) const fn lookup_view(object: Object) -> &'static str {
    object.pick("contacts_lookup", "companies_lookup")
}

/// The tables that other programs may not write, each with the object whose view takes edits of it.
pub(in crate::store) const GUARDED_TABLES: [(&str, Option<Object>); 10] = [
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

/// The tables that other programs may write only through the views that take edits.
pub(in crate::store) const OUTBOX_TABLES: [&str; 3] = ["outbox", "outbox_events", "outbox_values"];

/// The program's tables, except those of the search.
pub(in crate::store) const PROGRAM_TABLES: [&str; 28] = [
    "audits",
    "changed_records",
    "changes",
    "companies",
    "company_details",
    "contact_details",
    "contacts",
    "custom_field_definitions",
    "custom_field_options",
    "custom_multi_values",
    "doubts",
    "filled_records",
    "frontier",
    "goals",
    "mirror_columns",
    "outbox",
    "outbox_delays",
    "outbox_events",
    "outbox_values",
    "reads",
    "removed_records",
    "retyped_values",
    "search_documents",
    "service_oddities",
    "state",
    "sync_runs",
    "team_members",
    "unshown_columns",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::user_objects::objects;
    use rusqlite::Connection;

    #[test]
    fn tables_of_a_new_file_are_listed_and_no_index_is_in_the_way() {
        let mut conn = Connection::open_in_memory().unwrap();
        crate::store::file::migrate::migrate(&mut conn).unwrap();
        for indexes in [
            include_str!("../../schema/indexes_after_first_copy/shared.sql"),
            include_str!("../../schema/indexes_after_first_copy/contacts.sql"),
            include_str!("../../schema/indexes_after_first_copy/companies.sql"),
        ] {
            conn.execute_batch(indexes).unwrap();
        }
        let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'index'";
        let count = || conn.query_row(count, [], |row| row.get::<_, u32>(0)).unwrap();
        let before = count();
        objects::drop_indexes_in_the_way(&conn).unwrap();
        assert_eq!(count(), before);
        assert_eq!(objects::indexes(&conn).unwrap(), []);
        let read = |sql: &str| -> Vec<(String, String)> {
            let mut stmt = conn.prepare(sql).unwrap();
            stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
        };
        let tables = read(
            "SELECT name, type FROM pragma_table_list
             WHERE schema = 'main' AND type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name",
        );
        assert_eq!(tables.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), PROGRAM_TABLES);
    }
}
