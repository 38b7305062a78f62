//! The service: whether it answers, what the key may read, and how its clock stands to ours. One list of one row for
//! each resource, 1 RU each, and no second try: a failure now is what somebody wants to know.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::finding::Finding;
use super::meter::UnrecordedMeter;
use crate::api::ClientSettings;
use crate::api::meter::{AdmissionError, Meter};
use crate::api::{ApiError, Client, ErrorClass, ListAnswer, ListQuery, PageSize, decode};
use crate::app::MirrorSettings;
use crate::model::{Clock, Instant, Layout, Object, Purpose, Resource, SystemClock};
use crate::store::{Store, StoreError};
use crate::sync::events::Silent;
use crate::sync::{BudgetMeter, Engine, SyncError};
use crate::{exit::Exit, format};

/// A difference of the clocks that is nobody's business.
const TOLERABLE: Duration = Duration::from_secs(30);

/// What the service was asked, and said.
#[derive(Debug)]
pub struct ServiceReport {
    /// Resource by resource; those after an answer that ends everything are not here.
    pub answers: Vec<(Resource, Result<ServiceAnswer, ApiError>)>,
    /// Whether known records are there; asked only where key or address are new.
    pub recognised: Option<Result<(), SyncError>>,
    /// Request units spent.
    pub spent: u64,
    /// Whether they are in the mirror's ledger.
    pub in_ledger: bool,
}

/// A good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAnswer {
    /// How many there are.
    pub total: Option<u64>,
    /// The service's clock.
    pub date: Option<Instant>,
    /// Our clock when the request was sent, and when its answer was here.
    pub between: (Instant, Instant),
}

impl ServiceReport {
    /// How many rows an object has, where it was counted.
    pub fn total(&self, object: Object) -> Option<u64> {
        let (_, answer) = self.answers.iter().find(|(resource, _)| *resource == object.resource())?;
        answer.as_ref().ok()?.total
    }

    fn served(&self, resource: Resource) -> bool {
        self.answers.iter().any(|(known, answer)| *known == resource && answer.is_ok())
    }
}

/// What a configuration wants of the service: definitions come with the objects that have them.
pub fn wanted(configured: Option<&[Resource]>) -> Vec<Resource> {
    let has = |resource| configured.is_none_or(|configured| configured.contains(&resource));
    let any_object = Object::ALL.into_iter().any(|object| has(object.resource()));
    let needed = |resource: &Resource| has(*resource) || (*resource == Resource::CustomFields && any_object);
    Resource::ALL.into_iter().filter(needed).collect()
}

/// Asks, with the mirror's own ledger and hold; `new` says that key or address are, so that known records are looked up.
///
/// # Errors
/// When the mirror cannot be written: then nothing was asked.
pub async fn ask_for(
    database: &Path,
    setup: &MirrorSettings,
    wanted: &[Resource],
    new: bool,
) -> Result<ServiceReport, StoreError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Store::open(database)?;
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

/// Asks where there is no mirror, and so no ledger. Nothing is made.
pub async fn ask_alone(setup: &MirrorSettings, wanted: &[Resource]) -> ServiceReport {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meter = Arc::new(UnrecordedMeter::new(clock.clone()));
    match client(setup, clock, meter.clone()) {
        Err(error) => alone(wanted, error),
        Ok(client) => ServiceReport {
            answers: ask(&client, wanted).await.answers,
            spent: meter.spent(),
            ..ServiceReport::nothing()
        },
    }
}

impl ServiceReport {
    fn nothing() -> ServiceReport {
        ServiceReport { answers: Vec::new(), recognised: None, spent: 0, in_ledger: false }
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
        ..ServiceReport::nothing()
    }
}

async fn ask(client: &Client, wanted: &[Resource]) -> ServiceReport {
    let mut asked = ServiceReport::nothing();
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
    Ok(ServiceAnswer { total: page.total, date: answer.date, between: (answer.asked_at, Instant::system_now()) })
}

