//! Converts a value of the mirror to PostgreSQL's text form.
//!
//! `jsonb` refuses U+0000, unpaired surrogates and numbers with more digits than `numeric` has. Such a value becomes an
//! object with one member, [`ESCAPED`], whose text is the value's JSON; in the name of a member the escape sequence is
//! written out. Everything else keeps its source text.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::tables::PgType;
use crate::model::field_value::is_date;
use crate::model::{Instant, SqlValue, decimal};

/// The maximum length of an indexed text, in bytes: a B-tree entry has at most 2,704.
const MAX_INDEXED: usize = 2_000;

/// The text form of a value that is not NULL; `None` if it does not fit. `is_indexed` bounds the length of a text.
pub(super) fn stored(value: &SqlValue, pg_type: PgType, is_indexed: bool) -> Option<Cow<'_, str>> {
    let text = |text: String| Some(Cow::Owned(text));
    match (pg_type, value) {
        (PgType::Text, SqlValue::Text(t)) => {
            (!t.contains('\0') && (!is_indexed || t.len() <= MAX_INDEXED)).then_some(Cow::Borrowed(t))
        }
        (PgType::Text, SqlValue::Real(r)) => text(r.to_string()),
        (PgType::Text | PgType::Bigint | PgType::Numeric | PgType::DoublePrecision, SqlValue::Int(i)) => {
            text(i.to_string())
        }
        (PgType::Numeric, SqlValue::Text(t)) if decimal::is_plain(t) && t.len() < 1_000 => Some(Cow::Borrowed(t)),
        (PgType::Boolean, SqlValue::Int(0)) => Some(Cow::Borrowed("f")),
        (PgType::Boolean, SqlValue::Int(1)) => Some(Cow::Borrowed("t")),
        (PgType::DoublePrecision, SqlValue::Real(r)) if r.is_finite() => text(format!("{r:?}")),
        // In the mirror's form, which has no years that PostgreSQL does not support.
        (PgType::Timestamptz, SqlValue::Text(t)) => {
            Instant::canonical(t).is_ok_and(|(own, _)| own == *t).then_some(Cow::Borrowed(t))
        }
        (PgType::Date, SqlValue::Text(t)) if is_date(t) && !t.starts_with("0000") => Some(Cow::Borrowed(t)),
        (PgType::Jsonb, SqlValue::Text(t)) => escaping(t, |text| !text.contains('\0'), number_fits),
        _ => None,
    }
}

/// A key in a form that PostgreSQL can store: U+0000 is written as an escape sequence.
pub(super) fn key(text: &str) -> String {
    text.replace('\0', "\\u0000")
}

/// The longest value that stays in its row, in bytes: a value that cannot be compressed to this is stored elsewhere,
/// and the row has a pointer, which is shorter.
pub(super) const MAX_STORED: usize = 24;

/// The bytes that a value has in its row if the row is full, and the boundary that it begins at.
pub(super) fn stored_bytes(text: &str, pg_type: PgType) -> (usize, usize) {
    match pg_type {
        PgType::Bigint | PgType::DoublePrecision | PgType::Timestamptz => (8, 8),
        PgType::Date => (4, 4),
        PgType::Boolean => (1, 1),
        PgType::Text if text.len() < MAX_STORED => (text.len() + 1, 1),
        PgType::Numeric if text.len() < MAX_STORED => (7 + text.len() / 2, 1),
        PgType::Text | PgType::Numeric | PgType::Jsonb => (MAX_STORED, 4),
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The JSON of a value or a text, in the form of `extra`.
pub(super) fn json(value: impl Into<serde_json::Value>) -> String {
    value.into().to_string()
}

/// The member for the JSON of a value that PostgreSQL cannot store.
pub(super) const ESCAPED: &str = "crm_mirror_escaped";

/// The maximum number of digits, exponent included: `numeric` has 16,383 digits after the point.
const MAX_DIGITS: i64 = 16_000;

/// The document with strings and numbers escaped that do not fit, and unpaired surrogates; `None` if it is no JSON.
fn escaping(
    text: &str,
    string_fits: impl Fn(&str) -> bool,
    number_fits: impl Fn(&str) -> bool,
) -> Option<Cow<'_, str>> {
    serde_json::from_str::<&RawValue>(text).ok()?;
    let mut out: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let (end, replacement) = match bytes[at] {
            b'"' => {
                let end = end_of_string(bytes, at);
                let is_name = text[end..].trim_start().starts_with(':');
                (end, string(&text[at..end], is_name, &string_fits))
            }
            b'-' | b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|b| b"+-.eE0123456789".contains(b)).count();
                (end, (!number_fits(&text[at..end])).then(|| escaped(&text[at..end])))
            }
            _ => (at + 1, None),
        };
        if let Some(replacement) = replacement {
            let out = out.get_or_insert_default();
            out.push_str(&text[copied..at]);
            out.push_str(&replacement);
            copied = end;
        }
        at = end;
    }
    Some(match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
    })
}

