//! List queries that cannot break a limit of the reference: a query that would be refused is never sent.
//!
//! A step that breaks a rule makes the query one that is never sent ([`ListQuery::check`]). The operators come from the
//! field catalogue or a custom field's definition. Each parameter occurs once (*List query conventions*, rule 1).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use strum::IntoStaticStr;

use crate::model::catalogue::{Object, Op, Resource};
use crate::model::custom::Definition;
use crate::model::ids::{Cursor, MAX_PREDICATE, RecordId};
use crate::model::{Instant, TimeField};

/// Unreserved characters stay as they are; everything else is percent-encoded.
pub(crate) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The maximum number of filter predicates per request (reference, *Limits*).
const MAX_PREDICATES: usize = 10;
const MAX_CUSTOM: usize = 3;
const MAX_VALUES: usize = 50;
/// The maximum size of an encoded `in` list, in bytes: the smallest common limit of servers and proxies is 8 KiB.
const MAX_LIST: usize = 6 * 1024;

/// Items per page: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageSize(u8);

impl PageSize {
    /// 100: the maximum number of items for one RU.
    pub const MAX: PageSize = PageSize(100);
    pub const ONE: PageSize = PageSize(1);

    pub fn new(items: u8) -> Option<PageSize> {
        (1..=100).contains(&items).then_some(PageSize(items))
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A field to sort by; `id` is the service's own tie-breaker, and nulls come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub enum SortBy {
    #[strum(serialize = "createdAt")]
    CreatedAsc,
    /// `createdAt`, newest first: the service's default.
    #[strum(serialize = "-createdAt")]
    CreatedDesc,
    #[strum(serialize = "updatedAt")]
    UpdatedAsc,
    #[strum(serialize = "-updatedAt")]
    UpdatedDesc,
}

/// A query of a list, within every limit of the reference (*List query conventions*, *Limits*).
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    pub resource: Resource,
    pub limit: PageSize,
    sort: Option<SortBy>,
    count: bool,
    definitions: (Object, bool),
    /// The predicates by the names of their parameters.
    predicates: Vec<(String, String)>,
    cursor: Option<Cursor>,
    pub(super) once: bool,
    /// The first rule that it breaks.
    broken: Option<String>,
}

impl ListQuery {
    /// Lists everything of a resource, a hundred items per page, in the service's default order. For custom fields: the
    /// active definitions of contacts, unless [`ListQuery::definitions_of`] is used.
    pub fn new(resource: Resource) -> ListQuery {
        ListQuery {
            resource,
            limit: PageSize::MAX,
            sort: None,
            count: false,
            definitions: (Object::Contact, true),
            predicates: Vec::new(),
            cursor: None,
            once: false,
            broken: None,
        }
    }

    /// The definitions of an object, ACTIVE or ARCHIVED (*GET /custom-field-definitions*).
    pub fn definitions_of(object: Object, active: bool) -> ListQuery {
        ListQuery { definitions: (object, active), ..ListQuery::new(Resource::CustomFields) }
    }

