//! The budget is never exceeded, and nothing is lost because of it.

use std::sync::Arc;
use std::time::Duration;

use crate::support::clock::ManualClock;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::api::{ApiKey, Client, ClientSettings, ListQuery};
use crm_mirror::budget::Limits;
use crm_mirror::model::{Clock, DataType, Layout, Object, Purpose, Resource, Ru};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, RequestLine, Rule, World, generate};
use crm_mirror::store::{RunOutcome, Store};
use crm_mirror::sync::events::Silent;
use crm_mirror::sync::{BudgetMeter, Job, Suspension};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn workspace_that_needs_ten_windows_is_exact_after_ten() {
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
    assert!(log.ru().get() > 440, "the workspace needs {}", log.ru());
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
    assert_eq!(pages, 5 + 1, "no page of the copy was read twice, and nothing had to be counted");
    assert_eq!(log.details(Object::Contact), 420, "no detail either");
}

#[tokio::test]
async fn request_that_nobody_waits_for_any_more_is_not_under_way() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("crm.db")).unwrap();
    let clock = ManualClock::at(noon());
    let limits = Limits { limit: Ru::new(10), window: HOUR, charge_failed: true };
    let meter = BudgetMeter::open(store, Arc::new(clock.clone()), limits, Duration::ZERO, Arc::new(Silent)).await;
    let meter = Arc::new(meter.unwrap());
    let settings = ClientSettings::new(format!("http://{}/v1", silent.local_addr().unwrap()).parse().unwrap());
    let key = ApiKey::new("crm_live_key").unwrap();
    let client = Client::new(settings, key, Arc::new(clock.clone()), meter.clone()).unwrap();
    let (query, layout) = (ListQuery::new(Resource::Contacts), Layout::default());
    let mut request = Box::pin(client.page(&query, Purpose::Changes, &layout));
    let connection = tokio::select! {
        answer = &mut request => panic!("{answer:?}"),
        connection = silent.accept() => connection.unwrap(),
    };
    clock.advance(HOUR);
    assert_eq!(meter.ledger().used, Ru::new(1), "it is under way, and may count in the second window");
    drop(request);
    assert_eq!(meter.ledger().used, Ru::new(1), "it may have been counted after the second window began");
    clock.advance(HOUR);
    let ledger = meter.ledger();
    assert_eq!((ledger.used, ledger.total), (Ru::ZERO, Ru::new(1)), "it was sent once, and is not under way any more");
    drop(connection);
}

#[tokio::test]
async fn jump_of_the_wall_clock_starts_no_new_window() {
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
    // After the window's length the budget is available again, whatever the clock shows.
    crm.clock.advance(12 * HOUR);
    crm.clock.jump(crm.clock.now().minus(72 * HOUR));
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 40);
}

/// A copy whose fifth page is sent before midnight and answered after it, with this status; then a run in the new window.
/// Returns the RU that the service counted from the answer of that page on, the ledger, and the RU that it counted in all.
async fn page_is_under_way_at_midnight(status: u16) -> (u64, serde_json::Value, u64) {
    let crm = Crm::serve(generate(37, 2_000, 2, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.charge_failed = false;
    mirror.limits.limit = Ru::new(12);
    let (clock, mut lists, midnight) = (crm.clock.clone(), 0, noon().plus(24 * HOUR));
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        lists += u32::from(asked.lists(Resource::Contacts));
        if lists == 5 {
            lists += 1;
            clock.set(midnight);
            world.now = midnight;
        }
    });
    if status != 200 {
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).after(4).times(2));
    }
    // More time passed than a retry waits for.
    assert_eq!(mirror.run(&crm, &Job::sync()).await.is_err(), status != 200);
    crm.sandbox.clear_hook();
    let report = mirror.sync(&crm).await;
    assert!(matches!(report.suspension, Some(Suspension::Budget(at)) if at > midnight), "{:?}", report.suspension);
    let log = crm.sandbox.log();
    let is_page = |entry: &&LoggedRequest| entry.asked.lists(Resource::Contacts);
    let fifth = log.entries().iter().filter(is_page).nth(4).unwrap();
    let from = log.entries().iter().position(|entry| std::ptr::eq(entry, fifth)).unwrap();
    let spent = log.entries()[from..].iter().map(|entry| entry.ru.get()).sum();
    let ledger = mirror.one("SELECT value FROM state WHERE name = 'ledger'");
    (spent, serde_json::from_str(ledger.trim_matches('\'')).unwrap(), crm.charged())
}

/// It costs nothing, so both windows have their whole limit.
#[tokio::test]
async fn refund_after_midnight_leaves_the_new_window_its_limit_and_no_more() {
    let (spent, ledger, charged) = page_is_under_way_at_midnight(503).await;
    assert_eq!(spent, 12, "in the new window, which began during the failed request");
    assert_eq!((ledger["used"].as_u64(), ledger["total"].as_u64()), (Some(12), Some(charged)));
}

