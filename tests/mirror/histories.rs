//! Convergence: whatever happened to the service, the network and the process, after two undisturbed runs the mirror
//! equals the service, and the ledger never says less than the service charged.
//!
//! Each case is a random history of a small workspace, served in pages of a few rows so that every walk has many.
//! `HISTORIES=n` runs more of them; `HISTORIES_ALL=1` adds the disturbances that the mirror does not survive yet.

use std::time::Duration;

use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object, Ru};
use crm_mirror::sandbox::{CursorKind, DateHeader, Fault, Hidden, NewField, RequestLine, Rule, World};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use serde_json::json;

/// Something that happens to the world.
#[derive(Clone, Debug)]
enum Deed {
    Create(u8),
    Edit(u8, u8),
    EditDetail(u8, u8),
    EditLong(u8, u8),
    EditSilently(u8, u8),
    CommitLate(u8, u8),
    DateAhead(u8),
    Undate(u8),
    Tie(Vec<u8>),
    Remove(u8),
    Archive(u8),
    Reactivate(u8),
    Define(u8),
    Relabel(u8),
}

/// What a run suffers.
#[derive(Clone, Debug)]
struct Run {
    resync: bool,
    faults: Vec<(Fault, u8)>,
    /// What every matching request of the run suffers.
    lasting: Option<Lasting>,
    /// How many seconds the mirror's clock is ahead of the service's during the run, or behind it.
    clock_ahead: i64,
    killed_after: Option<u64>,
    budget: Option<u64>,
    /// Deeds between the requests of the run: after how many, and what.
    churn: Vec<(u8, Deed)>,
}

/// How the service misbehaves during a whole run.
#[derive(Clone, Debug)]
enum Lasting {
    /// Every detail is answered like this.
    Details(Fault),
    /// Every request is answered like this.
    Everything(Fault),
}

#[derive(Clone, Debug)]
enum Step {
    Deeds(Vec<Deed>),
    Wait(u16),
    Run(Run),
    /// An entry of the private state becomes unreadable.
    Junk(u8),
}