/// Whether another request would fare no better.
fn ends_it(error: &ApiError) -> bool {
    match error.class() {
        ErrorClass::SkipObject | ErrorClass::BadRequest => false,
        ErrorClass::Retry => !matches!(error, ApiError::Status(_) | ApiError::Broken { .. }),
        ErrorClass::StopRun => !matches!(error, ApiError::NotUnderstood(_) | ApiError::TooLarge { .. }),
        _ => true,
    }
}

/// The answers in lines.
pub fn check(asked: &ServiceReport, wanted: &[Resource], write_back: bool) -> Vec<Finding> {
    let anything = wanted.iter().any(|resource| asked.served(*resource));
    let mut lines: Vec<Finding> = wanted
        .iter()
        .map(|resource| {
            let answer = asked.answers.iter().find(|(known, _)| known == resource);
            match answer {
                None => Finding::skip(name(*resource), "not asked after that"),
                Some((_, Ok(answer))) => Finding::ok(name(*resource), may_read(*resource, answer)),
                Some((_, Err(error))) => refused(*resource, error, anything),
            }
        })
        .collect();
    let first = asked.answers.iter().find_map(|(_, answer)| answer.as_ref().ok());
    lines.extend(first.map(clocks));
    if write_back {
        let scopes: Vec<&str> = wanted.iter().filter_map(|resource| resource.write_scope()).collect();
        lines.push(Finding::skip(
            "service.write",
            format!("{} cannot be tried without a write; the first edit will tell", scopes.join(" and ")),
        ));
    }
    let spent = format::ru(crate::model::Ru::new(asked.spent));
    lines.push(if asked.in_ledger {
        Finding::ok("service.cost", format!("{spent} for this, in the mirror's ledger"))
    } else {
        Finding::ok("service.cost", format!("{spent} for this, in no ledger: there is no mirror"))
    });
    lines
}

/// The line of a resource.
pub const fn name(resource: Resource) -> &'static str {
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
        // Only the active ones of contacts: one request tells no more.
        Some(_) if resource == Resource::CustomFields => format!("may be read ({scope})"),
        Some(total) => format!("may be read ({scope}): {}", format::count(total)),
        None => format!("may be read ({scope}); the service did not count them"),
    }
}

fn refused(resource: Resource, error: &ApiError, anything: bool) -> Finding {
    let (name, scope) = (name(resource), resource.read_scope());
    match (error.class(), error) {
        (ErrorClass::SkipObject, _) => {
            let message = format!("the key lacks `{scope}`: {resource} are skipped");
            let fix = match resource {
                // Read with every object, whether named or not.
                Resource::CustomFields => {
                    "give the key this scope in the workspace console: without it there are no columns of custom fields"
                        .into()
                }
                _ => format!(
                    "give the key this scope in the workspace console, or leave {resource} out of `sync.objects`"
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
            crate::error_chain::error_chain(error),
            "put a key there (`source` above) that is whole, of this workspace, and not revoked",
        ),
        (_, ApiError::NotAdmitted(AdmissionError::Budget { .. })) => {
            Finding::skip(name, crate::error_chain::error_chain(error))
        }
        (ErrorClass::Gone, _) => Finding::fail(
            name,
            Exit::of_api(error),
            crate::error_chain::error_chain(error),
            "`api.base_url` must be the service's own address, up to and with /v1",
        ),
        (ErrorClass::Hold | ErrorClass::Pause, _) => Finding::fail(
            name,
            Exit::of_api(error),
            crate::error_chain::error_chain(error),
            "wait; the next run after that resumes",
        ),
        _ => {
            let fix = error.hint().unwrap_or("if it lasts, ask the people who run the service");
            Finding::fail(name, Exit::of_api(error), crate::error_chain::error_chain(error), fix)
        }
    }
}

fn clocks(answer: &ServiceAnswer) -> Finding {
    let name = "service.clock";
    let Some(date) = answer.date else {
        return Finding::skip(name, "the service does not tell its time (no `Date` header)");
    };
    let (sent, came) = answer.between;
    // A date is a whole second that was cut, told somewhere between the two.
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
        "set this machine's clock (`timedatectl set-ntp true`): schedules, budget windows and holds go by it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    #[test]
    fn definitions_come_with_the_objects_that_have_them() {
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
