//! `median` and `percentile` of numbers.

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::{FLAGS, wrong};

pub(super) fn register(conn: &Connection) -> Result<()> {
    conn.create_aggregate_function("median", 1, FLAGS, Percentile { name: "median", is_median: true })?;
    conn.create_aggregate_function("percentile", 2, FLAGS, Percentile { name: "percentile", is_median: false })
}

/// The percentile of sorted values, interpolated linearly between neighbours.
struct Percentile {
    name: &'static str,
    is_median: bool,
}

/// The values so far, and the requested percentile.
struct Values {
    values: Vec<f64>,
    percent: f64,
}

impl Aggregate<Values, Option<f64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values { values: Vec::new(), percent: 50.0 })
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Values) -> Result<()> {
        if !self.is_median {
            let percent = number(self.name, context.get_raw(1))?.filter(|percent| (0.0..=100.0).contains(percent));
            values.percent =
                percent.ok_or_else(|| wrong("percentile: the second argument is a number from 0 to 100"))?;
        }
        values.values.extend(number(self.name, context.get_raw(0))?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, values: Option<Values>) -> Result<Option<f64>> {
        let Some(Values { mut values, percent }) = values.filter(|values| !values.values.is_empty()) else {
            return Ok(None);
        };
        values.sort_by(f64::total_cmp);
        let place = percent / 100.0 * (values.len() - 1) as f64;
        let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
        Ok(Some(below + (above - below) * place.fract()))
    }
}

fn number(name: &str, value: ValueRef<'_>) -> Result<Option<f64>> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(integer) => Ok(Some(integer as f64)),
        ValueRef::Real(real) => Ok(Some(real)),
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            Err(wrong(format!("{name} needs numbers; for a decimal use its column that ends in `_num`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::read::functions::tests::ask;

    #[test]
    fn percentiles_lie_between_the_values() {
        let of = |what: &str| ask(&format!("{what} FROM (VALUES (4), (1), (NULL), (2.0), (10))")).unwrap().unwrap();
        assert_eq!(of("median(column1)"), "3");
        assert_eq!(of("percentile(column1, 0)"), "1");
        assert_eq!(of("percentile(column1, 100)"), "10");
        assert_eq!(of("percentile(column1, 75)"), "5.5");
        assert_eq!(ask("median(column1) FROM (VALUES (7))").unwrap().unwrap(), "7");
        for sql in ["median('1.5')", "percentile(1, 101)", "percentile(1, NULL)"] {
            assert!(ask(sql).is_err(), "{sql}");
        }
    }
}
