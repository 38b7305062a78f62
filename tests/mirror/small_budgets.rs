//! Budgets whose windows pay for fewer requests than a list has pages: everything only takes longer.

use std::time::Duration;

use crate::audits::world_of;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, DataType, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Rule, World, generate};
use crm_mirror::sync::Job;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A workspace of nine contact fields, one company field and seven team members, at whatever times they were made.
fn fields_and_members() -> World {
    many_fields(9)
}

fn many_fields(fields: u64) -> World {
    let mut world = World::new(noon());
    for n in 0..fields {
        world.now = noon().plus(Duration::from_secs(n));
        world.fields().define(NewField::new(Object::Contact, &format!("field_{n}"), DataType::ShortText));
    }
    world.fields().define(NewField::new(Object::Company, "size", DataType::Integer));
    for n in 0..7 {
        world.now = noon().plus(Duration::from_secs(20 + n));
        world.create(Resource::TeamMembers, &json!({"id": format!("tm{n}"), "name": format!("Member {n}")}));
    }
    world
}

/// A mirror whose windows pay for so many requests an hour.
async fn an_hour_pays_for(units: u64, world: World, page_cap: usize) -> (Crm, Mirror) {
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(page_cap));
    let mut mirror = Mirror::one_at_a_time();
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(units), HOUR);
    (crm, mirror)
}

/// Runs once in each window, until a run is not suspended. Returns the number of windows.
async fn run_in_windows(crm: &Crm, mirror: &Mirror, job: &Job, most: usize) -> usize {
    for windows in 1..=most {
        if mirror.run(crm, job).await.unwrap().suspension.is_none() {
            return windows;
        }
        crm.wait(3_600);
    }
    panic!("{most} windows were not enough")
}

/// Pages of a short list that were requested so far.
fn pages(crm: &Crm, resource: Resource) -> usize {
    crm.sandbox.log().entries().iter().filter(|entry| entry.asked.lists(resource)).count()
}

fn fields(mirror: &Mirror) -> i64 {
    mirror.count("custom_field_definitions WHERE status = 'ACTIVE'")
}

#[tokio::test]
async fn workspace_is_recognised_by_one_page_of_known_records() {
    let (crm, mut mirror) = an_hour_pays_for(1_000, generate(7, 40, 3, noon()), 3).await;
    mirror.sync(&crm).await;
    mirror.key = Some(crm.sandbox.full_key());
    mirror.limits.limit = Ru::new(3);
    crm.wait(3_600);
    crm.sandbox.clear_log();
    let names_ids = |asked: &RequestLine| asked.param("filter[id][in]").is_some();
    mirror.run(&crm, &Job::sync().of(&[Resource::Companies])).await.unwrap();
    let log = crm.sandbox.log();
    assert_eq!(log.entries().iter().filter(|entry| names_ids(&entry.asked)).count(), 1);
}

/// A first copy, changes of each kind, and a sweep of everything, with ten requests an hour and four rows on a page.
#[tokio::test]
async fn ten_requests_an_hour_keep_a_small_workspace_exact() {
    let mut world = fields_and_members();
    for n in 0..30 {
        let values = json!({"id": format!("ct{n:02}"), "name": "Ann", "customFields": {"field_3": "three"}});
        world.now = noon().plus(Duration::from_secs(60 + n));
        world.create(Object::Contact, &values);
    }
    let (crm, mut mirror) = an_hour_pays_for(10, world, 4).await;
    mirror.settings.details = false;
    run_in_windows(&crm, &mirror, &Job::sync(), 40).await;
    mirror.assert_exact_lists(&crm);
    crm.sandbox.with_world(|world| {
        for n in 0..12 {
            world.edit(Object::Contact, &format!("ct{n:02}"), &json!({"name": "Bea"}));
        }
        for id in ["ct20", "ct21"] {
            world.remove(Object::Contact, id);
        }
        world.fields().define(NewField::new(Object::Contact, "late", DataType::ShortText));
    });
    crm.wait(3_600);
    assert!(mirror.run(&crm, &Job::resync()).await.unwrap().suspension.is_some());
    run_in_windows(&crm, &mirror, &Job::sync(), 80).await;
    mirror.assert_exact_lists(&crm);
    let mut spent = std::collections::BTreeMap::new();
    for entry in crm.sandbox.log().entries() {
        *spent.entry(entry.at.since(noon()).as_secs() / 3_600).or_insert(0) += entry.ru.get();
    }
    assert!(spent.values().all(|spent| *spent <= 10), "{spent:?}");
}

