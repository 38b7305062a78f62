//! Convergence: whatever happened to the service, the network and the process, after two undisturbed runs the mirror
//! equals the service, and the ledger is never below what the service charged.
//!
//! Each case is a random history of a small workspace, served in pages of a few rows so that every walk has many.
//! `HISTORIES=n` sets the number of cases.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::cases::Cases;
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Instant, Object, Ru};
use crm_mirror::sandbox::{CursorKind, DateHeader, Fault, Hidden, NewField, RequestLine, Rule, World};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::json;

/// A change of the world.
#[derive(Clone, Debug)]
enum WorldChange {
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

/// A run and its disturbances.
#[derive(Clone, Debug)]
struct Run {
    resync: bool,
    faults: Vec<(Fault, u8)>,
    /// The fault of every matching request of the run.
    lasting: Option<Lasting>,
    /// The error of the mirror's clock during the run, in seconds ahead of the service's.
    clock_ahead: i64,
    killed_after: Option<u64>,
    budget: Option<u64>,
    /// Changes between the requests of the run: after how many, and which.
    churn: Vec<(u8, WorldChange)>,
}

/// A fault of the service during a whole run.
#[derive(Clone, Debug)]
enum Lasting {
    /// The answer to every detail.
    Details(Fault),
    /// The answer to every request.
    Everything(Fault),
}

#[derive(Clone, Debug)]
enum Step {
    Changes(Vec<WorldChange>),
    Wait(u16),
    Run(Run),
    /// An entry of the private state becomes unreadable.
    Junk(u8),
}

fn change() -> impl Strategy<Value = WorldChange> {
    prop_oneof![
        3 => any::<u8>().prop_map(WorldChange::Create),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::Edit(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::EditDetail(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::EditLong(r, v)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::EditSilently(r, v)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(r, v)| WorldChange::CommitLate(r, v)),
        1 => any::<u8>().prop_map(WorldChange::DateAhead),
        1 => any::<u8>().prop_map(WorldChange::Undate),
        2 => prop::collection::vec(any::<u8>(), 2..12).prop_map(WorldChange::Tie),
        2 => any::<u8>().prop_map(WorldChange::Remove),
        1 => any::<u8>().prop_map(WorldChange::Archive),
        1 => any::<u8>().prop_map(WorldChange::Reactivate),
        1 => any::<u8>().prop_map(WorldChange::Define),
        1 => any::<u8>().prop_map(WorldChange::Relabel),
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

fn lasting() -> impl Strategy<Value = Lasting> {
    let everything = |seconds| Lasting::Everything(Fault::Date(DateHeader::Offset(seconds)));
    let lagging = |s| Lasting::Details(Fault::Lag(Duration::from_secs(s)));
    prop_oneof![
        Just(Lasting::Details(Fault::Status(404))),
        (1_u64..5_000).prop_map(lagging),
        (600_u64..5_000).prop_map(lagging),
        prop::sample::select(vec![400, 403, 410, 500, 520]).prop_map(|s| Lasting::Details(Fault::Status(s))),
        Just(Lasting::Everything(Fault::Date(DateHeader::Missing))),
        prop::sample::select(vec![-86_400, -600, 600, 86_400]).prop_map(everything),
        prop::sample::select(vec![403, 404, 502]).prop_map(|s| Lasting::Everything(Fault::Html(s))),
        Just(Lasting::Everything(Fault::Redirect { status: 302, location: "/maintenance".into() })),
        (1_u64..5_000).prop_map(|s| Lasting::Everything(Fault::Lag(Duration::from_secs(s)))),
        Just(Lasting::Everything(Fault::StatusAfterApply(502))),
        Just(Lasting::Everything(Fault::EmptyList)),
        prop::sample::select(vec![10, 50, 90])
            .prop_map(|share| Lasting::Everything(Fault::Hide(Hidden::Percent(share)))),
    ]
}

/// Right in most runs.
fn clock_ahead() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => Just(0),
        1 => prop::sample::select(vec![-100_000_000, -86_400, -30, 30, 5_400, 86_400, 100_000_000]),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::bool::weighted(0.25),
        prop::collection::vec((fault(), 0_u8..12), 0..3),
        (prop::option::weighted(0.25, lasting()), clock_ahead()),
        prop::option::weighted(0.4, 0_u64..40),
        prop::option::weighted(0.2, 1_u64..25),
        prop::collection::vec((0_u8..12, change()), 0..4),
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
    prop_oneof![
        6 => prop::collection::vec(change(), 1..6).prop_map(Step::Changes),
        4 => prop_oneof![0_u16..90, 90_u16..4000].prop_map(Step::Wait),
        9 => run().prop_map(Step::Run),
        1 => any::<u8>().prop_map(Step::Junk),
    ]
}

#[derive(Clone, Debug)]
struct History {
    contacts: u8,
    companies: u8,
    page_cap: u8,
    walkers: u8,
    /// Whether the service's cursors count rows, so that a moved row hides another.
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

/// The context of a change.
struct ChangeContext<'a> {
    world: &'a mut World,
}

impl ChangeContext<'_> {
    fn pick(&self, object: Object, which: u8) -> Option<String> {
        let ids = self.world.ids(object.resource());
        (!ids.is_empty()).then(|| ids[usize::from(which) % ids.len()].clone())
    }

    /// Three of four are contacts.
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

    /// The time of a late commit. A record's own version never decreases: an older one would be the answer of a lagging
    /// replica. So the commit is not late if the record has lost its version.
    fn late(&self, object: Object, id: &str, at: Instant) -> Instant {
        let record = self.world.detail_json(object, id);
        let known = record.and_then(|record| record["updatedAt"].as_str().and_then(|at| at.parse().ok()));
        known.map_or(self.world.tick(), |known: Instant| known.max(at))
    }

    /// Applies a change. Returns whether only a sweep can find it.
    fn carry_out(&mut self, change: &WorldChange) -> bool {
        let now = self.world.tick();
        match change {
            WorldChange::Create(v) => {
                self.world.create(Self::of(*v), &Self::values(*v));
            }
            WorldChange::Edit(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &Self::values(*v));
                }
            }
            WorldChange::EditDetail(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit(Self::of(*r), &id, &json!({ "notes": format!("Note {v}") }));
                }
            }
            WorldChange::EditLong(r, v) => {
                if let Some(id) = self.pick(Object::Contact, *r) {
                    let value = if v % 4 == 0 { json!(null) } else { json!(format!("Long {v}")) };
                    self.world.edit(Object::Contact, &id, &json!({ "customFields": { "story": value } }));
                }
            }
            WorldChange::EditSilently(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.edit_silently(Self::of(*r), &id, &json!({ "name": format!("Silent {v}") }));
                }
                return true;
            }
            WorldChange::CommitLate(r, v) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = self.late(Self::of(*r), &id, now.minus(Duration::from_secs(u64::from(*v % 50))));
                    self.world.edit_at(Self::of(*r), &id, &Self::values(*v), Some(at));
                }
            }
            WorldChange::DateAhead(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    let at = now.plus(Duration::from_secs(1_000_000));
                    self.world.set_updated_at(Self::of(*r), &id, Some(at));
                }
            }
            WorldChange::Undate(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.set_updated_at(Self::of(*r), &id, None);
                }
                return true;
            }
            WorldChange::Tie(which) => {
                for id in which.iter().filter_map(|r| self.pick(Object::Contact, *r)).collect::<Vec<_>>() {
                    self.world.set_updated_at(Object::Contact, &id, Some(now));
                }
            }
            WorldChange::Remove(r) => {
                if let Some(id) = self.pick(Self::of(*r), *r) {
                    self.world.remove(Self::of(*r), &id);
                }
                return true;
            }
            WorldChange::Archive(f) => {
                self.world.archive(Object::Contact, field(*f));
            }
            WorldChange::Reactivate(f) => {
                self.world.reactivate(Object::Contact, field(*f));
            }
            WorldChange::Define(n) => {
                let key = format!("New {}", n % 3);
                let known = self.world.definitions().iter().any(|d| d.key == key);
                if !known {
                    self.world.define(NewField::new(Object::Contact, &key, DataType::ShortText));
                    if let Some(id) = self.pick(Object::Contact, *n) {
                        self.world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
                    }
                }
            }
            WorldChange::Relabel(f) => {
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
        world.create(Object::Contact, &ChangeContext::values(n));
    }
    for n in 0..history.companies {
        world.create(Object::Company, &ChangeContext::values(n));
    }
    world
}

