//! Whatever becomes of one entry of the private state, every verb ends well, and two runs later the mirror is exact: an
//! entry is a hint, and its loss costs requests at most.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::clocks::claimed;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Object, Ru};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::store::StateKey;
use crm_mirror::sync::Job;
use rusqlite::Connection;
use serde_json::json;
use strum::VariantArray;

/// What an entry may become.
const DAMAGES: [&str; 8] =
    ["", "\u{0}", "{", "null", "[[1,\"x\"]]", "{\"from\":\"another version\"}", "\"2999-01-01T00:00:00Z\"", "-1"];

/// Damages an entry: `which` 0 deletes it, 1 cuts it in half, the others replace it, or put it where there was none.
fn damage(path: &Path, name: &str, which: usize) {
    let conn = Connection::open(path).unwrap();
    match which {
        0 => conn.execute("DELETE FROM state WHERE name = ?1", [name]),
        1 => conn.execute(
            "UPDATE state SET value = CAST(substr(value, 1, length(value) / 2) AS TEXT) WHERE name = ?1",
            [name],
        ),
        _ => conn.execute("INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)", (name, DAMAGES[which - 2])),
    }
    .unwrap();
}

/// A mirror in the middle of everything: a column to fill, a sweep under way, a detail that failed, a key that nothing
/// explains, counts that are owed.
async fn busy() -> (Crm, Mirror) {
    busy_after(&Job::resync(), 10).await
}

/// An up-to-date mirror of a few contacts, which have a key that nothing explains.
async fn idle() -> (Crm, Mirror) {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    for n in 0..8 {
        let contact = json!({"id": format!("ct{n:02}"), "name": "Ann", "customFields": {"tier": "a", "late": "x"}});
        world.create(Object::Contact, &contact);
    }
    world.create(Object::Company, &json!({"id": "co", "name": "Co"}));
    world.create(crm_mirror::model::Resource::TeamMembers, &json!({"id": "tm"}));
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(3));
    let mut mirror = Mirror::one_at_a_time();
    mirror.tries = 1;
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    (crm, mirror)
}

/// The same, where a job ends after so many RU.
async fn busy_after(job: &Job, units: u64) -> (Crm, Mirror) {
    let (crm, mut mirror) = prepared("lost_state".into(), idle).await;
    crm.wait(6 * 3600);
    // A field with values that no change shows, one bad detail, and changes.
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "later", DataType::ShortText));
        world.fields().define(NewField::new(Object::Contact, "memo", DataType::LongText));
        for n in 0..8 {
            let values = json!({"customFields": {"later": format!("v{n}"), "memo": format!("m{n}")}});
            world.edit_silently(Object::Contact, &format!("ct{n:02}"), &values);
        }
        for n in 0..5 {
            world.edit(Object::Contact, &format!("ct{n:02}"), &json!({"name": "Bob"}));
        }
        world.remove(Object::Contact, "ct07");
    });
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).record("ct03").forever());
    mirror.limits.limit = Ru::new(mirror.ledger_total() + units);
    let _ = mirror.run(&crm, job).await;
    mirror.limits.limit = Ru::new(1_000_000);
    crm.sandbox.faults().clear();
    (crm, mirror)
}

/// A copy of the mirror of its own.
fn copied(mirror: &Mirror) -> Mirror {
    let mut copy = Mirror::one_at_a_time();
    copy.tries = 1;
    let conn = Connection::open(&mirror.path).unwrap();
    conn.execute("VACUUM INTO ?1", [copy.path.display().to_string()]).unwrap();
    copy.key.clone_from(&mirror.key);
    copy
}

/// Half of the entries: each that there is is lost, or damaged, and each that there can be is damaged in one of the ways.
async fn any_entry_may_be_lost(half: usize) {
    let (crm, mirror) = busy().await;
    for (number, key) in StateKey::VARIANTS.iter().enumerate().filter(|(number, _)| number % 2 == half) {
        let name = key.as_str();
        let there = mirror.count(&format!("state WHERE name = '{name}'")) > 0;
        let damaged = if number % 3 == 0 { 1 } else { 2 + number % DAMAGES.len() };
        for which in [Some(damaged), there.then_some(0)].into_iter().flatten() {
            let copy = copied(&mirror);
            damage(&copy.path, name, which);
            // A record that was removed is found by a sweep, whatever is remembered.
            let job = [Job::sync(), Job::resync(), Job::audit(), Job::verify()][(number + which) % 4].clone();
            for job in [job, Job::resync()] {
                crm.wait(90_000);
                let report = copy.run(&crm, &job).await;
                assert!(report.is_ok(), "{name}, damage {which}, {}: {report:?}", job.name());
            }
            let differences = copy.differences(&crm);
            assert!(differences.is_empty(), "{name}, damage {which}:\n{}", differences.join("\n"));
        }
    }
}

#[tokio::test]
async fn any_entry_of_the_state_may_be_lost() {
    any_entry_may_be_lost(0).await;
}

#[tokio::test]
async fn any_other_entry_of_the_state_may_be_lost() {
    any_entry_may_be_lost(1).await;
}

