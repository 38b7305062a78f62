//! A service whose endpoint returns the same error for days: the requests are bounded, everything else stays fresh, and
//! afterwards the mirror recovers without intervention.

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::exit::Exit;
use crm_mirror::model::{Clock as _, DataType, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::sync::Job;
use serde_json::json;

/// Every third hour, including a sweep and an audit.
const RUNS_A_DAY: usize = 8;

/// Requests of a day without failures: a list of each object in each run, the short lists every six hours, a sweep, an
/// audit and the details of changed records.
const PLAIN: usize = RUNS_A_DAY * (2 + 2) + 4 * 5 + 30;

/// A fault of each class, and some of the other statuses, which differ by their number only: each endpoint has others.
fn faults(others: [u16; 2]) -> impl Iterator<Item = Fault> {
    let classes = [400, 401, 403, 404, 412, 429, 500, 501];
    let statuses = classes.into_iter().chain(others).map(Fault::Status);
    statuses.chain([Fault::Html(403), Fault::StatusAfterApply(200), Fault::Reset])
}

async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
        for n in 0..3 {
            world.create(Object::Contact, &json!({"id": format!("ct{n}"), "customFields": {"tier": "a"}}));
        }
        world.create(Object::Company, &json!({"id": "co"}));
        world.create(Resource::TeamMembers, &json!({"id": "tm"}));
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.tries = 3;
        mirror.sync(&crm).await;
        crm.wait(600);
        (crm, mirror)
    };
    prepared("permanent_failures".into(), make).await
}

/// How many rows have this name, by a connection that stays open: each parses the whole schema.
fn named(conn: &rusqlite::Connection, table: &str, name: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table} WHERE name = ?1");
    conn.prepare_cached(&sql).unwrap().query_row([name], |row| row.get(0)).unwrap()
}

/// Whether an error also prevents reading other objects: the service requests a wait, or refuses the key for a list.
fn stops_everything(fault: &Fault, details: bool) -> bool {
    *fault == Fault::Status(429) || *fault == Fault::Status(401) && !details
}

async fn fails_for_a_day(fault: Fault, rule: Rule, resource: Resource, details: bool) {
    let (crm, mirror) = mirrored().await;
    let conn = mirror.read();
    crm.sandbox.faults().add(rule.forever());
    crm.sandbox.clear_log();
    // Open for half a day, as by a daemon that is restarted once.
    let (mut store, mut engine) = mirror.open(&crm, None).await.unwrap();
    for n in 0..RUNS_A_DAY {
        if n == RUNS_A_DAY / 2 {
            drop(engine);
            store.close().await;
            (store, engine) = mirror.open(&crm, None).await.unwrap();
        }
        let name = format!("Name {n}");
        crm.sandbox.with_world(|world| {
            world.edit(Object::Company, "co", &json!({ "name": name }));
            world.edit(Object::Contact, "ct1", &json!({ "name": name }));
        });
        crm.wait(3 * 3600);
        let job = [Job::sync(), Job::resync(), Job::audit()][if n < 6 { 0 } else { n - 5 }].clone();
        let _ = engine.run(&job, "test").await;
        let stopped = stops_everything(&fault, details);
        for (other, table) in [(Resource::Contacts, "contacts"), (Resource::Companies, "companies")] {
            if !stopped && (other != resource || details) {
                let fresh = named(&conn, table, &name);
                assert_eq!(fresh, 1, "{fault:?} for {resource}: {other} stay fresh");
            }
        }
    }
    let asked = crm.sandbox.log().len();
    let most = PLAIN + RUNS_A_DAY * 5 * 3;
    assert!(asked <= most, "{fault:?} for {resource}: {asked} requests in a day, {most} at most");
    assert_eq!(mirror.count("removed_records"), 0, "{fault:?} for {resource}");
    crm.sandbox.faults().clear();
    for _ in 0..3 {
        crm.wait(43_200);
        let report = engine.run(&Job::sync(), "test").await;
        assert!(report.is_ok(), "{fault:?} for {resource}: {report:?}");
    }
    drop(engine);
    store.close().await;
    mirror.assert_exact(&crm);
}

