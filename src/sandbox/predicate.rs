//! Conditions on records: how a filter's value is parsed, and whether a record meets it (*List query conventions*); host
//! names as the domain filter compares them (*GET /companies*, domain filter rule).

use std::cmp::Ordering;

use super::table::{Cell, WorldRecord};
use crate::model::{DataType, FieldKind, Instant, Op, decimal, field_value};

/// The maximum number of characters of a text predicate (*Limits*).
pub(crate) const MAX_TEXT: usize = 320;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionTarget {
    /// A standard field, by slot.
    Standard(usize),
    /// A custom field, by the definition's index.
    Custom(u32),
    Domain,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Missing(bool),
    Flag(bool),
    OneOf(Vec<String>),
    AnyOf(Vec<String>),
    /// Lower-case text that the value contains, ignoring case.
    Holds(String),
    Time(Op, Instant),
    Number(Op, String),
    Date(Op, String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) target: ConditionTarget,
    pub(crate) test: Test,
}

/// The type that a standard field is compared as.
pub(crate) fn type_of(kind: FieldKind) -> DataType {
    match kind {
        FieldKind::Boolean => DataType::Boolean,
        FieldKind::Integer => DataType::Integer,
        FieldKind::Number => DataType::Decimal,
        FieldKind::Instant => DataType::DateTime,
        FieldKind::Id | FieldKind::Text | FieldKind::Etag | FieldKind::Value { .. } | FieldKind::Json => {
            DataType::ShortText
        }
    }
}

/// Parses a filter's value; the error says what is wrong with it.
pub(crate) fn test(data_type: DataType, op: Op, value: &str) -> Result<Test, String> {
    match (op, data_type) {
        (Op::IsNull, _) => flag(value).map(Test::Missing),
        (Op::In, _) => list(value).map(Test::OneOf),
        (Op::HasAny, _) => list(value).map(Test::AnyOf),
        (Op::Contains, _) => phrase(value).map(|text| Test::Holds(text.to_lowercase())),
        (_, DataType::Boolean) => flag(value).map(Test::Flag),
        (_, DataType::Integer) => match value.parse::<i64>() {
            Ok(integer) if !value.starts_with('+') => Ok(Test::Number(op, integer.to_string())),
            _ => Err("must be an integer".to_string()),
        },
        (_, DataType::Decimal) if decimal::is_plain(value) => Ok(Test::Number(op, value.to_string())),
        (_, DataType::Decimal) => Err("must be a number".to_string()),
        (_, DataType::DateTime) => match value.parse() {
            Ok(instant) => Ok(Test::Time(op, instant)),
            Err(_) => Err("must be an ISO timestamp with a timezone".to_string()),
        },
        (_, DataType::Date) if field_value::is_date(value) => Ok(Test::Date(op, value.to_string())),
        (_, DataType::Date) => Err("must be a real date, YYYY-MM-DD".to_string()),
        _ => phrase(value).map(|text| Test::OneOf(vec![text.to_string()])),
    }
}

/// Parses the value of a filter by host names.
pub(crate) fn hosts(op: Op, value: &str) -> Result<Test, String> {
    let values = if op == Op::In { list(value)? } else { vec![value.to_string()] };
    values.iter().map(|value| filter_value(value)).collect::<Result<_, _>>().map(Test::OneOf)
}

fn flag(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_string()),
    }
}

fn phrase(value: &str) -> Result<&str, String> {
    if (1..=MAX_TEXT).contains(&value.chars().count()) {
        Ok(value)
    } else {
        Err("must be 1 to 320 characters".to_string())
    }
}

fn list(value: &str) -> Result<Vec<String>, String> {
    let values: Result<Vec<String>, String> = value.split(',').map(|v| phrase(v).map(String::from)).collect();
    let values = values?;
    if values.len() > 50 {
        return Err("must be 1 to 50 comma-separated values".to_string());
    }
    Ok(values)
}

impl Condition {
    /// Whether the record meets the condition. A missing value meets only `isNull=true`.
    pub(crate) fn holds(&self, record: &WorldRecord, host: impl FnOnce() -> Option<String>) -> bool {
        let cell = match self.target {
            ConditionTarget::Standard(slot) => record.cell(slot),
            ConditionTarget::Custom(place) => record.custom(place),
            ConditionTarget::Domain => {
                let is_one = |host| matches!(&self.test, Test::OneOf(hosts) if hosts.contains(&host));
                return host().is_some_and(is_one);
            }
        };
        let Some(cell) = cell else {
            return self.test == Test::Missing(true);
        };
        match &self.test {
            Test::Missing(missing) => !missing,
            Test::Flag(flag) => *cell == Cell::Bool(*flag),
            Test::OneOf(values) => cell.text().is_some_and(|text| values.iter().any(|v| *v == text)),
            Test::AnyOf(values) => match cell {
                Cell::List(items) => items.iter().any(|item| values.iter().any(|v| **v == **item)),
                _ => false,
            },
            Test::Holds(part) => cell.text().is_some_and(|text| text.to_lowercase().contains(part)),
            Test::Time(..) => cell.time().is_some_and(|time| self.test.holds_at(time)),
            Test::Number(op, number) => {
                cell.number().and_then(|n| decimal::compare(&n, number)).is_some_and(|order| agrees(*op, order))
            }
            Test::Date(op, date) => cell.text().is_some_and(|text| agrees(*op, text.as_ref().cmp(date.as_str()))),
        }
    }
}

impl Test {
    /// Whether a timestamp meets a condition on timestamps.
    pub(crate) fn holds_at(&self, at: Instant) -> bool {
        matches!(self, Test::Time(op, time) if agrees(*op, at.cmp(time)))
    }
}

fn agrees(op: Op, order: Ordering) -> bool {
    match op {
        Op::Gt => order.is_gt(),
        Op::Gte => order.is_ge(),
        Op::Lt => order.is_lt(),
        Op::Lte => order.is_le(),
        _ => order.is_eq(),
    }
}

/// The host name in lower case and without a leading `www.`.
pub(crate) fn normalized(host: &str) -> String {
    let lower = host.trim().trim_end_matches('.').to_lowercase();
    lower.strip_prefix("www.").unwrap_or(&lower).to_string()
}

/// The host name of a web site's address.
pub(crate) fn of_website(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = normalized(host.split(':').next().unwrap_or_default());
    (!host.is_empty()).then_some(host)
}

/// A filter's value: a host name and nothing else.
pub(crate) fn filter_value(value: &str) -> Result<String, String> {
    let plain = !value.contains(|c: char| c.is_whitespace() || "/\\:@?#,".contains(c));
    let host = normalized(value);
    if !plain || host.is_empty() || host.len() > 253 || host.split('.').any(str::is_empty) {
        return Err("must be a host name, without path, port, credentials or query".to_string());
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_names_are_compared() {
        for (given, host) in [
            ("example.com", Some("example.com")),
            ("WWW.Example.com", Some("example.com")),
            ("sales.example.com", Some("sales.example.com")),
            ("example.com/about", None),
            ("https://example.com", None),
            ("example.com:443", None),
            ("me@example.com", None),
            ("example.com?x=1", None),
            ("", None),
            ("a..b", None),
        ] {
            assert_eq!(filter_value(given).ok().as_deref(), host, "{given}");
        }
        assert_eq!(of_website("https://www.Acme.io:8080/x?y").as_deref(), Some("acme.io"));
    }
}
