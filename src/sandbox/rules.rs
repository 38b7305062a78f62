//! The rules of list requests (reference, *List query conventions* and each list's own parameters), from the catalogue.
//!
//! A [`ListRequest`] has passed every rule; nothing after it checks again. Its conditions say how a filter's value is checked, and whether a record meets it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use reqwest::Url;

use super::exchange::{Answer, RequestLine};
use super::render;
use super::table::{ValueName, WorldRecord, compare, custom_name, field, type_of};
use super::world::World;
use crate::model::ids::MAX_PREDICATE;
use crate::model::{DataType, Field, Instant, Object, Op, Resource, decimal, field_value};

#[derive(Clone, Debug)]
pub(crate) struct ListRequest {
    pub(crate) resource: Resource,
    pub(crate) limit: usize,
    pub(crate) count: bool,
    /// Lower case.
    pub(crate) search: Option<String>,
    /// Whether each field is sorted in descending order.
    pub(crate) sort: Vec<(&'static Field, bool)>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) include: BTreeSet<Resource>,
    /// Whether times are compared in whole seconds.
    pub(crate) is_coarse: bool,
}

impl ListRequest {
    pub(crate) fn read(
        world: &World,
        resource: Resource,
        asked: &RequestLine,
        is_coarse: bool,
    ) -> Result<ListRequest, Answer> {
        let mut query = ListRequest {
            resource,
            limit: 50,
            count: false,
            search: None,
            sort: sort(resource, "-createdAt").unwrap_or_default(),
            conditions: Vec::new(),
            include: BTreeSet::new(),
            is_coarse,
        };
        let definitions = resource == Resource::CustomFields;
        for (name, value) in &asked.query {
            let read = match name.as_str() {
                "cursor" => Ok(()),
                "limit" => limit(value).map(|limit| query.limit = limit),
                "count" => must(value == "exact", "exact").map(|()| query.count = true),
                "sort" => sort(resource, value).map(|sort| query.sort = sort),
                "q" if !searched(resource).is_empty() => search(value).map(|q| query.search = Some(q)),
                "include" if resource == Resource::Companies => {
                    render::includes(Object::Company, value).map(|include| query.include = include)
                }
                "objectType" | "status" if definitions => equal(name, value).map(|c| query.conditions.push(c)),
                _ if name.starts_with("filter[") && !definitions => {
                    Condition::read(world, &query, name, value).map(|c| query.conditions.push(c))
                }
                _ => Err("is not a parameter of this list".to_string()),
            };
            read.map_err(|why| Answer::of_field(400, name, &why))?;
        }
        for (begin, most, what) in
            [("filter[", 10, "predicates"), ("filter[customFields.", 3, "custom-field predicates")]
        {
            if asked.query.iter().filter(|(name, _)| name.starts_with(begin)).count() > most {
                return Err(Answer::of_field(400, "filter", &format!("has more than {most} {what}")));
            }
        }
        if definitions && asked.param("objectType").is_none() {
            return Err(Answer::of_field(400, "objectType", "is required"));
        }
        if definitions && asked.param("status").is_none() {
            query.conditions.extend(equal("status", "ACTIVE"));
        }
        Ok(query)
    }

    /// A record's value, for conditions and orders; `None` if it has none of this type.
    pub(crate) fn value<'r>(&self, record: &'r WorldRecord, name: &str, data_type: DataType) -> Option<Cow<'r, str>> {
        if name == DOMAIN {
            return host(record).map(Cow::Owned);
        }
        let text = record.text(name)?;
        compare(data_type, &text, &text)?;
        Some(if self.is_coarse && data_type == DataType::DateTime { whole_second(&text).into() } else { text })
    }

    /// Whether a record meets the conditions, and contains the text that is searched for.
    pub(crate) fn matches(&self, record: &WorldRecord) -> bool {
        self.conditions.iter().all(|condition| condition.holds(self, record))
            && self.search.as_ref().is_none_or(|q| self.found(record, q))
    }

    fn found(&self, record: &WorldRecord, q: &str) -> bool {
        searched(self.resource).iter().any(|wire| record.text(wire).is_some_and(|text| text.to_lowercase().contains(q)))
            || self.resource == Resource::Companies && host(record).is_some_and(|host| host.contains(q))
    }
}

