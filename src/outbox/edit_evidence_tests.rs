//! What counts as evidence that a request was carried out: its answer, and values that the mirror saw.

use serde_json::json;

use super::tests::{FIRST, send};
use super::*;
use crate::api::DetailAnswer;
use crate::model::RecordId;
use crate::outbox::edit_fixture::{self as fixture, CONTACT, rules, show};
use crate::store::MirrorTx;

/// Stores versions of the contact with these positions.
fn positions(tx: &MirrorTx<'_>, versions: &[(&str, &str)]) {
    for (etag, position) in versions {
        show(tx, &json!({ "id": "c", "etag": etag, "position": position, "language": "A", "notes": "A" }));
    }
}

#[tokio::test]
async fn values_that_the_mirror_saw_settle_a_doubt() {
    for (between, state, why) in [("B", EditState::Applied, trail::FOUND), ("C", EditState::Conflict, trail::UNCERTAIN)]
    {
        let last = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (mut edits, request) = send(tx, &record, &rules, FIRST);
            tx.edits().give_up_request(&[request.carrier], true).unwrap();
            positions(tx, &[("\"v2\"", between), ("\"v3\"", "A")]);
            edits.was_read_back(request.carrier).unwrap();
            fixture::ended(tx, 1)
        });
        assert_eq!(last.await, (state, why.to_string()), "{between}");
    }
}

/// The clock may have been set back: entries from before the request have the same times as it, or later ones.
#[tokio::test]
async fn values_that_the_mirror_saw_before_the_request_settle_nothing() {
    const SHOWN: &[(&str, &str)] = &[("\"v2\"", "B"), ("\"v3\"", "A")];
    const RETURNED: &[(&str, &str)] = &[("\"v2\"", "B"), ("\"v1\"", "A"), ("\"v4\"", "C"), ("\"v1\"", "A")];
    for before in [SHOWN, RETURNED] {
        let last = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            positions(tx, before);
            let (mut edits, request) = send(tx, &record, &rules, FIRST);
            tx.edits().give_up_request(&[request.carrier], true).unwrap();
            positions(tx, &[("\"v5\"", "C"), ("\"v6\"", "A")]);
            edits.was_read_back(request.carrier).unwrap();
            fixture::ended(tx, 1)
        });
        assert_eq!(last.await, (EditState::Conflict, trail::UNCERTAIN.to_string()), "{before:?}");
    }
}

/// Values of different moments, which others may have written, are no evidence of one request with all of them.
#[tokio::test]
async fn values_count_only_if_the_mirror_saw_them_together() {
    for (versions, expected) in [(&[("B", "A"), ("A", "B")][..], false), (&[("B", "A"), ("B", "B"), ("C", "C")], true)]
    {
        let saw = fixture::on_mirror(move |tx| {
            for (number, (position, language)) in std::iter::once(&("A", "A")).chain(versions).enumerate() {
                let etag = format!("\"v{}\"", number + 1);
                show(tx, &json!({ "id": "c", "etag": etag, "position": position, "language": language, "notes": "A" }));
            }
            let is_value = |column: &str, new: &Value| ["position", "language"].contains(&column) && new == "B";
            tx.edits().saw_values(CONTACT, &RecordId::new("c"), &Etag::from("\"v1\""), is_value, 2).unwrap()
        });
        assert_eq!(saw.await, expected, "{versions:?}");
    }
}

/// A success counts only with this record, in a new version, and with every value that was sent.
#[tokio::test]
async fn a_success_is_evidence_only_if_it_shows_the_update() {
    let body = |data: Value| json!({ "data": data }).to_string();
    for (status, answer, shows) in [
        (200, body(json!({ "id": "c", "etag": "\"v2\"", "position": "B" })), true),
        (202, body(json!({ "id": "c", "etag": "\"v2\"", "position": "B" })), false),
        (200, body(json!({ "id": "c", "etag": "\"v1\"", "position": "B" })), false),
        (200, body(json!({ "id": "c", "position": "B" })), false),
        (200, body(json!({ "id": "c", "etag": null, "position": "B" })), false),
        (200, body(json!({ "id": "c", "etag": "\"v2\"", "position": "A" })), false),
        (200, body(json!({ "id": "c", "etag": "\"v2\"", "position": null })), false),
        (200, body(json!({ "id": "c", "etag": "\"v2\"", "position": ["B"] })), false),
        (200, body(json!({ "id": "c", "etag": "\"v2\"" })), false),
        (200, body(json!({ "id": "d", "etag": "\"v2\"", "position": "B" })), false),
        (200, body(json!(null)), false),
        (200, body(json!([])), false),
        (200, "{}".into(), false),
        (200, "null".into(), false),
        (200, r#"{"error":"Bad Request","message":"no","code":400}"#.into(), false),
    ] {
        let text = answer.clone();
        let shown = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (edits, request) = send(tx, &record, &rules, FIRST);
            let answer = DetailAnswer { body: text.into(), etag: None, asked: fixture::stamp() };
            let decoded = answer.record(CONTACT, &record, &tx.layout()).ok();
            edits.shows(&request, decoded.as_ref(), status)
        });
        assert_eq!(shown.await, shows, "{status} {answer}");
    }
}
