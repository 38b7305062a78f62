//! When an answer decides about a record, and when a doubt is looked up.

use super::*;
use crate::store::Store;

const ID: &str = "c1";

fn at(minutes: u64) -> Instant {
    Instant::EPOCH.plus(Duration::from_secs((100_000 + minutes) * 60))
}

async fn mirror() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    (dir, store)
}

fn seen<'a>(etag: Option<&'a str>, updated_at: &'a str) -> Version<'a> {
    Version { etag, updated_at: Some(updated_at) }
}

#[tokio::test]
async fn the_same_earlier_version_is_accepted_at_a_second_moment() {
    let (_dir, store) = mirror().await;
    for (minutes, etag, version, accepted) in [
        (0, "b", 1, false),
        (14, "b", 1, false),
        // Another answer begins again.
        (14, "a", 1, false),
        (28, "a", 1, false),
        (28, "a", 2, false),
        (43, "a", 2, true),
        // What was accepted is no doubt any more.
        (60, "a", 2, false),
        // A clock that was lost.
        (10, "a", 2, false),
    ] {
        let decided = store.write(move |tx| {
            tx.knowledge().answered(AnswerTime { shows: Some(at(3)), steady: at(minutes) });
            let version = at(version).to_string();
            let decided = tx.knowledge().decide_older(Object::Contact, ID, seen(Some(etag), &version), Some(at(4)))?;
            Ok((decided, tx.knowledge().take_accepted_older(Object::Contact).is_some()))
        });
        assert_eq!(decided.await.unwrap(), (accepted, accepted), "{minutes} {etag} {version}");
    }
    store.close().await;
}

#[tokio::test]
async fn lookups_that_decide_nothing_wait_longer_each_time() {
    let (_dir, store) = mirror().await;
    let raise = store.write(|tx| {
        tx.knowledge().answered(AnswerTime { shows: None, steady: at(0) });
        tx.knowledge().decide_older(Object::Contact, ID, seen(None, "x"), Some(at(4)))
    });
    assert!(!raise.await.unwrap());
    let (mut now, mut waits) = (0, Vec::new());
    let due = async |now: u64| {
        let due = store.read(move |tx| tx.due_doubts(Object::Contact, at(now), false, true)).await.unwrap();
        !due.older.is_empty()
    };
    for _ in 0..7 {
        store
            .write(move |tx| tx.knowledge().were_looked_up(Object::Contact, &[RecordId::new(ID)], at(now)))
            .await
            .unwrap();
        let begin = now;
        while !due(now).await {
            now += 1;
        }
        waits.push(now - begin);
    }
    assert_eq!(waits, [15, 30, 60, 120, 240, 360, 360]);
    // An answer that refutes the doubt and one that raises it again do not make it due at once.
    let (tx_time, is_due_before) = (now, due(now).await);
    assert!(is_due_before);
    store
        .write(move |tx| tx.knowledge().were_looked_up(Object::Contact, &[RecordId::new(ID)], at(tx_time)))
        .await
        .unwrap();
    store.write(|tx| tx.knowledge().was_shown(Object::Contact, ID, true)).await.unwrap();
    assert_eq!(store.read(|tx| tx.count_open(Object::Contact, false)).await.unwrap(), 0);
    let again = store.write(move |tx| {
        tx.knowledge().answered(AnswerTime { shows: None, steady: at(tx_time + 1) });
        tx.knowledge().decide_older(Object::Contact, ID, seen(None, "x"), Some(at(4)))
    });
    assert!(!again.await.unwrap());
    assert_eq!(store.read(|tx| tx.count_open(Object::Contact, false)).await.unwrap(), 1);
    assert!(!due(tx_time + 1).await && due(tx_time + 360).await && due(0).await, "and a clock that was lost is over");
    store.close().await;
}

