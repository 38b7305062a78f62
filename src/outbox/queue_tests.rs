//! What is checked before an edit is queued, and on which version it is made.

use serde_json::json;

use super::*;
use crate::outbox::edit_fixture::{CONTACT, contact, list, on_mirror};

fn request(columns: &[(&str, &str)], if_match: Option<&str>) -> EditRequest {
    let changes = columns.iter().map(|(column, value)| ((*column).to_string(), Given::Text((*value).into())));
    EditRequest { object: CONTACT, record: contact(), changes: changes.collect(), if_match: if_match.map(Etag::new) }
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
            let prepared = prepare(tx, &request(columns, None)).unwrap();
            assert_eq!(prepared.base_etag, base.map(Etag::new), "{columns:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn prepared_edit_shows_the_changes_and_the_body_of_its_request() {
    let prepared = on_mirror(|tx| prepare(tx, &request(&[("position", "B"), ("language", "A")], None)).unwrap());
    let prepared = prepared.await;
    assert_eq!(prepared.fields, EditedFields::from([("position".to_string(), (json!("A"), json!("B")))]));
    assert_eq!(Value::from(prepared.body), json!({ "position": "B" }));
    assert!(prepared.taken_back.is_empty());
}

#[tokio::test]
async fn requested_version_must_be_that_of_the_mirror() {
    on_mirror(|tx| {
        prepare(tx, &request(&[("position", "B")], Some("\"v1\""))).unwrap();
        let refused = prepare(tx, &request(&[("position", "B")], Some("\"v0\""))).unwrap_err();
        assert_eq!(refused.to_string(), "the contact has the version \"v1\" in the mirror, not \"v0\"");
    })
    .await;
}

#[tokio::test]
async fn column_that_does_not_exist_or_is_given_twice_is_refused() {
    on_mirror(|tx| {
        let refused = prepare(tx, &request(&[("positon", "B")], None)).unwrap_err();
        let QueueError::NoColumn { column, editable, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(column, "positon");
        assert!(editable.contains(&"position".to_string()) && !editable.contains(&"id".to_string()), "{editable:?}");
        let refused = prepare(tx, &request(&[("language", "C"), ("position", "B"), ("position", "C")], None));
        assert!(matches!(&refused, Err(QueueError::Twice(column)) if column == "position"), "{refused:?}");
    })
    .await;
}