/// The service may count it in either window.
#[tokio::test]
async fn request_under_way_at_midnight_counts_in_both_windows() {
    let (spent, ledger, charged) = page_is_under_way_at_midnight(200).await;
    assert_eq!(spent, 12, "in the new window, with the request that was sent before it");
    assert_eq!((ledger["used"].as_u64(), ledger["total"].as_u64()), (Some(12), Some(charged)));
}

#[tokio::test]
async fn sweeps_and_details_do_not_use_the_reserve() {
    let crm = Crm::serve(generate(32, 100, 4, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.limits.limit = Ru::new(60);
    mirror.reserve[0] = Ru::new(20);
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

/// What the window before needed late in the day says nothing of the new one.
#[tokio::test]
async fn run_that_goes_on_in_the_next_window_leaves_there_what_its_schedule_needs() {
    let crm = Crm::serve(generate(32, 100, 4, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.limits.limit = Ru::new(60);
    mirror.reserve = [Ru::ZERO, Ru::new(20)];
    let (clock, mut details, midnight) = (crm.clock.clone(), 0, noon().plus(24 * HOUR));
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        details += u32::from(asked.path.starts_with("/contacts/"));
        if details == 10 {
            clock.set(midnight);
            world.now = midnight;
        }
    });
    let report = mirror.sync(&crm).await;
    assert!(matches!(report.suspension, Some(Suspension::Budget(at)) if at > midnight), "{:?}", report.suspension);
    let ledger = mirror.one("SELECT value ->> 'used' FROM state WHERE name = 'ledger'");
    assert_eq!(ledger, "40", "details stop before the reserve of the new window");
}

#[tokio::test]
async fn failed_requests_are_charged_as_configured_and_failed_connections_never() {
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
    assert_eq!(mirror.ledger_total(), spent, "requests that were not sent are not counted");
}

#[tokio::test]
async fn budget_that_ends_during_a_walk_continues_at_the_last_record() {
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
    // Ten pages' rows, of which each page repeats one of the page before, and one for those without a date; a pause costs nothing.
    assert_eq!(copied.count(), 11 + 1);
}

/// A field comes back from the archive, and a day's budget is not enough to read who has a value in it.
#[tokio::test]
async fn back_fill_continues_in_the_next_budget_window_at_its_last_page() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "motto", DataType::ShortText));
    for n in 0..60 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}"), "name": format!("Name {n}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    // Without a trace in `updatedAt`.
    let fill = |contacts: std::ops::Range<usize>, value: serde_json::Value| {
        crm.sandbox.with_world(|world| {
            for n in contacts {
                world.edit_silently(Object::Contact, &format!("ct{n:03}"), &json!({"customFields": {"motto": value}}));
            }
        });
    };
    mirror.settings.details = false;
    fill(0..55, json!("old"));
    mirror.run(&crm, &Job::resync()).await.unwrap();
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "motto"));
    crm.wait(6 * 3_600);
    mirror.sync(&crm).await;
    // Two lose their value silently meanwhile; the back-fill does not return them.
    fill(3..4, json!(null));
    fill(50..51, json!(null));
    fill(10..40, json!("new"));
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "motto"));
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    crm.wait(86_400);
    crm.sandbox.clear_log();
    let mut windows = 0;
    loop {
        // The definitions and changes of each day, and some pages of the back-fill.
        mirror.limits.limit = Ru::new(11);
        windows += 1;
        let report = mirror.sync(&crm).await;
        crm.wait(86_400);
        if report.suspension.is_none() {
            break;
        }
        assert!(windows < 10, "it never ends");
    }
    assert!(windows >= 3, "{windows}");
    mirror.assert_exact_lists(&crm);
    let filtered = "filter[customFields.motto][isNull]";
    let read: Vec<Option<String>> = crm
        .sandbox
        .log()
        .entries()
        .iter()
        .filter(|entry| entry.asked.param(filtered).is_some())
        .map(|entry| entry.asked.param("cursor").map(String::from))
        .collect();
    // The last page before a pause is read again: it shows whether the list has moved.
    assert_eq!(read.len(), 53_usize.div_ceil(5) + windows - 1, "{windows} windows: {read:?}");
    assert_eq!(mirror.count("filled_records"), 0);
    assert_eq!(mirror.count("reads WHERE purpose = 'fill'"), 0);
}

/// A mirror of so many contacts that have a value in a custom field.
async fn mirrored_mottos(contacts: usize) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "motto", DataType::ShortText));
    for n in 0..contacts {
        let values = json!({"id": format!("ct{n:03}"), "name": "Ann", "customFields": {"motto": "old"}});
        world.create(Object::Contact, &values);
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.run(&crm, &Job::resync()).await.unwrap();
    (crm, mirror)
}

