//! What one answer holds for one field, and the lossless conversion of JSON values to column values.
//!
//! Values are read from their source text ([`RawValue`]), never through a parsed number: a decimal keeps its digits, an
//! integer beyond 64 bits is detected, and what does not fit goes to `extra` verbatim.

use std::borrow::Cow;

use compact_str::CompactString;
use serde_json::value::RawValue;

use super::catalogue::FieldKind;
use super::custom::DataType;
use super::decimal;
use super::instant::Instant;

#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// The projection does not contain the field. A list page never clears a value that only details contain.
    Absent,
    /// A list has null in place of all fields of the group. It may omit them, so the column stays as it is: in doubt, if it
    /// has a value.
    Omitted,
    Null,
    Exact(SqlValue),
    /// The closest value that the column can hold (of a finer timestamp, for example); the whole value goes to `extra`.
    Truncated(SqlValue),
    /// A detail has null in place of all fields of the group: the column is NULL, and what the service has is unknown.
    Withheld,
    /// The value does not fit the column: it goes verbatim into `extra` and the column is NULL.
    Unrepresentable,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    Null,
    /// INTEGER; booleans are 0 and 1.
    Int(i64),
    Real(f64),
    /// TEXT. A short one, as most are, needs no allocation.
    Text(CompactString),
}

