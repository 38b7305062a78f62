//! Parses single values, for the fields of [`super::sections`].
//!
//! Texts of the environment are parsed like values of a file: `"4"` is a valid count. A reason follows the key and its
//! place in an error message, and never contains the value.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use figment::value::magic::RelativePathBuf;
use jiff::tz::TimeZone;
use reqwest::Url;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::cron::{self, ChangesSchedule, Cron};
use super::network::Network;
use crate::api::{BaseUrl, is_loopback};
use crate::format;
use crate::model::duration::duration;
use crate::model::{Exclusions, Instant, Resource, Ru};

const CENTURY: u64 = 100 * 366 * 86_400;

/// A value as people write it, in a file or in a variable.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenValue {
    Text(String),
    Switch(bool),
    Whole(i64),
    Number(f64),
    List(Vec<String>),
}

/// The text of a scalar, without white space around it. `expected` completes "must be …".
fn text<'de, D: Deserializer<'de>>(value: D, expected: &'static str) -> Result<String, D::Error> {
    match WrittenValue::deserialize(value) {
        Ok(WrittenValue::Text(text)) => Ok(text.trim().to_string()),
        Ok(WrittenValue::Switch(value)) => Ok(value.to_string()),
        Ok(WrittenValue::Whole(number)) => Ok(number.to_string()),
        Ok(WrittenValue::Number(number)) => Ok(format!("{number:?}")),
        Ok(WrittenValue::List(_)) | Err(_) => Err(Error::custom(format!("must be {expected}"))),
    }
}

/// The texts of a list; a text alone is one.
fn texts<'de, D: Deserializer<'de>>(value: D, expected: &'static str) -> Result<Vec<String>, D::Error> {
    match WrittenValue::deserialize(value) {
        Ok(WrittenValue::List(texts)) => Ok(texts.iter().map(|text| text.trim().to_string()).collect()),
        Ok(WrittenValue::Text(text)) => Ok(vec![text.trim().to_string()]),
        _ => Err(Error::custom(format!("must be {expected}"))),
    }
}

/// Parses a scalar; the parser's error is the reason.
fn read<'de, D: Deserializer<'de>, T, R: Display>(
    value: D,
    expected: &'static str,
    reader: impl FnOnce(&str) -> Result<T, R>,
) -> Result<T, D::Error> {
    reader(&text(value, expected)?).map_err(Error::custom)
}

fn expect<'de, D: Deserializer<'de>, T>(
    value: D,
    expected: &'static str,
    reader: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    read(value, expected, |text| reader(text).ok_or_else(|| format!("must be {expected}")))
}

pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>, const MIN: u64, const MAX: u64>(
    value: D,
) -> Result<T, D::Error> {
    read(value, "a whole number", |text| {
        let number: Option<u64> = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("must be a whole number from {MIN} to {MAX}"))
    })
}

/// At least 10: in a smaller window nothing useful fits.
pub(super) fn request_units<'de, D: Deserializer<'de>>(value: D) -> Result<Ru, D::Error> {
    whole::<D, u64, 10, 1_000_000_000_000>(value).map(Ru::new)
}

pub(super) fn fraction<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    expect(value, "a number from 0 to 1", |text| text.parse().ok().filter(|number| (0.0..=1.0).contains(number)))
}

pub(super) fn seconds<'de, D, const MIN: u64, const MAX: u64>(value: D) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    read(value, "a number and a unit, such as \"30s\"", |text| {
        let duration = duration(text)?;
        let (min, max) = (Duration::from_secs(MIN), Duration::from_secs(MAX));
        // As it can be written.
        let spelt = |limit| format::duration(limit).replace(' ', "");
        let fits = (min..=max).contains(&duration);
        fits.then_some(duration).ok_or_else(|| format!("must be from {} to {}", spelt(min), spelt(max)))
    })
}

/// A duration; zero means "forever" or "never".
pub(super) fn age<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let age = seconds::<D, 0, CENTURY>(value)?;
    Ok((!age.is_zero()).then_some(age))
}

pub(super) fn switch<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    word(value, "true or false", ["true", "false"])
}

/// Whether the first of two words is given. `expected` names both.
fn word<'de, D: Deserializer<'de>>(value: D, expected: &'static str, words: [&str; 2]) -> Result<bool, D::Error> {
    expect(value, expected, |text| Some(words.iter().position(|word| *word == text)? == 0))
}

pub(super) fn all_or_off<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    word(value, "\"all\" or \"off\"", ["all", "off"])
}

pub(super) fn schedule<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Cron>, D::Error> {
    const EXPECTED: &str = "a cron line, or \"off\"";
    read(value, EXPECTED, |text| cron_line(text, EXPECTED))
}

pub(super) fn changes_schedule<'de, D: Deserializer<'de>>(value: D) -> Result<ChangesSchedule, D::Error> {
    const EXPECTED: &str = "a cron line, \"auto\" or \"off\"";
    read(value, EXPECTED, |text| match text {
        "auto" => Ok(ChangesSchedule::Auto),
        other => cron_line(other, EXPECTED).map(|cron| cron.map_or(ChangesSchedule::Off, ChangesSchedule::Cron)),
    })
}

/// A cron line that is due some time; `None` for "off".
fn cron_line(text: &str, expected: &str) -> Result<Option<Cron>, String> {
    if text == "off" {
        return Ok(None);
    }
    let cron = Cron::parse(text).map_err(|reason| format!("must be {expected}: {reason}"))?;
    match cron.next_after(Instant::system_now(), &TimeZone::UTC) {
        Some(_) => Ok(Some(cron)),
        None => Err("never fires again; use \"off\"".to_string()),
    }
}

