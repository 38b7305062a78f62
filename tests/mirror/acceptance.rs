//! Another workspace that a person accepts: wherever the acceptance is interrupted, the mirror ends as that workspace, and
//! no edit reaches it that was made for a record of the one before.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object, Resource, Ru};
use crm_mirror::outbox::user_decisions::undo;
use crm_mirror::sandbox::{LoggedRequest, NewField, SCOPES, World};
use crm_mirror::store::{Reader, RunOutcome, outbox_report, write_beside};
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

fn accepting(job: Job) -> Job {
    Job { accept_workspace: true, ..job.accepting_removals() }
}

/// After how many commits a run is killed: few, as the acceptance is one of the first, and then in larger steps, others for
/// each of three mirrors.
fn kills(mirror: u64) -> impl Iterator<Item = u64> {
    [1, 2, 3, 5, 8].into_iter().chain((10 + 13 * mirror..).step_by(39))
}

/// A workspace of contacts and companies with these numbers in their ids, the first created `start` seconds before noon.
fn workspace(name: &str, numbers: std::ops::Range<u64>, start: u64) -> World {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
    world.create(Resource::TeamMembers, &json!({"id": format!("{name}-tm"), "firstName": name}));
    for n in numbers {
        world.now = noon().minus(Duration::from_secs(start - n));
        let custom = json!({"tier": name, "story": format!("{name} story")});
        let contact = json!({"id": format!("ct{n}"), "name": format!("{name} {n}"), "customFields": custom});
        world.create(Object::Contact, &contact);
        world.create(Object::Company, &json!({"id": format!("co{n}"), "name": format!("{name} {n}")}));
    }
    world.now = noon();
    world
}

/// Two workspaces that have some ids in common, with small pages.
async fn two(start_of_theirs: u64) -> (Crm, Crm) {
    let ours = Crm::serve(workspace("ours", 0..12, 10_000)).await;
    let theirs = Crm::serve(workspace("theirs", 4..16, start_of_theirs)).await;
    for crm in [&ours, &theirs] {
        crm.sandbox.configure(|settings| settings.page_cap = Some(4));
        crm.wait(600);
    }
    (ours, theirs)
}

/// Mirrors of a workspace: at rest, in the middle of a sweep, and in the middle of the first copy.
async fn mirrors(ours: &Crm) -> [(&'static str, Mirror); 3] {
    let settled = Mirror::one_at_a_time();
    settled.sync(ours).await;
    let sweeping = in_the_middle(ours, || copy(&settled), &Job::resync()).await;
    let copying = in_the_middle(ours, Mirror::one_at_a_time, &Job::sync()).await;
    assert!(copying.count("contacts") < settled.count("contacts"));
    [("at rest", settled), ("in a sweep", sweeping), ("in the first copy", copying)]
}

/// A mirror whose job ran out of budget later and later, until it had read some of the contacts but not all.
async fn in_the_middle(crm: &Crm, begin: impl Fn() -> Mirror, job: &Job) -> Mirror {
    let reading = "SELECT count(*) FROM reads WHERE object = 'contact' AND purpose = 'sweep' AND NOT done
                   AND position ->> '$.next.cursor' IS NOT NULL";
    for ru in 2.. {
        let mut mirror = begin();
        let spent = if mirror.path.exists() { mirror.ledger_total() } else { 0 };
        mirror.limits.limit = Ru::new(spent + ru);
        assert_eq!(mirror.run(crm, job).await.unwrap().outcome, RunOutcome::Suspended);
        if mirror.one(reading) == "1" {
            return mirror;
        }
    }
    unreachable!("a job with enough budget has ended before")
}

/// A mirror with the contents of another one.
fn copy(of: &Mirror) -> Mirror {
    let mirror = Mirror::one_at_a_time();
    of.read().execute("VACUUM INTO ?1", [mirror.path.to_str().unwrap()]).unwrap();
    mirror
}

#[tokio::test]
async fn accepted_workspace_replaces_the_mirror_wherever_its_run_is_interrupted() {
    // The records of the other workspace are newer, or older.
    for (start_of_theirs, job) in [(9_000, Job::sync()), (1_000_000, Job::resync())] {
        let (ours, theirs) = two(start_of_theirs).await;
        let job = accepting(job);
        for (number, (name, before)) in (0..).zip(mirrors(&ours).await) {
            let mut replaced = 0;
            for commits in kills(number) {
                let mirror = copy(&before);
                let ended = mirror.run_killed_after(&theirs, &job, Some(commits)).await;
                let context = format!("{name}, {}, killed after {commits}", job.name());
                // What the daemon does from then on: no person asks for a sweep.
                let mut accepted = true;
                for _ in 0..2 {
                    theirs.wait(600);
                    match mirror.run(&theirs, &Job::sync().accepting_removals()).await {
                        Ok(report) => assert_eq!(report.outcome, RunOutcome::Done, "{context}"),
                        Err(SyncError::OtherWorkspace { .. } | SyncError::NotRecognised { .. }) => accepted = false,
                        Err(error) => panic!("{context}: {error:?}"),
                    }
                }
                if accepted {
                    replaced += 1;
                    assert_eq!(mirror.differences(&theirs), Vec::<String>::new(), "{context}");
                } else {
                    let of_theirs = mirror.one("SELECT count(*) FROM contacts WHERE name LIKE 'theirs%'");
                    assert_eq!(of_theirs, "0", "{context}");
                }
                if ended.is_ok() {
                    break;
                }
            }
            assert!(replaced > 4, "{name}: {replaced}");
        }
    }
}

#[tokio::test]
async fn details_are_read_again_even_if_the_other_record_has_the_same_version() {
    let (ours, theirs) = two(9_000).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&ours).await;
    let known = ours.sandbox.with_world(|world| world.detail_json(Object::Contact, "ct9").unwrap());
    theirs.sandbox.with_world(|world| {
        let same = json!({"etag": known["etag"], "updatedAt": known["updatedAt"], "name": known["name"]});
        world.edit_silently(Object::Contact, "ct9", &same);
        assert_eq!(world.etag(Object::Contact, "ct9").as_deref(), known["etag"].as_str());
    });
    mirror.run(&theirs, &accepting(Job::sync())).await.unwrap();
    assert_eq!(mirror.one("SELECT cf_story FROM contacts_full WHERE id = 'ct9'"), "'theirs story'");
    mirror.assert_exact(&theirs);
    // The first changes walk begins where the copy began; after it, what was copied is no change any more.
    theirs.wait(600);
    mirror.sync(&theirs).await;
    theirs.wait(600);
    theirs.sandbox.clear_log();
    mirror.sync(&theirs).await;
    assert_eq!(theirs.charged(), 2);
}

