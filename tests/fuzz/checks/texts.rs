//! Small texts: headers, cursors, timestamps, decimals, schedules, durations and addresses. The first byte chooses which.

use std::cmp::Ordering;

use crm_mirror::api::requested_wait::requested_wait;
use crm_mirror::api::{ApiKey, BaseUrl};
use crm_mirror::budget::Hold;
use crm_mirror::config::{Cron, duration};
use crm_mirror::model::clock::MonotonicReading;
use crm_mirror::model::decimal::{self, DecimalSum};
use crm_mirror::model::{ClockReading, Instant, ServiceTime, field_value};
use crm_mirror::publish::{PublishUrl, StreamCursor};
use secrecy::SecretString;

use super::{choice, parts};

/// Checks one text, or a few that belong together.
pub fn check(data: &[u8]) {
    let (which, data) = choice(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    match which % 10 {
        0 => wait(text),
        1 => dates(text),
        2 => timestamp(text),
        3 => cursor(text),
        4 => decimals(text),
        5 => schedule(text),
        6 => length(text),
        7 => base_url(text),
        8 => publish_url(text),
        _ => key(text),
    }
}

/// A part of a text.
fn texts<const N: usize>(text: &str) -> [&str; N] {
    parts(text.as_bytes()).map(|part| std::str::from_utf8(part).unwrap())
}

/// `Retry-After`, with a `Date` and a body.
fn wait(text: &str) {
    let [header, date, body] = texts(text);
    let now = Instant::from_http_date(date).unwrap_or(Instant::EPOCH);
    let wait = requested_wait(body.as_bytes(), Some(header), now);
    assert!(Hold::after(None, now, wait).left(now).is_some_and(|left| left.as_secs() <= 86_400));
    let header = requested_wait(b"", Some(header), now);
    assert!(header <= wait, "the longer one counts");
}

/// The `Date` of several answers.
fn dates(text: &str) {
    let mut time = ServiceTime::default();
    let mut bound = None;
    for (number, line) in text.split('\n').take(64).enumerate() {
        let [date, wall, update] = texts(line);
        let date = Instant::from_http_date(date);
        if let Some(date) = date {
            assert_eq!(Instant::from_http_date(&date.to_http_date()), Some(date));
        }
        let wall = wall.parse().unwrap_or(Instant::EPOCH);
        let monotonic = MonotonicReading { boot: 1, micros: number as u64 * 1_000_000 };
        time.observe(ClockReading { wall, monotonic: Some(monotonic) }, date);
        if let Ok(update) = update.parse() {
            let plausible = time.observe_update(update);
            assert!(!plausible || time.at_least() >= Some(update));
        }
        assert!(time.at_least() >= bound, "the bound never decreases");
        bound = time.at_least();
        let stored = serde_json::to_string(&time).unwrap();
        assert_eq!(serde_json::from_str::<ServiceTime>(&stored).unwrap(), time);
    }
}

fn timestamp(text: &str) {
    let read = Instant::read(text);
    let canonical = Instant::canonical(text);
    assert_eq!(read.is_some(), canonical.is_ok());
    if let (Some((instant, is_exact)), Ok((canonical, exact))) = (read, canonical) {
        assert_eq!(is_exact, exact);
        assert_eq!(canonical, instant.to_string());
        assert_eq!(canonical.len(), 27);
        assert_eq!(Instant::canonical(&canonical), Ok((canonical, true)));
        let stored = serde_json::to_string(&instant).unwrap();
        assert_eq!(serde_json::from_str::<Instant>(&stored).unwrap(), instant);
        assert_eq!(instant.to_wire().parse(), Ok(instant));
        let _ = (instant.timestamp(), instant.to_http_date());
        assert_eq!(Instant::from_micros(instant.as_micros()).map(|at| at.as_secs()), Some(instant.as_secs()));
    }
    if field_value::is_date(text) {
        assert!(Instant::read(&format!("{text}T00:00:00Z")).is_some() || text.starts_with("0000"), "{text}");
    }
}

fn cursor(text: &str) {
    if let Ok(cursor) = text.parse::<StreamCursor>() {
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}

fn decimals(text: &str) {
    let [a, b] = texts(text);
    let order = decimal::compare(a, b);
    assert_eq!(order.map(Ordering::reverse), decimal::compare(b, a));
    assert_eq!(decimal::same_number(a, b), order == Some(Ordering::Equal));
    assert!(!decimal::is_within_bounds(a) || decimal::is_plain(a));
    if decimal::is_plain(a) {
        assert!(decimal::same_number(a, a));
    }
    if let (Some(x), Some(y)) = (decimal::nearest_double(a), decimal::nearest_double(b)) {
        assert!(order != Some(Ordering::Less) || x <= y, "{a} {b}");
    }
    let sum = |a: &str, b: &str| DecimalSum::default().plus(a)?.plus(b);
    let total = sum(a, b).and_then(|sum| sum.sum());
    assert_eq!(total, sum(b, a).and_then(|sum| sum.sum()));
    assert!(total.is_none() || decimal::is_plain(a) && decimal::is_plain(b));
    let _ = sum(a, b).and_then(|sum| sum.average());
    if let Some(total) = total {
        assert!(decimal::is_plain(&total), "{total}");
        let back = sum(&total, &a.strip_prefix('-').map_or(format!("-{a}"), String::from)).and_then(|sum| sum.sum());
        assert!(back.is_none_or(|back| decimal::same_number(&back, b)), "{a} + {b} is {total}");
    }
}

fn schedule(text: &str) {
    let [line, at] = texts(text);
    let at = at.parse().unwrap_or(Instant::EPOCH);
    let Ok(cron) = Cron::parse(line) else { return };
    assert_eq!(Cron::parse(cron.as_str()).as_ref(), Ok(&cron));
    assert!(cron.next_after(at, &jiff::tz::TimeZone::UTC).is_none_or(|next| next > at), "{line}");
}

fn length(text: &str) {
    if let Ok(length) = duration(text) {
        assert_eq!(duration(&format!("{}ms", length.as_millis())), Ok(length), "{text}");
    }
}

fn base_url(text: &str) {
    if let Ok(url) = text.parse::<BaseUrl>() {
        assert!(url.as_str().ends_with("/v1"));
        assert_eq!(url.as_str().parse(), Ok(url));
    }
}

/// The password, if there is one, is in no text.
fn publish_url(text: &str) {
    const PASSWORD: &str = "very-secret";
    if text.contains(PASSWORD) {
        return;
    }
    let url = format!("postgres://someone:{PASSWORD}@{text}");
    match PublishUrl::new(&SecretString::from(url)) {
        Ok(url) => assert!(!format!("{url:?} {}", url.place).contains(PASSWORD)),
        Err(error) => assert!(!format!("{error:?} {error}").contains(PASSWORD), "{error}"),
    }
}

fn key(text: &str) {
    match ApiKey::new(text) {
        Ok(key) => assert_eq!(key.fingerprint().len(), 16),
        Err(error) => assert!(text.len() < 6 || !error.to_string().contains(text)),
    }
}
