//! Converts a value of the mirror to PostgreSQL's text form.

use std::borrow::Cow;

use super::json;
use super::tables::PgType;
use crate::model::decimal;
use crate::model::field_value::{SqlValue, is_date};

/// The maximum length of an indexed text, in bytes: a B-tree entry has at most 2,704, and a key has up to four columns.
const MAX_INDEXED: usize = 2_000;
pub(super) const MAX_KEY: usize = 600;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PgValue<'a> {
    Null,
    /// The text that PostgreSQL parses as the value.
    Text(Cow<'a, str>),
    /// PostgreSQL cannot store it in this column.
    Unfit,
}

/// Converts a value for a column of a type. `is_indexed` bounds the length of a text.
pub(super) fn stored(value: &SqlValue, pg_type: PgType, is_indexed: bool) -> PgValue<'_> {
    let text = |text: String| PgValue::Text(Cow::Owned(text));
    match (pg_type, value) {
        (_, SqlValue::Null) => PgValue::Null,
        (PgType::Text, SqlValue::Text(t)) if t.contains('\0') || is_indexed && t.len() > MAX_INDEXED => PgValue::Unfit,
        (PgType::Text, SqlValue::Text(t)) => PgValue::Text(Cow::Borrowed(t)),
        (PgType::Text, SqlValue::Int(i)) => text(i.to_string()),
        (PgType::Text, SqlValue::Real(r)) => text(r.to_string()),
        (PgType::Bigint | PgType::Numeric, SqlValue::Int(i)) => text(i.to_string()),
        (PgType::Numeric, SqlValue::Text(t)) if decimal::is_plain(t) && t.len() < 1_000 => {
            PgValue::Text(Cow::Borrowed(t))
        }
        (PgType::Boolean, SqlValue::Int(0)) => PgValue::Text(Cow::Borrowed("f")),
        (PgType::Boolean, SqlValue::Int(1)) => PgValue::Text(Cow::Borrowed("t")),
        (PgType::DoublePrecision, SqlValue::Real(r)) if r.is_finite() => text(format!("{r:?}")),
        (PgType::DoublePrecision, SqlValue::Int(i)) => text(i.to_string()),
        (PgType::Timestamptz, SqlValue::Text(t)) if is_timestamp(t) => PgValue::Text(Cow::Borrowed(t)),
        (PgType::Date, SqlValue::Text(t)) if is_date(t) && !t.starts_with("0000") => PgValue::Text(Cow::Borrowed(t)),
        (PgType::Jsonb, SqlValue::Text(t)) => json::storable(t).map_or(PgValue::Unfit, PgValue::Text),
        _ => PgValue::Unfit,
    }
}

/// Whether a text is a timestamp in the mirror's form, in a year that PostgreSQL supports.
fn is_timestamp(text: &str) -> bool {
    let Some(civil) = text.strip_suffix('Z').filter(|civil| civil.len() == 26 && !civil.starts_with("0000")) else {
        return false;
    };
    civil.parse::<jiff::civil::DateTime>().is_ok()
}

/// A key in a form that PostgreSQL can index: U+0000 is written as an escape sequence, and a key that is too long is
/// cut and ends with its digest.
pub(super) fn key(text: &str) -> Cow<'_, str> {
    let plain: Cow<'_, str> = if text.contains('\0') { text.replace('\0', "\\u0000").into() } else { text.into() };
    if plain.len() <= MAX_KEY {
        return plain;
    }
    let cut = (0..=MAX_KEY - 80).rev().find(|at| plain.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…{}", &plain[..cut], digest(text.as_bytes())).into()
}

/// The longest value that stays in its row, in bytes: a value that cannot be compressed to this is stored elsewhere, and the
/// row has a pointer, which is shorter.
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

/// Whether a published key may be one that was cut.
pub(super) fn is_cut(text: &str) -> bool {
    text.len() > MAX_KEY - 100 && text.contains('…')
}

pub(super) fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The JSON of a value, in the form of `extra`.
pub(super) fn source(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => "null".into(),
        SqlValue::Int(i) => i.to_string(),
        SqlValue::Real(r) => format!("{r:?}"),
        SqlValue::Text(text) => json::quoted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stored_exactly_or_not_at_all() {
        let text = |text: &str| SqlValue::from(text);
        for (value, pg_type, expected) in [
            (SqlValue::Null, PgType::Date, PgValue::Null),
            (text("a\tb"), PgType::Text, PgValue::Text("a\tb".into())),
            (text("a\0b"), PgType::Text, PgValue::Unfit),
            (SqlValue::Int(i64::MIN), PgType::Bigint, PgValue::Text("-9223372036854775808".into())),
            (SqlValue::Int(1), PgType::Boolean, PgValue::Text("t".into())),
            (SqlValue::Int(2), PgType::Boolean, PgValue::Unfit),
            (
                text("99999999999999999999.9999999999"),
                PgType::Numeric,
                PgValue::Text("99999999999999999999.9999999999".into()),
            ),
            (text("1e5"), PgType::Numeric, PgValue::Unfit),
            (SqlValue::Real(1e308), PgType::DoublePrecision, PgValue::Text("1e308".into())),
            (
                text("9999-12-31T23:59:59.999999Z"),
                PgType::Timestamptz,
                PgValue::Text("9999-12-31T23:59:59.999999Z".into()),
            ),
            (text("0000-01-01T00:00:00.000000Z"), PgType::Timestamptz, PgValue::Unfit),
            (text("2026-13-01T00:00:00.000000Z"), PgType::Timestamptz, PgValue::Unfit),
            (text("0000-01-01"), PgType::Date, PgValue::Unfit),
            (text("2024-02-29"), PgType::Date, PgValue::Text("2024-02-29".into())),
            (text("[\"a\"]"), PgType::Jsonb, PgValue::Text("[\"a\"]".into())),
            (text("["), PgType::Jsonb, PgValue::Unfit),
        ] {
            assert_eq!(stored(&value, pg_type, false), expected, "{value:?}");
        }
        assert_eq!(stored(&text(&"x".repeat(3_000)), PgType::Text, true), PgValue::Unfit);
    }

    #[test]
    fn keys_stay_short_and_different() {
        assert_eq!(key("c_1"), "c_1");
        assert_eq!(key("c\0"), "c\\u0000");
        let (one, other) = (format!("{}é1", "x".repeat(1_000)), format!("{}é2", "x".repeat(1_000)));
        assert!(key(&one) != key(&other) && key(&one).len() <= MAX_KEY);
    }
}
