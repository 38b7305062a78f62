//! Numbers, sizes and times as text.

use std::time::Duration;

use crate::model::{Instant, Ru};

/// Stands for a text that may quote a value of a record, wherever others than the mirror's readers could see it.
pub const HIDDEN: &str = "crm-mirror status shows the reason";

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Request units: `1,234 RU`.
pub fn ru(units: Ru) -> String {
    format!("{} RU", count(units.get()))
}

/// Bytes: `512 B`, `1.4 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.96 would be shown as 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A duration in its one or two largest units: `850 ms`, `42 s`, `4 min`, `1 h 20 min`, `3 d 4 h`.
pub fn duration(duration: Duration) -> String {
    let secs = duration.as_secs();
    let two = |large: u64, name: &str, small: u64, small_name: &str| {
        if small == 0 { format!("{large} {name}") } else { format!("{large} {name} {small} {small_name}") }
    };
    match secs {
        0 if duration.is_zero() => "0 s".into(),
        0 => format!("{} ms", duration.as_millis().max(1)),
        1..60 => format!("{secs} s"),
        60..600 => two(secs / 60, "min", secs % 60, "s"),
        600..3600 => format!("{} min", secs / 60),
        3600..86400 => two(secs / 3600, "h", secs % 3600 / 60, "min"),
        _ => two(secs / 86400, "d", secs % 86400 / 3600, "h"),
    }
}

/// When something happened or will happen: `just now`, `4 min ago`, `in 20 s`. Only in the largest unit.
pub fn when(then: Instant, now: Instant) -> String {
    let (past, distance) = if then <= now { (true, now.since(then)) } else { (false, then.since(now)) };
    let secs = distance.as_secs();
    let rough = match secs {
        0..2 => return if past { "just now".into() } else { "now".into() },
        2..60 => format!("{secs} s"),
        60..3600 => format!("{} min", secs / 60),
        3600..86400 => format!("{} h", secs / 3600),
        _ => format!("{} d", secs / 86400),
    };
    if past { format!("{rough} ago") } else { format!("in {rough}") }
}

/// An instant to the second: `2026-01-02 03:04:05 UTC`.
pub fn moment(at: Instant) -> String {
    at.civil().strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `1 row`, `2,000 rows`.
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A word for a shell, quoted where it has to be.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A text that somebody else wrote, on one line, without characters that could control a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(plain_char).collect()
}

/// The character that such a text has in place of this one.
pub fn plain_char(c: char) -> char {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(ru(Ru::new(10_000)), "10,000 RU");
        assert!(count(u64::MAX).starts_with("18,446,"));
    }

    #[test]
    fn sizes_have_one_decimal() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_468_006, "1.4 MiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (millis, text) in [
            (0, "0 s"),
            (850, "850 ms"),
            (42_900, "42 s"),
            (60_000, "1 min"),
            (95_000, "1 min 35 s"),
            (1_200_000, "20 min"),
            (4_800_000, "1 h 20 min"),
            (86_400_000, "1 d"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn times_are_relative_to_now() {
        let now: Instant = "2026-01-02T03:04:05Z".parse().unwrap();
        let secs = Duration::from_secs;
        for (then, text) in [
            (now, "just now"),
            (now.minus(secs(59)), "59 s ago"),
            (now.minus(secs(250)), "4 min ago"),
            (now.minus(secs(200_000)), "2 d ago"),
            (now.plus(secs(1)), "now"),
            (now.plus(secs(20)), "in 20 s"),
            (now.plus(secs(7300)), "in 2 h"),
        ] {
            assert_eq!(when(then, now), text);
        }
    }

    #[test]
    fn shell_words_are_quoted_where_they_have_to_be() {
        assert_eq!(shell_word("/etc/x.toml"), "/etc/x.toml");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }
}
