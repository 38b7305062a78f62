//! Which request a record's edits make next, and what that decision stores.

use serde_json::json;

use super::*;
use crate::outbox::edit_fixture::{
    CONTACT, after, contact, delayed, edit_of, ended, insert_row_without_fields, list, mirror, now, on_mirror, open,
    open_edit, queue_edit, requests, rules, send_now, show, step, unguarded, with_edits,
};
use crate::store::queue::{NewEdit, insert};
use EditState::{Applied, Conflict, Held, Queued, Rejected, Sending};

fn next(edits: &mut EditTx<'_, '_>) -> NextStep {
    edits.next_request(false).unwrap()
}

fn sent(next: &NextStep) -> Option<(i64, usize)> {
    match next {
        NextStep::Send(request) => Some((request.carrier, request.edits.len())),
        _ => None,
    }
}

/// The number of held edits that the push warns of, with the limit.
fn held_by(edits: &EditTx<'_, '_>) -> u64 {
    let Some(warning) = edits.found.warnings.first() else { return 0 };
    let count = warning.split(' ').next().unwrap().parse().unwrap();
    let begin = if count == 1 { "1 edit is held".to_string() } else { format!("{count} edits are held") };
    let limit = format!("more than {} new edits", edits.rules.max_edits);
    assert!(warning.starts_with(&begin) && warning.contains(&limit), "{warning}");
    count
}

#[tokio::test]
async fn edits_over_the_limit_are_held_together() {
    for (max_edits, edits, held) in [(0, 1, 1), (1, 2, 2), (2, 2, 0), (2, 3, 3)] {
        let (request, counted, states) = on_mirror(move |tx| {
            for column in ["position", "language", "notes"].into_iter().take(edits) {
                edit_of(tx, column, "B");
            }
            let (request, counted) = with_edits(tx, max_edits, |edits| (sent(&next(edits)), held_by(edits)));
            (request, counted, open(tx).iter().map(|edit| edit.state).collect::<Vec<_>>())
        })
        .await;
        let state = if held > 0 { Held } else { Sending };
        assert_eq!((counted, states), (held, vec![state; edits]), "{edits} edits of {max_edits}");
        assert_eq!(request, (held == 0).then_some((1, edits)), "{edits} edits of {max_edits}");
    }
}

#[tokio::test]
async fn released_edits_are_sent_whatever_the_limit() {
    let (request, held) = on_mirror(|tx| {
        let edit = edit_of(tx, "position", "B");
        tx.edits().mark_released(edit, now()).unwrap();
        with_edits(tx, 0, |edits| (sent(&next(edits)), held_by(edits)))
    })
    .await;
    assert_eq!((request, held), (Some((1, 1)), 0));
}

#[tokio::test]
async fn edits_sent_within_the_hour_count_as_new() {
    for (sent_at, seconds, state) in [(0, 0, Held), (0, 3599, Held), (0, 3600, Held), (0, 3601, Sending)] {
        let became = on_mirror(move |tx| {
            let first = edit_of(tx, "position", "B");
            // Whatever the wall clock shows.
            let wall = after(900_000);
            tx.edits().fix_request(&[first], "{}", &Etag::new("\"v1\""), "00ff", (wall, after(sent_at))).unwrap();
            step(tx, first, Sending, Applied);
            let second = edit_of(tx, "language", "B");
            let (record, rules) = (contact(), PushRules { steady: after(seconds), ..rules(1) });
            next(&mut EditTx::open(tx, CONTACT, &record, &rules, now()).unwrap());
            ended(tx, second).0
        });
        assert_eq!(became.await, state, "sent after {sent_at} seconds, {seconds} seconds later");
    }
}

