//! Processes one request, with the checks in the order of the service: key, path, scope, parameters, then the request
//! itself.
//!
//! Nothing here awaits: a request is one step of the world. The server executes what happens to the answer on its way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::header::LOCATION;

use crate::model::{Object, Resource, Ru};

use super::exchange::{Complaints, ErrorAnswer, IncomingRequest, Log, Route, Served, Success, answer, put};
use super::fault::{BodyRewrite, DateHeader, Fault, TakenFaults};
use super::keys::{TenantKey, TenantKeys};
use super::list::{self, Binding, PagePosition, ServedPage};
use super::origin::Origin;
use super::patch;
use super::render::{self, RecordProjection};
use super::rules::{ListRequest, MAX_TEXT};
use super::state::StateError;
use super::world::World;

const INJECTED: &str = "This failure was injected";

const MAINTENANCE: &str = "<html><body><h1>Scheduled maintenance</h1></body></html>";

/// The behaviour of the sandbox where the reference is open, or where a test needs something else;
/// [`SandboxSettings::default`] is a well-behaved service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    pub tenant: String,
    /// Whether cursors count rows, so that rows are skipped and repeated when others move; else a cursor contains the last
    /// row. The reference does not say.
    pub counts_rows: bool,
    /// The cost of a failed request; the reference does not specify it.
    pub failed_ru: Ru,
    pub custom_fields_editable: bool,
    /// The maximum number of rows of a page, whatever the `limit`: small pages make walks of many pages.
    pub page_cap: Option<usize>,
    /// Whether the limit of 320 characters applies to a whole list of values rather than to each; the reference does
    /// not say.
    pub limits_whole_lists: bool,
    pub gzip: bool,
    pub latency: Duration,
    pub log_limit: Option<usize>,
    pub date_header: DateHeader,
}

impl Default for SandboxSettings {
    fn default() -> SandboxSettings {
        SandboxSettings {
            tenant: "tenant-1".to_string(),
            counts_rows: false,
            failed_ru: Ru::ZERO,
            custom_fields_editable: true,
            page_cap: None,
            limits_whole_lists: false,
            gzip: true,
            latency: Duration::ZERO,
            log_limit: None,
            date_header: DateHeader::Clock,
        }
    }
}

/// The state between requests, next to the world.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) keys: TenantKeys,
    pub(crate) settings: SandboxSettings,
    pub(crate) replays: patch::Replays,
    pub(crate) log: Log,
    pub(crate) requests: u64,
    /// Of a standalone service: what a reset restores.
    pub(crate) origin: Option<Origin>,
    last_pages: BTreeMap<Resource, String>,
    nonce: u64,
}

impl Memory {
    /// Clears everything that requests left behind.
    pub(crate) fn forget(&mut self) {
        self.replays = patch::Replays::default();
        self.log = Log::default();
        self.last_pages.clear();
        self.nonce = 0;
    }

