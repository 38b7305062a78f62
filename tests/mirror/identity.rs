//! Identity of the workspace: with a new key or address, known records are compared before anything is mirrored.
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::api::{ApiKey, ClientSettings};
use crm_mirror::app::{EngineSettings, assemble_engine};
use crm_mirror::model::{Clock, DataType, Object, Resource, Ru};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{Fault, NewField, Rule, SCOPES, World};
use crm_mirror::store::{RunOutcome, Store, write_beside};
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

/// A workspace of this many contacts and companies, created a second apart, starting `start` seconds before noon.
fn workspace(name: &str, records: u64, start: u64) -> World {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    world.create(Resource::TeamMembers, &json!({"id": format!("{name}-tm"), "firstName": name}));
    for n in 0..records {
        world.now = noon().minus(Duration::from_secs(start - n));
        world.create(
            Object::Contact,
            &json!({"id": format!("ct{n}"), "name": format!("{name} {n}"), "customFields": {"tier": name}}),
        );
        world.create(Object::Company, &json!({"id": format!("co{n}"), "name": format!("{name} {n}")}));
    }
    world
}

/// The rows of every table, except the record of an attempted run.
fn contents(mirror: &Mirror) -> Vec<String> {
    let conn = mirror.read();
    let tables: Vec<String> = conn
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'sync_runs'",
        )
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut out = Vec::new();
    for table in tables {
        let only = match table.as_str() {
            "state" => " WHERE name NOT IN ('ledger', 'history_marks', 'last_writer')",
            "doubts" => " WHERE why <> 'unrecognised'",
            _ => "",
        };
        let mut stmt = conn.prepare(&format!("SELECT * FROM {table}{only}")).unwrap();
        let count = stmt.column_count();
        let mut rows = stmt.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> = (0..count).map(|i| crate::support::truth::shown(row.get(i).unwrap())).collect();
            out.push(format!("{table}: {}", values.join("|")));
        }
    }
    out
}

/// A mirror of one workspace, and another workspace whose records have the same ids.
async fn two(records: u64) -> (Crm, Crm, Mirror) {
    let ours = Crm::serve(workspace("ours", records, 10_000)).await;
    let theirs = Crm::serve(workspace("theirs", records, 9_000)).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&ours).await;
    (ours, theirs, mirror)
}

#[tokio::test]
async fn different_workspace_is_refused_after_one_request_before_any_write() {
    for records in [3, 80] {
        let (_ours, theirs, mirror) = two(records).await;
        let before = contents(&mirror);
        for (n, job) in [Job::sync(), Job::resync(), Job::sync().of(&[Resource::TeamMembers])].into_iter().enumerate() {
            theirs.sandbox.clear_log();
            let refused = mirror.run(&theirs, &job).await.unwrap_err();
            let found = match refused {
                // Once is no evidence.
                SyncError::NotRecognised { asked, met, .. } if n == 0 => (asked as u64, met),
                SyncError::OtherWorkspace { asked, met } if n > 0 => (asked as u64, met),
                refused => panic!("{n} {refused:?}"),
            };
            assert_eq!(found, (records.min(50), 0), "the ids match, the times of creation do not");
            theirs.wait(3_600);
            assert_eq!((theirs.charged(), theirs.sandbox.log().len()), (1, 1));
            assert_eq!(contents(&mirror), before);
        }
    }
}

#[tokio::test]
async fn few_matching_records_do_not_identify_the_workspace() {
    let (ours, theirs, mirror) = two(10).await;
    for n in 0..4 {
        let created = ours
            .sandbox
            .with_world(|world| world.list_json(Resource::Contacts, &format!("ct{n}")).unwrap()["createdAt"].clone());
        theirs
            .sandbox
            .with_world(|world| world.edit(Object::Contact, &format!("ct{n}"), &json!({"createdAt": created})));
    }
    let before = contents(&mirror);
    let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::NotRecognised { asked: 10, met: 4, .. }), "{refused:?}");
    theirs.wait(3_600);
    let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::OtherWorkspace { asked: 10, met: 4 }), "{refused:?}");
    assert_eq!(contents(&mirror), before);
}