/// A table with hints: its name, its key, what distinguishes the kinds of its rows, and the columns that may be damaged.
#[derive(Clone, Copy)]
struct Hints(&'static str, &'static str, &'static str, &'static [&'static str]);

const READS: Hints =
    Hints("reads", "object, purpose, part", "object || ' ' || purpose", &["position", "bounds", "part", "as_of"]);
const FRONTIER: Hints = Hints("frontier", "object", "'frontier ' || object", &["watermark", "served_at", "doubt_from"]);

/// Deletes each row of a table in turn, in copies of a mirror, and damages each column of a row whose kind has it not among
/// the `damaged` ones yet; then runs the copy twice.
async fn any_row_may_be_lost(crm: &Crm, mirror: &Mirror, hints: Hints, damaged: &mut BTreeSet<(String, &'static str)>) {
    let Hints(table, key, kind, columns) = hints;
    for number in 0..mirror.count(table) {
        let row = format!("FROM {table} ORDER BY {key} LIMIT 1 OFFSET {number}");
        let kind = mirror.one(&format!("SELECT {kind} {row}"));
        let which = format!("WHERE ({key}) IN (SELECT {key} {row})");
        let columns = columns.iter().filter(|column| damaged.insert((kind.clone(), column)));
        let damages = columns.map(|column| format!("UPDATE {table} SET {column} = '{{' {which}"));
        for damage in damages.chain([format!("DELETE FROM {table} {which}")]) {
            let copy = copied(mirror);
            assert_eq!(Connection::open(&copy.path).unwrap().execute(&damage, []).unwrap(), 1);
            for job in [Job::sync(), Job::resync()] {
                crm.wait(90_000);
                let report = copy.run(crm, &job).await;
                assert!(report.is_ok(), "{damage}, {}: {report:?}", job.name());
            }
            let differences = copy.differences(crm);
            assert!(differences.is_empty(), "{damage}:\n{}", differences.join("\n"));
        }
    }
}

/// Each row of what is being read, and of how far changes are known, is lost or damaged.
#[tokio::test]
async fn any_row_of_a_reading_may_be_lost() {
    let (mut met, mut damaged) = (BTreeSet::new(), BTreeSet::new());
    for units in 2..24 {
        let (crm, mirror) = busy_after(&Job::sync(), units).await;
        let purpose = mirror.one("SELECT group_concat(object || ' ' || purpose) FROM reads");
        if purpose != "NULL" && met.insert(purpose) {
            any_row_may_be_lost(&crm, &mirror, READS, &mut damaged).await;
            any_row_may_be_lost(&crm, &mirror, FRONTIER, &mut damaged).await;
        }
    }
    let (crm, mirror) = busy().await;
    any_row_may_be_lost(&crm, &mirror, READS, &mut damaged).await;
    assert!(met.iter().any(|purpose| purpose.contains("changes")), "{met:?}");
    assert!(met.iter().any(|purpose| purpose.contains("fill")), "{met:?}");
}

/// A copy of so many contacts that the budget interrupted after some pages.
async fn interrupted_copy(contacts: u64, units: u64) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for n in 0..contacts {
        let at = noon().minus(Duration::from_secs(100_000 - 60 * n)).to_wire();
        world.create(Object::Contact, &json!({"id": format!("ct{n:02}"), "createdAt": at, "updatedAt": at}));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.limit = Ru::new(units);
    mirror.sync(&crm).await;
    let copied = mirror.count("contacts");
    assert!(copied >= 10 && (copied as u64) < contacts, "{copied}");
    (crm, mirror)
}

fn forget_reads(mirror: &Mirror) {
    let deleted = Connection::open(&mirror.path)
        .unwrap()
        .execute("DELETE FROM reads WHERE object = 'contact' AND purpose = 'sweep'", []);
    assert_eq!(deleted.unwrap(), 1);
}

/// The copy's place is lost, so nobody knows what it has read: nobody claims that it is complete before all is read again.
#[tokio::test]
async fn copy_that_lost_its_place_is_not_called_complete_before_all_is_read_again() {
    let (crm, mut mirror) = interrupted_copy(60, 11).await;
    let copied = mirror.count("contacts");
    forget_reads(&mirror);
    crm.wait(86_400);
    mirror.limits.limit = Ru::new(8);
    mirror.sync(&crm).await;
    assert!((copied..60).contains(&mirror.count("contacts")));
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None);
    mirror.limits.limit = Ru::new(1_000);
    for _ in 0..2 {
        crm.wait(86_400);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
    assert!(claimed(&mirror, crm.clock.now())[0].is_some(), "the second look found nothing");
}

/// The whole copy is forgotten and begins again, beside rows of records that were removed meanwhile: nobody claims that it
/// is complete before a person has accepted their removal.
#[tokio::test]
async fn copy_with_rows_whose_removal_is_refused_is_not_called_complete() {
    let (crm, mut mirror) = interrupted_copy(30, 8).await;
    forget_reads(&mirror);
    Connection::open(&mirror.path).unwrap().execute("DELETE FROM goals WHERE kind = 'sweeping'", []).unwrap();
    for n in 0..9 {
        crm.sandbox.with_world(|world| world.remove(Object::Contact, &format!("ct{n:02}")));
    }
    mirror.limits.limit = Ru::new(1_000);
    let claims = || claimed(&mirror, crm.clock.now())[0];
    for _ in 0..3 {
        crm.wait(86_400);
        mirror.sync(&crm).await;
        assert_eq!((mirror.count("contacts"), claims()), (30, None));
    }
    crm.wait(86_400);
    mirror.run(&crm, &Job::sync().accepting_removals()).await.unwrap();
    mirror.assert_exact_lists(&crm);
    crm.wait(86_400);
    mirror.sync(&crm).await;
    assert!(claims().is_some(), "counted a second time");
}
