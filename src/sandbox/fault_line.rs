//! Faults as one line of text: `429:1%,503:2%,latency:50..400ms`.
//!
//! Each part is a kind and its share of the requests. A kind is an error status, a redirect, or one of [`KINDS`];
//! `latency` takes a duration, or a range of durations, in place of a share.

use std::str::FromStr;

use super::fault::{DateHeader, Fault};
use super::faults::Rule;

/// The kinds that are not a status.
const KINDS: [(&str, Fault); 7] = [
    ("reset", Fault::Reset),
    ("lost", Fault::ResetAfterApply),
    ("truncated", Fault::Truncated),
    ("html", Fault::NotJson),
    ("gateway", Fault::StatusAfterApply(502)),
    ("empty", Fault::EmptyList),
    ("no-date", Fault::Date(DateHeader::Missing)),
];

/// The wait of a 429, in the body and in the header.
const RETRY_AFTER: u64 = 1;

/// Faults from the command line or the admin interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultLine {
    pub text: String,
    rules: Vec<Rule>,
}

impl FaultLine {
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl FromStr for FaultLine {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultLine, String> {
        let mut line = FaultLine { text: text.to_string(), rules: Vec::new() };
        let (mut names, mut total) = (Vec::new(), 0.0);
        for part in text.split(',').map(str::trim) {
            if part.is_empty() && text.trim().is_empty() {
                continue;
            }
            let (name, amount) = part.split_once(':').ok_or_else(|| {
                format!("`{part}` must be KIND:SHARE%, such as 503:2%, or latency:DURATION, such as latency:50..400ms")
            })?;
            let (name, amount) = (name.trim(), amount.trim());
            if names.contains(&name) {
                return Err(format!("`{name}` is given twice"));
            }
            names.push(name);
            if name == "latency" {
                line.rules.push(Rule::new(latency(amount)?).forever());
                continue;
            }
            let (fault, share) = (kind(name)?, share(amount)?);
            if name != "no-date" {
                total += share;
            }
            line.rules.push(Rule::new(fault).percent(share).forever());
        }
        if total > 100.0 {
            return Err("the shares are more than 100% together".to_string());
        }
        Ok(line)
    }
}

fn kind(name: &str) -> Result<Fault, String> {
    if let Some((_, fault)) = KINDS.iter().find(|(known, _)| *known == name) {
        return Ok(fault.clone());
    }
    match name.parse::<u16>() {
        Ok(429) if name.len() == 3 => Ok(Fault::TooMany { body: Some(RETRY_AFTER), header: Some(RETRY_AFTER) }),
        Ok(status @ 400..=599) if name.len() == 3 => Ok(Fault::Status(status)),
        Ok(status @ (301 | 302 | 303 | 307 | 308)) if name.len() == 3 => {
            Ok(Fault::Redirect { status, location: "/elsewhere".to_string() })
        }
        _ => {
            let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "`{name}` is not a fault; known faults: error statuses, redirects, latency, {}",
                known.join(", ")
            ))
        }
    }
}

fn share(amount: &str) -> Result<f64, String> {
    let wrong = || format!("`{amount}` must be a percentage from 0% to 100%, such as 2%");
    let number = amount.strip_suffix('%').map(str::trim).ok_or_else(wrong)?;
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match number.parse::<f64>() {
        Ok(share) if plain && (0.0..=100.0).contains(&share) => Ok(share),
        _ => Err(wrong()),
    }
}

fn latency(amount: &str) -> Result<Fault, String> {
    let Some((low, high)) = amount.split_once("..") else {
        let time = crate::model::duration(amount)?;
        return Ok(Fault::SlowBetween(time, time));
    };
    let high_time = crate::model::duration(high)?;
    // `50..400ms`: the unit of the upper end applies to both.
    let unit = high.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let low = if low.bytes().all(|b| b.is_ascii_digit()) { format!("{low}{unit}") } else { low.to_string() };
    let low_time = crate::model::duration(&low)?;
    if low_time > high_time {
        return Err(format!("`{amount}`: the range ends before it begins"));
    }
    Ok(Fault::SlowBetween(low_time, high_time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn valid_lines_are_parsed_and_invalid_lines_refused() {
        let line: FaultLine = "429:1%, 503:2.5%,latency:50..400ms,reset:0%".parse().unwrap();
        assert_eq!(line.rules.len(), 4);
        assert_eq!(line.rules[1], Rule::new(Fault::Status(503)).percent(2.5).forever());
        let range = Fault::SlowBetween(Duration::from_millis(50), Duration::from_millis(400));
        assert_eq!(line.rules[2], Rule::new(range).forever());
        assert!("".parse::<FaultLine>().unwrap().rules.is_empty());
        for junk in [
            "503",
            "503:2",
            "503:101%",
            "503:-1%",
            "503:NaN%",
            "503:%",
            "200:1%",
            "nope:1%",
            "503:1%,503:1%",
            ",",
            "503:1%,",
            "latency:fast",
            "latency:9..1ms",
            "latency:",
            "60:1%",
            "0503:1%",
            "503:60%,500:60%",
            "503:1e1%",
        ] {
            assert!(junk.parse::<FaultLine>().is_err(), "{junk}");
        }
    }
}
