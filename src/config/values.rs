//! From one value to one type. A text of the environment is read like the value of a file: `"4"` is a count too.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use figment::value::{Num, Value};
use jiff::tz::TimeZone;

use super::cron::{self, Cron};
use super::error::ConfigError;
use super::layers::Layers;
use crate::api::BaseUrl;
use crate::model::{Instant, Resource};

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For the journal under systemd, text elsewhere.
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The words of the configuration.
    pub(crate) const WORDS: &[(&str, LogFormat)] =
        &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
}

impl Layers {
    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(_, text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "must be a text in quotes")),
        }
    }

    /// A text that the defaults have.
    pub(super) fn required(&self, key: &str) -> Result<String, ConfigError> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "is missing"))
    }

    pub(super) fn path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        match self.text(key)? {
            Some(text) if text.is_empty() => Err(self.wrong(key, "is empty")),
            text => Ok(text.map(PathBuf::from)),
        }
    }

    /// An address that only this machine can reach. `None` without one, and for `off`.
    pub(super) fn loopback(&self, key: &str) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match text.trim() {
            "off" => Ok(None),
            text => loopback(text).map(Some).map_err(|reason| self.wrong(key, reason)),
        }
    }

    pub(super) fn whole(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
        let number = match self.get(key) {
            Some(Value::String(_, text)) => text.trim().parse().ok(),
            Some(Value::Num(_, number)) => integer(number).and_then(|n| u64::try_from(n).ok()),
            _ => None,
        };
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let reason = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.wrong(key, reason)
        })
    }

    pub(super) fn part(&self, key: &str) -> Result<f64, ConfigError> {
        let number = match self.get(key) {
            Some(Value::String(_, text)) => text.trim().parse().ok(),
            Some(Value::Num(_, n)) => n.to_f64().or_else(|| integer(n).map(|n| n as f64)),
            _ => None,
        };
        number.filter(|n| (0.0..=1.0).contains(n)).ok_or_else(|| self.wrong(key, "must be a number from 0 to 1"))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<bool, ConfigError> {
        match self.get(key) {
            Some(Value::Bool(_, value)) => Some(value),
            Some(Value::String(_, text)) => text.trim().parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.wrong(key, "must be true or false"))
    }

    pub(super) fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T, ConfigError> {
        let text = self.required(key)?;
        let found = words.iter().find(|(word, _)| *word == text.trim());
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.wrong(key, format!("must be {}", words.join(" or ")))
        })
    }

    pub(super) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
        let duration = duration(&self.required(key)?).map_err(|reason| self.wrong(key, reason))?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let reason = format!("must be from {} to {}", spell(*range.start()), spell(*range.end()));
        Err(self.wrong(key, reason))
    }

    /// A duration where zero means "for ever" or "never".
    pub(super) fn age(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        let century = Duration::from_secs(100 * 366 * 86400);
        let age = self.duration(key, Duration::ZERO..=century)?;
        Ok((!age.is_zero()).then_some(age))
    }

    pub(super) fn cron(&self, key: &str) -> Result<Option<Cron>, ConfigError> {
        let line = self.required(key)?;
        if line.trim() == "off" {
            return Ok(None);
        }
        let wrong = |reason| self.wrong(key, format!("must be a cron line with seconds, or \"off\": {reason}"));
        let cron = Cron::parse(line.trim()).map_err(wrong)?;
        match cron.next_after(Instant::system_now(), &TimeZone::UTC) {
            Some(_) => Ok(Some(cron)),
            None => Err(self.wrong(key, "is a cron line that is never due from now on; \"off\" says so plainly")),
        }
    }

    pub(super) fn time_zone(&self, key: &str) -> Result<TimeZone, ConfigError> {
        let name = self.required(key)?;
        cron::zone(name.trim()).map_err(|reason| self.wrong(key, reason))
    }

    /// The words of a list in a file, or of a text with commas.
    pub(super) fn words(&self, key: &str) -> Option<Vec<String>> {
        match self.get(key) {
            Some(Value::String(_, text)) => Some(text.split(',').map(|word| word.trim().to_string()).collect()),
            Some(Value::Array(_, values)) => values.into_iter().map(Value::into_string).collect(),
            _ => None,
        }
    }

    /// `None` for all. A list in a file, or a text with commas.
    pub(super) fn objects(&self, key: &str) -> Result<Option<Vec<Resource>>, ConfigError> {
        let words = self.words(key).unwrap_or_default();
        if words == ["all"] {
            return Ok(None);
        }
        let mut objects: Vec<Resource> = words.iter().filter_map(|word| word.parse().ok()).collect();
        if objects.is_empty() || objects.len() != words.len() {
            let known = Resource::ALL.map(Resource::as_str).join(", ");
            return Err(self.wrong(key, format!("must be \"all\" or a list of {known}")));
        }
        objects.sort();
        objects.dedup();
        Ok(Some(objects))
    }

    pub(super) fn log_filter(&self, key: &str) -> Result<String, ConfigError> {
        let text = self.required(key)?;
        match tracing_subscriber::EnvFilter::try_new(&text) {
            Ok(_) if !text.trim().is_empty() => Ok(text),
            _ => Err(self.wrong(key, "must be error, warn, info, debug, trace or a filter of them")),
        }
    }

    pub(super) fn base_url(&self, key: &str) -> Result<Option<BaseUrl>, ConfigError> {
        let url = self.text(key)?.map(|text| text.parse());
        url.transpose().map_err(|e| self.wrong(key, format!("cannot be used: {e}")))
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    const FORM: &str = "must be an address of this machine itself and a port, such as \"127.0.0.1:8787\" or \
                        \"[::1]:8787\", or \"off\"";
    let address: SocketAddr = text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((name, _)) if name.eq_ignore_ascii_case("localhost") => {
            format!("{FORM}: a name is looked up and may lead elsewhere, a number does not")
        }
        _ => FORM.to_string(),
    })?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ok(address),
        IpAddr::V6(ip) if ip.is_loopback() => Ok(address),
        ip => Err(format!(
            "{FORM}: other machines could reach {ip}, and the page asks nobody for a password; from elsewhere use `ssh -L`"
        )),
    }
}

