//! Arithmetic on decimal texts with up to 38 digits: sums, averages and products that are exact or refused.
//!
//! Sums use `rust_decimal` as long as its 28 digits suffice, then continue in arbitrary precision.

use std::num::NonZeroU64;
use std::str::FromStr;

use bigdecimal::{BigDecimal, RoundingMode};

use super::decimal::{self, Sum};

/// The maximum number of digits of a result.
pub const DIGITS: u64 = 38;

/// The longest text and the largest exponent accepted as a number: more would use unbounded memory.
const LONGEST: usize = 120;

/// An exact decimal of any size, for intermediate results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WideDecimal(BigDecimal);

impl WideDecimal {
    /// Parses a decimal; `None` if the text is not a decimal or has too many digits.
    pub fn parse(text: &str) -> Option<WideDecimal> {
        decimal::compare(text, "0")?;
        let exponent = match text.split_once(['e', 'E']) {
            Some((_, exponent)) => exponent.parse::<i64>().ok()?.unsigned_abs(),
            None => 0,
        };
        if text.len() > LONGEST || exponent > LONGEST as u64 {
            return None;
        }
        BigDecimal::from_str(text).ok().map(WideDecimal)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &WideDecimal) -> WideDecimal {
        WideDecimal(&self.0 + &other.0)
    }

    /// The product; `None` if it has more than [`DIGITS`].
    pub fn times(&self, other: &WideDecimal) -> Option<WideDecimal> {
        let product = WideDecimal((&self.0 * &other.0).normalized());
        product.text().map(|_| product)
    }

    /// The plain text without trailing zeros; `None` if it has more than [`DIGITS`].
    pub fn text(&self) -> Option<String> {
        let normal = self.0.normalized();
        let (_, scale) = normal.as_bigint_and_scale();
        let zeros = scale.min(0).unsigned_abs();
        (normal.digits() + zeros <= DIGITS).then(|| normal.to_plain_string())
    }
}

/// A running sum.
#[derive(Clone, Debug, Default)]
pub struct WideSum {
    narrow: Sum,
    wide: Option<WideDecimal>,
    count: u64,
}

impl WideSum {
    /// Adds a number; `None` if the text is not a number.
    #[must_use]
    pub fn plus(mut self, text: &str) -> Option<WideSum> {
        let term = WideDecimal::parse(text)?;
        self.count += 1;
        if self.wide.is_none() {
            if let Some(sum) = self.narrow.plus(text) {
                self.narrow = sum;
                return Some(self);
            }
            self.wide = WideDecimal::parse(&self.narrow.to_string());
        }
        self.wide = Some(self.wide.unwrap_or_default().plus(&term));
        Some(self)
    }

    fn total(&self) -> WideDecimal {
        self.wide.clone().or_else(|| WideDecimal::parse(&self.narrow.to_string())).unwrap_or_default()
    }

    /// The sum; `None` if it has more than [`DIGITS`].
    pub fn sum(&self) -> Option<String> {
        self.total().text()
    }

    /// The average, rounded to [`DIGITS`] if necessary; `None` if it is too large or there are no values.
    pub fn average(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let quotient = self.total().0 / BigDecimal::from(self.count);
        let digits = NonZeroU64::new(DIGITS)?;
        WideDecimal(quotient.with_precision_round(digits, RoundingMode::HalfEven)).text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(texts: &[&str]) -> Option<String> {
        texts.iter().try_fold(WideSum::default(), |sum, text| sum.plus(text))?.sum()
    }

    #[test]
    fn sums_are_exact_to_the_last_of_38_digits() {
        let most = "9".repeat(38);
        assert_eq!(sum(&["0.1", "0.2"]).unwrap(), "0.3");
        assert_eq!(sum(&["99999999999999999999.9999999999"; 3]).unwrap(), "299999999999999999999.9999999997");
        assert_eq!(sum(&[&most]).unwrap(), most);
        assert_eq!(sum(&[&most, "1"]), None, "39 digits");
        assert_eq!(sum(&[&most, "1", "-1"]).unwrap(), most, "only the result counts");
        assert_eq!(sum(&["1e37"]).unwrap(), format!("1{}", "0".repeat(37)));
        assert_eq!(sum(&["1e38"]), None);
        assert_eq!(sum(&["1e-38"]).unwrap(), format!("0.{}1", "0".repeat(37)));
        assert_eq!(sum(&["-0.50", "0.5"]).unwrap(), "0");
        assert_eq!(sum(&["0000000000000000000000000000000000000001.10"]).unwrap(), "1.1");
        for junk in ["", "x", "1e999999999", "NaN", "inf", "1_000", "0x1", &"9".repeat(200)] {
            assert_eq!(sum(&[junk]), None, "{junk}");
        }
    }

    #[test]
    fn averages_are_rounded_only_where_they_must_be() {
        let average = |texts: &[&str]| texts.iter().try_fold(WideSum::default(), |sum, text| sum.plus(text))?.average();
        assert_eq!(average(&["1", "2"]).unwrap(), "1.5");
        assert_eq!(average(&["1", "0", "0"]).unwrap(), format!("0.{}", "3".repeat(38)));
        assert_eq!(average(&[]), None);
    }

    #[test]
    fn products_have_at_most_38_digits() {
        let times = |a: &str, b: &str| WideDecimal::parse(a)?.times(&WideDecimal::parse(b)?)?.text();
        assert_eq!(times("99999999999999999999", "0.5").unwrap(), "49999999999999999999.5");
        assert_eq!(
            times("9999999999999999999", "-9999999999999999999").unwrap(),
            "-99999999999999999980000000000000000001"
        );
        assert_eq!(times("99999999999999999999", "99999999999999999999"), None);
        assert_eq!(times("1e19", "1e19"), None, "39 digits");
        assert_eq!(times("123456789012345678901234567890", "0"), Some("0".into()));
    }
}
