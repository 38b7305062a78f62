//! Exact sums and averages of decimal texts.
//!
//! A DECIMAL has up to 20 integer and 10 fractional digits (reference, *Limits*), more than the 28 of `rust_decimal`.
//! The integer parts and the fractions are therefore added separately: a hundred million of the largest values fit.

use rust_decimal::Decimal;

use super::decimal::is_plain;

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
        let (sign, unsigned) = match text.strip_prefix('-') {
            _ if !is_plain(text) => return None,
            Some(unsigned) => ("-", unsigned),
            None => ("", text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
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
