//! Makes a mirror's tables, one numbered file of `schema/migrations/` at a time.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::{Result, StoreError};

pub(in crate::store) const TABLES: &str = include_str!("../../../schema/migrations/0001_mirror.sql");

/// Append only. A step's index in this list plus one is its `user_version`.
const STEPS: &[&str] = &[TABLES];

/// Marks the file as a mirror (`CRMM`).
pub const APPLICATION_ID: i32 = 0x4352_4D4D;

pub const KNOWN: u32 = STEPS.len() as u32;

/// Applies the missing steps in one transaction: if one fails, or a newer version wrote the file, it stays as it is.
pub fn migrate(conn: &mut Connection) -> Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let steps = STEPS.get(found as usize..).ok_or(StoreError::NewerSchema { found, known: KNOWN })?;
    if steps.is_empty() {
        return Ok(());
    }
    for step in steps {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", KNOWN)?;
    Ok(tx.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::catalogue::{FieldKind, Object, Resource};
    use crate::store::records::shape;
    use std::collections::BTreeMap;

    fn columns(conn: &Connection, table: &str) -> BTreeMap<String, String> {
        let mut stmt = conn.prepare("SELECT name, type FROM pragma_table_info(?1)").unwrap();
        stmt.query_map([table], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn schema_has_exactly_the_columns_of_the_catalogue() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn).unwrap();
        migrate(&mut conn).unwrap();
        let mut tables = vec![];
        for object in Object::ALL {
            tables.push((object.table(), object.list_fields().collect::<Vec<_>>(), vec!["extra", "synced_at"]));
            let own = vec![object.detail_key(), "etag", "extra", "fetched_at"];
            tables.push((object.detail_table(), object.detail_fields().collect(), own));
        }
        let plain = |resource: Resource| resource.fields().iter().collect::<Vec<_>>();
        tables.push(("team_members", plain(Resource::TeamMembers), vec!["extra", "synced_at"]));
        let own = vec!["column_name", "extra", "synced_at"];
        tables.push((shape::DEFINITIONS, plain(Resource::CustomFields), own));
        for (table, fields, own) in tables {
            let mut expected: BTreeMap<String, String> = own.iter().map(|c| (c.to_string(), "TEXT".into())).collect();
            for field in fields {
                let sql_type = match field.kind {
                    FieldKind::Integer | FieldKind::Boolean => "INTEGER",
                    FieldKind::Number => "REAL",
                    _ => "TEXT",
                };
                expected.insert(field.column.into(), sql_type.into());
                if field.kind.has_num() {
                    expected.insert(format!("{}_num", field.column), "REAL".into());
                }
            }
            assert_eq!(columns(&conn, table), expected, "{table}");
        }
    }

    #[test]
    fn newer_file_is_refused_and_not_changed() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", KNOWN + 1).unwrap();
        let refused = migrate(&mut conn).unwrap_err();
        assert!(matches!(refused, StoreError::NewerSchema { found, .. } if found == KNOWN + 1));
        assert!(columns(&conn, "contacts").is_empty());
    }
}
