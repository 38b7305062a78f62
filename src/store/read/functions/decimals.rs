//! Exact decimal functions, where doubles would round.

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::{FLAGS, wrong};
use crate::model::decimal;
use crate::model::wide_decimal::{DIGITS, WideDecimal, WideSum};

pub(super) fn register(conn: &Connection) -> Result<()> {
    conn.create_aggregate_function("decimal_sum", 1, FLAGS, DecimalSum)?;
    conn.create_aggregate_function("decimal_avg", 1, FLAGS, DecimalAverage)?;
    conn.create_scalar_function("decimal_add", -1, FLAGS, |context| {
        fold("decimal_add", context, |a, b| Some(a.plus(b)))
    })?;
    conn.create_scalar_function("decimal_mul", -1, FLAGS, |context| fold("decimal_mul", context, WideDecimal::times))?;
    conn.create_scalar_function("decimal_cmp", 2, FLAGS, |context| {
        let (Some(a), Some(b)) = (number(context, 0)?, number(context, 1)?) else {
            return Ok(None);
        };
        let order = decimal::compare(&a, &b).ok_or_else(|| wrong(format!("`{a}` or `{b}` is not a decimal number")))?;
        Ok(Some(order as i64))
    })
}

/// Applies an operation to all arguments from left to right.
fn fold(
    name: &str,
    context: &Context<'_>,
    apply: impl Fn(&WideDecimal, &WideDecimal) -> Option<WideDecimal>,
) -> Result<Option<String>> {
    if context.len() < 2 {
        return Err(wrong(format!("{name} takes at least two arguments")));
    }
    let mut result: Option<WideDecimal> = None;
    for place in 0..context.len() {
        let Some(text) = number(context, place)? else { return Ok(None) };
        let term =
            WideDecimal::parse(&text).ok_or_else(|| wrong(format!("{name}: `{text}` is not a decimal number")))?;
        result = Some(match &result {
            None => term,
            Some(known) => apply(known, &term).ok_or_else(|| too_long(name))?,
        });
    }
    result.and_then(|result| result.text()).map(Some).ok_or_else(|| too_long(name))
}

fn too_long(name: &str) -> rusqlite::Error {
    wrong(format!("{name}: the result has more than {DIGITS} digits"))
}

struct DecimalSum;

struct DecimalAverage;

fn step(name: &str, context: &Context<'_>, sum: &mut Option<WideSum>) -> Result<()> {
    let Some(text) = number(context, 0)? else { return Ok(()) };
    let added = sum.take().unwrap_or_default().plus(&text);
    *sum = Some(added.ok_or_else(|| wrong(format!("{name}: `{text}` is not a decimal number")))?);
    Ok(())
}

/// NULLs are ignored; without any value the sum is NULL, as with `sum`.
impl Aggregate<Option<WideSum>, Option<String>> for DecimalSum {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<WideSum>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<WideSum>) -> Result<()> {
        step("decimal_sum", context, sum)
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<WideSum>>) -> Result<Option<String>> {
        let Some(sum) = sum.flatten() else { return Ok(None) };
        sum.sum().map(Some).ok_or_else(|| too_long("decimal_sum"))
    }
}

/// Like the sum; a result with infinitely many digits is rounded to the last digit.
impl Aggregate<Option<WideSum>, Option<String>> for DecimalAverage {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<WideSum>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<WideSum>) -> Result<()> {
        step("decimal_avg", context, sum)
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<WideSum>>) -> Result<Option<String>> {
        let Some(sum) = sum.flatten() else { return Ok(None) };
        sum.average().map(Some).ok_or_else(|| too_long("decimal_avg"))
    }
}

/// An argument as text; a double is refused because it may not be exact.
fn number(context: &Context<'_>, place: usize) -> Result<Option<String>> {
    match context.get_raw(place) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(integer) => Ok(Some(integer.to_string())),
        ValueRef::Text(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(wrong("an exact decimal is a text or an integer; use the column without `_num`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::read::functions::tests::ask;

    #[test]
    fn sums_are_exact_or_an_error() {
        let sum = |values: &str| ask(&format!("decimal_sum(column1) FROM (VALUES {values})"));
        assert_eq!(sum("('0.1'), ('0.2'), (NULL), (5)").unwrap().unwrap(), "5.3");
        assert_eq!(sum("(NULL)").unwrap(), None);
        let most = "99999999999999999999.9999999999";
        assert_eq!(sum(&format!("('{most}'), ('{most}')")).unwrap().unwrap(), "199999999999999999999.9999999998");
        for (values, why) in
            [("('1e38')", "more than 38 digits"), ("('many')", "not a decimal"), ("(0.5)", "without `_num`")]
        {
            let error = sum(values).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(ask("decimal_avg(column1) FROM (VALUES ('1.5'), (2), (NULL))").unwrap().unwrap(), "1.75");
    }

    #[test]
    fn sums_and_products_of_arguments_are_exact() {
        assert_eq!(ask("decimal_add('0.1', '0.2', 1)").unwrap().unwrap(), "1.3");
        assert_eq!(
            ask("decimal_mul('19999999999999999999.99', '1.19')").unwrap().unwrap(),
            "23799999999999999999.9881"
        );
        assert!(ask("decimal_mul('1e20', '1e20')").unwrap_err().to_string().contains("38 digits"));
        assert!(ask("decimal_add('1')").unwrap_err().to_string().contains("two arguments"));
        assert!(ask("decimal_add('1', 0.5)").is_err());
    }

    #[test]
    fn comparing_needs_no_double() {
        let cmp = |a, b| ask(&format!("decimal_cmp({a}, {b})")).unwrap();
        assert_eq!(cmp("'99999999999999999999.9999999999'", "'99999999999999999999.9999999998'").unwrap(), "1");
        assert_eq!(cmp("'1.10'", "'1.1'").unwrap(), "0");
        assert_eq!(cmp("'-2'", "1").unwrap(), "-1");
    }
}
