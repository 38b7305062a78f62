//! Runs, and what goes wrong while they last.

use std::collections::BTreeSet;
use std::time::Duration;

use super::row_history::{Content, RowHistory};
use super::world_changes::{ChangeContext, Changed, WorldChange, change};
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Resource, Ru};
use crm_mirror::sandbox::{DateHeader, Fault, Hidden, RequestLine, Route, Rule, World};
use crm_mirror::sync::{Job, JobKind};
use proptest::prelude::*;

/// How long a slow answer takes: while it is on its way, other walkers read several pages.
const SLOW: Duration = Duration::from_millis(8);

/// The number of consecutive slow pages.
const SLOW_PAGES: u8 = 3;

/// The records that may be read twice while an answer is slow: those that the sandbox chooses as rows outside a filter.
const FIRST_RECORDS: usize = 3;

/// A run and its disturbances.
#[derive(Clone, Debug)]
pub struct Run {
    job: Job,
    faults: Vec<(Fault, u8)>,
    /// The fault of every matching request of the run.
    lasting: Option<Lasting>,
    /// The error of the mirror's clock during the run, in seconds ahead of the service's.
    clock_ahead: i64,
    killed_after: Option<u64>,
    budget: Option<u64>,
    /// What happens between the requests of the run: after how many, and what.
    during: Vec<(u8, During)>,
    /// After how many pages of contacts some are slow, have a row of another range, and are overtaken by changes.
    overtaken: Option<u8>,
}

/// A fault of the service during a whole run.
#[derive(Clone, Debug)]
enum Lasting {
    /// The answer to every detail.
    Details(Fault),
    /// The answer to every request.
    Everything(Fault),
    /// A share of the lists, but no lookup by id, comes from a replica that lags.
    Lists { lag: Duration, percent: f64 },
    /// The detail of one contact.
    Record(u8, Fault),
}

/// What happens between two requests.
#[derive(Clone, Debug)]
enum During {
    Change(WorldChange),
    /// The mirror's clock jumps to so many seconds ahead of the service's.
    ClockAhead(i64),
    /// So many seconds pass.
    Pass(u8),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (prop::option::of(1_u64..20), prop::option::of(1_u64..20)).prop_map(|(body, header)| Fault::Wait {
            status: 429,
            body,
            header
        }),
        Just(Fault::Status(500)),
        Just(Fault::Status(503)),
        Just(Fault::Reset),
        Just(Fault::ResetAfterApply),
        Just(Fault::Truncated),
        Just(Fault::TruncatedChunked),
        Just(Fault::StatusAfterApply(200)),
        Just(Fault::RefusedCursor),
        Just(Fault::RepeatedPage),
        Just(Fault::SameCursor),
        Just(Fault::EmptyPageWithCursor),
        Just(Fault::Unordered),
        Just(Fault::RowOutsideFilter),
        prop::sample::select(vec![-86_400, 86_400]).prop_map(|seconds| Fault::Date(DateHeader::Offset(seconds))),
    ]
}

fn lasting() -> impl Strategy<Value = Lasting> {
    let everything = |seconds| Lasting::Everything(Fault::Date(DateHeader::Offset(seconds)));
    let lagging = |s| Lasting::Details(Fault::Lag(Duration::from_secs(s)));
    let lagging_lists = |(s, percent)| Lasting::Lists { lag: Duration::from_secs(s), percent: f64::from(percent) };
    prop_oneof![
        1 => Just(Lasting::Details(Fault::Status(404))),
        1 => (1_u64..5_000).prop_map(lagging),
        1 => (600_u64..5_000).prop_map(lagging),
        1 => prop::sample::select(vec![400, 403, 410, 500, 520]).prop_map(|s| Lasting::Details(Fault::Status(s))),
        1 => Just(Lasting::Everything(Fault::Date(DateHeader::Missing))),
        1 => prop::sample::select(vec![-86_400, -600, 600, 86_400]).prop_map(everything),
        1 => prop::sample::select(vec![403, 404, 502]).prop_map(|s| Lasting::Everything(Fault::Html(s))),
        1 => Just(Lasting::Everything(Fault::Redirect { status: 302, location: "/maintenance".into() })),
        1 => (1_u64..5_000).prop_map(|s| Lasting::Everything(Fault::Lag(Duration::from_secs(s)))),
        1 => Just(Lasting::Everything(Fault::StatusAfterApply(502))),
        2 => Just(Lasting::Everything(Fault::EmptyList)),
        4 => prop::sample::select(vec![10, 50, 90])
            .prop_map(|share| Lasting::Everything(Fault::Hide(Hidden::Percent(share)))),
        4 => (1_u64..5_000, prop::sample::select(vec![30, 60, 100])).prop_map(lagging_lists),
        3 => (any::<u8>(), bad_record()).prop_map(|(which, fault)| Lasting::Record(which, fault)),
    ]
}

/// What the detail of a bad record is answered with.
fn bad_record() -> impl Strategy<Value = Fault> {
    prop_oneof![
        prop::sample::select(vec![400, 403, 404, 500, 503]).prop_map(Fault::Status),
        Just(Fault::StatusAfterApply(200)),
        prop::sample::select(vec!["", "{}", "[]", r#"{"data": null}"#, r#"{"data": {"name": 1}}"#])
            .prop_map(|body| Fault::Body(body.into())),
    ]
}

/// Right in most runs.
fn clock_ahead() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0), 1 => wrong_clock()]
}

fn wrong_clock() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![-100_000_000, -86_400, -30, 30, 5_400, 86_400, 100_000_000])
}

fn during() -> impl Strategy<Value = During> {
    prop_oneof![
        12 => change().prop_map(During::Change),
        1 => wrong_clock().prop_map(During::ClockAhead),
        2 => any::<u8>().prop_map(During::Pass),
    ]
}

