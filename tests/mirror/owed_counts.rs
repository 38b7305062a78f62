//! The counts that end walks of several pages: what they find, when they are made again, and what is claimed meanwhile.

use std::time::Duration;

use crate::audits::{tied_world, world_of};
use crate::clocks::claimed;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Rule, World};
use crm_mirror::sync::{Job, Suspension};
use serde_json::json;

/// A service whose cursors count rows: a removal behind a walk hides the first record of the next page.
async fn paged_by_offset(world: World, page_cap: usize) -> Crm {
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.counts_rows = true;
        settings.page_cap = Some(page_cap);
    });
    crm
}

/// The budget window ends after the last page of a first copy, before its counts.
#[tokio::test]
async fn copy_that_is_not_counted_claims_nothing() {
    let mut uncounted = 0;
    for units in 12..40 {
        let crm = paged_by_offset(world_of(40), 4).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.limits.limit = Ru::new(units);
        mirror.sync(&crm).await;
        let is_owed = mirror.count("doubts WHERE object_type = 'contact_range' AND why = 'created_at'") > 0;
        let is_copied = mirror.count("goals WHERE object = 'contact' AND kind = 'copied'") > 0;
        let claimed = claimed(&mirror, crm.clock.now());
        assert_eq!(claimed.map(|at| at.is_some()), [is_copied && !is_owed; 2], "{units} RU");
        uncounted += u64::from(is_copied && is_owed);
    }
    assert!(uncounted > 1);
}

/// A record that changes again moves ahead of the walk, and another one slips through at the edge of a page.
#[tokio::test]
async fn change_missed_between_offset_pages_is_found_by_the_count() {
    let crm = Crm::serve(world_of(1_000)).await;
    crm.sandbox.configure(|settings| settings.counts_rows = true);
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for n in 100..600 {
            world.edit(Object::Contact, &format!("c{n:06}"), &json!({ "name": "Changed" }));
        }
    });
    let mut asked_pages = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            asked_pages += 1;
            if asked_pages == 2 {
                world.edit(Object::Contact, "c000110", &json!({ "name": "Once more" }));
            }
        }
    });
    crm.wait(120);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// A count finds a record that the walk had missed, and the budget ends before its omitted value is read: what was counted stays
/// owed, so that nobody claims that the changes are here.
#[tokio::test]
async fn count_is_owed_until_what_it_found_is_read() {
    let mut interrupted = 0;
    for units in 3..18 {
        let make = || async move {
            let mut world = world_of(300);
            world.lists_omit_nulls = true;
            world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
            world.edit_silently(Object::Contact, "c000200", &json!({"customFields": {"tier": "a"}}));
            let crm = Crm::serve(world).await;
            crm.sandbox.configure(|settings| settings.counts_rows = true);
            let mut mirror = Mirror::one_at_a_time();
            mirror.settings.details = false;
            mirror.sync(&crm).await;
            crm.wait(600);
            (crm, mirror)
        };
        let (crm, mut mirror) = prepared("owed_counts".into(), make).await;
        let before = crm.clock.now();
        crm.sandbox.with_world(|world| {
            for n in 100..250 {
                world.edit(
                    Object::Contact,
                    &format!("c{n:06}"),
                    &json!({"name": "Changed", "customFields": {"tier": null}}),
                );
            }
        });
        let mut edited = false;
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() && !edited {
                edited = true;
                world.edit(Object::Contact, "c000110", &json!({ "name": "Once more" }));
            }
        });
        crm.wait(120);
        mirror.limits.limit = Ru::new(mirror.ledger_total() + units);
        let _ = mirror.run(&crm, &Job::sync()).await;
        if mirror.count("doubts WHERE why = 'omitted'") > 0 {
            interrupted += 1;
            assert!(
                mirror.count("doubts WHERE object_type = 'contact_range' AND why = 'updated_at'") > 0,
                "{units} RU"
            );
        }
        if claimed(&mirror, crm.clock.now())[1].is_some_and(|at| at > before) {
            mirror.assert_exact_lists(&crm);
        }
        mirror.limits.limit = Ru::new(1_000_000);
        for _ in 0..2 {
            crm.wait(600);
            mirror.sync(&crm).await;
        }
        mirror.assert_exact_lists(&crm);
        assert!(claimed(&mirror, crm.clock.now())[1].is_some_and(|at| at > before), "{units} RU");
    }
    assert!(interrupted > 0);
}

/// One import created all records, so no range of time separates the record that is missing from the one that is extra.
#[tokio::test]
async fn record_missed_between_offset_pages_is_found_although_the_counts_were_equal() {
    let mut world = World::new(noon());
    // More than a page has: a page of them would be listed instead of counted.
    for n in 0..150 {
        world.create(Object::Contact, &json!({ "id": format!("c{n:03}") }));
    }
    let crm = paged_by_offset(world, 50).await;
    let mirror = Mirror::one_at_a_time();
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c000");
        }
    });
    mirror.sync(&crm).await;
    assert_eq!(
        mirror.count("contacts"),
        148,
        "the detail shows which record is extra, and nothing which one is missing"
    );
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "the sweep has to be counted again");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "an idle run");
}

/// Fifty records on pages of four, which are followed by cursor. Once the second page is requested, the last record of the first page is removed, which
/// hides the first one of the second page.
async fn crm_that_hides_a_record() -> Crm {
    let mut world = World::new(noon());
    for n in 10..60 {
        let at = noon().minus(Duration::from_secs(900_000 - 60 * n)).to_wire();
        world.create(Object::Contact, &json!({ "id": format!("c{n}"), "createdAt": at, "updatedAt": at }));
    }
    let crm = paged_by_offset(world, 4).await;
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c13");
        }
    });
    crm
}