pub(super) fn time_zone<'de, D: Deserializer<'de>>(value: D) -> Result<TimeZone, D::Error> {
    read(value, "a time zone such as \"Europe/Berlin\"", cron::zone)
}

/// The items of a list in a file, or of a text with commas.
fn words<'de, D: Deserializer<'de>>(value: D, expected: &'static str) -> Result<Vec<String>, D::Error> {
    let texts = texts(value, expected)?;
    Ok(texts.iter().flat_map(|text| text.split(',')).map(|word| word.trim().to_string()).collect())
}

pub(super) fn objects<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<Resource>>, D::Error> {
    let words = words(value, "\"all\" or a list of objects")?;
    if words == ["all"] {
        return Ok(None);
    }
    let mut objects: Vec<Resource> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if objects.is_empty() || objects.len() != words.len() {
        let known = Resource::ALL.map(Resource::as_str).join(", ");
        return Err(Error::custom(format!("must be \"all\" or a list of {known}")));
    }
    objects.sort();
    objects.dedup();
    Ok(Some(objects))
}

/// A level, or a list of levels of modules. The parser of `tracing-subscriber` is not asked: for it, any other word is the
/// name of a module, and switches everything else off.
pub(super) fn log_filter<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    const EXPECTED: &str = "error, warn, info, debug, trace or off, or a list such as \"info,crm_mirror::api=debug\"";
    let is_level = |word: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&word);
    let is_module = |name: &str| !name.is_empty() && name.split("::").all(is_plain_name);
    expect(value, EXPECTED, |text| {
        let filter = text.to_ascii_lowercase().replace(' ', "");
        let fits = filter.split(',').all(|part| match part.split_once('=') {
            None => is_level(part),
            Some((module, level)) => is_module(module) && is_level(level),
        });
        fits.then_some(filter)
    })
}

pub(super) fn base_url<'de, D: Deserializer<'de>>(value: D) -> Result<Option<BaseUrl>, D::Error> {
    read(value, "a text in quotes", |text| {
        BaseUrl::from_str(text).map(Some).map_err(|error| format!("cannot be used: {error}"))
    })
}

/// The address of a webhook, which no error shows.
pub(super) fn webhook<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Url>, D::Error> {
    expect(value, "an https:// address with an ASCII host name (http:// on this machine only)", |text| {
        let url = Url::parse(text).ok()?;
        let is_here = is_loopback(&url)?;
        (url.scheme() == "https" || (url.scheme() == "http" && is_here)).then_some(Some(url))
    })
}

pub(super) fn command<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<String>>, D::Error> {
    const EXPECTED: &str = "a list of a program and its arguments, such as [\"/usr/local/bin/tell\", \"ops\"]";
    let words = texts(value, EXPECTED)?;
    match words.first().is_some_and(|program| !program.is_empty()) {
        true => Ok(Some(words)),
        false => Err(Error::custom(format!("must be {EXPECTED}"))),
    }
}

/// A path; a relative path in a file is relative to that file.
pub(super) fn path<'de, D: Deserializer<'de>>(value: D) -> Result<Option<PathBuf>, D::Error> {
    let path = RelativePathBuf::deserialize(value).map_err(|_| Error::custom("must be a path in quotes"))?;
    if path.original().as_os_str().is_empty() {
        return Err(Error::custom("is empty"));
    }
    // Without the dots of `././key`.
    Ok(Some(path.relative().components().collect()))
}

/// The name of a PostgreSQL schema that needs no quotes.
pub(super) fn schema_name<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    expect(value, "a name of lower-case letters, digits and _, such as \"crm\"", |name| {
        let fits = is_plain_name(name) && name.len() <= 63 && !name.starts_with("pg_");
        fits.then(|| name.to_string())
    })
}

pub(super) fn columns<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    const EXPECTED: &str = "a list of columns, such as [\"contacts.notes\", \"email\"]";
    let mut columns = words(value, EXPECTED)?;
    columns.retain(|column| !column.is_empty());
    match columns.iter().find(|column| !column.splitn(2, '.').all(is_plain_name)) {
        Some(wrong) => Err(Error::custom(format!("must be {EXPECTED}; `{wrong}` is not one"))),
        None => Ok(columns),
    }
}

pub(super) fn excluded_columns<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    let columns = columns(value)?;
    match columns.iter().find_map(|column| Some((column, Exclusions::check(column)?))) {
        Some((column, why)) => Err(Error::custom(format!("contains `{column}`, which {why}"))),
        None => Ok(columns),
    }
}

pub(super) fn keep_or_hide<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    word(value, "\"keep\" or \"hide\"", ["keep", "hide"])
}

fn is_plain_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
}

pub(super) fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<SocketAddr>, D::Error> {
    const EXPECTED: &str = "an address and a port, such as \"127.0.0.1:8787\" or \"[::1]:8787\", or \"off\"";
    expect(value, EXPECTED, |text| if text == "off" { Some(None) } else { text.parse().ok().map(Some) })
}

pub(super) fn networks<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<Network>, D::Error> {
    let words = words(value, "a list of networks")?;
    words.iter().filter(|word| !word.is_empty()).map(|word| word.parse().map_err(Error::custom)).collect()
}