/// Whether disturbances that are known to be open happen too.
fn all() -> bool {
    std::env::var_os("HISTORIES_ALL").is_some()
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => any::<u8>().prop_map(Deed::Create),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| Deed::Edit(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| Deed::EditDetail(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| Deed::EditLong(r, v)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| Deed::EditSilently(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| Deed::CommitLate(r, v)),
        1 => any::<u8>().prop_map(Deed::DateAhead),
        1 => any::<u8>().prop_map(Deed::Undate),
        2 => prop::collection::vec(any::<u8>(), 2..12).prop_map(Deed::Tie),
        2 => any::<u8>().prop_map(Deed::Remove),
        1 => any::<u8>().prop_map(Deed::Archive),
        1 => any::<u8>().prop_map(Deed::Reactivate),
        1 => any::<u8>().prop_map(Deed::Define),
        1 => any::<u8>().prop_map(Deed::Relabel),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (prop::option::of(1_u64..20), prop::option::of(1_u64..20))
            .prop_map(|(body, header)| Fault::TooMany { body, header }),
        Just(Fault::Status(500)),
        Just(Fault::Status(503)),
        Just(Fault::Reset),
        Just(Fault::ResetAfterApply),
        Just(Fault::Truncated),
        Just(Fault::TruncatedChunked),
        Just(Fault::NotJson),
        Just(Fault::RefusedCursor),
        Just(Fault::RepeatedPage),
        Just(Fault::SameCursor),
        Just(Fault::EmptyPageWithCursor),
        Just(Fault::Unordered),
        Just(Fault::RowOutsideFilter),
    ]
}

/// One strategy, or the other where open disturbances happen too.
fn with_open<T: std::fmt::Debug>(
    landed: impl Strategy<Value = T> + 'static,
    open: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    if all() { prop_oneof![2 => landed, 1 => open].boxed() } else { landed.boxed() }
}

fn lasting() -> impl Strategy<Value = Lasting> {
    let everything = |seconds| Lasting::Everything(Fault::Date(DateHeader::Offset(seconds)));
    with_open(
        prop_oneof![
            Just(Lasting::Details(Fault::Status(404))),
            prop::sample::select(vec![400, 403, 410, 500, 520]).prop_map(|s| Lasting::Details(Fault::Status(s))),
            (1_u64..5_000).prop_map(|s| Lasting::Details(Fault::Lag(Duration::from_secs(s)))),
            Just(Lasting::Everything(Fault::Date(DateHeader::Missing))),
            prop::sample::select(vec![-86_400, -600, 600, 86_400]).prop_map(everything),
            prop::sample::select(vec![403, 404, 502]).prop_map(|s| Lasting::Everything(Fault::Html(s))),
            Just(Lasting::Everything(Fault::Redirect { status: 302, location: "/maintenance".into() })),
            (1_u64..5_000).prop_map(|s| Lasting::Everything(Fault::Lag(Duration::from_secs(s)))),
        ],
        prop_oneof![
            Just(Lasting::Everything(Fault::StatusAfterApply(502))),
            Just(Lasting::Everything(Fault::EmptyList)),
            prop::sample::select(vec![10, 50, 90])
                .prop_map(|share| Lasting::Everything(Fault::Hide(Hidden::Percent(share)))),
        ],
    )
}

fn clock_ahead() -> impl Strategy<Value = i64> {
    let wrong = prop::sample::select(vec![-100_000_000, -86_400, -30, 30, 5_400, 86_400, 100_000_000]);
    with_open(Just(0), wrong)
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::bool::weighted(0.25),
        prop::collection::vec((fault(), 0_u8..12), 0..3),
        (prop::option::weighted(0.25, lasting()), clock_ahead()),
        prop::option::weighted(0.4, 0_u64..40),
        prop::option::weighted(0.2, 1_u64..25),
        prop::collection::vec((0_u8..12, deed()), 0..4),
    )
        .prop_map(|(resync, faults, (lasting, clock_ahead), killed_after, budget, churn)| Run {
            resync,
            faults,
            lasting,
            clock_ahead,
            killed_after,
            budget,
            churn,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let usual = prop_oneof![
        3 => prop::collection::vec(deed(), 1..6).prop_map(Step::Deeds),
        2 => prop_oneof![0_u16..90, 90_u16..4000].prop_map(Step::Wait),
        3 => run().prop_map(Step::Run),
    ];
    let spoiled = prop_oneof![4 => run().prop_map(Step::Run), 1 => any::<u8>().prop_map(Step::Junk)];
    with_open(usual, spoiled)
}

#[derive(Clone, Debug)]
struct History {
    contacts: u8,
    companies: u8,
    page_cap: u8,
    walkers: u8,
    /// Whether the service's cursors count rows, so that a row that moves lets another slip.
    offsets: bool,
    steps: Vec<Step>,
}

fn history() -> impl Strategy<Value = History> {
    let sizes = (0_u8..28, 0_u8..6, 2_u8..8, 1_u8..4, prop::bool::weighted(0.3));
    (sizes, prop::collection::vec(step(), 1..9)).prop_map(
        |((contacts, companies, page_cap, walkers, offsets), steps)| History {
            contacts,
            companies,
            page_cap,
            walkers,
            offsets,
            steps,
        },
    )
}

const FIELDS: [(&str, DataType); 6] = [
    ("motto", DataType::ShortText),
    ("tier", DataType::SingleSelect),
    ("fee", DataType::Decimal),
    ("tags", DataType::MultiSelect),
    ("story", DataType::LongText),
    ("rank", DataType::Integer),
];

fn field(which: u8) -> &'static str {
    FIELDS[usize::from(which) % FIELDS.len()].0
}

/// What the world tells a deed about itself.
struct Doing<'a> {
    world: &'a mut World,
}

