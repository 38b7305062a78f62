//! Exact decimals: checked, compared and added without conversion to a double. The text is authoritative.

use std::cmp::Ordering;
use std::str::FromStr;

use rust_decimal::Decimal;

/// A plain decimal: whether it is negative, and its digits before and behind the point; `None` if the text is none.
fn parts(text: &str) -> Option<(bool, &str, &str)> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_plain = !whole.is_empty() && !text.ends_with('.');
    let has_digits = whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    (is_plain && has_digits).then_some((unsigned.len() < text.len(), whole, fraction))
}

/// Whether the text is a plain decimal: an optional minus, digits, and at most one point between digits.
pub fn is_plain(text: &str) -> bool {
    parts(text).is_some()
}

/// Whether the text is a plain decimal within the service's bound: 20 integer digits and 10 fractional digits. Zeros count:
/// the reference does not say that the service ignores them.
pub fn is_within_bounds(text: &str) -> bool {
    parts(text).is_some_and(|(_, whole, fraction)| whole.len() <= 20 && fraction.len() <= 10)
}

/// A number's sign, its digits without zeros at either end, and the power of ten of the first digit. Each number has
/// exactly one form, so two texts are the same number if their forms are equal.
#[derive(PartialEq, Eq)]
struct Form {
    negative: bool,
    digits: String,
    exponent: i64,
}

fn form(text: &str) -> Option<Form> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, e)) => (mantissa, e.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (negative, whole, fraction) = parts(mantissa)?;
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let trimmed = all.trim_matches('0');
    if trimmed.is_empty() {
        return Some(Form { negative: false, digits: String::new(), exponent: 0 });
    }
    let exponent = exponent.checked_add(whole.len() as i64)?.checked_sub(leading as i64)?;
    Some(Form { negative, digits: trimmed.into(), exponent })
}

/// Compares two decimal numbers by value, exponents allowed; `None` if one of them is not a number.
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (form(a)?, form(b)?);
    let sign = |f: &Form| i8::from(!f.digits.is_empty()) * if f.negative { -1 } else { 1 };
    let by_sign = sign(&a).cmp(&sign(&b));
    if by_sign != Ordering::Equal || a.digits.is_empty() {
        return Some(by_sign);
    }
    let size = a.exponent.cmp(&b.exponent).then_with(|| a.digits.cmp(&b.digits));
    Some(if a.negative { size.reverse() } else { size })
}

pub fn same_number(a: &str, b: &str) -> bool {
    compare(a, b) == Some(Ordering::Equal)
}

/// The nearest double, for the `_num` companions of decimal columns; `None` for a text that is not a number.
pub fn nearest_double(text: &str) -> Option<f64> {
    form(text)?;
    f64::from_str(text).ok().filter(|value| value.is_finite())
}

/// An exact sum. A DECIMAL has up to 20 integer and 10 fractional digits (reference, *Limits*), `rust_decimal` 28 in
/// all. So integer parts and fractions are added separately: a hundred million of the largest values fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecimalSum {
    whole: Decimal,
    fraction: Decimal,
    count: u64,
}

impl DecimalSum {
    /// Adds a number; `None` if it is no [plain decimal](is_plain), or if digits would be lost.
    #[must_use]
    pub fn plus(self, text: &str) -> Option<DecimalSum> {
        let (negative, whole, fraction) = parts(text)?;
        let sign = if negative { "-" } else { "" };
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        Some(DecimalSum {
            whole: exact_sum(self.whole, &format!("{sign}0{whole}"))?,
            fraction: exact_sum(self.fraction, &format!("{sign}0.{fraction}0"))?,
            count: self.count + 1,
        })
    }

    /// The sum without trailing zeros; `None` if its integer part has more than 28 digits.
    pub fn sum(&self) -> Option<String> {
        let (mut whole, mut fraction) = (self.whole.checked_add(self.fraction.trunc())?, self.fraction.fract());
        // Both parts get the same sign.
        if !whole.is_zero() && !fraction.is_zero() && whole.is_sign_negative() != fraction.is_sign_negative() {
            let one = if whole.is_sign_negative() { Decimal::NEGATIVE_ONE } else { Decimal::ONE };
            (whole, fraction) = (whole.checked_sub(one)?, fraction.checked_add(one)?);
        }
        let is_negative =
            !whole.is_zero() && whole.is_sign_negative() || !fraction.is_zero() && fraction.is_sign_negative();
        let digits = fraction.abs().normalize().to_string();
        let digits = digits.strip_prefix('0').unwrap_or_default();
        Some(format!("{}{}{digits}", if is_negative { "-" } else { "" }, whole.abs().trunc()))
    }

