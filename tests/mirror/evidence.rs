//! The evidence that a change of the mirror requires: false 404s, empty lists and lagging replicas remove nothing and
//! overwrite nothing newer, in any job.

use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::model::{Clock as _, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Hidden, LoggedRequest, Route, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

pub fn world(contacts: usize) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(10_000_000)));
    for n in 0..contacts {
        let at = noon().minus(Duration::from_secs(9_000_000 - 60 * n as u64)).to_wire();
        let contact = json!({"id": format!("c{n:05}"), "name": format!("Name {n}"), "createdAt": at, "updatedAt": at});
        world.create(Object::Contact, &contact);
    }
    world
}

/// A copied and settled mirror, and an empty log.
pub async fn settled(contacts: usize, details: bool) -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(world(contacts)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = details;
        for _ in 0..2 {
            mirror.sync(&crm).await;
            crm.wait(600);
        }
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared(format!("evidence {contacts} {details}"), make).await
}

pub fn contacts_only(job: Job) -> Job {
    job.of(&[Resource::Contacts])
}

pub fn hide(hidden: Hidden) -> Rule {
    Rule::new(Fault::Hide(hidden)).on(Resource::Contacts).forever()
}

pub fn ids(numbers: std::ops::Range<usize>) -> Hidden {
    Hidden::ids(numbers.map(|n| format!("c{n:05}")))
}

#[tokio::test]
async fn no_job_mirrors_an_outage() {
    for hidden in [Hidden::Percent(100), Hidden::Percent(50), ids(0..80), ids(150..225)] {
        for job in [Job::audit(), Job::resync(), Job { full: true, ..Job::audit() }] {
            let (crm, mirror) = settled(300, false).await;
            crm.sandbox.configure(|settings| settings.page_cap = Some(50));
            crm.sandbox.faults().add(hide(hidden.clone()));
            let report = mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
            assert_eq!(report.outcome, RunOutcome::Refused, "{hidden:?} {job:?}");
            assert_eq!((mirror.count("contacts"), report.tally.removed), (300, 0), "{hidden:?} {job:?}");
            let complete =
                mirror.one("SELECT coalesce(max(open), 0) FROM goals WHERE object = 'contact' AND kind = 'differing'");
            if job.name() == "verify" {
                assert_ne!(complete, "0", "{hidden:?} {job:?}: the refused removal is still open");
            }
            // Once they are back, everything is as before without any intervention.
            crm.sandbox.faults().clear();
            crm.wait(600);
            let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
            assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 0), "{hidden:?} {job:?}");
            mirror.assert_exact_lists(&crm);
        }
    }
}

/// Jobs that may remove records: manual ones and those of the schedule.
fn jobs() -> [(Job, bool); 6] {
    let full = |repair| Job { full: true, repair, ..Job::verify() };
    [
        (Job::sync(), false),
        (Job::resync(), true),
        (Job::resync(), false),
        (full(true), true),
        (Job::audit(), true),
        (Job::audit(), false),
    ]
}

/// Any subset of the records disappears at once: hidden or removed, which cannot be distinguished.
#[tokio::test]
async fn no_job_removes_more_than_the_guard_allows() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..12 {
        let contacts = [14, 60, 140][round % 3];
        let (crm, mirror) = settled(contacts, false).await;
        let share = [0.02, 0.15, 0.21, 0.5, 0.95, 1.0][rng.usize(..6)];
        let gone: Vec<usize> = (0..contacts).filter(|_| share >= 1.0 || rng.f64() < share).collect();
        if rng.bool() {
            crm.sandbox.faults().add(hide(Hidden::ids(gone.iter().map(|n| format!("c{n:05}")))));
        } else {
            crm.sandbox.with_world(|world| {
                for n in &gone {
                    world.remove(Object::Contact, &format!("c{n:05}"));
                }
            });
        }
        let most = if gone.len() as f64 <= contacts as f64 * 0.2 { gone.len() } else { 0 };
        let mut order = jobs();
        rng.shuffle(&mut order);
        for (job, by_person) in order {
            crm.wait(rng.u64(60..9_000));
            if by_person {
                mirror.run(&crm, &contacts_only(job)).await.unwrap();
            } else {
                mirror.scheduled(&crm, &contacts_only(job)).await;
            }
            let left = mirror.count("contacts") as usize;
            assert!(contacts - left <= most, "{} of {contacts} vanished, {left} are left", gone.len());
        }
        assert_eq!(contacts - mirror.count("contacts") as usize, most, "{} of {contacts}", gone.len());
    }
}

