//! Records whose version no answer shows: a detail that is to be read again is of no version, and not of theirs.

use crate::doubts::apply;
use crate::evidence::{contacts_only, settled};
use crate::support::{Mirror, bodies};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{LoggedRequest, Route, Rule};
use crm_mirror::store::{Applied, StoreError, ViewOptions, write_beside};
use crm_mirror::sync::Job;
use serde_json::json;

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
    let shows = |at: &str| format!(r#","updatedAt":"2026-03-04T11:00:{at}Z""#);
    for (of_list, of_detail) in
        [("00.123", shows("00.123")), ("00", shows("00")), ("00.123", shows("00")), ("00", String::new())]
    {
        let mirror = Mirror::empty();
        let list = format!(r#"{{"id":"a","name":"Ann","etag":"\"1\""{}}}"#, shows(of_list));
        apply(&mirror.path, false, &list).await;
        for _ in 0..2 {
            apply(&mirror.path, true, &format!(r#"{{"id":"a","name":"Ann","notes":"n"{of_detail}}}"#)).await;
            assert_eq!(mirror.one("SELECT details_current FROM contacts_full"), "1", "{of_list} {of_detail}");
        }
        apply(&mirror.path, true, &format!(r#"{{"id":"a","notes":"m"{}}}"#, shows("07"))).await;
        assert_eq!(mirror.one("SELECT details_current FROM contacts_full"), "0", "a later version is another one");
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

/// Only details show etags: what a list leaves out makes no detail due, but a time that moves does.
#[tokio::test]
async fn list_without_an_etag_makes_no_detail_due() {
    let mirror = Mirror::empty();
    let current = || mirror.one("SELECT details_current FROM contacts_full");
    let list = |at: &str| format!(r#"{{"id":"a","name":"Ann","etag":null,"updatedAt":"2026-03-04T11:00:{at}Z"}}"#);
    apply(&mirror.path, false, &list("00")).await;
    let detail = r#"{"id":"a","name":"Ann","etag":"1","notes":"n","updatedAt":"2026-03-04T11:00:00.123Z"}"#;
    apply(&mirror.path, true, detail).await;
    for at in ["00", "00.123"] {
        assert_eq!(apply(&mirror.path, false, &list(at)).await, Applied::Unchanged);
        assert_eq!(current(), "1", "{at}");
    }
    apply(&mirror.path, false, &list("09")).await;
    assert_eq!(current(), "0");
}