/// Where the definitions take most of a window, they do not take every one.
#[tokio::test]
async fn definitions_that_take_most_of_a_day_leave_days_for_records() {
    let mut world = fields_and_members();
    for n in 0..8 {
        world.now = noon().plus(Duration::from_secs(60 + n));
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "Ann"}));
    }
    let (crm, mut mirror) = an_hour_pays_for(7, world, 4).await;
    (mirror.settings.details, mirror.limits.window) = (false, DAY);
    for _ in 0..20 {
        mirror.sync(&crm).await;
        crm.wait(86_400);
    }
    mirror.assert_exact_lists(&crm);
    // They are read again, but for no more than their share.
    crm.sandbox.clear_log();
    for _ in 0..40 {
        mirror.sync(&crm).await;
        crm.wait(86_400);
    }
    let (lists, team) = (pages(&crm, Resource::CustomFields), pages(&crm, Resource::TeamMembers));
    assert!((100..=140).contains(&lists) && (30..=70).contains(&team), "{lists} and {team} of 280");
}

/// The sweeps and audits of one object do not take what the first copy of the other needs.
#[tokio::test]
async fn companies_are_copied_beside_the_schedule_of_contacts() {
    for contacts in [0, 8] {
        let mut world = fields_and_members();
        for n in 0..contacts {
            world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "Ann"}));
        }
        for n in 0..4 {
            world.create(Object::Company, &json!({"id": format!("co{n}"), "name": "Acme"}));
        }
        let (crm, mut mirror) = an_hour_pays_for(7, world, 4).await;
        (mirror.settings.details, mirror.limits.window) = (false, DAY);
        mirror.scheduled(&crm, &Job::sync()).await;
        let mut days = 0;
        while mirror.count("companies") == 0 {
            days += 1;
            assert!(days < 16, "{contacts} contacts");
            crm.wait(86_400);
            if days % 2 == 0 {
                mirror.scheduled(&crm, &Job::verify()).await;
            }
            mirror.scheduled(&crm, &Job::resync()).await;
        }
        crm.wait(86_400);
        // From then on, the schedule compares again.
        let audits = || mirror.count("sync_runs WHERE kind = 'verify' AND ru > 0");
        let before = audits();
        mirror.scheduled(&crm, &Job::verify()).await;
        assert_eq!((before, audits()), (0, 1), "{contacts} contacts");
    }
}

/// A first copy that failed once and goes on is waited for: the schedule compares nothing before it is complete.
#[tokio::test]
async fn first_copy_that_failed_once_is_still_waited_for() {
    let mut world = World::new(noon());
    world.create(Object::Contact, &json!({"id": "ct1", "name": "Ann"}));
    for n in 0..40 {
        world.now = noon().plus(Duration::from_secs(n));
        world.create(Object::Company, &json!({"id": format!("co{n}"), "name": "Acme"}));
    }
    let (crm, mut mirror) = an_hour_pays_for(8, world, 4).await;
    mirror.settings.details = false;
    mirror.tries = 1;
    // With the total and without it, and where nothing is.
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Companies).lists().times(3));
    let is_waited_for = async || {
        crm.sandbox.clear_log();
        _ = mirror.try_scheduled(&crm, &Job::verify()).await;
        crm.sandbox.log().is_empty()
    };
    _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 1);
    crm.wait(3_600);
    assert!(!is_waited_for().await, "as long as nothing else is known, it may fail for ever");
    crm.wait(3_600);
    assert!(mirror.try_scheduled(&crm, &Job::sync()).await.unwrap().suspension.is_some());
    let copied = mirror.count("companies");
    assert!((1..40).contains(&copied), "{copied}");
    crm.wait(3_600);
    assert!(is_waited_for().await);
}

