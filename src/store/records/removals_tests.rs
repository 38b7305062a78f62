//! The evidence of removals, the limit on them, and the decision of the gate on a mirror.

use std::time::Duration;

use super::*;
use crate::model::request_order::RequestRegister;

fn id(text: &str) -> RecordId {
    RecordId::new(text)
}

#[test]
fn outage_is_distinguished_from_ordinary_removals() {
    let guard = RemovalGuard { most: 0.2, accepted: false };
    for (going, of, allowed) in [
        (0, 0, true),
        (9, 9, true),
        (10, 10, false),
        (2, 10, true),
        (3, 10, false),
        (20, 100, true),
        (21, 100, false),
        (100_000, 100_000, false),
    ] {
        assert_eq!(guard.allows(going, of), allowed, "{going} of {of}");
        assert!(RemovalGuard { accepted: true, ..guard }.allows(going, of));
    }
    assert!(!RemovalGuard { most: 1.0, accepted: false }.allows(10, 10), "never all of them");
    let none = RemovalGuard { most: 0.0, accepted: false };
    assert!(none.allows(0, 10) && !none.allows(1, 10), "none of a table that is not tiny");
}

#[test]
fn only_an_answer_with_the_witness_confirms_removals() {
    let (asked, witness) = ([id("a"), id("b")], id("w"));
    let some = Some(&witness);
    for (witness, answered, proven, confirmed) in [
        (some, vec![], false, vec![]),
        (some, vec!["a"], false, vec![]),
        (some, vec!["w"], true, vec!["a", "b"]),
        (some, vec!["w", "b"], true, vec!["a"]),
        (some, vec!["w", "x"], false, vec![]),
        // The service lists no record.
        (None, vec![], true, vec!["a", "b"]),
        (None, vec!["a"], false, vec![]),
        (None, vec!["x"], false, vec![]),
    ] {
        let answered: HashSet<RecordId> = answered.into_iter().map(id).collect();
        let mut removals = ConfirmedRemovals::none(Object::Contact);
        let taken = removals.take(&asked, witness, &answered, &RequestRegister::default().begin());
        assert_eq!(taken, proven, "{witness:?} {answered:?}");
        let expected: Vec<RecordId> = confirmed.into_iter().map(id).collect();
        assert_eq!(removals.ids(), expected, "{witness:?} {answered:?}");
        assert_eq!(removals.is_witnessed, witness.is_some() || !proven, "{answered:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Proof {
    Witness,
    EmptyList,
}

/// So many records from number `first` on.
fn confirmed(first: usize, count: usize, proof: Proof) -> ConfirmedRemovals {
    let asked: Vec<RecordId> = (first..first + count).map(|n| id(&format!("c{n:02}"))).collect();
    let (mut removals, order) = (ConfirmedRemovals::none(Object::Contact), RequestRegister::default().begin());
    let witness = matches!(proof, Proof::Witness).then(|| id("w"));
    assert!(removals.take(&asked, witness.as_ref(), &witness.iter().cloned().collect(), &order));
    removals
}

async fn mirror(rows: usize) -> (tempfile::TempDir, crate::store::Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
    let insert = store.write(move |tx| {
        for n in 0..rows {
            tx.conn.execute("INSERT INTO contacts (id, synced_at) VALUES (?1, '')", [format!("c{n:02}")]).unwrap();
        }
        Ok(())
    });
    insert.await.unwrap();
    (dir, store)
}

const NOW: i64 = 1_800_000_000;

async fn remove(
    store: &crate::store::Store,
    confirmed: ConfirmedRemovals,
    accepted: bool,
    hours: u64,
) -> RemovalDecision<u64> {
    let at = Instant::from_secs(NOW).unwrap().plus(Duration::from_secs(hours * 3600));
    let guard = RemovalGuard { most: 0.2, accepted };
    store.write(move |tx| tx.records().remove_confirmed(&confirmed, &guard, at, at)).await.unwrap()
}

#[tokio::test]
async fn gate_decides_by_evidence_share_and_consent() {
    use RemovalDecision::{Refused, Removed};
    let share = |going, of| Refused(RemovalShare { going, of });
    for (rows, count, proof, accepted, decision) in [
        (10, 1, Proof::Witness, false, Removed(1)),
        (10, 2, Proof::Witness, false, Removed(2)),
        (10, 3, Proof::Witness, false, share(3, 10)),
        (10, 3, Proof::Witness, true, Removed(3)),
        (9, 9, Proof::Witness, false, Removed(9)),
        (10, 1, Proof::EmptyList, false, share(1, 10)),
        (10, 10, Proof::EmptyList, true, Removed(10)),
        (10, 0, Proof::EmptyList, false, Removed(0)),
        (9, 9, Proof::EmptyList, false, share(9, 9)),
        (9, 9, Proof::EmptyList, true, Removed(9)),
    ] {
        let (_dir, store) = mirror(rows).await;
        assert_eq!(
            remove(&store, confirmed(0, count, proof), accepted, 0).await,
            decision,
            "{count} of {rows}, {proof:?}, accepted: {accepted}"
        );
        let at = Instant::from_secs(NOW).unwrap();
        let share = store.read(move |tx| tx.removal_share(Object::Contact, 0, at)).await.unwrap();
        let counted = if let Removed(removed) = decision { removed * u64::from(!accepted) } else { 0 };
        assert_eq!(share.going, counted, "{decision:?}");
    }
}

#[tokio::test]
async fn unconfirmed_removals_of_a_day_count_together() {
    let (_dir, store) = mirror(40).await;
    let share = |going| RemovalDecision::Refused(RemovalShare { going, of: 40 });
    assert_eq!(remove(&store, confirmed(0, 8, Proof::Witness), false, 0).await, RemovalDecision::Removed(8));
    assert_eq!(remove(&store, confirmed(8, 1, Proof::Witness), false, 1).await, share(9));
    let going = async |seconds: i64| {
        let at = Instant::from_secs(NOW + seconds).unwrap();
        store.read(move |tx| tx.removal_share(Object::Contact, 0, at)).await.unwrap().going
    };
    let day = 86_400;
    assert_eq!([going(day).await, going(day + 1).await], [8, 0]);
    assert_eq!([going(-day).await, going(-day - 1).await], [8, 0], "a steady clock that was lost");
    // What a person accepted does not count.
    assert_eq!(remove(&store, confirmed(8, 12, Proof::Witness), true, 25).await, RemovalDecision::Removed(12));
    assert_eq!(remove(&store, confirmed(20, 4, Proof::Witness), false, 26).await, RemovalDecision::Removed(4));
}

#[tokio::test]
async fn nominated_record_is_no_witness() {
    let (_dir, store) = mirror(3).await;
    store.write(|tx| tx.knowledge().nominate(Object::Contact, &[id("c00"), id("c02"), id("unknown")])).await.unwrap();
    let seen = store.read(|tx| Ok((tx.count_nominated(Object::Contact)?, tx.witness(Object::Contact, None)?)));
    assert_eq!(seen.await.unwrap(), (2, Some(id("c01"))));
}