/// Another address shows the same times in whole seconds.
#[tokio::test]
async fn creation_times_in_another_precision_are_of_the_same_workspace() {
    let (ours, _theirs, mut mirror) = two(5).await;
    ours.sandbox.with_world(|world| {
        for object in Object::ALL {
            for id in world.ids(object.resource()) {
                let created = world.list_json(object.resource(), &id).unwrap()["createdAt"].clone();
                let whole = created.as_str().unwrap().replace(".000Z", ".700Z");
                world.set_raw(object, &id, "createdAt", &json!(whole).to_string());
            }
        }
    });
    mirror.run(&ours, &Job::resync()).await.unwrap();
    ours.sandbox.with_world(|world| {
        for object in Object::ALL {
            for id in world.ids(object.resource()) {
                let whole = world.list_json(object.resource(), &id).unwrap()["createdAt"].clone();
                let whole = whole.as_str().unwrap().replace(".700Z", "Z");
                world.set_raw(object, &id, "createdAt", &json!(whole).to_string());
            }
        }
    });
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.sync(&ours).await;
    assert_eq!(mirror.one("SELECT substr(created_at, 20) FROM contacts WHERE id = 'ct0'"), "'.700000Z'");
}

#[tokio::test]
async fn workspace_with_many_removed_records_is_recognised() {
    let (ours, _theirs, mut mirror) = two(10).await;
    ours.sandbox.with_world(|world| {
        for n in 0..4 {
            world.remove(Object::Contact, &format!("ct{n}"));
        }
    });
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.sync(&ours).await;
    mirror.run(&ours, &Job::resync().accepting_removals()).await.unwrap();
    mirror.assert_exact(&ours);
}

#[tokio::test]
async fn few_remaining_records_identify_the_workspace() {
    let (ours, _theirs, mut mirror) = two(50).await;
    ours.sandbox.with_world(|world| {
        for n in 0..40 {
            world.remove(Object::Contact, &format!("ct{n}"));
        }
    });
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.sync(&ours).await;
    mirror.run(&ours, &Job::resync().accepting_removals()).await.unwrap();
    mirror.assert_exact(&ours);
}

#[tokio::test]
async fn rotated_key_of_the_same_workspace_is_accepted() {
    let (ours, _theirs, mut mirror) = two(5).await;
    ours.wait(600);
    mirror.sync(&ours).await;
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    ours.sandbox.clear_log();
    mirror.sync(&ours).await;
    assert_eq!(ours.charged(), 3, "the check, and one request per object");
    ours.sandbox.clear_log();
    ours.wait(600);
    mirror.sync(&ours).await;
    assert_eq!(ours.charged(), 2, "known from now on");
    mirror.assert_exact(&ours);
}

#[tokio::test]
async fn first_run_of_an_empty_mirror_needs_no_identity_check() {
    let crm = Crm::serve(workspace("ours", 3, 100)).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    assert!(crm.sandbox.log().entries().iter().all(|entry| entry.asked.param("filter[id][in]").is_none()));
}

#[tokio::test]
async fn interrupted_walk_discards_its_cursor_when_the_key_changes() {
    let waiting = "SELECT count(*) FROM reads WHERE object = 'contact' AND purpose = 'sweep' AND NOT done
                   AND json_extract(position, '$.next.cursor') IS NOT NULL";
    for scopes in [&SCOPES[..], &["contacts:read", "companies:read", "custom-fields:read"]] {
        // Killed later and later, until a cursor is stored in the middle of the contacts.
        let mut commits = 1;
        let (ours, mut mirror) = loop {
            let ours = Crm::serve(workspace("ours", 40, 10_000)).await;
            // Pages of so few rows are followed by cursor.
            ours.sandbox.configure(|settings| settings.page_cap = Some(4));
            let mirror = Mirror::one_at_a_time();
            let killed = mirror.run_killed_after(&ours, &Job::sync(), Some(commits)).await;
            assert!(killed.is_err(), "{commits} commits were enough");
            let made = mirror.read().table_exists(None, "state").unwrap();
            if made && mirror.one(waiting) == "1" && mirror.count("contacts") > 5 {
                break (ours, mirror);
            }
            commits += 1;
        };
        mirror.key = Some(ours.sandbox.add_key(scopes));
        ours.sandbox.clear_log();
        let report = mirror.sync(&ours).await;
        assert_eq!(report.outcome, RunOutcome::Done);
        assert_eq!(ours.sandbox.log().with_status(400), 0, "the old cursor is not even tried");
        assert_eq!(mirror.count("service_oddities"), 0);
        assert_eq!(mirror.count("contacts"), 40);
        if scopes.len() == SCOPES.len() {
            mirror.assert_exact(&ours);
        }
    }
}

