//! The service: whether it answers, and what the key may read. One list with one row per resource, 1 RU each, without
//! retries, because the check should report the current state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use super::mirror::MirrorFacts;
use crate::api::{AdmissionError, ApiError, Client, ClientSettings, ErrorClass, ListQuery, PageSize};
use crate::app::{MirrorSettings, limits};
use crate::cli::{Failure, session};
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, Layout, Purpose, Resource, SystemClock};
use crate::store::{Store, StoreError, lock};
use crate::sync::{BudgetMeter, Silent};

/// The number of records, if the service counted them.
type Counted = Result<Option<u64>, ApiError>;

pub(super) fn skipped(why: &str) -> Vec<Finding> {
    vec![Finding::skip("service.scopes", format!("no request sent: {why}"))]
}

/// What the service answered about each resource that the configuration needs, or why no request was sent.
pub(super) fn ask(config: &Config, mirror: &Result<MirrorFacts, StoreError>) -> Result<Vec<Finding>, Failure> {
    let Ok(setup) = MirrorSettings::new(config.clone()) else {
        return Ok(skipped("it needs an address and a key"));
    };
    if let Some(pid) = lock::current_writer(&config.database) {
        let process = pid.map_or("another crm-mirror".into(), |pid| format!("process {pid}"));
        let why = "writes the mirror and its ledger; `crm-mirror status` shows the result of its runs";
        return Ok(skipped(&format!("{process} {why}")));
    }
    let has_mirror = match mirror {
        Ok(_) => true,
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => false,
        Err(_) => return Ok(skipped("its cost cannot be recorded in the mirror")),
    };
    let ask = async |database: &Path| ask_from(database, &setup).await;
    let asked = session::runtime()?.block_on(session::with_mirror(&config.database, has_mirror, ask));
    Ok(asked.unwrap_or_else(|error| skipped(&format!("its cost cannot be recorded: {}", error_chain(&error)))))
}

/// Sends the requests, with the ledger and the hold of this mirror.
async fn ask_from(database: &Path, setup: &MirrorSettings) -> Result<Vec<Finding>, StoreError> {
    let store = Store::open(database)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let limits = limits(&setup.config.budget);
    let meter =
        Arc::new(BudgetMeter::open(store.clone(), clock.clone(), limits, Duration::ZERO, Arc::new(Silent)).await?);
    let settings = ClientSettings { concurrency: 1, tries: 1, ..setup.client() };
    let needed: Vec<Resource> = Resource::ALL.into_iter().filter(|resource| setup.config.reads(*resource)).collect();
    let answers = match Client::new(settings, setup.key.clone(), clock, meter.clone()) {
        Err(error) => vec![Err(error)],
        Ok(client) => lists(&client, &needed).await,
    };
    let entered = store.write(move |tx| meter.enter(tx)).await;
    store.close().await;
    entered?;
    let is_anything_readable = answers.iter().any(Result::is_ok);
    let finding = |(place, resource)| finding(resource, answers.get(place), is_anything_readable);
    Ok(needed.iter().copied().enumerate().map(finding).collect())
}

/// The answers, up to the first one after which the others would be no better.
async fn lists(client: &Client, needed: &[Resource]) -> Vec<Counted> {
    let mut answers = Vec::new();
    for resource in needed {
        let query = ListQuery::new(*resource).limit(PageSize::ONE).count_exact();
        let answer = client.page(&query, Purpose::Changes, &Layout::default()).await.map(|(_, page)| page.total);
        let class = answer.as_ref().err().map(ApiError::class);
        answers.push(answer);
        if !matches!(class, None | Some(ErrorClass::SkipObject | ErrorClass::BadRequest)) {
            break;
        }
    }
    answers
}

fn finding(resource: Resource, answer: Option<&Counted>, is_anything_readable: bool) -> Finding {
    let (name, scope) = (format!("service.{resource}"), resource.read_scope());
    match answer {
        None => Finding::skip(&name, "no request sent after the failure"),
        Some(Err(error)) => refused(&name, resource, error, is_anything_readable),
        // Of custom fields only the active ones of contacts: one request does not show more.
        Some(Ok(Some(total))) if resource != Resource::CustomFields => {
            Finding::ok(&name, format!("readable ({scope}): {}", format::count(*total)))
        }
        Some(Ok(_)) => Finding::ok(&name, format!("readable ({scope})")),
    }
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
        ErrorClass::Gone => "`api.base_url` must be the service's address including /v1",
        ErrorClass::Hold | ErrorClass::Pause => {
            "wait; or `crm-mirror resume --now` if you know that the service answers again"
        }
        _ => error.hint().unwrap_or("if it persists, contact the operator of the service"),
    };
    Finding::fail(name, Exit::of_api(error), error_chain(error), fix)
}
