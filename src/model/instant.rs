//! Timestamps: parsed once, compared exactly, stored in one canonical form.
//!
//! The service sends ISO 8601 strings (reference, *Resources and their fields*) of unspecified precision. An
//! [`Instant`] keeps nanoseconds, so nothing is lost when it is compared or sent back as a filter; the mirror's columns
//! hold the canonical microsecond form, in which text order is time order.
//!
//! # Why a calendar date and not a count of seconds
//! `9999-12-31T23:59:59Z` is often used for "never". The timestamp type of the calendar library ends a day earlier, so
//! that it can be shown in every time zone; its calendar date with a time of day, taken as UTC, covers the whole range.

use std::str::FromStr;
use std::time::Duration;
use std::{fmt, iter};

use compact_str::{CompactString, ToCompactString};
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A point in time, UTC, to the nanosecond, in the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(DateTime);

const MALFORMED: &str = "is not an ISO 8601 timestamp with a time zone";

impl Instant {
    pub const EPOCH: Instant = Instant(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    pub const MIN: Instant = Instant(DateTime::constant(1, 1, 1, 0, 0, 0, 0));
    pub const MAX: Instant = Instant(DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_999));

    /// The time of the system clock, in microseconds. Only code at the edge calls it; all else takes it as an argument.
    pub fn system_now() -> Instant {
        Instant::from_micros(Timestamp::now().as_microsecond()).unwrap_or(Instant::EPOCH)
    }

    /// `None` outside the years 1 to 9999.
    fn shifted(self, by: SignedDuration) -> Option<Instant> {
        if by.is_zero() {
            return Some(self).filter(|instant| *instant >= Instant::MIN);
        }
        self.0.checked_add(by).ok().map(Instant).filter(|instant| *instant >= Instant::MIN)
    }

    /// Parses a timestamp as the service writes it: `2026-01-02T03:04:05[.fraction][Z|±hh:mm]`. All of its timestamps are
    /// UTC (reference, *Resources and their fields*), so one without a time zone is, too. Says whether the canonical form is
    /// equivalent: not if the text is more precise than microseconds, or names a leap second.
    pub fn read(text: &str) -> Option<(Instant, bool)> {
        let (whole, fraction, zone) = split(text)?;
        let nanos = fraction.bytes().chain(iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'));
        let ahead = match zone {
            "" | "Z" | "z" => SignedDuration::ZERO,
            // Nothing but hours and minutes: the calendar library reads seconds and names of zones, too.
            _ => {
                let zoned = format!("{whole}{zone}");
                let is_offset = zone.len() <= 6 && zone.starts_with(['+', '-']);
                let zoned = Pieces::parse(&zoned).ok().filter(|_| is_offset)?;
                SignedDuration::from(zoned.to_numeric_offset().filter(|ahead| ahead.seconds().abs() < 86_400)?)
            }
        };
        // A leap second becomes the second before it.
        let exact = !whole.ends_with("60") && fraction.bytes().skip(6).all(|digit| digit == b'0');
        Some((Instant(local(whole, nanos)?).shifted(-ahead)?, exact))
    }

    /// The canonical form of a timestamp as the service writes it, and whether that form is equivalent to the text.
    pub fn canonical(text: &str) -> Result<(CompactString, bool), &'static str> {
        // Most timestamps are UTC with at most microseconds: their canonical form is their own text, filled up with zeros.
        if let Some((whole, fraction, "" | "Z" | "z")) = split(text)
            && fraction.len() <= 6
            && !whole.ends_with("60")
            && local(whole, 0).is_some_and(|local| Instant(local) >= Instant::MIN)
        {
            let mut canonical = *b"----------T--------.000000Z";
            canonical[..10].copy_from_slice(&whole.as_bytes()[..10]);
            canonical[11..19].copy_from_slice(&whole.as_bytes()[11..]);
            canonical[20..20 + fraction.len()].copy_from_slice(fraction.as_bytes());
            return Ok((CompactString::from_utf8_lossy(&canonical), true));
        }
        let (instant, is_exact) = Instant::read(text).ok_or(MALFORMED)?;
        Ok((instant.to_compact_string(), is_exact))
    }

    fn since_epoch(self) -> SignedDuration {
        self.0.duration_since(Instant::EPOCH.0)
    }

    /// Microseconds since the epoch, rounded down.
    pub fn as_micros(self) -> i64 {
        self.since_epoch().as_nanos().div_euclid(1000) as i64
    }

    /// The instant that many microseconds after the epoch; `None` outside the years 1 to 9999.
    pub fn from_micros(micros: i64) -> Option<Instant> {
        Instant::EPOCH.shifted(SignedDuration::from_micros(micros))
    }