#[tokio::test]
async fn small_removals_count_together_for_a_day() {
    let (crm, mirror) = settled(600, false).await;
    let mut removed = 0;
    for portion in 0..8 {
        crm.sandbox.with_world(|world| {
            for n in portion * 40..(portion + 1) * 40 {
                world.remove(Object::Contact, &format!("c{n:05}"));
            }
        });
        crm.wait(60);
        let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
        removed += report.tally.removed;
    }
    assert_eq!(removed, 120, "a fifth of 600 and no more within a day");
    assert_eq!(mirror.count("contacts"), 480);
    crm.wait(60);
    let report = mirror.run(&crm, &contacts_only(Job::audit()).accepting_removals()).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 200));
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn refused_removal_costs_no_request_and_is_withdrawn_when_an_audit_shows_the_records() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    assert_eq!(mirror.scheduled(&crm, &contacts_only(Job::audit())).await.outcome, RunOutcome::Refused);
    // Nothing but what an audit costs that finds everything equal.
    crm.wait(60);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    let (lists, audit) = (crm.sandbox.log().lists(Resource::Contacts), crm.charged());
    assert!(audit <= 7, "{audit} RU, {lists} lists");
    for _ in 0..3 {
        crm.wait(86_400);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        let log = crm.sandbox.log();
        assert!(log.entries().iter().all(|entry| entry.asked.param("filter[id][in]").is_none()));
    }
    crm.sandbox.faults().clear();
    crm.wait(86_400);
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!(mirror.count("goals WHERE object = 'contact' AND kind = 'refused removals'"), 0);
    assert_eq!((mirror.count("contacts"), mirror.count("doubts WHERE why = 'missed'")), (600, 0));
    mirror.assert_exact_lists(&crm);
}