/// The fields that `q` searches (reference, *Search fields for q*).
fn searched(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Contacts => &["name", "firstName", "lastName", "email", "mobile", "position", "company"],
        Resource::Companies => &["name", "registeredName", "websiteUrl"],
        Resource::TeamMembers => &["firstName", "lastName", "username", "email"],
        Resource::CustomFields => &[],
    }
}

fn whole_second(time: &str) -> String {
    time.parse().map_or_else(|_| time.to_string(), |time: Instant| time.whole_second().to_wire())
}

fn must(is_valid: bool, be: &str) -> Result<(), String> {
    if is_valid { Ok(()) } else { Err(format!("must be {be}")) }
}

fn equal(wire: &str, value: &str) -> Result<Condition, String> {
    let known = if wire == "status" { ["ACTIVE", "ARCHIVED"] } else { ["contact", "company"] };
    must(known.contains(&value), &known.join(" or "))?;
    let name = ValueName::Owned(wire.to_string());
    Ok(Condition::new(name, DataType::ShortText, Op::Eq, vec![value.to_string()]))
}

fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().unwrap_or(0);
    must((1..=100).contains(&limit) && !value.starts_with('+'), "an integer from 1 to 100").map(|()| limit)
}

fn search(value: &str) -> Result<String, String> {
    let text = value.trim().to_lowercase();
    must((2..=100).contains(&value.trim().chars().count()), "2 to 100 characters").map(|()| text)
}

fn sort(resource: Resource, value: &str) -> Result<Vec<(&'static Field, bool)>, String> {
    let mut order: Vec<(&'static Field, bool)> = Vec::new();
    for part in value.split(',') {
        let (name, descending) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        let Some(field) = field(resource, name).filter(|field| field.sortable) else {
            return Err(format!("cannot be by `{name}`"));
        };
        if order.iter().any(|(known, _)| known.wire == name) {
            return Err(format!("names `{name}` twice"));
        }
        order.push((field, descending));
    }
    if order.len() > 2 {
        return Err("has more than two fields".to_string());
    }
    Ok(order)
}

const MEMBER_STATUS: [&str; 4] = ["ACTIVE", "INACTIVE", "SUSPENDED", "PENDING"];
const DOMAIN: &str = "domain";

#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) name: ValueName,
    data_type: DataType,
    pub(crate) op: Op,
    /// Of the type; one, unless the operator takes a list.
    pub(crate) values: Vec<String>,
    /// The timestamps that a record's time is compared with, parsed once: a list compares thousands.
    pub(crate) times: Vec<Instant>,
}

impl Condition {
    fn new(name: ValueName, data_type: DataType, op: Op, values: Vec<String>) -> Condition {
        let is_timed = data_type == DataType::DateTime && op != Op::IsNull;
        let times = values.iter().filter(|_| is_timed).filter_map(|value| value.parse().ok()).collect();
        Condition { name, data_type, op, values, times }
    }

    /// Parses `filter[field]`, `filter[field][op]` and `filter[customFields.KEY][op]`.
    fn read(world: &World, query: &ListRequest, name: &str, value: &str) -> Result<Condition, String> {
        let resource = query.resource;
        let inner = name.strip_prefix("filter[").and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or("is not of the form filter[field][operator]")?;
        let (field, op) = inner.rsplit_once("][").unwrap_or((inner, "eq"));
        let op: Op = op.parse().map_err(|_| format!("has an unknown operator `{op}`"))?;
        let (name, data_type, is_allowed) = match field.strip_prefix("customFields.") {
            Some(key) => {
                let definition = resource.object().and_then(|object| world.active(object, key));
                let definition = definition.ok_or_else(|| format!("has no active custom field `{key}`"))?;
                // Reference, *Custom values*, rule 3.
                let is_allowed = definition.filterable
                    && definition.kind().ops().contains(&op)
                    && definition.allowed_operators.iter().any(|name| name == op.into_str());
                (custom_name(&definition.id), definition.kind(), is_allowed)
            }
            None => {
                let field = resource.filter_field(field).ok_or_else(|| format!("cannot filter by `{field}`"))?;
                (ValueName::Borrowed(field.wire), type_of(field.kind), field.filter.contains(&op))
            }
        };
        if !is_allowed {
            return Err(format!("cannot use the operator {} on `{field}`", op.into_str()));
        }
        let mut values: Vec<String> = match op {
            Op::In | Op::HasAny => value.split(',').map(String::from).collect(),
            _ => vec![value.to_string()],
        };
        must(values.len() <= 50, "1 to 50 comma-separated values")?;
        for value in &mut values {
            match op {
                Op::IsNull => check(DataType::Boolean, value)?,
                _ if name == DOMAIN => *value = filter_host(value)?,
                _ => check(data_type, value)?,
            }
            if resource == Resource::TeamMembers && op != Op::IsNull && !MEMBER_STATUS.contains(&value.as_str()) {
                return Err(format!("has no value `{value}`"));
            }
            if op == Op::Contains {
                *value = value.to_lowercase();
            }
            if query.is_coarse && data_type == DataType::DateTime {
                *value = whole_second(value);
            }
        }
        Ok(Condition::new(name, data_type, op, values))
    }