    pub fn from_secs(secs: i64) -> Option<Instant> {
        Instant::EPOCH.shifted(SignedDuration::from_secs(secs))
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn as_secs(self) -> i64 {
        self.since_epoch().as_nanos().div_euclid(1_000_000_000) as i64
    }

    /// This instant plus `d`, limited to the latest instant.
    pub fn plus(self, d: Duration) -> Instant {
        SignedDuration::try_from(d).ok().and_then(|d| self.shifted(d)).unwrap_or(Instant::MAX)
    }

    /// This instant minus `d`, limited to the earliest instant.
    pub fn minus(self, d: Duration) -> Instant {
        SignedDuration::try_from(d).ok().and_then(|d| self.shifted(-d)).unwrap_or(Instant::MIN)
    }

    /// How long after `earlier` this is; zero if it is before `earlier`.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or(Duration::ZERO)
    }

    pub fn whole_second(self) -> Instant {
        self.floor(1_000_000_000)
    }

    #[must_use]
    pub fn millisecond_before(self) -> Instant {
        self.floor(1_000_000)
    }

    fn floor(self, unit: i32) -> Instant {
        let nanos = self.0.subsec_nanosecond();
        self.0.with().subsec_nanosecond(nanos - nanos % unit).build().map_or(self, Instant)
    }

    /// This instant, rounded up to a whole millisecond; the latest ones are rounded down.
    #[must_use]
    pub fn millisecond_after(self) -> Instant {
        self.plus(Duration::from_nanos(999_999)).millisecond_before()
    }

    /// The text in the service's form: at least milliseconds, and as many digits as the instant needs.
    pub fn to_wire(self) -> String {
        let digits = match self.0.subsec_nanosecond() {
            nanos if nanos % 1_000_000 == 0 => 3,
            nanos if nanos % 1000 == 0 => 6,
            _ => 9,
        };
        format!("{:.digits$}Z", self.0)
    }

    /// Parses an HTTP date in any of the three forms that a recipient must accept (RFC 9110, 5.6.7).
    pub fn from_http_date(text: &str) -> Option<Instant> {
        const FORMS: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
        FORMS.iter().find_map(|form| DateTime::strptime(form, text).ok()).map(Instant)
    }

    pub fn to_http_date(self) -> String {
        self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    pub fn civil(self) -> DateTime {
        self.0
    }

    /// The nearest timestamp of the calendar library, which cannot represent the last day of the year 9999.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(self.since_epoch()).unwrap_or(Timestamp::MAX)
    }
}

/// Splits `YYYY-MM-DDTHH:MM:SS[.fraction][Z|±hh[[:]mm]]` at its dot and its zone; `None` for a text of another shape.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (whole, rest) = text.split_at_checked(19)?;
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_marked = marks.iter().all(|(at, mark)| whole.as_bytes()[*at] == *mark);
    if !is_marked || !matches!(whole.as_bytes()[10], b'T' | b't') {
        return None;
    }
    let Some(rest) = rest.strip_prefix(['.', ',']) else { return Some((whole, "", rest)) };
    let (fraction, zone) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    (!fraction.is_empty()).then_some((whole, fraction, zone))
}

/// The date and time of a whole second; a leap second is the second before it. Every row has several of them: the calendar
/// library's parser, which reads many other forms, takes as long as the row's JSON.
fn local(whole: &str, nanos: i32) -> Option<DateTime> {
    let number = |from: usize, count: usize| {
        let mut digits = whole.as_bytes()[from..from + count].iter();
        digits.try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i16::from(byte - b'0')))
    };
    let part = |from| i8::try_from(number(from, 2)?).ok();
    let second = part(17)?;
    let second = if second == 60 { 59 } else { second };
    DateTime::new(number(0, 4)?, part(5)?, part(8)?, part(11)?, part(14)?, second, nanos).ok()
}

impl fmt::Display for Instant {
    /// The canonical form: microseconds, UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}Z", self.0)
    }
}

impl FromStr for Instant {
    type Err = &'static str;
    /// Parses a timestamp with a time zone: what people write and what is stored has one.
    fn from_str(s: &str) -> Result<Instant, &'static str> {
        split(s).filter(|(.., zone)| !zone.is_empty()).ok_or(MALFORMED)?;
        Instant::read(s).map(|(instant, _)| instant).ok_or(MALFORMED)
    }
}

