//! The names of the views, tables and indexes that the program makes. What has another name belongs to other people.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::model::Object;
use crate::store::{Result, Statements, migrate};

pub(in crate::store) const fn history_view(object: Object) -> &'static str {
    object.pick("contact_history", "company_history")
}

/// The tables that other programs may not write.
pub(in crate::store) const GUARDED_TABLES: &str = "contacts contact_details companies company_details team_members \
    custom_field_definitions custom_field_options custom_multi_values removed_records changes";

/// What the text of each of the program's own triggers has.
pub(in crate::store) const OWN_TRIGGER: &str = "BEGIN -- of crm-mirror";

/// What the statements of the schema make, such as `TABLE contacts`.
static MADE: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let files = [migrate::TABLES, SHARED, standard(Object::Contact), standard(Object::Company)];
    let made = files.iter().flat_map(|sql| sql.split("CREATE ").skip(1)).filter_map(|statement| {
        let (kind, rest) = statement.trim_start_matches("UNIQUE ").split_once(' ')?;
        Some(format!("{kind} {}", rest.trim_start_matches("IF NOT EXISTS ").split_whitespace().next()?))
    });
    made.collect()
});

/// Whether a table is one of the program's, except those of the search.
pub(in crate::store) fn is_program_table(name: &str) -> bool {
    MADE.contains(&format!("TABLE {name}"))
}

pub(in crate::store) fn is_program_view(name: &str) -> bool {
    let of_object = |object: Object| [object.full_view(), history_view(object)].contains(&name);
    Object::ALL.into_iter().any(of_object) || MADE.contains(&format!("VIEW {name}"))
}

/// The indexes that do not depend on the fields.
pub(in crate::store) const SHARED: &str = include_str!("../../schema/indexes_after_first_copy/shared.sql");

pub(in crate::store) const fn standard(object: Object) -> &'static str {
    object.pick(
        include_str!("../../schema/indexes_after_first_copy/contacts.sql"),
        include_str!("../../schema/indexes_after_first_copy/companies.sql"),
    )
}

pub(in crate::store) fn is_program_index(table: &str, name: &str) -> bool {
    let is_of_column = |of: &str| name.strip_prefix(of).is_some_and(|rest| rest.starts_with(&format!("{table}_")));
    ["ix_", "ix_full_"].into_iter().any(is_of_column) || MADE.contains(&format!("INDEX {name}"))
}

/// Makes the views and indexes of the schema that are not there.
pub(in crate::store) fn make_missing(conn: &Connection) -> Result<()> {
    for statement in migrate::TABLES.split_inclusive(";\n") {
        for kind in ["VIEW", "INDEX"] {
            if let Some((_, rest)) = statement.split_once(&format!("CREATE {kind} ")) {
                conn.batch(&format!("CREATE {kind} IF NOT EXISTS {rest}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::user_objects::objects;

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
        assert_eq!(objects::of_users(&conn, "type = 'index'").unwrap(), []);
        let read = |sql: &str| -> Vec<String> {
            let mut stmt = conn.prepare(sql).unwrap();
            stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let tables = read(
            "SELECT name FROM pragma_table_list
             WHERE schema = 'main' AND type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name",
        );
        assert!(tables.len() > 20 && tables.iter().all(|name| is_program_table(name)), "{tables:?}");
        let views = read("SELECT name FROM sqlite_schema WHERE type = 'view'");
        assert!(views.len() == 3 && views.iter().all(|name| is_program_view(name)), "{views:?}");
        let own = || objects::count_own(&conn).unwrap();
        let made = own();
        conn.execute_batch("DROP VIEW pending_edits; DROP INDEX outbox_events_of; DROP INDEX contacts_by_email")
            .unwrap();
        assert_eq!(own(), made - 3);
        make_missing(&conn).unwrap();
        assert_eq!(own(), made - 1, "those of the schema");
        for other in ["mine", "contact", "contacts (id", "contact_search", ""] {
            assert!(!is_program_table(other) && !is_program_view(other), "{other}");
        }
    }
}
