//! What no answer shows is unknown, and older contents of a file are not its last ones: nothing is overwritten because of
//! either.

use std::sync::Arc;

use crate::outbox_unseen::{contents, hide, write_contents};
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, bodies, noon};
use crate::unseen_cases::{Column, CopyKind, columns_of};
use crm_mirror::model::{DataType, EditState, Instant, Object, RecordId, Resource, is_unknown};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::outbox::{EditRequest, queue};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::store::{MirrorTx, outbox_report, write_beside};
use crm_mirror::sync::Job;
use serde_json::{Value, json};

/// A contact with a value in each of its fields, in a mirror that was read while no answer showed this one.
async fn unshown(key: &'static str, details: bool) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "long", DataType::LongText));
    world.fields().define(NewField::new(Object::Contact, "number", DataType::Integer));
    let custom = json!({"long": "theirs", "number": 1});
    world.create(
        Object::Contact,
        &json!({"id": "a", "name": "Ann", "position": "theirs", "notes": "theirs", "customFields": custom}),
    );
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    (mirror.settings.write_back, mirror.settings.details) = (true, details);
    crm.sandbox.faults().add(Rule::new(bodies::without(key)).method("GET").forever());
    mirror.sync(&crm).await;
    (crm, mirror)
}

fn request(column: Column, value: Value) -> EditRequest {
    let changes = vec![(column.name.into(), Given::Json(value))];
    EditRequest { object: Object::Contact, record: RecordId::new("a"), changes }
}

#[tokio::test]
async fn field_that_no_answer_shows_is_unknown_until_one_does() {
    let position = columns_of(Object::Contact)[0];
    let columns = columns_of(Object::Contact).iter().map(|column| (*column, true));
    for (column, details) in columns.chain([(position, false)]) {
        let (crm, mirror) = unshown(column.key, details).await;
        let set = |value: &str| {
            let sql = format!("UPDATE contacts_full SET {} = {value} WHERE id = 'a'", column.name);
            rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql)
        };
        let refused = set("42").unwrap_err().to_string();
        assert!(refused.contains(&format!("{} is unknown", column.name)), "{refused}");
        // The record is read first, and the answer shows no more.
        let now = Instant::system_now();
        let asked = request(column, column.value("ours", 42));
        let queue_it = |tx: &MirrorTx<'_>| queue(tx, &asked, now);
        let queued = write_beside(&mirror.path, queue_it).unwrap();
        assert!(is_unknown(&queued.fields[column.name].0), "{}", column.name);
        mirror.run(&crm, &Job::push()).await.unwrap();
        let line = write_beside(&mirror.path, |tx| outbox_report::edit(tx, queued.edit.unwrap())).unwrap();
        assert_eq!(line.0.state, EditState::Conflict, "{}", column.name);
        assert!(line.1.last().unwrap().why.contains("does not show what the field has"), "{:?}", line.1);
        assert_eq!(crm.sandbox.log().patches(Object::Contact), 0, "{}", column.name);
        // An answer that shows it ends that.
        crm.sandbox.faults().clear();
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &json!({"name": "Bea"})));
        crm.wait(60);
        mirror.sync(&crm).await;
        if details {
            mirror.assert_exact(&crm);
        }
        write_beside(&mirror.path, |tx| user_decisions::decide(tx, queued.edit.unwrap(), Decision::Theirs, now))
            .unwrap();
        set("42").unwrap();
        mirror.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(mirror.one("SELECT count(*) FROM outbox WHERE state = 'applied'"), "1", "{}", column.name);
    }
}

/// A repair that finds a record equal has seen all that its answer shows.
#[tokio::test]
async fn repair_that_finds_a_record_equal_knows_what_it_was_shown() {
    let (crm, mirror) = unshown("number", false).await;
    crm.sandbox.faults().clear();
    crm.sandbox.faults().add(Rule::new(bodies::without("position")).method("GET").forever());
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &json!({"name": "Bea"})));
    crm.wait(60);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT position FROM contacts"), "'theirs'");
    let unshown = "unshown_columns WHERE record_id = 'a'";
    assert_eq!(mirror.count(unshown), 1, "the version of the row may have another position");
    crm.sandbox.faults().clear();
    crm.sandbox.clear_log();
    let repair = Job { full: true, ..Job::audit() };
    mirror.run(&crm, &repair).await.unwrap();
    assert_eq!(mirror.count(unshown), 0);
    rusqlite::Connection::open(&mirror.path)
        .unwrap()
        .execute_batch("UPDATE contacts_full SET position = 'ours'")
        .unwrap();
    crm.sandbox.clear_log();
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(crm.charged(), 2, "the update alone: nothing had to be read before it");
}

#[tokio::test]
async fn value_that_the_answer_after_a_refused_version_does_not_show_is_not_overwritten() {
    for column in columns_of(Object::Contact).iter().copied() {
        let (crm, mirror) = unshown("nothing", true).await;
        let sql = format!("UPDATE contacts_full SET {} = 42 WHERE id = 'a'", column.name);
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).unwrap();
        hide(&crm, column);
        let newer = column.body(&column.value("newer", 2));
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &newer));
        mirror.run(&crm, &Job::push()).await.unwrap();
        let state = mirror.one("SELECT state FROM outbox");
        assert_eq!(state, "'conflict'", "{}", column.name);
        let there = crm.sandbox.with_world(|world| world.detail_json(Object::Contact, "a")).unwrap();
        assert_eq!(column.members(&there)[column.key], column.value("newer", 2));
    }
}