    pub(crate) fn write(&mut self, world: &mut World, whole: bool) -> Result<(), StateError> {
        match &mut self.origin {
            Some(Origin { file: Some(file), clock, .. }) => {
                file.write(world, &mut self.replays, clock.advanced(), whole)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the index of the request's key, too.
pub(crate) fn execute(
    world: &mut World,
    memory: &mut Memory,
    request: &IncomingRequest,
    faults: &TakenFaults,
) -> (Option<usize>, Result<Success, ErrorAnswer>) {
    let key = memory.keys.find(request.authorization.as_deref()).map(|(index, key)| (index, key.clone()));
    let index = key.as_ref().ok().map(|(index, _)| *index);
    let mut result = match faults.answer.as_ref().and_then(refusal) {
        Some(refusal) => Err(refusal),
        None => key.and_then(|(_, key)| Asked { key: &key, request, faults }.answer(world, memory)),
    };
    if let Ok(Success { body, .. }) = &mut result {
        match &faults.answer {
            Some(Fault::Body(other)) => body.clone_from(other),
            Some(Fault::Rewritten(BodyRewrite(rewrite), with)) => *body = rewrite(body, with),
            _ => {}
        }
    }
    (index, result)
}

/// The answer to the request of this number, as its faults let it leave.
pub(crate) fn served(
    result: Result<Success, ErrorAnswer>,
    faults: &TakenFaults,
    settings: &SandboxSettings,
    number: u64,
) -> Served {
    let fault = faults.answer.as_ref();
    let ru = match (fault, &result) {
        (Some(Fault::ErrorAfterApply(_)), _) | (_, Err(_)) => settings.failed_ru,
        // The reference does not specify the cost of a replayed PATCH.
        (_, Ok(Success { replayed: Some(_), .. })) => Ru::PATCH,
        (_, Ok(_)) => Ru::GET,
    };
    let padding = match (fault, &result) {
        (Some(Fault::HugeBody(bytes)), _) => *bytes,
        (Some(Fault::HeavyRows(bytes)), Ok(success)) => bytes.saturating_mul(success.rows),
        _ => 0,
    };
    let html = |status| answer(status, "text/html", MAINTENANCE.to_string());
    let answer = match (fault, result) {
        (Some(Fault::Reset | Fault::ResetAfterApply), _) => None,
        (Some(Fault::Html(status) | Fault::StatusAfterApply(status)), _) => Some(html(*status)),
        (Some(Fault::NotJson), _) => Some(html(200)),
        (Some(Fault::Redirect { status, location }), _) => {
            let mut redirect = answer(*status, "text/html", String::new());
            put(redirect.headers_mut(), LOCATION, location);
            Some(redirect)
        }
        (Some(Fault::ErrorAfterApply(status)), _) => Some(ErrorAnswer::new(*status, INJECTED).answer(number)),
        (_, Ok(success)) => Some(success.answer()),
        (_, Err(error)) => Some(error.answer(number)),
    };
    let date = match &faults.date {
        Some(Fault::Date(date)) => date.clone(),
        _ => settings.date_header.clone(),
    };
    let (slow, drag) = match &faults.delay {
        Some(Fault::Slow(time)) => (*time, Duration::ZERO),
        Some(Fault::Drag(time)) => (Duration::ZERO, *time),
        _ => (Duration::ZERO, Duration::ZERO),
    };
    let slow = settings.latency + slow;
    Served { answer, fault: fault.cloned(), padding, is_gzip_allowed: settings.gzip, date, ru, slow, drag }
}

/// The answer of a fault that lets the request have no effect, as far as there is one.
fn refusal(fault: &Fault) -> Option<ErrorAnswer> {
    let (status, message, retry_after) = match fault {
        Fault::TooMany { body, header } => (429, "Rate limit exceeded", (*body, *header)),
        Fault::StatusWithRetry { status, body, header } => (*status, INJECTED, (*body, *header)),
        Fault::Status(status) => (*status, INJECTED, (None, None)),
        Fault::Html(_) | Fault::Redirect { .. } | Fault::Reset => (500, INJECTED, (None, None)),
        _ => return None,
    };
    Some(ErrorAnswer { retry_after, ..ErrorAnswer::new(status, message) })
}

/// The world as seen by the replica that answers this request.
fn seen<'w>(world: &'w World, faults: &TakenFaults) -> Cow<'w, World> {
    match &faults.view {
        Some(Fault::Lag(by)) => Cow::Owned(world.as_of(world.now().minus(*by))),
        Some(Fault::AsOf(at)) => Cow::Owned(world.as_of(*at)),
        Some(Fault::Hide(hidden)) => Cow::Owned(world.without(hidden)),
        _ => Cow::Borrowed(world),
    }
}

struct Asked<'a> {
    key: &'a TenantKey,
    request: &'a IncomingRequest,
    faults: &'a TakenFaults,
}

impl Asked<'_> {
    fn answer(&self, world: &mut World, memory: &mut Memory) -> Result<Success, ErrorAnswer> {
        let Asked { key, request, faults } = self;
        match (&request.asked.route, request.asked.method.as_str()) {
            (Route::Unknown, _) => Err(ErrorAnswer::new(404, "There is no such path")),
            (Route::List(resource), "GET" | "HEAD") => {
                key.require(resource.read_scope())?;
                self.list(&seen(world, faults), memory, *resource)
            }
            (Route::One(object, id), "GET" | "HEAD") => {
                key.require(object.resource().read_scope())?;
                self.detail(&seen(world, faults), *object, id)
            }
            (Route::One(object, id), "PATCH") => {
                if let Some(scope) = object.resource().write_scope() {
                    key.require(scope)?;
                }
                if faults.answer == Some(Fault::NotApplied) {
                    let unchanged = self.detail(world, *object, id)?;
                    return Ok(Success { replayed: Some(false), ..unchanged });
                }
                let custom = memory.settings.custom_fields_editable;
                patch::patch(world, custom, &mut memory.replays, *object, id, request)
            }
            (_, method) => Err(ErrorAnswer::new(405, format!("{method} is not supported here"))),
        }
    }

