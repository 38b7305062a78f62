//! The budget: never over it, never losing anything to it.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Rule, generate};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, Suspension};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_workspace_that_needs_ten_windows_is_exact_after_ten() {
    let crm = Crm::serve(generate(31, 420, 12, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.limits.limit = Ru::new(50);
    mirror.limits.window = HOUR;
    let mut windows = 1;
    loop {
        let report = mirror.sync(&crm).await;
        match report.suspension {
            None => break,
            Some(Suspension::Budget(refills_at)) => {
                assert_eq!(report.outcome, RunOutcome::Suspended);
                crm.clock.set(refills_at);
                windows += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(windows <= 10, "{windows} windows");
    mirror.assert_exact(&crm);
    let log = crm.sandbox.log();
    assert!(log.ru().get() > 450, "the workspace needs {}", log.ru());
    let mut spent = std::collections::BTreeMap::new();
    for entry in log.entries() {
        *spent.entry(entry.at.as_secs() / 3_600).or_insert(0) += entry.ru.get();
    }
    assert!(spent.values().all(|spent| *spent <= 50), "{spent:?}");
    let pages = log
        .entries()
        .iter()
        .filter(|e| e.asked.lists(Resource::Contacts) && e.asked.param("sort") == Some("createdAt"));
    let pages = pages.filter(|e| e.asked.param("limit") == Some("100")).count();
    assert_eq!(pages, 5, "no page of the copy was read twice");
    assert_eq!(log.details(Object::Contact), 420, "no detail either");
}

#[tokio::test]
async fn a_wall_clock_that_jumps_is_no_new_window() {
    let crm = Crm::serve(generate(36, 420, 12, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.limits.limit = Ru::new(20);
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 20);
    for jump in [Duration::from_secs(86_400), 24 * HOUR * 30] {
        for to in [crm.clock.now().plus(jump), crm.clock.now().minus(jump)] {
            let true_time = crm.clock.now();
            crm.clock.jump(to);
            let report = mirror.sync(&crm).await;
            assert!(matches!(report.suspension, Some(Suspension::Budget(at)) if at > to && at.since(to) <= 24 * HOUR));
            assert_eq!(crm.charged(), 20, "the clock shows {to}");
            crm.clock.jump(true_time);
        }
    }
    // When the window's length has passed, the budget is there, whatever the clock shows.
    crm.clock.advance(12 * HOUR);
    crm.clock.jump(crm.clock.now().minus(72 * HOUR));
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 40);
}

#[tokio::test]
async fn sweeps_and_details_leave_what_scheduled_runs_will_need() {
    let crm = Crm::serve(generate(32, 100, 4, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.limits.limit = Ru::new(60);
    mirror.reserve = Ru::new(20);
    let report = mirror.sync(&crm).await;
    assert!(matches!(report.suspension, Some(Suspension::Budget(_))));
    assert_eq!(report.tally.ru, Ru::new(40), "details stop before the reserve");
    assert!(report.pending_details > 0);

    crm.wait(300);
    crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({ "name": "Changed" }))
    });
    let report = mirror.sync(&crm).await;
    assert_eq!(report.tally.ru, Ru::new(2), "changes may spend it");
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn what_failed_requests_count_is_configured_and_an_unreachable_service_costs_nothing() {
    for (charge_failed, expected) in [(true, 3), (false, 0)] {
        let crm = Crm::serve(generate(33, 5, 2, noon())).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.limits.charge_failed = charge_failed;
        mirror.tries = 5;
        crm.sandbox.faults().add(Rule::new(Fault::Status(503)).times(3));
        let report = mirror.sync(&crm).await;
        let charged = crm.charged();
        assert_eq!(report.tally.ru.get(), charged + expected, "charge_failed = {charge_failed}");
        mirror.assert_exact(&crm);
    }
    let mut crm = Crm::serve(generate(34, 5, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let spent = mirror.ledger_total();
    crm.stop();
    let failed = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(failed.to_string().contains("could not list the changes of contacts"), "{failed}");
    assert_eq!(mirror.ledger_total(), spent, "what was never sent is not counted");
}

#[tokio::test]
async fn a_budget_that_ends_in_a_walk_goes_on_at_the_next_page() {
    let crm = Crm::serve(generate(35, 1_000, 3, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.window = HOUR;
    for limit in [9, 4, 2, 1_000] {
        mirror.limits.limit = Ru::new(limit);
        mirror.sync(&crm).await;
        crm.wait(3_600);
    }
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    let copied = log.entries().iter().filter(|e| {
        e.asked.lists(Resource::Contacts)
            && e.asked.param("limit") == Some("100")
            && e.asked.param("filter[updatedAt][gt]").is_none()
    });
    assert_eq!(copied.count(), 10, "each page once");
}