/// Definitions that fail for ever do not take the window of each day, whether its end comes before or after the last attempt.
#[tokio::test]
async fn list_that_keeps_failing_leaves_windows_for_records() {
    for units in [2, 3] {
        let mut world = World::new(noon());
        world.create(Object::Contact, &json!({"id": "ct1", "name": "Ann"}));
        world.create(Object::Company, &json!({"id": "co1", "name": "Acme"}));
        let (crm, mut mirror) = an_hour_pays_for(units, world, 4).await;
        (mirror.settings.details, mirror.limits.window, mirror.limits.charge_failed) = (false, DAY, true);
        mirror.tries = 3;
        crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::CustomFields).forever());
        for _ in 0..10 {
            // Whether it is called failed or suspended.
            _ = mirror.try_scheduled(&crm, &Job::sync()).await;
            crm.wait(86_400);
        }
        assert_eq!((mirror.count("contacts"), mirror.count("companies")), (1, 1), "{units} RU a day");
        // In forty days at most a quarter of the units goes there.
        crm.sandbox.clear_log();
        for _ in 0..40 {
            _ = mirror.try_scheduled(&crm, &Job::sync()).await;
            crm.wait(86_400);
        }
        let attempts = pages(&crm, Resource::CustomFields) as u64;
        assert!((3..=10 * units + 3).contains(&attempts), "{attempts} attempts with {units} RU a day");
    }
}

/// Every page of a list that never ends is answered, and brings nothing: it leaves most of each day to what works.
#[tokio::test]
async fn list_that_does_not_advance_leaves_windows_for_records() {
    let mut world = World::new(noon());
    for n in 0..24 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "Ann"}));
        world.create(Object::Company, &json!({"id": format!("co{n}"), "name": "Acme"}));
    }
    let (crm, mut mirror) = an_hour_pays_for(200, world, 100).await;
    (mirror.settings.details, mirror.limits.window) = (false, DAY);
    mirror.sync(&crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::EmptyPageWithCursor).on(Resource::Contacts).lists().forever());
    for _ in 0..2 {
        for hour in 0..24 {
            crm.wait(3_600);
            crm.sandbox
                .with_world(|world| world.edit(Object::Company, "co1", &json!({"name": format!("Acme {hour}")})));
            _ = mirror.try_scheduled(&crm, &Job::sync()).await;
            assert_eq!(mirror.one("SELECT name FROM companies WHERE id = 'co1'"), format!("'Acme {hour}'"));
        }
        crm.sandbox.clear_log();
    }
    for _ in 0..96 {
        crm.wait(3_600);
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    }
    // In four days, a quarter of the units.
    let asked = pages(&crm, Resource::Contacts);
    assert!((100..=240).contains(&asked), "{asked} requests");
}

/// The definitions leave too little of a window for the members, which take the next one.
#[tokio::test]
async fn lists_that_take_most_of_a_day_each_are_both_read_to_their_end() {
    // Also if the schedule wants a sweep each day.
    for job in [Job::sync(), Job::resync()] {
        let mut world = many_fields(2);
        for n in 7..12 {
            world.create(Resource::TeamMembers, &json!({"id": format!("tm{n}"), "name": format!("Member {n}")}));
        }
        for n in 0..4 {
            world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": "Ann"}));
        }
        // Four pages of definitions, which half of seven units pays for in 1.2 days, and six of members.
        let (crm, mut mirror) = an_hour_pays_for(7, world, 2).await;
        (mirror.settings.details, mirror.limits.window) = (false, DAY);
        for _ in 0..12 {
            mirror.scheduled(&crm, &job).await;
            crm.wait(86_400);
        }
        assert_eq!(mirror.count("team_members"), 12, "{job:?}");
        mirror.assert_exact_lists(&crm);
    }
}

/// A sweep of the schedule waits until their share has paid for the definitions; a person does not.
#[tokio::test]
async fn sweep_of_the_schedule_reads_no_definitions_that_are_not_paid_for() {
    let (crm, mut mirror) = an_hour_pays_for(1_000, fields_and_members(), 4).await;
    mirror.limits.window = DAY;
    mirror.sync(&crm).await;
    mirror.limits.limit = Ru::new(10);
    crm.wait(86_400);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &Job::resync()).await;
    assert_eq!(pages(&crm, Resource::CustomFields), 0);
    assert!(!crm.sandbox.log().entries().is_empty());
    crm.wait(86_400);
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Company, "late", DataType::Integer)));
    mirror.run(&crm, &Job::resync()).await.unwrap();
    assert_eq!(fields(&mirror), 11);
}