    pub(crate) fn is_of_time(&self) -> bool {
        self.data_type == DataType::DateTime
    }

    /// A missing value meets only `isNull=true`.
    fn holds(&self, query: &ListRequest, record: &WorldRecord) -> bool {
        match self.op {
            Op::IsNull => record.get(&self.name).is_none() == (self.values[0] == "true"),
            Op::HasAny => {
                let items = record.get(&self.name).and_then(|source| field_value::multi_values(&source.0));
                items.into_iter().flatten().any(|item| self.values.contains(&item))
            }
            Op::Contains => record.text(&self.name).is_some_and(|text| text.to_lowercase().contains(&self.values[0])),
            _ if self.is_of_time() => record.time(&self.name).is_some_and(|at| {
                let at = if query.is_coarse { at.whole_second() } else { at };
                self.times.iter().any(|time| agrees(self.op, at.cmp(time)))
            }),
            _ => {
                let Some(text) = query.value(record, &self.name, self.data_type) else { return false };
                let holds =
                    |value: &String| compare(self.data_type, &text, value).is_some_and(|order| agrees(self.op, order));
                self.values.iter().any(holds)
            }
        }
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

/// Refuses a text that is not a value of the type.
pub(crate) fn check(data_type: DataType, text: &str) -> Result<(), String> {
    let (is_valid, wanted) = match data_type {
        DataType::Boolean => (["true", "false"].contains(&text), "true or false"),
        DataType::Integer => (text.parse::<i64>().is_ok() && !text.starts_with('+'), "an integer"),
        DataType::Decimal => (decimal::is_plain(text), "a number"),
        DataType::DateTime => (text.parse::<Instant>().is_ok(), "an ISO timestamp with a timezone"),
        DataType::Date => (field_value::is_date(text), "a real date, YYYY-MM-DD"),
        _ => ((1..=MAX_PREDICATE).contains(&text.chars().count()), "1 to 320 characters"),
    };
    must(is_valid, wanted)
}

/// A company's host name: the given one, else that of its web site.
fn host(record: &WorldRecord) -> Option<String> {
    let given = record.text(DOMAIN).map(|domain| normalized(&domain));
    given.or_else(|| of_website(&record.text("websiteUrl")?))
}

fn normalized(host: &str) -> String {
    let lower = host.trim().trim_end_matches('.').to_lowercase();
    lower.strip_prefix("www.").unwrap_or(&lower).to_string()
}

fn of_website(address: &str) -> Option<String> {
    let host = |address: &str| Url::parse(address).ok()?.host_str().map(normalized);
    host(address).or_else(|| host(&format!("http://{address}")))
}

fn filter_host(value: &str) -> Result<String, String> {
    let is_plain = !value.contains(|c: char| c.is_whitespace() || "/\\:@?#,".contains(c));
    let host = normalized(value);
    let is_host = is_plain && host.len() <= 253 && !host.split('.').any(str::is_empty);
    must(is_host, "a host name, without path, port, credentials or query").map(|()| host)
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
            assert_eq!(filter_host(given).ok().as_deref(), host, "{given}");
        }
        assert_eq!(of_website("https://www.Acme.io:8080/x?y").as_deref(), Some("acme.io"));
    }
}
