//! The statements, in SQL that PostgreSQL, CockroachDB, YugabyteDB and Citus accept.

use super::tables::{PublishedColumn, PublishedTable, pg_name};

/// The private table with the cursor.
pub(super) const STATE_TABLE: &str = "publish_state";

/// A name in a statement.
pub(super) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in a statement.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A table of a schema.
pub(super) fn qualified(schema: &str, table: &str) -> String {
    format!("{}.{}", ident(schema), ident(table))
}

/// The name of the table that a reload is written to before it replaces the contents of `table`.
pub(super) fn shadow_name(table: &str) -> String {
    format!("{table}__reload")
}

fn names<'a>(columns: impl IntoIterator<Item = &'a PublishedColumn>) -> String {
    columns.into_iter().map(|column| ident(&column.name)).collect::<Vec<_>>().join(", ")
}

fn definition(column: &PublishedColumn) -> String {
    let not_null = if column.is_key { " NOT NULL" } else { "" };
    format!("{} {}{not_null}", ident(&column.name), column.pg_type.as_sql())
}

fn key(table: &PublishedTable) -> String {
    table.key.iter().map(|column| ident(column)).collect::<Vec<_>>().join(", ")
}

/// Makes a table, under its own name or a shadow's.
pub(super) fn create_table(schema: &str, table: &PublishedTable, name: &str) -> String {
    let columns: Vec<String> = table.columns.iter().map(definition).collect();
    let (name, key) = (qualified(schema, name), key(table));
    format!("CREATE TABLE IF NOT EXISTS {name} ({}, PRIMARY KEY ({key}))", columns.join(", "))
}

pub(super) fn create_state(schema: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (id bigint PRIMARY KEY, \"cursor\" text NOT NULL, generation bigint NOT NULL, \
         details text NOT NULL, published_at timestamptz NOT NULL)",
        qualified(schema, STATE_TABLE)
    )
}

pub(super) fn add_column(schema: &str, table: &str, column: &PublishedColumn) -> String {
    format!("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {}", qualified(schema, table), definition(column))
}

pub(super) fn rename_column(schema: &str, table: &str, from: &str, to: &str) -> String {
    format!("ALTER TABLE {} RENAME COLUMN {} TO {}", qualified(schema, table), ident(from), ident(to))
}

pub(super) fn drop_column(schema: &str, table: &str, name: &str) -> String {
    format!("ALTER TABLE {} DROP COLUMN IF EXISTS {}", qualified(schema, table), ident(name))
}

pub(super) fn clear_column(schema: &str, table: &str, name: &str) -> String {
    let (table, name) = (qualified(schema, table), ident(name));
    format!("UPDATE {table} SET {name} = NULL WHERE {name} IS NOT NULL")
}

/// Makes the indexes of a table where they are missing.
pub(super) fn create_indexes(schema: &str, table: &PublishedTable) -> Vec<String> {
    table
        .indexes
        .iter()
        .map(|index| {
            let name = ident(&pg_name(&format!("{}_{}_idx", table.name, index.join("_"))));
            let columns = index.iter().map(|column| ident(column)).collect::<Vec<_>>().join(", ");
            format!("CREATE INDEX IF NOT EXISTS {name} ON {} ({columns})", qualified(schema, table.name))
        })
        .collect()
}

/// What tables and columns mean, in one text of statements.
pub(super) fn comments(schema: &str, table: &PublishedTable) -> String {
    let name = qualified(schema, table.name);
    let mut out = format!("COMMENT ON TABLE {name} IS {};\n", literal(table.about));
    for column in &table.columns {
        let comment = column.comment.as_deref().map_or("NULL".into(), literal);
        out.push_str(&format!("COMMENT ON COLUMN {name}.{} IS {comment};\n", ident(&column.name)));
    }
    out
}

/// Takes rows in the text form of COPY.
pub(super) fn copy_in(schema: &str, table: &PublishedTable, name: &str) -> String {
    format!("COPY {} ({}) FROM STDIN", qualified(schema, name), names(&table.columns))
}

/// Writes rows whose columns come as one array of texts each.
pub(super) fn upsert(schema: &str, table: &PublishedTable) -> String {
    let arrays: Vec<String> = (1..=table.columns.len()).map(|n| format!("${n}::text[]")).collect();
    let places: Vec<String> = (1..=table.columns.len()).map(|n| format!("c{n}")).collect();
    let values: Vec<String> = table
        .columns
        .iter()
        .zip(&places)
        .map(|(column, place)| format!("u.{place}::{}", column.pg_type.as_sql()))
        .collect();
    let source = format!("SELECT {} FROM unnest({}) AS u({})", values.join(", "), arrays.join(", "), places.join(", "));
    insert(schema, table, &source, false)
}

