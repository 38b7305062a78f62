//! The statements.

use super::ddl::ExistingColumn;
use super::tables::{PgType, PublishedColumn, PublishedTable};

/// When the mirror was last written and when a detail was last read: not a part of the record.
pub(super) const STAMPS: [&str; 2] = ["synced_at", "fetched_at"];

/// The private table with the cursor.
pub(super) const STATE_TABLE: &str = "publish_state";

pub(super) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text, for any value of `standard_conforming_strings`.
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

pub(super) fn qualified(schema: &str, table: &str) -> String {
    format!("{}.{}", ident(schema), ident(table))
}

/// A table without those of people that inherit it: their rows are not ours.
pub(super) fn only(schema: &str, table: &str) -> String {
    format!("ONLY {}", qualified(schema, table))
}

/// The name of the table that a reload is written to before it replaces `table`.
pub(super) fn shadow_name(table: &str) -> String {
    format!("{table}__reload")
}

/// The name of a table while another takes its place.
pub(super) fn old_name(table: &str) -> String {
    format!("{table}__replaced")
}

fn joined(parts: impl IntoIterator<Item = String>, separator: &str) -> String {
    parts.into_iter().collect::<Vec<_>>().join(separator)
}

fn names(columns: &[PublishedColumn]) -> String {
    joined(columns.iter().map(|column| ident(&column.name)), ", ")
}

/// The parameters `$1, …`, each an array of texts.
fn arrays(count: usize) -> String {
    joined((1..=count).map(|n| format!("${n}::text[]")), ", ")
}

fn definition(column: &PublishedColumn) -> String {
    let not_null = if column.is_key { " NOT NULL" } else { "" };
    format!("{} {}{not_null}", ident(&column.name), column.pg_type.as_sql())
}

fn key(table: &PublishedTable) -> String {
    joined(table.key.iter().map(|column| ident(column)), ", ")
}

/// Creates the table that replaces another; it gets its indexes once it has done so.
pub(super) fn create_shadow(schema: &str, table: &PublishedTable) -> String {
    let name = shadow_name(table.name);
    let (name, columns) = (qualified(schema, &name), joined(table.columns.iter().map(definition), ", "));
    format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns}, PRIMARY KEY ({}))", key(table))
}

pub(super) const CREATE_STATE: &str = "CREATE TABLE IF NOT EXISTS {state} (id bigint PRIMARY KEY, \
    \"cursor\" text NOT NULL, generation bigint NOT NULL, details text NOT NULL, published_at timestamptz NOT NULL)";

pub(super) const SELECT_STATE: &str = "SELECT \"cursor\", generation::text, details FROM {state} WHERE id = 1";

/// Moves the cursor: `$1` cursor, `$2` details, `$3` the generation that this publisher has seen.
pub(super) const ADVANCE: &str = "INSERT INTO {state} AS s (id, \"cursor\", generation, details, published_at) \
    VALUES (1, $1, $3 + 1, $2, now()) ON CONFLICT (id) DO UPDATE SET \"cursor\" = $1, details = $2, \
    generation = $3 + 1, published_at = now() WHERE s.generation = $3";

pub(super) fn private(schema: &str, statement: &str) -> String {
    statement.replace("{state}", &qualified(schema, STATE_TABLE))
}

pub(super) fn rename_and_add(
    schema: &str,
    table: &str,
    renamed: &[(String, String)],
    added: &[PublishedColumn],
) -> String {
    let rename = renamed.iter().map(|(from, to)| format!("RENAME COLUMN {} TO {}", ident(from), ident(to)));
    let add = added.iter().map(|column| format!("ADD COLUMN IF NOT EXISTS {}", definition(column)));
    joined(rename.chain(add).map(|step| format!("ALTER TABLE {} {step}", qualified(schema, table))), "; ")
}

/// An index as PostgreSQL describes it, but for its name, which is PostgreSQL's choice, and for quotation marks.
pub(super) fn index_form(index: &[&str]) -> String {
    format!("btree ({})", index.join(", "))
}

