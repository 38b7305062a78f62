//! Wrong clocks: the mirror's own, which jumps in both directions, and the service's `Date`. Neither affects
//! correctness, retention, or the start of a walk.

use std::sync::Arc;
use std::time::Duration;

use crate::support::clock::WrongClock;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::app::status;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::model::{Clock, ClockReading, Instant, Object, Resource, Ru};
use crm_mirror::sandbox::{DateHeader, Fault, RequestLine, Rule, World};
use crm_mirror::store::Reader;
use crm_mirror::sync::{Job, JobKind};
use serde_json::json;

const DAY: u64 = 86_400;

pub fn world(contacts: usize) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(10_000_000)));
    for n in 0..contacts {
        let at = noon().minus(Duration::from_secs(9_000_000 - 60 * n as u64)).to_wire();
        let contact = json!({"id": format!("c{n:05}"), "name": format!("Name {n}"), "createdAt": at, "updatedAt": at});
        world.create(Object::Contact, &contact);
    }
    world
}

/// A copied mirror without details, its clock, which is correct, and an empty log.
async fn settled(contacts: usize) -> (Crm, Mirror, WrongClock) {
    let make = || async move {
        let crm = Crm::serve(world(contacts)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        for _ in 0..2 {
            mirror.sync(&crm).await;
            crm.wait(600);
        }
        (crm, mirror)
    };
    let (crm, mut mirror) = prepared(format!("clocks {contacts}"), make).await;
    let clock = WrongClock::new(crm.clock.clone());
    mirror.clock = Some(Arc::new(clock.clone()));
    (crm, mirror, clock)
}

fn rename(crm: &Crm, id: &str, name: &str) {
    crm.sandbox.with_world(|world| assert!(world.edit(Object::Contact, id, &json!({ "name": name }))));
}

#[tokio::test]
async fn clock_jump_prunes_no_history_and_its_entries_are_pruned_in_time() {
    for ahead in [400 * DAY as i64, -400 * DAY as i64] {
        let (crm, mut mirror, clock) = settled(60).await;
        mirror.settings.retention = Some(Duration::from_secs(30 * DAY));
        rename(&crm, "c00001", "Right");
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00002"));
        mirror.run(&crm, &Job::audit()).await.unwrap();
        clock.set_ahead(ahead);
        rename(&crm, "c00003", "Stamped wrongly");
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00004"));
        for _ in 0..2 {
            crm.wait(600);
            mirror.run(&crm, &Job::audit()).await.unwrap();
        }
        clock.set_ahead(0);
        let kept = |mirror: &Mirror| ["changes", "removed_records", "audits"].map(|table| mirror.count(table));
        let [changes, removed, audits] = kept(&mirror);
        assert_eq!((changes, removed), (4, 2), "{ahead}");
        for wait in [DAY / 4, 29 * DAY] {
            crm.wait(wait);
            mirror.sync(&crm).await;
        }
        assert_eq!(kept(&mirror), [changes, removed, audits], "{ahead}: 29 days later all of it is here");
        crm.wait(2 * DAY);
        mirror.sync(&crm).await;
        assert_eq!(kept(&mirror), [0, 0, 0], "{ahead}: and after 30 days nothing is");
    }
}

#[tokio::test]
async fn record_that_returns_is_mirrored_whatever_the_time_of_its_removal() {
    let (crm, mirror, clock) = settled(60).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00007"));
    clock.set_ahead(400 * DAY as i64);
    mirror.run(&crm, &Job::audit()).await.unwrap();
    clock.set_ahead(0);
    assert_eq!((mirror.count("contacts"), mirror.count("removed_records")), (59, 1));
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": "c00007", "name": "Back"})));
    crm.wait(60);
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.count("removed_records"), 0);
}