/// Eight hours of scheduled runs every ten minutes with an endpoint that always fails: every other list is fresh after each
/// run, and the failing one is requested at growing intervals.
async fn fails_for_scheduled_hours(fault: Fault, rule: Rule, resource: Resource) {
    let (crm, mut mirror) = mirrored().await;
    let conn = mirror.read();
    mirror.settings.details = false;
    mirror.tries = 1;
    crm.sandbox.faults().add(rule.forever());
    crm.sandbox.clear_log();
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    for n in 0..6 * 8 {
        let name = format!("Name {n}");
        crm.sandbox.with_world(|world| {
            world.edit(Object::Company, "co", &json!({ "name": name }));
            world.edit(Object::Contact, "ct1", &json!({ "name": name }));
        });
        crm.wait(600);
        let ended = engine.run(&Job::sync(), "schedule").await;
        for (other, table) in [(Resource::Contacts, "contacts"), (Resource::Companies, "companies")] {
            if other != resource {
                let fresh = named(&conn, table, &name);
                assert_eq!(fresh, 1, "run {n}, {fault:?} for {resource}: {other} stay fresh");
            }
        }
        let read = matches!(resource, Resource::TeamMembers | Resource::CustomFields);
        // Without a scope, a run has done all that it can.
        let expected = if fault == Fault::Status(403) { ended.is_ok() } else { ended.is_err() || read };
        assert!(expected, "run {n}, {fault:?} for {resource}: {ended:?}");
    }
    let log = crm.sandbox.log();
    let asked = log.entries().iter().filter(|entry| entry.asked.lists(resource)).count();
    // Each attempt at records asks once more whether it is an outage.
    assert!((6..=28).contains(&asked), "{fault:?} for {resource}: {asked} requests in eight hours");
    crm.sandbox.faults().clear();
    crm.wait(3_600);
    engine.run(&Job::sync(), "schedule").await.unwrap();
    drop(engine);
    store.close().await;
    crm.wait(7 * 3_600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 0);
}

#[tokio::test]
async fn endpoint_that_always_fails_leaves_the_rest_fresh_on_the_regular_schedule() {
    for (resource, status) in [
        (Resource::Companies, 500),
        (Resource::Contacts, 400),
        (Resource::TeamMembers, 400),
        (Resource::CustomFields, 500),
        (Resource::Companies, 403),
        (Resource::TeamMembers, 403),
    ] {
        let fault = Fault::Status(status);
        let rule = Rule::new(fault.clone()).on(resource);
        fails_for_scheduled_hours(fault, rule, resource).await;
    }
}

/// A list fails for ever, and everything fails once: the delays of the list stay as they were.
#[tokio::test]
async fn moment_without_any_answer_starts_no_quick_attempts_at_a_list_that_fails() {
    let (crm, mut mirror) = mirrored().await;
    mirror.tries = 1;
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Companies).forever());
    for _ in 0..7 {
        mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
        crm.wait(3_600);
    }
    mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
    // The changes, and what tells an outage from a record at which the page fails.
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Contacts).times(2));
    crm.sandbox.clear_log();
    for minute in 0..10 {
        crm.wait(60);
        let failed = mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
        assert_eq!(failed.is_not_due(), minute > 0, "{failed}");
    }
    assert_eq!((crm.sandbox.log().lists(Resource::Companies), crm.sandbox.log().lists(Resource::Contacts)), (0, 11));
}

#[tokio::test]
async fn key_without_any_scope_is_tried_at_growing_intervals() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.set_key(&crm.key, &[]);
    crm.sandbox.clear_log();
    for _ in 0..10 {
        mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
        crm.wait(60);
    }
    assert_eq!(crm.sandbox.log().lists(Resource::Contacts), 4, "after 0, 1, 3 and 7 minutes");
}

#[tokio::test]
async fn new_key_reads_at_once_what_the_one_before_could_not() {
    let (crm, mut mirror) = mirrored().await;
    mirror.key = Some(crm.sandbox.add_key(&["contacts:read", "custom-fields:read", "team-members:read"]));
    for _ in 0..3 {
        mirror.scheduled(&crm, &Job::sync()).await;
        crm.wait(3_600);
    }
    mirror.scheduled(&crm, &Job::sync()).await;
    crm.sandbox.with_world(|world| world.edit(Object::Company, "co", &json!({ "name": "Meanwhile" })));
    mirror.key = None;
    mirror.scheduled(&crm, &Job::sync()).await;
    mirror.assert_exact_lists(&crm);
}

