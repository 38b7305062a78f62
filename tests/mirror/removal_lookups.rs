//! Lookups by id: what each answer, or the lack of one, proves about the removal of a record.

use std::time::Duration;

use crate::clocks::claimed;
use crate::evidence::{contacts_only, hide, ids, settled, world};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Hidden, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3_600);

/// A mirror of so many contacts that sends every request once.
async fn impatient(contacts: usize) -> (Crm, Mirror) {
    let (crm, mut mirror) = settled(contacts, false).await;
    mirror.tries = 1;
    (crm, mirror)
}

pub fn remove(crm: &Crm, numbers: std::ops::Range<usize>) {
    crm.sandbox.with_world(|world| {
        for n in numbers {
            world.remove(Object::Contact, &format!("c{n:05}"));
        }
    });
}

/// Contact lists with this parameter, each page of their answers.
pub fn lists_with(crm: &Crm, name: &str, value: Option<&str>) -> usize {
    let log = crm.sandbox.log();
    let of_contacts = log.entries().iter().filter(|entry| entry.asked.lists(Resource::Contacts));
    of_contacts.filter(|e| e.asked.param(name).is_some_and(|given| value.is_none_or(|value| value == given))).count()
}

pub fn lookups(crm: &Crm) -> usize {
    lists_with(crm, "filter[id][in]", None)
}

pub fn undecided(count: u64) -> Vec<String> {
    vec![format!("{count} contact records seem to be removed, but no answer of the service proves it: they are kept")]
}

/// The stored state of undecided removals.
fn state(mirror: &Mirror) -> serde_json::Value {
    let text = mirror.one(
        "SELECT json_object('left', nullif(count(*) FILTER (WHERE tries > 0), 0), 'looks', max(tries),
                            'empty_since', max(first_seen) FILTER (WHERE version = 'none'))
         FROM doubts WHERE object_type = 'contact' AND why = 'missed'",
    );
    serde_json::from_str(text.trim_matches('\'')).unwrap()
}

/// An answer without a total may have been cut: it is believed at a second moment.
#[tokio::test]
async fn lookup_without_a_count_removes_nothing_at_once() {
    let (crm, mirror) = impatient(150).await;
    remove(&crm, 140..145);
    crm.sandbox.faults().add(hide(ids(30..50)));
    let counts = Rule::new(Fault::Status(503)).on(Resource::Contacts).with_param("count").with_param("filter[id]");
    crm.sandbox.faults().add(counts.forever());
    for removed in [0, 0] {
        mirror.scheduled(&crm, &contacts_only(Job::resync())).await;
        assert_eq!(mirror.count("removed_records"), removed);
        crm.wait(300);
    }
    crm.sandbox.faults().clear();
    for _ in 0..3 {
        crm.wait(1_200);
        mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    }
    assert_eq!(mirror.count("removed_records"), 5);
    mirror.assert_exact_lists(&crm);
}

/// Lookups that fail with a count and not without one: the first shows that, for all those of the run.
#[tokio::test]
async fn lookups_whose_count_fails_are_counted_once_in_a_run() {
    let (crm, mirror) = settled(400, false).await;
    let edit_all = |name: &str, at| {
        crm.sandbox.with_world(|world| {
            for n in 0..400 {
                world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({ "name": name }), Some(at));
            }
        });
    };
    edit_all("Here", crm.clock.now());
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    edit_all("There", crm.clock.now().minus(HOUR));
    let counts = Rule::new(Fault::Status(503)).on(Resource::Contacts).with_param("count").with_param("filter[id]");
    crm.sandbox.faults().add(counts.forever());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    let log = crm.sandbox.log();
    let failed = log.entries().iter().filter(|entry| entry.status == Some(503)).count();
    assert_eq!((failed, lookups(&crm) - failed), (5, 18), "one request with all its attempts, and no other");
}

/// The service answers for a while as if it had no contacts: the removal waits, and nobody has to accept it.
#[tokio::test]
async fn removal_during_an_outage_of_all_lists_is_decided_without_a_user() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..1);
    nominate(&mirror, 0..1);
    crm.sandbox.faults().add(hide(Hidden::Percent(100)));
    let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!((report.tally.removed, report.outcome, lookups(&crm)), (0, RunOutcome::Done, 1));
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 1);
    // Other records are here, so an empty answer is no evidence, however often it is repeated.
    crm.wait(900);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!((lookups(&crm), &state(&mirror)["looks"], &state(&mirror)["empty_since"]), (2, &json!(2), &json!(null)));
    crm.sandbox.faults().clear();
    crm.wait(3_600);
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    mirror.assert_exact_lists(&crm);
}

