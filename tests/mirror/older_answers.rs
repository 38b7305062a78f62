//! Answers that arrive out of order: an older one never overwrites a newer one and never restores a removed record.

use std::time::Duration;

use crate::outbox_bench::{DAY, mirrored, push, set_position, states};

use crm_mirror::api::decode;
use crm_mirror::model::{
    AnswerTime, Clock, Instant, Layout, Object, RecordId, RequestRegister, RequestStamp, Resource,
};
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::store::{Applied, ConfirmedRemovals, Goal, MirrorTx, RemovalDecision, RemovalGuard, Store};
use crm_mirror::sync::Job;

fn at(second: u64) -> Instant {
    Instant::EPOCH.plus(Duration::from_secs(1_000_000 + second))
}

/// Requests in the order of sending, by a clock that is set back a day between any two of them.
fn requests(store: &Store, count: u64) -> Vec<RequestStamp> {
    let register: &RequestRegister = &store.requests;
    let back = |n: u64| at(10_000_000).minus(Duration::from_secs(n * 86_400));
    (0..count).map(|n| RequestStamp { at: back(n).into(), order: register.begin() }).collect()
}

/// Applies a list item with this `name` and `updated` time, if any, from the answer to `asked`.
fn apply(tx: &MirrorTx<'_>, name: &str, updated: Option<u64>, asked: &RequestStamp) -> Applied {
    let updated = updated.map_or("null".into(), |updated| format!("\"{}\"", at(updated).to_wire()));
    let body = format!(r#"{{"data":[{{"id":"a","name":"{name}","updatedAt":{updated}}}],"nextCursor":null}}"#);
    let page = decode::page(Resource::Contacts, body.as_bytes(), &Layout::default()).unwrap();
    tx.claims().set(Goal::Copied(Object::Contact)).unwrap();
    tx.records().apply_list(Object::Contact, &page.records[0], asked).unwrap()
}

fn name(store_path: &std::path::Path) -> String {
    let conn = rusqlite::Connection::open(store_path).unwrap();
    conn.query_row("SELECT name FROM contacts", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn older_version_never_overwrites_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let asked = requests(&store, 6);
    let applied = store
        .write(move |tx| {
            Ok([
                apply(tx, "first", Some(10), &asked[0]),
                apply(tx, "second", Some(20), &asked[2]),
                // Requested before the second and received after it.
                apply(tx, "first", Some(10), &asked[1]),
                // Requested as early, but with a newer version: the service answered it later.
                apply(tx, "third", Some(30), &asked[1]),
                // However late it was requested: a lagging replica, or an old body from a cache.
                apply(tx, "lagging", Some(5), &asked[3]),
                // From an answer that is as new as the row: a service whose clocks differ, or that was restored.
                {
                    tx.knowledge().answered(AnswerTime { shows: Some(at(30)), steady: at(0) });
                    apply(tx, "restored", Some(5), &asked[4])
                },
            ])
        })
        .await
        .unwrap();
    use Applied::{Inserted, Older, Updated};
    assert_eq!(applied, [Inserted, Updated, Older, Updated, Older, Updated]);
    store.close().await;
    assert_eq!(name(&path), "restored");
}

/// A row dated in the future keeps no change out, but an answer that was requested before it is none.
#[tokio::test]
async fn earlier_answer_overwrites_no_row_that_is_dated_in_the_future() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let asked = requests(&store, 3);
    let applied = store
        .write(move |tx| {
            Ok([
                apply(tx, "dated in the future", Some(31_536_000_000), &asked[1]),
                apply(tx, "first", Some(20), &asked[0]),
                apply(tx, "dated back", Some(30), &asked[2]),
            ])
        })
        .await
        .unwrap();
    use Applied::{Inserted, Older, Updated};
    assert_eq!(applied, [Inserted, Older, Updated]);
    store.close().await;
    assert_eq!(name(&path), "dated back");
}

/// A row dated in the future keeps no change out of the lists. A detail that is older may come from a lagging replica, and if the
/// service has dated the record back, a list shows that.
#[tokio::test]
async fn older_detail_overwrites_no_row_that_is_dated_in_the_future() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let asked = requests(&store, 4);
    let applied = store
        .write(move |tx| {
            let body = format!(r#"{{"data":{{"id":"a","name":"lagging","updatedAt":"{}"}}}}"#, at(10).to_wire());
            let detail = decode::detail(Resource::Contacts, body.as_bytes(), &Layout::default()).unwrap();
            Ok([
                apply(tx, "first", Some(20), &asked[0]),
                // A thousand years ahead of every clock.
                apply(tx, "dated in the future", Some(31_536_000_000), &asked[1]),
                tx.records().apply_detail(Object::Contact, &detail, &asked[2], true)?.0,
                apply(tx, "dated back", Some(30), &asked[3]),
            ])
        })
        .await
        .unwrap();
    use Applied::{Inserted, Older, Updated};
    assert_eq!(applied, [Inserted, Updated, Older, Updated]);
    store.close().await;
    assert_eq!(name(&path), "dated back");
}

/// Of a dated and an undated version nothing says which is later: a lagging replica may show a detail of either. Lists decide.
#[tokio::test]
async fn detail_of_another_version_that_cannot_be_compared_overwrites_no_row() {
    let version = |etag: &str, updated: Option<u64>| {
        let updated = updated.map_or("null".into(), |updated| format!("\"{}\"", at(updated).to_wire()));
        format!(r#"{{"id":"a","name":"{etag}","etag":"{etag}","updatedAt":{updated}}}"#)
    };
    for (row, shown, expected) in [
        (None, Some(10), Applied::Older),
        (Some(20), None, Applied::Older),
        (None, None, Applied::Updated),
        (Some(20), Some(30), Applied::Updated),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let asked = requests(&store, 2);
        let (list, detail) = (version("list", row), version("detail", shown));
        let applied = store.write(move |tx| {
            let page = format!(r#"{{"data":[{list}],"nextCursor":null}}"#);
            let page = decode::page(Resource::Contacts, page.as_bytes(), &Layout::default()).unwrap();
            let detail = format!(r#"{{"data":{detail}}}"#);
            let detail = decode::detail(Resource::Contacts, detail.as_bytes(), &Layout::default()).unwrap();
            let records = tx.records();
            tx.claims().set(Goal::Copied(Object::Contact))?;
            records.apply_list(Object::Contact, &page.records[0], &asked[0])?;
            Ok(records.apply_detail(Object::Contact, &detail, &asked[1], true)?.0)
        });
        assert_eq!(applied.await.unwrap(), expected, "a row of {row:?}, a detail of {shown:?}");
        store.close().await;
        let kept = if expected == Applied::Older { "list" } else { "detail" };
        assert_eq!(name(&dir.path().join("mirror.db")), kept);
    }
}

#[tokio::test]
async fn answer_to_the_later_request_wins_for_equal_or_missing_versions() {
    for version in [Some(10), None] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        let asked = requests(&store, 5);
        let stamps = asked.clone();
        let mut applied = store
            .write(move |tx| {
                Ok(vec![
                    apply(tx, "first", version, &asked[0]),
                    apply(tx, "third", version, &asked[2]),
                    apply(tx, "second", version, &asked[1]),
                ])
            })
            .await
            .unwrap();
        // A later answer without changes counts as well, and so does a separate transaction.
        for (said, number) in [("third", 4), ("fourth", 3)] {
            let stamp = stamps[number].clone();
            applied.push(store.write(move |tx| Ok(apply(tx, said, version, &stamp))).await.unwrap());
        }
        use Applied::{Inserted, Older, Unchanged, Updated};
        assert_eq!(applied, [Inserted, Updated, Older, Unchanged, Older], "{version:?}");
        store.close().await;
        assert_eq!(name(&path), "third");
    }
}

/// The removal is stamped by a clock that is far ahead of all others.
#[tokio::test]
async fn older_page_restores_no_removed_record_and_a_later_one_does_whatever_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let asked = requests(&store, 4);
    let applied = store
        .write(move |tx| {
            let first = apply(tx, "here", Some(10), &asked[0]);
            let mut gone = ConfirmedRemovals::none(Object::Contact);
            let witness = RecordId::new("w");
            assert!(gone.take(&[RecordId::new("a")], Some(&witness), &[witness.clone()].into(), &asked[2].order));
            let guard = RemovalGuard { most: 0.2, accepted: false };
            let removed = tx.records().remove_confirmed(&gone, &guard, Instant::EPOCH, at(999_999_999))?;
            assert_eq!(removed, RemovalDecision::Removed(1));
            Ok([first, apply(tx, "here", Some(10), &asked[1]), apply(tx, "back", Some(10), &asked[3])])
        })
        .await
        .unwrap();
    assert_eq!(applied, [Applied::Inserted, Applied::Older, Applied::Inserted]);
    store.close().await;
    assert_eq!(name(&path), "back");
    let conn = rusqlite::Connection::open(&path).unwrap();
    let removed: i64 = conn.query_row("SELECT count(*) FROM removed_records", [], |row| row.get(0)).unwrap();
    assert_eq!(removed, 0);
}

/// The service's time that the last run learned says nothing about a row that was written days later.
#[tokio::test]
async fn lagging_list_returns_no_row_that_was_written_days_after_the_last_run() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = false;
    let before = crm.clock.now();
    crm.wait(3 * DAY);
    set_position(&mirror, "a", "CTO");
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied");
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(before)).lists().forever());
    mirror.settings.write_back = false;
    mirror.run(&crm, &Job::sync()).await.unwrap();
    assert_eq!(mirror.one("SELECT position FROM contacts WHERE id = 'a'"), "'CTO'");
}
