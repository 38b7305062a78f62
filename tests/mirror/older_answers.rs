//! Answers that overtake each other: an older one never overwrites a newer one, and never brings back what is gone.

use std::time::Duration;

use crm_mirror::api::decode;
use crm_mirror::model::{Instant, Layout, Object, RecordId, Resource};
use crm_mirror::store::{Applied, ConfirmedRemovals, MirrorTx, Phase, RemovalDecision, RemovalGuard, Store};

fn at(second: u64) -> Instant {
    Instant::EPOCH.plus(Duration::from_secs(1_000_000 + second))
}

/// Applies a list item that says `name`, last updated at `updated`, in an answer that was asked for at `asked`.
fn apply(tx: &MirrorTx<'_>, name: &str, updated: u64, asked: u64) -> Applied {
    let body = format!(
        r#"{{"data":[{{"id":"a","name":"{name}","updatedAt":"{}","etag":"\"{updated}\""}}],"nextCursor":null}}"#,
        at(updated).to_wire()
    );
    let page = decode::page(Resource::Contacts, body.as_bytes(), &Layout::default()).unwrap();
    tx.apply_list(Object::Contact, &page.records[0], at(asked), Phase::Kept).unwrap()
}

#[tokio::test]
async fn an_older_answer_never_overwrites_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let applied = store
        .write(|tx| {
            Ok([
                apply(tx, "first", 10, 100),
                apply(tx, "second", 20, 200),
                // Asked for before the second and arrived after it.
                apply(tx, "first", 10, 150),
                // As old, but with a newer version: the service answered it later than it was asked for.
                apply(tx, "third", 30, 150),
                // However late it was asked for: a replica that lags, or an old body from a cache.
                apply(tx, "lagging", 5, 300),
                // Seen twice, by id: a service that was restored from a backup.
                {
                    tx.accept_older_versions();
                    apply(tx, "restored", 5, 301)
                },
            ])
        })
        .await
        .unwrap();
    use Applied::{Inserted, Older, Updated};
    assert_eq!(applied, [Inserted, Updated, Older, Updated, Older, Updated]);
    store.close().await;
    let conn = rusqlite::Connection::open(&path).unwrap();
    let name: String = conn.query_row("SELECT name FROM contacts", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "restored");
}

#[tokio::test]
async fn an_older_page_brings_no_removed_record_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    let applied = store
        .write(|tx| {
            let first = apply(tx, "here", 10, 100);
            let mut gone = ConfirmedRemovals::none(Object::Contact);
            let witness = RecordId::new("w");
            assert!(gone.take(&[RecordId::new("a")], Some(&witness), &[witness.clone()].into()));
            let guard = RemovalGuard { most: 0.2, accepted: false };
            let removed = tx.remove_confirmed(&gone, &guard, Instant::EPOCH, at(200))?;
            assert_eq!(removed, RemovalDecision::Removed(1));
            Ok([first, apply(tx, "here", 10, 150), apply(tx, "back", 40, 400)])
        })
        .await
        .unwrap();
    assert_eq!(applied, [Applied::Inserted, Applied::Older, Applied::Inserted]);
    store.close().await;
}
