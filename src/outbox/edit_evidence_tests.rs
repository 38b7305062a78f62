//! Which answer is evidence that a request was carried out.

use serde_json::json;

use super::tests::{FIRST, send};
use super::*;
use crate::model::RecordId;
use crate::outbox::edit_fixture::{self as fixture, CONTACT, rules};

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
            let answer = fixture::answered(&text, None);
            let decoded = answer.record(CONTACT, &record, &tx.layout()).ok();
            edits.shows(&request, decoded.as_ref(), status)
        });
        assert_eq!(shown.await, shows, "{status} {answer}");
    }
}