#[tokio::test]
async fn rows_with_a_newer_version_are_replaced_by_the_first_answer() {
    for omits in [false, true] {
        let (ours, theirs) = two(9_000).await;
        if omits {
            theirs.sandbox.with_world(|world| {
                world.lists_omit_nulls = true;
                world.edit_silently(Object::Contact, "ct9", &json!({"customFields": {"tier": null}}));
            });
        }
        let edit = json!({"position": "ours", "email": "ours@example.com", "customFields": {"tier": "gold"}});
        ours.sandbox.with_world(|world| world.edit(Object::Contact, "ct9", &edit));
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.sync(&ours).await;
        let version = |of: &str| mirror.one(&format!("SELECT {of}(updated_at) FROM contacts WHERE id = 'ct9'"));
        let newer = version("max");
        mirror.run(&theirs, &accepting(Job::sync())).await.unwrap();
        assert!(version("max") < newer);
        mirror.assert_exact_lists(&theirs);
        // With others it is looked up to recognise the workspace.
        let looked_up = |entry: &&LoggedRequest| entry.asked.param("filter[id][in]") == Some("ct9");
        assert_eq!(theirs.sandbox.log().entries().iter().filter(looked_up).count(), 0);
        assert_eq!(mirror.count("contacts WHERE synced_at < '1971'"), 0);
        // Nothing is left to be looked up.
        theirs.wait(600);
        mirror.sync(&theirs).await;
        theirs.wait(600);
        theirs.sandbox.clear_log();
        mirror.sync(&theirs).await;
        assert_eq!(theirs.charged(), 2);
    }
}

#[tokio::test]
async fn edit_that_was_applied_in_the_workspace_before_cannot_be_undone_in_the_accepted_one() {
    let (ours, theirs) = two(9_000).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&ours).await;
    edit_and_sync(&mirror, &ours, "ct9").await;
    assert_eq!(mirror.one("SELECT id || state FROM outbox"), "'1applied'");
    mirror.run(&theirs, &accepting(Job::sync())).await.unwrap();
    edit_and_sync(&mirror, &theirs, "ct10").await;
    let applied = outbox_report::applied_since(&Reader::open(&mirror.path).unwrap().begin().unwrap(), noon()).unwrap();
    assert_eq!(applied, [2]);
    let refused = write_beside(&mirror.path, |tx| undo(tx, &[1], noon())).unwrap_err().to_string();
    let why = "edit 1 was applied in the workspace before the accepted one: it cannot be undone in this one";
    assert_eq!(refused, why);
    assert_eq!(write_beside(&mirror.path, |tx| undo(tx, &[2], noon())).unwrap().len(), 1);
}

async fn edit_and_sync(mirror: &Mirror, crm: &Crm, id: &str) {
    let edit = format!("UPDATE contacts_full SET position = 'CEO' WHERE id = '{id}'");
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&edit).unwrap();
    crm.wait(600);
    mirror.sync(crm).await;
}

#[tokio::test]
async fn workspace_that_is_accepted_although_it_is_the_same_is_mirrored_as_before() {
    let (ours, _) = two(9_000).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&ours).await;
    ours.sandbox.revoke_key(&ours.key);
    ours.sandbox.set_key("crm_test_v1_next", &SCOPES);
    mirror.key = Some("crm_test_v1_next".into());
    let before = mirror.count("changes");
    mirror.run(&ours, &accepting(Job::sync())).await.unwrap();
    assert_eq!((mirror.count("contacts WHERE synced_at < '1971'"), mirror.count("changes")), (0, before));
    edit_and_sync(&mirror, &ours, "ct9").await;
    assert_eq!(mirror.one("SELECT state FROM outbox"), "'applied'");
    mirror.assert_exact(&ours);
}

/// Only the last of many short lists of ids names the record that is left.
#[tokio::test]
async fn every_part_of_the_sample_is_looked_for_where_lists_of_ids_are_short() {
    let mut world = World::new(noon());
    let id = |n: u64| format!("contact-with-a-long-identifier-{n:03}");
    for n in 0..40 {
        world.now = noon().minus(Duration::from_secs(1_000 - n));
        world.create(Object::Contact, &json!({"id": id(n)}));
    }
    let ours = Crm::serve(world).await;
    ours.sandbox.configure(|settings| settings.limits_whole_lists = true);
    let mut mirror = Mirror::one_at_a_time();
    mirror.sync(&ours).await;
    ours.sandbox.with_world(|world| (1..40).for_each(|n| _ = world.remove(Object::Contact, &id(n))));
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.run(&ours, &Job::sync().accepting_removals()).await.unwrap();
}
