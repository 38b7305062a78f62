//! The changes walk: changed records are read once, unchanged ones not at all.

use std::time::Duration;

use crate::clocks::claimed;
use crate::plain::{edit_all, plain, plain_lists, plain_world, settled};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Log, LoggedRequest, RequestLine, Rule, World, generate};
use crm_mirror::store::{Reader, RunOutcome, record};
use crm_mirror::sync::Job;
use serde_json::json;

/// The requested pages of a list, without counts.
fn pages(log: &Log, resource: Resource) -> Vec<LoggedRequest> {
    let whole = |entry: &&LoggedRequest| entry.asked.lists(resource) && entry.asked.param("limit") == Some("100");
    log.entries().iter().filter(whole).cloned().collect()
}

/// All rows share the newest timestamp, which the service may compare at another precision than it shows, and finer than
/// bounds are sent.
#[tokio::test]
async fn idle_run_costs_one_request_per_object_and_reads_no_row() {
    let finer = Duration::from_nanos(456_789_000);
    let shown = "2026-03-03T08:13:20";
    let [in_milliseconds, in_seconds] = [".456Z", "Z"].map(|end| Some(format!("\"{shown}{end}\"")));
    for (rows, page_cap, fraction, shown) in [
        // More pages than a walk reads beyond its bound.
        (2_500, None, Duration::ZERO, None),
        (1_000, None, finer, None),
        (1_000, None, finer, in_milliseconds.clone()),
        (1_000, None, finer, in_seconds),
        (60, Some(10), finer, in_milliseconds.clone()),
        (1, None, finer, in_milliseconds),
    ] {
        let mut world = plain_world(rows);
        let now = world.tick().whole_second().plus(fraction);
        for id in world.ids(Resource::Contacts) {
            world.edit_at(Object::Contact, &id, &Default::default(), Some(now));
            if let Some(shown) = &shown {
                assert_eq!(shown[1..20], now.to_wire()[..19]);
                world.set_raw(Object::Contact, &id, "updatedAt", shown);
            }
        }
        let crm = Crm::serve(world).await;
        crm.sandbox.configure(|settings| settings.page_cap = page_cap);
        let mut mirror = Mirror::empty();
        mirror.settings.details = false;
        mirror.sync(&crm).await;
        crm.wait(300);
        mirror.sync(&crm).await;
        let size: i64 = mirror.one("SELECT page_count FROM pragma_page_count").parse().unwrap();
        crm.sandbox.clear_log();
        for _ in 0..10 {
            crm.wait(300);
            let report = mirror.sync(&crm).await;
            let (rows, ru, odd) = (report.tally.rows, report.tally.ru.get(), report.tally.warnings);
            assert_eq!((rows, ru, odd), (0, 2, 0), "{} shown as {shown:?}", now.to_wire());
        }
        assert_eq!(crm.sandbox.log().len(), 20);
        let grown: i64 = mirror.one("SELECT page_count FROM pragma_page_count").parse().unwrap();
        assert!(grown - size <= 1, "ten runs' records fit one page: {size} pages became {grown}");
    }
}

#[tokio::test]
async fn changed_records_cost_their_pages_and_their_details_and_nothing_twice() {
    let (crm, mirror) = settled(generate(5, 600, 30, noon())).await;
    let ids = edit_all(&crm, Object::Contact, 250, "Changed");
    crm.wait(120);
    let report = mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let log = crm.sandbox.log();
    assert_eq!(pages(&log, Resource::Contacts).len(), 3, "ceil(250 / 100)");
    assert_eq!(log.details(Object::Contact), 250);
    for id in ids {
        let path = format!("/contacts/{id}");
        assert_eq!(log.entries().iter().filter(|entry| entry.asked.path == path).count(), 1, "{id}");
    }
    assert_eq!(report.tally.ru, log.ru());
    assert_eq!((report.tally.updated, report.tally.details), (250, 250));

    crm.wait(120);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().len(), 2, "settled again");
}