    fn list(&self, world: &World, memory: &mut Memory, resource: Resource) -> Result<Success, ErrorAnswer> {
        let (key, asked, fault) = (self.key, &self.request.asked, self.faults.answer.as_ref());
        asked.check()?;
        let query = ListRequest::read(world, resource, asked)?;
        let mut query = if fault == Some(&Fault::CoarseTimes) { query.in_whole_seconds() } else { query };
        let is_long = |(name, value): &(String, String)| name.ends_with("[in]") && value.chars().count() > MAX_TEXT;
        if memory.settings.limits_whole_lists && asked.query.iter().any(is_long) {
            return Err(ErrorAnswer::new(400, "A list of values must be 1 to 320 characters"));
        }
        render::require(key, &query.include)?;
        let binding = Binding::new(&memory.settings.tenant, resource.path(), &key.scopes, &asked.query);
        let (place, nonce) = match asked.param("cursor") {
            Some(_) if fault == Some(&Fault::RefusedCursor) => {
                return Err(ErrorAnswer::invalid("cursor", "has expired"));
            }
            Some(token) => binding.read(token, fault)?,
            None => (PagePosition::Start, 0),
        };
        query.limit = memory.settings.page_cap.map_or(query.limit, |cap| query.limit.min(cap.max(1)));
        let ServedPage { rows, next, total } = list::page(world, &query, &place, memory.settings.counts_rows);
        let mut rows: Vec<String> = rows
            .into_iter()
            .map(|record| {
                let related = render::related(world, &query.include, resource, record);
                render::record(world, resource, record, RecordProjection::List, &related)
            })
            .collect();
        let mut next = next.map(|place| binding.token(&place, 0));
        match fault {
            Some(Fault::EmptyPageWithCursor) => {
                memory.nonce = memory.nonce.max(nonce) + 1;
                rows.clear();
                next = Some(binding.token(&place, memory.nonce));
            }
            Some(Fault::EmptyList) => {
                rows.clear();
                next = None;
            }
            Some(Fault::SameCursor) => {
                next = asked.param("cursor").map(str::to_string).or(next);
            }
            Some(Fault::Unordered) => rows.reverse(),
            Some(Fault::RowOutsideFilter) => rows.extend(
                list::outsider(world, &query)
                    .map(|record| render::record(world, resource, record, RecordProjection::List, &[])),
            ),
            _ => {}
        }
        let next = next.map_or("null".to_string(), |token| format!("\"{token}\""));
        let total = match (total, fault) {
            (Some(_), Some(Fault::EmptyList)) => ",\"total\":0".to_string(),
            (Some(_), Some(Fault::NoTotal)) | (None, _) => String::new(),
            (Some(total), _) => format!(",\"total\":{total}"),
        };
        let mut body = format!("{{\"data\":[{}],\"nextCursor\":{next}{total}}}", rows.join(","));
        if let (Some(Fault::RepeatedPage), Some(last)) = (fault, memory.last_pages.get(&resource)) {
            body.clone_from(last);
        }
        memory.last_pages.insert(resource, body.clone());
        Ok(Success { body, etag: None, replayed: None, rows: rows.len() as u64 })
    }

    fn detail(&self, world: &World, object: Object, id: &str) -> Result<Success, ErrorAnswer> {
        let asked = &self.request.asked;
        asked.check()?;
        let mut wrong = Complaints::default();
        let mut includes = Default::default();
        for (name, value) in &asked.query {
            match name.as_str() {
                "include" => match render::includes(object, value) {
                    Ok(read) => includes = read,
                    Err(message) => wrong.add(name, message),
                },
                _ => wrong.add(name, "is not a parameter of a detail"),
            }
        }
        let includes = wrong.or(includes)?;
        render::require(self.key, &includes)?;
        let resource = object.resource();
        let record = world.table(resource).get(id);
        let record = record.ok_or_else(|| ErrorAnswer::new(404, format!("There is no such {object}")))?;
        let related = render::related(world, &includes, resource, record);
        let body = render::record(world, resource, record, RecordProjection::Detail, &related);
        Ok(Success { body: format!("{{\"data\":{body}}}"), etag: world.etag(object, id), replayed: None, rows: 1 })
    }
}
