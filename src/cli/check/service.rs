//! The service: whether it answers, what the key may read, and whether its clock agrees with ours. One list with one
//! row per resource, 1 RU each, without retries, because the check should report the current state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::finding::Finding;
use crate::api::ClientSettings;
use crate::api::admission::{AdmissionError, Meter};
use crate::api::{ApiError, Client, ErrorClass, ListAnswer, ListQuery, PageSize, decode};
use crate::app::MirrorSettings;
use crate::cli::session::ScratchFolder;
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant, Layout, Object, Purpose, Resource, SystemClock};
use crate::store::{Store, StoreError, StoreOptions};
use crate::sync::events::Silent;
use crate::sync::{BudgetMeter, Engine, SyncError};
use crate::{exit::Exit, format};

/// A difference of the clocks that is not reported.
const TOLERABLE: Duration = Duration::from_secs(30);

/// The requests to the service, and its answers.
#[derive(Debug, Default)]
pub(super) struct ServiceReport {
    /// The answers by resource; resources after a fatal error are missing.
    pub answers: Vec<(Resource, Result<ServiceAnswer, ApiError>)>,
    /// Whether known records exist; looked up only if the key or the address is new.
    pub recognised: Option<Result<(), SyncError>>,
    pub spent: u64,
    /// Whether they are recorded in the mirror's ledger.
    pub in_ledger: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServiceAnswer {
    pub total: Option<u64>,
    pub date: Option<Instant>,
    /// Our clock when the request was sent, and when its answer arrived.
    pub between: (Instant, Instant),
}

impl ServiceReport {
    /// The number of rows of an object, if it was counted.
    pub(super) fn total(&self, object: Object) -> Option<u64> {
        let (_, answer) = self.answers.iter().find(|(resource, _)| *resource == object.resource())?;
        answer.as_ref().ok()?.total
    }

    pub(super) fn is_key_refused(&self) -> bool {
        let refused = |error: &ApiError| error.class() == ErrorClass::StopAll;
        self.answers.iter().any(|(_, answer)| answer.as_ref().err().is_some_and(refused))
    }

    fn served(&self, resource: Resource) -> bool {
        self.answers.iter().any(|(known, answer)| *known == resource && answer.is_ok())
    }
}

/// The resources that a configuration needs: definitions are needed by the objects that have them.
pub(super) fn wanted(configured: Option<&[Resource]>) -> Vec<Resource> {
    let has = |resource| configured.is_none_or(|configured| configured.contains(&resource));
    let any_object = Object::ALL.into_iter().any(|object| has(object.resource()));
    let needed = |resource: &Resource| has(*resource) || (*resource == Resource::CustomFields && any_object);
    Resource::ALL.into_iter().filter(needed).collect()
}

/// Sends the requests, using the mirror's ledger and hold; `new` says that the key or the address is new, so that known
/// records are looked up.
pub(super) async fn ask_for(
    database: &Path,
    setup: &MirrorSettings,
    wanted: &[Resource],
    new: bool,
) -> Result<ServiceReport, StoreError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Store::open_with(database, StoreOptions { leaves_no_files: true, ..StoreOptions::default() })?;
    let meter = BudgetMeter::open(store.clone(), clock.clone(), setup.limits, Duration::ZERO, Arc::new(Silent)).await?;
    let meter = Arc::new(meter);
    let before = meter.ledger().total;
    let asked = match client(setup, clock.clone(), meter.clone()) {
        Err(error) => alone(wanted, error),
        Ok(client) => {
            let mut asked = ask(&client, wanted).await;
            if new && Object::ALL.into_iter().any(|object| asked.served(object.resource())) {
                let (store, meter) = (store.clone(), meter.clone());
                let engine = Engine::new(client, store, meter, clock, Arc::new(Silent), setup.sync);
                asked.recognised = Some(engine.recognise().await);
            }
            asked
        }
    };
    let spent = meter.ledger().total.saturating_sub(before).get();
    let book = meter.clone();
    store.write(move |tx| book.enter(tx)).await?;
    drop(meter);
    store.close().await;
    Ok(ServiceReport { spent, in_ledger: true, ..asked })
}