/// Most records lost their value while the field was archived: after the back-fill they are looked up, and a window has
/// units for a few of its pages and lookups only.
#[tokio::test]
async fn records_that_a_back_fill_passed_over_are_read_once_over_several_windows() {
    let (crm, mut mirror) = mirrored_mottos(60).await;
    crm.sandbox.with_world(|world| {
        world.fields().archive(Object::Contact, "motto");
    });
    crm.wait(6 * 3_600);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for n in 20..60 {
            let cleared = json!({"customFields": {"motto": null}});
            world.edit_silently(Object::Contact, &format!("ct{n:03}"), &cleared);
        }
        world.fields().reactivate(Object::Contact, "motto");
    });
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    crm.wait(86_400);
    crm.sandbox.clear_log();
    mirror.limits.limit = Ru::new(9);
    let mut windows = 1;
    while mirror.sync(&crm).await.suspension.is_some() {
        crm.wait(86_400);
        windows += 1;
        assert!(windows < 10, "it never ends");
    }
    assert!(windows > 2, "{windows}");
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    let is_fill = |name: &str| name.starts_with("filter[customFields.motto]");
    let named = |wanted: &dyn Fn(&str) -> bool| {
        let asks = log.entries().iter().filter(|entry| entry.asked.query.iter().any(|(name, _)| wanted(name)));
        asks.map(|entry| format!("{:?}", entry.asked.query)).collect::<Vec<_>>()
    };
    // The walk, and the last page before a pause once more; then each record once, as many at a time as a page lists.
    let (pages, lookups) = (named(&is_fill), named(&|name| name.starts_with("filter[id]")));
    assert!(pages.len() <= 4 + windows, "{windows} windows: {pages:#?}");
    assert_eq!(lookups.len(), 8, "{lookups:#?}");
    assert_eq!((mirror.count("filled_records"), mirror.count("reads WHERE purpose = 'fill'")), (0, 0));
}

/// The back-fill of a field is under way when the field is archived and comes back once more: what it has read is old.
#[tokio::test]
async fn back_fill_begins_again_for_a_field_that_was_archived_meanwhile() {
    let (crm, mut mirror) = mirrored_mottos(40).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    let again = |archived: bool| {
        crm.sandbox.with_world(|world| match archived {
            true => world.fields().archive(Object::Contact, "motto"),
            false => world.fields().reactivate(Object::Contact, "motto"),
        });
        crm.wait(90_000);
    };
    again(true);
    mirror.sync(&crm).await;
    again(false);
    mirror.limits.limit = Ru::new(9);
    assert!(mirror.sync(&crm).await.suspension.is_some());
    assert!(mirror.count("filled_records") >= 5, "some pages of the back-fill");
    again(true);
    crm.sandbox.with_world(|world| {
        world.edit_silently(Object::Contact, "ct000", &json!({"customFields": {"motto": "new"}}));
        world.edit_silently(Object::Contact, "ct001", &json!({"customFields": {"motto": null}}));
    });
    mirror.limits.limit = Ru::new(1_000);
    mirror.sync(&crm).await;
    again(false);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// What a person or a new field asks for beside the schedule leaves the reserve to the schedule's own runs.
#[tokio::test]
async fn full_verification_and_back_fill_leave_the_reserve_to_the_changes() {
    for fills in [false, true] {
        let mut world = World::new(noon());
        (0..1_500).for_each(|n| _ = world.create(Object::Contact, &json!({"id": format!("ct{n:04}")})));
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.sync(&crm).await;
        crm.wait(86_400);
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            world.fields().define(NewField::new(Object::Contact, "motto", DataType::ShortText));
            (0..1_500).for_each(|n| {
                world.edit_silently(Object::Contact, &format!("ct{n:04}"), &json!({"customFields": {"motto": "x"}}));
            });
        });
        crm.wait(86_400);
        (mirror.limits.limit, mirror.reserve) = (Ru::new(20), [Ru::new(9); 2]);
        crm.sandbox.clear_log();
        let report = match fills {
            true => mirror.scheduled(&crm, &Job::sync()).await,
            false => mirror.run(&crm, &Job { full: true, ..Job::verify() }).await.unwrap(),
        };
        assert!(matches!(report.suspension, Some(Suspension::Budget(_))), "{fills}: {report:?}");
        assert_eq!(crm.charged(), 11, "{fills}");
        crm.sandbox.with_world(|world| {
            world.create(Object::Company, &json!({"id": "co"}));
            world.edit(Object::Contact, "ct0700", &json!({"name": "New"}));
        });
        crm.wait(300);
        mirror.scheduled(&crm, &Job::sync()).await;
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct0700'"), "'New'", "{fills}");
        assert_eq!(mirror.count("companies"), 1, "{fills}");
    }
}