#[tokio::test]
async fn older_contents_are_a_copy_with_and_without_the_lock_file() {
    let copies = [CopyKind::SetBack, CopyKind::SetBackUnderAnotherName];
    for (copy, lock_follows) in copies.into_iter().flat_map(|copy| [(copy, false), (copy, true)]) {
        let (crm, mirror) = unshown("nothing", true).await;
        let set = "UPDATE contacts_full SET position = 'ours' WHERE id = 'a'";
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(set).unwrap();
        let before = contents(&mirror);
        mirror.run(&crm, &Job::push()).await.unwrap();
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &json!({"position": "theirs"})));
        let mut restored = Mirror::one_at_a_time();
        (restored.settings, restored.tries) = (mirror.settings, 1);
        // The file keeps its place and its number, or another one is the same file under a new name.
        let file = if copy == CopyKind::SetBack { &mirror } else { &restored };
        if copy == CopyKind::SetBackUnderAnotherName {
            std::fs::rename(&mirror.path, &restored.path).unwrap();
            if lock_follows {
                std::fs::rename(mirror.path.with_extension("db.lock"), restored.path.with_extension("db.lock"))
                    .unwrap();
            }
        }
        write_contents(file, &before);
        file.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(file.one("SELECT state FROM outbox"), "'held'", "{copy:?} {lock_follows}");
        let there = crm.sandbox.with_world(|world| world.detail_json(Object::Contact, "a")).unwrap();
        assert_eq!(there["position"], "theirs", "{copy:?} {lock_follows}");
    }
}

#[tokio::test]
async fn null_in_place_of_all_custom_values_shows_none_of_them() {
    let (crm, mirror) = unshown("nothing", true).await;
    crm.wait(60);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &json!({"name": "Bea"})));
    crm.wait(60);
    crm.sandbox.faults().clear();
    crm.sandbox.faults().add(Rule::new(bodies::groups("null")).records().forever());
    mirror.sync(&crm).await;
    let custom = columns_of(Object::Contact).iter().copied().filter(|column| column.is_custom());
    for (edit, column) in (1..).zip(custom) {
        let sql = format!("UPDATE contacts_full SET {} = 42 WHERE id = 'a'", column.name);
        let refused = rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).unwrap_err().to_string();
        assert!(refused.contains(&format!("{} is unknown", column.name)), "{refused}");
        let asked = request(column, column.value("ours", 42));
        let now = Instant::system_now();
        write_beside(&mirror.path, |tx| queue(tx, &asked, now)).unwrap();
        mirror.run(&crm, &Job::push()).await.unwrap();
        let end = mirror.one(&format!("SELECT state FROM outbox WHERE id = {edit}"));
        assert_eq!(end, "'conflict'", "{}", column.name);
        write_beside(&mirror.path, |tx| user_decisions::decide(tx, edit, Decision::Theirs, now)).unwrap();
    }
    assert_eq!(crm.sandbox.log().patches(Object::Contact), 0);
}

/// Lists have another shape in place of all custom values: it hides theirs, and none that only details have.
#[tokio::test]
async fn foreign_shape_in_a_list_hides_no_value_that_only_details_have() {
    let (crm, mut mirror) = unshown("nothing", true).await;
    let set = |column: &str, value: &str| {
        let sql = format!("UPDATE contacts_full SET {column} = {value} WHERE id = 'a'");
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql)
    };
    set("cf_long", "'ours'").unwrap();
    mirror.run(&crm, &Job::push()).await.unwrap();
    // A detail would show the custom values.
    mirror.settings.details = false;
    crm.sandbox.faults().clear();
    crm.sandbox.faults().add(Rule::new(bodies::groups("[]")).lists().forever());
    crm.wait(60);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT extra ->> '$.customFields' FROM contacts"), "'[]'");
    write_beside(&mirror.path, |tx| user_decisions::undo(tx, &[1], Instant::system_now())).unwrap();
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(mirror.one("SELECT group_concat(state) FROM outbox"), "'applied,applied'");
    mirror.sync(&crm).await;
    set("cf_long", "'again'").unwrap();
    let refused = set("cf_number", "42").unwrap_err().to_string();
    assert!(refused.contains("does not fit the column"), "{refused}");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(mirror.one("SELECT group_concat(state) FROM outbox"), "'applied,applied,applied'");
}

