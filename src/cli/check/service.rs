//! The service: whether it answers, and what the key may read. One list with one row per resource, 1 RU each, without
//! retries, because the check should report the current state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use crate::api::{AdmissionError, ApiError, Client, ClientSettings, ErrorClass, ListQuery, PageSize};
use crate::app::{MirrorSettings, limits};
use crate::cli::ScratchFolder;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, Layout, Object, Purpose, Resource, Ru, SystemClock};
use crate::store::{Store, StoreError, StoreOptions};
use crate::sync::{BudgetMeter, Silent};

#[derive(Debug, Default)]
pub(super) struct ServiceReport {
    /// The numbers of records by resource, if they were counted; resources after a fatal error are missing.
    answers: Vec<(Resource, Result<Option<u64>, ApiError>)>,
    spent: u64,
}

impl ServiceReport {
    pub(super) fn total(&self, object: Object) -> Option<u64> {
        let (_, answer) = self.answers.iter().find(|(resource, _)| *resource == object.resource())?;
        *answer.as_ref().ok()?
    }
}

/// The resources that a configuration needs: definitions are needed by the objects that have them.
pub(super) fn wanted(configured: Option<&[Resource]>) -> Vec<Resource> {
    let has = |resource| configured.is_none_or(|configured| configured.contains(&resource));
    let any_object = Object::ALL.into_iter().any(|object| has(object.resource()));
    let needed = |resource: &Resource| has(*resource) || (*resource == Resource::CustomFields && any_object);
    Resource::ALL.into_iter().filter(needed).collect()
}

/// Sends the requests, using the mirror's ledger and hold; without a mirror, in a temporary directory.
pub(super) async fn ask(
    setup: &MirrorSettings,
    wanted: &[Resource],
    has_mirror: bool,
) -> Result<ServiceReport, StoreError> {
    let mirror = &setup.config.database;
    let scratch = if has_mirror { None } else { Some(ScratchFolder::in_place_of(mirror)?) };
    let database = scratch.as_ref().map_or(mirror.clone(), ScratchFolder::mirror);
    let report = ask_from(&database, setup, wanted).await;
    let handed_back = scratch.map_or(Ok(()), |scratch| scratch.hand_back(mirror));
    let report = report?;
    handed_back.map(|()| report)
}

async fn ask_from(database: &Path, setup: &MirrorSettings, wanted: &[Resource]) -> Result<ServiceReport, StoreError> {
    let store = Store::open_with(database, StoreOptions { leaves_no_wal: true, ..StoreOptions::default() })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meter =
        BudgetMeter::open(store.clone(), clock.clone(), limits(&setup.config.budget), Duration::ZERO, Arc::new(Silent))
            .await?;
    let before = meter.ledger().total;
    let meter = Arc::new(meter);
    let settings = ClientSettings { concurrency: 1, tries: 1, ..setup.client() };
    let answers = match Client::new(settings, setup.api.key.clone(), clock, meter.clone()) {
        Err(error) => wanted.first().map(|resource| (*resource, Err(error))).into_iter().collect(),
        Ok(client) => lists(&client, wanted).await,
    };
    let spent = meter.ledger().total.saturating_sub(before).get();
    let entered = store.write(move |tx| meter.enter(tx)).await;
    store.close().await;
    entered.map(|_| ServiceReport { answers, spent })
}

async fn lists(client: &Client, wanted: &[Resource]) -> Vec<(Resource, Result<Option<u64>, ApiError>)> {
    let mut answers = Vec::new();
    for resource in wanted {
        let query = ListQuery::new(*resource).limit(PageSize::ONE).count_exact();
        let answer = client.page(&query, Purpose::Changes, &Layout::default()).await.map(|(_, page)| page.total);
        let over = answer.as_ref().is_err_and(ends_it);
        answers.push((*resource, answer));
        if over {
            break;
        }
    }
    answers
}

fn ends_it(error: &ApiError) -> bool {
    match error.class() {
        ErrorClass::SkipObject | ErrorClass::BadRequest => false,
        ErrorClass::Retry => !matches!(error, ApiError::Status(_) | ApiError::Broken { .. }),
        ErrorClass::StopRun => !matches!(error, ApiError::NotUnderstood(_) | ApiError::TooLarge { .. }),
        _ => true,
    }
}

pub(super) fn check(asked: &ServiceReport, wanted: &[Resource]) -> Vec<Finding> {
    let is_anything_readable = asked.answers.iter().any(|(_, answer)| answer.is_ok());
    let line = |resource: &Resource| {
        let (name, scope) = (format!("service.{resource}"), resource.read_scope());
        match asked.answers.iter().find(|(known, _)| known == resource) {
            None => Finding::skip(&name, "no request sent after the failure"),
            // Only the active ones of contacts: one request does not show more.
            Some((Resource::CustomFields, Ok(_))) => Finding::ok(&name, format!("readable ({scope})")),
            Some((_, Ok(Some(total)))) => Finding::ok(&name, format!("readable ({scope}): {}", format::count(*total))),
            Some((_, Ok(None))) => Finding::ok(&name, format!("readable ({scope}); the service did not count them")),
            Some((_, Err(error))) => refused(&name, *resource, error, is_anything_readable),
        }
    };
    let cost = Finding::ok("service.cost", format::ru(Ru::new(asked.spent)));
    wanted.iter().map(line).chain([cost]).collect()
}

fn refused(name: &str, resource: Resource, error: &ApiError, anything: bool) -> Finding {
    let fix = match error.class() {
        ErrorClass::SkipObject => {
            let message = format!("the key lacks `{}`: {resource} are skipped", resource.read_scope());
            let or_else = match resource {
                // Definitions are read with every object, even if they are not configured.
                Resource::CustomFields => ": without it there are no columns of custom fields".into(),
                _ => format!(", or remove {resource} from `sync.objects`"),
            };
            let fix = format!("give the key this scope in the workspace console{or_else}");
            return match anything {
                true => Finding::warn(name, message, fix),
                false => Finding::fail(name, Exit::KeyRefused, message, fix),
            };
        }
        _ if matches!(error, ApiError::NotAdmitted(AdmissionError::Budget { .. })) => {
            return Finding::skip(name, error_chain(error));
        }
        ErrorClass::StopAll => {
            "replace the key (see `source` above) by one that is complete, belongs to this workspace, and is not revoked"
        }
        ErrorClass::Gone => "`api.base_url` must be the service's address including /v1",
        ErrorClass::Hold | ErrorClass::Pause => "wait; the next run continues afterwards",
        _ => error.hint().unwrap_or("if it persists, contact the operator of the service"),
    };
    Finding::fail(name, Exit::of_api(error), error_chain(error), fix)
}