/// An edit or a detail that is answered 404 nominates a record before the first copy is complete.
#[tokio::test]
async fn first_copy_ends_and_changes_are_read_while_a_removal_is_undecided() {
    let crm = Crm::serve(world(300)).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(6), HOUR);
    let job = contacts_only(Job::sync());
    while !mirror.path.exists() || mirror.count("contacts") == 0 {
        mirror.run(&crm, &job).await.unwrap();
        crm.wait(3_600);
    }
    assert!((1..300).contains(&mirror.count("contacts")));
    remove(&crm, 0..1);
    nominate(&mirror, 0..1);
    crm.sandbox.faults().add(hide(Hidden::Percent(100)).with_param("filter[id]"));
    mirror.limits.limit = Ru::new(1_000);
    for name in ["New", "Newer"] {
        crm.wait(3_600);
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00005", &json!({ "name": name })));
        let report = mirror.run(&crm, &job).await.unwrap();
        assert!(report.warnings.is_empty() || report.warnings == undecided(1), "{:?}", report.warnings);
        assert_eq!((mirror.count("doubts WHERE why = 'missed'"), claimed(&mirror, crm.clock.now())[0]), (1, None));
        let open = "SELECT coalesce(max(open), 0) FROM goals WHERE object = 'contact' AND kind = 'differing'";
        assert_eq!(mirror.one(open), "1", "what status calls a difference");
    }
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00005'"), "'Newer'");
    crm.sandbox.faults().clear();
    crm.wait(86_400);
    mirror.run(&crm, &job).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// A newer version, or an older one of a service that was restored from a backup.
#[tokio::test]
async fn record_that_lists_lack_and_a_lookup_has_is_compared_by_any_job() {
    let earlier = noon().minus(Duration::from_secs(9_500_000));
    for (job, at) in [(Job::audit(), noon()), (Job::resync(), noon()), (Job::resync(), earlier)] {
        let (crm, mirror) = settled(60, false).await;
        crm.sandbox.with_world(|world| {
            world.edit_at(Object::Contact, "c00003", &json!({"name": "Edited"}), Some(at));
        });
        crm.sandbox.faults().add(hide(Hidden::Ids(Default::default())).with_param("filter[id]"));
        crm.sandbox.faults().add(hide(ids(3..5)));
        let report = mirror.scheduled(&crm, &contacts_only(job.clone())).await;
        assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 0), "{job:?} {at}");
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00003'"), "'Edited'", "{job:?} {at}");
        mirror.assert_exact_lists(&crm);
    }
}

/// One item of the first of two lookups cannot be decoded: it may be any of the records.
#[tokio::test]
async fn lookup_with_an_unusable_item_proves_nothing_and_the_next_one_does() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..60);
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": "c00010", "name": "Back"})));
    crm.sandbox.with_world(|world| world.leave_out(Object::Contact, "c00010", "id"));
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 11));
    assert_eq!(report.warnings, undecided(49));
    assert_eq!(lookups(&crm), 2);
    let state = state(&mirror);
    assert_eq!((&state["left"], &state["looks"], &state["empty_since"]), (&json!(49), &json!(1), &json!(null)));
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 49);
}

/// Lists lack six records that lookups have, one on each page beside the witness.
#[tokio::test]
async fn lookup_of_several_pages_is_not_repeated_if_it_has_every_record() {
    let (crm, mirror) = settled(40, false).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    crm.sandbox.faults().add(hide(Hidden::Ids(Default::default())).with_param("filter[id]"));
    crm.sandbox.faults().add(hide(ids(3..9)).lists());
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.tally.removed, report.warnings.len(), lookups(&crm)), (0, 0, 6));
}

/// A mirror of 200 contacts that nominated the first ones, of which these are gone. The service lists so many records on a
/// page, and a budget window pays for so many requests.
async fn nominated(first: usize, gone: std::ops::Range<usize>, page_cap: usize, units: u64) -> (Crm, Mirror) {
    let (crm, mut mirror) = settled(200, false).await;
    remove(&crm, gone);
    nominate(&mirror, 0..first);
    crm.sandbox.configure(|settings| settings.page_cap = Some(page_cap));
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(units), HOUR);
    (crm, mirror)
}

