//! Records that an answer shows in an earlier version, or not at all: an answer decides about them if it is as new as they
//! are, and otherwise the same answer at two moments.

use std::time::Duration;

use crate::evidence::{contacts_only, settled};
use crate::removal_lookups::{lookups, remove};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::api::decode;
use crm_mirror::model::{AnswerTime, Clock as _, Instant, Layout, Object, RequestStamp, Resource};
use crm_mirror::sandbox::{Fault, Rule, World};
use crm_mirror::store::{Applied, Goal, MirrorTx, RunOutcome, Store};
use crm_mirror::sync::Job;
use serde_json::json;

const QUARTER: u64 = 900;

fn name(mirror: &Mirror, id: &str) -> String {
    mirror.one(&format!("SELECT name FROM contacts WHERE id = '{id}'"))
}

/// A contact's name, stamped by a clock that is so many seconds ahead.
fn edit(crm: &Crm, id: &str, name: &str, ahead: f64) {
    let by = Duration::from_secs_f64(ahead.abs());
    let at = if ahead < 0.0 { crm.clock.now().minus(by) } else { crm.clock.now().plus(by) };
    crm.sandbox.with_world(|world| world.edit_at(Object::Contact, id, &json!({ "name": name }), Some(at)));
}

/// Two app servers whose clocks differ, by half a second or by a time zone.
#[tokio::test]
async fn edit_that_is_stamped_earlier_than_the_one_before_is_mirrored_by_plain_syncs() {
    for (ahead, wait) in [(0.5, 0), (36_000.0, 20)] {
        let (crm, mirror) = settled(60, false).await;
        edit(&crm, "c00003", "First", ahead);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(name(&mirror, "c00003"), "'First'", "{ahead}");
        crm.wait(wait);
        edit(&crm, "c00003", "Second", 0.1);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(crm.charged(), 2, "{ahead}: the changes and a lookup");
        assert_eq!(name(&mirror, "c00003"), "'First'", "{ahead}: nothing has shown that it is the later one");
        crm.wait(QUARTER);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        mirror.assert_exact_lists(&crm);
        // The doubt is over. The second of these runs also makes the count of the hour.
        for _ in 0..2 {
            crm.wait(QUARTER);
            mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        }
        crm.wait(QUARTER);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!((crm.charged(), mirror.count("doubts")), (1, 0), "{ahead}: an idle run");
    }
}

/// More than a page of records that the clock of another time zone has stamped, and that a right one stamps again.
#[tokio::test]
async fn edits_of_many_records_that_were_stamped_ahead_are_mirrored_by_plain_syncs() {
    let (crm, mirror) = settled(300, false).await;
    (0..150).for_each(|n| edit(&crm, &format!("c{n:05}"), "First", 36_000.0));
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    crm.wait(600);
    edit(&crm, "c00003", "Second", 0.0);
    for _ in 0..3 {
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        crm.wait(QUARTER);
    }
    mirror.assert_exact_lists(&crm);
}

/// Once the service has shown a later change of any record, it has shown this one too.
#[tokio::test]
async fn earlier_stamp_is_accepted_at_once_from_an_answer_that_is_as_new() {
    let (crm, mirror) = settled(60, false).await;
    edit(&crm, "c00003", "First", 0.5);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    edit(&crm, "c00003", "Second", 0.1);
    crm.wait(2);
    edit(&crm, "c00004", "Other", 0.0);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!((crm.charged(), mirror.count("doubts")), (1, 0));
}

/// A mirror with records that were created and edited a minute ago, and a service that lags by three minutes.
async fn lagging(details: bool) -> (Crm, Mirror) {
    let (crm, mut mirror) = settled(60, details).await;
    mirror.settings.details = details;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({ "id": "new", "name": "New" }));
        world.edit(Object::Contact, "c00003", &json!({ "name": "Edited" }));
        world.edit(Object::Contact, "c00059", &json!({ "name": "Edited" }));
    });
    crm.wait(60);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    mirror.assert_exact_lists(&crm);
    crm.sandbox.faults().add(Rule::new(Fault::Lag(Duration::from_secs(180))).forever());
    (crm, mirror)
}