/// Every contact has a value of a field that was added, and the definitions cannot be read for hours.
#[tokio::test]
async fn records_with_an_unknown_key_stay_fresh_while_definitions_fail() {
    let (crm, mut mirror) = mirrored().await;
    mirror.tries = 1;
    mirror.settings.details = false;
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "added", DataType::ShortText)));
    crm.sandbox.configure(|settings| settings.page_cap = Some(1));
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::CustomFields).forever());
    crm.sandbox.clear_log();
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    for n in 0..12 {
        let name = format!("Name {n}");
        crm.sandbox.with_world(|world| {
            for id in ["ct0", "ct1", "ct2"] {
                world.edit(Object::Contact, id, &json!({ "name": name, "customFields": {"added": name} }));
            }
        });
        crm.wait(600);
        assert!(engine.run(&Job::sync(), "schedule").await.is_err(), "not everything was read");
        assert_eq!(mirror.count(&format!("contacts WHERE name = '{name}'")), 3, "run {n}");
    }
    drop(engine);
    store.close().await;
    let asked = crm.sandbox.log().lists(Resource::CustomFields);
    assert!((4..=9).contains(&asked), "{asked} requests in two hours");
    crm.sandbox.faults().clear();
    crm.wait(7 * 3_600);
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.one("SELECT cf_added FROM contacts WHERE id = 'ct1'"), "'Name 11'");
}

#[tokio::test]
async fn permanent_failure_of_a_record_list_is_bounded() {
    for fault in faults([408, 410]) {
        let rule = Rule::new(fault.clone()).on(Resource::Contacts).lists();
        fails_for_a_day(fault, rule, Resource::Contacts, false).await;
    }
}

#[tokio::test]
async fn permanent_failure_of_details_is_bounded() {
    for fault in faults([413, 425]).chain([Fault::Status(301)]) {
        let rule = Rule::new(fault.clone()).on(Resource::Contacts).records();
        fails_for_a_day(fault, rule, Resource::Contacts, true).await;
    }
}

#[tokio::test]
async fn permanent_failure_of_the_definitions_is_bounded() {
    for fault in faults([502, 503]) {
        let rule = Rule::new(fault.clone()).on(Resource::CustomFields);
        fails_for_a_day(fault, rule, Resource::CustomFields, false).await;
    }
}

#[tokio::test]
async fn permanent_failure_of_the_team_list_is_bounded() {
    for fault in faults([504, 520]) {
        let rule = Rule::new(fault.clone()).on(Resource::TeamMembers);
        fails_for_a_day(fault, rule, Resource::TeamMembers, false).await;
    }
}

#[tokio::test]
async fn detail_that_fails_costs_no_more_if_its_record_changes_all_the_time() {
    let (crm, mut mirror) = mirrored().await;
    mirror.tries = 5;
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).record("ct1").forever());
    for n in 0..24 {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &json!({"name": format!("Name {n}")})));
        crm.wait(300);
        mirror.sync(&crm).await;
    }
    let log = crm.sandbox.log();
    let asked = log.entries().iter().filter(|entry| entry.asked.path == "/contacts/ct1").count() - 1;
    assert!((5..=10).contains(&asked), "{asked} requests in two hours");
}

/// The lists were answered, and then the key is revoked: the run says so, and is not done.
#[tokio::test]
async fn key_that_is_revoked_among_details_ends_the_run() {
    for mirror in [Mirror::one_at_a_time(), Mirror::empty()] {
        let mut world = World::new(noon());
        (0..60).for_each(|n| _ = world.create(Object::Contact, &json!({"id": format!("ct{n}")})));
        let crm = Crm::serve(world).await;
        crm.sandbox.faults().add(Rule::new(Fault::Status(401)).on(Resource::Contacts).after(10).forever());
        let failed = mirror.run(&crm, &Job::sync()).await.unwrap_err();
        assert!(failed.to_string().starts_with("could not list contacts"), "{failed}");
        assert_eq!(Exit::of_sync(&failed), Exit::KeyRefused);
        assert!(crm.sandbox.log().details(Object::Contact) <= 40);
    }
}

