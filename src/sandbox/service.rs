//! Processes one request, with its checks in the order of the service: key, path, scope, parameters, the request.
//!
//! Nothing here awaits: a request is one step of the world. The server executes what happens to the answer on its way.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::{Answer, IncomingRequest, Log, REPLAYED, Route};
use super::fault::{Fault, TakenFaults};
use super::keys::{TenantKeys, require, scopes};
use super::list::{self, Binding, PagePosition};
use super::patch;
use super::render::{self, RecordProjection};
use super::rules::ListRequest;
use super::state::{DevelopmentError, Standalone, locked};
use super::world::World;
use crate::model::ids::MAX_PREDICATE;
use crate::model::{Object, Resource};

/// The behaviour where the reference is open, or a test needs another; the default is a well-behaved service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    pub tenant: String,
    /// Whether cursors count rows, so that rows are skipped and repeated when others move; else a cursor contains the last
    /// row. The reference does not say.
    pub counts_rows: bool,
    /// Whether the plan does not allow custom fields to be edited.
    pub custom_fields_read_only: bool,
    /// The maximum number of rows of a page, whatever the `limit`: small pages make walks of many pages.
    pub page_cap: Option<usize>,
    /// Whether a cursor may be followed with another `limit`; the reference does not say.
    pub follows_any_size: bool,
    /// Whether the limit of 320 characters is one of a whole list of values, not of each; the reference does not say.
    pub limits_whole_lists: bool,
    pub log_limit: Option<usize>,
    /// Whether answers have no `Date`.
    pub undated: bool,
}

/// The state between requests, next to the world.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) keys: TenantKeys,
    pub(crate) settings: SandboxSettings,
    pub(crate) replays: patch::Replays,
    pub(crate) log: Log,
    pub(super) standalone: Option<Standalone>,
    last_pages: BTreeMap<Resource, String>,
    nonce: u64,
}

impl Memory {
    /// Writes the state file of a standalone service.
    pub(crate) fn write(&mut self, world: &World) -> Result<(), DevelopmentError> {
        let Some(Standalone { seed, clock, file: Some(file) }) = &mut self.standalone else { return Ok(()) };
        file.write((*seed, *locked(&clock.advanced)), world, &self.replays)
    }
}

pub(crate) fn execute(
    world: &mut World,
    memory: &mut Memory,
    request: &IncomingRequest,
    faults: &TakenFaults,
) -> Answer {
    let granted = match faults.refusal() {
        Some(refusal) => Err(refusal),
        None => scopes(&memory.keys, request.header("authorization").as_deref()),
    };
    let answer = granted.and_then(|scopes| Asked { scopes: &scopes, request, faults }.answer(world, memory));
    answer.unwrap_or_else(|refusal| refusal)
}

struct Asked<'a> {
    scopes: &'a BTreeSet<String>,
    request: &'a IncomingRequest,
    faults: &'a TakenFaults,
}

