//! Timestamps: parsed once, compared exactly, stored in one canonical form.
//!
//! The service sends ISO 8601 strings (reference, *Resources and their fields*) and does not say how fine they are.
//! An [`Instant`] keeps nanoseconds, so nothing is lost when it is compared or sent back as a filter; the mirror's
//! columns hold the canonical microsecond form, in which text order is time order.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A point in time, UTC, to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Timestamp);

/// A text that is not an ISO 8601 timestamp with a time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an ISO 8601 timestamp with a time zone")]
pub struct NotAnInstant(pub String);

/// What reading a timestamp gave: the instant, and whether its canonical form says everything the text said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadInstant {
    /// The instant, cut to nanoseconds.
    pub instant: Instant,
    /// False where the text is finer than the canonical microseconds, or names a leap second.
    pub exact: bool,
}

impl Instant {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Instant = Instant(Timestamp::UNIX_EPOCH);

    /// The system clock's time. Only the edge asks for it; everything else takes time as an argument.
    pub fn system_now() -> Instant {
        Instant(Timestamp::now())
    }

    /// Reads a timestamp as the service writes it: `2026-01-02T03:04:05[.fraction](Z|±hh:mm)`.
    ///
    /// # Errors
    /// [`NotAnInstant`] for anything else, a text without a time zone included.
    pub fn read(text: &str) -> Result<ReadInstant, NotAnInstant> {
        if let Some(plain) = Plain::read(text) {
            return Ok(ReadInstant { instant: plain.instant, exact: true });
        }
        let wrong = || NotAnInstant(text.chars().take(64).collect());
        let bytes = text.as_bytes();
        // The shape is checked here because the parser below is more lenient than the service's document.
        let shaped = bytes.len() >= 20
            && bytes[4] == b'-'
            && bytes[7] == b'-'
            && (bytes[10] == b'T' || bytes[10] == b't')
            && bytes[13] == b':'
            && bytes[16] == b':'
            && !text.contains('[');
        if !shaped {
            return Err(wrong());
        }
        let fraction = text[19..].strip_prefix('.').map_or("", |rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            &rest[..end]
        });
        let parsed: Result<Timestamp, _> = if fraction.len() > 9 {
            format!("{}{}", &text[..20 + 9], &text[20 + fraction.len()..]).parse()
        } else {
            text.parse()
        };
        let leap = &text[17..19] == "60";
        let finer = fraction.len() > 6 && fraction.as_bytes()[6..].iter().any(|b| *b != b'0');
        parsed.map(|t| ReadInstant { instant: Instant(t), exact: !leap && !finer }).map_err(|_| wrong())
    }

    /// The canonical form of a timestamp as the service writes it, and whether that form says everything the text said.
    ///
    /// # Errors
    /// As [`Instant::read`].
    pub fn canonical(text: &str) -> Result<(String, bool), NotAnInstant> {
        if let Some(plain) = Plain::read(text) {
            // The text is in UTC already: its own digits, the fraction filled up.
            let mut canonical = String::with_capacity(27);
            canonical.push_str(&text[..19]);
            canonical.push('.');
            canonical.push_str(plain.fraction);
            canonical.push_str(&"000000"[plain.fraction.len()..]);
            canonical.push('Z');
            return Ok((canonical, true));
        }
        Instant::read(text).map(|read| (read.instant.to_string(), read.exact))
    }

    /// Microseconds since the epoch, cut towards the past.
    pub fn as_micros(self) -> i64 {
        self.0.as_nanosecond().div_euclid(1000) as i64
    }

    /// The instant that many microseconds after the epoch; `None` outside the years -9999 to 9999.
    pub fn from_micros(micros: i64) -> Option<Instant> {
        Timestamp::from_microsecond(micros).ok().map(Instant)
    }

    /// The instant that many seconds after the epoch; `None` outside the years -9999 to 9999.
    pub fn from_secs(secs: i64) -> Option<Instant> {
        Timestamp::from_second(secs).ok().map(Instant)
    }

    /// Whole seconds since the epoch, cut towards the past.
    pub fn as_secs(self) -> i64 {
        self.0.as_nanosecond().div_euclid(1_000_000_000) as i64
    }

    /// This instant and `d` more, stopping at the last instant there is.
    pub fn plus(self, d: Duration) -> Instant {
        SignedDuration::try_from(d)
            .ok()
            .and_then(|d| self.0.checked_add(d).ok())
            .map_or(Instant(Timestamp::MAX), Instant)
    }

    /// `d` before this instant, stopping at the first instant there is.
    pub fn minus(self, d: Duration) -> Instant {
        SignedDuration::try_from(d)
            .ok()
            .and_then(|d| self.0.checked_sub(d).ok())
            .map_or(Instant(Timestamp::MIN), Instant)
    }

    /// How long after `earlier` this is; zero if it is before it.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or(Duration::ZERO)
    }

    /// This instant cut down to its whole second.
    pub fn whole_second(self) -> Instant {
        Instant::from_secs(self.as_secs()).unwrap_or(self)
    }

    /// The text for a filter of the service: at least milliseconds, and as many digits as the instant has.
    pub fn to_wire(self) -> String {
        let nanos = self.0.as_nanosecond().rem_euclid(1_000_000_000);
        if nanos % 1_000_000 == 0 {
            format!("{:.3}", self.0)
        } else if nanos % 1000 == 0 {
            format!("{:.6}", self.0)
        } else {
            format!("{:.9}", self.0)
        }
    }

    /// The instant of an HTTP `Date` header (`Sun, 06 Nov 1994 08:49:37 GMT`).
    pub fn from_http_date(text: &str) -> Option<Instant> {
        jiff::fmt::rfc2822::parse(text).ok().map(|zoned| Instant(zoned.timestamp()))
    }

    /// This instant as an HTTP `Date` header, whole seconds.
    pub fn to_http_date(self) -> String {
        self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// The underlying timestamp, for calendars and schedules.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

/// A timestamp in the one spelling that nearly all have: UTC, `YYYY-MM-DDTHH:MM:SS[.fraction]Z` with at most six
/// digits. Whatever is spelt otherwise, and whatever is no real time, is left to the full parser.
struct Plain<'a> {
    instant: Instant,
    fraction: &'a str,
}