impl SqlValue {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            SqlValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl From<&SqlValue> for serde_json::Value {
    fn from(value: &SqlValue) -> serde_json::Value {
        match value {
            SqlValue::Null => serde_json::Value::Null,
            SqlValue::Int(integer) => (*integer).into(),
            SqlValue::Real(real) => (*real).into(),
            SqlValue::Text(text) => text.as_str().into(),
        }
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> SqlValue {
        SqlValue::Text(text.into())
    }
}

/// The text of a JSON string; `None` if the value is none, or has an escape that is no character (a lone surrogate).
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let source = raw.get();
    let [b'"', .., b'"'] = source.as_bytes() else { return None };
    let inner = &source[1..source.len() - 1];
    if inner.contains('\\') {
        serde_json::from_str::<String>(source).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// A value that is there as `read` makes it; `None` does not fit the column.
fn present(raw: &RawValue, read: impl FnOnce(&RawValue) -> Option<FieldValue>) -> FieldValue {
    if raw.get() == "null" { FieldValue::Null } else { read(raw).unwrap_or(FieldValue::Unrepresentable) }
}

fn exact(text: impl Into<CompactString>) -> FieldValue {
    FieldValue::Exact(SqlValue::Text(text.into()))
}

/// A JSON number as a double, if its text is the shortest form of that double.
fn real(source: &str) -> Option<f64> {
    if !source.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    let value: f64 = source.parse().ok()?;
    let shortest = value.to_string();
    (value.is_finite() && (decimal::same_number(source, &shortest) || is_as_short(source, value, &shortest)))
        .then_some(value)
}

/// Whether the text is the other shortest form of the double: if two are equally near, one language writes the upper
/// and another the even one.
fn is_as_short(source: &str, value: f64, shortest: &str) -> bool {
    let Some((_, decimals)) = source.split_once('.') else {
        return false;
    };
    source.len() <= shortest.len()
        && decimals.bytes().all(|b| b.is_ascii_digit())
        && decimal::same_number(source, &format!("{value:.*}", decimals.len()))
}

pub fn standard(kind: FieldKind, raw: &RawValue) -> FieldValue {
    let number = |value| FieldValue::Exact(SqlValue::Int(value));
    present(raw, |raw| match kind {
        FieldKind::Text | FieldKind::Id => string(raw).map(exact),
        // An empty one names no version.
        FieldKind::Etag => string(raw).filter(|etag| !etag.is_empty()).map(exact),
        FieldKind::Instant => {
            let (canonical, is_exact) = Instant::canonical(&string(raw)?).ok()?;
            let value = SqlValue::Text(canonical);
            Some(if is_exact { FieldValue::Exact(value) } else { FieldValue::Truncated(value) })
        }
        // 12.0 and 1e3 are integers in JSON but not in the reference: they are kept verbatim in `extra`.
        FieldKind::Integer => raw.get().parse().ok().filter(|_| raw.get() != "-0").map(number),
        FieldKind::Boolean => raw.get().parse::<bool>().ok().map(|value| number(value.into())),
        FieldKind::Number => real(raw.get()).map(|value| FieldValue::Exact(SqlValue::Real(value))),
        FieldKind::Value { .. } if raw.get().starts_with('"') => string(raw).map(exact),
        FieldKind::Value { .. } | FieldKind::Json => Some(exact(raw.get())),
    })
}

/// Converts a custom value to the form of its column (reference, *Custom values*).
pub fn custom(data_type: DataType, raw: &RawValue) -> FieldValue {
    match data_type {
        DataType::ShortText | DataType::LongText | DataType::SingleSelect => standard(FieldKind::Text, raw),
        DataType::Integer => standard(FieldKind::Integer, raw),
        DataType::Boolean => standard(FieldKind::Boolean, raw),
        DataType::DateTime => standard(FieldKind::Instant, raw),
        DataType::Decimal => present(raw, |raw| string(raw).filter(|text| decimal::is_plain(text)).map(exact)),
        DataType::Date => present(raw, |raw| string(raw).filter(|text| is_date(text)).map(exact)),
        // Stored in one canonical form, so that white space in an answer does not count as a change.
        DataType::MultiSelect => present(raw, |raw| serde_json::to_string(&multi_values(raw.get())?).ok().map(exact)),
        DataType::Unknown => present(raw, |_| None),
    }
}

/// The values of a MULTI_SELECT; `None` if the text is not an array of strings.
pub fn multi_values(source: &str) -> Option<Vec<String>> {
    serde_json::from_str(source).ok()
}

/// Whether two texts of a field are the same value, perhaps in another spelling: of a decimal with other zeros, of a
/// multi-select with its options in another order. The reference promises neither.
pub fn is_same(data_type: DataType, a: &str, b: &str) -> bool {
    let options = |text| {
        let mut options = multi_values(text)?;
        options.sort_unstable();
        Some(options)
    };
    a == b
        || match data_type {
            DataType::Decimal => decimal::same_number(a, b),
            DataType::MultiSelect => options(a).is_some_and(|of_a| options(b).is_some_and(|of_b| of_a == of_b)),
            _ => false,
        }
}

/// Whether the text is a real calendar date, `YYYY-MM-DD`.
pub fn is_date(text: &str) -> bool {
    text.len() == 10 && text.as_bytes()[4] == b'-' && text.parse::<jiff::civil::Date>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(source: &str) -> Box<RawValue> {
        RawValue::from_string(source.to_string()).unwrap()
    }

    #[test]
    fn standard_values_are_exact_truncated_or_unrepresentable() {
        let text = |t: &str| FieldValue::Exact(SqlValue::from(t));
        let value = FieldKind::Value { num: true };
        let midway = 154_674_262_860.0 + 0.640_625;
        for (kind, source, expected) in [
            (FieldKind::Text, r#""a\u00e9""#, text("aé")),
            (FieldKind::Text, r#""\ud800""#, FieldValue::Unrepresentable),
            (FieldKind::Text, "12", FieldValue::Unrepresentable),
            (FieldKind::Text, r#""""#, text("")),
            (FieldKind::Integer, "12", FieldValue::Exact(SqlValue::Int(12))),
            (FieldKind::Integer, "-9223372036854775808", FieldValue::Exact(SqlValue::Int(i64::MIN))),
            (FieldKind::Integer, "1180591620717411303424", FieldValue::Unrepresentable),
            (FieldKind::Integer, "12.0", FieldValue::Unrepresentable),
            (FieldKind::Integer, r#""12""#, FieldValue::Unrepresentable),
            (FieldKind::Boolean, "true", FieldValue::Exact(SqlValue::Int(1))),
            (FieldKind::Boolean, "1", FieldValue::Unrepresentable),
            (FieldKind::Number, "0.1", FieldValue::Exact(SqlValue::Real(0.1))),
            (FieldKind::Number, "87", FieldValue::Exact(SqlValue::Real(87.0))),
            (FieldKind::Number, "0.10000000000000000001", FieldValue::Unrepresentable),
            (FieldKind::Number, "154674262860.64062", FieldValue::Exact(SqlValue::Real(midway))),
            (FieldKind::Number, "154674262860.64063", FieldValue::Exact(SqlValue::Real(midway))),
            (FieldKind::Number, "1e-400", FieldValue::Unrepresentable),
            (FieldKind::Number, "9007199254740993", FieldValue::Unrepresentable),
            (FieldKind::Number, "1e400", FieldValue::Unrepresentable),
            (FieldKind::Number, r#""87""#, FieldValue::Unrepresentable),
            (value, "1.10", text("1.10")),
            (value, r#""about 5M""#, text("about 5M")),
            (value, r#"{"amount":1.10}"#, text(r#"{"amount":1.10}"#)),
            (FieldKind::Instant, r#""2026-01-02T03:04:05Z""#, text("2026-01-02T03:04:05.000000Z")),
            (
                FieldKind::Instant,
                r#""2026-01-02T03:04:05.1234567Z""#,
                FieldValue::Truncated(SqlValue::from("2026-01-02T03:04:05.123456Z")),
            ),
            (FieldKind::Instant, r#""yesterday""#, FieldValue::Unrepresentable),
            (FieldKind::Instant, "null", FieldValue::Null),
        ] {
            assert_eq!(standard(kind, &raw(source)), expected, "{kind:?} {source}");
        }
    }

    #[test]
    fn custom_values_are_exact_truncated_or_unrepresentable() {
        let text = |t: &str| FieldValue::Exact(SqlValue::from(t));
        let widest = "-99999999999999999999.9999999999";
        for (data_type, source, expected) in [
            (DataType::Decimal, format!("\"{widest}\""), text(widest)),
            (DataType::Decimal, "1.5".into(), FieldValue::Unrepresentable),
            (DataType::Decimal, "\"abc\"".into(), FieldValue::Unrepresentable),
            (DataType::Date, "\"2024-02-29\"".into(), text("2024-02-29")),
            (DataType::Date, "\"2023-02-29\"".into(), FieldValue::Unrepresentable),
            (DataType::MultiSelect, r#"[ "a", "b" ]"#.into(), text(r#"["a","b"]"#)),
            (DataType::MultiSelect, r#"["a", 1]"#.into(), FieldValue::Unrepresentable),
            (DataType::Integer, "9223372036854775808".into(), FieldValue::Unrepresentable),
            (DataType::Boolean, "false".into(), FieldValue::Exact(SqlValue::Int(0))),
            (DataType::Unknown, "\"x\"".into(), FieldValue::Unrepresentable),
            (DataType::LongText, "null".into(), FieldValue::Null),
        ] {
            assert_eq!(custom(data_type, &raw(&source)), expected, "{data_type:?} {source}");
        }
    }
}