    /// The average, rounded to the last of 28 digits if it has more; `None` without values.
    pub fn average(&self) -> Option<String> {
        let count = Decimal::from(self.count);
        let rest = self.whole.checked_rem(count)?;
        let whole = self.whole.checked_sub(rest)?.checked_div(count)?;
        let fraction = rest.checked_add(self.fraction)?.checked_div(count)?;
        DecimalSum { whole, fraction, count: 1 }.sum()
    }
}

fn exact_sum(sum: Decimal, text: &str) -> Option<Decimal> {
    let term = Decimal::from_str_exact(text).ok()?;
    // `checked_add` rounds low digits away if the sum does not fit; the smaller scale shows that.
    let added = sum.checked_add(term)?;
    (added.scale() >= sum.scale().max(term.scale())).then_some(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value_not_by_text() {
        for (a, b, order) in [
            ("1.10", "1.1", Ordering::Equal),
            ("-0", "0.000", Ordering::Equal),
            ("1e3", "1000", Ordering::Equal),
            ("0.001", "1E-3", Ordering::Equal),
            ("007.50", "7.5", Ordering::Equal),
            ("9", "10", Ordering::Less),
            ("-9", "-10", Ordering::Greater),
            ("99999999999999999999.9999999998", "99999999999999999999.9999999999", Ordering::Less),
            ("-1", "1", Ordering::Less),
            ("0.5", "0.45", Ordering::Greater),
        ] {
            assert_eq!(compare(a, b), Some(order), "{a} {b}");
        }
        assert_eq!(compare("1", "x"), None);
    }

    #[test]
    fn bounds_are_those_of_the_reference() {
        for (text, within) in [
            ("-99999999999999999999.9999999999", true),
            ("100000000000000000000", false),
            ("0.00000000001", false),
            ("0.10000000000", false),
            ("1.", false),
            (".5", false),
            ("1e3", false),
            ("+1", false),
            ("", false),
        ] {
            assert_eq!(is_within_bounds(text), within, "{text}");
        }
    }

    const MOST: &str = "99999999999999999999.9999999999";

    fn of(texts: &[&str]) -> Option<DecimalSum> {
        texts.iter().try_fold(DecimalSum::default(), |sum, text| sum.plus(text))
    }

    #[test]
    fn sums_are_exact_or_refused() {
        for (texts, sum) in [
            (&["0.1", "0.2"][..], "0.3"),
            (&[MOST; 3], "299999999999999999999.9999999997"),
            (&["-99999999999999999999.9999999999", MOST], "0"),
            (&["-0.50", "0.5"], "0"),
            (&["-0.5", "0.25"], "-0.25"),
            (&["-1", "0.25"], "-0.75"),
            (&["3", "-0.0000000001"], "2.9999999999"),
            (&["-3.75", "-0.25"], "-4"),
            (&["0000000000000000000000000000000000000001.10"], "1.1"),
            (&["100", "-99.9"], "0.1"),
            (&[], "0"),
        ] {
            assert_eq!(of(texts).unwrap().sum().as_deref(), Some(sum), "{texts:?}");
        }
        for text in ["", "x", "1e3", "NaN", "inf", "1_000", "0x1", "+1", ".5", &"9".repeat(40), &format!("0.{MOST}")] {
            assert!(of(&[text]).is_none(), "{text}");
        }
        let most = "7".to_string() + &"0".repeat(28);
        assert!(of(&[&most, &most]).is_none());
    }

    #[test]
    fn averages_are_rounded_only_where_they_must_be() {
        let average = |texts: &[&str]| of(texts)?.average();
        assert_eq!(average(&["1", "2"]).unwrap(), "1.5");
        assert_eq!(average(&["1", "0", "0"]).unwrap(), format!("0.{}", "3".repeat(28)));
        assert_eq!(average(&["-1", "-1.5"]).unwrap(), "-1.25");
        assert_eq!(average(&[MOST, MOST, MOST]).unwrap(), MOST);
        assert_eq!(average(&[MOST, "-0.0000000001"]).unwrap(), "49999999999999999999.9999999999");
        assert_eq!(average(&[]), None);
    }
}
