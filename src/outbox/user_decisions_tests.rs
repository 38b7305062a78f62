//! What each decision of a person does to an edit and to those beside it.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::model::{DelayScope, Etag, RetryDelay};
use crate::outbox::edit_fixture::{
    CONTACT, after, contact, delayed, edit_of, ended, list, now, on_mirror, open, open_edit, queue_edit, send_now,
    show, step, with_edits,
};
use crate::outbox::edit_tx::NextStep;
use crate::store::delays::OutboxOutlook;
use EditState::{Applied, Conflict, Dropped, Held, Queued, Rejected, Sending};

fn fields(values: &[(&str, Value, Value)]) -> EditedFields {
    values.iter().map(|(column, before, after)| ((*column).to_string(), (before.clone(), after.clone()))).collect()
}

#[tokio::test]
async fn retry_ends_the_delay_of_an_edit_that_waits() {
    for sending in [false, true] {
        let (delay, decided) = on_mirror(move |tx| {
            let edit = edit_of(tx, "position", "B");
            if sending {
                send_now(tx, &[edit], "{}");
            }
            delayed(tx, DelayScope::Record, 4, 3600);
            let decided = decide(tx, edit, Decision::Retry, after(1)).unwrap();
            (tx.edits().delay(CONTACT, DelayScope::Record, &contact()).unwrap(), decided)
        })
        .await;
        let last_at = now().minus(Duration::from_secs(60));
        assert_eq!(delay, Some(RetryDelay { requests: 4, recent: 0, last_at, not_before: after(1) }));
        assert_eq!(decided.state, if sending { Sending } else { Queued });
        assert_eq!(decided.fields, fields(&[("position", json!("A"), json!("B"))]));
    }
}

#[tokio::test]
async fn edit_waits_for_custom_fields_if_it_changes_one() {
    for (column, value, ends) in [("position", "cf_x", 0), ("cf_x", "B", 1)] {
        let waiting = on_mirror(move |tx| {
            edit_of(tx, column, value);
            delayed(tx, DelayScope::CustomFields, 1, 3600);
            OutboxOutlook::read(tx).unwrap().waiting
        });
        assert_eq!(waiting.await.iter().map(Vec::len).collect::<Vec<_>>(), [ends], "{column}");
    }
}

#[tokio::test]
async fn dropping_one_edit_of_a_request_leaves_its_others_in_doubt() {
    for (dropped, carrier, member) in [(1, 2, 3), (2, 1, 3), (3, 1, 2)] {
        let (others, other_request) = on_mirror(move |tx| {
            let request = ["position", "language", "notes"].map(|column| edit_of(tx, column, "B"));
            send_now(tx, &request, "{}");
            let other = edit_of(tx, "cf_other", "B");
            send_now(tx, &[other], "{}");
            let decided = decide(tx, dropped, Decision::Drop, now()).unwrap();
            assert_eq!((decided.state, decided.in_doubt), (Dropped, true));
            assert!(ended(tx, dropped).1.contains("may have been applied"));
            let mut edits = open(tx);
            let other_request = edits.pop().unwrap();
            (edits, other_request)
        })
        .await;
        let merged: Vec<(i64, Option<i64>)> = others.iter().map(|edit| (edit.id, edit.merged_into)).collect();
        assert_eq!(merged, [(carrier, None), (member, Some(carrier))], "{dropped} is dropped");
        for edit in others {
            assert_eq!((edit.state, edit.body, edit.idempotency_key), (Sending, None, None), "{dropped} is dropped");
            assert_eq!(edit.first_sent_at, Some(now()), "it may have been applied");
        }
        assert!(other_request.body.is_some(), "a different request stays as it is");
    }
}

#[tokio::test]
async fn dropped_edit_whose_request_was_refused_is_not_in_doubt() {
    let decided = on_mirror(|tx| {
        let edit = edit_of(tx, "position", "B");
        send_now(tx, &[edit], "{}");
        tx.edits().give_up_request(&[edit], false).unwrap();
        decide(tx, edit, Decision::Drop, now()).unwrap()
    });
    assert!(!decided.await.in_doubt);
}