pub(super) fn escaped(source: &str) -> String {
    format!("{{\"{ESCAPED}\":{}}}", json(source))
}

/// A document without line breaks, and without unpaired surrogates, which many parsers refuse.
pub(super) fn on_one_line(text: &str) -> Option<String> {
    // Within strings, line breaks are escaped.
    Some(escaping(text, |_| true, |_| true)?.replace(['\n', '\r'], " "))
}

fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn number_fits(source: &str) -> bool {
    let (digits, exponent) = source.split_once(['e', 'E']).unwrap_or((source, "0"));
    exponent.parse::<i64>().is_ok_and(|e| e.saturating_abs().saturating_add(digits.len() as i64) <= MAX_DIGITS)
}

/// The replacement of a string that cannot be stored, with its quotes.
fn string(source: &str, is_name: bool, fits: impl Fn(&str) -> bool) -> Option<String> {
    if !source.contains("\\u") {
        return None;
    }
    // serde refuses unpaired surrogates too.
    if serde_json::from_str::<String>(source).is_ok_and(|text| fits(&text)) {
        return None;
    }
    Some(if is_name { source.replace("\\u", "\\\\u") } else { escaped(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stored_exactly_or_not_at_all() {
        let text = |text: &str| SqlValue::from(text);
        for (value, pg_type, expected) in [
            (text("a\tb"), PgType::Text, Some("a\tb")),
            (text("a\0b"), PgType::Text, None),
            (SqlValue::Int(i64::MIN), PgType::Bigint, Some("-9223372036854775808")),
            (SqlValue::Int(1), PgType::Boolean, Some("t")),
            (SqlValue::Int(2), PgType::Boolean, None),
            (text("99999999999999999999.9999999999"), PgType::Numeric, Some("99999999999999999999.9999999999")),
            (text("1e5"), PgType::Numeric, None),
            (SqlValue::Real(1e308), PgType::DoublePrecision, Some("1e308")),
            (text("9999-12-31T23:59:59.999999Z"), PgType::Timestamptz, Some("9999-12-31T23:59:59.999999Z")),
            (text("0000-01-01T00:00:00.000000Z"), PgType::Timestamptz, None),
            (text("2026-13-01T00:00:00.000000Z"), PgType::Timestamptz, None),
            (text("0000-01-01"), PgType::Date, None),
            (text("2024-02-29"), PgType::Date, Some("2024-02-29")),
            (text("[\"a\"]"), PgType::Jsonb, Some("[\"a\"]")),
            (text("["), PgType::Jsonb, None),
            (text("{"), PgType::Jsonb, None),
        ] {
            assert_eq!(stored(&value, pg_type, false).as_deref(), expected, "{value:?}");
        }
        assert_eq!(stored(&text(&"x".repeat(3_000)), PgType::Text, true), None);
    }

    #[test]
    fn keys_can_be_stored() {
        assert_eq!(key("c_1"), "c_1");
        assert_eq!(key("c\0"), "c\\u0000");
    }

    #[test]
    fn json_that_jsonb_accepts_is_unchanged() {
        for text in ["null", "[]", r#"{"a":[1.10,-0,1e3,"é\n\\u0000",{"b":"😀"}]}"#, "\"\\ud83d\\ude00\"", " 7 "] {
            assert!(matches!(stored(&SqlValue::from(text), PgType::Jsonb, false), Some(Cow::Borrowed(_))), "{text}");
        }
    }

    #[test]
    fn json_that_jsonb_refuses_is_kept_as_source_text() {
        for (text, expected) in [
            (r#""a\u0000b""#, r#"{"crm_mirror_escaped":"\"a\\u0000b\""}"#),
            (r#"["x","\ud800"]"#, r#"["x",{"crm_mirror_escaped":"\"\\ud800\""}]"#),
            (r#"{"n":1e99999,"m":2}"#, r#"{"n":{"crm_mirror_escaped":"1e99999"},"m":2}"#),
            (r#"{"a\u0000" : 1}"#, r#"{"a\\u0000" : 1}"#),
        ] {
            assert_eq!(stored(&SqlValue::from(text), PgType::Jsonb, false).unwrap(), expected);
            // A stream escapes only what is no Unicode.
            let in_stream = if text.contains("ud800") { expected } else { text };
            assert_eq!(on_one_line(text).unwrap(), in_stream);
            assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
        }
    }
}
