//! The first copy: everything, exactly, for the necessary RU.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon, truth};
use crm_mirror::model::{Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Log, LoggedRequest, Rule, World, generate};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use rusqlite::config::DbConfig;
use serde_json::json;

fn lists(log: &Log, resource: Resource) -> impl Iterator<Item = &LoggedRequest> {
    log.entries().iter().filter(move |entry| entry.asked.lists(resource))
}

fn pages(log: &Log, resource: Resource) -> usize {
    lists(log, resource).filter(|entry| entry.asked.param("limit") == Some("100")).count()
}

/// Pages of a hundred records exceed the limit of an answer, at the beginning and in the middle of the list.
#[tokio::test]
async fn too_large_pages_are_requested_with_fewer_rows() {
    let crm = Crm::serve(generate(7, 600, 20, noon())).await;
    let long = "x".repeat(5_000);
    crm.sandbox.with_world(|world| {
        let mut ids = world.ids(Resource::Contacts);
        ids.truncate(450);
        for id in ids.iter().take(30).chain(ids.iter().skip(400)) {
            world.edit_at(Object::Contact, id, &json!({"company": long}), Some(noon()));
        }
    });
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.max_body = Some(150_000);
    crm.wait(600);
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact_lists(&crm);
    let lists = lists(&crm.sandbox.log(), Resource::Contacts).count();
    assert!(lists < 60, "{lists} requests for 600 contacts");
    // A changes walk reads the same pages.
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts).iter().take(60) {
            world.edit(Object::Contact, id, &json!({"company": format!("{long}!")}));
        }
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// Whatever is listed: definitions, the team, records to be recognised, confirmed or compared.
#[tokio::test]
async fn rows_too_large_for_full_pages_stop_nothing() {
    let crm = Crm::serve(generate(7, 40, 9, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.max_body = Some(100_000);
    mirror.tries = 1;
    crm.sandbox.faults().add(Rule::new(Fault::HeavyRows(15_000)).forever());
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    mirror.key = Some(crm.sandbox.full_key());
    for job in [Job::sync(), Job::audit(), Job::resync()] {
        crm.wait(7 * 3_600);
        crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            world.remove(Object::Contact, &ids[0]);
            world.edit(Object::Contact, &ids[1], &json!({"name": format!("{job:?}")}));
            world.edit_silently(Object::Contact, &ids[2], &json!({"name": format!("{job:?}")}));
        });
        crm.wait(600);
        assert_eq!(mirror.run(&crm, &job).await.unwrap().outcome, RunOutcome::Done);
    }
    mirror.assert_exact(&crm);
    crm.wait(600);
    crm.sandbox.clear_log();
    let (_, findings) = mirror.verify(&crm, &Job::audit()).await;
    assert!(findings.iter().all(|(_, findings)| findings.is_clean()), "{findings:?}");
    // What fits is found once a run for each resource: with 100, 50, 25, 12 rows, then with 6.
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert!(lists <= 20, "{lists} lists of 37 contacts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_copy_equals_the_service_field_by_field() {
    let mut world = generate(7, 499, 120, noon());
    world.create(Object::Contact, &json!({"name": "Undated", "createdAt": null}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);

    let log = crm.sandbox.log();
    assert_eq!(pages(&log, Resource::Contacts), 6 + 1, "each page repeats a row; one has no date");
    assert_eq!(pages(&log, Resource::Companies), 2 + 1, "and one shows that all have a date");
    assert_eq!(log.details(Object::Contact), 500);
    assert_eq!(log.details(Object::Company), 120);
    assert_eq!(report.tally.ru, log.ru(), "the ledger equals what the service charged");
    // Pages by value prove what they show, so nothing is counted afterwards.
    for resource in [Resource::Contacts, Resource::Companies] {
        assert_eq!(lists(&log, resource).count(), pages(&log, resource));
        assert!(lists(&log, resource).all(|entry| entry.asked.param("cursor").is_none()));
        let totals: Vec<bool> = lists(&log, resource).map(|entry| entry.asked.param("count").is_some()).collect();
        assert!(totals[0] && !totals[1..].iter().any(|asked| *asked), "one total shows whether rows are missing");
    }
    assert_eq!(log.lists(Resource::CustomFields), 4, "active and archived, of both objects");
    assert_eq!(log.lists(Resource::TeamMembers), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_sync_without_changes_writes_nothing() {
    let crm = Crm::serve(generate(3, 250, 40, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    let changes = mirror.count("changes");
    crm.sandbox.clear_log();
    crm.wait(600);
    let report = mirror.sync(&crm).await;
    assert_eq!((report.tally.inserted, report.tally.updated, report.tally.removed, report.tally.details), (0, 0, 0, 0));
    assert_eq!(mirror.count("changes"), changes);
    assert_eq!(crm.charged(), 2, "one request an object");
    mirror.assert_exact(&crm);
}

/// With cursors that count rows, a record that is removed while the copy waits for its budget moves all later ones.
#[tokio::test]
async fn removal_while_a_first_copy_waits_hides_no_other_record() {
    for tied in [false, true] {
        let mut world = World::new(noon());
        for n in 0..600_u64 {
            let at = noon().minus(Duration::from_secs(1_000_000 - if tied { 0 } else { 60 * n })).to_wire();
            let contact = json!({"id": format!("c{n:03}"), "createdAt": at, "updatedAt": at});
            world.create(Object::Contact, &contact);
        }
        let crm = Crm::serve(world).await;
        crm.sandbox.configure(|settings| settings.counts_rows = true);
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.limits.limit = Ru::new(8);
        let first = mirror.sync(&crm).await;
        let copied = mirror.count("contacts");
        assert!(first.suspension.is_some() && (100..600).contains(&copied), "{copied}");
        // It is on the last page that was read.
        crm.sandbox.with_world(|world| world.remove(Object::Contact, &format!("c{:03}", copied - 50)));
        mirror.limits.limit = Ru::new(if tied { 20 } else { 9 });
        for _ in 0..12 {
            crm.wait(86_400);
            mirror.sync(&crm).await;
        }
        assert!((599..=600).contains(&mirror.count("contacts")), "no other record is missing");
        // What was removed behind the copy is no matter of the copy: it is complete as of its begin.
        mirror.limits.limit = Ru::new(1_000);
        crm.wait(86_400);
        mirror.verify(&crm, &Job::audit()).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// A copy that begins again, and then reads the whole list on one page, does not know what became of the rows that it has.
#[tokio::test]
async fn removal_before_a_first_copy_is_read_on_one_page_does_not_linger() {
    let mut world = World::new(noon());
    (0..6).for_each(|n| drop(world.create(Object::Contact, &json!({"id": format!("c{n}")}))));
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| (settings.page_cap, settings.counts_rows) = (Some(2), true));
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.limit = Ru::new(7);
    assert!(mirror.sync(&crm).await.suspension.is_some());
    let copied = mirror.count("contacts");
    assert!((1..6).contains(&copied), "{copied}");
    crm.sandbox.with_world(|world| (0..5).for_each(|n| _ = world.remove(Object::Contact, &format!("c{n}"))));
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    assert_eq!(conn.execute("DELETE FROM goals WHERE object = 'contact' AND kind = 'sweeping'", []).unwrap(), 1);
    mirror.limits.limit = Ru::new(1_000);
    for _ in 0..3 {
        crm.wait(86_400);
        mirror.run(&crm, &Job::sync().accepting_removals()).await.unwrap();
    }
    mirror.assert_exact_lists(&crm);
}

/// What all tests rely on: the comparison finds whatever differs, and without details only what a list shows.
#[tokio::test]
async fn comparison_finds_each_difference() {
    let crm = Crm::serve(generate(7, 60, 9, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    for (damage, is_in_lists) in [
        ("UPDATE contacts SET email = 'other' WHERE id = (SELECT max(id) FROM contacts)", true),
        ("UPDATE contacts SET updated_at = NULL WHERE id = (SELECT min(id) FROM contacts)", true),
        ("UPDATE companies SET name = name || ' '", true),
        ("UPDATE companies SET id = 'other' WHERE id = (SELECT max(id) FROM companies)", true),
        ("DELETE FROM contacts WHERE id = (SELECT min(id) FROM contacts)", true),
        ("UPDATE contact_details SET notes = 'other' WHERE contact_id > 'ct_f'", false),
        ("UPDATE contact_details SET etag = 'other' WHERE contact_id > 'ct_f'", true),
        ("DELETE FROM company_details", true),
        ("UPDATE custom_multi_values SET value = 'other'", true),
        ("DELETE FROM custom_multi_values WHERE position = 0", true),
        ("UPDATE team_members SET email = 'other' WHERE id = (SELECT min(id) FROM team_members)", true),
        ("UPDATE custom_field_definitions SET label = 'other' WHERE key IS NOT NULL", true),
        ("UPDATE custom_field_options SET label = 'other' WHERE position = 0", true),
    ] {
        conn.execute_batch("BEGIN").unwrap();
        assert!(conn.execute(damage, []).unwrap() > 0, "{damage}");
        let [of_lists, all] = [false, true].map(|details| truth::differences(&conn, &crm.sandbox, details).len());
        assert_eq!((of_lists > 0, all > 0), (is_in_lists, true), "{damage}");
        conn.execute_batch("ROLLBACK").unwrap();
    }
}