#[tokio::test]
async fn replica_that_lags_consistently_removes_nothing_and_sets_nothing_back() {
    let full = |repair| Job { full: true, repair, ..Job::verify() };
    for details in [false, true] {
        for job in [Job::audit(), Job::resync(), full(true), Job::sync()] {
            let (crm, mirror) = lagging(details).await;
            if job == Job::sync() {
                let conn = rusqlite::Connection::open(&mirror.path).unwrap();
                conn.execute(
                    "INSERT INTO doubts (object_type, record_id, why) VALUES ('contact', 'new', 'missed')",
                    [],
                )
                .unwrap();
            }
            for _ in 0..2 {
                let report = mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
                assert_eq!((report.tally.removed, report.outcome), (0, RunOutcome::Done), "{job:?} {details}");
                mirror.assert_exact_lists(&crm);
                crm.wait(30);
            }
            crm.sandbox.faults().clear();
            crm.wait(QUARTER);
            for _ in 0..2 {
                mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
                crm.wait(QUARTER);
            }
            mirror.assert_exact_lists(&crm);
            assert_eq!(
                mirror.count("doubts WHERE why NOT IN ('older', 'gone') OR version IS NOT NULL"),
                0,
                "{job:?} {details}"
            );
        }
    }
}

/// Nor does it bring a removed record back; one that does return is mirrored at the second moment, or with a later version.
#[tokio::test]
async fn removed_record_returns_only_with_a_later_version_or_at_a_second_moment() {
    for (lags, version) in [(true, 0), (false, 0), (false, 1)] {
        let (crm, mirror) = settled(60, false).await;
        let record = crm.sandbox.world().list_json(Resource::Contacts, "c00003").unwrap();
        crm.wait(60);
        remove(&crm, 3..4);
        mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
        assert_eq!(mirror.count("contacts"), 59);
        crm.wait(30);
        if lags {
            crm.sandbox.faults().add(Rule::new(Fault::Lag(Duration::from_secs(180))).forever());
        } else {
            crm.sandbox.with_world(|world| {
                world.create(Object::Contact, &record);
                if version > 0 {
                    world.edit(Object::Contact, "c00003", &json!({ "name": "Back" }));
                }
            });
        }
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        assert_eq!(mirror.count("contacts"), 59 + version, "{lags} {version}");
        crm.wait(QUARTER);
        for _ in 0..2 {
            mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
            crm.wait(QUARTER);
        }
        mirror.assert_exact_lists(&crm);
        assert_eq!(
            mirror.count("doubts WHERE why NOT IN ('older', 'gone') OR version IS NOT NULL"),
            0,
            "{lags} {version}"
        );
    }
}

/// A verification that may not decide says so.
#[tokio::test]
async fn verification_beside_a_lagging_replica_is_undecided() {
    for full in [false, true] {
        let (crm, mirror) = lagging(false).await;
        let job = Job { full, ..Job::verify() };
        let (_, findings) = mirror.verify(&crm, &contacts_only(job)).await;
        let found = &findings[0].1;
        assert_eq!((found.count(), found.undecided, found.open, found.is_clean()), (0, 3, 3, false), "{found:?}");
    }
}

/// The newest record is among three that were removed: no record is as new as it.
#[tokio::test]
async fn newest_record_is_removed_at_the_second_moment_and_undecided_until_then() {
    let (crm, mirror) = settled(400, false).await;
    remove(&crm, 397..400);
    let (_, findings) = mirror.verify(&crm, &contacts_only(Job::verify())).await;
    let found = &findings[0].1;
    assert_eq!((found.extra, found.undecided, found.open, found.is_clean()), (0, 3, 3, false), "{found:?}");
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed, report.findings[0].1.undecided), (RunOutcome::Done, 0, 3));
    assert_eq!(mirror.count("contacts"), 400);
    crm.wait(QUARTER - 1);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!(mirror.count("contacts"), 400);
    crm.wait(1);
    let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!(report.tally.removed, 3);
    mirror.assert_exact_lists(&crm);
    let (_, findings) = mirror.verify(&crm, &contacts_only(Job::verify())).await;
    assert!(findings[0].1.is_clean());
}