/// Brings a table to the contents of its shadow, touching only the rows that differ.
pub(super) fn merge(schema: &str, table: &PublishedTable, shadow: &str) -> [String; 2] {
    let (name, shadow) = (qualified(schema, table.name), qualified(schema, shadow));
    let same: Vec<String> = table.key.iter().map(|column| format!("n.{0} = t.{0}", ident(column))).collect();
    let delete =
        format!("DELETE FROM {name} AS t WHERE NOT EXISTS (SELECT 1 FROM {shadow} AS n WHERE {})", same.join(" AND "));
    let source = format!("SELECT {} FROM {shadow}", names(&table.columns));
    [delete, insert(schema, table, &source, true)]
}

fn insert(schema: &str, table: &PublishedTable, source: &str, only_changed: bool) -> String {
    let others: Vec<&PublishedColumn> = table.columns.iter().filter(|column| !column.is_key).collect();
    let name = qualified(schema, table.name);
    let conflict = if others.is_empty() {
        "NOTHING".to_string()
    } else {
        let sets: Vec<String> = others.iter().map(|c| format!("{0} = excluded.{0}", ident(&c.name))).collect();
        let differs: Vec<String> =
            others.iter().map(|c| format!("t.{0} IS DISTINCT FROM excluded.{0}", ident(&c.name))).collect();
        let condition = if only_changed { format!(" WHERE {}", differs.join(" OR ")) } else { String::new() };
        format!("UPDATE SET {}{condition}", sets.join(", "))
    };
    format!("INSERT INTO {name} AS t ({}) {source} ON CONFLICT ({}) DO {conflict}", names(&table.columns), key(table))
}

/// Deletes the rows of these records.
pub(super) fn delete_records(schema: &str, table: &str, key: &str, of_object: bool) -> String {
    let object = if of_object { " AND object_type = $2" } else { "" };
    format!("DELETE FROM {} WHERE {} = ANY($1::text[]){object}", qualified(schema, table), ident(key))
}

/// Deletes the rows whose ids are not among these.
pub(super) fn delete_others(schema: &str, table: &str) -> String {
    format!("DELETE FROM {} WHERE NOT (id = ANY($1::text[]))", qualified(schema, table))
}

/// Sets a joined name where it differs: `$1` the ids that the rows point at, `$2` their names.
pub(super) fn set_names(schema: &str, table: &str, pointer: &str, name: &str) -> String {
    let (table, pointer, name) = (qualified(schema, table), ident(pointer), ident(name));
    format!(
        "UPDATE {table} AS t SET {name} = v.name FROM unnest($1::text[], $2::text[]) AS v(id, name) \
         WHERE t.{pointer} = v.id AND t.{name} IS DISTINCT FROM v.name"
    )
}

/// Clears a joined name where nothing of that id is left: `$1` the ids that are.
pub(super) fn clear_names(schema: &str, table: &str, pointer: &str, name: &str) -> String {
    let (table, pointer, name) = (qualified(schema, table), ident(pointer), ident(name));
    format!("UPDATE {table} SET {name} = NULL WHERE {name} IS NOT NULL AND NOT ({pointer} = ANY($1::text[]))")
}

/// Moves the cursor: `$1` cursor, `$2` details, `$3` the generation that this publisher has seen.
pub(super) fn advance(schema: &str) -> String {
    format!(
        "UPDATE {} SET \"cursor\" = $1, details = $2, generation = generation + 1, published_at = now() \
         WHERE id = 1 AND generation = $3",
        qualified(schema, STATE_TABLE)
    )
}

/// The row that the cursor is in, for a schema that has none yet.
pub(super) fn insert_state(schema: &str) -> String {
    format!(
        "INSERT INTO {} (id, \"cursor\", generation, details, published_at) VALUES (1, '', 0, '{{}}', now()) \
         ON CONFLICT (id) DO NOTHING",
        qualified(schema, STATE_TABLE)
    )
}

pub(super) fn select_state(schema: &str) -> String {
    format!("SELECT \"cursor\", generation, details FROM {} WHERE id = 1", qualified(schema, STATE_TABLE))
}