/// What is known to differ is counted on neither side, and is open all the same.
#[tokio::test]
async fn verification_after_refused_removals_claims_nothing() {
    let (crm, mirror) = settled(1_000, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    assert_eq!(mirror.scheduled(&crm, &contacts_only(Job::audit())).await.outcome, RunOutcome::Refused);
    crm.wait(60);
    let (_, findings) = mirror.verify(&crm, &contacts_only(Job::verify())).await;
    assert_eq!((findings[0].1.count(), findings[0].1.open, findings[0].1.undecided), (0, 300, 300));
    assert_eq!(mirror.one("SELECT open FROM goals WHERE object = 'contact' AND kind = 'differing'"), "300");
}

#[tokio::test]
async fn false_404_of_a_detail_removes_nothing() {
    for missing in [1, 3, 17] {
        let (crm, mirror) = settled(50, true).await;
        crm.sandbox.with_world(|world| {
            for n in 0..50 {
                world.edit(Object::Contact, &format!("c{n:05}"), &json!({"name": format!("Edited {n}")}));
            }
            world.create(Object::Contact, &json!({"id": "new", "name": "New"}));
        });
        for n in 0..missing {
            crm.sandbox.faults().add(Rule::new(Fault::Status(404)).record(&format!("c{n:05}")).forever());
        }
        crm.sandbox.faults().add(Rule::new(Fault::Status(404)).record("new").forever());
        crm.wait(600);
        let report = mirror.sync(&crm).await;
        assert_eq!(report.tally.removed, 0, "{missing}");
        assert_eq!((mirror.count("contacts"), mirror.count("removed_records")), (51, 0), "{missing}");
        crm.sandbox.faults().clear();
        crm.wait(90_000);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn answer_with_an_older_version_overwrites_nothing() {
    let (crm, mirror) = settled(150, true).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00007", &json!({"name": "Newer"})));
    // The list is current, the detail from a replica that is ten minutes behind.
    let lag = || Fault::Lag(Duration::from_secs(1_000));
    crm.sandbox.faults().add(Rule::new(lag()).on(Resource::Contacts).records().forever());
    crm.wait(60);
    mirror.sync(&crm).await;
    let current = "SELECT name || ' ' || details_current FROM contacts_full WHERE id = 'c00007'";
    assert_eq!(mirror.one(current), "'Newer 0'", "the detail stays due");
    // A sweep and an audit that read the replica's lists leave the newer row unchanged, too.
    crm.sandbox.faults().clear();
    let now = Fault::Lag(Duration::ZERO);
    crm.sandbox.faults().add(Rule::new(now).on(Resource::Contacts).with_param("filter[id][in]").forever());
    crm.sandbox.faults().add(Rule::new(lag()).on(Resource::Contacts).lists().forever());
    mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00007'"), "'Newer'");
    crm.sandbox.faults().clear();
    crm.wait(90_000);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

/// The later of two copies on one page is the record, wherever it stands; of two of one time it is the last.
#[tokio::test]
async fn older_copy_on_the_same_page_overwrites_nothing() {
    let (crm, mirror) = settled(150, false).await;
    for (before_now, expected) in [(180, "One"), (120, "Other"), (60, "Other")] {
        crm.wait(600);
        let [one, other] = [120, before_now].map(|seconds| crm.clock.now().minus(Duration::from_secs(seconds)));
        let name = json!({"name": "One"});
        crm.sandbox.with_world(|world| world.edit_at(Object::Contact, "c00007", &name, Some(one)));
        let other = json!({"id": "c00007", "name": "Other", "updatedAt": other.to_wire()});
        crm.sandbox.faults().add(Rule::new(bodies::with_row(&other.to_string())).on(Resource::Contacts).lists());
        mirror.sync(&crm).await;
        assert_eq!(
            mirror.one("SELECT name FROM contacts WHERE id = 'c00007'"),
            format!("'{expected}'"),
            "{before_now}"
        );
    }
}

#[tokio::test]
async fn resync_follows_a_service_that_was_restored_from_a_backup() {
    // Among the last ones is the newest, which is the witness of each lookup.
    for restored in [0..60, 90..150] {
        let (crm, mirror) = settled(150, false).await;
        crm.sandbox.with_world(|world| {
            let earlier = noon().minus(Duration::from_secs(9_500_000));
            for n in restored {
                world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({"name": "Restored"}), Some(earlier));
            }
        });
        crm.sandbox.clear_log();
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// Three or more runs read the list of the restored service, and each window may end between any two requests.
#[tokio::test]
async fn resync_of_several_runs_follows_a_service_that_was_restored_from_a_backup() {
    for units in 1..9 {
        let (crm, mut mirror) = settled(60, false).await;
        let earlier = noon().minus(Duration::from_secs(9_500_000));
        crm.sandbox.with_world(|world| {
            for n in 0..30 {
                world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({"name": "Restored"}), Some(earlier));
            }
        });
        crm.sandbox.configure(|settings| settings.page_cap = Some(10));
        mirror.limits.window = Duration::from_secs(3_600);
        let mut job = contacts_only(Job::resync());
        for window in 0.. {
            assert!(window < 40, "{units} RU an hour");
            mirror.limits.limit = Ru::new(if window < 6 { units } else { 1_000 });
            let report = mirror.run(&crm, &job).await.unwrap();
            if report.suspension.is_none() {
                break;
            }
            job = contacts_only(Job::sync());
            crm.wait(3_600);
        }
        mirror.assert_exact_lists(&crm);
    }
}

/// A sweep of several runs received an older version of the newest record, which no lookup shows a second time: it does not
/// claim that all is equal.
#[tokio::test]
async fn sweep_counts_older_versions_of_its_earlier_runs_as_open() {
    let earlier = noon().minus(Duration::from_secs(9_500_000));
    let edit =
        |world: &mut World, at| _ = world.edit_at(Object::Contact, "c00003", &json!({"name": "Lagging"}), Some(at));
    let mut windows_that_ended_in_the_sweep = 0;
    for units in 4..30 {
        let (crm, mut mirror) = settled(60, false).await;
        crm.sandbox.with_world(|world| edit(world, noon()));
        mirror.sync(&crm).await;
        crm.wait(600);
        crm.sandbox.with_world(|world| edit(world, earlier));
        crm.sandbox.configure(|settings| settings.page_cap = Some(10));
        mirror.limits.limit = Ru::new(mirror.ledger_total() + units);
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        let received = mirror.count("doubts WHERE why = 'older'");
        if received == 0 || mirror.count("goals WHERE object = 'contact' AND kind = 'sweeping'") == 0 {
            continue;
        }
        windows_that_ended_in_the_sweep += 1;
        crm.sandbox.with_world(|world| edit(world, earlier.plus(Duration::from_secs(60))));
        mirror.limits.limit = Ru::new(1_000);
        crm.wait(86_400);
        mirror.sync(&crm).await;
        let open =
            mirror.one("SELECT coalesce(max(open), 0) FROM goals WHERE object = 'contact' AND kind = 'differing'");
        assert_eq!(open, "1", "{units} RU");
    }
    assert!(windows_that_ended_in_the_sweep > 2);
}

/// The sweep that the service answered with empty lists is not the one that a person asked for later.
#[tokio::test]
async fn sweep_that_was_asked_for_after_a_refused_one_reads_every_record() {
    let (crm, mut mirror) = settled(10, true).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    // The changes, and two of five pages of the sweep.
    crm.sandbox.faults().add(Rule::new(Fault::EmptyList).on(Resource::Contacts).lists().after(3).forever());
    let job = contacts_only(Job::resync());
    assert_eq!(mirror.run(&crm, &job).await.unwrap().outcome, RunOutcome::Refused);
    crm.sandbox.faults().clear();
    crm.sandbox.with_world(|world| world.edit_silently(Object::Contact, "c00001", &json!({"name": "Silent"})));
    mirror.limits.limit = Ru::new(1);
    assert_eq!(mirror.run(&crm, &job).await.unwrap().outcome, RunOutcome::Suspended);
    mirror.limits.limit = Ru::new(1_000_000);
    crm.wait(200_000);
    // The records are back, so nothing is left to decide.
    mirror.sync(&crm).await;
    mirror.run(&crm, &job.accepting_removals()).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// What was refused some days ago is no list of today: a record was removed since then.
#[tokio::test]
async fn accepted_removals_are_read_again_unless_they_were_refused_within_a_day() {
    for (days, reads) in [(0, false), (3, true)] {
        let (crm, mirror) = settled(40, true).await;
        crm.sandbox.with_world(|world| (0..20).for_each(|n| _ = world.remove(Object::Contact, &format!("c{n:05}"))));
        let job = contacts_only(Job::resync());
        assert_eq!(mirror.run(&crm, &job).await.unwrap().outcome, RunOutcome::Refused);
        crm.wait(days * 86_400 + 3_600);
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00030"));
        crm.sandbox.clear_log();
        let report = mirror.run(&crm, &job.accepting_removals()).await.unwrap();
        assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 20 + u64::from(reads)), "{days} days");
        let contacts = Route::List(Resource::Contacts);
        let log = crm.sandbox.log();
        let mut lists = log.entries().iter().map(|entry| &entry.asked).filter(|asked| asked.route == contacts);
        let swept = lists.any(|asked| asked.param("sort") == Some("createdAt"));
        assert_eq!(swept, reads, "{days} days");
    }
}

/// The second page of a lookup lacks the witness, or the record.
#[tokio::test]
async fn empty_second_page_of_a_lookup_proves_no_removal() {
    for page_cap in [1, 2] {
        let (crm, mirror) = settled(12, true).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(page_cap));
        let faults = crm.sandbox.faults();
        faults.add(Rule::new(Fault::Hide(Hidden::Ids(Default::default()))).with_param("filter[id]").forever());
        faults.add(hide(ids(3..5)).lists());
        faults.add(Rule::new(Fault::EmptyList).with_param("filter[id]").with_param("cursor").forever());
        let report = mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        assert_eq!((report.tally.removed, mirror.count("contacts")), (0, 12), "{page_cap}");
    }
}

/// Lists lack six records, of which lookups find four: they fill more than a page.
#[tokio::test]
async fn lookup_of_several_pages_removes_what_is_gone_and_keeps_the_rest() {
    let (crm, mirror) = settled(40, false).await;
    crm.sandbox.with_world(|world| ["c00005", "c00008"].map(|id| world.remove(Object::Contact, id)));
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    let faults = crm.sandbox.faults();
    faults.add(Rule::new(Fault::Hide(Hidden::Ids(Default::default()))).with_param("filter[id]").forever());
    faults.add(hide(ids(3..9)).lists());
    let report = mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    assert_eq!((report.tally.removed, mirror.count("contacts")), (2, 38));
    assert_eq!(report.warnings, Vec::<String>::new(), "no answer leaves a doubt");
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0);
    assert_eq!(mirror.count("goals WHERE object = 'contact' AND kind = 'sweeping'"), 0, "the sweep is finished");
    faults.clear();
    mirror.assert_exact_lists(&crm);
}

/// A list of 49 ids is longer than the service accepts.
#[tokio::test]
async fn lookup_is_halved_where_the_service_limits_whole_lists() {
    let (crm, mirror) = settled(500, false).await;
    crm.sandbox.with_world(|world| {
        for n in 100..197 {
            world.remove(Object::Contact, &format!("c{n:05}"));
        }
    });
    crm.sandbox.configure(|settings| settings.limits_whole_lists = true);
    let report = mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 97));
    assert_eq!(report.warnings, Vec::<String>::new());
    mirror.assert_exact_lists(&crm);
    assert_eq!(crm.sandbox.log().with_status(400), 2, "one for each of two lists");
}

