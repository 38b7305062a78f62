//! Cron lines: known times, and the property that the next time is always later, wherever clocks change.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

fn due(line: &str, after: &str, zone: &str, count: usize) -> Vec<String> {
    let zone = TimeZone::get(zone).unwrap();
    let cron = Cron::parse(line).unwrap();
    let next = |at: &Instant| cron.next_after(*at, &zone);
    let due = std::iter::successors(next(&after.parse().unwrap()), next).take(count);
    due.map(|at| at.to_wire().replace(".000", "")).collect()
}

#[test]
fn schedules_are_due_in_order() {
    assert_eq!(
        due("0 */5 * * * *", "2026-03-04T12:00:00Z", "UTC", 2),
        ["2026-03-04T12:05:00Z", "2026-03-04T12:10:00Z"]
    );
    assert_eq!(due("0 0 3 * * SUN", "2026-03-04T12:00:00Z", "UTC", 1), ["2026-03-08T03:00:00Z"]);
    assert_eq!(due("* * * * * *", "2026-03-04T12:00:00.5Z", "UTC", 1), ["2026-03-04T12:00:01Z"]);
    assert_eq!(
        due("0 0 0 29 2 *", "2026-03-04T12:00:00Z", "Europe/Berlin", 2),
        ["2028-02-28T23:00:00Z", "2032-02-28T23:00:00Z"]
    );
}

#[test]
fn daily_schedule_keeps_local_time_over_daylight_saving_changes() {
    assert_eq!(
        due("0 0 12 * * *", "2026-10-24T00:00:00Z", "Europe/Berlin", 3),
        ["2026-10-24T10:00:00Z", "2026-10-25T11:00:00Z", "2026-10-26T11:00:00Z"]
    );
}

#[test]
fn time_that_the_clocks_skip_is_due_at_the_change() {
    // From 02:00 to 03:00 in Berlin, on 29 March 2026 at 01:00 UTC.
    assert_eq!(
        due("0 30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin", 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        due("0 */20 * * * *", "2026-03-29T00:39:00Z", "Europe/Berlin", 3),
        ["2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"]
    );
}

#[test]
fn repeated_hour_has_every_interval_twice_and_every_fixed_time_once() {
    // From 03:00 to 02:00 in Berlin, on 25 October 2026 at 01:00 UTC.
    assert_eq!(
        due("0 */30 * * * *", "2026-10-25T00:01:00Z", "Europe/Berlin", 4),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"]
    );
    assert_eq!(
        due("0 30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Berlin", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    for in_second_pass in ["2026-10-25T01:00:00Z", "2026-10-25T01:15:00Z", "2026-10-25T01:59:59Z"] {
        assert_eq!(due("0 30 2 * * *", in_second_pass, "Europe/Berlin", 1), ["2026-10-26T01:30:00Z"]);
    }
}

#[test]
fn invalid_line_gives_a_reason() {
    assert!(Cron::parse("*/5 * * *").is_err(), "four fields");
    assert!(Cron::parse("0 0 25 * * *").is_err());
    for line in [", * * * * *", "0 1, * * * *", "0 ,1 * * * *", "0 1,,2 * * * *", "0 0 0 * * ,"] {
        assert_eq!(Cron::parse(line), Err("a list has an empty item".into()), "{line}");
    }
}

#[test]
fn names_that_are_no_zone_are_refused() {
    for name in ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"] {
        assert!(zone(name).is_ok(), "{name}");
    }
    for name in ["localtime", "Factory", "Etc/Unknown", "Europe/Bielefeld", "", "posixrules"] {
        assert!(zone(name).is_err(), "{name}");
    }
}

/// The default lines, and the longest time between two of their occurrences on a clock that never changes.
const LINES: [(&str, u64); 4] =
    [("0 */5 * * * *", 300), ("0 0 */6 * * *", 6 * 3600), ("0 0 3 * * SUN", 7 * 86_400), ("0 30 2 * * *", 86_400)];

/// A change of a zone's clocks.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: i64,
    /// Seconds that the clocks are moved.
    by: i64,
}

/// Changes by their time and size, with one zone that has them.
type DistinctChanges = BTreeMap<Vec<(i64, i64)>, (TimeZone, Vec<Change>)>;

/// Every distinct set of changes of the years 2026 and 2027 among the zones of the database, with one zone that has it.
fn distinct_changes() -> DistinctChanges {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let end: Timestamp = "2028-01-01T00:00:00Z".parse().unwrap();
    let mut distinct = BTreeMap::new();
    for name in TimeZoneDatabase::bundled().available().filter(|name| name.as_str() != "Factory") {
        let zone = zone(name.as_str()).unwrap_or_else(|why| panic!("{name}: {why}"));
        let mut offset = i64::from(zone.to_offset(begin).seconds());
        let mut changes = Vec::new();
        for change in zone.following(begin).take_while(|change| change.timestamp() < end) {
            let next = i64::from(change.offset().seconds());
            changes.push(Change { at: change.timestamp().as_second(), by: next - offset });
            offset = next;
        }
        let key = changes.iter().map(|change| (change.at, change.by)).collect();
        distinct.entry(key).or_insert((zone, changes));
    }
    distinct
}

/// Searches from every `step`-th second of a range: the next time must be later, and no later than the interval of the
/// line and the change allow.
#[track_caller]
fn assert_always_later(zone: &TimeZone, change: Change, range: std::ops::Range<i64>, step: usize) {
    for (line, interval) in LINES {
        let cron = Cron::parse(line).unwrap();
        let mut before: Option<Instant> = None;
        for second in range.clone().step_by(step) {
            let after = Instant::from_secs(second).unwrap();
            let next = cron.next_after(after, zone).unwrap();
            let name = zone.iana_name();
            assert!(next > after, "{name:?} {line}: {next} is not after {after}");
            assert!(
                next.since(after) <= Duration::from_secs(interval + change.by.unsigned_abs()),
                "{name:?} {line}: {next} is long after {after}"
            );
            if let Some(before) = before.replace(next) {
                assert!(next == before || before <= after, "{name:?} {line}: {before} was left out after {after}");
            }
        }
    }
}

#[test]
fn next_time_is_later_in_every_zone() {
    let distinct = distinct_changes();
    assert!(distinct.len() > 10, "{}", distinct.len());
    let mut kinds = std::collections::BTreeSet::new();
    for (zone, changes) in distinct.into_values() {
        for change in changes {
            // The movement of the clock faces matters; a zone with the same movement is searched by the minute.
            let offset = i64::from(zone.to_offset(Timestamp::from_second(change.at).unwrap()).seconds());
            let on_the_clock = (change.at + offset).rem_euclid(86_400);
            if kinds.insert((change.by, on_the_clock)) {
                assert_always_later(&zone, change, change.at - 3_700..change.at + 3_700, 1);
            }
            assert_always_later(&zone, change, change.at - 48 * 3_600..change.at + 48 * 3_600, 60);
        }
    }
}

#[test]
#[ignore = "takes minutes: every minute of a year in every zone, every second of the hours around each change"]
fn next_time_is_later_in_every_minute_of_a_year() {
    for (zone, changes) in distinct_changes().into_values() {
        for change in &changes {
            assert_always_later(&zone, *change, change.at - 3_700..change.at + 3_700, 1);
        }
        let by = changes.iter().map(|change| change.by.abs()).max().unwrap_or(0);
        let year = 1_767_225_600..1_798_761_600;
        assert_always_later(&zone, Change { at: 0, by }, year, 60);
    }
}
