//! Records whose version no answer shows: a detail that is to be read again is of no version, and not of theirs.

use crate::doubts::apply;
use crate::evidence::{contacts_only, settled};
use crate::support::Mirror;
use crm_mirror::model::Object;
use crm_mirror::store::{StoreError, ViewOptions, write_beside};
use crm_mirror::sync::Job;
use serde_json::json;

/// Every answer has null in place of its etag.
#[tokio::test]
async fn detail_of_a_record_without_an_etag_is_read_again() {
    let (crm, mut mirror) = settled(60, true).await;
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, "c00003", "etag", "null"));
    mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
    crm.wait(600);
    let notes = |mirror: &Mirror| mirror.one("SELECT notes FROM contacts_full WHERE id = 'c00003' AND details_current");
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00003", &json!({ "notes": "Later" })));
    mirror.sync(&crm).await;
    assert_eq!(notes(&mirror), "'Later'");
    for exclude in [vec!["contacts.notes".to_string()], Vec::new()] {
        mirror.views = Some(ViewOptions { exclude, ..ViewOptions::default() });
        mirror.sync(&crm).await;
        crm.wait(600);
    }
    assert_eq!(notes(&mirror), "'Later'");
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0);
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