impl Plain<'_> {
    fn read(text: &str) -> Option<Plain<'_>> {
        let bytes = text.as_bytes();
        let (last, body) = bytes.split_last()?;
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if *last != b'Z' || body.len() < 19 || marks.iter().any(|(place, mark)| body[*place] != *mark) {
            return None;
        }
        let number = |from: usize, to: usize| {
            body[from..to]
                .iter()
                .try_fold(0i64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if year == 0 || !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let digits = match body.get(19) {
            None => 0,
            Some(b'.') if (21..=26).contains(&body.len()) => body.len() - 20,
            Some(_) => return None,
        };
        let fraction = if digits == 0 { 0 } else { number(20, body.len())? };
        let nanos = fraction * 10i64.pow(9 - digits as u32);
        // Years that begin in March put the leap day last, and the months' lengths into one formula.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let before_year = year * 365 + year / 4 - year / 100 + year / 400;
        let since_epoch = before_year + (153 * month + 2) / 5 + day - 1 - 719_468;
        let seconds = since_epoch * 86_400 + hour * 3600 + minute * 60 + second;
        Some(Plain {
            instant: Instant(Timestamp::new(seconds, nanos as i32).ok()?),
            fraction: if digits == 0 { "" } else { text.get(20..body.len())? },
        })
    }
}

impl From<Timestamp> for Instant {
    fn from(t: Timestamp) -> Instant {
        Instant(t)
    }
}

/// The canonical form of every timestamp column: UTC with fixed microseconds, cut and never rounded.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl FromStr for Instant {
    type Err = NotAnInstant;
    fn from_str(s: &str) -> Result<Instant, NotAnInstant> {
        Instant::read(s).map(|read| read.instant)
    }
}

impl Serialize for Instant {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // All nine digits: a stored watermark must not lose what the service said.
        s.serialize_str(&format!("{:.9}", self.0))
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Instant, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A moment in JSON, in the form that the mirror's columns have.
///
/// # Errors
/// Whatever the serializer says.
pub fn utc_always<S: serde::Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// As [`utc_always`], or null.
///
/// # Errors
/// Whatever the serializer says.
pub fn utc<S: serde::Serializer>(at: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, bool) {
        let r = Instant::read(text).unwrap();
        (r.instant.to_string(), r.exact)
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
        ] {
            assert_eq!(read(given), (canonical.to_string(), exact), "{given}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_usual_spelling_is_read_as_the_full_parser_reads_it(
            (year, month, day) in (0u32..10_000, 0u32..14, 0u32..33),
            (hour, minute, second) in (0u32..25, 0u32..61, 0u32..62),
            fraction in "([.][0-9]{0,8})?",
        ) {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
            if let Some(plain) = Plain::read(&text) {
                let full = Instant(text.parse::<Timestamp>().unwrap());
                proptest::prop_assert_eq!(plain.instant, full);
                proptest::prop_assert_eq!(Instant::canonical(&text).unwrap(), (full.to_string(), true));
            }
        }
    }

    #[test]
    fn the_usual_spelling_takes_the_short_way() {
        for text in ["2024-02-29T23:59:59.123Z", "0001-01-01T00:00:00Z", "9999-12-30T00:00:00.000001Z"] {
            let full = Instant(text.parse::<Timestamp>().unwrap());
            assert_eq!(Plain::read(text).map(|plain| plain.instant), Some(full), "{text}");
        }
        for text in
            ["2023-02-29T00:00:00Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.Z"]
        {
            assert!(Plain::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn texts_without_a_zone_or_a_real_date_are_refused() {
        for text in ["2026-01-02T03:04:05", "2026-02-30T03:04:05Z", "2026-01-02", "", "soon", "2026-01-02T25:00:00Z"] {
            assert!(Instant::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_filter_text_keeps_every_digit() {
        for text in ["2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456789Z"] {
            assert_eq!(text.parse::<Instant>().unwrap().to_wire(), text);
        }
    }

    #[test]
    fn http_dates_go_there_and_back() {
        let i: Instant = "1994-11-06T08:49:37Z".parse().unwrap();
        assert_eq!(i.to_http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Instant::from_http_date(&i.to_http_date()), Some(i));
    }
}
