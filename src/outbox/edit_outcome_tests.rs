//! What an answer does to the edits of its request and to the delays, in the transaction that stores it.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::model::{RecordId, RetryDelay};
use crate::outbox::edit_fixture::{self as fixture, CONTACT, edit_of, mirror, now, rules, show, stamp};
use crate::outbox::edit_tx::PushRules;
use crate::store::{MirrorTx, outbox_report};

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    edits: usize,
    /// Failed requests of the record within the hour before it.
    failed: u32,
    doubt: bool,
    custom: bool,
}

pub(super) const FIRST: Sent = Sent { edits: 1, failed: 0, doubt: false, custom: false };

#[derive(Debug, PartialEq)]
struct Became {
    state: EditState,
    /// The seconds until then, if the record has a delay.
    waits: Option<u64>,
    /// The failed requests that the delays of the object and of its custom fields count.
    object: Option<u32>,
    custom: Option<u32>,
}

fn became(state: EditState, waits: Option<u64>, scopes: (Option<u32>, Option<u32>)) -> Became {
    Became { state, waits, object: scopes.0, custom: scopes.1 }
}

/// Queues edits of the contact where its object and its custom fields were refused once, and claims their request.
pub(super) fn send<'a, 'b>(
    tx: &'a MirrorTx<'b>,
    record: &'a RecordId,
    rules: &'a PushRules,
    sent: Sent,
) -> (EditTx<'a, 'b>, StoredRequest) {
    for column in ["position", "language"].into_iter().take(sent.edits) {
        edit_of(tx, column, "B");
    }
    let over = now().minus(Duration::from_secs(60));
    let refused = |requests| RetryDelay { requests, recent: requests, last_at: over, not_before: over };
    if sent.failed > 0 {
        tx.edits().set_delay(CONTACT, DelayScope::Record, record, refused(sent.failed), "key").unwrap();
    }
    for scope in [DelayScope::Object, DelayScope::CustomFields] {
        tx.edits().set_delay(CONTACT, scope, record, refused(1), "key").unwrap();
    }
    let mut edits = EditTx::open(tx, CONTACT, record, rules, now()).unwrap();
    let NextStep::Send(mut request) = edits.next_request(false).unwrap() else { panic!("there is a request") };
    assert_eq!(request.edits.len(), sent.edits);
    (request.doubt, request.custom) = (sent.doubt, sent.custom);
    (edits, request)
}