impl Serialize for Instant {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // As many digits as it has: a stored watermark must not lose precision.
        let digits = if self.0.subsec_nanosecond() % 1000 == 0 { 6 } else { 9 };
        s.collect_str(&format_args!("{:.digits$}Z", self.0))
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Instant, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, bool) {
        let (instant, is_exact) = Instant::read(text).unwrap();
        (instant.to_string(), is_exact)
    }

    fn canonical(text: &str) -> Option<(String, bool)> {
        Instant::canonical(text).ok().map(|(text, exact)| (text.into(), exact))
    }

    #[test]
    fn every_precision_and_zone_becomes_one_canonical_text() {
        for (given, canonical, exact) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z", true),
            ("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100000Z", true),
            ("2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123000Z", true),
            ("2026-01-02T05:04:05.123456+02:00", "2026-01-02T03:04:05.123456Z", true),
            ("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.123456Z", false),
            ("2026-01-02T03:04:05.123456999999999Z", "2026-01-02T03:04:05.123456Z", false),
            ("2026-01-02T03:04:05.1234560000000Z", "2026-01-02T03:04:05.123456Z", true),
            ("1969-12-31T23:59:59.9999995Z", "1969-12-31T23:59:59.999999Z", false),
            ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000000Z", true),
            ("2026-01-02T03:04:05.123", "2026-01-02T03:04:05.123000Z", true),
            ("2026-01-02T03:04:05.1234567", "2026-01-02T03:04:05.123456Z", false),
            ("2026-01-02t03:04:05,5z", "2026-01-02T03:04:05.500000Z", true),
            ("2026-01-02T03:04:05-0130", "2026-01-02T04:34:05.000000Z", true),
            ("2026-01-02T03:04:05+05", "2026-01-01T22:04:05.000000Z", true),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000000Z", false),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z", true),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z", true),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999000Z", true),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", true),
            ("9999-12-31T13:59:59.999999-10:00", "9999-12-31T23:59:59.999999Z", true),
        ] {
            assert_eq!(read(given), (canonical.to_string(), exact), "{given}");
            assert_eq!(self::canonical(given), Some((canonical.to_string(), exact)), "{given}");
        }
    }

    proptest::proptest! {
        #[test]
        fn timestamps_agree_with_the_calendar_library(
            (year, month, day) in (1u32..10_000, 0u32..14, 0u32..33),
            (hour, minute, second) in (0u32..25, 0u32..61, 0u32..61),
            fraction in "([.][0-9]{1,9})?",
            zone in "Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]",
        ) {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}");
            let ours = text.parse::<Instant>().map(|instant| instant.timestamp()).ok();
            proptest::prop_assert_eq!(canonical(&text), ours.as_ref().map(|_| read(&text)));
            let last_days = year == 9999 && month == 12 && day > 29 || year == 1 && month == 1 && day < 3;
            if !last_days {
                proptest::prop_assert_eq!(ours, text.parse::<Timestamp>().ok());
            }
        }

        #[test]
        fn text_order_is_time_order(a in -62_135_596_800_000_000i64..253_402_300_800_000_000, b in -62_135_596_800_000_000i64..253_402_300_800_000_000) {
            let (x, y) = (Instant::from_micros(a).unwrap(), Instant::from_micros(b).unwrap());
            proptest::prop_assert_eq!(x.to_string().cmp(&y.to_string()), a.cmp(&b));
            proptest::prop_assert_eq!((x.as_micros(), x.to_string().parse::<Instant>().unwrap()), (a, x));
            proptest::prop_assert_eq!(x.since(y), Duration::from_micros((a - b).max(0).unsigned_abs()));
        }
    }

    #[test]
    fn instants_cover_the_years_1_to_9999() {
        let day = Duration::from_secs(86_400);
        assert_eq!((Instant::MAX.plus(day), Instant::MIN.minus(day)), (Instant::MAX, Instant::MIN));
        assert_eq!(Instant::MAX.to_wire(), "9999-12-31T23:59:59.999999999Z");
        assert_eq!(Instant::from_micros(253_402_300_800_000_000), None);
        assert!(Instant::MAX.timestamp() < Timestamp::MAX || Instant::MAX.timestamp() == Timestamp::MAX);
        for text in
            ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z"]
        {
            assert!(Instant::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn texts_without_a_real_date_are_refused() {
        for text in [
            "2026-02-30T03:04:05Z",
            "2026-01-02",
            "",
            "soon",
            "2026-01-02T25:00:00Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.",
            "2026-01-02T03:04",
            "2026-01-02T03:04:05+1:00",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05Z[UTC]",
            "2026-01-02T03:04:05Zé",
            "20é6-01-02T03:04:05Z",
        ] {
            assert!(Instant::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn only_answers_may_leave_the_zone_out() {
        for text in ["2026-01-02T03:04:05", "2026-01-02T03:04:05.123"] {
            assert!(text.parse::<Instant>().is_err(), "{text}");
            assert!(format!("{text}Z").parse::<Instant>().is_ok(), "{text}");
        }
    }

    #[test]
    fn instants_are_rounded_to_the_milliseconds_around_them() {
        for (text, before, after) in [
            ("2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123Z"),
            ("2026-01-02T03:04:05.123000001Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.124Z"),
            ("2026-12-31T23:59:59.999999Z", "2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            let at: Instant = text.parse().unwrap();
            assert_eq!(
                (at.millisecond_before().to_wire(), at.millisecond_after().to_wire()),
                (before.into(), after.into())
            );
        }
    }

    #[test]
    fn text_keeps_every_digit() {
        for text in ["2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456789Z"] {
            assert_eq!(text.parse::<Instant>().unwrap().to_wire(), text);
        }
    }

    #[test]
    fn http_dates_round_trip() {
        let i: Instant = "1994-11-06T08:49:37Z".parse().unwrap();
        assert_eq!(i.to_http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Instant::from_http_date(&i.to_http_date()), Some(i));
    }
}
