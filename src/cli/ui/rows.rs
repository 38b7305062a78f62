//! The rows of a query: as a table, as JSON or as CSV.

use std::io::{self, Write};

use rusqlite::types::ValueRef;
use rusqlite::{Rows, Statement};
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::cli::{Failure, output};

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RowFormat {
    /// Columns side by side; a missing value is NULL.
    #[default]
    Table,
    /// An array of objects, a member per column: `--json`.
    #[value(skip)]
    Json,
    /// A header and a line per row, as in RFC 4180; a missing value is empty, an empty text is quoted.
    Csv,
}

/// Runs a query and writes its rows. JSON and CSV are streamed.
pub fn write(out: &mut impl Write, stmt: &mut Statement<'_>, format: RowFormat) -> Result<(), Failure> {
    let titles = titles(stmt);
    let mut rows = stmt.query([])?;
    match format {
        RowFormat::Table => out.write_all(table(&titles, &mut rows)?.as_bytes())?,
        RowFormat::Json => json(out, &titles, &mut rows)?,
        RowFormat::Csv => csv(out, &titles, &mut rows)?,
    }
    Ok(out.flush()?)
}

/// The column names of a query, made unique: `id`, `id_2`.
fn titles(stmt: &Statement<'_>) -> Vec<String> {
    let mut titles: Vec<String> = Vec::with_capacity(stmt.column_count());
    for name in stmt.column_names() {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let title = std::iter::once(name.to_string()).chain(numbered).find(|title| !titles.contains(title));
        titles.extend(title);
    }
    titles
}

fn table(titles: &[String], rows: &mut Rows<'_>) -> rusqlite::Result<String> {
    let mut cells = Vec::new();
    let mut numbers = vec![None; titles.len()];
    while let Some(row) = rows.next()? {
        let mut line = Vec::with_capacity(titles.len());
        for (place, all_numbers) in numbers.iter_mut().enumerate() {
            let value = row.get_ref(place)?;
            let number = matches!(value, ValueRef::Integer(_) | ValueRef::Real(_));
            if value != ValueRef::Null {
                *all_numbers = Some(number && *all_numbers != Some(false));
            }
            line.push(text(value));
        }
        cells.push(line);
    }
    let right: Vec<usize> = (0..numbers.len()).filter(|place| numbers[*place] == Some(true)).collect();
    Ok(output::table(titles, &right, cells))
}

fn json(out: &mut impl Write, titles: &[String], rows: &mut Rows<'_>) -> Result<(), Failure> {
    let mut first = true;
    while let Some(row) = rows.next()? {
        out.write_all(if first { b"[\n  " } else { b",\n  " })?;
        first = false;
        let mut object = serde_json::Serializer::new(&mut *out);
        let mut object = object.serialize_map(Some(titles.len())).map_err(io::Error::from)?;
        for (place, title) in titles.iter().enumerate() {
            let value = match row.get_ref(place)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(integer) => integer.into(),
                // Numbers that JSON cannot represent become null.
                ValueRef::Real(real) => real.into(),
                other => text(other).into(),
            };
            object.serialize_entry(title, &value).map_err(io::Error::from)?;
        }
        object.end().map_err(io::Error::from)?;
    }
    Ok(out.write_all(if first { b"[]\n" } else { b"\n]\n" })?)
}

fn csv(out: &mut impl Write, titles: &[String], rows: &mut Rows<'_>) -> Result<(), Failure> {
    let header: Vec<String> = titles.iter().map(|title| field(title)).collect();
    out.write_all((header.join(",") + "\r\n").as_bytes())?;
    while let Some(row) = rows.next()? {
        for place in 0..titles.len() {
            if place > 0 {
                out.write_all(b",")?;
            }
            match row.get_ref(place)? {
                ValueRef::Null => {}
                other => out.write_all(field(&text(other)).as_bytes())?,
            }
        }
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

fn field(text: &str) -> String {
    let quoted =
        text.is_empty() || text.contains(['"', ',', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(integer) => integer.to_string(),
        ValueRef::Real(real) => format!("{real:?}"),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    const SQL: &str = "SELECT 1 AS id, 'a \"b\", c' AS name, NULL AS gone, 2 AS id, 0.5 AS part, '' AS empty \
                       UNION ALL SELECT 20, 'x' || char(10) || 'y', NULL, 3, 1.0, 'z'";

    fn written(format: RowFormat) -> String {
        let conn = Connection::open_in_memory().unwrap();
        let mut out = Vec::new();
        write(&mut out, &mut conn.prepare(SQL).unwrap(), format).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_shows_missing_values() {
        assert_eq!(
            written(RowFormat::Table),
            "id  name      gone  id_2  part  empty\n \
              1  a \"b\", c  NULL     2   0.5\n\
             20  x y       NULL     3   1.0  z\n"
        );
    }

    #[test]
    fn csv_is_quoted_and_distinguishes_missing_from_empty() {
        assert_eq!(
            written(RowFormat::Csv),
            "id,name,gone,id_2,part,empty\r\n1,\"a \"\"b\"\", c\",,2,0.5,\"\"\r\n20,\"x\ny\",,3,1.0,z\r\n"
        );
    }

    #[test]
    fn json_keeps_the_order_of_columns() {
        let text = written(RowFormat::Json);
        let first = text.lines().nth(1).unwrap();
        assert_eq!(first, r#"  {"id":1,"name":"a \"b\", c","gone":null,"id_2":2,"part":0.5,"empty":""},"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().len(), 2);
    }
}