async fn after(sent: Sent, take: impl FnOnce(&mut EditTx<'_, '_>, &StoredRequest) + Send + 'static) -> Became {
    let (_dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A", "language": "A" })).await;
    let written = store.write(move |tx| {
        let (record, rules) = (RecordId::new("c"), rules(100));
        let (mut edits, request) = send(tx, &record, &rules, sent);
        take(&mut edits, &request);
        let delay = |scope| tx.edits().delay(CONTACT, scope, &record).unwrap();
        Ok(Became {
            state: outbox_report::edit(tx, 1)?.0.state,
            waits: delay(DelayScope::Record).map(|delay| delay.not_before.since(now()).as_secs()),
            object: delay(DelayScope::Object).map(|delay| delay.requests),
            custom: delay(DelayScope::CustomFields).map(|delay| delay.requests),
        })
    });
    written.await.unwrap()
}

/// What becomes of a request that was answered with this status.
async fn refused(sent: Sent, status: u16) -> Became {
    let refuse = move |edits: &mut EditTx<'_, '_>, request: &StoredRequest| {
        edits.refused(request, PatchOutcome::Refused(status), "{}").unwrap();
    };
    after(sent, refuse).await
}

#[tokio::test]
async fn a_refusal_ends_the_delay_of_the_object_only_if_it_shows_that_updates_are_accepted() {
    use EditState::{Queued, Rejected, Sending};
    for (status, expected) in [
        (422, became(Rejected, None, (None, Some(1)))),
        (409, became(Sending, Some(0), (None, Some(1)))),
        (412, became(Sending, Some(0), (Some(2), Some(1)))),
        (404, became(Queued, Some(60), (Some(2), Some(1)))),
        (401, became(Queued, Some(10), (Some(2), Some(1)))),
        (403, became(Queued, Some(10), (Some(3), Some(1)))),
        (425, became(Queued, Some(10), (Some(2), Some(1)))),
        (429, became(Queued, Some(0), (Some(2), Some(1)))),
        (408, became(Sending, Some(10), (Some(2), Some(1)))),
        (503, became(Sending, Some(10), (Some(2), Some(1)))),
    ] {
        assert_eq!(refused(FIRST, status).await, expected, "{status}");
    }
}

#[tokio::test]
async fn a_refusal_of_custom_values_concerns_no_other_edit() {
    let custom = Sent { custom: true, ..FIRST };
    let expected = became(EditState::Queued, Some(10), (Some(2), Some(2)));
    assert_eq!(refused(custom, 403).await, expected);
    let expected = became(EditState::Queued, Some(10), (Some(2), Some(1)));
    assert_eq!(refused(custom, 401).await, expected);
}

#[tokio::test]
async fn an_answer_about_the_record_leaves_the_test_of_custom_values_to_another() {
    let custom = Sent { custom: true, ..FIRST };
    assert_eq!(refused(custom, 404).await, became(EditState::Queued, Some(60), (Some(2), Some(0))));
    assert_eq!(refused(custom, 412).await, became(EditState::Sending, Some(0), (Some(2), Some(0))));
    assert_eq!(refused(custom, 422).await, became(EditState::Rejected, None, (None, Some(1))));
    // Which of several edits is refused, the next requests show.
    let several = refused(Sent { edits: 2, ..custom }, 422).await;
    assert_eq!(several, became(EditState::Queued, Some(0), (None, Some(0))));
}

#[tokio::test]
async fn what_follows_at_once_fits_into_the_hour() {
    use EditState::{Queued, Sending};
    let two = Sent { edits: 2, ..FIRST };
    for (sent, failed, status, state, waits) in [
        (two, 0, 422, Queued, 0),
        (two, 3, 422, Queued, 0),
        (two, 4, 422, Queued, 3600),
        (FIRST, 3, 429, Queued, 0),
        (FIRST, 4, 429, Queued, 3600),
        (FIRST, 2, 412, Sending, 0),
        (FIRST, 3, 412, Sending, 3600),
    ] {
        let became = refused(Sent { failed, ..sent }, status).await;
        assert_eq!((became.state, became.waits), (state, Some(waits)), "{status} after {failed}");
    }
}

#[tokio::test]
async fn a_confirmation_ends_every_delay_that_it_refutes() {
    for (custom, left) in [(false, Some(1)), (true, None)] {
        let became_now = after(Sent { custom, ..FIRST }, move |edits, request| {
            edits.confirmed(request, None, Some(false), &stamp()).unwrap();
        });
        assert_eq!(became_now.await, became(EditState::Applied, None, (None, left)), "custom: {custom}");
    }
}

/// The contact that a read back shows.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Same,
    /// A detail of a new version, with these values.
    Detail(&'static str, &'static str),
    /// The same from a service that does not change the etag.
    SameEtag(&'static str, &'static str),
    /// A list with a new version and this position: the detail is outdated.
    List(&'static str),
}

impl Shown {
    fn store(self, tx: &MirrorTx<'_>) {
        match self {
            Shown::Same => Shown::SameEtag("A", "A").store(tx),
            Shown::Detail(position, language) => {
                show(tx, &json!({ "id": "c", "etag": "\"v2\"", "position": position, "language": language }));
            }
            Shown::SameEtag(position, language) => {
                show(tx, &json!({ "id": "c", "etag": "\"v1\"", "position": position, "language": language }));
            }
            Shown::List(position) => fixture::list(tx, "\"v2\"", position),
        }
    }
}

/// What is known of a request when its record is read back.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Its version was refused, and it was sent once.
    OtherVersion,
    Lost,
    /// It was repeated, and the last answer has this status.
    Answered(u16),
    /// A part of it was dropped.
    Discarded,
}