/// No range of time that has rows on both sides separates the two records. A list of the range shows both, for what its
/// count costs.
#[tokio::test]
async fn record_missed_next_to_a_removed_one_is_found_in_the_same_run() {
    for details in [false, true] {
        let crm = crm_that_hides_a_record().await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        let log = crm.sandbox.log();
        assert!(
            log.entries().iter().all(|sent| sent.asked.param("limit") != Some("1")),
            "each edge of a page is listed"
        );
    }
}

/// Wherever the budget windows end, also between the counts and the detail that shows the removal: what is claimed is here.
#[tokio::test]
async fn copy_that_is_claimed_is_complete_wherever_its_budget_ends() {
    let mut claims_before_details = 0;
    for units in 16..30 {
        let crm = crm_that_hides_a_record().await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.limits.limit = Ru::new(units);
        while let Some(Suspension::Budget(refills_at)) = mirror.sync(&crm).await.suspension {
            if claimed(&mirror, crm.clock.now())[0].is_some() {
                assert_eq!(mirror.count("contacts WHERE id <> 'c13'"), 49, "{units} RU");
                claims_before_details += 1;
            }
            crm.clock.set(refills_at);
        }
        mirror.assert_exact(&crm);
    }
    assert!(claims_before_details > 9, "{claims_before_details}");
}

/// With few pages, ranges are listed instead of counted. A list that the service refuses, or that does not advance, is no
/// reason to fail: its range is counted.
#[tokio::test]
async fn range_whose_list_fails_is_counted() {
    let of_ranges = |fault| Rule::new(fault).on(Resource::Contacts).with_param("filter[createdAt]");
    for (fault, details, case) in [
        (of_ranges(Fault::Status(400)), false, "refused"),
        (of_ranges(Fault::SameCursor).with_param("cursor").forever(), false, "the same cursor again"),
        (of_ranges(Fault::Status(400)), true, "refused, with details"),
        (of_ranges(Fault::SameCursor).with_param("cursor").forever(), true, "the same cursor again, with details"),
    ] {
        let crm = paged_by_offset(world_of(9), 3).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = details;
        let mut is_late = false;
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() && !is_late {
                // Dated like records that were read, and among them: neither this walk nor one of changes lists it.
                for n in 0..4 {
                    let at = noon().minus(Duration::from_secs(9_000_000 - 30 - n)).to_wire();
                    let late = json!({ "id": format!("late{n}"), "createdAt": at, "updatedAt": at });
                    world.create(Object::Contact, &late);
                }
                is_late = true;
            }
        });
        crm.sandbox.faults().add(fault);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        let log = crm.sandbox.log();
        let counts = log.entries().iter().filter(|sent| sent.asked.param("count").is_some()).count();
        assert!(counts > 0, "{case}");
        assert_eq!(mirror.count("contacts"), 13, "{case}");
    }
}

/// One import changed all records, so no range of time separates the record that is missed from the one that is extra. The
/// detail shows that one was removed; until the changes are counted again, nobody relies on them.
#[tokio::test]
async fn changes_missed_beside_a_removed_record_are_counted_again() {
    let mut world = World::new(noon());
    for n in 0..24 {
        let at = noon().minus(Duration::from_secs(900_000 - 60 * n)).to_wire();
        world.create(Object::Contact, &json!({ "id": format!("c{n:02}"), "createdAt": at, "updatedAt": at }));
    }
    let crm = paged_by_offset(world, 5).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        (0..24).for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:02}"), &json!({ "name": "Imported" })));
    });
    crm.wait(600);
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c00");
        }
    });
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT id FROM contacts WHERE name IS NULL OR name <> 'Imported'"), "'c05'");
    let said = || claimed(&mirror, crm.clock.now())[1];
    assert_eq!(said(), Some(noon()), "a change is missing since the copy");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(said(), Some(crm.clock.now()));
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "an idle run");
}

/// A difference within records that share both timestamps was found, and their list was interrupted. They are listed once a
/// day: until then the copy is not relied on, and nothing is counted again.
#[tokio::test]
async fn difference_that_waits_for_its_daily_list_is_not_claimed_away() {
    let crm = Crm::serve(tied_world(130, &["createdAt", "updatedAt"], "2026-01-01T00:00:00Z")).await;
    crm.sandbox.configure(|settings| settings.counts_rows = true);
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    let mut is_read = false;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        let pages_on = asked.param("cursor").is_some();
        if asked.lists(Resource::Contacts) && pages_on && !is_read {
            is_read = world.remove(Object::Contact, "c000000");
        } else if asked.lists(Resource::Contacts) && is_read {
            world.remove(Object::Contact, "c000001");
        }
    });
    let of_ties =
        Rule::new(Fault::Status(500)).on(Resource::Contacts).with_param("filter[createdAt]").with_param("cursor");
    crm.sandbox.faults().add(of_ties.forever());
    assert!(mirror.run(&crm, &Job::sync()).await.is_err());
    crm.sandbox.faults().clear();
    crm.sandbox.clear_hook();
    for spent in [3..16, 2..3, 2..3] {
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &Job::sync()).await;
        assert!(spent.contains(&crm.charged()), "{} RU, {spent:?}", crm.charged());
        assert_eq!((mirror.count("contacts"), claimed(&mirror, crm.clock.now())[0]), (130, None));
    }
    for _ in 0..3 {
        crm.wait(90_000);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    mirror.assert_exact_lists(&crm);
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
}