pub fn nominate(mirror: &Mirror, numbers: std::ops::Range<usize>) {
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    let ids = numbers.map(|n| format!("('contact', 'c{n:05}', 'missed')")).collect::<Vec<_>>().join(", ");
    conn.execute_batch(&format!("INSERT INTO doubts (object_type, record_id, why) VALUES {ids}")).unwrap();
}

/// What an answer shows is applied before the next lookup: a kill costs no more than the one that was under way.
#[tokio::test]
async fn lookups_of_existing_records_are_not_repeated_after_a_kill() {
    let job = contacts_only(Job::sync());
    for commits in 1.. {
        let (crm, mirror) = settled(400, false).await;
        nominate(&mirror, 0..300);
        let ended = mirror.run_killed_after(&crm, &job, Some(commits)).await;
        let before = lookups(&crm);
        mirror.scheduled(&crm, &job).await;
        assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0);
        assert!(lookups(&crm) <= 8, "{before} of {} after {commits} commits", lookups(&crm));
        if ended.is_ok() {
            break;
        }
    }
}

/// What each window leaves nominated and has removed in all, until a run is not suspended.
async fn windows(crm: &Crm, mirror: &Mirror) -> (Vec<(i64, i64)>, RunOutcome) {
    let mut windows = Vec::new();
    loop {
        let report = mirror.scheduled(crm, &contacts_only(Job::sync())).await;
        windows.push((mirror.count("doubts WHERE why = 'missed'"), mirror.count("removed_records")));
        if report.suspension.is_none() {
            return (windows, report.outcome);
        }
        assert!(windows.len() < 12, "it never ends: {windows:?}");
        crm.wait(HOUR.as_secs());
    }
}

#[tokio::test]
async fn lookups_go_on_in_the_next_window_without_what_was_decided() {
    let (crm, mirror) = nominated(60, 3..8, 10, 3).await;
    let (windows, outcome) = windows(&crm, &mirror).await;
    assert_eq!(outcome, RunOutcome::Done);
    assert!(windows.windows(2).all(|pair| pair[1].0 < pair[0].0), "each window decides about some: {windows:?}");
    assert_eq!(windows.last(), Some(&(0, 5)));
    // 55 records, nine on a page with the witness, and what the last page of each of the two lists proves.
    assert!(lookups(&crm) <= 8, "{}", lookups(&crm));
    mirror.assert_exact_lists(&crm);
}

/// The sample shows that it is no outage of everything, and a window shows a part that would be allowed by itself.
#[tokio::test]
async fn too_many_removals_are_refused_although_each_window_shows_few_of_them() {
    for (first, gone, page_cap, units) in [(60, 19..60, 10, 3), (120, 40..120, 100, 2)] {
        let (crm, mirror) = nominated(first, gone.clone(), page_cap, units).await;
        let (windows, outcome) = windows(&crm, &mirror).await;
        assert_eq!(outcome, RunOutcome::Refused);
        assert!(windows.len() > 1, "{windows:?}");
        assert!(windows.iter().all(|(_, removed)| *removed == 0), "{windows:?}");
        assert_eq!((windows.last().unwrap().0 as usize, mirror.count("contacts")), (gone.len(), 200));
    }
}

/// An answer that lists what it was not asked for may ignore the ids: the other pages would prove nothing.
#[tokio::test]
async fn lookup_that_lists_another_record_is_given_up_after_a_page() {
    let (crm, mirror) = settled(40, false).await;
    nominate(&mirror, 0..5);
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    crm.sandbox.faults().add(Rule::new(Fault::RowOutsideFilter).with_param("filter[id]").forever());
    let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!((report.tally.removed, report.warnings, lookups(&crm)), (0, undecided(4), 1));
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 4, "one record is on the page, beside the witness");
}