/// Sends the requests without a mirror: its ledger is in a temporary directory.
pub(super) async fn request_without_mirror(setup: &MirrorSettings, wanted: &[Resource]) -> ServiceReport {
    let asked = async {
        let scratch = ScratchFolder::make().map_err(|error| error.to_string())?;
        let asked = ask_for(&scratch.path().join("mirror.db"), setup, wanted, false).await;
        asked.map_err(|error| error_chain(&error))
    };
    match asked.await {
        Ok(asked) => ServiceReport { in_ledger: false, ..asked },
        Err(why) => alone(wanted, ApiError::Setup { why }),
    }
}

fn client(setup: &MirrorSettings, clock: Arc<dyn Clock>, meter: Arc<dyn Meter>) -> Result<Client, ApiError> {
    let settings = ClientSettings {
        timeout: setup.api.timeout,
        concurrency: 1,
        tries: 1,
        ..ClientSettings::new(setup.api.base_url.clone())
    };
    Client::new(settings, setup.api.key.clone(), clock, meter)
}

fn alone(wanted: &[Resource], error: ApiError) -> ServiceReport {
    ServiceReport {
        answers: wanted.first().map(|resource| (*resource, Err(error))).into_iter().collect(),
        ..ServiceReport::default()
    }
}

async fn ask(client: &Client, wanted: &[Resource]) -> ServiceReport {
    let mut asked = ServiceReport::default();
    for resource in wanted {
        let query = ListQuery::new(*resource).limit(PageSize::ONE).count_exact();
        let answer = match client.list(&query, Purpose::Changes).await {
            Ok(answer) => answered(*resource, &answer),
            Err(error) => Err(error),
        };
        let over = answer.as_ref().is_err_and(ends_it);
        asked.answers.push((*resource, answer));
        if over {
            break;
        }
    }
    asked
}

fn answered(resource: Resource, answer: &ListAnswer) -> Result<ServiceAnswer, ApiError> {
    let page = decode::page(resource, &answer.body, &Layout::default())?;
    Ok(ServiceAnswer { total: page.total, date: answer.date, between: (answer.asked.at, Instant::system_now()) })
}

/// Whether another request would fail in the same way.
fn ends_it(error: &ApiError) -> bool {
    match error.class() {
        ErrorClass::SkipObject | ErrorClass::BadRequest => false,
        ErrorClass::Retry => !matches!(error, ApiError::Status(_) | ApiError::Broken { .. }),
        ErrorClass::StopRun => !matches!(error, ApiError::NotUnderstood(_) | ApiError::TooLarge { .. }),
        _ => true,
    }
}

pub(super) fn check(asked: &ServiceReport, wanted: &[Resource]) -> Vec<Finding> {
    let anything = wanted.iter().any(|resource| asked.served(*resource));
    let mut lines: Vec<Finding> = wanted
        .iter()
        .map(|resource| {
            let answer = asked.answers.iter().find(|(known, _)| known == resource);
            match answer {
                None => Finding::skip(name(*resource), "no request sent after the failure"),
                Some((_, Ok(answer))) => Finding::ok(name(*resource), may_read(*resource, answer)),
                Some((_, Err(error))) => refused(*resource, error, anything),
            }
        })
        .collect();
    let first = asked.answers.iter().find_map(|(_, answer)| answer.as_ref().ok());
    lines.extend(first.map(clocks));
    let spent = format::ru(crate::model::Ru::new(asked.spent));
    lines.push(if asked.in_ledger {
        Finding::ok("service.cost", format!("{spent}, recorded in the mirror's ledger"))
    } else {
        Finding::ok("service.cost", format!("{spent}, not recorded: there is no mirror"))
    });
    lines
}

pub(super) const fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Contacts => "service.contacts",
        Resource::Companies => "service.companies",
        Resource::TeamMembers => "service.team-members",
        Resource::CustomFields => "service.custom-fields",
    }
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