#[tokio::test]
async fn the_schedule_looks_new_doubts_up_once_a_minute() {
    let (_dir, store) = mirror().await;
    let raised = store.write(|tx| {
        tx.knowledge().answered(AnswerTime { shows: None, steady: at(0) });
        for id in ["a", "b"] {
            tx.knowledge().decide_older(Object::Contact, id, seen(None, "x"), Some(at(4)))?;
        }
        tx.knowledge().were_looked_up(Object::Contact, &[RecordId::new("a")], at(0))
    });
    raised.await.unwrap();
    for (seconds, by_person, due) in [(0, false, 0), (59, false, 0), (60, false, 1), (0, true, 1)] {
        let now = at(0).plus(Duration::from_secs(seconds));
        let found = store.read(move |tx| tx.due_doubts(Object::Contact, now, false, by_person)).await.unwrap();
        assert_eq!(found.older.len(), due, "{seconds} {by_person}");
    }
    store.close().await;
}

#[tokio::test]
async fn what_is_missing_among_others_at_two_moments_is_removed() {
    let (_dir, store) = mirror().await;
    for (minutes, again) in [(0, false), (14, false), (15, true)] {
        let answer = AnswerTime { shows: None, steady: at(minutes) };
        let noted =
            store.write(move |tx| tx.knowledge().doubt_not_found(Object::Contact, &[RecordId::new(ID)], answer));
        assert_eq!(noted.await.unwrap().len(), usize::from(again), "{minutes}");
    }
    store.close().await;
}

/// A removal hides an answer of a moment before, and counts for a day, whatever the clock that dated it.
#[tokio::test]
async fn removal_hides_lagging_answers_for_a_quarter_of_an_hour_and_counts_for_a_day() {
    let (_dir, store) = mirror().await;
    for (removed, now, hides, counts) in
        [(0, 14, true, 1), (0, 15, false, 1), (0, 1_440, false, 1), (0, 1_441, false, 0), (500, 10, false, 1)]
    {
        let seen = store.write(move |tx| {
            tx.conn.execute("DELETE FROM doubts", [])?;
            tx.conn.execute(
                "INSERT INTO doubts (object_type, record_id, why, version, first_seen, tries)
                     VALUES ('contact', 'c1', 'gone', 'v', ?1, 1)",
                [at(removed).to_string()],
            )?;
            let (object, knowledge) = (Object::Contact, tx.knowledge());
            knowledge.answered(AnswerTime { shows: None, steady: at(now) });
            knowledge.forget_old_doubts(object)?;
            let hides = knowledge.was_just_removed(object, ID, seen(None, "v"))?;
            Ok((hides, tx.removal_share(object, 0, at(now))?.going))
        });
        assert_eq!(seen.await.unwrap(), (hides, counts), "removed {removed}, now {now}");
    }
    store.close().await;
}

/// Identifiers of fields and records may be equal.
#[tokio::test]
async fn removed_record_takes_no_doubt_about_a_field_with_it() {
    let (_dir, store) = mirror().await;
    let left = store.write(|tx| {
        tx.conn.execute_batch(
            "INSERT INTO doubts (object_type, record_id, why) VALUES
                     ('contact', '7', 'missed'), ('contact', '7', 'omitted'), ('contact', '7', 'gone'),
                     ('contact_key', '7', 'lacked'), ('contact_key', '7', 'unknown key'), ('contact', '8', 'omitted')",
        )?;
        tx.knowledge().forget_doubts(Object::Contact, "7")?;
        tx.value::<String>("SELECT group_concat(record_id || ' ' || why) FROM doubts", [])
    });
    assert_eq!(left.await.unwrap(), "7 gone,8 omitted,7 lacked,7 unknown key");
    store.close().await;
}

/// Many records are removed at once, and as many are in doubt then.
#[test]
fn doubts_of_a_removed_record_are_found_without_looking_through_all() {
    let mut conn = rusqlite::Connection::open_in_memory().unwrap();
    crate::store::file::migrate::migrate(&mut conn).unwrap();
    let plan =
        format!("EXPLAIN QUERY PLAN DELETE FROM doubts WHERE object_type = ?1 AND {OF_RECORD} AND record_id = ?2");
    let mut stmt = conn.prepare(&plan).unwrap();
    let steps: Vec<String> = stmt.query_map(["x", "y"], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
    assert_eq!(steps, ["SEARCH doubts USING PRIMARY KEY (object_type=? AND why=? AND record_id=?)"]);
}