#[tokio::test]
async fn details_are_read_newest_first() {
    let mut mirror = Mirror::one_at_a_time();
    mirror.limits.charge_failed = true;
    let crm = Crm::serve(plain_world(20)).await;
    crm.sandbox.with_world(|world| {
        for (n, id) in world.ids(Resource::Contacts).into_iter().enumerate() {
            let at = noon().minus(Duration::from_secs(1_000 - 10 * n as u64));
            world.edit_at(Object::Contact, &id, &json!({}), Some(at));
        }
    });
    mirror.sync(&crm).await;
    let read: Vec<String> = crm
        .sandbox
        .log()
        .entries()
        .iter()
        .filter_map(|entry| entry.asked.path.strip_prefix("/contacts/").map(String::from))
        .collect();
    let newest_first: String =
        mirror.one("SELECT group_concat(id) FROM (SELECT id FROM contacts ORDER BY updated_at DESC)");
    assert_eq!(format!("'{}'", read.join(",")), newest_first);
}

#[tokio::test]
async fn refused_cursor_within_a_tie_loses_no_row() {
    let (crm, mirror) = plain_lists(350).await;
    let ids = edit_all(&crm, Object::Contact, 300, "Tied");
    let now = crm.sandbox.world().tick();
    crm.sandbox.with_world(|world| {
        for id in &ids {
            world.edit_at(Object::Contact, id, &Default::default(), Some(now));
        }
    });
    crm.sandbox.faults().add(Rule::new(Fault::RefusedCursor).on(Resource::Contacts).after(1));
    crm.wait(120);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    let again: Vec<_> = pages(&log, Resource::Contacts)
        .into_iter()
        .filter(|entry| entry.asked.param("filter[updatedAt][gte]").is_some())
        .collect();
    assert!(!again.is_empty(), "continues with gte: the tie is read again");
    assert_eq!(mirror.one("SELECT times FROM service_oddities WHERE kind = 'refused_cursor'"), "1");
}

#[tokio::test]
async fn row_that_was_committed_late_is_read_by_the_next_run() {
    let (crm, mirror) = plain(5).await;
    edit_all(&crm, Object::Contact, 1, "On time");
    mirror.sync(&crm).await;
    let late = crm.sandbox.world().ids(Resource::Contacts)[3].clone();
    crm.wait(20);
    crm.sandbox.with_world(|world| {
        let before_the_run = world.now.minus(Duration::from_secs(40));
        world.edit_at(Object::Contact, &late, &json!({ "name": "Late" }), Some(before_the_run));
    });
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn row_dated_in_the_future_hides_no_later_change() {
    let (crm, mirror) = plain(5).await;
    let ids = crm.sandbox.world().ids(Resource::Contacts);
    crm.sandbox.with_world(|world| {
        let ahead = world.now.plus(Duration::from_secs(90 * 86_400));
        world.edit_at(Object::Contact, &ids[0], &json!({ "name": "Ahead" }), Some(ahead));
    });
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    crm.wait(600);
    edit_all(&crm, Object::Contact, 5, "After");
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn timestamps_of_any_precision_are_kept_and_sent_in_milliseconds() {
    let crm = Crm::serve(plain_world(3)).await;
    let ids = crm.sandbox.world().ids(Resource::Contacts);
    crm.sandbox.with_world(|world| {
        // Served with nine digits: the column has six, `extra` all of them.
        world.set_raw(Object::Contact, &ids[1], "updatedAt", "\"2026-03-04T11:00:00.123456789Z\"");
    });
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let id = &ids[1];
    assert_eq!(
        mirror.one(&format!("SELECT updated_at FROM contacts WHERE id = '{id}'")),
        "'2026-03-04T11:00:00.123456Z'"
    );
    assert_eq!(
        mirror.one(&format!("SELECT extra FROM contacts WHERE id = '{id}'")),
        "'{\"updatedAt\":\"2026-03-04T11:00:00.123456789Z\"}'"
    );
    // The rest of its second may still be committed, and then it may not.
    mirror.settings.overlap = crm.clock.now().since("2026-03-04T11:00:00.5Z".parse().unwrap());
    for (bound, sent) in [("gt", "2026-03-04T11:00:00.123Z"), ("gt", "2026-03-04T11:00:00.999Z")] {
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        let asked = pages(&crm.sandbox.log(), Resource::Contacts)[0].asked.clone();
        assert_eq!(asked.param(&format!("filter[updatedAt][{bound}]")), Some(sent), "rounded down");
    }
}

#[tokio::test]
async fn walk_under_constant_changes_ends_and_the_next_one_reads_the_rest() {
    let (crm, mirror) = plain(120).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    let clock = crm.clock.clone();
    let mut n = 0_usize;
    // Every request finds two more changed records: the walk alone would never end.
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) {
            let ids = world.ids(Resource::Contacts);
            for _ in 0..2 {
                clock.advance(Duration::from_secs(1));
                world.now = crm_mirror::model::Clock::now(&clock);
                world.edit(Object::Contact, &ids[n % ids.len()], &json!({ "name": format!("Churn {n}") }));
                n += 1;
            }
        }
    });
    edit_all(&crm, Object::Contact, 10, "First");
    mirror.sync(&crm).await;
    assert!(crm.sandbox.log().lists(Resource::Contacts) < 200, "the run ended");
    crm.sandbox.clear_hook();
    crm.wait(120);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