/// Reads back a request of these edits, years after it was sent or years before, by the clock.
async fn read_back(edits: usize, known: Known, shown: Shown) -> (NextStep, EditState, String) {
    let mut found: Vec<(NextStep, EditState, String)> = Vec::new();
    for clock in [now().minus(Duration::from_secs(900_000)), fixture::after(100_000_000)] {
        let (_dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A", "language": "A" })).await;
        let written = store.write(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (mut open, mut request) = send(tx, &record, &rules, Sent { edits, ..FIRST });
            match known {
                Known::Lost => {}
                Known::Discarded => tx.edits().give_up_request(&[1, 2][..edits], true)?,
                Known::OtherVersion | Known::Answered(_) => {
                    let status = if let Known::Answered(status) = known { status } else { 412 };
                    request.doubt = matches!(known, Known::Answered(_));
                    let outcome = match status {
                        200..=299 => PatchOutcome::Unconfirmed(status),
                        status => PatchOutcome::Refused(status),
                    };
                    open.refused(&request, outcome, "{}")?;
                }
            }
            shown.store(tx);
            open.now = clock;
            let mut after = open.was_read_back(request.carrier, false)?;
            if let NextStep::Send(request) = &mut after {
                request.key.clear();
            }
            let (line, history) = outbox_report::edit(tx, 1)?;
            Ok((after, line.state, history.last().unwrap().why.clone()))
        });
        found.push(written.await.unwrap());
    }
    assert_eq!(found[0], found[1], "the clock decides");
    found.remove(0)
}

#[tokio::test]
async fn a_record_that_was_read_back_decides_on_its_request_whatever_the_clock() {
    use EditState::{Applied, Conflict, Queued, Rejected, Sending};
    use Known::{Answered, Discarded, OtherVersion};
    use Shown::{Detail, List, Same, SameEtag};
    for (edits, known, shown, continues, state, why) in [
        (1, Known::Lost, Detail("B", "A"), true, Applied, trail::FOUND),
        (2, Known::Lost, Detail("B", "B"), true, Applied, trail::FOUND),
        (1, Answered(412), Detail("B", "A"), true, Applied, trail::FOUND),
        (1, Answered(412), Detail("X", "A"), true, Conflict, trail::UNCERTAIN),
        // Somebody may have set it back.
        (1, Answered(412), Detail("A", "X"), true, Conflict, trail::UNCERTAIN),
        (1, Answered(200), Detail("A", "X"), true, Conflict, trail::UNCERTAIN),
        (1, Answered(202), Detail("A", "X"), true, Conflict, trail::UNCERTAIN),
        (2, Answered(412), Detail("B", "A"), true, Conflict, trail::UNCERTAIN),
        (2, Answered(412), Detail("A", "A"), true, Conflict, trail::UNCERTAIN),
        (1, Answered(422), Detail("A", "X"), true, Conflict, trail::UNCERTAIN),
        (1, Answered(422), Same, true, Rejected, trail::REFUSED_AGAIN),
        (1, Answered(409), Same, true, Rejected, trail::REFUSED_AGAIN),
        (1, Answered(422), Detail("B", "A"), true, Applied, trail::FOUND),
        (1, Discarded, Same, true, Queued, trail::NOT_DONE),
        (1, Discarded, Detail("A", "X"), true, Conflict, trail::UNCERTAIN),
        (1, Discarded, Detail("B", "A"), true, Applied, trail::FOUND),
        (1, OtherVersion, Detail("B", "A"), true, Applied, trail::SHOWN),
        (1, OtherVersion, Detail("A", "X"), true, Queued, trail::REBASED),
        (1, OtherVersion, Detail("X", "A"), true, Queued, trail::REBASED),
        (1, OtherVersion, SameEtag("X", "A"), true, Queued, trail::REBASED),
        (2, OtherVersion, Detail("B", "A"), true, Queued, trail::REBASED),
        (1, OtherVersion, List("B"), true, Applied, trail::SHOWN),
        (2, OtherVersion, List("B"), false, Sending, trail::READ_FIRST),
    ] {
        let (after, became, last) = read_back(edits, known, shown).await;
        let expected = if continues { NextStep::Decide } else { NextStep::Wait };
        assert_eq!((after, became, last.as_str()), (expected, state, why), "{edits} {known:?} {shown:?}");
    }
}