#[tokio::test]
async fn companies_identify_the_workspace_without_the_contacts_scope() {
    let (ours, theirs, mut mirror) = two(5).await;
    let before = contents(&mirror);
    let scopes = ["companies:read", "custom-fields:read", "team-members:read"];
    mirror.key = Some(theirs.sandbox.add_key(&scopes));
    theirs.sandbox.clear_log();
    let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::NotRecognised { asked: 5, met: 0, .. }), "{refused:?}");
    assert_eq!(theirs.charged(), 1, "a refusal for the scope costs nothing");
    assert_eq!(contents(&mirror), before);

    mirror.key = Some(ours.sandbox.add_key(&scopes));
    ours.wait(600);
    let report = mirror.sync(&ours).await;
    assert_eq!(report.missing_scopes, [(Resource::Contacts, "contacts:read")]);
    assert_eq!(mirror.count("contacts"), 5);
}

#[tokio::test]
async fn key_without_visible_records_is_not_recognised_and_changes_nothing() {
    let (_ours, theirs, mut mirror) = two(5).await;
    let before = contents(&mirror);
    mirror.key = Some(theirs.sandbox.add_key(&["custom-fields:read", "team-members:read"]));
    let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
    let SyncError::NoScope { scopes } = refused else { panic!("{refused:?}") };
    assert_eq!(scopes, "contacts:read, companies:read");
    assert_eq!(contents(&mirror), before);
}

#[tokio::test]
async fn different_workspace_replaces_the_mirror_if_accepted() {
    let (_ours, theirs, mirror) = two(5).await;
    theirs.sandbox.with_world(|world| world.remove(Object::Contact, "ct0"));
    theirs.wait(600);
    mirror.run(&theirs, &Job { accept_workspace: true, ..Job::resync().accepting_removals() }).await.unwrap();
    mirror.assert_exact(&theirs);
    theirs.wait(600);
    mirror.sync(&theirs).await;
}

#[tokio::test]
async fn new_address_of_the_same_workspace_is_recognised() {
    let (ours, _theirs, mirror) = two(5).await;
    let moved = ours.sandbox.start(0).await.unwrap();
    let store = Store::open(&mirror.path).unwrap();
    let settings = EngineSettings {
        client: ClientSettings::new(moved.base_url.parse().unwrap()),
        key: ApiKey::new(&ours.key).unwrap(),
        limits: mirror.limits,
        patience: mirror.patience,
        sync: mirror.settings,
    };
    let clock: Arc<dyn Clock> = Arc::new(ours.clock.clone());
    let (meter, engine) = assemble_engine(&store, settings, &clock, &mirror.observer).await.unwrap();
    drop(meter);
    ours.wait(600);
    ours.sandbox.clear_log();
    let report = engine.run(&Job::sync(), "test").await.unwrap();
    assert_eq!(report.outcome, RunOutcome::Done);
    let checks = ours.sandbox.log().entries().iter().filter(|e| e.asked.param("filter[id][in]").is_some()).count();
    assert_eq!(checks, 1);
    drop(engine);
    store.close().await;
    mirror.assert_exact(&ours);
}

#[tokio::test]
async fn single_empty_answer_is_not_a_different_workspace() {
    let (ours, _theirs, mut mirror) = two(5).await;
    mirror.key = Some(ours.sandbox.full_key());
    ours.sandbox.faults().add(Rule::new(Fault::EmptyList).lists().forever());
    let count = |table| mirror.count(table);
    let before = (count("contacts"), count("companies"), count("team_members"), count("changes"));
    let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::NotRecognised { asked: 10, .. }), "of both objects: {refused:?}");
    ours.wait(600);
    let refused = mirror.run(&ours, &Job::resync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::NotRecognised { .. }), "the same moment: {refused:?}");
    ours.wait(3600);
    let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
    assert!(matches!(refused, SyncError::OtherWorkspace { asked: 10, met: 0 }), "{refused:?}");
    let after = (count("contacts"), count("companies"), count("team_members"), count("changes"));
    assert_eq!(before, after);
    // It was an outage: recovery needs no intervention.
    ours.sandbox.faults().clear();
    ours.wait(600);
    mirror.sync(&ours).await;
    mirror.assert_exact(&ours);
    assert_eq!(mirror.count("doubts WHERE why = 'unrecognised'"), 0);
}

