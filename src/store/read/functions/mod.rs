//! SQL functions that SQLite lacks, for reading the mirror with this program.
//!
//! | function | result |
//! |---|---|
//! | `decimal_sum(x)`, `decimal_avg(x)` | exact sum and average of decimal texts, as aggregates |
//! | `decimal_add(a, b, …)`, `decimal_mul(a, b, …)`, `decimal_cmp(a, b)` | exact sum, product, and -1, 0 or 1 |
//! | `median(x)`, `percentile(x, p)` | median and percentile of numbers, as aggregates; `p` from 0 to 100 |
//! | `regexp(pattern, text)`, `text REGEXP pattern` | whether the pattern occurs in the text |
//! | `unaccent(text)` | the text without accents |
//! | `similarity(a, b)` | from 0 to 1, ignoring case and accents |
//!
//! A double is refused as a decimal because it may not be exact. NULL results in NULL, and aggregates ignore it.

mod decimals;
mod statistics;
mod texts;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};

/// All functions are deterministic, and none may be used in objects of the file's schema.
const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// Adds the functions to a connection.
pub fn register(conn: &Connection) -> Result<()> {
    decimals::register(conn)?;
    statistics::register(conn)?;
    texts::register(conn)
}

/// An error for invalid arguments.
fn wrong(why: impl Into<String>) -> Error {
    Error::UserFunctionError(why.into().into())
}

/// A text argument; `None` for NULL.
fn text<'c>(context: &'c Context<'_>, place: usize) -> Result<Option<&'c str>> {
    context.get_raw(place).as_str_or_null().map_err(|_| wrong(format!("argument {} is not a text", place + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::types::Value;

    /// The value of an expression, as text.
    pub(super) fn ask(sql: &str) -> Result<Option<String>> {
        let conn = Connection::open_in_memory()?;
        register(&conn)?;
        conn.query_row(&format!("SELECT {sql}"), [], |row| {
            Ok(match row.get(0)? {
                Value::Null => None,
                Value::Integer(i) => Some(i.to_string()),
                Value::Real(r) => Some(r.to_string()),
                Value::Text(text) => Some(text),
                Value::Blob(_) => Some("a blob".into()),
            })
        })
    }

    #[test]
    fn null_gives_null() {
        for sql in [
            "decimal_add('1', NULL)",
            "decimal_mul(NULL, '1')",
            "decimal_cmp(NULL, '1')",
            "decimal_sum(NULL)",
            "decimal_avg(NULL)",
            "median(NULL)",
            "percentile(NULL, 50)",
            "regexp('a', NULL)",
            "regexp(NULL, 'a')",
            "unaccent(NULL)",
            "similarity('a', NULL)",
        ] {
            assert_eq!(ask(sql).unwrap(), None, "{sql}");
        }
    }
}