impl Doing<'_> {
    fn pick(&self, object: Object, which: u8) -> Option<String> {
        let ids = self.world.ids(object.resource());
        (!ids.is_empty()).then(|| ids[usize::from(which) % ids.len()].clone())
    }

    /// Contacts are three in four.
    fn of(which: u8) -> Object {
        if which % 4 == 3 { Object::Company } else { Object::Contact }
    }

    fn values(v: u8) -> serde_json::Value {
        json!({
            "name": format!("Name {v}"),
            "customFields": {
                "tier": if v.is_multiple_of(3) { json!(null) } else { json!("gold") },
                "fee": format!("{v}.10"),
                "tags": if v.is_multiple_of(2) { json!(["a", "b"]) } else { json!(["b"]) },
                "rank": i64::from(v),
                "motto": if v.is_multiple_of(5) { json!(null) } else { json!(format!("Motto {v}")) },
            },
        })
    }

    /// The time of a late commit. A record's own version never goes backwards: an older one would be the answer of a
    /// replica.
    fn late(&self, object: Object, id: &str, at: crm_mirror::model::Instant) -> crm_mirror::model::Instant {
        let record = self.world.detail_json(object, id);
        let known = record.and_then(|record| record["updatedAt"].as_str().and_then(|at| at.parse().ok()));
        known.map_or(at, |known: crm_mirror::model::Instant| known.max(at))
    }

    /// Carries out a deed. Says whether only a sweep can find it.
    fn carry_out(&mut self, deed: &Deed) -> bool {
        let now = self.world.now();
        match deed {
            Deed::Create(v) => {
                self.world.create(Self::of(*v), &Self::values(*v));
            }
            Deed::Edit(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &Self::values(*v));
                }
            }
            Deed::EditDetail(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &json!({ "notes": format!("Note {v}") }));
                }
            }
            Deed::EditLong(r, v) => {
                if let Some(id) = self.pick(Object::Contact, *r) {
                    let value = if v % 4 == 0 { json!(null) } else { json!(format!("Long {v}")) };
                    self.world.edit(Object::Contact, &id, &json!({ "customFields": { "story": value } }));
                }
            }
            Deed::EditSilently(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit_silently(Self::of(*r), &id, &json!({ "name": format!("Silent {v}") }));
                }
                return true;
            }
            Deed::CommitLate(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = self.late(Self::of(*r), &id, now.minus(Duration::from_secs(u64::from(*v % 50))));
                    self.world.edit_at(Self::of(*r), &id, &Self::values(*v), Some(at));
                }
            }
            Deed::DateAhead(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = now.plus(Duration::from_secs(1_000_000));
                    self.world.set_updated_at(Self::of(*r), &id, Some(at));
                }
            }
            Deed::Undate(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.set_updated_at(Self::of(*r), &id, None);
                }
                return true;
            }
            Deed::Tie(which) => {
                for id in which.iter().filter_map(|r| self.pick(Object::Contact, *r)).collect::<Vec<_>>() {
                    self.world.set_updated_at(Object::Contact, &id, Some(now));
                }
            }
            Deed::Remove(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.remove(Self::of(*r), &id);
                }
                return true;
            }
            Deed::Archive(f) => {
                self.world.archive(Object::Contact, field(*f));
            }
            Deed::Reactivate(f) => {
                self.world.reactivate(Object::Contact, field(*f));
            }
            Deed::Define(n) => {
                let key = format!("New {}", n % 3);
                let known = self.world.definitions().iter().any(|d| d.key == key);
                if !known {
                    self.world.define(NewField::new(Object::Contact, &key, DataType::ShortText));
                    if let Some(id) = self.pick(Object::Contact, *n) {
                        self.world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
                    }
                }
            }
            Deed::Relabel(f) => {
                self.world.relabel(Object::Contact, field(*f), "Another label");
            }
        }
        false
    }
}

fn world(history: &History) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(100_000)));
    for object in Object::ALL {
        for (key, data_type) in FIELDS {
            let field = NewField::new(object, key, data_type);
            let field = if data_type.is_select() { field.options(&["a", "b", "gold"]) } else { field };
            world.define(field);
        }
    }
    for n in 0..history.contacts {
        world.create(Object::Contact, &Doing::values(n));
    }
    for n in 0..history.companies {
        world.create(Object::Company, &Doing::values(n));
    }
    world
}