/// A walk that was interrupted among rows of the future goes on there, and what changed meanwhile sorts before them.
#[tokio::test]
async fn walk_that_goes_on_among_rows_of_the_future_does_not_claim_later_changes() {
    for far in ["2099-01-01T00:00", "2026-03-05T08:00"] {
        let crm = Crm::serve(World::new(noon())).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(4));
        crm.sandbox.with_world(|world| {
            for n in 0..12 {
                let updated = format!("{}:{n:02}Z", if n < 6 { "2026-01-01T00:00" } else { far });
                world.create(Object::Contact, &json!({ "id": format!("c{n:02}"), "updatedAt": updated }));
            }
        });
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        crm.wait(3_600);
        mirror.sync(&crm).await;
        crm.wait(3_600);
        let began = crm.clock.now();
        edit_all(&crm, Object::Contact, 1, "Earlier");
        crm.sandbox.faults().add(Rule::new(Fault::Reset).on(Resource::Contacts).with_param("cursor").forever());
        let failed = mirror.run(&crm, &Job::sync()).await;
        assert!(failed.is_err(), "{failed:?}");
        crm.sandbox.faults().clear();
        crm.wait(3_600);
        let changed = crm.clock.now();
        crm.sandbox.with_world(|world| assert!(world.edit(Object::Contact, "c03", &json!({ "name": "New" }))));
        crm.wait(3_600);
        mirror.sync(&crm).await;
        let as_of = claimed(&mirror, crm.clock.now())[1];
        assert!(as_of.is_some_and(|as_of| began <= as_of && as_of < changed), "{far}: {as_of:?}");
        crm.wait(3_600);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        let now = crm.clock.now();
        assert_eq!(claimed(&mirror, now)[1], Some(now), "{far}");
    }
}

/// A walk of several pages may have missed a row, so it claims nothing before its counts are made.
#[tokio::test]
async fn changes_are_claimed_when_their_walk_was_counted() {
    let (crm, mirror) = plain(30).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(4));
    let before = claimed(&mirror, crm.clock.now())[1];
    assert!(before.is_some());
    edit_all(&crm, Object::Contact, 10, "New");
    crm.wait(600);
    // What is not counted is listed.
    for name in ["count", "filter[updatedAt][lt]"] {
        crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Contacts).with_param(name).forever());
    }
    assert!(mirror.run(&crm, &Job::sync()).await.is_err());
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE name = 'New'"), "10");
    assert_eq!(claimed(&mirror, crm.clock.now())[1], before);
    crm.sandbox.faults().clear();
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(claimed(&mirror, crm.clock.now())[1], Some(crm.clock.now()));
}

/// Within the overlap, all of a bulk change lies before the beginning of the next walk.
#[tokio::test]
async fn rows_of_a_bulk_change_are_counted_and_not_read_again() {
    for in_one_moment in [false, true] {
        bulk_change(in_one_moment).await;
    }
}

async fn bulk_change(in_one_moment: bool) {
    let (crm, mirror) = plain_lists(1_600).await;
    let ids = edit_all(&crm, Object::Contact, 1_500, "Bulk");
    if in_one_moment {
        crm.sandbox.with_world(|world| {
            let moment = world.now.whole_second().plus(Duration::from_micros(456_789));
            ids.iter().for_each(|id| _ = world.edit_at(Object::Contact, id, &Default::default(), Some(moment)));
        });
    }
    crm.wait(5);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    for _ in 0..2 {
        crm.sandbox.clear_log();
        crm.wait(5);
        let report = mirror.sync(&crm).await;
        assert_eq!((report.tally.rows, crm.charged()), (0, 3), "of contacts a page, and the newest with their count");
    }
    // One of them changes again, and one is committed late among them: the count tells.
    crm.sandbox.with_world(|world| {
        let late = world.now.minus(Duration::from_secs(15));
        world.edit_at(Object::Contact, "c01550", &json!({"name": "Late"}), Some(late));
        world.edit(Object::Contact, "c00100", &json!({"name": "Again"}));
        world.edit(Object::Contact, "c00101", &json!({"name": "Again"}));
    });
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "settled again");
}