/// Makes the comments of a table, and the indexes that are not `there`, unless a column of them is excluded.
pub(super) fn appearance(schema: &str, table: &PublishedTable, there: &[String]) -> String {
    let name = qualified(schema, table.name);
    let mut out = format!("COMMENT ON TABLE {name} IS {};\n", literal(table.about));
    for column in &table.columns {
        let comment = column.comment.as_deref().map_or("NULL".into(), literal);
        out.push_str(&format!("COMMENT ON COLUMN {name}.{} IS {comment};\n", ident(&column.name)));
    }
    let has_columns = |index: &[&str]| index.iter().all(|column| table.place(column).is_some());
    let missing = table.indexes.iter().filter(|index| has_columns(index) && !there.contains(&index_form(index)));
    let indexes = missing.map(|index| {
        let columns = joined(index.iter().map(|column| ident(column)), ", ");
        format!("CREATE INDEX ON {name} ({columns})")
    });
    out + &joined(indexes, ";")
}

/// Adds columns that a new table carries over from the old one, and copies their values by key.
pub(super) fn carry(schema: &str, table: &PublishedTable, carried: &[&ExistingColumn]) -> String {
    let (new, old) = (qualified(schema, &shadow_name(table.name)), only(schema, table.name));
    let mut out = String::new();
    for column in carried {
        out.push_str(&format!("ALTER TABLE {new} ADD COLUMN {} {};\n", ident(&column.name), column.data_type));
    }
    let sets = joined(carried.iter().map(|column| format!("{0} = o.{0}", ident(&column.name))), ", ");
    let filled = joined(carried.iter().map(|column| format!("o.{} IS NOT NULL", ident(&column.name))), " OR ");
    let same = joined(table.key.iter().map(|key| format!("n.{0}::text = o.{0}::text", ident(key))), " AND ");
    out + &format!("UPDATE {new} AS n SET {sets} FROM {old} AS o WHERE {same} AND ({filled});\n")
}

pub(super) fn copy_in(schema: &str, table: &PublishedTable, name: &str) -> String {
    format!("COPY {} ({}) FROM STDIN", qualified(schema, name), names(&table.columns))
}

/// Writes rows that differ in more than when they were read, whose columns are passed as one array of texts each.
pub(super) fn upsert(schema: &str, table: &PublishedTable, name: &str) -> String {
    let count = table.columns.len();
    let values = table.columns.iter().enumerate().map(|(n, column)| format!("u.c{n}::{}", column.pg_type.as_sql()));
    let (values, places) = (joined(values, ", "), joined((0..count).map(|n| format!("c{n}")), ", "));
    let others = table.columns.iter().filter(|column| !column.is_key);
    let sets = joined(others.map(|column| format!("{0} = excluded.{0}", ident(&column.name))), ", ");
    let conflict = if sets.is_empty() { "NOTHING".into() } else { format!("UPDATE SET {sets}") };
    let name = qualified(schema, name);
    let compared = table.columns.iter().enumerate().filter(|(_, column)| !STAMPS.contains(&column.name.as_str()));
    let differ = compared.map(|(n, column)| differs(column, &format!("u.c{n}")));
    format!(
        "INSERT INTO {name} ({}) SELECT {values} FROM unnest({}) AS u({places}) \
         WHERE NOT EXISTS (SELECT FROM ONLY {name} AS t WHERE {} AND NOT ({})) ON CONFLICT ({}) DO {conflict}",
        names(&table.columns),
        arrays(count),
        has_key(table, table.key),
        joined(differ, " OR "),
        key(table)
    )
}

/// Whether a row `t` of a table has the key of a row `u` of texts, or its values in other columns.
fn has_key(table: &PublishedTable, key: &[&str]) -> String {
    let places = key.iter().filter_map(|column| Some((column, table.place(column)?)));
    let same = |(column, place): (&&str, usize)| {
        format!("t.{} = u.c{place}::{}", ident(column), table.columns[place].pg_type.as_sql())
    };
    joined(places.map(same), " AND ")
}