fn refused(resource: Resource, error: &ApiError, anything: bool) -> Finding {
    let (name, scope) = (name(resource), resource.read_scope());
    match (error.class(), error) {
        (ErrorClass::SkipObject, _) => {
            let message = format!("the key lacks `{scope}`: {resource} are skipped");
            let fix = match resource {
                // Definitions are read with every object, even if they are not configured.
                Resource::CustomFields => {
                    "give the key this scope in the workspace console: without it there are no columns of custom fields"
                        .into()
                }
                _ => format!(
                    "give the key this scope in the workspace console, or remove {resource} from `sync.objects`"
                ),
            };
            if anything {
                Finding::warn(name, message, fix)
            } else {
                Finding::fail(name, Exit::KeyRefused, message, fix)
            }
        }
        (ErrorClass::StopAll, _) => Finding::fail(
            name,
            Exit::KeyRefused,
            error_chain(error),
            "replace the key (see `source` above) by one that is complete, belongs to this workspace, and is not revoked",
        ),
        (_, ApiError::NotAdmitted(AdmissionError::Budget { .. })) => Finding::skip(name, error_chain(error)),
        (ErrorClass::Gone, _) => Finding::fail(
            name,
            Exit::of_api(error),
            error_chain(error),
            "`api.base_url` must be the service's address including /v1",
        ),
        (ErrorClass::Hold | ErrorClass::Pause, _) => {
            Finding::fail(name, Exit::of_api(error), error_chain(error), "wait; the next run continues afterwards")
        }
        _ => {
            let fix = error.hint().unwrap_or("if it persists, contact the operator of the service");
            Finding::fail(name, Exit::of_api(error), error_chain(error), fix)
        }
    }
}

fn clocks(answer: &ServiceAnswer) -> Finding {
    let name = "service.clock";
    let Some(date) = answer.date else {
        return Finding::skip(name, "the service sends no time (no `Date` header)");
    };
    let (sent, came) = answer.between;
    // A date is rounded down to a second, and was set between the two times.
    let (ahead, behind) = (date.since(came), sent.whole_second().since(date));
    let (distance, where_it_is) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    if distance <= TOLERABLE {
        let message = if distance <= Duration::from_secs(1) {
            "the service's clock and this machine's agree".into()
        } else {
            format!("the service's clock is {} {where_it_is} this machine's", format::duration(distance))
        };
        return Finding::ok(name, message);
    }
    Finding::warn(
        name,
        format!("the service's clock is {} {where_it_is} this machine's", format::duration(distance)),
        "set this machine's clock (`timedatectl set-ntp true`): schedules depend on it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    #[test]
    fn definitions_are_wanted_with_their_objects() {
        use Resource::{Companies, Contacts, CustomFields, TeamMembers};
        assert_eq!(wanted(None), Resource::ALL);
        assert_eq!(wanted(Some(&[TeamMembers])), [TeamMembers]);
        let one = wanted(Some(&[Companies]));
        assert!(one.len() == 2 && one.contains(&Companies) && one.contains(&CustomFields), "{one:?}");
        assert!(!one.contains(&Contacts));
    }

    #[test]
    fn clocks_may_differ_a_little() {
        let at = |text: &str| text.parse::<Instant>().unwrap();
        let between = (at("2026-01-02T03:04:05.9Z"), at("2026-01-02T03:04:08Z"));
        for (date, state, part) in [
            ("2026-01-02T03:04:05Z", FindingState::Ok, "agree"),
            ("2026-01-02T03:04:08Z", FindingState::Ok, "agree"),
            ("2026-01-02T03:03:35Z", FindingState::Ok, "30 s behind"),
            ("2026-01-02T03:03:34Z", FindingState::Warn, "31 s behind"),
            ("2026-01-02T03:04:38Z", FindingState::Ok, "30 s ahead of"),
            ("2026-01-02T03:06:08Z", FindingState::Warn, "2 min ahead of"),
        ] {
            let line = clocks(&ServiceAnswer { total: None, date: Some(at(date)), between });
            assert_eq!(line.state, state, "{date}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }
}
