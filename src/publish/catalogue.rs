//! What the database's catalogue says about the published tables.
//!
//! The queries name every table with its schema and convert every value to text, so that no setting of the session or of
//! the role changes what they return.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use super::database::{Database, Param};
use super::ddl::{ExistingColumn, ExistingTable, LEFT_BEHIND};
use super::error::PublishError;
use super::tables::PgType;

const DOING: &str = "read the catalogue";

const COLUMNS: &str = "SELECT c.relname::text, c.relkind::text, \
         coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), \
         (SELECT max(u.attnum) FROM pg_catalog.pg_attribute AS u WHERE u.attrelid = c.oid)::text, \
         a.attname::text, t.typname::text, t.typcategory::text, t.typtype::text, a.atttypmod::text, \
         pg_catalog.format_type(a.atttypid, a.atttypmod), coalesce(pg_catalog.col_description(c.oid, a.attnum), '') \
     FROM pg_catalog.pg_class AS c \
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
     JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid \
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname, a.attnum";

/// A key that is checked late cannot be used to write rows.
const KEYS: &str = "SELECT c.relname::text, a.attname::text \
     FROM pg_catalog.pg_constraint AS k \
     JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid \
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS u(number, place) \
     JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number \
     WHERE n.nspname = $1 AND k.contype = 'p' AND NOT k.condeferrable ORDER BY c.relname, u.place";

const USERS: &str = "SELECT DISTINCT coalesce(a.attname::text, ''), format('%I.%I', vn.nspname, v.relname) \
     FROM pg_catalog.pg_depend AS d \
     JOIN pg_catalog.pg_class AS c ON c.oid = d.refobjid \
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid \
     JOIN pg_catalog.pg_class AS v ON v.oid = r.ev_class AND v.oid <> c.oid \
     JOIN pg_catalog.pg_namespace AS vn ON vn.oid = v.relnamespace \
     LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND d.refobjsubid > 0 \
     WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass \
       AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
       AND n.nspname = $1 AND c.relname = $2 ORDER BY 1, 2";

impl Database {
    pub(super) async fn tables(&self) -> Result<BTreeMap<String, ExistingTable>, PublishError> {
        let schema: [Param<'_>; 1] = [(&self.schema, Type::TEXT)];
        let mut tables: BTreeMap<String, ExistingTable> = BTreeMap::new();
        for row in self.query(DOING, COLUMNS, &schema).await? {
            let texts: Vec<String> = row.into_iter().flatten().collect();
            let Ok([table, kind, about, used, name, of_type, category, form, modifier, data_type, comment]) =
                <[String; 11]>::try_from(texts)
            else {
                continue;
            };
            let pg_type = PgType::of_catalogue(&of_type, &modifier).filter(|_| form == "b").or_else(|| {
                // Texts of an extension are texts; those that change what they store are not.
                let is_text = category == "S" && !["bpchar", "name", "char"].contains(&of_type.as_str());
                (is_text && form == "b").then_some(PgType::Text)
            });
            let entry = tables.entry(table).or_insert_with(|| ExistingTable {
                is_plain: kind == "r",
                is_left_behind: about.starts_with(LEFT_BEHIND),
                used: used.parse().unwrap_or(0),
                ..ExistingTable::default()
            });
            entry.columns.push(ExistingColumn {
                name,
                data_type,
                pg_type,
                is_left_behind: comment.starts_with(LEFT_BEHIND),
            });
        }
        for row in self.query(DOING, KEYS, &schema).await? {
            let mut texts = row.into_iter().flatten();
            if let (Some(table), Some(column)) = (texts.next(), texts.next())
                && let Some(table) = tables.get_mut(&table)
            {
                table.key.push(column);
            }
        }
        Ok(tables)
    }

    /// The views that use a table: by column, their names.
    pub(super) async fn users(&self, table: &str) -> Result<BTreeMap<String, Vec<String>>, PublishError> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.query(DOING, USERS, &[(&self.schema, Type::TEXT), (&table, Type::TEXT)]).await? {
            let mut texts = row.into_iter().flatten();
            if let (Some(column), Some(view)) = (texts.next(), texts.next()) {
                out.entry(column).or_default().push(view);
            }
        }
        Ok(out)
    }
}