/// Nothing that it lists is ever as new as the mirror: it is followed a quarter of an hour later, by whatever run comes.
#[tokio::test]
async fn service_that_was_restored_from_a_backup_is_followed_after_two_moments() {
    for kill in [None, Some(3), Some(5), Some(8)] {
        let (crm, mirror) = settled(60, false).await;
        let before: Vec<(String, Instant)> = ["c00003", "c00040"]
            .map(|id| (id.to_string(), mirror.one(&format!("SELECT updated_at FROM contacts WHERE id = '{id}'"))))
            .map(|(id, at)| (id, at.trim_matches('\'').parse().unwrap()))
            .into();
        for id in ["c00003", "c00040"] {
            edit(&crm, id, "This morning", 0.0);
        }
        crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({ "id": "new", "name": "New" })));
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        mirror.assert_exact_lists(&crm);
        crm.wait(3_600);
        crm.sandbox.with_world(|world| {
            world.remove(Object::Contact, "new");
            for (id, at) in &before {
                world.edit_at(Object::Contact, id, &json!({ "name": "Yesterday" }), Some(*at));
            }
        });
        mirror.scheduled(&crm, &contacts_only(Job::resync())).await;
        assert_eq!((name(&mirror, "c00003"), mirror.count("contacts")), ("'This morning'".into(), 61));
        crm.wait(QUARTER);
        if kill.is_some() {
            let killed = mirror.run_killed_after(&crm, &contacts_only(Job::sync()), kill).await;
            _ = killed;
        }
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// Lists lag and lookups do not: each run's doubts are refuted, and their lookups are bounded.
#[tokio::test]
async fn answers_that_contradict_each_other_cost_a_bounded_number_of_lookups() {
    let (crm, mirror) = settled(60, false).await;
    crm.wait(600);
    for id in ["c00003", "c00004"] {
        edit(&crm, id, "Edited", 0.0);
    }
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    let stale = crm.clock.now();
    crm.wait(1);
    edit(&crm, "c00003", "Again", 0.5);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    // The changes walk keeps showing the version before.
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(stale)).on(Resource::Contacts).with_param("sort").forever());
    crm.sandbox.clear_log();
    // The first one, too, has the others wait.
    for _ in 0..8 {
        crm.wait(8);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        let delayed = mirror.count("doubts WHERE why = 'older' AND tries = 1 AND not_before IS NOT NULL");
        assert_eq!((lookups(&crm), delayed), (1, 1));
    }
    for _ in 0..90 {
        crm.wait(40);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    }
    assert!((1..=3).contains(&lookups(&crm)), "{} in an hour", lookups(&crm));
    crm.sandbox.faults().clear();
    assert_eq!(name(&mirror, "c00003"), "'Again'");
}

/// Lists are right, and details are those of a replica that stands still: each is a doubt, and none sets a record back.
#[tokio::test]
async fn details_that_lag_for_hours_cost_a_bounded_number_of_lookups() {
    let (crm, mirror) = settled(60, true).await;
    crm.wait(600);
    let stale = crm.clock.now();
    crm.wait(1);
    let ids = ["c00003", "c00004", "c00005"];
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(stale)).on(Resource::Contacts).records().forever());
    ids.iter().for_each(|id| edit(&crm, id, "Edited", 0.0));
    crm.sandbox.clear_log();
    for _ in 0..90 {
        crm.wait(120);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(mirror.count("contacts WHERE name = 'Edited'"), 3);
    }
    assert!((1..=6).contains(&lookups(&crm)), "{} in three hours", lookups(&crm));
    crm.sandbox.faults().clear();
    crm.wait(7_200);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    mirror.assert_exact(&crm);
}

/// A clock that is set back neither brings the second moment nearer nor puts it off.
#[tokio::test]
async fn two_moments_are_measured_by_elapsed_time() {
    for ahead in [-90_000, 90_000] {
        let (crm, mut mirror) = settled(60, false).await;
        let clock = crate::support::clock::WrongClock::new(crm.clock.clone());
        mirror.clock = Some(std::sync::Arc::new(clock.clone()));
        mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
        remove(&crm, 59..60);
        mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
        assert_eq!(mirror.count("contacts"), 60);
        clock.set_ahead(ahead);
        crm.wait(QUARTER - 10);
        mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
        assert_eq!(mirror.count("contacts"), 60, "{ahead}");
        crm.wait(20);
        mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
        assert_eq!(mirror.count("contacts"), 59, "{ahead}");
    }
}