/// A whole number of a file, whichever width it was read with.
fn integer(number: Num) -> Option<i128> {
    number.to_i128().or_else(|| number.to_u128().and_then(|n| i128::try_from(n).ok()))
}

/// The units, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `30s`, `5m`, `1d`, `1h30m`; `0` needs no unit.
///
/// # Errors
/// What a duration must be.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "must be a number and a unit, such as \"30s\", \"5m\", \"12h\" or \"1d\"";
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| WRONG)?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or(WRONG)?.1;
        rest = &rest[letters..];
        millis = number.checked_mul(unit).and_then(|part| millis.checked_add(part)).ok_or("is too long")?;
    }
    if text.trim().is_empty() {
        return Err(WRONG);
    }
    Ok(Duration::from_millis(millis))
}

/// A bound as a person would write it.
fn spell(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    let whole = UNITS.iter().find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit));
    whole.map_or("0".into(), |(name, unit)| format!("{}{name}", millis / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1d", Some(86_400_000)),
            ("60s", Some(60_000)),
            (" 1h30m ", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("30", None),
            ("s", None),
            ("", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 m", None),
            ("5é", None),
            ("1y", None),
            ("99999999999999999999d", None),
            ("9999999999999d", None),
        ] {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
        assert_eq!(spell(Duration::from_secs(86400)), "1d");
        assert_eq!(spell(Duration::from_millis(1500)), "1500ms");
        assert_eq!(spell(Duration::ZERO), "0");
    }

    #[test]
    fn cron_lines_have_seconds_and_errors_have_reasons() {
        assert!(Cron::parse("0 */5 * * * *").is_ok());
        assert!(Cron::parse("0 0 3 * * SUN").is_ok());
        for line in ["*/5 * * * *", "0 0 24 * * *", "60 * * * * *", "", "often"] {
            assert!(!Cron::parse(line).unwrap_err().is_empty(), "{line}");
        }
    }
}