/// One run with all its disturbances.
async fn run_disturbed(
    run: &Run,
    crm: &Crm,
    mirror: &mut Mirror,
    clock: &WrongClock,
    needs_sweep: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<(), String> {
    let (before, began) = (versions(mirror), crm.clock.now());
    for (fault, after) in &run.faults {
        crm.sandbox.faults().add(Rule::new(fault.clone()).after(u32::from(*after)));
    }
    if let Some(lasting) = &run.lasting {
        let rule = match lasting {
            Lasting::Details(fault) => Rule::new(fault.clone()).records(),
            Lasting::Everything(fault) => Rule::new(fault.clone()),
        };
        crm.sandbox.faults().add(rule.forever());
        // A sweep finds records that disappeared temporarily or were read in an old version.
        needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    clock.set_ahead(run.clock_ahead);
    let (churn, needs) = (run.churn.clone(), needs_sweep.clone());
    let mut asked = 0_u8;
    crm.sandbox.before_request(move |world: &mut World, _: &RequestLine| {
        for (_, change) in churn.iter().filter(|(at, _)| *at == asked) {
            if (ChangeContext { world }).carry_out(change) {
                needs.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        asked = asked.saturating_add(1);
    });
    mirror.limits.limit = Ru::new(run.budget.unwrap_or(1_000_000));
    let job = if run.resync { Job::resync() } else { Job::sync() };
    // The outcome does not matter; the undisturbed runs decide.
    let _ = mirror.run_killed_after(crm, &job, run.killed_after).await;
    crm.sandbox.clear_hook();
    crm.sandbox.faults().clear();
    clock.set_ahead(0);
    let after = versions(mirror);
    guarded(&before, &after)?;
    // Where the lists say what is true, no row returns to an older version, whatever details say.
    let right_lists = matches!(
        run.lasting,
        None | Some(Lasting::Details(_)) | Some(Lasting::Everything(Fault::Date(_) | Fault::Html(_)))
    );
    if right_lists { never_older(&before, &after, &began.to_string()) } else { Ok(()) }
}

/// The version of each record in the mirror.
type Versions = BTreeMap<(&'static str, String), Option<String>>;

fn versions(mirror: &Mirror) -> Versions {
    if !mirror.path.exists() {
        return Versions::new();
    }
    let mut versions = Versions::new();
    for table in Object::ALL.map(Object::table) {
        let conn = mirror.read();
        // A run that was killed early has made no tables.
        let Ok(mut stmt) = conn.prepare(&format!("SELECT id, updated_at FROM {table}")) else { continue };
        let rows = stmt.query_map([], |row| Ok(((table, row.get(0)?), row.get(1)?))).unwrap();
        versions.extend(rows.map(Result::unwrap));
    }
    versions
}

/// Nobody accepted removals: no run removes more than the guard allows.
fn guarded(before: &Versions, after: &Versions) -> Result<(), String> {
    for table in Object::ALL.map(Object::table) {
        let had = before.keys().filter(|(of, _)| *of == table).count();
        let lost = before.keys().filter(|key| key.0 == table && !after.contains_key(*key)).count();
        if had >= 10 && lost * 5 > had {
            return Err(format!("a run removed {lost} of {had} {table}"));
        }
    }
    Ok(())
}

/// Rows dated in the future are left out: a later change dates them back.
fn never_older(before: &Versions, after: &Versions, began: &str) -> Result<(), String> {
    let time = |at: &str| at.parse::<Instant>().unwrap();
    for (key, old) in before {
        if let (Some(old), Some(Some(new))) = (old, after.get(key))
            && old.as_str() <= began
            && time(new) < time(old)
        {
            return Err(format!("{key:?} returned from version {old} to {new}"));
        }
    }
    Ok(())
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
    // So that a few records are enough for slices.
    mirror.settings.rows_per_slice = 2;
    mirror.tries = 3;
    let needs_sweep = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for step in &history.steps {
        match step {
            Step::Changes(changes) => crm.sandbox.with_world(|world| {
                for change in changes {
                    if (ChangeContext { world }).carry_out(change) {
                        needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            }),
            Step::Wait(seconds) => crm.wait(u64::from(*seconds)),
            Step::Run(run) => run_disturbed(run, &crm, &mut mirror, &clock, &needs_sweep).await?,
            Step::Junk(which) => {
                needs_sweep.store(true, std::sync::atomic::Ordering::Relaxed);
                mirror.spoil_state(u32::from(*which));
            }
        }
    }
    mirror.limits.limit = Ru::new(1_000_000);
    crm.wait(200_000); // a clock was ahead for less, and a list of definitions is current for less
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

/// Runs some of the histories.
fn converge(cases: Cases) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    cases.check(400, history(), |history| runtime.block_on(live_through(&history)).map_err(TestCaseError::fail));
}

in_shards!(after_any_history_two_undisturbed_runs_make_the_mirror_equal_the_service, converge, 1_000, [first, second]);