/// Applies an answer to the mirror's file, as a list or a detail.
pub async fn apply(path: &std::path::Path, is_detail: bool, record: &str) -> Applied {
    let store = Store::open(path).unwrap();
    let asked = RequestStamp { at: noon().into(), order: store.requests.begin() };
    let body = if is_detail {
        format!(r#"{{"data":{record}}}"#)
    } else {
        format!(r#"{{"data":[{record}],"nextCursor":null}}"#)
    };
    let applied = store.write(move |tx: &MirrorTx<'_>| {
        tx.knowledge().answered(AnswerTime { shows: None, steady: noon() });
        tx.claims().set(Goal::Copied(Object::Contact))?;
        let layout = Layout::default();
        if is_detail {
            let record = decode::detail(Resource::Contacts, body.as_bytes(), &layout).unwrap();
            return Ok(tx.records().apply_detail(Object::Contact, &record, &asked, true)?.0);
        }
        let page = decode::page(Resource::Contacts, body.as_bytes(), &layout).unwrap();
        tx.records().apply_list(Object::Contact, &page.records[0], &asked)
    });
    let applied = applied.await.unwrap();
    store.close().await;
    applied
}

/// The etags of the row and of its detail, and both times of the row.
fn versions(mirror: &Mirror) -> String {
    mirror.one(
        "SELECT concat_ws(' ', r.etag, d.etag, substr(r.updated_at, 18), substr(r.created_at, 18), d.notes)
         FROM contacts r LEFT JOIN contact_details d ON d.contact_id = r.id",
    )
}

/// What a list and a detail show of one version: the detail has whole seconds, or another etag.
#[tokio::test]
async fn detail_in_another_precision_or_with_another_etag_is_of_the_same_version() {
    let list = r#"{"id":"a","etag":"1","createdAt":"2026-01-02T03:04:05.123Z","updatedAt":"2026-01-02T03:04:06.456Z"}"#;
    let detail = |etag: &str, time: &str| {
        format!(
            r#"{{"id":"a","etag":"{etag}","createdAt":"2026-01-02T03:04:05{time}","updatedAt":"2026-01-02T03:04:06{time}","notes":"n"}}"#
        )
    };
    for (etag, time, expected) in [
        ("1", "Z", "'1 1 06.456000Z 05.123000Z n'"),
        ("1", "", "'1 1 06.456000Z 05.123000Z n'"),
        ("W/1", "Z", "'1 1 06.456000Z 05.123000Z n'"),
        ("2", ".456Z", "'1 1 06.456000Z 05.456000Z n'"),
        ("2", ".789Z", "'2 2 06.789000Z 05.789000Z n'"),
    ] {
        let mirror = Mirror::empty();
        apply(&mirror.path, false, list).await;
        for _ in 0..2 {
            apply(&mirror.path, true, &detail(etag, time)).await;
            assert_eq!(versions(&mirror), expected, "{etag} {time}");
        }
        if !expected.contains("'2") && !time.contains('4') {
            assert_eq!(apply(&mirror.path, false, list).await, Applied::Unchanged, "{etag} {time}");
        }
    }
    // Another version.
    let mirror = Mirror::empty();
    apply(&mirror.path, false, list).await;
    assert_eq!(apply(&mirror.path, true, &detail("0", "Z")).await, Applied::Older);
}

/// `updatedAt` moves and the etag does not: the detail may have changed as well.
#[tokio::test]
async fn detail_is_due_when_the_time_moves_under_the_same_etag() {
    let (crm, mirror) = settled(60, true).await;
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, "c00003", "etag", r#""\"fixed\"""#));
    mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00003", &json!({ "notes": "Later" })));
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT notes FROM contact_details WHERE contact_id = 'c00003'"), "'Later'");
}

/// Groups of a contact whose value is no object.
#[tokio::test]
async fn container_that_is_null_or_foreign_keeps_no_value() {
    let city = "SELECT location_city FROM contacts WHERE id = 'a'";
    let tier = "SELECT cf_tier FROM contacts WHERE id = 'a'";
    let extra = "SELECT extra FROM contacts WHERE id = 'a'";
    for (group, column) in [("location", city), ("customFields", tier)] {
        for (source, kept) in [("[]", Some("[]")), (r#""""#, Some(r#""""#)), ("7", Some("7")), ("null", None)] {
            for details in [false, true] {
                let mut world = World::new(noon());
                world.fields().define(crm_mirror::sandbox::NewField::new(
                    Object::Contact,
                    "tier",
                    crm_mirror::model::DataType::ShortText,
                ));
                let contact = json!({"id": "a", "location": {"city": "Paris"}, "customFields": {"tier": "gold"}});
                world.create(Object::Contact, &contact);
                let crm = Crm::serve(world).await;
                let mut mirror = Mirror::one_at_a_time();
                mirror.settings.details = details;
                mirror.sync(&crm).await;
                assert_ne!(mirror.one(column), "NULL");
                crm.wait(600);
                crm.sandbox.with_world(|world| {
                    world.edit(Object::Contact, "a", &json!({ "name": "Edited" }));
                    world.set_raw(Object::Contact, "a", group, source);
                });
                mirror.sync(&crm).await;
                let context = format!("{group} {source}, details: {details}");
                assert_eq!(mirror.one(column), "NULL", "{context}");
                let expected = kept.map_or("NULL".into(), |kept| format!("'{{\"{group}\":{kept}}}'"));
                assert_eq!(mirror.one(extra), expected, "{context}");
                let full = Job { full: true, ..Job::verify() };
                assert!(mirror.verify(&crm, &full).await.1.iter().all(|(_, found)| found.is_clean()), "{context}");
                // A value that returns takes its place again.
                crm.wait(600);
                crm.sandbox.with_world(|world| {
                    world.clear_raw(Object::Contact, "a");
                    world.edit(Object::Contact, "a", &json!({ "name": "Again" }));
                });
                mirror.sync(&crm).await;
                assert_ne!(mirror.one(column), "NULL", "{context}");
                assert_eq!(mirror.one(extra), "NULL", "{context}");
            }
        }
    }
}

/// The group changes without a new version, which a full comparison shows.
#[tokio::test]
async fn full_verification_compares_foreign_containers() {
    let (crm, mirror) = settled(3, false).await;
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00001", &json!({ "location": {"city": "Paris"} })));
    for _ in 0..2 {
        mirror.sync(&crm).await;
        crm.wait(600);
    }
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, "c00001", "location", "[]"));
    let full = Job { full: true, ..Job::audit() };
    let (_, findings) = mirror.verify(&crm, &contacts_only(full)).await;
    assert_eq!(findings[0].1.different, 1);
    assert_eq!(mirror.one("SELECT location_city FROM contacts WHERE id = 'c00001'"), "NULL");
}