/// Records change while the first copy is under way, and the service never says what time it is.
#[tokio::test]
async fn changes_during_a_first_copy_are_found_without_a_date_header() {
    let crm = Crm::serve(world(450)).await;
    crm.sandbox.faults().add(Rule::new(Fault::Date(DateHeader::Missing)).forever());
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    let clock = crm.clock.clone();
    let mut pages = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        let page = asked.param("sort") == Some("createdAt") && asked.param("limit") == Some("100");
        // The last ones compare what the others have read.
        if asked.lists(Resource::Contacts) && page && pages < 5 {
            pages += 1;
            clock.advance(Duration::from_secs(1_800));
            world.now = clock.now();
            // One that was read already, and one that is still to be read and takes the watermark far ahead.
            world.edit(Object::Contact, &format!("c{:05}", 10 + pages), &json!({"name": "Behind the copy"}));
            world.edit(Object::Contact, "c00449", &json!({"name": format!("Ahead of it {pages}")}));
        }
    });
    mirror.sync(&crm).await;
    crm.sandbox.clear_hook();
    let newest = crm.sandbox.log().entries().iter().filter(|e| e.asked.param("sort") == Some("-updatedAt")).count();
    assert_eq!(newest, 1, "the newest record is observed once, before the copy");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    for _ in 0..2 {
        crm.wait(600);
        crm.sandbox.clear_log();
        let report = mirror.sync(&crm).await;
        assert_eq!((report.tally.rows, crm.charged()), (0, 2), "idle again");
    }
}

#[tokio::test]
async fn changes_are_found_after_one_wrong_date_although_a_record_is_dated_2099() {
    let (crm, mirror, clock) = settled(60).await;
    let far: Instant = "2099-01-01T00:00:00Z".parse().unwrap();
    crm.sandbox.with_world(|world| world.edit_at(Object::Contact, "c00003", &json!({"name": "Far"}), Some(far)));
    for (dated, ahead) in
        [(Some(DAY as i64), 0), (None, 4 * DAY as i64), (Some(-(DAY as i64)), 0), (None, -(DAY as i64))]
    {
        if let Some(offset) = dated {
            crm.sandbox.faults().add(Rule::new(Fault::Date(DateHeader::Offset(offset))).forever());
        }
        clock.set_ahead(ahead);
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.sandbox.faults().clear();
        clock.set_ahead(0);
        for n in 10..15 {
            crm.wait(600);
            rename(&crm, &format!("c{n:05}"), &format!("{dated:?} {ahead}"));
            mirror.sync(&crm).await;
            mirror.assert_exact_lists(&crm);
        }
    }
}

/// One process: a wrong `Date`, and two days later, while the service sends none, a local clock that is wrong by as much.
#[tokio::test]
async fn wrong_date_of_an_earlier_day_does_not_confirm_a_wrong_clock() {
    let (crm, mirror, clock) = settled(60).await;
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    crm.sandbox.faults().add(Rule::new(Fault::Date(DateHeader::Offset(DAY as i64))).forever());
    engine.run(&Job::sync(), "test").await.unwrap();
    crm.sandbox.faults().clear();
    crm.sandbox.faults().add(Rule::new(Fault::Date(DateHeader::Missing)).forever());
    crm.wait(2 * DAY);
    clock.set_ahead(DAY as i64);
    engine.run(&Job::sync(), "test").await.unwrap();
    clock.set_ahead(0);
    crm.wait(600);
    rename(&crm, "c00001", "Committed at once");
    engine.run(&Job::sync(), "test").await.unwrap();
    crm.wait(10);
    let earlier = Some(crm.clock.now().minus(Duration::from_secs(20)));
    crm.sandbox
        .with_world(|world| world.edit_at(Object::Contact, "c00002", &json!({"name": "Committed late"}), earlier));
    engine.run(&Job::sync(), "test").await.unwrap();
    mirror.assert_exact_lists(&crm);
    drop(engine);
    store.close().await;
}

