//! The service: whether it answers, and what the key may read. One list with one row per resource, 1 RU each, without
//! retries, because the check should report the current state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use super::mirror::MirrorFacts;
use crate::api::{AdmissionError, ApiError, Client, ClientSettings, ErrorClass, ListQuery, PageSize};
use crate::app::{MirrorSettings, limits};
use crate::cli::{Failure, ScratchFolder, session};
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, Layout, Object, Purpose, Resource, Ru, SystemClock};
use crate::store::{Store, StoreError, StoreOptions, lock};
use crate::sync::{BudgetMeter, Silent};

/// The number of records, if the service counted them.
type Counted = Result<Option<u64>, ApiError>;

#[derive(Debug)]
pub(super) struct ServiceReport {
    /// For each resource that the configuration needs; `None` where nothing was sent after a fatal error.
    answers: Vec<(Resource, Option<Counted>)>,
    spent: u64,
}

impl ServiceReport {
    pub(super) fn total(&self, object: Object) -> Option<u64> {
        let (_, answer) = self.answers.iter().find(|(resource, _)| *resource == object.resource())?;
        *answer.as_ref()?.as_ref().ok()?
    }
}

/// Definitions are needed by the objects that have them.
fn is_needed(config: &Config, resource: Resource) -> bool {
    let has_fields = || Object::ALL.into_iter().any(|object| config.mirrors(object.resource()));
    config.mirrors(resource) || (resource == Resource::CustomFields && has_fields())
}

/// The service's answers, or why no request was sent.
pub(super) fn ask(
    config: &Config,
    mirror: &Result<MirrorFacts, StoreError>,
    offline: bool,
) -> Result<Result<ServiceReport, Finding>, Failure> {
    let skipped = |why: String| Ok(Err(Finding::skip("service.scopes", format!("no request sent: {why}"))));
    if offline {
        return skipped("--offline".into());
    }
    let Ok(setup) = MirrorSettings::new(config.clone()) else {
        return skipped("it needs an address and a key".into());
    };
    if let Some(pid) = lock::current_writer(&config.database) {
        let process = pid.map_or("another crm-mirror".into(), |pid| format!("process {pid}"));
        let why = "writes the mirror and its ledger; `crm-mirror status` shows the result of its runs";
        return skipped(format!("{process} {why}"));
    }
    let has_mirror = match mirror {
        Ok(_) => true,
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => false,
        Err(_) => return skipped("its cost cannot be recorded in the mirror".into()),
    };
    let asked = session::runtime()?.block_on(ask_with(&setup, has_mirror));
    asked.map_or_else(
        |error| skipped(format!("its cost cannot be recorded: {}", error_chain(&error))),
        |asked| Ok(Ok(asked)),
    )
}

/// Sends the requests, using the mirror's ledger and hold; without a mirror, in a temporary directory.
async fn ask_with(setup: &MirrorSettings, has_mirror: bool) -> Result<ServiceReport, StoreError> {
    let mirror = &setup.config.database;
    let scratch = if has_mirror { None } else { Some(ScratchFolder::in_place_of(mirror)?) };
    let database = scratch.as_ref().map_or(mirror.clone(), ScratchFolder::mirror);
    let report = ask_from(&database, setup).await;
    let handed_back = scratch.map_or(Ok(()), |scratch| scratch.hand_back(mirror));
    let report = report?;
    handed_back.map(|()| report)
}

async fn ask_from(database: &Path, setup: &MirrorSettings) -> Result<ServiceReport, StoreError> {
    let store = Store::open_with(database, StoreOptions { leaves_no_wal: true, ..StoreOptions::default() })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meter =
        BudgetMeter::open(store.clone(), clock.clone(), limits(&setup.config.budget), Duration::ZERO, Arc::new(Silent))
            .await?;
    let before = meter.ledger().total;
    let meter = Arc::new(meter);
    let settings = ClientSettings { concurrency: 1, tries: 1, ..setup.client() };
    let mut wanted = Resource::ALL.into_iter().filter(|resource| is_needed(&setup.config, *resource));
    let answers = match Client::new(settings, setup.api.key.clone(), clock, meter.clone()) {
        Err(error) => wanted.next().map(|resource| (resource, Some(Err(error)))).into_iter().collect(),
        Ok(client) => lists(&client, wanted).await,
    };
    let spent = meter.ledger().total.saturating_sub(before).get();
    let entered = store.write(move |tx| meter.enter(tx)).await;
    store.close().await;
    entered.map(|_| ServiceReport { answers, spent })
}

async fn lists(client: &Client, wanted: impl Iterator<Item = Resource>) -> Vec<(Resource, Option<Counted>)> {
    let (mut answers, mut is_over) = (Vec::new(), false);
    for resource in wanted {
        if is_over {
            answers.push((resource, None));
            continue;
        }
        let query = ListQuery::new(resource).limit(PageSize::ONE).count_exact();
        let answer = client.page(&query, Purpose::Changes, &Layout::default()).await.map(|(_, page)| page.total);
        is_over = answer.as_ref().is_err_and(ends_it);
        answers.push((resource, Some(answer)));
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

pub(super) fn check(asked: &ServiceReport) -> Vec<Finding> {
    let is_anything_readable = asked.answers.iter().any(|(_, answer)| matches!(answer, Some(Ok(_))));
    let line = |(resource, answer): &(Resource, Option<Counted>)| {
        let (name, scope) = (format!("service.{resource}"), resource.read_scope());
        match answer {
            None => Finding::skip(&name, "no request sent after the failure"),
            Some(Err(error)) => refused(&name, *resource, error, is_anything_readable),
            // Of custom fields only the active ones of contacts: one request does not show more.
            Some(Ok(Some(total))) if *resource != Resource::CustomFields => {
                Finding::ok(&name, format!("readable ({scope}): {}", format::count(*total)))
            }
            Some(Ok(_)) => Finding::ok(&name, format!("readable ({scope})")),
        }
    };
    let cost = Finding::ok("service.cost", format::ru(Ru::new(asked.spent)));
    asked.answers.iter().map(line).chain([cost]).collect()
}

fn refused(name: &str, resource: Resource, error: &ApiError, anything: bool) -> Finding {
    let fix = match error.class() {
        ErrorClass::SkipObject => {
            let message = format!("the key lacks `{}`: {resource} are skipped", resource.read_scope());
            let fix =
                "give the key this scope in the workspace console; `sync.objects` can leave out what it may not read";
            return match anything {
                true => Finding::warn(name, message, fix),
                false => Finding::fail(name, Exit::KeyRefused, message, fix),
            };
        }
        _ if matches!(error, ApiError::NotAdmitted(AdmissionError::Budget { .. })) => {
            return Finding::skip(name, error_chain(error));
        }
        ErrorClass::StopAll => {
            "replace the key (see `key.source` above) by one that is complete, belongs to this workspace, and is not revoked"
        }
        ErrorClass::Gone => "`api.base_url` must be the service's address including /v1",
        ErrorClass::Hold | ErrorClass::Pause => {
            "wait; or `crm-mirror resume --now` if you know that the service answers again"
        }
        _ => error.hint().unwrap_or("if it persists, contact the operator of the service"),
    };
    Finding::fail(name, Exit::of_api(error), error_chain(error), fix)
}
