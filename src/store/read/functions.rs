//! SQL functions for exact decimals, where the mirror is read through this program: doubles would round.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use crate::model::decimal::{self, Sum};

/// Adds `decimal_sum(text)` and `decimal_cmp(a, b)` to a connection.
///
/// # Errors
/// If SQLite refuses.
pub fn register(conn: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_aggregate_function("decimal_sum", 1, flags, DecimalSum)?;
    conn.create_scalar_function("decimal_cmp", 2, flags, |context| {
        let (Some(a), Some(b)) = (text(context, 0)?, text(context, 1)?) else {
            return Ok(None);
        };
        let order = decimal::compare(&a, &b).ok_or_else(|| wrong(format!("`{a}` or `{b}` is no decimal number")))?;
        Ok(Some(order as i64))
    })
}

struct DecimalSum;

/// NULLs are passed over; without any value the sum is NULL, as with `sum`.
impl Aggregate<Option<Sum>, Option<String>> for DecimalSum {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<Sum>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<Sum>) -> Result<()> {
        let Some(text) = text(context, 0)? else { return Ok(()) };
        let added = sum.unwrap_or_default().plus(&text);
        *sum = Some(added.ok_or_else(|| {
            wrong(format!("decimal_sum cannot add `{text}` exactly: it is no number, or needs more than 28 digits"))
        })?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<Sum>>) -> Result<Option<String>> {
        Ok(sum.flatten().map(|sum| sum.to_string()))
    }
}

/// An argument as text; a double is refused, since it is no longer exact.
fn text(context: &Context<'_>, place: usize) -> Result<Option<String>> {
    match context.get_raw(place) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(integer) => Ok(Some(integer.to_string())),
        ValueRef::Text(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(wrong("an exact decimal is a text or an integer; use the column without `_num`".into()))
        }
    }
}

fn wrong(why: String) -> Error {
    Error::UserFunctionError(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(sql: &str) -> Result<Option<String>> {
        let conn = Connection::open_in_memory()?;
        register(&conn)?;
        conn.query_row(sql, [], |row| row.get(0))
    }

    #[test]
    fn sums_are_exact_or_an_error() {
        let sum = |values: &str| ask(&format!("SELECT decimal_sum(column1) FROM (VALUES {values})"));
        assert_eq!(sum("('0.1'), ('0.2'), (NULL), (5)").unwrap().unwrap(), "5.3");
        assert_eq!(sum("(NULL)").unwrap(), None);
        for (values, told) in [
            ("('99999999999999999999.9999999999')", "more than 28 digits"),
            ("('many')", "no number"),
            ("(0.5)", "without `_num`"),
        ] {
            let error = sum(values).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn comparing_needs_no_double() {
        let cmp = |a, b| ask(&format!("SELECT CAST(decimal_cmp({a}, {b}) AS TEXT)")).unwrap();
        assert_eq!(cmp("'99999999999999999999.9999999999'", "'99999999999999999999.9999999998'").unwrap(), "1");
        assert_eq!(cmp("'1.10'", "'1.1'").unwrap(), "0");
        assert_eq!(cmp("'-2'", "1").unwrap(), "-1");
        assert_eq!(cmp("NULL", "1"), None);
    }
}