/// Every answer of the service is an error, or is no JSON, for hours: a timer's runs wait longer each time, as stored, and the
/// first answer ends that.
#[tokio::test]
async fn service_that_fails_altogether_is_asked_at_growing_intervals_by_every_process() {
    for fault in [Fault::Html(200), Fault::Status(500)] {
        let (crm, mut mirror) = mirrored().await;
        mirror.tries = 5;
        crm.sandbox.faults().add(Rule::new(fault.clone()).forever());
        crm.sandbox.clear_log();
        let (mut asked, began) = (Vec::new(), crm.clock.now());
        for _ in 0..36 {
            let before = crm.sandbox.log().len();
            let failed = mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
            assert_eq!(failed.is_not_due(), crm.sandbox.log().len() == before, "{failed}");
            if !failed.is_not_due() {
                asked.push(crm.clock.now().since(began).as_secs() / 60);
            }
            crm.wait(300);
        }
        assert!(asked.len() <= 8, "{fault:?}: attempts after {asked:?} minutes");
        let log = crm.sandbox.log();
        for list in [Resource::Contacts, Resource::Companies] {
            let of_list =
                log.entries().iter().filter(|entry| entry.asked.lists(list) && entry.at.since(began).as_secs() < 3_600);
            assert!(of_list.count() <= 60, "{fault:?} for {list}");
        }
        // A person tries at once, and an update is sent.
        crm.sandbox.faults().clear();
        mirror.run(&crm, &Job::push()).await.unwrap();
        crm.wait(3_600);
        mirror.scheduled(&crm, &Job::sync()).await;
        assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 0, "{fault:?}");
        mirror.assert_exact(&crm);
    }
}

/// A key that nothing answers is tried at once and then at growing intervals, and so is the next one. A small budget delays what
/// is read longer, but no edit.
#[tokio::test]
async fn key_that_was_never_answered_is_tried_at_growing_intervals() {
    for (job, attempts) in [(Job::sync(), 3), (Job::push(), 7)] {
        let (crm, mut mirror) = mirrored().await;
        (mirror.tries, mirror.limits.limit, mirror.limits.charge_failed) = (1, Ru::new(40), true);
        crm.wait(86_400);
        crm.sandbox.faults().add(Rule::new(Fault::Status(503)).forever());
        for _ in 0..2 {
            mirror.key = Some(crm.sandbox.full_key());
            crm.sandbox.clear_log();
            for minute in 0..70 {
                let before = crm.sandbox.log().len();
                let failed = mirror.try_scheduled(&crm, &job).await.unwrap_err();
                let asked = crm.sandbox.log().len() > before;
                assert_eq!((asked, asked || minute > 0), (!failed.is_not_due(), true), "{job:?}: {failed}");
                crm.wait(60);
            }
            assert_eq!(crm.sandbox.log().len(), attempts, "{job:?}");
        }
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        mirror.scheduled(&crm, &Job::sync()).await;
        assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 0);
        mirror.assert_exact_lists(&crm);
    }
}

/// An answer that cannot be read says at once whether fewer rows help.
#[tokio::test]
async fn list_that_is_never_readable_is_not_asked_for_at_every_page_size() {
    let (crm, mut mirror) = mirrored().await;
    mirror.tries = 5;
    crm.sandbox.faults().add(Rule::new(Fault::Html(200)).on(Resource::Contacts).lists().forever());
    crm.sandbox.clear_log();
    mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
    assert_eq!(crm.sandbox.log().lists(Resource::Contacts), 6, "five times, and one row once");
}

/// Each detail fails three times and is answered then: what that costs has the bound of those that fail for ever.
#[tokio::test]
async fn details_that_are_answered_in_the_end_fail_at_a_bounded_rate() {
    let mut world = World::new(noon());
    for n in 0..60 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.tries = 5;
    (0..60).for_each(|n| crm.sandbox.faults().add(Rule::new(Fault::Status(502)).record(&format!("ct{n}")).times(3)));
    for hour in 0..13 {
        crm.sandbox.clear_log();
        for _ in 0..6 {
            _ = mirror.try_scheduled(&crm, &Job::sync()).await;
            crm.wait(600);
        }
        let failed = crm.sandbox.log().with_status(502);
        assert!(failed <= 60, "{failed} requests failed in hour {hour}");
    }
    mirror.assert_exact(&crm);
}