/// The definitions are read because of a key that a record shows, also if the budget ends the run among their pages.
#[tokio::test]
async fn unknown_key_is_asked_for_in_the_next_window() {
    let mut world = many_fields(1);
    world.create(Object::Contact, &json!({"id": "ct1", "name": "Ann"}));
    let (crm, mut mirror) = an_hour_pays_for(1_000, world, 10).await;
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(4), DAY);
    crm.wait(86_400);
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "late", DataType::ShortText));
        world.edit(Object::Contact, "ct1", &json!({"customFields": {"late": "x"}}));
    });
    // Half of four units pays for the four pages that were read in two days; until then, no schedule reads them.
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("doubts WHERE why = 'unknown key'"), 1);
    assert_eq!(pages(&crm, Resource::CustomFields), 2);
    for _ in 0..2 {
        crm.wait(86_400);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    assert_eq!((pages(&crm, Resource::CustomFields), fields(&mirror)), (2 + 4, 3));
}

/// Edits that wait for hours keep units of each window, but not those that everything else needs.
#[tokio::test]
async fn waiting_edits_do_not_keep_a_sweep_waiting() {
    let mut world = World::new(noon());
    for n in 0..20 {
        world.now = noon().plus(Duration::from_secs(n));
        world.create(Object::Contact, &json!({"id": format!("ct{n:02}"), "name": "Ann", "position": "CEO"}));
    }
    let (crm, mut mirror) = an_hour_pays_for(1_000, world, 4).await;
    (mirror.settings.details, mirror.settings.write_back) = (false, true);
    mirror.sync(&crm).await;
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.execute_batch("UPDATE contacts_full SET position = 'CTO' WHERE id > 'ct17'").unwrap();
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    crm.sandbox.with_world(|world| world.edit_silently(Object::Contact, "ct05", &json!({"name": "Bea"})));
    crm.wait(3_600);
    mirror.limits.limit = Ru::new(3);
    assert!(mirror.run(&crm, &Job::resync()).await.unwrap().suspension.is_some());
    for _ in 0..60 {
        crm.wait(3_600);
        mirror.sync(&crm).await;
    }
    assert_eq!(mirror.count("outbox WHERE state IN ('queued', 'sending')"), 2);
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct05'"), "'Bea'");
    assert_eq!(mirror.count("goals WHERE kind = 'sweeping'"), 0);
}