/// The `Date` of an answer has whole seconds, so the walk that reads a change of the same second may not know that it has passed.
#[tokio::test]
async fn rows_that_changed_in_the_second_of_the_last_walk_are_counted_and_not_read_again() {
    let (crm, mirror) = plain_lists(1_600).await;
    for (later, name) in [(0, "Earlier"), (600, "Bulk"), (10, "Some")] {
        crm.clock.advance(Duration::from_millis(later * 1_000 + 1_700));
        let ids = edit_all(&crm, Object::Contact, if name == "Some" { 30 } else { 1_000 }, name);
        crm.sandbox.with_world(|world| {
            for (n, id) in ids.iter().enumerate() {
                let at = world.now.minus(Duration::from_micros(300 * n as u64));
                world.edit_at(Object::Contact, id, &Default::default(), Some(at));
            }
        });
        crm.sandbox.clear_log();
        let report = mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        if name == "Some" {
            assert!(report.tally.rows <= 35, "{} rows", report.tally.rows);
            assert_eq!(crm.charged(), 3, "of contacts a page, and the newest with their count");
        }
    }
}

/// Changes cost `ceil(c / 100)` pages and a detail each; from the second page on, the counts that end such a walk.
#[tokio::test]
async fn changes_cost_their_pages_and_details_and_a_bounded_count() {
    let (crm, mirror) = plain(420).await;
    for changed in [0, 1, 99, 100, 101, 250, 400] {
        edit_all(&crm, Object::Contact, changed, &format!("Changed {changed}"));
        crm.wait(120);
        crm.sandbox.clear_log();
        let report = mirror.sync(&crm).await;
        let pages = changed.div_ceil(100).max(1) as u64;
        let counts = if pages > 1 { 2 } else { 0 };
        let least = pages + changed as u64 + 1;
        let spent = report.tally.ru.get();
        assert!((least..=least + counts).contains(&spent), "{changed} changed: {spent} RU");
        mirror.assert_exact(&crm);
        crm.wait(120);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert_eq!(crm.charged(), 2, "idle after {changed}");
    }
}

#[tokio::test]
async fn bulk_change_after_a_suspended_walk_is_read_in_one_run() {
    let (crm, mut mirror) = plain(130).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    mirror.settings.details = false;
    edit_all(&crm, Object::Contact, 20, "First");
    crm.wait(60);
    // Two pages of the walk, and the budget is spent.
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 3);
    assert!(mirror.sync(&crm).await.suspension.is_some());
    crm.wait(600);
    edit_all(&crm, Object::Contact, 130, "Bulk");
    crm.wait(60);
    mirror.limits.limit = Ru::new(1_000_000);
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact_lists(&crm);
}

/// A walk that was given up, with a cursor that the service no longer takes, as a program that was killed left it.
#[tokio::test]
async fn a_stored_walk_with_a_dead_cursor_is_finished_by_any_job() {
    for (job, purpose) in [(Job::sync(), "changes"), (Job::resync(), "sweep"), (Job::audit(), "changes")] {
        let (crm, mut mirror) = plain_lists(60).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(5));
        edit_all(&crm, Object::Contact, 40, "Changed");
        crm.wait(60);
        // Enough for the changes of both objects, and for a part of the sweep.
        let swept = purpose == "sweep";
        mirror.limits.limit = Ru::new(mirror.ledger_total() + if swept { 24 } else { 4 });
        let first = if swept { Job::resync() } else { Job::sync() };
        assert!(mirror.run(&crm, &first).await.unwrap().suspension.is_some(), "{purpose}");
        mirror.limits.limit = Ru::new(1_000_000);
        let conn = rusqlite::Connection::open(&mirror.path).unwrap();
        let spoil = "UPDATE reads SET position = json_set(position, '$.next.cursor', 'dead')
                     WHERE object = 'contact' AND purpose = ?1 AND json_extract(position, '$.next.tied')";
        assert_eq!(conn.execute(spoil, [purpose]).unwrap(), 1, "{purpose}");
        drop(conn);
        crm.wait(600);
        let report = mirror.run(&crm, &job).await.unwrap();
        assert_eq!(report.outcome, RunOutcome::Done, "{purpose}");
        mirror.assert_exact_lists(&crm);
    }
}

