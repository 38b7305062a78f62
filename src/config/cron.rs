//! Schedules: cron lines, and their due times.
//!
//! The `croner` crate matches a line against the clock face. Changes of a zone's clocks are handled here, because the
//! crate's own search runs backwards in the hour that autumn repeats. Between two changes of its offset a zone's clock
//! runs evenly, so the search goes from one such interval to the next:
//! - A time that the clocks skip in spring is due at the change, once.
//! - In the hour that autumn repeats, a line for every hour (`*`, `*/2`) is due in both passes, and a line for certain
//!   hours in the first pass only.
//!
//! # Invariants
//! - The next due time is later than the time from which it is searched, in every zone and at every second.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::model::Instant;

/// A valid cron line, with seconds.
#[derive(Clone, PartialEq)]
pub struct Cron {
    line: Box<str>,
    /// Behind an `Arc` because it is large and never changes.
    pattern: Arc<croner::Cron>,
}

impl Cron {
    /// Parses a cron line: five fields, six with the seconds first, or seven with the year last.
    pub fn parse(line: &str) -> Result<Cron, String> {
        // The crate takes an empty item for nothing, and a field of nothing would be searched for through all years.
        if line.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
            return Err("a list has an empty item".into());
        }
        // The scheduler requires the seconds, and has a parser that is configured like this one.
        let line = if line.split_whitespace().count() == 5 { &format!("0 {}", line.trim()) } else { line };
        let parser = CronParser::builder().seconds(Seconds::Required).build();
        let pattern = parser.parse(line).map_err(|e| match line.split_whitespace().count() {
            6 | 7 => e.to_string(),
            _ => "it has five fields, six with the seconds first, or seven with the year last".into(),
        })?;
        Ok(Cron { line: line.into(), pattern: Arc::new(pattern) })
    }

    pub fn as_str(&self) -> &str {
        &self.line
    }

    /// The next due time after an instant; daylight saving is followed. `None` for a line that is never due.
    pub fn next_after(&self, after: Instant, zone: &TimeZone) -> Option<Instant> {
        let start = Timestamp::from_second(after.as_secs()).ok()?;
        let mut offset = i64::from(zone.to_offset(start).seconds());
        let mut from = start.as_second() + 1;
        // The end of the times that the clocks have already shown, in seconds of the clock face.
        let mut shown = repeated_until(zone, start, offset);
        let mut due = None;
        for change in zone.following(start).map(Some).chain([None]) {
            let begin = if self.is_for_every_hour() { from + offset } else { shown.max(from + offset) };
            let next = self.next_on_the_clock_face(begin)?;
            due = Some(next - offset);
            let Some(change) = change else { break };
            let (at, next_offset) = (change.timestamp().as_second(), i64::from(change.offset().seconds()));
            if next - offset < at {
                break;
            }
            if next < at + next_offset {
                // The clocks skip this time.
                return Instant::from_secs(at);
            }
            shown = if next_offset < offset { at + offset } else { i64::MIN };
            (from, offset) = (at, next_offset);
        }
        Instant::from_secs(due?)
    }

    fn is_for_every_hour(&self) -> bool {
        let hours = &self.pattern.pattern.hours;
        hours.from_wildcard || hours.step != 1
    }

    /// The first match from `begin` on, both in seconds of a clock face that never changes.
    fn next_on_the_clock_face(&self, begin: i64) -> Option<i64> {
        let begin: DateTime<Utc> = DateTime::from_timestamp(begin, 0)?;
        self.pattern.find_next_occurrence(&begin, true).ok().map(|due| due.timestamp())
    }
}

/// If an instant follows a change that set the clocks back: the end of the repeated times.
fn repeated_until(zone: &TimeZone, start: Timestamp, offset: i64) -> i64 {
    let following_second = Timestamp::from_second(start.as_second() + 1).unwrap_or(Timestamp::MAX);
    let Some(change) = zone.preceding(following_second).next() else { return i64::MIN };
    let at = change.timestamp().as_second();
    let Ok(before) = Timestamp::from_second(at - 1) else { return i64::MIN };
    let offset_before = i64::from(zone.to_offset(before).seconds());
    if offset_before > offset { at + offset_before } else { i64::MIN }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pattern has a member for each second, minute and year.
        fmt::Debug::fmt(&self.line, f)
    }
}

/// `sync.schedule`: when to ask for changes.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangesSchedule {
    Off,
    Cron(Cron),
    Auto,
}

/// A time zone of the IANA database, by its name: with the rules of this machine, if it has any. Names that are no zone
/// (`Factory`), or depend on the machine (`localtime`), are refused.
pub(super) fn zone(name: &str) -> Result<TimeZone, &'static str> {
    const WRONG: &str = "must be a time zone such as \"Europe/Berlin\"";
    let known = TimeZoneDatabase::bundled().get(name).map_err(|_| WRONG)?;
    match known.iana_name() {
        // The machine's database is read whole, for its names.
        Some("UTC") => Ok(TimeZone::UTC),
        Some("Factory") | None => Err(WRONG),
        Some(name) => Ok(TimeZone::get(name).unwrap_or(known)),
    }
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;
