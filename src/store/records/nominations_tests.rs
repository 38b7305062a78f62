//! Tests of nominations: which records an answer that lacks them nominates.

use std::time::Duration;

use rusqlite::params;

use super::*;
use crate::store::{Store, StoreError};

/// A mirror with a contact created at each of the seconds 1 to 3 and one without a date, and a company at second 2.
async fn mirror() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    let insert = store.write(|tx| {
        let contact = "INSERT INTO contacts (id, created_at, synced_at) VALUES (?1, ?2, '')";
        for n in 1..4 {
            tx.conn.execute(contact, params![format!("c{n}"), at(n).to_string()]).unwrap();
        }
        tx.conn.execute(contact, params!["dateless", None::<String>]).unwrap();
        let company = "INSERT INTO companies (id, created_at, synced_at) VALUES ('co', ?1, '')";
        tx.conn.execute(company, [at(2).to_string()]).unwrap();
        Ok(())
    });
    insert.await.unwrap();
    (dir, store)
}

fn at(second: i64) -> Instant {
    Instant::from_secs(second).unwrap()
}

/// The nominations: contacts, then companies.
async fn nominated(store: &Store) -> Vec<String> {
    let missed =
        |tx: &ReadTx<'_>, object| Ok::<_, StoreError>(tx.due_doubts(object, Instant::EPOCH, true, true)?.missed);
    let both = store.read(move |tx| Ok([missed(tx, Object::Contact)?, missed(tx, Object::Company)?].concat()));
    both.await.unwrap().iter().map(|id| id.as_str().to_string()).collect()
}

#[tokio::test]
async fn records_of_a_range_that_were_not_seen_are_nominated() {
    let just_after = |second| at(second).plus(Duration::from_micros(1));
    let dated = |from, to| TimeBounds::Dated { from, to };
    for (bounds, seen, expected) in [
        (dated(None, None), "[]", &["c1", "c2", "c3"][..]),
        (dated(None, None), r#"["c1","dateless"]"#, &["c2", "c3"]),
        (dated(Some(at(2)), None), "[]", &["c2", "c3"]),
        (dated(Some(just_after(2)), None), "[]", &["c3"]),
        (dated(None, Some(just_after(2))), "[]", &["c1", "c2"]),
        (dated(None, Some(at(2))), "[]", &["c1"]),
        (dated(Some(just_after(1)), Some(at(3))), "[]", &["c2"]),
        (dated(Some(at(1)), Some(just_after(3))), r#"["c1","c2","c3"]"#, &[]),
        (TimeBounds::Dateless, "[]", &["dateless"]),
        (TimeBounds::Dateless, r#"["dateless"]"#, &[]),
        (TimeBounds::Dateless, r#"["c1"]"#, &["dateless"]),
    ] {
        let (_dir, store) = mirror().await;
        store.write(move |tx| tx.knowledge().nominate_unseen(Object::Contact, bounds, seen)).await.unwrap();
        assert_eq!(nominated(&store).await, expected, "{bounds:?} {seen}");
        store.close().await;
    }
}