#[tokio::test]
async fn held_edit_of_a_copy_is_not_carried_out_where_its_original_was() {
    let (crm, mirror) = unshown("nothing", true).await;
    let now = Instant::system_now();
    let set = "UPDATE contacts_full SET position = 'ours' WHERE id = 'a'";
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(set).unwrap();
    write_beside(&mirror.path, |tx| tx.edits().hold_new_edits("too many", now)).unwrap();
    let mut copy = Mirror::one_at_a_time();
    (copy.settings, copy.tries) = (mirror.settings, 1);
    write_contents(&copy, &contents(&mirror));
    let position = |value: &str| {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "a", &json!({"position": value})));
    };
    for (file, end) in [(&mirror, "'applied'"), (&copy, "'conflict'")] {
        // Opening a copy holds its edits.
        let _ = file.run(&crm, &Job::push()).await;
        write_beside(&file.path, |tx| user_decisions::decide(tx, 1, Decision::Release, now)).unwrap();
        file.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(file.one("SELECT state FROM outbox"), end);
        position("theirs");
    }
    assert_eq!(crm.sandbox.log().carried_out().count(), 1);
}

/// If the request of one was carried out on the version of the copy, no other on that version was.
#[tokio::test]
async fn edits_of_a_restored_record_are_carried_out_one_after_the_other() {
    for one_by_one in [false, true] {
        let (crm, mirror) = unshown("nothing", true).await;
        let now = Instant::system_now();
        for column in ["position", "notes"] {
            let set = format!("UPDATE contacts_full SET {column} = 'ours' WHERE id = 'a'");
            rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&set).unwrap();
        }
        let mut copy = Mirror::one_at_a_time();
        (copy.settings, copy.tries) = (mirror.settings, 1);
        write_contents(&copy, &contents(&mirror));
        let _ = copy.run(&crm, &Job::push()).await;
        for edits in if one_by_one { vec![vec![1], vec![2]] } else { vec![vec![1, 2]] } {
            for edit in edits {
                write_beside(&copy.path, |tx| user_decisions::decide(tx, edit, Decision::Release, now)).unwrap();
            }
            copy.run(&crm, &Job::push()).await.unwrap();
        }
        let states = copy.one("SELECT group_concat(state) FROM outbox");
        assert_eq!(states, "'applied,applied'", "one by one: {one_by_one}");
        assert_eq!(crm.sandbox.log().carried_out().count(), 2, "one by one: {one_by_one}");
        copy.sync(&crm).await;
        copy.assert_exact(&crm);
    }
}

/// What hides the values of a new field from lists: an index that is not built yet, so that the filter finds and counts
/// nobody; or a sweep, where there is no filter, whose lists leave the field out.
async fn filled_blindly(by_sweep: bool, ahead: i64) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for id in ["a", "b"] {
        world.create(Object::Contact, &json!({"id": id, "name": "Ann"}));
    }
    let crm = Crm::serve(world).await;
    let clock = WrongClock::new(crm.clock.clone());
    clock.set_ahead(ahead);
    let mut mirror = Mirror::one_at_a_time();
    mirror.clock = Some(Arc::new(clock.clone()));
    mirror.settings.write_back = true;
    crm.wait(600);
    mirror.sync(&crm).await;
    clock.set_ahead(0);
    crm.sandbox.with_world(|world| {
        // No walk of changes reads the other one again.
        world.edit(Object::Contact, "b", &json!({"name": "Bo"}));
        let field = NewField::new(Object::Contact, "tier", DataType::ShortText);
        world.fields().define(field);
        if by_sweep {
            world.fields().redefine(Object::Contact, "tier", |tier| tier.allowed_operators.clear());
        }
        world.edit_silently(Object::Contact, "a", &json!({"customFields": {"tier": "theirs"}}));
    });
    let hidden = Rule::new(bodies::without("tier")).on(Resource::Contacts).lists();
    let silent = Rule::new(Fault::EmptyList).with_param("filter[customFields");
    crm.sandbox.faults().add(if by_sweep { hidden } else { silent }.forever());
    crm.wait(6 * 3600);
    mirror.sync(&crm).await;
    (crm, mirror)
}

fn edit_tier(mirror: &Mirror, id: &str) {
    let edit = format!("UPDATE contacts_full SET cf_tier = 'ours' WHERE id = '{id}'");
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&edit).unwrap();
}

#[tokio::test]
async fn value_that_a_filter_denied_is_not_overwritten() {
    for (by_sweep, ahead) in [(false, 0), (false, 7_200), (true, 0)] {
        let (crm, mirror) = filled_blindly(by_sweep, ahead).await;
        let tier = || mirror.one("SELECT coalesce(cf_tier, 'NULL') FROM contacts_full WHERE id = 'a'");
        edit_tier(&mirror, "a");
        mirror.run(&crm, &Job::push()).await.unwrap();
        let theirs = crm.sandbox.with_world(|world| world.detail_json(Object::Contact, "a").unwrap());
        let found = (theirs["customFields"]["tier"].as_str(), tier());
        assert_eq!(found, (Some("theirs"), "'theirs'".into()), "by sweep {by_sweep}, {ahead} s ahead");
    }
}

#[tokio::test]
async fn detail_that_was_read_after_a_column_was_filled_proves_its_value() {
    let (crm, mirror) = filled_blindly(false, 0).await;
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "b", &json!({"name": "Bob"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    edit_tier(&mirror, "b");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(crm.sandbox.log().entries().len(), 1, "it is updated, and not read before");
}
