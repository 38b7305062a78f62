//! Entries of the private state: the first byte chooses the entry, the rest is its text. Half of them are decoded alone,
//! which is faster.
//!
//! An entry is a hint: whatever it holds, the status of the mirror, the forecast of a run and the change feed can be read.

use std::time::Duration;

use crm_mirror::app::status;
use crm_mirror::budget::{Hold, Ledger, Limits};
use crm_mirror::model::{Clock, ElapsedClock, Instant, Object, Purpose, Ru, ServiceTime};
use crm_mirror::store::{Reader, StateKey, StoreError, feed};
use crm_mirror::sync::checks::identity::Identity;
use crm_mirror::sync::step_failures::StepFailures;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::VariantArray;

use super::choice;
use super::mirrored::{Mirrored, mirrored};
use crate::support::noon;

const DAY: Duration = Duration::from_secs(86_400);

thread_local! {
    static OPEN: (Connection, Reader) = (mirrored().connection(), Reader::open(&mirrored().mirror.path).unwrap());
}

/// Checks one entry.
pub fn check(data: &[u8]) {
    let (which, text) = choice(data);
    let keys = StateKey::VARIANTS;
    let key = keys[which % keys.len()];
    decoded(&key, text);
    let (true, Ok(text)) = (which < 128, std::str::from_utf8(text)) else { return };
    // Another writer than the last one is another file: the store ends, as it must.
    if matches!(key, StateKey::LastWriter) {
        return;
    }
    let mirrored = mirrored();
    OPEN.with(|(conn, reader)| {
        let name = key.as_str();
        let before: Option<String> =
            conn.query_row("SELECT value FROM state WHERE name = ?1", [&name], |row| row.get(0)).optional().unwrap();
        let set = |value: Option<&str>| match value {
            Some(value) => conn
                .prepare_cached("INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)")
                .and_then(|mut stmt| stmt.execute([name, value])),
            None => conn.execute("DELETE FROM state WHERE name = ?1", [&name]),
        };
        set(Some(text)).unwrap();
        read(mirrored, reader);
        written(mirrored);
        set(before.as_deref()).unwrap();
    });
}

fn read(mirrored: &Mirrored, reader: &Reader) {
    let now = mirrored.crm.clock.now();
    let moment = reader.begin().unwrap();
    let status = status::at_moment(&moment, &mirrored.config, now).expect("the status");
    serde_json::to_string(&status).expect("the status as JSON");
    let _ = status.readiness(&mirrored.config, now, None);
    feed::mirror_id(&moment).expect("the mirror's id");
    moment.takes_edits().expect("whether edits are accepted");
    for object in Object::ALL {
        moment.count_rows(object).expect("how many rows there are");
    }
}

/// What a run does with the entries without a request; nothing is kept.
fn written(mirrored: &Mirrored) {
    let now = mirrored.crm.clock.now();
    let done = mirrored.runtime.block_on(mirrored.store.write(move |tx| {
        for object in Object::ALL {
            tx.knowledge().aged_details(object, now, 10)?;
            tx.removal_share(object, 1, now)?;
        }
        tx.feed().forget_old_history(DAY, ElapsedClock::default().at(now.into()), now, Some(now))?;
        tx.edits().set_write_back(true)?;
        Err::<(), _>(StoreError::Interrupted)
    }));
    assert!(matches!(done, Err(StoreError::Interrupted)), "{done:?}");
}

/// Decodes an entry alone: what is written and read again is equal.
fn decoded(key: &StateKey, text: &[u8]) {
    match key {
        StateKey::Ledger => {
            again::<Ledger>(text);
            let _ = serde_json::from_slice(text).map(charged);
            let _ = serde_json::from_slice::<Ledger>(text).map(|ledger| ledger.hold.map(held));
        }
        StateKey::Identity => again::<Identity>(text),
        StateKey::ServiceTime => again::<ServiceTime>(text),
        StateKey::StepFailures => again::<StepFailures>(text),
        StateKey::PausedSince => again::<Instant>(text),
        _ => {}
    }
}

/// A ledger never gives out more than its limit, and a day later it has a whole window again.
fn charged(ledger: Ledger) {
    let limits = Limits { limit: Ru::new(100), window: DAY, charge_failed: false };
    let now = noon();
    let current = ledger.at(now, &limits);
    assert_eq!(current.at(now, &limits), current, "{ledger:?}");
    let _ = (current.refills_at(&limits), current.refills_at_by(&limits, now), current.steady_time());
    if let Ok(charged) = ledger.charge(now, Ru::new(60), Purpose::Changes, &limits, Ru::ZERO) {
        assert!(charged.charge(now, Ru::new(60), Purpose::Changes, &limits, Ru::ZERO).is_err(), "{ledger:?}");
        assert_eq!(charged.ended(Ru::new(60)).refund(Ru::new(60)).used, current.used, "{ledger:?}");
    }
}

/// A hold is never longer than a day, whatever the clock.
fn held(hold: Hold) {
    let now = noon();
    assert!(hold.by_clock(now).left(now.plus(DAY)).is_none(), "{hold:?}");
    let next = Hold::after(Some(hold), now, Some(Duration::from_secs(10)));
    assert!(next.left(now).is_some_and(|left| left >= Duration::from_secs(1)), "{hold:?}");
    let _ = Hold::after(Some(next), now, None);
}

fn again<T: DeserializeOwned + Serialize>(text: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(text) {
        let first = serde_json::to_string(&value).unwrap();
        let second: T = serde_json::from_str(&first).expect("what was written");
        assert_eq!(serde_json::to_string(&second).unwrap(), first);
    }
}