#[tokio::test]
async fn lookup_that_never_ends_is_given_up() {
    let (crm, mirror) = settled(40, false).await;
    remove(&crm, 3..5);
    crm.sandbox.configure(|settings| settings.page_cap = Some(1));
    crm.sandbox.faults().add(hide(Hidden::Ids(Default::default())).with_param("filter[id]").times(100));
    crm.sandbox.faults().add(hide(ids(3..9)).lists());
    let empty = Rule::new(Fault::EmptyPageWithCursor).on(Resource::Contacts).with_param("filter[id]");
    crm.sandbox.faults().add(empty.times(30));
    let ended = mirror.run(&crm, &contacts_only(Job::audit())).await;
    assert!(matches!(ended, Err(SyncError::NotAdvancing { resource: Resource::Contacts })), "{ended:?}");
    assert!(lookups(&crm) < 12, "{}", lookups(&crm));
    assert_eq!(mirror.count("contacts"), 40);
}

/// Only a 400 says that the service does not understand the list of ids; every other error ends the attempt.
#[tokio::test]
async fn failed_lookup_removes_nothing_and_only_a_400_leaves_the_record_undecided() {
    for (status, gone, ends, warnings) in [
        (400, 1, true, undecided(1)),
        (400, 3, true, vec![]),
        (500, 1, false, vec![]),
        (500, 3, false, vec![]),
        (418, 1, false, vec![]),
    ] {
        let (crm, mirror) = impatient(40).await;
        remove(&crm, 0..gone);
        // With its count and without it, where a list is not halved.
        let times = if status == 400 && gone > 1 { 1 } else { 2 };
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).with_param("filter[id][in]").times(times));
        let ended = mirror.run(&crm, &contacts_only(Job::audit())).await;
        assert_eq!(ended.is_ok(), ends, "{status} for {gone}: {ended:?}");
        assert_eq!(ended.map_or(vec![], |report| report.warnings), warnings, "{status} for {gone}");
        // A list that the service does not understand is halved.
        let removed = if ends && warnings.is_empty() { gone } else { 0 };
        assert_eq!(mirror.count("contacts") as usize, 40 - removed, "{status} for {gone}");
        assert_eq!(mirror.count("doubts WHERE why = 'missed'") as usize, gone - removed, "{status} for {gone}");
        crm.wait(86_400);
        mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// 110 nominated records of 600 take three lookups. `faults` are those of each lookup that is made.
async fn three_lookups(gone: std::ops::Range<usize>, faults: &[Option<Fault>]) -> (Crm, Mirror) {
    let (crm, mirror) = impatient(600).await;
    remove(&crm, gone);
    nominate(&mirror, 0..110);
    for (number, fault) in faults.iter().enumerate() {
        if let Some(fault) = fault {
            // A rule counts the requests that no earlier rule has taken.
            let before = faults[..number].iter().filter(|fault| fault.is_none()).count();
            let rule = Rule::new(fault.clone()).with_param("filter[id][in]").after(before as u32);
            // One that fails does so without its count, too.
            crm.sandbox.faults().add(rule.times(if *fault == Fault::EmptyList { 1 } else { 2 }));
        }
    }
    assert!(mirror.run(&crm, &contacts_only(Job::sync())).await.is_err());
    assert_eq!(lookups(&crm), faults.len() + 1);
    (crm, mirror)
}

/// What was decided before a lookup failed is carried out. If nothing was, all records wait, or each run would look up the
/// same ones; a lookup without an answer lets none of them wait.
#[tokio::test]
async fn lookup_that_fails_later_keeps_what_was_decided_before() {
    let failed = Some(Fault::Status(500));
    let empty = Some(Fault::EmptyList);
    for (faults, removed, left) in [
        (vec![failed.clone()], 0, json!(null)),
        (vec![empty.clone(), failed.clone()], 0, json!(110)),
        (vec![None, empty.clone(), failed.clone()], 49, json!(49)),
    ] {
        let (crm, mirror) = three_lookups(0..110, &faults).await;
        assert_eq!(
            (mirror.count("removed_records"), mirror.count("doubts WHERE why = 'missed'")),
            (removed, 110 - removed),
            "{faults:?}"
        );
        assert_eq!(state(&mirror)["left"], left, "{faults:?}");
        crm.wait(86_400);
        mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// One item cannot be decoded, so nothing is proven about one record; the others of its lookup exist.
#[tokio::test]
async fn records_that_exist_are_nominated_no_more_if_a_later_lookup_fails() {
    let (crm, mirror) = impatient(600).await;
    crm.sandbox.with_world(|world| world.leave_out(Object::Contact, "c00010", "id"));
    nominate(&mirror, 0..110);
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).with_param("filter[id][in]").after(1).times(2));
    assert!(mirror.run(&crm, &contacts_only(Job::sync())).await.is_err());
    assert_eq!((mirror.count("doubts WHERE why = 'missed'"), &state(&mirror)["left"]), (62, &json!(1)));
}

