//! One value of a record, compact enough for hundreds of thousands of records.
//!
//! A missing value has no cell. A timestamp in the service's usual form is stored as an instant and written back in
//! that form; any other spelling is stored as text, so a test controls an answer byte for byte.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Instant, decimal};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    /// A text, or one that is part of the program: the generator repeats a few words many times.
    Text(Cow<'static, str>),
    Time(Instant),
    /// A version token: the text of an instant in double quotes, which are part of the value.
    Etag(Instant),
    List(Box<[Box<str>]>),
    /// Any other JSON, as its source text.
    Source(Box<str>),
}

impl Cell {
    /// Converts a JSON value; `None` for null. With `time`, a text in the usual form becomes an instant.
    pub(crate) fn from_json(value: &Value, time: bool) -> Option<Cell> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(flag) => Cell::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Cell::Int(integer),
                None => Cell::Source(number.to_string().into()),
            },
            Value::String(text) => match text.parse::<Instant>() {
                Ok(instant) if time && instant.to_wire() == *text => Cell::Time(instant),
                _ => Cell::Text(text.clone().into()),
            },
            Value::Array(items) if items.iter().all(Value::is_string) => {
                Cell::List(items.iter().filter_map(Value::as_str).map(Box::from).collect())
            }
            other => Cell::Source(other.to_string().into()),
        })
    }

    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Cell::Text(text) => Some(Cow::Borrowed(text)),
            Cell::Time(instant) => Some(Cow::Owned(instant.to_wire())),
            Cell::Etag(instant) => Some(Cow::Owned(format!("\"{}\"", instant.to_wire()))),
            _ => None,
        }
    }

    /// The instant, if the value is the text of one.
    pub(crate) fn time(&self) -> Option<Instant> {
        match self {
            Cell::Time(instant) => Some(*instant),
            Cell::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The text of a number; decimals are strings on the wire, so it may be a text.
    pub(crate) fn number(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            Cell::Int(integer) => Cow::Owned(integer.to_string()),
            Cell::Text(text) => Cow::Borrowed(&**text),
            Cell::Source(text) => Cow::Borrowed(&**text),
            _ => return None,
        };
        decimal::compare(&text, "0").map(|_| text)
    }

    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Cell::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Cell::Int(integer) => out.push_str(&integer.to_string()),
            Cell::Source(source) => out.push_str(source),
            Cell::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    write_text(item, out);
                }
                out.push(']');
            }
            Cell::Text(_) | Cell::Time(_) | Cell::Etag(_) => write_text(&self.text().unwrap_or_default(), out),
        }
    }
}

pub(crate) fn write_text(text: &str, out: &mut String) {
    if text.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        out.push_str(&Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// The sort key of one row for one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SortKey {
    #[serde(rename = "-")]
    Null,
    #[serde(rename = "t")]
    Time(Instant),
    #[serde(rename = "n")]
    Number(String),
    #[serde(rename = "s")]
    Text(String),
}

impl SortKey {
    pub(crate) fn of(cell: Option<&Cell>, time: bool, number: bool) -> SortKey {
        let Some(cell) = cell else { return SortKey::Null };
        if time {
            cell.time().map_or(SortKey::Null, SortKey::Time)
        } else if number {
            cell.number().map_or(SortKey::Null, |n| SortKey::Number(n.into_owned()))
        } else {
            cell.text().map_or(SortKey::Null, |t| SortKey::Text(t.into_owned()))
        }
    }

    /// Orders two keys. Nulls come last in both directions.
    pub(crate) fn compare(&self, other: &SortKey, descending: bool) -> Ordering {
        let order = match (self, other) {
            (SortKey::Null, SortKey::Null) => return Ordering::Equal,
            (SortKey::Null, _) => return Ordering::Greater,
            (_, SortKey::Null) => return Ordering::Less,
            (SortKey::Time(a), SortKey::Time(b)) => a.cmp(b),
            (SortKey::Text(a), SortKey::Text(b)) => a.cmp(b),
            (SortKey::Number(a), SortKey::Number(b)) => decimal::compare(a, b).unwrap_or(Ordering::Equal),
            // A field has one type; a cursor with another type did not come from the sandbox.
            _ => Ordering::Equal,
        };
        if descending { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_thirty_digits_are_numbers_whatever_holds_them() {
        let text = "99999999999999999999.9999999999";
        let below = SortKey::Number("99999999999999999999.9999999998".into());
        for cell in [Cell::Source(text.into()), Cell::Text(text.into())] {
            assert_eq!(cell.number().as_deref(), Some(text));
            assert_eq!(SortKey::of(Some(&cell), false, true).compare(&below, false), Ordering::Greater);
        }
        assert_eq!(Cell::Text("no number".into()).number(), None);
    }
}