impl Asked<'_> {
    fn answer(&self, world: &mut World, memory: &mut Memory) -> Result<Answer, Answer> {
        let Asked { scopes, request, faults } = self;
        match (&request.asked.route, request.asked.method.as_str()) {
            (Route::Unknown, _) => Err(Answer::refused(404, "There is no such path")),
            (Route::List(resource), "GET" | "HEAD") => {
                require(scopes, resource.read_scope())?;
                self.list(&faults.seen(world), memory, *resource)
            }
            (Route::One(object, id), "GET" | "HEAD") => {
                require(scopes, object.resource().read_scope())?;
                self.detail(&faults.seen(world), *object, id)
            }
            (Route::One(object, id), "PATCH") => {
                if let Some(scope) = object.resource().write_scope() {
                    require(scopes, scope)?;
                }
                if faults.answer == Some(Fault::NotApplied) {
                    return Ok(self.detail(world, *object, id)?.with(REPLAYED, Some(false)));
                }
                let custom = !memory.settings.custom_fields_read_only;
                patch::patch(world, custom, &mut memory.replays, *object, id, request)
            }
            (_, method) => Err(Answer::refused(405, format!("{method} is not supported here"))),
        }
    }

    fn list(&self, world: &World, memory: &mut Memory, resource: Resource) -> Result<Answer, Answer> {
        let (scopes, asked, fault) = (self.scopes, &self.request.asked, self.faults.answer.as_ref());
        asked.check()?;
        let mut query = ListRequest::read(world, resource, asked, fault == Some(&Fault::CoarseTimes))?;
        if fault == Some(&Fault::IgnoredTimes) {
            query.conditions.retain(|condition| !condition.is_of_time());
        }
        let is_long =
            |(name, value): &(String, String)| name.ends_with("[in]") && value.chars().count() > MAX_PREDICATE;
        if memory.settings.limits_whole_lists && asked.query.iter().any(is_long) {
            return Err(Answer::refused(400, "A list of values must be 1 to 320 characters"));
        }
        query.include.iter().try_for_each(|related| require(scopes, related.read_scope()))?;
        let mut conditions = asked.query.clone();
        conditions.retain(|(name, _)| name != "limit" || !memory.settings.follows_any_size);
        let binding = Binding::new(&memory.settings.tenant, resource.path(), scopes, &conditions);
        let cursor = asked.param("cursor");
        if cursor.is_some() && fault == Some(&Fault::RefusedCursor) {
            return Err(Answer::of_field(400, "cursor", "has expired"));
        }
        let (place, nonce) = cursor.map_or(Ok((PagePosition::Offset(0), 0)), |token| binding.read(token, fault))?;
        query.limit = memory.settings.page_cap.map_or(query.limit, |cap| query.limit.min(cap.max(1)));
        let (rows, next, total) = list::page(world, &query, &place, memory.settings.counts_rows);
        let shown = |record| {
            let related = render::related(world, &query.include, record);
            render::record(world, resource, record, RecordProjection::List, related)
        };
        let mut rows: Vec<String> = rows.into_iter().map(shown).collect();
        let (mut next, mut total) = (next.map(|place| binding.token(&place, 0)), total);
        match fault {
            Some(Fault::EmptyPageWithCursor) => {
                memory.nonce = memory.nonce.max(nonce) + 1;
                rows.clear();
                next = Some(binding.token(&place, memory.nonce));
            }
            Some(Fault::EmptyList) => {
                rows.clear();
                (next, total) = (None, total.map(|_| 0));
            }
            Some(Fault::SameCursor) => {
                next = cursor.map(str::to_string).or(next).or_else(|| Some(binding.token(&place, 0)));
            }
            Some(Fault::Unordered) => rows.reverse(),
            Some(Fault::RowOutsideFilter) => {
                rows.extend(world.table(resource).iter().find(|record| !query.matches(record)).map(shown));
            }
            Some(Fault::NoTotal) => total = None,
            _ => {}
        }
        let next = next.map_or("null".to_string(), |token| format!("\"{token}\""));
        let total = total.map_or_else(String::new, |total| format!(",\"total\":{total}"));
        let mut body = format!("{{\"data\":[{}],\"nextCursor\":{next}{total}}}", rows.join(","));
        if let (Some(Fault::RepeatedPage), Some(last)) = (fault, memory.last_pages.get(&resource)) {
            body.clone_from(last);
        }
        memory.last_pages.insert(resource, body.clone());
        Ok(Answer { rows: rows.len(), ..Answer::json(200, &body) })
    }

    fn detail(&self, world: &World, object: Object, id: &str) -> Result<Answer, Answer> {
        let asked = &self.request.asked;
        asked.check()?;
        if let Some((name, _)) = asked.query.iter().find(|(name, _)| name != "include") {
            return Err(Answer::of_field(400, name, "is not a parameter of a detail"));
        }
        let includes = asked.param("include").map_or(Ok(Default::default()), |value| render::includes(object, value));
        let includes = includes.map_err(|why| Answer::of_field(400, "include", &why))?;
        includes.iter().try_for_each(|related| require(self.scopes, related.read_scope()))?;
        let record = world.table(object.resource()).get(id);
        let record = record.ok_or_else(|| Answer::refused(404, format!("There is no such {object}")))?;
        let related = render::related(world, &includes, record);
        let body = render::record(world, object.resource(), record, RecordProjection::Detail, related);
        Ok(Answer::record(&body, world.etag(object, id).as_ref()))
    }
}
