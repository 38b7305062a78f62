//! The rules of list requests (reference, *List query conventions* and each list's own parameters), from the catalogue.
//!
//! A [`ListRequest`] has passed every rule; nothing after it checks again. All errors of a request are reported
//! together.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::catalogue::FieldKind;
use crate::model::{Field, Object, Op, Resource};

use super::exchange::{Complaints, ErrorAnswer, RequestLine};
use super::include::{self, Include};
use super::predicate::{self, Condition, ConditionTarget, Test};
use super::table::slot;
use super::world::World;

/// A list's conditions, all of them valid.
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
    pub(crate) include: BTreeSet<Include>,
    /// Whether times are compared in whole seconds.
    pub(crate) is_coarse: bool,
}

const MAX_PREDICATES: usize = 10;
const MAX_CUSTOM: usize = 3;

impl ListRequest {
    /// This request at a service that compares times in whole seconds.
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
                    include::read(include::COMPANY, value).map(|include| query.include = include)
                }
                "objectType" if definitions => match value.parse::<Object>().ok() {
                    Some(object) => {
                        query.predicates.push(equals(resource, "objectType", object.as_str()));
                        Ok(())
                    }
                    None => Err("must be contact or company".to_string()),
                },
                "status" if definitions => match value.as_str() {
                    "ACTIVE" | "ARCHIVED" => {
                        query.predicates.push(equals(resource, "status", value));
                        Ok(())
                    }
                    _ => Err("must be ACTIVE or ARCHIVED".to_string()),
                },
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
    Condition {
        // A slot that no record has, if the field is not in the catalogue: then nothing matches.
        target: ConditionTarget::Standard(slot(resource.fields(), wire).unwrap_or(usize::from(u8::MAX))),
        test: Test::OneOf(vec![value.to_string()]),
    }
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
        return Ok(Condition { target: ConditionTarget::Domain, test: predicate::hosts(op, value)? });
    }
    let test = predicate::test(predicate::type_of(field.kind), op, value)?;
    if let (Resource::TeamMembers, Test::OneOf(values)) = (resource, &test)
        && let Some(unknown) = values.iter().find(|v| !MEMBER_STATUS.contains(&v.as_str()))
    {
        return Err(format!("has no value `{unknown}`"));
    }
    Ok(Condition { target: ConditionTarget::Standard(slot), test })
}

const MEMBER_STATUS: [&str; 4] = ["ACTIVE", "INACTIVE", "SUSPENDED", "PENDING"];

fn custom_condition(world: &World, resource: Resource, key: &str, op: Op, value: &str) -> Result<Condition, String> {
    let found = resource.object().and_then(|object| world.active(object, key));
    let Some((place, definition)) = found else {
        return Err(format!("has no active custom field `{key}`"));
    };
    if !definition.filters_by(op) {
        return Err(format!("cannot use the operator {} on `{key}`", op.as_str()));
    }
    Ok(Condition { target: ConditionTarget::Custom(place), test: predicate::test(definition.kind(), op, value)? })
}