#[tokio::test]
async fn decision_on_all_leaves_what_was_sent_since_it_was_shown() {
    let (dropped, states) = on_mirror(|tx| {
        let edits = ["position", "language", "notes"].map(|column| edit_of(tx, column, "B"));
        step(tx, edits[0], Queued, Applied);
        send_now(tx, &[edits[1]], "{}");
        let dropped = decide_all(tx, &edits, Decision::Drop, now()).unwrap();
        (dropped, edits.map(|edit| ended(tx, edit).0))
    })
    .await;
    assert_eq!(dropped, [Decided::new(3, Dropped, EditedFields::new())]);
    assert_eq!(states, [Applied, Sending, Dropped]);
}

#[tokio::test]
async fn mine_is_sent_if_the_record_still_has_the_values_that_the_person_saw() {
    // The service's values, the changes that are left to send, and the stored ones.
    let both = [("position", json!("A"), json!("B")), ("cf_gone", json!("A"), json!("B"))];
    let cases = [
        (r#"{"position":"X"}"#, vec![("position", json!("X"), json!("B")), both[1].clone()], None),
        (r#"{"position":"B"}"#, vec![both[1].clone()], None),
        (r#"{"cf_gone":"B"}"#, vec![both[0].clone()], None),
        (r#"{}"#, both.to_vec(), None),
        (
            r#"{"position":"B","cf_gone":"B"}"#,
            vec![],
            Some(vec![("position", json!("B"), json!("B")), ("cf_gone", json!("B"), json!("B"))]),
        ),
    ];
    for (theirs, left, stored) in cases {
        let (decided, edit) = on_mirror(move |tx| {
            let edit = queue_edit(tx, &[("position", "B"), ("cf_gone", "B")], Some("\"v1\""));
            let conflict = EditStep { theirs: Some(theirs), ..EditStep::new(Queued, Conflict, "a test") };
            tx.edits().take_step(edit, &conflict, now()).unwrap();
            list(tx, "\"v2\"", "X");
            (decide(tx, edit, Decision::Mine, now()).unwrap(), open_edit(tx, edit))
        })
        .await;
        assert_eq!((decided.state, edit.state), (Queued, Queued), "{theirs}");
        assert_eq!(decided.fields, fields(&left), "{theirs}");
        assert_eq!(edit.fields, fields(&stored.unwrap_or(left)), "{theirs}");
        assert_eq!(edit.base_etag, Some(Etag::new("\"v2\"")), "{theirs}");
    }
}

#[tokio::test]
async fn undo_is_one_edit_from_the_last_values_to_the_first() {
    let (undone, undoes, base, unreleased) = on_mirror(|tx| {
        for after in ["B", "C"] {
            let edit = edit_of(tx, "position", after);
            step(tx, edit, Queued, Applied);
        }
        let undone = undo(tx, &[2, 1, 2], now()).unwrap();
        let id = undone[0].edit.unwrap();
        let (line, _) = outbox_report::edit(tx, id).unwrap();
        (undone, line.undoes, open_edit(tx, id).base_etag, tx.edits().any_unreleased(&[id]).unwrap())
    })
    .await;
    let expected = UndoEdit {
        edit: Some(3),
        undoes: vec![1, 2],
        object: CONTACT,
        record: contact(),
        fields: fields(&[("position", json!("C"), json!("A"))]),
        changed: Vec::new(),
        waiting: Vec::new(),
    };
    assert_eq!((undone, undoes, base), (vec![expected], Some(2), Some(Etag::new("\"v1\""))));
    assert!(!unreleased, "the limit on new edits does not hold it");
}

#[tokio::test]
async fn undo_leaves_the_edits_that_wait() {
    // What was applied, from A to B and from A to C, and the edit that waits.
    let cases = [
        (("position", "A"), vec![("language", json!("C"), json!("A"))]),
        (("position", "D"), vec![("language", json!("C"), json!("A"))]),
        (("notes", "D"), vec![("language", json!("C"), json!("A")), ("position", json!("B"), json!("A"))]),
    ];
    for ((column, after), expected) in cases {
        let (undone, state) = on_mirror(move |tx| {
            let applied = [edit_of(tx, "position", "B"), edit_of(tx, "language", "C")];
            applied.iter().for_each(|edit| step(tx, *edit, Queued, Applied));
            show(tx, &json!({"id": "c", "etag": "\"v2\"", "position": "B", "language": "C", "notes": "A"}));
            let before = if column == "position" { "B" } else { "A" };
            let fields = fields(&[(column, json!(before), json!(after))]);
            let record = contact();
            let edit = NewEdit {
                object: CONTACT,
                record: &record,
                source: "edit",
                fields: &fields,
                base_etag: None,
                undoes: None,
            };
            let waits = stored::insert(tx, &edit, "a test", now()).unwrap().edit.unwrap();
            let undone = undo(tx, &applied, now()).unwrap().remove(0);
            (undone, open_edit(tx, waits).state)
        })
        .await;
        let waiting: &[&str] = if column == "position" { &["position"] } else { &[] };
        assert_eq!(
            (undone.fields, undone.waiting),
            (fields(&expected), waiting.iter().map(|c| c.to_string()).collect())
        );
        assert_eq!(state, Queued, "{column} {after}");
    }
}

#[tokio::test]
async fn undo_of_edits_that_cancel_each_other_has_nothing_to_send() {
    let undone = on_mirror(|tx| {
        let edits = [("A", "B"), ("B", "A")].map(|(before, after)| {
            let edit = edit_of(tx, "position", if after == "A" { "C" } else { after });
            tx.edits().set_edited_fields(edit, &fields(&[("position", json!(before), json!(after))]), None).unwrap();
            step(tx, edit, Queued, Applied);
            edit
        });
        undo(tx, &edits, now()).unwrap()
    });
    assert_eq!(undone.await, []);
}

/// An edit of the position that is applied with this reason.
fn applied(tx: &MirrorTx<'_>, before: &str, after: &str, undoes: Option<i64>, why: &str) -> i64 {
    let fields = fields(&[("position", json!(before), json!(after))]);
    let record = contact();
    let edit = NewEdit { object: CONTACT, record: &record, source: "edit", fields: &fields, base_etag: None, undoes };
    let id = stored::insert(tx, &edit, "a test", now()).unwrap().edit.unwrap();
    assert!(tx.edits().take_step(id, &EditStep::new(Queued, Applied, why), now()).unwrap());
    id
}

#[tokio::test]
async fn undo_brings_back_nothing_that_another_undo_reverted() {
    const SHOWN: &str = outbox_report::SHOWN;
    // The edits, each with what it reverts; those that are undone, and the change that does it.
    type Case = (&'static [(&'static str, &'static str, Option<i64>, &'static str)], &'static [i64], &'static str);
    let cases: [Case; 10] = [
        (&[("A", "B", None, ""), ("B", "C", None, ""), ("C", "A", Some(2), "")], &[2, 3], ""),
        (
            &[("A", "B", None, ""), ("B", "C", None, ""), ("C", "A", Some(2), ""), ("A", "Z", None, "")],
            &[2, 3, 4],
            "ZA",
        ),
        (&[("A", "B", None, ""), ("B", "C", None, ""), ("C", "B", Some(2), "")], &[1, 2, 3], "BA"),
        (&[("A", "B", None, ""), ("B", "A", Some(1), ""), ("A", "B", Some(2), "")], &[1, 2, 3], "BA"),
        (
            &[("A", "B", None, ""), ("B", "C", None, ""), ("C", "B", Some(2), ""), ("B", "C", Some(3), "")],
            &[1, 2, 3, 4],
            "CA",
        ),
        // An undo of values that the record had already reverts nothing, but what it is for is over.
        (&[("A", "B", None, ""), ("B", "A", Some(1), SHOWN)], &[1, 2], ""),
        (&[("A", "B", None, ""), ("B", "C", None, ""), ("C", "A", Some(2), SHOWN)], &[2, 3], ""),
        (&[("A", "B", None, ""), ("B", "A", Some(1), SHOWN), ("A", "Z", None, "")], &[1, 2, 3], "ZA"),
        (&[("A", "B", None, ""), ("B", "A", Some(1), SHOWN)], &[2], ""),
        (&[("A", "B", None, ""), ("B", "A", Some(1), "")], &[2], "AB"),
    ];
    for (edits, undone, expected) in cases {
        let planned = on_mirror(move |tx| {
            edits.iter().for_each(|(before, after, undoes, why)| _ = applied(tx, before, after, *undoes, why));
            plan_undo(tx, undone).unwrap()
        });
        let changes: Vec<String> = planned
            .await
            .iter()
            .flat_map(|of_record| of_record.fields.values())
            .map(|(from, to)| [from, to].map(|value| value.as_str().unwrap()).concat())
            .collect();
        assert_eq!(changes.concat(), expected, "{edits:?} {undone:?}");
    }
}

#[tokio::test]
async fn undo_follows_the_order_in_which_the_service_has_the_edits() {
    let planned = on_mirror(|tx| {
        let retried = edit_of(tx, "position", "B");
        step(tx, retried, Queued, Rejected);
        applied(tx, "A", "C", None, "");
        applied(tx, "C", "A", None, "");
        decide(tx, retried, Decision::Retry, now()).unwrap();
        step(tx, retried, Queued, Applied);
        plan_undo(tx, &outbox_report::applied_since(tx, now()).unwrap()).unwrap().remove(0)
    })
    .await;
    assert_eq!((planned.undoes, planned.fields), (vec![2, 3, 1], fields(&[("position", json!("B"), json!("A"))])));
}

#[tokio::test]
async fn undo_in_conflict_is_not_made_again() {
    let (waiting, edits, retried) = on_mirror(|tx| {
        let refused = edit_of(tx, "position", "R");
        step(tx, refused, Queued, Rejected);
        applied(tx, "A", "B", None, "");
        let undone = undo(tx, &[2], now()).unwrap().remove(0).edit.unwrap();
        step(tx, undone, Queued, Conflict);
        let again = undo(tx, &outbox_report::applied_since(tx, now()).unwrap(), now()).unwrap();
        let waiting: Vec<_> = again.into_iter().map(|of_record| (of_record.edit, of_record.waiting)).collect();
        let edits = outbox_report::edits(tx, true).unwrap().len();
        (waiting, edits, decide(tx, refused, Decision::Retry, now()).map(drop))
    })
    .await;
    assert_eq!((waiting, edits), (vec![(None, vec!["position".to_string()])], 3));
    assert!(retried.unwrap_err().to_string().contains("a waiting edit changes"));
}

#[tokio::test]
async fn undo_that_changed_nothing_is_not_made_again() {
    let since = on_mirror(|tx| {
        let edit = applied(tx, "A", "B", None, "");
        applied(tx, "B", "A", Some(edit), outbox_report::SHOWN);
        let since = outbox_report::applied_since(tx, now()).unwrap();
        (undo(tx, &since, now()).unwrap(), outbox_report::edits(tx, true).unwrap().len())
    });
    assert_eq!(since.await, (Vec::new(), 2));
}

#[tokio::test]
async fn retried_edit_waits_until_a_later_one_that_is_being_sent_has_ended() {
    let next = on_mirror(|tx| {
        let retried = edit_of(tx, "position", "B");
        step(tx, retried, Queued, Rejected);
        let later = edit_of(tx, "language", "B");
        send_now(tx, &[later], "{}");
        decide(tx, retried, Decision::Retry, now()).unwrap();
        with_edits(tx, 100, |edits| edits.next_request(false).unwrap())
    });
    assert_eq!(next.await, NextStep::Read(Some(2)));
}

#[tokio::test]
async fn release_is_remembered() {
    let unreleased = on_mirror(|tx| {
        let edits = ["position", "language"].map(|column| edit_of(tx, column, "B"));
        for edit in edits {
            step(tx, edit, Queued, Held);
        }
        assert_eq!(decide(tx, edits[0], Decision::Release, now()).unwrap().state, Queued);
        edits.map(|edit| tx.edits().any_unreleased(&[edit]).unwrap())
    });
    assert_eq!(unreleased.await, [false, true]);
}
