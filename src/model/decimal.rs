//! Exact decimals: checked and compared without conversion to a double. The text is authoritative.

use std::cmp::Ordering;
use std::str::FromStr;

/// Whether the text is a plain decimal: an optional minus, digits, and at most one point between digits.
pub fn is_plain(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    }
}

/// Whether the text is a plain decimal within the service's bound: 20 integer digits and 10 fractional digits. Zeros count:
/// the reference does not say that the service ignores them.
pub fn is_within_bounds(text: &str) -> bool {
    if !is_plain(text) {
        return false;
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    whole.len() <= 20 && fraction.len() <= 10
}

/// A number's sign, its digits without zeros at either end, and the power of ten of the first digit. Each number has
/// exactly one form, so two texts are the same number if their forms are equal.
#[derive(PartialEq, Eq)]
struct Form<'a> {
    negative: bool,
    digits: std::borrow::Cow<'a, str>,
    exponent: i64,
}

fn form(text: &str) -> Option<Form<'_>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, e)) => (mantissa, e.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    if !is_plain(mantissa) {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: std::borrow::Cow<'_, str> =
        if fraction.is_empty() { whole.into() } else { format!("{whole}{fraction}").into() };
    let leading = all.len() - all.trim_start_matches('0').len();
    let trimmed = all.trim_matches('0');
    if trimmed.is_empty() {
        return Some(Form { negative: false, digits: "".into(), exponent: 0 });
    }
    let exponent = exponent.checked_add(whole.len() as i64)?.checked_sub(leading as i64)?;
    Some(Form { negative, digits: trimmed.to_string().into(), exponent })
}

/// Compares two decimal numbers by value, exponents allowed; `None` if one of them is not a number.
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (form(a)?, form(b)?);
    let sign = |f: &Form<'_>| {
        if f.digits.is_empty() {
            0
        } else if f.negative {
            -1
        } else {
            1
        }
    };
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
}
