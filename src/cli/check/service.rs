//! The service: whether it answers, what the key may read, and whether its clock agrees with ours. One list with one
//! row per resource, 1 RU each, without retries, because the check should report the current state.

use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use crate::api::{AdmissionError, ApiError, Client, ClientSettings, ErrorClass, ListQuery, PageSize};
use crate::app::{MirrorSettings, limits};
use crate::cli::ScratchFolder;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, Instant, Layout, Object, Purpose, Resource, Ru, SystemClock};
use crate::store::{Store, StoreError, StoreOptions};
use crate::sync::{BudgetMeter, Engine, Silent, SyncError};

const TOLERABLE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct ServiceReport {
    /// The answers by resource; resources after a fatal error are missing.
    answers: Vec<(Resource, Result<ServiceAnswer, ApiError>)>,
    /// Whether known records exist; looked up only if the key or the address is new.
    pub recognised: Option<Result<(), SyncError>>,
    spent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServiceAnswer {
    total: Option<u64>,
    date: Option<Instant>,
    /// Our clock when the request was sent, and when its answer arrived.
    between: (Instant, Instant),
}

impl ServiceReport {
    pub(super) fn total(&self, object: Object) -> Option<u64> {
        let (_, answer) = self.answers.iter().find(|(resource, _)| *resource == object.resource())?;
        answer.as_ref().ok()?.total
    }

    pub(super) fn is_key_refused(&self) -> bool {
        let refused = |error: &ApiError| error.class() == ErrorClass::StopAll;
        self.answers.iter().any(|(_, answer)| answer.as_ref().err().is_some_and(refused))
    }
}

/// The resources that a configuration needs: definitions are needed by the objects that have them.
pub(super) fn wanted(configured: Option<&[Resource]>) -> Vec<Resource> {
    let has = |resource| configured.is_none_or(|configured| configured.contains(&resource));
    let any_object = Object::ALL.into_iter().any(|object| has(object.resource()));
    let needed = |resource: &Resource| has(*resource) || (*resource == Resource::CustomFields && any_object);
    Resource::ALL.into_iter().filter(needed).collect()
}

/// Sends the requests, using the mirror's ledger and hold. `mirror` says whether the key or the address is new to it, so that
/// known records are looked up; without a mirror, the ledger is in a temporary directory.
pub(super) async fn ask(
    setup: &MirrorSettings,
    wanted: &[Resource],
    mirror: Option<bool>,
) -> Result<ServiceReport, StoreError> {
    let scratch = match mirror {
        Some(_) => None,
        None => Some(ScratchFolder::make().map_err(|source| StoreError::Io { path: std::env::temp_dir(), source })?),
    };
    let database = scratch.as_ref().map_or(setup.config.database.clone(), |scratch| scratch.path().join("mirror.db"));
    let store = Store::open_with(&database, StoreOptions { leaves_no_wal: true, ..StoreOptions::default() })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meter =
        BudgetMeter::open(store.clone(), clock.clone(), limits(&setup.config.budget), Duration::ZERO, Arc::new(Silent))
            .await?;
    let before = meter.ledger().total;
    let meter = Arc::new(meter);
    let settings = ClientSettings { concurrency: 1, tries: 1, ..setup.client() };
    let mut asked = match Client::new(settings, setup.api.key.clone(), clock.clone(), meter.clone()) {
        Err(error) => {
            let answers = wanted.first().map(|resource| (*resource, Err(error))).into_iter().collect();
            ServiceReport { answers, ..ServiceReport::default() }
        }
        Ok(client) => {
            let mut asked = lists(&client, wanted).await;
            if mirror == Some(true) && Object::ALL.into_iter().any(|object| asked.total(object).is_some()) {
                let (store, meter) = (store.clone(), meter.clone());
                let engine = Engine::new(client, store, meter, clock, Arc::new(Silent), setup.sync());
                asked.recognised = Some(engine.recognise().await);
            }
            asked
        }
    };
    asked.spent = meter.ledger().total.saturating_sub(before).get();
    store.write(move |tx| meter.enter(tx)).await?;
    store.close().await;
    Ok(asked)
}

async fn lists(client: &Client, wanted: &[Resource]) -> ServiceReport {
    let mut asked = ServiceReport::default();
    for resource in wanted {
        let query = ListQuery::new(*resource).limit(PageSize::ONE).count_exact();
        let answer = client.page(&query, Purpose::Changes, &Layout::default()).await.map(|(answer, page)| {
            let between = (answer.asked.at, Instant::system_now());
            ServiceAnswer { total: page.total, date: answer.date, between }
        });
        let over = answer.as_ref().is_err_and(ends_it);
        asked.answers.push((*resource, answer));
        if over {
            break;
        }
    }
    asked
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
    let mut findings: Vec<Finding> = Vec::new();
    let first = asked.answers.iter().find_map(|(_, answer)| answer.as_ref().ok());
    for resource in wanted {
        let name = format!("service.{resource}");
        let answer = asked.answers.iter().find(|(known, _)| known == resource);
        findings.push(match answer {
            None => Finding::skip(&name, "no request sent after the failure"),
            Some((_, Ok(answer))) => Finding::ok(&name, may_read(*resource, answer)),
            Some((_, Err(error))) => refused(&name, *resource, error, first.is_some()),
        });
    }
    findings.extend(first.and_then(clocks));
    findings.push(Finding::ok("service.cost", format::ru(Ru::new(asked.spent))));
    findings
}

fn may_read(resource: Resource, answer: &ServiceAnswer) -> String {
    let scope = resource.read_scope();
    match answer.total {
        // Only the active ones of contacts: one request does not show more.
        Some(_) if resource == Resource::CustomFields => format!("readable ({scope})"),
        Some(total) => format!("readable ({scope}): {}", format::count(total)),
        None => format!("readable ({scope}); the service did not count them"),
    }
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

fn clocks(answer: &ServiceAnswer) -> Option<Finding> {
    let (date, (sent, came)) = (answer.date?, answer.between);
    // A date is rounded down to a second, and was set between the two times.
    let (ahead, behind) = (date.since(came), sent.whole_second().since(date));
    let (distance, where_it_is) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    let message = format!("the service's clock is {} {where_it_is} this machine's", format::duration(distance));
    let fix = "set this machine's clock (`timedatectl set-ntp true`): schedules depend on it";
    (distance > TOLERABLE).then(|| Finding::warn("service.clock", message, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_a_little() {
        let at = |text: &str| text.parse::<Instant>().unwrap();
        let between = (at("2026-01-02T03:04:05.9Z"), at("2026-01-02T03:04:08Z"));
        for (date, part) in [
            ("2026-01-02T03:04:05Z", None),
            ("2026-01-02T03:04:08Z", None),
            ("2026-01-02T03:03:35Z", None),
            ("2026-01-02T03:03:34Z", Some("31 s behind")),
            ("2026-01-02T03:04:38Z", None),
            ("2026-01-02T03:06:08Z", Some("2 min ahead of")),
        ] {
            let line = clocks(&ServiceAnswer { total: None, date: Some(at(date)), between });
            let message = line.as_ref().map(|line| line.message.as_str());
            assert_eq!(message.is_some(), part.is_some(), "{date}");
            assert!(part.is_none_or(|part| message.unwrap().contains(part)), "{message:?}");
        }
    }
}