#[tokio::test]
async fn a_row_that_is_no_edit_ends_with_its_reason() {
    let (dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A" })).await;
    insert_row_without_fields(&dir.path().join("mirror.db"));
    let found = store.write(|tx| Ok(with_edits(tx, 100, |edits| edits.found.clone()))).await.unwrap();
    assert_eq!(found.push.rejected, 1);
    let text = "Edit 1 of contact c was rejected: it changes no field; `crm-mirror outbox show 1`".to_string();
    assert_eq!(found.attention, [(1, text)]);
}

#[tokio::test]
async fn others_of_a_request_with_a_row_that_is_no_edit_are_read_back() {
    for (unreadable, carrier, member) in [(1, 2, 3), (2, 1, 3), (3, 1, 2)] {
        let (dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A", "language": "A" })).await;
        let sent = store.write(|tx| {
            let request = ["position", "language", "industry"].map(|column| edit_of(tx, column, "B"));
            send_now(tx, &request, "{}");
            let other = edit_of(tx, "timezone", "B");
            send_now(tx, &[other], "{}");
            Ok(())
        });
        sent.await.unwrap();
        unguarded(&dir.path().join("mirror.db"))
            .execute("UPDATE outbox SET fields = '{}' WHERE id = ?1", [unreadable])
            .unwrap();
        let written = store.write(move |tx| Ok((with_edits(tx, 100, next), ended(tx, unreadable).0, open(tx))));
        let (next, state, mut others) = written.await.unwrap();
        assert_eq!((next, state), (NextStep::Read(Some(carrier)), Rejected), "{unreadable} is no edit");
        assert!(others.pop().unwrap().body.is_some(), "a different request stays as it is");
        let requests: Vec<_> = others.into_iter().map(|edit| (edit.id, edit.merged_into, edit.body)).collect();
        assert_eq!(requests, [(carrier, None, None), (member, Some(carrier), None)], "{unreadable} is no edit");
    }
}

#[tokio::test]
async fn a_read_is_claimed_before_it_is_sent() {
    let (next, claimed) = on_mirror(|tx| {
        list(tx, "\"v2\"", "A");
        edit_of(tx, "notes", "B");
        (with_edits(tx, 100, next), requests(tx, DelayScope::Record))
    })
    .await;
    assert_eq!((next, claimed), (NextStep::Read(None), Some(1)));
}

#[tokio::test]
async fn later_edits_are_rebased_on_the_values_of_one_that_ended() {
    let before = on_mirror(|tx| {
        show(tx, &json!({ "id": "c", "etag": "\"v2\"", "position": "B", "language": "A" }));
        let shown = edit_of(tx, "position", "B");
        send_now(tx, &[shown], "{}");
        let held = edit_of(tx, "position", "C");
        step(tx, held, Queued, Held);
        step(tx, shown, Sending, Queued);
        assert_eq!(with_edits(tx, 100, next), NextStep::Wait);
        assert_eq!(ended(tx, shown).0, Applied);
        open_edit(tx, held).fields["position"].clone()
    });
    assert_eq!(before.await, (json!("B"), json!("C")));
}

#[tokio::test]
async fn values_that_edits_of_a_request_leave_are_no_change_by_others() {
    // The column, value before and value after of a later edit, and its value before once the earlier ones applied.
    for (column, before, settled) in [
        ("position", "A", "C"),
        ("position", "C", "C"),
        ("position", "X", "X"),
        ("notes", "A", "A"),
        ("language", "A", "B"),
    ] {
        let now_before = on_mirror(move |tx| {
            let sent = [("position", "B"), ("language", "B"), ("position", "C")].map(|(column, after)| {
                let edit = edit_of(tx, column, after);
                send_now(tx, &[edit], "{}");
                edit
            });
            let later = edit_of(tx, column, "D");
            let fields = [(column.to_string(), (json!(before), json!("D")))].into();
            tx.edits().set_edited_fields(later, &fields, None).unwrap();
            let etag = Etag::new("\"v2\"");
            with_edits(tx, 100, |edits| edits.decide_later(&open(tx), &sent, Some(&etag))).unwrap();
            for edit in sent {
                assert_eq!(open_edit(tx, edit).base_etag, Some(Etag::new("\"v1\"")), "{edit} was sent");
            }
            let later = open_edit(tx, later);
            let etag = if before == settled { "\"v1\"" } else { "\"v2\"" };
            assert_eq!(later.base_etag, Some(Etag::new(etag)), "{column} {before}");
            later.fields[column].0.clone()
        });
        assert_eq!(now_before.await, json!(settled), "{column} {before}");
    }
}

/// The later edit was made on the value that the first one would have left.
#[tokio::test]
async fn edit_that_replaces_another_is_sent_in_its_place() {
    let (request, first) = on_mirror(|tx| {
        let first = edit_of(tx, "position", "B");
        step(tx, first, Queued, Conflict);
        let later = edit_of(tx, "position", "C");
        let fields = [("position".to_string(), (json!("B"), json!("C")))].into();
        tx.edits().set_edited_fields(later, &fields, None).unwrap();
        step(tx, first, Conflict, Queued);
        (with_edits(tx, 100, |edits| sent(&next(edits))), ended(tx, first))
    })
    .await;
    assert_eq!((request, first), (Some((2, 1)), (EditState::Replaced, trail::REPLACED.to_string())));
}

#[tokio::test]
async fn a_conflict_and_a_last_status_are_those_of_the_edit_itself() {
    let (theirs, last_status) = on_mirror(|tx| {
        let held = edit_of(tx, "language", "B");
        step(tx, held, Queued, Held);
        let edit = edit_of(tx, "position", "B");
        let refused = EditStep { status: Some(409), ..EditStep::new(Queued, Held, "a test") };
        tx.edits().take_step(edit, &refused, now()).unwrap();
        step(tx, edit, Held, Queued);
        let NextStep::Send(request) = with_edits(tx, 100, next) else { panic!("there is a request") };
        step(tx, edit, Sending, Queued);
        show(tx, &json!({ "id": "c", "etag": "\"v2\"", "position": "X", "language": "A" }));
        tx.edits().end_delay(CONTACT, DelayScope::Record, &contact()).unwrap();
        assert_eq!(with_edits(tx, 100, next), NextStep::Wait);
        let (line, _) = crate::store::outbox_report::edit(tx, edit).unwrap();
        assert_eq!(line.state, Conflict);
        (line.theirs.unwrap(), request.last_status)
    })
    .await;
    assert_eq!((theirs, last_status), ([("position".to_string(), json!("X"))].into(), Some(409)));
}

/// Whatever is read later, the value before an edit is the one that its author saw.
#[tokio::test]
async fn value_that_was_not_read_is_compared_and_never_adopted() {
    for (notes, expected) in [(json!("read"), Conflict), (json!(null), Sending), (json!("B"), Applied)] {
        let ended = on_mirror(move |tx| {
            let fields = [("notes".to_string(), (crate::model::unknown_value(), json!("B")))].into();
            let record = contact();
            let edit = NewEdit {
                object: CONTACT,
                record: &record,
                source: "edit",
                fields: &fields,
                base_etag: None,
                undoes: None,
            };
            let edit = insert(tx, &edit, "a test", now()).unwrap().edit.unwrap();
            list(tx, "\"v2\"", "A");
            assert_eq!(with_edits(tx, 100, next), NextStep::Read(None));
            tx.edits().end_delay(CONTACT, DelayScope::Record, &record).unwrap();
            show(tx, &json!({ "id": "c", "etag": "\"v2\"", "position": "A", "notes": notes }));
            with_edits(tx, 100, next);
            ended(tx, edit).0
        });
        assert_eq!(ended.await, expected);
    }
}

#[tokio::test]
async fn a_record_without_a_version_is_read_before_an_edit_of_it() {
    let (_dir, store) = mirror(json!({ "id": "c", "position": "A", "notes": "A" })).await;
    let next = store.write(|tx| {
        queue_edit(tx, &[("notes", "B")], None);
        Ok(with_edits(tx, 100, next))
    });
    assert_eq!(next.await.unwrap(), NextStep::Read(None));
}

const CUSTOM: &str = r#"{"customFields":{"x":"B"}}"#;
const STANDARD: &str = r#"{"position":"B"}"#;

#[tokio::test]
async fn only_a_request_with_custom_values_waits_for_their_delay() {
    for (body, given_up, waits, expected) in [
        (CUSTOM, false, true, NextStep::Wait),
        (CUSTOM, false, false, NextStep::Read(Some(2))),
        (STANDARD, false, true, NextStep::Read(Some(2))),
        (CUSTOM, true, true, NextStep::Read(Some(2))),
    ] {
        let (next, claimed) = on_mirror(move |tx| {
            let other = edit_of(tx, "language", "B");
            step(tx, other, Queued, Held);
            let edit = edit_of(tx, "position", "B");
            send_now(tx, &[edit], body);
            if given_up {
                tx.edits().give_up_request(&[edit], true).unwrap();
            }
            delayed(tx, DelayScope::CustomFields, 1, if waits { 60 } else { -1 });
            (with_edits(tx, 100, next), requests(tx, DelayScope::Record))
        })
        .await;
        let claim = (expected != NextStep::Wait).then_some(1);
        assert_eq!((next, claimed), (expected, claim), "{body}, given up: {given_up}, waits: {waits}");
    }
}

#[tokio::test]
async fn a_repeated_request_is_claimed_like_the_first() {
    for (body, custom) in [(STANDARD, Some(1)), (CUSTOM, Some(2))] {
        let (repeated, delays, attempts) = on_mirror(move |tx| {
            let other = edit_of(tx, "language", "B");
            step(tx, other, Queued, Held);
            let edit = edit_of(tx, "position", "B");
            send_now(tx, &[edit], body);
            for scope in [DelayScope::Record, DelayScope::Object, DelayScope::CustomFields] {
                delayed(tx, scope, 1, -1);
            }
            let repeated = with_edits(tx, 100, |edits| {
                let request = edits.stored_request(&open(tx), edit).unwrap();
                edits.repeat(request).unwrap()
            });
            let delays = [DelayScope::Record, DelayScope::Object, DelayScope::CustomFields];
            let (line, _) = crate::store::outbox_report::edit(tx, edit).unwrap();
            (repeated, delays.map(|scope| requests(tx, scope)), line.attempts)
        })
        .await;
        assert_eq!((repeated.carrier, repeated.body.as_str()), (2, body));
        assert_eq!((delays, attempts), ([Some(2), Some(2), custom], 2), "{body}");
    }
}

#[tokio::test]
async fn a_request_consists_of_the_edits_that_are_being_sent() {
    let edits = on_mirror(|tx| {
        let sent = [edit_of(tx, "position", "B"), edit_of(tx, "language", "B")];
        send_now(tx, &sent, STANDARD);
        edit_of(tx, "notes", "B");
        open(tx)
    })
    .await;
    let ids = |carrier| group(&edits, carrier).iter().map(|edit| edit.id).collect::<Vec<_>>();
    assert_eq!((ids(1), ids(2), ids(3)), (vec![1, 2], vec![2], vec![]));
}

#[tokio::test]
async fn limit_itself_is_allowed() {
    for (max_edits, expected) in [(0, 2), (1, 2), (2, 0), (3, 0)] {
        let held = on_mirror(move |tx| {
            edit_of(tx, "position", "B");
            edit_of(tx, "language", "B");
            with_edits(tx, max_edits, |edits| {
                next(edits);
                held_by(edits)
            })
        });
        assert_eq!(held.await, expected, "2 of {max_edits}");
    }
}

#[test]
fn keys_are_32_digits_and_differ() {
    assert_ne!(idempotency_key(), idempotency_key());
    assert!(idempotency_key().len() == 32 && idempotency_key().bytes().all(|digit| digit.is_ascii_hexdigit()));
}

/// A service that was restored shows a version again that an edit had replaced: once the row has it, it is the row's.
#[tokio::test]
async fn version_of_the_row_is_not_taken_for_a_replaced_one() {
    let language = on_mirror(|tx| {
        let at = "2026-03-01T12:00:00Z";
        show(tx, &json!({ "id": "c", "etag": "\"v0\"", "updatedAt": "2026-03-01T11:00:00Z", "language": "A" }));
        list(tx, "\"v1\"", "A");
        tx.knowledge().answered(AnswerTime { shows: None, steady: now() });
        tx.knowledge().was_replaced(CONTACT, "c", Some("\"v1\"")).unwrap();
        show(tx, &json!({ "id": "c", "etag": "\"v1\"", "updatedAt": at, "language": "B" }));
        tx.edits().mirrored(CONTACT, &contact(), &["language"]).unwrap().unwrap().values["language"].clone()
    });
    assert_eq!(language.await, json!("B"));
}
