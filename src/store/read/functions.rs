//! SQL functions for exact decimals, where SQLite's own would round: `decimal_sum(x)` and `decimal_avg(x)`.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use crate::model::decimal::{DecimalSum, is_plain};

/// Adds the functions to a connection. No object of the file's schema may use them.
pub fn register(conn: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_aggregate_function("decimal_sum", 1, flags, DecimalFunction(DecimalSum::sum))?;
    conn.create_aggregate_function("decimal_avg", 1, flags, DecimalFunction(DecimalSum::average))
}

/// An aggregate that ends with a result of the sum. It ignores NULLs; without any value it is NULL, as `sum` is.
struct DecimalFunction(fn(&DecimalSum) -> Option<String>);

impl Aggregate<Option<DecimalSum>, Option<String>> for DecimalFunction {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<DecimalSum>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<DecimalSum>) -> Result<()> {
        let text = match context.get_raw(0) {
            ValueRef::Null => return Ok(()),
            ValueRef::Integer(integer) => integer.to_string(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            // A double may not be exact.
            ValueRef::Real(_) | ValueRef::Blob(_) => {
                return Err(wrong("an exact decimal is a text or an integer; use the column without `_num`"));
            }
        };
        if !is_plain(&text) {
            return Err(wrong(format!("`{text}` is not a decimal number")));
        }
        *sum = Some(sum.unwrap_or_default().plus(&text).ok_or_else(too_long)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<DecimalSum>>) -> Result<Option<String>> {
        sum.flatten().map(|sum| self.0(&sum).ok_or_else(too_long)).transpose()
    }
}

fn too_long() -> Error {
    wrong("the sum has more than 28 digits before or after the point")
}

fn wrong(why: impl Into<String>) -> Error {
    Error::UserFunctionError(why.into().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(function: &str, values: &str) -> Result<Option<String>> {
        let conn = Connection::open_in_memory()?;
        register(&conn)?;
        conn.query_row(&format!("SELECT {function}(column1) FROM (VALUES {values})"), [], |row| row.get(0))
    }

    #[test]
    fn sums_are_exact_or_an_error() {
        assert_eq!(ask("decimal_sum", "('0.1'), ('0.2'), (NULL), (5)").unwrap().unwrap(), "5.3");
        assert_eq!(ask("decimal_avg", "('1.5'), (2), (NULL)").unwrap().unwrap(), "1.75");
        for function in ["decimal_sum", "decimal_avg"] {
            assert_eq!(ask(function, "(NULL)").unwrap(), None);
            for (values, why) in [
                ("('1e38')", "`1e38` is not a decimal"),
                ("('90000000000000000000000000000')", "more than 28 digits"),
                ("('many')", "not a decimal"),
                ("(0.5)", "without `_num`"),
            ] {
                let error = ask(function, values).unwrap_err().to_string();
                assert!(error.contains(why), "{error}");
            }
        }
    }
}
