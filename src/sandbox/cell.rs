//! One value of a record, compact enough for hundreds of thousands of records.
//!
//! A missing value has no cell. A timestamp in the service's usual form is stored as an instant and written back in
//! that form; any other spelling is stored as text, so a test controls an answer byte for byte.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{FieldKind, Instant, decimal};

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

/// The value by which a row is sorted by a field of this kind; `None`, which comes last in both directions, if it has none
/// of that kind.
pub(crate) fn sort_key(cell: Option<&Cell>, kind: FieldKind) -> Option<Cell> {
    let is_sorted = |cell: &&Cell| match kind {
        FieldKind::Instant => cell.time().is_some(),
        FieldKind::Integer | FieldKind::Number => cell.number().is_some(),
        _ => cell.text().is_some(),
    };
    cell.filter(is_sorted).cloned()
}

/// Orders the keys of two rows.
pub(crate) fn compare(a: Option<&Cell>, b: Option<&Cell>, kind: FieldKind, descending: bool) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return a.is_none().cmp(&b.is_none()) };
    let order = match kind {
        FieldKind::Instant => a.time().cmp(&b.time()),
        FieldKind::Integer | FieldKind::Number => {
            let order = a.number().zip(b.number()).and_then(|(a, b)| decimal::compare(&a, &b));
            order.unwrap_or(Ordering::Equal)
        }
        _ => a.text().cmp(&b.text()),
    };
    if descending { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_thirty_digits_are_numbers_whatever_holds_them() {
        let text = "99999999999999999999.9999999999";
        let below = Cell::Text("99999999999999999999.9999999998".into());
        for cell in [Cell::Source(text.into()), Cell::Text(text.into())] {
            assert_eq!(cell.number().as_deref(), Some(text));
            let key = sort_key(Some(&cell), FieldKind::Number);
            assert_eq!(compare(key.as_ref(), Some(&below), FieldKind::Number, false), Ordering::Greater);
        }
        assert_eq!(Cell::Text("no number".into()).number(), None);
    }
}
