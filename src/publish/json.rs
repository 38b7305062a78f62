//! Converts JSON documents to what `jsonb` can store.
//!
//! `jsonb` refuses U+0000, unpaired surrogates and numbers with more digits than `numeric` has. Such a value becomes an
//! object with one member, [`ESCAPED`], whose text is the value's JSON; in the name of a member the escape sequence is
//! written out. Everything else keeps its source text.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// The member for the JSON of a value that PostgreSQL cannot store.
pub(super) const ESCAPED: &str = "crm_mirror_escaped";

/// The maximum number of digits, exponent included: `numeric` has 16,383 digits after the point.
const MAX_DIGITS: i64 = 16_000;

/// The document in a form that `jsonb` accepts; `None` for a text that is not JSON.
pub(super) fn storable(text: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<&RawValue>(text).ok()?;
    let mut out: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let (end, replacement) = match bytes[at] {
            b'"' => {
                let end = end_of_string(bytes, at);
                let is_name = text[end..].trim_start().starts_with(':');
                (end, string(&text[at..end], is_name))
            }
            b'-' | b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|b| is_of_number(**b)).count();
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

/// The replacement of a value that cannot be stored.
pub(super) fn escaped(source: &str) -> String {
    format!("{{\"{ESCAPED}\":{}}}", quoted(source))
}

/// A document without line breaks; `None` for a text that is not JSON.
pub(super) fn on_one_line(text: &str) -> Option<String> {
    serde_json::from_str::<&RawValue>(text).ok()?;
    // Within strings, line breaks are escaped.
    Some(text.replace(['\n', '\r'], " "))
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

const fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

fn number_fits(source: &str) -> bool {
    let (digits, exponent) = source.split_once(['e', 'E']).unwrap_or((source, "0"));
    exponent.parse::<i64>().is_ok_and(|e| e.saturating_abs().saturating_add(digits.len() as i64) <= MAX_DIGITS)
}

/// The replacement of a string that cannot be stored, with its quotes.
fn string(source: &str, is_name: bool) -> Option<String> {
    if !source.contains("\\u") {
        return None;
    }
    // serde refuses unpaired surrogates too.
    let fits = serde_json::from_str::<String>(source).is_ok_and(|text| !text.contains('\0'));
    if fits {
        return None;
    }
    Some(if is_name { source.replace("\\u", "\\\\u") } else { escaped(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_jsonb_accepts_is_unchanged() {
        for text in ["null", "[]", r#"{"a":[1.10,-0,1e3,"é\n\\u0000",{"b":"😀"}]}"#, "\"\\ud83d\\ude00\"", " 7 "] {
            assert!(matches!(storable(text), Some(Cow::Borrowed(_))), "{text}");
        }
        assert_eq!(storable("{"), None);
    }

    #[test]
    fn json_that_jsonb_refuses_is_kept_as_source_text() {
        for (text, expected) in [
            (r#""a\u0000b""#, r#"{"crm_mirror_escaped":"\"a\\u0000b\""}"#),
            (r#"["x","\ud800"]"#, r#"["x",{"crm_mirror_escaped":"\"\\ud800\""}]"#),
            (r#"{"n":1e99999,"m":2}"#, r#"{"n":{"crm_mirror_escaped":"1e99999"},"m":2}"#),
            (r#"{"a\u0000" : 1}"#, r#"{"a\\u0000" : 1}"#),
        ] {
            assert_eq!(storable(text).unwrap(), expected);
            assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
        }
    }
}