#[tokio::test]
async fn changes_and_removals_are_recorded_field_by_field() {
    let (crm, mirror) = plain(3).await;
    assert_eq!(mirror.count("changes"), 0, "the first copy adds no changes");
    let ids = crm.sandbox.world().ids(Resource::Contacts);
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, &ids[0], &json!({ "name": "Renamed", "notes": "Called" }));
        world.create(Object::Contact, &json!({ "id": "new", "name": "New" }));
    });
    crm.wait(120);
    mirror.sync(&crm).await;
    let name = format!(
        "SELECT json_extract(fields, '$.name') FROM changes WHERE record_id = '{}' AND kind = 'update' ORDER BY seq",
        ids[0]
    );
    assert_eq!(mirror.one(&name), "'[\"Contact 0\",\"Renamed\"]'");
    let notes = format!(
        "SELECT json_extract(fields, '$.notes') FROM changes WHERE record_id = '{}' AND kind = 'update'
         AND json_extract(fields, '$.notes') IS NOT NULL",
        ids[0]
    );
    assert_eq!(mirror.one(&notes), "'[null,\"Called\"]'");
    assert_eq!(
        mirror.one("SELECT json_extract(fields, '$.name') FROM changes WHERE kind = 'insert'"),
        "'[null,\"New\"]'"
    );
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &ids[1]));
    mirror.run(&crm, &Job::resync().of(&[Resource::Contacts])).await.unwrap();
    let removed = format!(
        "SELECT json_extract(fields, '$.name') FROM changes WHERE kind = 'remove' AND record_id = '{}'",
        ids[1]
    );
    assert_eq!(mirror.one(&removed), "'[\"Contact 1\",null]'");
    let record = format!("SELECT json_extract(record, '$.name') FROM removed_records WHERE id = '{}'", ids[1]);
    assert_eq!(mirror.one(&record), "'Contact 1'");
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({ "id": ids[1], "name": "Back" })));
    crm.wait(120);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("removed_records"), 0, "a record that returns leaves the removed ones");
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn history_is_pruned_after_its_retention_and_not_before() {
    let (crm, mut mirror) = plain(3).await;
    mirror.settings.retention = Some(Duration::from_secs(2 * 86_400));
    crm.wait(3_600);
    edit_all(&crm, Object::Contact, 3, "Early");
    mirror.sync(&crm).await;
    let early = mirror.count("changes");
    assert!(early >= 3);
    let early_end = mirror.one("SELECT max(seen_at) FROM changes").trim_matches('\'').to_string();
    crm.wait(86_400);
    edit_all(&crm, Object::Contact, 1, "Later");
    mirror.sync(&crm).await;
    assert!(mirror.count("changes") > early);
    mirror.settings.retention = Some(Duration::from_secs(3_600));
    crm.wait(600);
    mirror.sync(&crm).await;
    let left = mirror.count("changes");
    assert!(left > 0 && left < early, "{left}");
    // What was pruned last is the end of what is unknown, whether anything is left or not.
    let last = |mirror: &Mirror| mirror.one("SELECT max(seen_at) FROM changes").trim_matches('\'').to_string();
    let begins =
        |object| record::horizon(&Reader::open(&mirror.path).unwrap().begin().unwrap(), object).unwrap().unwrap();
    assert_eq!(begins(Object::Contact), early_end);
    let later_end = last(&mirror);
    // The companies were copied after what is pruned next.
    let copied = "9999-01-01T00:00:00Z";
    let later = format!("UPDATE goals SET finished = '{copied}' WHERE kind = 'copied' AND object = 'company'");
    assert_eq!(rusqlite::Connection::open(&mirror.path).unwrap().execute(&later, []).unwrap(), 1);
    crm.wait(86_400);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("changes"), 0);
    assert_eq!(begins(Object::Contact), later_end);
    assert_eq!(begins(Object::Company), copied, "an object that was copied later");
}