/// One run with everything that disturbs it.
async fn run_disturbed(
    run: &Run,
    crm: &Crm,
    mirror: &mut Mirror,
    clock: &WrongClock,
    needs_sweep: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) {
    for (fault, after) in &run.faults {
        crm.sandbox.faults().add(Rule::new(fault.clone()).after(u32::from(*after)));
    }
    if let Some(lasting) = &run.lasting {
        let rule = match lasting {
            Lasting::Details(fault) => Rule::new(fault.clone()).records(),
            Lasting::Everything(fault) => Rule::new(fault.clone()),
        };
        crm.sandbox.faults().add(rule.forever());
        // What vanished for a while, or was read too old, is found by a sweep.
        needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    clock.set_ahead(run.clock_ahead);
    let (churn, needs) = (run.churn.clone(), needs_sweep.clone());
    let mut asked = 0_u8;
    crm.sandbox.before_request(move |world: &mut World, _: &RequestLine| {
        for (_, deed) in churn.iter().filter(|(at, _)| *at == asked) {
            if (Doing { world }).carry_out(deed) {
                needs.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        asked = asked.saturating_add(1);
    });
    mirror.limits.limit = Ru::new(run.budget.unwrap_or(1_000_000));
    let job = if run.resync { Job::resync() } else { Job::sync() };
    // Whatever it says: what counts is what the undisturbed runs make of it.
    let _ = mirror.run_killed_after(crm, &job, run.killed_after).await;
    crm.sandbox.clear_hook();
    crm.sandbox.faults().clear();
    clock.set_ahead(0);
}

async fn live_through(history: &History) -> Result<(), String> {
    let crm = Crm::serve(world(history)).await;
    crm.sandbox.configure(|settings| {
        settings.page_cap = Some(usize::from(history.page_cap));
        settings.cursors = if history.offsets { CursorKind::Offset } else { CursorKind::Keyset };
    });
    let clock = WrongClock::new(crm.clock.clone());
    let mut mirror = Mirror::empty();
    mirror.clock = Some(std::sync::Arc::new(clock.clone()));
    mirror.settings.concurrency = u32::from(history.walkers);
    mirror.tries = 3;
    let needs_sweep = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for step in &history.steps {
        match step {
            Step::Deeds(deeds) => crm.sandbox.with_world(|world| {
                for deed in deeds {
                    if (Doing { world }).carry_out(deed) {
                        needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            }),
            Step::Wait(seconds) => crm.wait(u64::from(*seconds)),
            Step::Run(run) => run_disturbed(run, &crm, &mut mirror, &clock, &needs_sweep).await,
            Step::Junk(which) => {
                needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
                mirror.spoil_state(u32::from(*which));
            }
        }
    }
    mirror.limits.limit = Ru::new(1_000_000);
    crm.wait(100_000);
    mirror.run(&crm, &Job::sync()).await.map_err(|e| format!("first undisturbed run: {e:?}"))?;
    crm.wait(600);
    let last = if needs_sweep.load(std::sync::atomic::Ordering::Relaxed) { Job::resync() } else { Job::sync() };
    let last = last.accepting_removals();
    mirror.run(&crm, &last).await.map_err(|e| format!("second undisturbed run: {e:?}"))?;
    let differences = mirror.differences(&crm);
    if !differences.is_empty() {
        return Err(differences[..differences.len().min(8)].join("\n"));
    }
    let mut searched = crate::support::searched::differences(&mirror.read());
    searched.extend(crate::support::searched::integrity(&mirror.path));
    if !searched.is_empty() {
        return Err(searched.join("\n"));
    }
    let (ledger, charged) = (mirror.ledger_total(), crm.charged());
    if ledger < charged {
        return Err(format!("the ledger says {ledger}, the service charged {charged}"));
    }
    Ok(())
}

/// Half of the cases each: the two run side by side.
fn converge(default_cases: u32) {
    let cases = std::env::var("HISTORIES").ok().and_then(|n| n.parse::<u32>().ok()).map_or(default_cases, |n| n / 2);
    let config =
        ProptestConfig { cases, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(config, |(history in history())| {
        let lived = runtime.block_on(live_through(&history));
        prop_assert!(lived.is_ok(), "{}", lived.unwrap_err());
    });
}

#[test]
fn after_any_history_two_undisturbed_runs_make_the_mirror_equal_the_service() {
    converge(500);
}

#[test]
fn after_any_other_history_they_do_so_too() {
    converge(500);
}