/// An app server lags only for one record, and a later change of another one is beside it: the page is as new as the record,
/// so the earlier version is accepted. Changes after that move the watermark on. `beside` more take a page of their own.
#[tokio::test]
async fn version_that_was_set_back_by_a_page_of_changes_comes_forward_again() {
    for (beside, pages) in [(0, 1), (120, 2)] {
        let (crm, mirror) = settled(300, false).await;
        let edit = |id: &str, name: &str, at| {
            crm.sandbox.with_world(|world| world.edit_at(Object::Contact, id, &json!({ "name": name }), Some(at)))
        };
        let first = crm.clock.now();
        let second = first.plus(Duration::from_millis(2_500));
        edit("c00003", "First", first);
        crm.wait(3);
        edit("c00003", "Second", second);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        crm.wait(600);
        edit("c00003", "First", first);
        edit("c00004", "Late", second.plus(Duration::from_millis(100)));
        (0..beside).for_each(|n| _ = edit(&format!("c{:05}", 100 + n), "Beside", crm.clock.now()));
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(mirror.count("contacts WHERE name = 'First'"), 1, "{beside}");
        edit("c00003", "Second", second);
        for again in [pages, 1] {
            crm.wait(900);
            crm.sandbox.clear_log();
            mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
            let log = crm.sandbox.log();
            let is_page = |sent: &&LoggedRequest| sent.asked.param("limit") == Some("100");
            assert_eq!(log.entries().iter().filter(is_page).count(), again, "{beside}: read once more");
            mirror.assert_exact_lists(&crm);
        }
    }
}