/// Half of the records are gone, which is refused; a sample that the service did not answer shows nothing.
#[tokio::test]
async fn sample_that_fails_is_no_refusal() {
    let (crm, mirror) = impatient(60).await;
    remove(&crm, 0..30);
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).with_param("filter[id][in]").times(2));
    let job = contacts_only(Job::audit());
    assert!(mirror.run(&crm, &job).await.is_err());
    assert_eq!(mirror.count("goals WHERE object = 'contact' AND kind = 'refused removals'"), 0);
    crm.wait(86_400);
    assert_eq!(mirror.run(&crm, &job).await.unwrap().outcome, RunOutcome::Refused);
}

/// Ids with a comma fit no list, so each of them is looked up on its own.
#[tokio::test]
async fn id_that_the_service_does_not_understand_keeps_no_other_from_its_lookup() {
    let mut world = World::new(noon());
    for id in ["a,1", "a,2", "b", "c", "d"] {
        world.create(Object::Contact, &json!({"id": id}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.tries = 1;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| ["a,1", "a,2"].map(|id| world.remove(Object::Contact, id)));
    crm.sandbox.faults().add(Rule::new(Fault::Status(400)).with_param("filter[id]").times(2));
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.tally.removed, report.warnings), (1, undecided(1)));
    assert_eq!(mirror.one("SELECT id FROM removed_records"), "'a,2'");
}

/// The answer without the rows of these ids, and without a cursor.
fn cut(body: &str, ids: &str) -> String {
    let mut answer: serde_json::Value = serde_json::from_str(body).unwrap();
    answer["data"].as_array_mut().unwrap().retain(|row| !ids.contains(row["id"].as_str().unwrap()));
    answer["nextCursor"] = json!(null);
    answer.to_string()
}

/// The witness is there, and the answer says that more rows are.
#[tokio::test]
async fn lookup_that_shows_fewer_rows_than_it_announces_removes_nothing() {
    for (left_out, lists) in [("c00003,c00004,c00005", 1), ("c00004,c00005", 2)] {
        let (crm, mirror) = settled(40, false).await;
        nominate(&mirror, 3..6);
        remove(&crm, 5..6);
        let fault = Fault::Rewritten(cut, left_out.into());
        crm.sandbox.faults().add(Rule::new(fault).with_param("filter[id]").forever());
        let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        let kept = 40 - mirror.count("removed_records");
        assert_eq!((report.tally.removed, kept, lookups(&crm)), (0, 40, lists), "{left_out}");
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!((report.tally.removed, mirror.count("doubts WHERE why = 'missed'")), (1, 0), "{left_out}");
        mirror.assert_exact_lists(&crm);
    }
}

/// The cursor behind the last row leads nowhere.
#[tokio::test]
async fn lookup_that_shows_all_rows_that_it_announces_is_whole_on_however_many_pages() {
    let (crm, mirror) = settled(40, false).await;
    nominate(&mirror, 3..6);
    remove(&crm, 3..6);
    crm.sandbox.faults().add(Rule::new(Fault::EmptyPageWithCursor).with_param("filter[id]"));
    let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!((report.tally.removed, report.warnings, lookups(&crm)), (3, vec![], 2));
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0);
}

#[tokio::test]
async fn lookup_goes_on_without_a_count_where_the_service_makes_none() {
    for (fault, lists) in [(Fault::Status(503), 2), (Fault::Status(400), 4), (Fault::NoTotal, 1)] {
        let (crm, mirror) = impatient(40).await;
        nominate(&mirror, 3..5);
        remove(&crm, 3..5);
        crm.sandbox.faults().add(Rule::new(fault.clone()).with_param("count").forever());
        // The total between audits is not due.
        for removed in [0, 2] {
            crm.sandbox.clear_log();
            let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
            let asked = (report.outcome, report.tally.removed, lookups(&crm));
            assert_eq!(asked, (RunOutcome::Done, removed, lists), "{fault:?}: at a second moment");
            crm.wait(1_200);
        }
        mirror.assert_exact_lists(&crm);
    }
}