    /// Why it is not sent, if it breaks a rule.
    pub fn check(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn breaking(mut self, rule: impl Into<String>) -> ListQuery {
        self.broken.get_or_insert_with(|| rule.into());
        self
    }

    pub fn limit(mut self, limit: PageSize) -> ListQuery {
        self.limit = limit;
        self
    }

    /// The same list from its beginning with half as many items per page; `None` if a page has one item.
    pub fn with_smaller_pages(&self) -> Option<ListQuery> {
        let limit = PageSize::new(self.limit.get() / 2)?;
        // Still fewer rows show which one it is.
        Some(ListQuery { limit, cursor: None, once: true, ..self.clone() })
    }

    /// The same page, not asked for again where its answer cannot be read: with other conditions it may be.
    pub fn once(mut self) -> ListQuery {
        self.once = true;
        self
    }

    pub fn count_exact(mut self) -> ListQuery {
        self.count = true;
        self
    }

    pub fn after(mut self, cursor: Cursor) -> ListQuery {
        self.cursor = Some(cursor);
        self
    }

    pub fn sort(mut self, by: SortBy) -> ListQuery {
        let (field, resource) = (<&str>::from(by).trim_start_matches('-'), self.resource);
        if !resource.fields().iter().any(|f| f.wire == field && f.sortable) {
            return self.breaking(format!("{resource} cannot be sorted by {field}"));
        }
        match self.sort.replace(by) {
            Some(_) => self.breaking(format!("sort by {field} is already in the query")),
            None => self,
        }
    }

    /// Bounds a timestamp by `Gt`, `Gte` or `Lt`. Records without it never match. The instant is sent in milliseconds: common
    /// parsers refuse more digits. It is rounded outward, so that no row inside the bound is left out.
    pub fn bounded(self, field: TimeField, op: Op, at: Instant) -> ListQuery {
        let at = if op == Op::Lt { at.millisecond_after() } else { at.millisecond_before() };
        self.standard(field.wire(), op, at.to_wire())
    }

    /// Only records where a standard field is missing (`true`) or present (`false`). `field` is the filter's name.
    pub fn is_null(self, field: &str, missing: bool) -> ListQuery {
        self.standard(field, Op::IsNull, missing.to_string())
    }

    /// Only the record with this identifier, which may contain commas.
    pub fn id(self, id: &RecordId) -> ListQuery {
        if !id.fits_a_predicate() {
            return self.breaking(format!("a text predicate holds 1 to {MAX_PREDICATE} characters"));
        }
        self.standard("id", Op::Eq, id.to_string())
    }

    /// Only the records with these identifiers: 1 to 50, none with a comma (rule 2).
    pub fn ids(self, ids: &[RecordId]) -> ListQuery {
        if ids.is_empty() || ids.len() > MAX_VALUES || !ids.iter().all(RecordId::fits_a_list) {
            return self.breaking(format!("a list holds 1 to {MAX_VALUES} values without commas"));
        }
        let list = ids.iter().map(RecordId::as_str).collect::<Vec<_>>().join(",");
        self.standard("id", Op::In, list)
    }

    /// How many of the first `ids` fit into one request: at most 50, fewer if they are long, 0 if the first never fits.
    pub fn ids_that_fit(ids: &[RecordId]) -> usize {
        let mut bytes = 0;
        ids.iter()
            .take(MAX_VALUES)
            .take_while(|id| {
                bytes += encode(id.as_str()).len() + "%2C".len();
                id.fits_a_list() && bytes <= MAX_LIST
            })
            .count()
            .max(usize::from(ids.first().is_some_and(RecordId::fits_a_list)))
    }

    /// Only records where a custom field is missing (`true`) or present (`false`). It is not sent if the definition
    /// does not allow it or belongs to another object, its key cannot be part of a parameter's name, or the request has
    /// too many predicates.
    pub fn custom_is_null(self, definition: &Definition, missing: bool) -> ListQuery {
        let key = definition.key.as_str();
        let name = format!("customFields.{key}");
        let allowed = definition.active && definition.null_filter && self.resource.object() == Some(definition.object);
        // A bracket in a key would end the parameter's name early, and it cannot be escaped.
        if !allowed || key.is_empty() || key.contains(['[', ']']) {
            return self.not_filterable(&name, Op::IsNull);
        }
        self.push(&name, Op::IsNull, missing.to_string())
    }

    fn not_filterable(self, field: &str, op: Op) -> ListQuery {
        let rule = format!("{} cannot be filtered by {field} with {}", self.resource, op.into_str());
        self.breaking(rule)
    }

    fn standard(self, field: &str, op: Op, value: String) -> ListQuery {
        match self.resource.filter_field(field) {
            Some(known) if known.filter.contains(&op) => self.push(known.filter_name(), op, value),
            _ => self.not_filterable(field, op),
        }
    }

    fn push(mut self, name: &str, op: Op, value: String) -> ListQuery {
        let key = format!("filter[{name}][{}]", op.into_str());
        if self.predicates.iter().any(|(known, _)| *known == key) {
            return self.breaking(format!("{key} is already in the query"));
        }
        self.predicates.push((key, value));
        let customs = self.predicates.iter().filter(|(key, _)| key.starts_with("filter[customFields.")).count();
        if self.predicates.len() > MAX_PREDICATES || customs > MAX_CUSTOM {
            let rule =
                format!("a request holds at most {MAX_PREDICATES} predicates, {MAX_CUSTOM} of them on custom fields");
            return self.breaking(rule);
        }
        self
    }

    /// The parameters, before percent-encoding.
    pub fn to_params(&self) -> Vec<(String, String)> {
        let mut params = vec![("limit".to_string(), self.limit.get().to_string())];
        let mut put = |key: &str, value: String| params.push((key.to_string(), value));
        if self.resource == Resource::CustomFields {
            let (object, active) = self.definitions;
            put("objectType", object.as_str().to_string());
            put("status", if active { "ACTIVE" } else { "ARCHIVED" }.to_string());
        }
        if let Some(by) = self.sort {
            put("sort", <&str>::from(by).to_string());
        }
        if self.count {
            put("count", "exact".to_string());
        }
        for (key, value) in &self.predicates {
            put(key, value.clone());
        }
        if let Some(cursor) = &self.cursor {
            put("cursor", cursor.as_str().to_string());
        }
        params
    }

    /// Path and query below the base URL, percent-encoded.
    pub(crate) fn to_address(&self) -> String {
        let params = self.to_params();
        let pairs: Vec<String> =
            params.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
        format!("{}?{}", self.resource.path(), pairs.join("&"))
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