#[tokio::test]
async fn a_request_without_an_answer_is_repeated_unchanged() {
    for (known, shown) in [
        (Known::Lost, Shown::Same),
        (Known::Lost, Shown::Detail("X", "A")),
        (Known::Lost, Shown::Detail("A", "X")),
        (Known::Answered(503), Shown::Detail("A", "X")),
        (Known::Answered(200), Shown::Same),
        (Known::Answered(412), Shown::Same),
    ] {
        let (after, state, _) = read_back(1, known, shown).await;
        let NextStep::Send(request) = after else { panic!("{known:?} {shown:?}: {after:?}") };
        assert_eq!((request.carrier, request.edits.len(), request.doubt, state), (1, 1, true, EditState::Sending));
        assert_eq!((request.body.as_str(), request.if_match.as_str()), (r#"{"position":"B"}"#, "\"v1\""));
    }
}

#[tokio::test]
async fn a_request_without_edits_waits() {
    let (_dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A" })).await;
    let read = store.write(|tx| {
        let (record, rules) = (RecordId::new("c"), rules(100));
        send(tx, &record, &rules, FIRST).0.was_read_back(99, false)
    });
    assert_eq!(read.await.unwrap(), NextStep::Wait);
}

/// The states and reasons of edits after the next request of their record was decided.
async fn decided(
    contact: Value,
    changes: &'static [(&'static str, &'static str)],
) -> (NextStep, Vec<(EditState, String)>) {
    let (_dir, store) = mirror(contact).await;
    let written = store.write(move |tx| {
        let (record, rules) = (RecordId::new("c"), rules(100));
        for (column, after) in changes {
            edit_of(tx, column, after);
        }
        let next = EditTx::open(tx, CONTACT, &record, &rules, now())?.next_request(false)?;
        let edits = (1..=changes.len()).map(|id| outbox_report::edit(tx, id as i64).unwrap());
        Ok((next, edits.map(|(line, history)| (line.state, history.last().unwrap().why.clone())).collect()))
    });
    written.await.unwrap()
}

#[tokio::test]
async fn edits_that_need_no_request_end_before_one_is_sent() {
    let contact = json!({ "id": "c", "etag": "\"v1\"", "position": "B", "language": "A" });
    let (next, edits) = decided(contact.clone(), &[("position", "B"), ("cf_gone", "B"), ("language", "B")]).await;
    let NextStep::Send(request) = next else { panic!("{next:?}") };
    assert_eq!((request.carrier, request.body.as_str()), (3, r#"{"language":"B"}"#));
    let states: Vec<EditState> = edits.iter().map(|(state, _)| *state).collect();
    assert_eq!(states, [EditState::Applied, EditState::Rejected, EditState::Sending]);
    assert_eq!(edits[0].1, trail::SHOWN);
    let (next, edits) = decided(contact, &[("position", "C")]).await;
    assert_eq!((next, edits), (NextStep::Wait, vec![(EditState::Conflict, trail::CONFLICT.to_string())]));
}

#[tokio::test]
async fn silence_says_nothing_about_the_object() {
    let became_now = after(FIRST, |edits, request| _ = edits.refused(request, PatchOutcome::Silence, "{}").unwrap());
    assert_eq!(became_now.await, became(EditState::Sending, Some(10), (Some(2), Some(1))));
}

#[tokio::test]
async fn request_that_was_not_admitted_uses_up_no_attempt() {
    for custom in [true, false] {
        let back = |edits: &mut EditTx<'_, '_>, request: &StoredRequest| {
            edits.refused(request, PatchOutcome::NotAdmitted, "{}").unwrap();
        };
        let became_now = after(Sent { failed: 3, custom, ..FIRST }, back).await;
        assert_eq!((became_now.object, became_now.custom), (Some(1), Some(if custom { 0 } else { 1 })));
    }
}

#[tokio::test]
async fn rate_limit_delays_the_object_from_its_end_on_and_counts_once_for_all_that_were_under_way() {
    let delay = fixture::on_mirror(|tx| {
        let (record, rules) = (RecordId::new("c"), PushRules { hold: Duration::from_secs(30), ..rules(100) });
        let (mut edits, request) = send(tx, &record, &rules, FIRST);
        edits.end_delay(DelayScope::Object).unwrap();
        let request = StoredRequest { tests_object: false, ..request };
        for outcome in [PatchOutcome::Refused(429), PatchOutcome::Refused(429), PatchOutcome::NotAdmitted] {
            edits.refused(&request, outcome, "{}").unwrap();
        }
        tx.edits().delay(CONTACT, DelayScope::Object, &record).unwrap().unwrap()
    });
    let delay = delay.await;
    assert_eq!((delay.requests, delay.not_before), (1, fixture::after(30 + 60)));
}

/// The delay behind a hold of hours is not taken for one of a clock that was set back.
#[tokio::test]
async fn object_waits_behind_a_hold_however_long_it_is() {
    for hours in [1, 7, 24] {
        let is_due = fixture::on_mirror(move |tx| {
            let hold = Duration::from_secs(hours * 3_600);
            let (record, rules) = (RecordId::new("c"), PushRules { hold, ..rules(100) });
            let (mut edits, request) = send(tx, &record, &rules, FIRST);
            edits.end_delay(DelayScope::Object).unwrap();
            for _ in 0..12 {
                edits
                    .refused(&StoredRequest { tests_object: true, ..request.clone() }, PatchOutcome::Refused(429), "{}")
                    .unwrap();
            }
            edits.is_due(DelayScope::Object).unwrap()
        });
        assert!(!is_due.await, "{hours} h");
    }
}

#[tokio::test]
async fn read_that_was_not_sent_is_no_attempt() {
    let became_now = after(Sent { failed: 3, ..FIRST }, |edits, _| {
        edits.amend(DelayScope::Record, delay::without_request).unwrap();
        let delay = edits.tx.edits().delay(CONTACT, DelayScope::Record, edits.record).unwrap().unwrap();
        assert_eq!(delay.requests, 3);
    });
    assert_eq!(became_now.await, became(EditState::Sending, Some(0), (Some(2), Some(1))));
}

#[tokio::test]
async fn confirmation_is_stored_with_its_status_and_reason() {
    for (replayed, why) in [(false, trail::CONFIRMED), (true, trail::REPLAYED)] {
        let (status, last) = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (mut edits, request) = send(tx, &record, &rules, FIRST);
            edits.confirmed(&request, None, Some(replayed), &stamp()).unwrap();
            let (line, _) = outbox_report::edit(tx, 1).unwrap();
            (line.status, fixture::ended(tx, 1))
        })
        .await;
        assert_eq!((status, last), (Some(200), (EditState::Applied, why.to_string())));
    }
}

#[tokio::test]
async fn edits_of_a_record_that_neither_side_has_are_rejected() {
    use EditState::{Held, Queued, Rejected};
    let (_dir, store) = mirror(json!({ "id": "d", "etag": "\"v1\"" })).await;
    let rejected = store.write(|tx| {
        let edits = ["position", "language", "notes"].map(|column| edit_of(tx, column, "B"));
        fixture::send_now(tx, &edits[..1], "{}");
        fixture::step(tx, edits[1], Queued, Held);
        let to_confirm = fixture::with_edits(tx, 100, |edits| {
            edits.not_found(Some(404), "{}").unwrap();
            !edits.found.not_found.is_empty()
        });
        assert!(!to_confirm);
        Ok(edits.map(|edit| fixture::ended(tx, edit)))
    });
    let sent = record_removed(EditState::Sending);
    assert_eq!(rejected.await.unwrap(), [sent, trail::GONE, trail::GONE].map(|why| (Rejected, why.to_string())));
}

#[tokio::test]
async fn removal_is_confirmed_as_often_as_the_delay_allows() {
    for (requests, confirms, then) in [(None, true, 1), (Some(2), true, 3), (Some(3), false, 3), (Some(5), true, 6)] {
        let (to_confirm, counted) = fixture::on_mirror(move |tx| {
            edit_of(tx, "position", "B");
            if let Some(requests) = requests {
                fixture::delayed(tx, DelayScope::Record, requests, -1);
            }
            let to_confirm = fixture::with_edits(tx, 100, |edits| {
                edits.not_found(Some(404), "{}").unwrap();
                !edits.found.not_found.is_empty()
            });
            (to_confirm, fixture::requests(tx, DelayScope::Record))
        })
        .await;
        assert_eq!((to_confirm, counted), (confirms, Some(then)), "after {requests:?}");
    }
}

#[tokio::test]
async fn field_that_cannot_be_edited_any_more_needs_no_detail() {
    let last = fixture::on_mirror(|tx| {
        let (record, rules) = (RecordId::new("c"), rules(100));
        let (mut edits, request) = send(tx, &record, &rules, FIRST);
        edits.editable.remove("position");
        fixture::list(tx, "\"v2\"", "X");
        tx.edits().give_up_request(&[request.carrier], true).unwrap();
        assert_eq!(edits.was_read_back(request.carrier, false).unwrap(), NextStep::Decide);
        fixture::ended(tx, 1)
    });
    assert_eq!(last.await, (EditState::Rejected, trail::NOT_SHOWN.to_string()));
}

#[tokio::test]
async fn one_field_that_the_record_does_not_show_leaves_the_doubt_open() {
    for (doubt, state, why) in
        [(true, EditState::Rejected, trail::NOT_SHOWN), (false, EditState::Queued, trail::REBASED)]
    {
        let last = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (mut edits, request) = send(tx, &record, &rules, Sent { edits: 2, ..FIRST });
            if !doubt {
                edits.refused(&request, PatchOutcome::Refused(412), "{}").unwrap();
            } else {
                tx.edits().give_up_request(&[1, 2], true).unwrap();
            }
            edits.editable.remove("position");
            Shown::Detail("X", "X").store(tx);
            edits.was_read_back(request.carrier, false).unwrap();
            fixture::ended(tx, 1)
        });
        assert_eq!(last.await, (state, why.to_string()), "in doubt: {doubt}");
    }
}

#[tokio::test]
async fn no_edit_of_a_request_is_sent_again_if_a_part_of_it_is_there() {
    for shown in [Shown::Detail("B", "A"), Shown::SameEtag("B", "A")] {
        let last = fixture::on_mirror(move |tx| {
            let (record, rules) = (RecordId::new("c"), rules(100));
            let (mut edits, request) = send(tx, &record, &rules, Sent { edits: 2, ..FIRST });
            shown.store(tx);
            tx.edits().give_up_request(&[1, 2], true).unwrap();
            edits.was_read_back(request.carrier, false).unwrap();
            [1, 2].map(|edit| fixture::ended(tx, edit))
        });
        assert_eq!(last.await, [1, 2].map(|_| (EditState::Conflict, trail::UNCERTAIN.to_string())), "{shown:?}");
    }
}
