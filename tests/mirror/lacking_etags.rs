//! Records whose version no answer shows, for it has no etag or no date: a detail that is to be read again is of no version, and
//! not of theirs.

use std::time::Duration;

use crate::doubts::apply;
use crate::evidence::{contacts_only, settled};
use crate::support::{Mirror, bodies};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, Route, Rule};
use crm_mirror::store::{RunOutcome, StoreError, ViewOptions, write_beside};
use crm_mirror::sync::Job;
use serde_json::json;

const QUARTER: u64 = 900;

/// Every answer has null in place of its etag, or an empty one, which names no version either.
#[tokio::test]
async fn detail_of_a_record_without_an_etag_is_read_again() {
    for etag in ["null", "\"\""] {
        let (crm, mut mirror) = settled(60, true).await;
        crm.sandbox.with_world(|world| world.set_raw(Object::Contact, "c00003", "etag", etag));
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        crm.wait(600);
        let notes =
            |mirror: &Mirror| mirror.one("SELECT notes FROM contacts_full WHERE id = 'c00003' AND details_current");
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00003", &json!({ "notes": "Later" })));
        mirror.sync(&crm).await;
        assert_eq!(notes(&mirror), "'Later'", "{etag}");
        for exclude in [vec!["contacts.notes".to_string()], Vec::new()] {
            mirror.views = Some(ViewOptions { exclude, ..ViewOptions::default() });
            mirror.sync(&crm).await;
            crm.wait(600);
        }
        assert_eq!(notes(&mirror), "'Later'", "{etag}");
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert_eq!(crm.sandbox.log().details(Object::Contact), 0, "{etag}");
        // A list that says too little about it.
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00003", &json!({"location": {"city": "Bonn"}})));
        mirror.sync(&crm).await;
        crm.wait(600);
        crm.sandbox.clear_log();
        crm.sandbox.faults().add(Rule::new(bodies::groups("null")).on(Resource::Contacts).lists().forever());
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        let log = crm.sandbox.log();
        let is_read = |entry: &LoggedRequest| entry.asked.route == Route::One(Object::Contact, "c00003".into());
        assert!(log.entries().iter().any(is_read), "{etag}");
    }
}

/// A list shows the version, and a detail of the same moment none: it is of that version.
#[tokio::test]
async fn detail_without_an_etag_is_of_the_version_of_its_moment() {
    let mirror = Mirror::empty();
    let of_list = r#"{"id":"a","name":"Ann","etag":"\"1\"","updatedAt":"2026-03-04T11:00:00.123Z"}"#;
    apply(&mirror.path, false, of_list).await;
    for _ in 0..2 {
        apply(&mirror.path, true, r#"{"id":"a","name":"Ann","notes":"n","updatedAt":"2026-03-04T11:00:00.123Z"}"#)
            .await;
        assert_eq!(mirror.one("SELECT details_current FROM contacts_full"), "1");
    }
}

/// Neither a list nor a detail contains an etag, and no header has it.
#[tokio::test]
async fn detail_that_contains_no_etag_is_read_once_when_it_is_due() {
    let mirror = Mirror::empty();
    let current = || mirror.one("SELECT details_current FROM contacts_full");
    apply(&mirror.path, false, r#"{"id":"a","name":"Ann"}"#).await;
    for _ in 0..2 {
        apply(&mirror.path, true, r#"{"id":"a","name":"Ann","notes":"n"}"#).await;
        assert_eq!(current(), "1");
        write_beside::<_, StoreError>(&mirror.path, |tx| tx.knowledge().make_details_due(Object::Contact, None))
            .unwrap();
        assert_eq!(current(), "0");
    }
}

/// Lists and details have etags of their own, and the time of this record ends in a whole second by chance: so the others show.
#[tokio::test]
async fn detail_of_a_whole_second_is_of_the_version_of_its_moment_where_others_have_fractions() {
    let whole = "2026-01-02T03:04:06.000Z";
    let answer = |id: &str, etag: &str, time: &str| format!(r#"{{"id":"{id}","etag":"{etag}","updatedAt":"{time}"}}"#);
    for (other, expected) in [("2026-01-02T03:04:07.890Z", "'list'"), ("2026-01-02T03:04:07.000Z", "'detail'")] {
        let mirror = Mirror::empty();
        apply(&mirror.path, false, &answer("a", "list", whole)).await;
        apply(&mirror.path, false, &answer("b", "list", other)).await;
        apply(&mirror.path, true, &answer("a", "detail", whole)).await;
        assert_eq!(mirror.one("SELECT etag FROM contacts WHERE id = 'a'"), expected, "{other}");
        assert_eq!(mirror.one("SELECT details_current FROM contacts_full WHERE id = 'a'"), "1", "{other}");
    }
}

/// What has no date is not as old as all: the same answer at two moments removes it.
#[tokio::test]
async fn replica_that_lags_decides_nothing_about_records_without_a_date() {
    for job in [Job::audit(), Job::resync(), Job { full: true, ..Job::audit() }] {
        let (crm, mirror) = settled(60, false).await;
        crm.sandbox.with_world(|world| {
            world.create(Object::Contact, &json!({ "id": "undated", "createdAt": null, "updatedAt": null }));
        });
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        mirror.assert_exact_lists(&crm);
        crm.wait(QUARTER);
        crm.sandbox.faults().add(Rule::new(Fault::Lag(Duration::from_secs(QUARTER + 300))).forever());
        for _ in 0..2 {
            crm.wait(30);
            let report = mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
            assert_eq!((report.tally.removed, report.outcome), (0, RunOutcome::Done), "{job:?}");
            mirror.assert_exact_lists(&crm);
        }
        crm.sandbox.faults().clear();
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "undated"));
        mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
        crm.wait(QUARTER);
        mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}