fn job() -> impl Strategy<Value = Job> {
    prop_oneof![9 => Just(Job::sync()), 4 => Just(Job::resync()), 1 => Just(Job::audit())]
}

pub fn run() -> impl Strategy<Value = Run> {
    (
        job(),
        prop::collection::vec((fault(), 0_u8..12), 0..3),
        (prop::option::weighted(0.35, lasting()), clock_ahead()),
        prop::option::weighted(0.4, 0_u64..40),
        prop::option::weighted(0.2, 1_u64..25),
        prop::collection::vec((0_u8..12, during()), 0..4),
        prop::option::weighted(0.6, 0_u8..6),
    )
        .prop_map(|(job, faults, (lasting, clock_ahead), killed_after, budget, during, overtaken)| Run {
            // Only a sweep reads several pages of an object at once.
            overtaken: overtaken.filter(|_| job.kind == JobKind::Resync),
            job,
            faults,
            lasting,
            clock_ahead,
            killed_after,
            budget,
            during,
        })
}

impl Run {
    /// Runs with all disturbances, and judges what became of the rows.
    pub async fn carry_out(
        &self,
        crm: &Crm,
        mirror: &mut Mirror,
        clock: &WrongClock,
        changed: &Changed,
    ) -> Result<(), String> {
        let before = RowHistory::begin(mirror);
        self.add_faults(crm, changed);
        clock.set_ahead(self.clock_ahead);
        let (mut during, clocks, changed) =
            (self.between_requests(), (crm.clock.clone(), clock.clone()), changed.clone());
        crm.sandbox.before_request(move |world: &mut World, line: &RequestLine| {
            for event in during(world, line) {
                match event {
                    During::Change(change) => ChangeContext { world, changed: &changed }.carry_out(&change),
                    During::ClockAhead(seconds) => clocks.1.set_ahead(seconds),
                    During::Pass(seconds) => clocks.0.advance(Duration::from_secs(u64::from(seconds))),
                }
            }
        });
        mirror.limits.limit = Ru::new(self.budget.unwrap_or(1_000_000));
        // The outcome does not matter; the rows and the undisturbed runs decide.
        let _ = mirror.run_killed_after(crm, &self.job, self.killed_after).await;
        crm.sandbox.clear_hook();
        crm.sandbox.faults().clear();
        clock.set_ahead(0);
        before.judge(mirror, crm, self.content()).map_err(|why| format!("{why}, in {self:?}"))
    }

    fn add_faults(&self, crm: &Crm, changed: &Changed) {
        let faults = crm.sandbox.faults();
        for (fault, after) in &self.faults {
            faults.add(Rule::new(fault.clone()).after(u32::from(*after)));
        }
        if let Some(after) = self.overtaken {
            for fault in [Fault::Slow(SLOW, SLOW), Fault::RowOutsideFilter] {
                let pages = Rule::new(fault).on(Resource::Contacts).lists();
                faults.add(pages.after(u32::from(after)).times(u32::from(SLOW_PAGES)));
            }
        }
        let rule = match &self.lasting {
            None => return,
            Some(Lasting::Details(fault)) => Rule::new(fault.clone()).records(),
            Some(Lasting::Everything(fault)) => Rule::new(fault.clone()),
            Some(Lasting::Lists { lag, percent }) => {
                // Hides nothing: the first rule of its layer that matches counts, so no lookup is answered by the replica.
                faults.add(Rule::new(Fault::Hide(Hidden::Ids(BTreeSet::new()))).with_param("filter[id]").forever());
                Rule::new(Fault::Lag(*lag)).lists().percent(*percent)
            }
            Some(Lasting::Record(which, fault)) => {
                let ids = crm.sandbox.with_world(|world| world.ids(Resource::Contacts));
                let Some(id) = ids.get(usize::from(*which) % ids.len().max(1)) else { return };
                Rule::new(fault.clone()).record(id)
            }
        };
        faults.add(rule.forever());
        // A sweep finds records that disappeared temporarily or were read in an old version.
        changed.note_need_of_sweep();
    }

    /// What happens before each request.
    fn between_requests(&self) -> impl FnMut(&World, &RequestLine) -> Vec<During> + Send + use<> {
        let (during, overtaken) = (self.during.clone(), self.overtaken);
        let (mut asked, mut pages) = (0_u8, 0_u8);
        move |world, line| {
            let due = during.iter().filter(|(at, _)| *at == asked).map(|(_, event)| event.clone());
            let mut due: Vec<During> = due.collect();
            asked = asked.saturating_add(1);
            if overtaken.is_some_and(|after| (after + 1..=after + 2 * SLOW_PAGES).contains(&pages)) {
                // A slow page has been answered; it is on its way.
                let first = 0..world.count(Resource::Contacts).min(FIRST_RECORDS);
                due.extend(first.map(|r| During::Change(WorldChange::Overtake(r as u8))));
            }
            if line.route == Route::List(Resource::Contacts) {
                pages = pages.saturating_add(1);
            }
            due
        }
    }

    /// What the answers show.
    fn content(&self) -> Content {
        let repeats = self.faults.iter().any(|(fault, _)| *fault == Fault::RepeatedPage);
        match &self.lasting {
            Some(Lasting::Everything(Fault::Lag(_))) => Content::Any,
            // Another fault may let one page of a lookup by id through, and the next page is empty.
            Some(Lasting::Everything(Fault::Hide(_))) => Content::Incomplete,
            Some(Lasting::Details(Fault::Lag(_)) | Lasting::Lists { .. }) => Content::Outdated,
            _ if repeats => Content::Outdated,
            _ => Content::Current,
        }
    }
}
