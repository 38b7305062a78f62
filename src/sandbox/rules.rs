//! The rules of list requests (reference, *List query conventions* and each list's own parameters), from the catalogue.
//!
//! A [`ListRequest`] has passed every rule; nothing after it checks again. All errors of a request are reported
//! together. Its conditions say how a filter's value is parsed, and whether a record meets it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use super::exchange::{Complaints, ErrorAnswer, RequestLine};
use super::render;
use super::table::{Cell, NO_SLOT, WorldRecord, WorldTable, slot};
use super::world::World;
use crate::model::{DataType, Field, FieldKind, Instant, Object, Op, Resource, decimal, field_value};

#[derive(Clone, Debug)]
pub(crate) struct ListRequest {
    pub(crate) resource: Resource,
    pub(crate) limit: usize,
    pub(crate) count: bool,
    /// Lower case.
    pub(crate) search: Option<String>,
    /// Slots, and whether each is sorted in descending order.
    pub(crate) sort: Vec<(usize, bool)>,
    pub(crate) predicates: Vec<Condition>,
    pub(crate) include: BTreeSet<Resource>,
    pub(crate) is_coarse: bool,
}

const MAX_PREDICATES: usize = 10;
const MAX_CUSTOM: usize = 3;

impl ListRequest {
    pub(crate) fn in_whole_seconds(mut self) -> ListRequest {
        self.is_coarse = true;
        for condition in &mut self.predicates {
            if let Test::Time(op, time) = &condition.test {
                let (second, next) = (time.whole_second(), time.whole_second().plus(Duration::from_secs(1)));
                condition.test = match op {
                    Op::Gt => Test::Time(Op::Gte, next),
                    Op::Lte => Test::Time(Op::Lt, next),
                    other => Test::Time(*other, second),
                };
            }
        }
        self
    }

    pub(crate) fn read(world: &World, resource: Resource, asked: &RequestLine) -> Result<ListRequest, ErrorAnswer> {
        let mut wrong = Complaints::default();
        let mut query = ListRequest {
            resource,
            limit: 50,
            count: false,
            search: None,
            sort: sort(resource, "-createdAt").unwrap_or_default(),
            predicates: Vec::new(),
            include: BTreeSet::new(),
            is_coarse: false,
        };
        let definitions = resource == Resource::CustomFields;
        let mut predicates = 0;
        let mut custom = 0;
        for (name, value) in &asked.query {
            let read = match name.as_str() {
                "cursor" => Ok(()),
                "limit" => limit(value).map(|limit| query.limit = limit),
                "count" if value == "exact" => {
                    query.count = true;
                    Ok(())
                }
                "count" => Err("must be exact".to_string()),
                "sort" => sort(resource, value).map(|sort| query.sort = sort),
                "q" if resource.searchable() => search(value).map(|q| query.search = Some(q)),
                "include" if resource == Resource::Companies => {
                    render::includes(Object::Company, value).map(|include| query.include = include)
                }
                "objectType" | "status" if definitions => {
                    let [one, other] = if name == "status" { ["ACTIVE", "ARCHIVED"] } else { ["contact", "company"] };
                    let is_known = value == one || value == other;
                    query.predicates.extend(is_known.then(|| equals(resource, name, value)));
                    is_known.then_some(()).ok_or_else(|| format!("must be {one} or {other}"))
                }
                _ if name.starts_with("filter[") && !definitions => {
                    predicates += 1;
                    custom += usize::from(name.starts_with("filter[customFields."));
                    condition(world, resource, name, value).map(|p| query.predicates.push(p))
                }
                _ => Err("is not a parameter of this list".to_string()),
            };
            if let Err(message) = read {
                wrong.add(name, message);
            }
        }
        if predicates > MAX_PREDICATES {
            wrong.add("filter", format!("has more than {MAX_PREDICATES} predicates"));
        }
        if custom > MAX_CUSTOM {
            wrong.add("filter", format!("has more than {MAX_CUSTOM} custom-field predicates"));
        }
        if definitions {
            if asked.param("objectType").is_none() {
                wrong.add("objectType", "is required");
            }
            if asked.param("status").is_none() {
                query.predicates.push(equals(resource, "status", "ACTIVE"));
            }
        }
        wrong.or(query)
    }
}

fn equals(resource: Resource, wire: &str, value: &str) -> Condition {
    // If the field is not in the catalogue, nothing matches.
    let slot = slot(resource.fields(), wire).unwrap_or(NO_SLOT);
    Condition { slot, test: Test::OneOf(vec![value.to_string()]) }
}

fn limit(value: &str) -> Result<usize, String> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    match value.parse() {
        Ok(limit @ 1..=100) if digits => Ok(limit),
        _ => Err("must be an integer from 1 to 100".to_string()),
    }
}

fn search(value: &str) -> Result<String, String> {
    let trimmed = value.trim();
    if (2..=100).contains(&trimmed.chars().count()) {
        Ok(trimmed.to_lowercase())
    } else {
        Err("must be 2 to 100 characters".to_string())
    }
}

fn sort(resource: Resource, value: &str) -> Result<Vec<(usize, bool)>, String> {
    let mut order: Vec<(usize, bool)> = Vec::new();
    for part in value.split(',') {
        let (name, descending) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        let field = slot(resource.fields(), name).filter(|slot| resource.fields()[*slot].sortable);
        let Some(slot) = field else {
            return Err(format!("cannot be by `{name}`"));
        };
        if order.iter().any(|(s, _)| *s == slot) {
            return Err(format!("names `{name}` twice"));
        }
        order.push((slot, descending));
    }
    if order.len() > 2 {
        return Err("has more than two fields".to_string());
    }
    Ok(order)
}

