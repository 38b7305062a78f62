//! Regular expressions, removal of accents, and similarity of texts.

use regex::{Regex, RegexBuilder};
use rusqlite::{Connection, Error, Result};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::{FLAGS, text, wrong};

/// The size limit of a compiled pattern in bytes. The time of a search is linear in the text for any pattern.
const LARGEST_PATTERN: usize = 1 << 20;

/// The number of compared characters: the time grows with the product of both lengths.
const COMPARED: usize = 1_000;

pub(super) fn register(conn: &Connection) -> Result<()> {
    conn.create_scalar_function("regexp", 2, FLAGS, |context| {
        let (Some(pattern), Some(searched)) = (text(context, 0)?, text(context, 1)?) else {
            return Ok(None);
        };
        // A pattern that is the same for all rows is compiled once.
        let compiled = context.get_or_create_aux(0, |_| -> Result<Regex, Error> {
            let built = RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build();
            built.map_err(|error| wrong(format!("regexp: {error}")))
        })?;
        Ok(Some(compiled.is_match(searched)))
    })?;
    conn.create_scalar_function("unaccent", 1, FLAGS, |context| Ok(text(context, 0)?.map(unaccent)))?;
    conn.create_scalar_function("similarity", 2, FLAGS, |context| {
        let (Some(a), Some(b)) = (text(context, 0)?, text(context, 1)?) else {
            return Ok(None);
        };
        let plain = |text: &str| -> String { unaccent(text).to_lowercase().chars().take(COMPARED).collect() };
        Ok(Some(strsim::jaro_winkler(plain(a).trim(), plain(b).trim())))
    })
}

/// A text without accents; letters with a stroke and ligatures become plain letters.
fn unaccent(text: &str) -> String {
    if text.is_ascii() {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.nfd().filter(|c| !is_combining_mark(*c)) {
        match c {
            'ß' => plain.push_str("ss"),
            'ẞ' => plain.push_str("SS"),
            'æ' => plain.push_str("ae"),
            'Æ' => plain.push_str("AE"),
            'œ' => plain.push_str("oe"),
            'Œ' => plain.push_str("OE"),
            'þ' => plain.push_str("th"),
            'Þ' => plain.push_str("Th"),
            'ø' => plain.push('o'),
            'Ø' => plain.push('O'),
            'ł' => plain.push('l'),
            'Ł' => plain.push('L'),
            'đ' | 'ð' => plain.push('d'),
            'Đ' | 'Ð' => plain.push('D'),
            'ı' => plain.push('i'),
            other => plain.push(other),
        }
    }
    // Composes Korean syllables and similar characters again.
    plain.nfc().collect()
}

#[cfg(test)]
mod tests {
    use crate::store::read::functions::tests::ask;

    #[test]
    fn patterns_are_searched_in_texts() {
        for (sql, found) in [
            ("'ada@example.com' REGEXP '@example[.](com|org)$'", "1"),
            ("'Ada' REGEXP '^ada$'", "0"),
            ("'Ada' REGEXP '(?i)^ada$'", "1"),
            ("regexp('\\p{Han}{2}', '東京')", "1"),
            ("sum(column1 REGEXP column2) FROM (VALUES ('a', 'a'), ('b', 'a'), ('b', 'b'))", "2"),
        ] {
            assert_eq!(ask(sql).unwrap().unwrap(), found, "{sql}");
        }
        for sql in ["'a' REGEXP '('", "'a' REGEXP '(((a{1000}){1000}){1000})'", "1 REGEXP '1'"] {
            assert!(ask(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn accents_are_left_out() {
        for (given, plain) in
            [("Müller-Łódź", "Muller-Lodz"), ("Straße", "Strasse"), ("東京 한국", "東京 한국"), ("", "")]
        {
            assert_eq!(ask(&format!("unaccent('{given}')")).unwrap().unwrap(), plain);
        }
    }

    #[test]
    fn texts_that_are_alike_are_near_one() {
        let similarity =
            |a: &str, b: &str| -> f64 { ask(&format!("similarity('{a}', '{b}')")).unwrap().unwrap().parse().unwrap() };
        assert_eq!(similarity("Müller", "muller "), 1.0);
        assert!(similarity("Acme Corporation", "Acme Corp") > 0.9);
        assert!(similarity("Acme", "Zenith") < 0.6);
        assert!((0.0..=1.0).contains(&similarity("", "x")));
    }
}
