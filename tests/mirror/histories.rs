//! Convergence: whatever happened to the service, the network and the process, after two undisturbed runs the mirror
//! equals the service, and the ledger is never below what the service charged. And no run, however disturbed, returns a row
//! to an older content or removes more than the guard allows.
//!
//! Each case is a random history of a small workspace, served in pages of a few rows so that every walk has many.
//! `HISTORIES=n` sets the number of cases, `HISTORIES_SEED=n` chooses others.

mod disturbances;
mod row_history;
mod world_changes;

use std::time::Duration;

use self::disturbances::{Run, run};
use self::world_changes::{ChangeContext, Changed, FIELDS, WorldChange, change};
use crate::support::cases::Cases;
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Object, Ru};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

#[derive(Clone, Debug)]
enum Step {
    Changes(Vec<WorldChange>),
    Wait(u16),
    Run(Run),
    /// An entry of the private state becomes unreadable.
    Junk(u8),
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
    let sizes = (prop_oneof![1 => 0_u8..10, 2 => 10_u8..28], 0_u8..6, 2_u8..8, 1_u8..5, prop::bool::weighted(0.3));
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

fn world(history: &History, changed: &Changed) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(100_000)));
    for object in Object::ALL {
        for (key, data_type) in FIELDS {
            let field = NewField::new(object, key, data_type);
            let field = if data_type.is_select() { field.options(&["a", "b", "gold"]) } else { field };
            world.fields().define(field);
        }
    }
    for n in 0..history.contacts {
        world.create(Object::Contact, &changed.values(n));
    }
    for n in 0..history.companies {
        world.create(Object::Company, &changed.values(n));
    }
    world
}

async fn live_through(history: &History) -> Result<(), String> {
    let changed = Changed::default();
    let crm = Crm::serve(world(history, &changed)).await;
    crm.sandbox.configure(|settings| {
        settings.page_cap = Some(usize::from(history.page_cap));
        settings.counts_rows = history.offsets;
    });
    let clock = WrongClock::new(crm.clock.clone());
    let mut mirror = Mirror::empty();
    mirror.clock = Some(std::sync::Arc::new(clock.clone()));
    mirror.settings.concurrency = u32::from(history.walkers);
    // So that a few records are enough for slices.
    mirror.settings.rows_per_slice = 2;
    mirror.tries = 3;
    for step in &history.steps {
        match step {
            Step::Changes(changes) => crm.sandbox.with_world(|world| {
                for change in changes {
                    ChangeContext { world, changed: &changed }.carry_out(change);
                }
            }),
            Step::Wait(seconds) => crm.wait(u64::from(*seconds)),
            Step::Run(run) => run.carry_out(&crm, &mut mirror, &clock, &changed).await?,
            Step::Junk(which) => {
                changed.note_need_of_sweep();
                mirror.spoil_state(u32::from(*which));
            }
        }
    }
    mirror.limits.limit = Ru::new(1_000_000);
    crm.wait(200_000); // a clock was ahead for less, and a list of definitions is current for less
    mirror.run(&crm, &Job::sync()).await.map_err(|e| format!("first undisturbed run: {e:?}"))?;
    crm.wait(600);
    let last = if changed.needs_sweep() { Job::resync() } else { Job::sync() };
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
