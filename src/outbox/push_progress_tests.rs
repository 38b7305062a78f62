//! The results of a push, and when it gives up on an object.

use super::*;

const ONE: PushTally = PushTally {
    sent: 1,
    applied: 2,
    conflicts: 3,
    rejected: 4,
    waiting: 5,
    in_doubt: 6,
    in_conflict: 7,
    held: 8,
    all_rejected: 9,
};

#[test]
fn later_push_of_a_run_adds_its_requests_and_replaces_what_waits() {
    let earlier = PushTally { sent: 10, applied: 20, conflicts: 30, rejected: 40, ..PushTally::default() };
    let expected = PushTally { sent: 11, applied: 22, conflicts: 33, rejected: 44, ..ONE };
    assert_eq!(ONE.after(earlier), expected);
}

#[test]
fn waiting_edits_cost_an_update_each_and_a_read_if_in_doubt() {
    let waiting = PushTally { waiting: 3, in_doubt: 2, ..PushTally::default() };
    assert_eq!(waiting.will_cost(), Ru::new(8));
}

#[test]
fn only_edits_that_wait_for_a_person_need_attention() {
    let none = PushTally::default();
    for (tally, needs) in [
        (none, false),
        (PushTally { rejected: 1, ..none }, false),
        (PushTally { all_rejected: 1, ..none }, true),
        (PushTally { in_conflict: 1, ..none }, true),
        (PushTally { held: 1, ..none }, true),
        (PushTally { all_rejected: 0, in_conflict: 0, held: 0, ..ONE }, false),
    ] {
        assert_eq!(tally.needs_attention(), needs, "{tally:?}");
    }
}

#[test]
fn ended_edits_are_counted_by_their_state_and_those_that_need_attention_are_named() {
    let mut found = Pushed::default();
    use EditState::{Applied, Conflict, Dropped, Rejected};
    for (id, state) in (1..).zip([Applied, Applied, Applied, Conflict, Conflict, Rejected, Dropped]) {
        found.ended((Object::Contact, &RecordId::new("c")), id, state, "");
    }
    let expected = PushTally { applied: 3, conflicts: 2, rejected: 1, ..PushTally::default() };
    assert_eq!((found.push, found.attention.iter().map(|(id, _)| *id).collect()), (expected, vec![4, 5, 6]));
    let pass = PushPass::default();
    pass.add(found.clone());
    pass.add(found);
    let twice = PushTally { applied: 6, conflicts: 4, rejected: 2, ..PushTally::default() };
    assert_eq!(lock(&pass.pushed).push, twice);
}

#[test]
fn object_waits_after_three_failures_of_different_records_in_a_row() {
    let pass = PushPass::default();
    let failed = |object, id| pass.failed((object, DelayScope::Object), &RecordId::new(id));
    let (contact, company) = (Object::Contact, Object::Company);
    assert_eq!([failed(contact, "a"), failed(contact, "a"), failed(contact, "b")], [false; 3]);
    assert_eq!([failed(company, "p"), failed(contact, "c"), failed(contact, "c")], [false, true, false]);
    assert!(!failed(contact, "d"), "the delay of the object was lengthened once");
    pass.answered((contact, DelayScope::Object));
    assert_eq!([failed(contact, "a"), failed(contact, "b"), failed(contact, "c")], [false, false, true]);
    assert_eq!([failed(company, "q"), failed(company, "r")], [false, true], "an answer counts for its object only");
}

#[test]
fn refused_values_are_kept_apart_from_refused_objects() {
    let pass = PushPass::default();
    pass.forbidden(Object::Contact, true);
    pass.forbidden(Object::Company, false);
    assert_eq!(*lock(&pass.no_custom), BTreeSet::from([Object::Contact]));
    let pushed = lock(&pass.pushed);
    assert_eq!(pushed.unwritable, BTreeSet::from([Object::Company]));
    assert!(pushed.warnings.len() == 1 && pushed.warnings.iter().all(|warning| warning.contains("custom fields")));
}

#[test]
fn closed_push_visits_no_further_record() {
    let pass = PushPass::default();
    *lock(&pass.records) = ["a", "b"].map(|id| (Object::Contact, RecordId::new(id), DelayScope::Object)).into();
    assert_eq!(pass.pop(), Some((Object::Contact, RecordId::new("a"), DelayScope::Object)));
    pass.close();
    assert_eq!(pass.pop(), None);
}