/// The only contact is gone, and the key may not read the companies, which are all there.
#[tokio::test]
async fn workspace_is_not_another_one_because_a_scope_is_missing() {
    let (ours, _theirs, mut mirror) = two(1).await;
    ours.sandbox.with_world(|world| world.remove(Object::Contact, "ct0"));
    let key = ours.sandbox.add_key(&["contacts:read", "custom-fields:read", "team-members:read"]);
    mirror.key = Some(key.clone());
    let before = (contents(&mirror), mirror.count("companies"));
    for _ in 0..3 {
        ours.wait(4_000);
        ours.sandbox.clear_log();
        let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
        assert!(matches!(&refused, SyncError::NotRecognised { asked: 1, unread, .. } if unread == &["companies:read"]));
        assert!(refused.to_string().ends_with("; the others cannot be read without companies:read"), "{refused}");
        assert_eq!((ours.charged(), &contents(&mirror)), (1, &before.0));
    }
    // Nor are these checks the first half of the evidence: with the scope, one empty answer proves nothing.
    ours.sandbox.set_key(&key, &SCOPES);
    ours.sandbox.faults().add(Rule::new(Fault::EmptyList).lists().forever());
    ours.wait(4_000);
    let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
    assert!(matches!(&refused, SyncError::NotRecognised { asked: 2, unread, .. } if unread.is_empty()), "{refused:?}");
    ours.sandbox.faults().clear();
    ours.wait(600);
    mirror.run(&ours, &Job::sync().accepting_removals()).await.unwrap();
    assert_eq!(mirror.count("companies"), before.1);
}

/// The records may be on a page that never comes.
#[tokio::test]
async fn endless_empty_pages_are_not_a_different_workspace() {
    let (ours, _theirs, mut mirror) = two(5).await;
    mirror.key = Some(ours.sandbox.full_key());
    ours.sandbox.faults().add(Rule::new(Fault::EmptyPageWithCursor).lists().forever());
    for _ in 0..3 {
        let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
        assert!(matches!(refused, SyncError::NotAdvancing { .. }), "{refused:?}");
        ours.wait(4_000);
    }
    ours.sandbox.faults().clear();
    ours.wait(600);
    mirror.sync(&ours).await;
    mirror.assert_exact(&ours);
}

/// What the first page has shown is known, whatever keeps the others from being read.
#[tokio::test]
async fn different_workspace_is_told_by_the_first_page_where_no_other_can_be_read() {
    for pays in [false, true] {
        let (_ours, theirs, mut mirror) = two(10).await;
        theirs.sandbox.configure(|settings| settings.page_cap = Some(4));
        if pays {
            theirs.sandbox.faults().add(Rule::new(Fault::Status(404)).with_param("cursor").forever());
        } else {
            mirror.limits.limit = Ru::new(1);
            theirs.wait(86_400);
        }
        let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
        assert!(matches!(refused, SyncError::NotRecognised { asked: 10, met: 0, .. }), "{refused:?}");
        theirs.wait(86_400);
        let refused = mirror.run(&theirs, &Job::sync()).await.unwrap_err();
        assert!(matches!(refused, SyncError::OtherWorkspace { asked: 10, met: 0 }), "{refused:?}");
    }
}

#[tokio::test]
async fn checks_of_one_key_are_evidence_if_they_are_an_hour_apart() {
    let (ours, _theirs, mut mirror) = two(5).await;
    ours.sandbox.faults().add(Rule::new(Fault::EmptyList).lists().forever());
    mirror.key = Some(ours.sandbox.full_key());
    mirror.run(&ours, &Job::sync()).await.unwrap_err();
    mirror.key = Some(ours.sandbox.full_key());
    for (seconds, is_evidence) in [(7200, false), (3599, false), (1, true)] {
        ours.wait(seconds);
        let refused = mirror.run(&ours, &Job::sync()).await.unwrap_err();
        assert_eq!(matches!(refused, SyncError::OtherWorkspace { .. }), is_evidence, "{seconds}: {refused:?}");
    }
}

#[tokio::test]
async fn workspace_without_its_newest_records_is_recognised_by_older_ones() {
    let (ours, _theirs, mut mirror) = two(120).await;
    ours.sandbox.with_world(|world| {
        for n in 60..120 {
            world.remove(Object::Contact, &format!("ct{n}"));
        }
    });
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.sync(&ours).await;
}

