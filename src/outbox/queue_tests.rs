//! What is checked before an edit is queued or proposed, and on which version it is made.

use serde_json::json;

use super::*;
use crate::outbox::edit_fixture::{
    CONTACT, contact, edit_of, ended, insert_row_without_fields, list, mirror, now, on_mirror, open, show, step,
};

fn request(columns: &[(&str, &str)]) -> EditRequest {
    let changes = columns.iter().map(|(column, value)| ((*column).to_string(), Given::Text((*value).into())));
    EditRequest { object: CONTACT, record: contact(), changes: changes.collect() }
}

#[tokio::test]
async fn edit_has_the_version_in_which_its_values_were_seen_or_none() {
    on_mirror(|tx| {
        list(tx, "\"v2\"", "A");
        for (columns, base) in [
            (&[("position", "B")][..], Some("\"v2\"")),
            (&[("notes", "B")], None),
            (&[("position", "B"), ("notes", "B")], None),
            (&[("position", "B"), ("notes", "A")], Some("\"v2\"")),
        ] {
            let prepared = prepare(tx, &request(columns)).unwrap();
            assert_eq!(prepared.base_etag, base.map(Etag::new), "{columns:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn prepared_edit_shows_the_changes_and_the_body_of_its_request() {
    let prepared = on_mirror(|tx| prepare(tx, &request(&[("position", "B"), ("language", "A")])).unwrap());
    let prepared = prepared.await;
    assert_eq!(prepared.fields, EditedFields::from([("position".to_string(), (json!("A"), json!("B")))]));
    assert_eq!(Value::from(prepared.body), json!({ "position": "B" }));
    assert!(prepared.taken_back.is_empty());
}

#[tokio::test]
async fn column_that_does_not_exist_or_is_given_twice_is_refused() {
    on_mirror(|tx| {
        let refused = prepare(tx, &request(&[("positon", "B")])).unwrap_err();
        assert_eq!(refused.to_string(), "`positon` is not a column of contacts_full");
        let refused = prepare(tx, &request(&[("language", "C"), ("position", "B"), ("position", "C")]));
        assert_eq!(refused.unwrap_err().to_string(), "`position` is given twice");
    })
    .await;
}

const WAITING: &str = "the contact `c` has pending edits: a person must send, release or drop them first";

fn proposed(tx: &MirrorTx<'_>, column: &str, value: &str) -> Result<Option<i64>, StoreError> {
    let changes = vec![(column.to_string(), Given::Text(value.into()))];
    let request = EditRequest { object: CONTACT, record: contact(), changes };
    propose(tx, &request, now()).map(|queued| queued.edit)
}

#[tokio::test]
async fn proposal_is_held_and_the_next_one_waits_for_it() {
    on_mirror(|tx| {
        assert_eq!(proposed(tx, "position", "A").unwrap(), None, "it changes nothing");
        assert_eq!(proposed(tx, "position", "B").unwrap(), Some(1));
        let (state, why) = ended(tx, 1);
        assert_eq!(state, EditState::Held);
        assert!(why.contains("until a person releases it"), "{why}");
        let refused = proposed(tx, "language", "B").unwrap_err();
        assert_eq!(refused.to_string(), WAITING);
        assert_eq!(open(tx).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn proposal_is_no_new_edit_until_it_is_released_by_its_id() {
    use crate::outbox::user_decisions::{Decision, decide, decide_all};
    on_mirror(|tx| {
        proposed(tx, "position", "B").unwrap();
        assert!(!tx.holds_new_edits(now(), 0).unwrap(), "it holds no other edit");
        assert_eq!(decide_all(tx, &[1], Decision::Release, now()).unwrap(), []);
        decide(tx, 1, Decision::Release, now()).unwrap();
        assert!(tx.holds_new_edits(now(), 0).unwrap());
    })
    .await;
}

#[tokio::test]
async fn finished_edits_and_those_of_other_records_do_not_prevent_a_proposal() {
    on_mirror(|tx| {
        show(tx, &json!({ "id": "d", "etag": "\"v1\"", "position": "A" }));
        step(tx, edit_of(tx, "position", "B"), EditState::Queued, EditState::Dropped);
        let other = EditRequest {
            object: CONTACT,
            record: RecordId::new("d"),
            changes: vec![("position".to_string(), Given::Text("B".into()))],
        };
        propose(tx, &other, now()).unwrap();
        assert_eq!(proposed(tx, "position", "B").unwrap(), Some(3));
    })
    .await;
}

#[tokio::test]
async fn proposal_waits_for_a_row_that_is_no_edit() {
    let (dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A" })).await;
    insert_row_without_fields(&dir.path().join("mirror.db"));
    let refused = store.write(|tx| Ok(proposed(tx, "position", "B"))).await.unwrap();
    assert_eq!(refused.unwrap_err().to_string(), WAITING);
}
