//! Schedules: cron lines with seconds, and when they are due.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeZone as _};
use chrono_tz::Tz;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;

use crate::model::Instant;

/// A cron line with seconds that parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron(Box<str>);

impl Cron {
    /// Reads a cron line: six fields, seconds first, or seven with the year.
    ///
    /// # Errors
    /// The reason, in a few words.
    pub fn parse(line: &str) -> Result<Cron, String> {
        parser().parse(line).map_err(|e| e.to_string())?;
        Ok(Cron(line.into()))
    }

    /// The line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// When the line is due after an instant, in order; daylight saving is followed. Empty where the zone has no name
    /// that the schedule's library knows.
    pub fn due_after(&self, after: Instant, zone: &TimeZone) -> impl Iterator<Item = Instant> + use<> {
        let cron = parser().parse(&self.0).ok();
        let zone = zone.iana_name().and_then(|name| Tz::from_str(name).ok());
        let mut last: Option<DateTime<Tz>> = zone.and_then(|zone| zone.timestamp_opt(after.as_secs(), 0).single());
        std::iter::from_fn(move || {
            let next = cron.as_ref()?.find_next_occurrence(&last?, false).ok()?;
            last = Some(next);
            Instant::from_secs(next.timestamp())
        })
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As the scheduler's own parser is set: what passes here passes there.
fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Required).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(line: &str, after: &str, zone: &str, count: usize) -> Vec<String> {
        let zone = TimeZone::get(zone).unwrap();
        let cron = Cron::parse(line).unwrap();
        let due = cron.due_after(after.parse().unwrap(), &zone).take(count);
        due.map(|at| at.to_wire().replace(".000", "")).collect()
    }

    #[test]
    fn schedules_are_due_in_order() {
        assert_eq!(
            due("0 */5 * * * *", "2026-03-04T12:00:00Z", "UTC", 2),
            ["2026-03-04T12:05:00Z", "2026-03-04T12:10:00Z"]
        );
        assert_eq!(due("0 0 3 * * SUN", "2026-03-04T12:00:00Z", "UTC", 1), ["2026-03-08T03:00:00Z"]);
    }

    #[test]
    fn noon_stays_noon_when_the_clocks_change() {
        assert_eq!(
            due("0 0 12 * * *", "2026-10-24T00:00:00Z", "Europe/Berlin", 3),
            ["2026-10-24T10:00:00Z", "2026-10-25T11:00:00Z", "2026-10-26T11:00:00Z"]
        );
    }

    #[test]
    fn a_line_that_is_none_says_why() {
        assert!(Cron::parse("*/5 * * * *").is_err(), "five fields");
        assert!(Cron::parse("0 0 25 * * *").is_err());
    }
}