#[tokio::test]
async fn wrong_clock_neither_lets_an_older_version_in_nor_keeps_a_change_out() {
    const YEARS: i64 = 100_000_000;
    for ahead in [-YEARS, YEARS] {
        let (crm, mut mirror, clock) = settled(60).await;
        mirror.settings.details = true;
        let far = noon().plus(Duration::from_secs(YEARS as u64 / 2));
        crm.sandbox.with_world(|world| world.edit_at(Object::Contact, "c00003", &json!({"name": "Far"}), Some(far)));
        mirror.sync(&crm).await;
        crm.wait(600);
        rename(&crm, "c00007", "Newer");
        // The list is current; the detail comes from a replica that is behind.
        let lag = Rule::new(Fault::Lag(Duration::from_secs(300))).on(Resource::Contacts).records().forever();
        crm.sandbox.faults().add(lag);
        clock.set_ahead(ahead);
        crm.wait(60);
        mirror.sync(&crm).await;
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00007'"), "'Newer'", "{ahead}");
        crm.sandbox.faults().clear();
        let now = Some(crm.clock.now());
        crm.sandbox.with_world(|world| world.edit_at(Object::Contact, "c00003", &json!({"name": "Near"}), now));
        crm.wait(60);
        mirror.sync(&crm).await;
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00003'"), "'Near'", "{ahead}");
        clock.set_ahead(0);
        crm.wait(90_000);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

/// The status of a mirror with these settings.
pub fn status_of(
    mirror: &Mirror,
    now: impl Into<ClockReading>,
    settings: &[(&'static str, &str)],
) -> status::MirrorStatus {
    let settings = settings.iter().map(|(name, value)| (*name, value.to_string()));
    let flags = [("database.path", mirror.path.display().to_string())].into_iter().chain(settings).collect();
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    let config = Config::load(&sources).unwrap();
    let reader = Reader::open(&mirror.path).unwrap();
    status::at_moment(&reader.begin().unwrap(), &config, now).unwrap()
}

/// What `status` says of contacts: complete as of, and changes as of.
pub fn claimed(mirror: &Mirror, now: impl Into<ClockReading>) -> [Option<Instant>; 2] {
    let status = status_of(mirror, now, &[]);
    let contacts = status.objects.iter().find(|object| object.object == Resource::Contacts).unwrap();
    [contacts.complete_as_of, contacts.changes_as_of]
}

#[tokio::test]
async fn claim_of_a_clock_that_was_ahead_is_dated_earlier_or_withdrawn() {
    for (job, restarts) in [(Job::resync(), false), (Job::audit(), false), (Job::resync(), true), (Job::audit(), true)]
    {
        let (crm, mirror, clock) = settled(60).await;
        let copied = claimed(&mirror, crm.clock.now())[0];
        clock.set_ahead(DAY as i64);
        let compared = Some(crm.clock.now());
        mirror.run(&crm, &job).await.unwrap();
        clock.set_ahead(0);
        if restarts {
            clock.restart_machine();
        }
        crm.wait(600);
        let synced = crm.clock.now();
        mirror.sync(&crm).await;
        // This removal no run has seen yet, although it is before the time that the wrong clock showed.
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00007"));
        crm.wait(2 * DAY);
        // By how much it was ahead is known as long as the machine runs. A count leaves what a copy has compared.
        let earlier = copied.filter(|_| job.kind == JobKind::Verify);
        let complete = if restarts { earlier } else { compared };
        assert_eq!(claimed(&mirror, crm.clock.now()), [complete, Some(synced)], "{job:?}");
        let audited = crm.clock.now();
        mirror.run(&crm, &Job::audit()).await.unwrap();
        mirror.assert_exact_lists(&crm);
        assert_eq!(claimed(&mirror, crm.clock.now())[0], Some(audited), "{job:?}: an audit renews the claim");
    }
}

/// The restart hides by how much the clock was ahead when the first part was read.
#[tokio::test]
async fn sweep_begun_by_a_clock_that_was_ahead_claims_nothing() {
    let (crm, mirror, clock) = settled(450).await;
    let copied = claimed(&mirror, crm.clock.now())[0];
    clock.set_ahead(DAY as i64);
    crm.sandbox.faults().add(Rule::new(Fault::Status(400)).on(Resource::Contacts).after(3).forever());
    mirror.run(&crm, &Job::resync()).await.unwrap_err();
    assert_eq!(mirror.count("goals WHERE kind = 'sweeping' AND object = 'contact'"), 1, "it goes on");
    clock.set_ahead(0);
    clock.restart_machine();
    crm.wait(600);
    mirror.run(&crm, &Job::sync()).await.unwrap_err();
    crm.sandbox.faults().clear();
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00007"));
    crm.wait(2 * DAY);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("goals WHERE kind = 'sweeping' AND object = 'contact'"), 0, "it ended");
    assert_eq!(claimed(&mirror, crm.clock.now())[0], copied);
}

/// A process that only estimates reads the clock that was set right, and stores it with what the estimate costs.
#[tokio::test]
async fn estimate_after_a_clock_was_set_right_leaves_no_wrong_claim() {
    let (crm, mirror, clock) = settled(60).await;
    clock.set_ahead(3_600);
    mirror.sync(&crm).await;
    clock.set_ahead(0);
    crm.wait(1_800);
    mirror.forecast(&crm, &Job::sync()).await;
    let changed = crm.clock.now();
    rename(&crm, "c00001", "Not here yet");
    crm.wait(3_600);
    crm.sandbox.faults().add(Rule::new(Fault::Status(401)).forever());
    mirror.run(&crm, &Job::sync()).await.unwrap_err();
    let [_, changes] = claimed(&mirror, crm.clock.now());
    assert!(changes.is_none_or(|at| at < changed), "{changes:?}, but a change at {changed} is not here");
}

/// The clock is right again before the time that it showed, and what is claimed is looked at after that time.
#[tokio::test]
async fn claim_of_a_clock_that_was_an_hour_ahead_does_not_become_a_wrong_one() {
    for is_set_during_the_run in [false, true] {
        let (crm, mirror, clock) = settled(60).await;
        clock.set_ahead(3_600);
        let read = Some(crm.clock.now());
        if is_set_during_the_run {
            let clock = clock.clone();
            crm.sandbox.before_request(move |_, asked| {
                if asked.lists(Resource::Companies) {
                    clock.set_ahead(0);
                }
            });
        }
        mirror.run(&crm, &Job::resync()).await.unwrap();
        crm.sandbox.clear_hook();
        crm.wait(1_200);
        rename(&crm, "c00007", "Unread");
        clock.set_ahead(0);
        for wait in [0, 3_600] {
            crm.wait(wait);
            let [complete, changes] = claimed(&mirror, clock.reading());
            let why = format!("no run since, set during the run: {is_set_during_the_run}");
            assert!(complete <= read && changes <= read && changes.is_some(), "{why}: {complete:?} {changes:?}");
            assert!(is_set_during_the_run || [complete, changes] == [read; 2], "{why}: {complete:?} {changes:?}");
        }
        for _ in 0..2 {
            crm.sandbox.faults().add(Rule::new(Fault::Status(401)).times(1));
            mirror.run(&crm, &Job::sync()).await.unwrap_err();
            let [complete, changes] = claimed(&mirror, crm.clock.now());
            let why = format!("nothing was read since, set during the run: {is_set_during_the_run}");
            assert!(complete <= read && changes <= read && changes.is_some(), "{why}: {complete:?} {changes:?}");
            assert!(is_set_during_the_run || [complete, changes] == [read; 2], "{why}: {complete:?} {changes:?}");
            crm.wait(60);
        }
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// The clock was 40 days ahead, a hold began or the budget was used up, and the machine restarts with the right time.
#[tokio::test]
async fn restart_with_an_earlier_time_prolongs_neither_a_hold_nor_the_budget_window() {
    for exhausted in [false, true] {
        let (crm, mut mirror, clock) = settled(60).await;
        clock.set_ahead(40 * DAY as i64);
        if exhausted {
            mirror.limits.limit = Ru::new(mirror.ledger_total());
        } else {
            let rule = Rule::new(Fault::Wait { status: 429, body: Some(7_200), header: None }).times(1);
            crm.sandbox.faults().add(rule);
        }
        let report = mirror.sync(&crm).await;
        assert!(report.suspension.is_some());
        clock.set_ahead(0);
        clock.restart_machine();
        rename(&crm, "c00001", "Later");
        for _ in 0..26 {
            // Each run is a process of its own.
            mirror.sync(&crm).await;
            crm.wait(3_600);
        }
        mirror.assert_exact_lists(&crm);
    }
}