/// Timestamps without a zone are UTC, and bounds are sent in milliseconds.
#[tokio::test]
async fn times_without_a_zone_are_mirrored_and_bounds_have_milliseconds() {
    let (crm, mirror) = settled(3, false).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "c00001", &json!({ "name": "Edited" }));
        world.set_raw(Object::Contact, "c00001", "lastInteractionAt", r#""2026-03-04T05:06:07.5""#);
    });
    mirror.sync(&crm).await;
    let at = mirror.one("SELECT last_interaction_at FROM contacts WHERE id = 'c00001'");
    assert_eq!(at, "'2026-03-04T05:06:07.500000Z'");
    crm.sandbox.with_world(|world| {
        let finer = "2026-03-04T12:59:00.123456789Z".parse().unwrap();
        world.edit_at(Object::Contact, "c00002", &json!({ "name": "Finer" }), Some(finer))
    });
    for _ in 0..3 {
        crm.wait(3_600);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
    }
    assert_eq!(name(&mirror, "c00002"), "'Finer'");
    assert_eq!(mirror.count("service_oddities"), 0);
    let log = crm.sandbox.log();
    let asked = log.entries().iter().flat_map(|entry| &entry.asked.query);
    let of_changes = asked.filter(|(name, _)| name.starts_with("filter[updatedAt][gt"));
    let bounds: Vec<&str> = of_changes.map(|(_, bound)| bound.as_str()).collect();
    assert!(bounds.iter().all(|bound| bound.len() == "2026-03-04T12:00:00.000Z".len()), "{bounds:?}");
    assert_eq!(bounds.len(), 2);
}
