//! Tests of nominations: which records an answer that lacks them nominates.

use rusqlite::params;

use super::*;
use crate::store::{MirrorTx, Store};

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
    let both = store.read(|tx| Ok([tx.nominated(Object::Contact)?, tx.nominated(Object::Company)?].concat()));
    both.await.unwrap().iter().map(|id| id.as_str().to_string()).collect()
}

#[tokio::test]
async fn records_between_two_instants_that_were_not_seen_are_nominated() {
    let some = |second| (at(second), true);
    for (low, high, seen, expected) in [
        (None, None, "[]", &["c1", "c2", "c3"][..]),
        (None, None, r#"["c1","dateless"]"#, &["c2", "c3"]),
        (Some(some(2)), None, "[]", &["c2", "c3"]),
        (Some((at(2), false)), None, "[]", &["c3"]),
        (None, Some(some(2)), "[]", &["c1", "c2"]),
        (None, Some((at(2), false)), "[]", &["c1"]),
        (Some((at(1), false)), Some((at(3), false)), "[]", &["c2"]),
        (Some(some(1)), Some(some(3)), r#"["c1","c2","c3"]"#, &[]),
    ] {
        let (_dir, store) = mirror().await;
        store.write(move |tx| tx.knowledge().nominate_between(Object::Contact, low, high, seen)).await.unwrap();
        assert_eq!(nominated(&store).await, expected, "{low:?} {high:?} {seen}");
        store.close().await;
    }
}

#[tokio::test]
async fn records_without_a_date_that_were_not_seen_are_nominated() {
    for (seen, expected) in [("[]", &["dateless"][..]), (r#"["dateless"]"#, &[]), (r#"["c1"]"#, &["dateless"])] {
        let (_dir, store) = mirror().await;
        store.write(move |tx| tx.knowledge().nominate_dateless(Object::Contact, seen)).await.unwrap();
        assert_eq!(nominated(&store).await, expected, "{seen}");
        store.close().await;
    }
}

#[tokio::test]
async fn nominations_of_one_object_are_withdrawn_without_those_of_the_other() {
    let (_dir, store) = mirror().await;
    let nominate = |tx: &MirrorTx<'_>, object| tx.knowledge().nominate_between(object, None, None, "[]");
    store.write(move |tx| Object::ALL.into_iter().try_for_each(|object| nominate(tx, object))).await.unwrap();
    assert_eq!(nominated(&store).await, ["c1", "c2", "c3", "co"]);
    store.write(|tx| tx.knowledge().clear_nominations(Object::Contact)).await.unwrap();
    assert_eq!(nominated(&store).await, ["co"]);
    store.close().await;
}