#[tokio::test]
async fn length_limit_of_id_lists_costs_only_requests() {
    let mut world = World::new(noon());
    for n in 0..40 {
        world.create(Object::Contact, &json!({"id": format!("contact-with-a-long-identifier-{n:03}")}));
    }
    let ours = Crm::serve(world).await;
    ours.sandbox.configure(|settings| settings.limits_whole_lists = true);
    let mut mirror = Mirror::one_at_a_time();
    mirror.sync(&ours).await;
    ours.sandbox.with_world(|world| {
        for n in 0..6 {
            world.remove(Object::Contact, &format!("contact-with-a-long-identifier-{:03}", n * 5));
        }
    });
    mirror.key = Some(ours.sandbox.full_key());
    ours.wait(600);
    mirror.sync(&ours).await;
    for job in [Job::resync(), Job::audit()] {
        ours.wait(600);
        assert_eq!(mirror.run(&ours, &job).await.unwrap().outcome, RunOutcome::Done);
        mirror.assert_exact(&ours);
    }
    assert_eq!(mirror.count("removed_records"), 6);
}

#[tokio::test]
async fn edits_of_one_workspace_reach_another_only_when_a_person_releases_them() {
    let (ours, theirs, mut mirror) = two(5).await;
    mirror.settings.write_back = true;
    mirror.sync(&ours).await;
    let edit = |sql: &str| rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(sql).unwrap();
    let states = || mirror.one("SELECT group_concat(record_id || ' ' || state, ', ' ORDER BY id) FROM outbox");
    let release = |id: i64| {
        let now = theirs.clock.now();
        write_beside(&mirror.path, |tx| user_decisions::decide(tx, id, Decision::Release, now).map(drop)).unwrap();
    };
    // One edit is being sent, one waits after a release, two were never sent. No position has a value in either workspace.
    edit("UPDATE contacts_full SET position = 'CEO' WHERE id = 'ct0'");
    ours.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    mirror.run(&ours, &Job::push()).await.unwrap();
    edit(
        "UPDATE contacts_full SET position = 'CFO' WHERE id = 'ct1';
         UPDATE contacts_full SET cf_tier = 'gold' WHERE id = 'ct2';
         UPDATE companies_full SET industry = 'a' WHERE id = 'co3'",
    );
    crate::outbox_bench::by_hand(&mirror, "UPDATE outbox SET released_at = queued_at WHERE record_id = 'ct1'");
    assert_eq!(states(), "'ct0 sending, ct1 queued, ct2 queued, co3 queued'");
    theirs.wait(600);
    let accept = Job { accept_workspace: true, ..Job::resync().accepting_removals() };
    assert_eq!(mirror.forecast(&theirs, &accept).await.objects.len(), 2, "an estimate accepts nothing");
    for _ in 0..2 {
        let refused = mirror.run(&theirs, &Job::push()).await.unwrap_err();
        assert!(matches!(refused, SyncError::OtherWorkspace { .. } | SyncError::NotRecognised { .. }), "{refused:?}");
        theirs.wait(3_600);
    }
    theirs.sandbox.set_key(&theirs.key, &["contacts:write", "companies:write"]);
    let refused = mirror.run(&theirs, &Job::push()).await.unwrap_err();
    assert!(matches!(refused, SyncError::NoScope { .. }), "it has shown another workspace: {refused:?}");
    theirs.sandbox.set_key(&theirs.key, &SCOPES);
    assert_eq!(states(), "'ct0 sending, ct1 queued, ct2 queued, co3 queued'", "the person may have used a wrong key");

    let report = mirror.run(&theirs, &accept).await.unwrap();
    assert!(report.warnings.iter().any(|w| w.contains("4 edits are held")), "{:?}", report.warnings);
    for _ in 0..2 {
        theirs.wait(90_000);
        mirror.sync(&theirs).await;
    }
    assert_eq!(states(), "'ct0 held, ct1 held, ct2 held, co3 held'");
    let patches = || theirs.sandbox.log().entries().iter().filter(|e| e.asked.method == "PATCH").count();
    assert_eq!(patches(), 0);
    mirror.assert_exact(&theirs);
    let why = mirror.one("SELECT group_concat(why, '|' ORDER BY id) FROM outbox_events WHERE to_state = 'held'");
    let first = "held because another workspace was accepted: the edit was made before";
    assert_eq!(why.split('|').filter(|why| why.contains(first)).count(), 4, "{why}");
    assert_eq!(why.matches("may have been applied before").count(), 1, "{why}");

    // What a person releases is sent, once, unless the field has another value there; the same acceptance holds nothing again.
    release(1);
    release(3);
    theirs.wait(600);
    mirror.run(&theirs, &accept).await.unwrap();
    assert_eq!(states(), "'ct0 applied, ct1 held, ct2 conflict, co3 held'");
    let position = |id| theirs.sandbox.world().detail_json(Object::Contact, id).unwrap()["position"].clone();
    assert_eq!((position("ct0"), position("ct1")), (json!("CEO"), json!(null)));
}