/// Parses `filter[field]`, `filter[field][op]` and `filter[customFields.KEY][op]`.
fn condition(world: &World, resource: Resource, name: &str, value: &str) -> Result<Condition, String> {
    let inner = name.strip_prefix("filter[").and_then(|rest| rest.strip_suffix(']'));
    let Some(inner) = inner else {
        return Err("is not of the form filter[field][operator]".to_string());
    };
    let (field, op) = inner.rsplit_once("][").unwrap_or((inner, "eq"));
    let Ok(op) = op.parse::<Op>() else {
        return Err(format!("has an unknown operator `{op}`"));
    };
    if let Some(key) = field.strip_prefix("customFields.") {
        return custom_condition(world, resource, key, op, value);
    }
    let Some(slot) = resource.fields().iter().position(|f| !f.filter.is_empty() && f.filter_name() == field) else {
        return Err(format!("cannot filter by `{field}`"));
    };
    let field: &Field = &resource.fields()[slot];
    if !field.filter.allows(op) {
        return Err(format!("cannot use the operator {}", op.as_str()));
    }
    if field.wire == "domain" && field.kind == FieldKind::Text {
        return Ok(Condition { slot, test: hosts(op, value)? });
    }
    let test = test(type_of(field.kind), op, value)?;
    if let (Resource::TeamMembers, Test::OneOf(values)) = (resource, &test)
        && let Some(unknown) = values.iter().find(|v| !MEMBER_STATUS.contains(&v.as_str()))
    {
        return Err(format!("has no value `{unknown}`"));
    }
    Ok(Condition { slot, test })
}

const MEMBER_STATUS: [&str; 4] = ["ACTIVE", "INACTIVE", "SUSPENDED", "PENDING"];

fn custom_condition(world: &World, resource: Resource, key: &str, op: Op, value: &str) -> Result<Condition, String> {
    let found = resource.object().and_then(|object| world.active(object, key));
    let Some((slot, definition)) = found else {
        return Err(format!("has no active custom field `{key}`"));
    };
    if !definition.filters_by(op) {
        return Err(format!("cannot use the operator {} on `{key}`", op.as_str()));
    }
    Ok(Condition { slot, test: test(definition.kind(), op, value)? })
}

/// The maximum number of characters of a text predicate (*Limits*).
pub(crate) const MAX_TEXT: usize = 320;

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
    Host(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) slot: usize,
    pub(crate) test: Test,
}

fn type_of(kind: FieldKind) -> DataType {
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

fn test(data_type: DataType, op: Op, value: &str) -> Result<Test, String> {
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

fn hosts(op: Op, value: &str) -> Result<Test, String> {
    let values = if op == Op::In { list(value)? } else { vec![value.to_string()] };
    values.iter().map(|value| filter_value(value)).collect::<Result<_, _>>().map(Test::Host)
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
    /// A missing value meets only `isNull=true`.
    pub(crate) fn holds(&self, table: &WorldTable, record: &WorldRecord) -> bool {
        match (&self.test, record.cell(self.slot)) {
            (Test::Host(hosts), _) => host(table, record).is_some_and(|host| hosts.contains(&host)),
            (Test::Missing(missing), cell) => cell.is_none() == *missing,
            (_, None) => false,
            (Test::Flag(flag), Some(cell)) => *cell == Cell::Bool(*flag),
            (Test::OneOf(values), Some(cell)) => cell.text().is_some_and(|text| values.iter().any(|v| *v == text)),
            (Test::AnyOf(values), Some(Cell::List(items))) => {
                items.iter().any(|item| values.iter().any(|v| **v == **item))
            }
            (Test::AnyOf(_), Some(_)) => false,
            (Test::Holds(part), Some(cell)) => cell.text().is_some_and(|text| text.to_lowercase().contains(part)),
            (Test::Time(..), Some(cell)) => cell.time().is_some_and(|time| self.test.holds_at(time)),
            (Test::Number(op, number), Some(cell)) => {
                cell.number().and_then(|n| decimal::compare(&n, number)).is_some_and(|order| agrees(*op, order))
            }
            (Test::Date(op, date), Some(cell)) => {
                cell.text().is_some_and(|text| agrees(*op, text.as_ref().cmp(date.as_str())))
            }
        }
    }
}

impl Test {
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

/// A company's host name: the given one, else that of its web site.
pub(crate) fn host(table: &WorldTable, record: &WorldRecord) -> Option<String> {
    let text = |wire| table.slot(wire).and_then(|slot| record.cell(slot)?.text());
    match text("domain") {
        Some(domain) => Some(normalized(&domain)),
        None => text("websiteUrl").and_then(|address| of_website(&address)),
    }
}

fn normalized(host: &str) -> String {
    let lower = host.trim().trim_end_matches('.').to_lowercase();
    lower.strip_prefix("www.").unwrap_or(&lower).to_string()
}

fn of_website(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = normalized(host.split(':').next().unwrap_or_default());
    (!host.is_empty()).then_some(host)
}

fn filter_value(value: &str) -> Result<String, String> {
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