/// Contacts change faster than the budget pays for their details: those of a few companies are read all the same.
#[tokio::test]
async fn details_of_the_other_object_are_read_where_those_of_one_take_all_there_is() {
    let mut world = World::new(noon());
    (0..60).for_each(|n| _ = world.create(Object::Contact, &json!({"id": format!("ct{n:02}")})));
    (0..3).for_each(|n| _ = world.create(Object::Company, &json!({"id": format!("co{n}")})));
    let (crm, mut mirror) = an_hour_pays_for(1_000, world, 100).await;
    mirror.sync(&crm).await;
    mirror.limits.limit = Ru::new(20);
    let touch = |object: Object, id: String| {
        crm.sandbox.with_world(|world| world.edit(object, &id, &json!({"position": crm.clock.now().to_string()})));
    };
    crm.wait(3_600);
    (0..3).for_each(|n| touch(Object::Company, format!("co{n}")));
    crm.sandbox.clear_log();
    for run in 0..12 {
        (0..30).for_each(|n| touch(Object::Contact, format!("ct{:02}", (30 * run + n) % 60)));
        crm.wait(1_800);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    let log = crm.sandbox.log();
    assert_eq!(log.details(Object::Company), 3);
    assert!(log.details(Object::Contact) >= 60, "{}", log.details(Object::Contact));
}

/// A mirror of so many contacts and a few companies that was copied days ago, whose windows pay for little from now on.
async fn copied_long_ago(contacts: usize, units: u64) -> (Crm, Mirror) {
    let mut world = world_of(contacts);
    (0..5).for_each(|n| _ = world.create(Object::Company, &json!({"id": format!("co{n}"), "name": "Acme"})));
    let (crm, mut mirror) = an_hour_pays_for(1_000, world, 100).await;
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(2 * 86_400);
    mirror.scheduled(&crm, &Job::sync()).await;
    mirror.limits.limit = Ru::new(units);
    crm.wait(3_600);
    crm.sandbox.clear_log();
    (crm, mirror)
}

/// No window pays for the comparison of that many records, or of a list that long: a sweep takes several of them.
#[tokio::test]
async fn removals_are_found_where_no_window_pays_for_an_audit() {
    for (removed, contacts, units) in [(100, 1_500, 20), (1, 3_000, 12)] {
        let (crm, mirror) = copied_long_ago(contacts, units).await;
        crm.sandbox.with_world(|world| {
            (0..removed).for_each(|n| _ = world.remove(Object::Contact, &format!("c{:06}", 100 + 13 * n)));
        });
        for n in 0..8 {
            let name = json!({"name": format!("Company {n}")});
            crm.sandbox.with_world(|world| world.edit(Object::Company, "co3", &name));
            mirror.scheduled(&crm, &Job::sync()).await;
            crm.wait(3_600);
        }
        assert_eq!(mirror.count("removed_records"), removed, "{contacts} contacts");
        mirror.assert_exact_lists(&crm);
    }
}

/// A sweep costs less than an audit that follows each of many differences; and where the count is wrong, one is enough.
#[tokio::test]
async fn many_differences_cost_one_sweep() {
    let (crm, mirror) = copied_long_ago(2_000, 1_000).await;
    crm.sandbox.with_world(|world| {
        (0..100).for_each(|n| _ = world.remove(Object::Contact, &format!("c{:06}", 13 * n)));
    });
    mirror.scheduled(&crm, &Job::sync()).await;
    mirror.assert_exact_lists(&crm);
    // Twenty pages, and the lookups.
    assert!(crm.charged() < 35, "{} RU", crm.charged());
    let estimate = |body: &str, _: &str| match serde_json::from_str::<serde_json::Value>(body) {
        Ok(mut list) if list["total"].as_u64() > Some(1_800) => {
            list["total"] = json!(list["total"].as_u64().map(|total| total + 300));
            list.to_string()
        }
        _ => body.into(),
    };
    let estimated = Rule::new(Fault::Rewritten(estimate, String::new())).on(Resource::Contacts).with_param("count");
    crm.sandbox.faults().add(estimated.forever());
    crm.wait(2 * 86_400);
    let mut cost = Vec::new();
    for _ in 0..12 {
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
        cost.push(crm.charged());
        crm.wait(3_600);
    }
    assert!(cost[0] > 20 && cost[2..].iter().all(|cost| *cost < 10), "{cost:?}");
}

/// A removal during a first copy leaves it unproven: what has to be counted then is more than a window pays for.
#[tokio::test]
async fn copy_that_a_removal_leaves_unproven_is_counted_in_parts() {
    let mut world = world_of(1_500);
    (0..5).for_each(|n| _ = world.create(Object::Company, &json!({"id": format!("co{n}"), "name": "Acme"})));
    let (crm, mut mirror) = an_hour_pays_for(10, world, 100).await;
    mirror.settings.details = false;
    mirror.scheduled(&crm, &Job::sync()).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c001499"));
    for _ in 0..10 {
        crm.wait(3_600);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    assert_eq!(mirror.count("doubts WHERE object_type = 'contact_range'"), 0);
    mirror.assert_exact_lists(&crm);
}

/// A comparison of one object that no window pays for leaves windows for the other: for its changes and its comparison.
#[tokio::test]
async fn comparison_that_takes_each_window_leaves_windows_for_the_other_object() {
    let (crm, mirror) = copied_long_ago(3_000, 11).await;
    let (mut fresh, before) = (0, mirror.count("audits WHERE object_type = 'company'"));
    for n in 0..9 {
        let name = json!({"name": format!("Company {n}")});
        crm.sandbox.with_world(|world| world.edit(Object::Company, "co3", &name));
        _ = mirror.try_scheduled(&crm, &Job::audit()).await;
        fresh += mirror.count(&format!("companies WHERE name = 'Company {n}'"));
        crm.wait(3_600);
    }
    assert!(fresh >= 4 && mirror.count("audits WHERE object_type = 'company'") > before, "{fresh} windows");
}

/// An import changed more records at once than a window lists, and no window goes on with the cursor of the one before.
#[tokio::test]
async fn changes_of_one_instant_are_read_where_cursors_end_with_the_window() {
    let (crm, mirror) = copied_long_ago(400, 24).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(10));
    crm.sandbox.with_world(|world| {
        let now = world.tick();
        for n in 0..350 {
            world.edit_at(Object::Contact, &format!("c{n:06}"), &json!({"name": "Imported"}), Some(now));
        }
    });
    crm.wait(600);
    for _ in 0..6 {
        mirror.scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
        crm.wait(3_600);
        crm.sandbox.faults().clear();
        crm.sandbox.faults().add(Rule::new(Fault::RefusedCursor).on(Resource::Contacts).with_param("cursor"));
    }
    assert_eq!(mirror.count("contacts WHERE name = 'Imported'"), 350);
}