/// Deletes the rows with these keys, of which each column is passed as one array of texts.
pub(super) fn delete_keys(schema: &str, table: &PublishedTable, key: &[&str]) -> String {
    let places = key.iter().filter_map(|column| table.place(column)).map(|place| format!("c{place}"));
    let (name, places, arrays) = (only(schema, table.name), joined(places, ", "), arrays(key.len()));
    let same = has_key(table, key);
    format!("DELETE FROM {name} AS t WHERE EXISTS (SELECT FROM unnest({arrays}) AS u({places}) WHERE {same})")
}

/// Compares rows, which are passed as one array of texts for each column, with those of the table. Returns the place of
/// every row that differs, and the places of its columns that do; NULL if the table does not have the row. Values of
/// the database's types are compared by their text (`1.10` is not `1.1`), whatever the collation is.
pub(super) fn compare(schema: &str, table: &PublishedTable, columns: &[usize]) -> String {
    let differs = |n: &usize| differs(&table.columns[*n], &format!("u.c{n}"));
    let first = ident(table.key[0]);
    format!(
        "SELECT (u.place - 1)::text, CASE WHEN t.{first} IS NOT NULL THEN array_to_string(ARRAY[{}]::text[], ',') END \
         FROM unnest({}) WITH ORDINALITY AS u({}, place) LEFT JOIN {} AS t ON {} \
         WHERE t.{first} IS NULL OR {} ORDER BY u.place",
        joined(columns.iter().map(|n| format!("CASE WHEN {} THEN '{n}' END", differs(n))), ", "),
        arrays(columns.len()),
        joined(columns.iter().map(|n| format!("c{n}")), ", "),
        only(schema, table.name),
        has_key(table, table.key),
        joined(columns.iter().map(differs), " OR ")
    )
}

fn differs(column: &PublishedColumn, text: &str) -> String {
    let (stored, of_type) = (format!("t.{}", ident(&column.name)), column.pg_type.as_sql());
    match column.pg_type {
        PgType::Text => format!("{stored}::text COLLATE \"C\" IS DISTINCT FROM {text} COLLATE \"C\""),
        PgType::Numeric | PgType::Jsonb => {
            format!("{stored}::text COLLATE \"C\" IS DISTINCT FROM {text}::{of_type}::text COLLATE \"C\"")
        }
        // The text of a double depends on a setting; its bytes do not.
        PgType::DoublePrecision => format!("float8send({stored}) IS DISTINCT FROM float8send({text}::{of_type})"),
        PgType::Bigint | PgType::Boolean | PgType::Timestamptz | PgType::Date => {
            format!("{stored} IS DISTINCT FROM {text}::{of_type}")
        }
    }
}

/// Reads up to `most` keys of a table in their order; with `after`, those after `$1, …`.
pub(super) fn page_of_keys(schema: &str, table: &PublishedTable, after: bool, most: usize) -> String {
    let columns = joined(table.key.iter().map(|column| format!("{}::text", ident(column))), ", ");
    let (name, key) = (only(schema, table.name), key(table));
    let types = table.key.iter().filter_map(|column| Some(table.columns[table.place(column)?].pg_type.as_sql()));
    let values = types.enumerate().map(|(n, of_type)| format!("${}::text::{of_type}", n + 1));
    let condition = if after { format!("({key}) > ({})", joined(values, ", ")) } else { "true".into() };
    format!("SELECT {columns} FROM {name} WHERE {condition} ORDER BY {key} LIMIT {most}")
}

/// Sets the names of companies where they differ: `$1` their ids, `$2` their names.
pub(super) fn set_company_names(schema: &str, table: &str) -> String {
    format!(
        "UPDATE {} AS t SET company_name = v.name FROM unnest($1::text[], $2::text[]) AS v(id, name) \
         WHERE t.company_id = v.id AND t.company_name IS DISTINCT FROM v.name",
        only(schema, table)
    )
}
