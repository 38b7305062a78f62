//! Lists that omit custom keys without a value: omitted does not mean null. With details off, a changed record is read by
//! id only for what its list omits; with details, a version that was read before is read again.

use std::time::Duration;

use crate::clocks::status_of;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::app::status::UndecidedStatus;
use crm_mirror::model::{Clock as _, DataType, Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, NewField, RequestLine, Route, Rule, SCOPES, World};
use crm_mirror::sync::Job;
use serde_json::json;

/// After this many seconds the definitions are read again.
pub const INTERVAL: u64 = 7 * 3_600;

pub async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        world.lists_omit_nulls = true;
        world.fields().define(NewField::new(Object::Contact, "tier", DataType::SingleSelect).options(&["a", "b"]));
        world.fields().define(NewField::new(Object::Contact, "tags", DataType::MultiSelect).options(&["a", "b"]));
        world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
        for n in 0..4 {
            let values = json!({"tier": "a", "tags": ["a", "b"], "story": "Long"});
            world.create(Object::Contact, &json!({"id": format!("ct{n}"), "notes": "secret", "customFields": values}));
        }
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.sync(&crm).await;
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.wait(600);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared("omitted_values".into(), make).await
}

pub fn clear(crm: &Crm, id: &str, key: &str) {
    crm.sandbox.with_world(|world| world.edit(Object::Contact, id, &json!({"customFields": {key: null}})));
}

/// The details that would show it are switched off while they wait.
#[tokio::test]
async fn value_that_was_cleared_while_details_were_on_is_cleared_when_they_are_off() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = true;
    mirror.sync(&crm).await;
    clear(&crm, "ct1", "tier");
    crm.wait(600);
    mirror.tries = 1;
    let fail = |id: &str| Rule::new(Fault::Status(500)).method("GET").record(id).forever();
    crm.sandbox.faults().add(fail("ct1"));
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct1'"), "'a'");
    crm.sandbox.faults().clear();
    mirror.settings.details = false;
    crm.wait(7_200);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn cleared_value_is_cleared_in_the_mirror_for_one_request() {
    let (crm, mirror) = mirrored().await;
    clear(&crm, "ct1", "tier");
    clear(&crm, "ct2", "tags");
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct3", &json!({"name": "Edited"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE cf_tier IS NULL OR cf_tags IS NULL"), "2");
    assert_eq!(mirror.count("custom_multi_values"), 3 * 2);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 2, "values of a list are not requested again");
    assert_eq!(mirror.count("contact_details"), 0, "details are off: nothing else of them is stored");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

#[tokio::test]
async fn sweep_and_audit_find_silently_cleared_values() {
    for (job, details) in [(Job::resync(), false), (Job::audit(), false), (Job::resync(), true), (Job::audit(), true)] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            world.edit_silently(Object::Contact, "ct1", &json!({"name": "Silent", "customFields": {"tier": null}}))
        });
        crm.wait(600);
        mirror.run(&crm, &job).await.unwrap();
        crm.wait(600);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// The group changes without a new version. Beside it, one without a value here is shown as null, too.
#[tokio::test]
async fn null_in_place_of_a_group_puts_what_is_stored_of_it_in_doubt() {
    for (group, column) in [("location", "location_city"), ("customFields", "cf_tier")] {
        for details in [true, false] {
            let (crm, mut mirror) = mirrored().await;
            mirror.settings.details = details;
            let paris = json!({"location": {"city": "Paris"}});
            crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &paris));
            mirror.sync(&crm).await;
            crm.wait(600);
            mirror.sync(&crm).await;
            crm.sandbox.with_world(|world| {
                world.set_raw(Object::Contact, "ct1", group, "null");
                world.set_raw(Object::Contact, "ct2", "location", "null");
            });
            let full = Job { full: true, ..Job::verify() }.of(&[Resource::Contacts]);
            let undecided = async || {
                crm.wait(600);
                let found = mirror.verify(&crm, &full).await.1;
                (found[0].1.different, found[0].1.undecided)
            };
            assert_eq!(undecided().await, (0, 1), "{group}, details: {details}");
            assert_ne!(mirror.one(&format!("SELECT {column} FROM contacts WHERE id = 'ct1'")), "NULL");
            crm.sandbox.clear_log();
            mirror.run(&crm, &Job::resync().of(&[Resource::Contacts])).await.unwrap();
            assert_eq!(crm.sandbox.log().details(Object::Contact), 1, "{group}, details: {details}");
            assert_eq!(mirror.one(&format!("SELECT {column} FROM contacts WHERE id = 'ct1'")), "NULL");
            assert_eq!(undecided().await, (0, 0), "{group}, details: {details}");
        }
    }
}

/// Lists show null for a group of which details have values, for a record that each walk reads again, and in sweeps.
#[tokio::test]
async fn null_in_place_of_a_group_is_decided_once_for_a_version() {
    for details in [true, false] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        let paris = json!({"location": {"city": "Paris"}});
        let later = Some("2099-01-01T00:00:00.000Z".parse().unwrap());
        crm.sandbox.with_world(|world| world.edit_at(Object::Contact, "ct1", &paris, later));
        mirror.sync(&crm).await;
        crm.sandbox.faults().add(Rule::new(bodies::groups("null")).on(Resource::Contacts).lists().forever());
        let read = async |job: Job, wait| {
            crm.wait(wait);
            crm.sandbox.clear_log();
            mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
            crm.sandbox.log().details(Object::Contact)
        };
        let city = || mirror.one("SELECT location_city FROM contacts WHERE id = 'ct1'");
        assert_eq!(read(Job::sync(), 600).await, 1, "details: {details}");
        for _ in 0..3 {
            assert_eq!(read(Job::sync(), 600).await, 0, "details: {details}");
        }
        assert_eq!(read(Job::resync(), 600).await, 3, "the others, details: {details}");
        assert_eq!(read(Job::resync(), 600).await, 0, "details: {details}");
        let verified = mirror.verify(&crm, &Job::verify().of(&[Resource::Contacts])).await.1;
        assert_eq!((verified[0].1.count(), verified[0].1.open), (0, 0), "details: {details}");
        assert_eq!(city(), "'Paris'");

        // Another version says something new, and so does the same one after a while.
        crm.sandbox
            .with_world(|world| world.edit_at(Object::Contact, "ct1", &json!({"location": {"city": "Bonn"}}), later));
        assert_eq!((read(Job::sync(), 600).await, city()), (1, "'Bonn'".into()), "details: {details}");
        read(Job::sync(), 600).await;
        crm.sandbox
            .with_world(|world| world.edit_silently(Object::Contact, "ct1", &json!({"location": {"city": null}})));
        assert_eq!(read(Job::sync(), 600).await, 0, "details: {details}");
        assert_eq!(read(Job::sync(), 86_400).await, 1, "details: {details}");
        assert_eq!(city(), "NULL", "details: {details}");
    }
}

#[tokio::test]
async fn kill_or_failure_between_list_and_detail_loses_nothing() {
    for commits in 0..8 {
        let (crm, mirror) = mirrored().await;
        clear(&crm, "ct0", "tier");
        clear(&crm, "ct1", "tier");
        crm.wait(600);
        let _ = mirror.run_killed_after(&crm, &Job::sync(), Some(commits)).await;
        crm.wait(600);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
    let (crm, mirror) = mirrored().await;
    clear(&crm, "ct1", "tier");
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Contacts).record("ct1").forever());
    for _ in 0..24 {
        crm.wait(3600);
        mirror.sync(&crm).await;
    }
    let asked = crm.sandbox.log().details(Object::Contact);
    assert!(asked <= 40, "{asked} requests in a day for a detail that fails");
    crm.sandbox.faults().clear();
    crm.wait(86_400);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// The detail is the first request of a run: whether the key or the address is wrong, a list shows.
#[tokio::test]
async fn answer_about_one_record_is_none_about_the_key_or_the_address() {
    for status in [301, 308, 401, 407] {
        let (crm, mirror) = mirrored().await;
        clear(&crm, "ct1", "tier");
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).record("ct1").forever());
        for n in 0..12 {
            crm.wait(1800);
            crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct2", &json!({"name": format!("Name {n}")})));
            mirror.sync(&crm).await;
            assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct2'"), format!("'Name {n}'"), "{status}");
        }
        assert_eq!(crm.sandbox.log().details(Object::Contact), 5, "{status}: at growing intervals");
        // One that every request is answered with ends the run at once.
        crm.sandbox.faults().clear();
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).forever());
        crm.wait(86_400);
        crm.sandbox.clear_log();
        let failed = mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap_err();
        assert!(failed.to_string().starts_with("could not list the changes of contacts"), "{status}: {failed}");
        assert_eq!((crm.sandbox.log().details(Object::Contact), crm.sandbox.log().lists(Resource::Contacts)), (1, 1));
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// The row has the version that the list has shown, and values of the one before.
#[tokio::test]
async fn values_that_no_answer_decides_are_not_called_up_to_date() {
    for status in [403, 404, 501] {
        let (crm, mirror) = mirrored().await;
        let before = contacts_status(&mirror, crm.clock.now());
        clear(&crm, "ct1", "tier");
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).record("ct1").forever());
        crm.wait(600);
        mirror.sync(&crm).await;
        assert_eq!(mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct1'"), "'a'");
        let (undecided, up_to_date) = contacts_status(&mirror, crm.clock.now());
        let undecided = undecided.unwrap_or_else(|| panic!("{status}: nothing is undecided"));
        assert_eq!((undecided.items, up_to_date), (1, false), "{status}");
        assert!(undecided.next_lookup.is_some_and(|at| at > crm.clock.now()), "{status}");
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        let after = contacts_status(&mirror, crm.clock.now());
        assert!(after.0.is_none() && (before.1, after.1) == (true, true), "{status}: {before:?}, {after:?}");
    }
}

/// What `status` says of contacts, and whether it calls the mirror up to date.
pub fn contacts_status(mirror: &Mirror, now: Instant) -> (Option<UndecidedStatus>, bool) {
    let status = status_of(mirror, now, &[("sync.details", "off")]);
    (status.objects.iter().find(|object| object.object == Resource::Contacts).unwrap().undecided, status.up_to_date)
}

/// Neither the filter for values nor the list shows that a value was cleared: a detail does.
#[tokio::test]
async fn value_that_was_cleared_while_its_field_was_archived_is_cleared_in_the_mirror() {
    for (details, fields) in
        [(true, vec!["tier"]), (false, vec!["tier"]), (true, vec!["tier", "tags"]), (false, vec!["tier", "tags"])]
    {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| fields.iter().for_each(|key| _ = world.fields().archive(Object::Contact, key)));
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        fields.iter().for_each(|key| clear(&crm, "ct1", key));
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.sandbox
            .with_world(|world| fields.iter().for_each(|key| _ = world.fields().reactivate(Object::Contact, key)));
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        crm.wait(600);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        for key in &fields {
            let cleared = format!("SELECT count(*) FROM contacts_full WHERE cf_{key} IS NULL");
            assert_eq!(mirror.one(&cleared), "1", "{key}, details {details}");
        }
    }
}

/// The key may not read definitions yet. A value that lists showed is cleared before the detail is read, which has null.
#[tokio::test]
async fn value_that_was_cleared_before_its_field_was_known_is_not_filled_from_the_list() {
    let mut world = World::new(noon());
    world.lists_omit_nulls = true;
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    for n in 0..3 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "customFields": {"tier": "a"}}));
    }
    let crm = Crm::serve(world).await;
    let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "custom-fields:read").collect();
    crm.sandbox.set_key(&crm.key, &scopes);
    let mirror = Mirror::one_at_a_time();
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.route == Route::One(Object::Contact, "ct1".to_string()) {
            world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": null}}));
        }
    });
    mirror.sync(&crm).await;
    crm.sandbox.clear_hook();
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE extra LIKE '%tier%'"), "2");
    crm.sandbox.set_key(&crm.key, &SCOPES);
    for _ in 0..2 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    mirror.assert_exact(&crm);
    assert_eq!(mirror.one("SELECT group_concat(id) FROM contacts WHERE cf_tier IS NULL"), "'ct1'");
}

/// Lists are answered, and details never: with details off, changes do not wait for the values that lists omit.
#[tokio::test]
async fn details_without_an_answer_delay_no_changes() {
    let mut world = World::new(noon());
    world.lists_omit_nulls = true;
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    for n in 0..30 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:02}"), "customFields": {"tier": "a"}}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    (mirror.settings.details, mirror.tries) = (false, 2);
    mirror.sync(&crm).await;
    for id in (0..30).map(|n| format!("ct{n:02}")) {
        crm.sandbox.faults().add(Rule::new(Fault::Reset).method("GET").record(&id).forever());
        clear(&crm, &id, "tier");
    }
    for n in 0..4 {
        crm.wait(600);
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct00", &json!({"name": format!("Name {n}")})));
        mirror.scheduled(&crm, &Job::sync()).await;
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct00'"), format!("'Name {n}'"));
    }
    crm.sandbox.faults().clear();
    crm.wait(2 * 86_400);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// A new label or new options are no reason to read values again.
#[tokio::test]
async fn relabelled_field_is_not_filled_again() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |d| d.label = "Level".into());
        world.fields().redefine(Object::Contact, "tags", |d| d.options = vec![]);
    });
    crm.wait(INTERVAL);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.sandbox.log().lists(Resource::Contacts), 1, "the changes");
}

/// While its field was archived, two records silently lost another value, and one was removed. The filter for values of
/// the restored field has none of them, and a list shows that one of the two lost its value of that field as well.
#[tokio::test]
async fn record_that_the_filter_for_a_restored_field_passes_over_is_read_by_id() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "tier"));
    crm.wait(INTERVAL);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        world.edit_silently(Object::Contact, "ct1", &json!({"name": "Silent", "customFields": {"tags": null}}));
        let both = json!({"name": "Silent", "customFields": {"tier": null, "tags": null}});
        world.edit_silently(Object::Contact, "ct2", &both);
        world.set_raw(Object::Contact, "ct2", "customFields.tier", "null");
        world.remove(Object::Contact, "ct0");
        world.fields().reactivate(Object::Contact, "tier");
    });
    let hidden = Fault::Hide(Hidden::ids(["ct1"]));
    crm.sandbox.faults().add(Rule::new(hidden).on(Resource::Contacts).with_param("filter[customFields").forever());
    crm.wait(INTERVAL);
    let report = mirror.sync(&crm).await;
    assert_eq!((report.tally.updated, report.tally.removed), (4, 1), "by a list, and by id");
    assert_eq!(mirror.one("SELECT group_concat(id) FROM contacts WHERE name = 'Silent'"), "'ct1,ct2'");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.one("SELECT group_concat(id) FROM contacts_full WHERE cf_tags IS NULL"), "'ct1,ct2'");
}

/// The value was cleared after its field was restored, which the mirror did not know yet. The lists that fill the column are
/// older than that, or lack the record.
#[tokio::test]
async fn older_version_in_a_back_fill_does_not_show_that_a_value_is_still_there() {
    // One column is filled by its filter, and one, which has none, by a sweep.
    for (key, is_missed) in [("tier", false), ("code", false), ("code", true)] {
        let (crm, mirror) = mirrored().await;
        crm.sandbox.with_world(|world| {
            world.fields().define(NewField::new(Object::Contact, "code", DataType::ShortText).operators(&[]));
            let value = json!({"customFields": {"code": "A"}});
            (0..4).for_each(|n| _ = world.edit(Object::Contact, &format!("ct{n}"), &value));
        });
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, key));
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, key));
        crm.wait(60);
        let before = crm.clock.now();
        crm.wait(60);
        clear(&crm, "ct1", key);
        crm.wait(60);
        mirror.sync(&crm).await;
        let by_id = Rule::new(Fault::Lag(Duration::ZERO)).on(Resource::Contacts).with_param("filter[id][in]");
        crm.sandbox.faults().add(by_id.forever());
        let missed = Fault::Hide(Hidden::ids(["ct1".to_string()]));
        let fault = if is_missed { missed } else { Fault::AsOf(before) };
        crm.sandbox.faults().add(Rule::new(fault).on(Resource::Contacts).lists().forever());
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.sandbox.faults().clear();
        crm.wait(600);
        mirror.sync(&crm).await;
        let cleared = format!("SELECT group_concat(id) FROM contacts_full WHERE cf_{key} IS NULL");
        assert_eq!(mirror.one(&cleared), "'ct1'", "{key}, missed: {is_missed}");
        mirror.assert_exact_lists(&crm);
    }
}

/// A service restored from a backup shows an older version with a value, and then the newer one again, which has none. The
/// detail that was read at the newer version says nothing about what the older one wrote since.
#[tokio::test]
async fn value_of_an_older_version_is_cleared_when_the_newer_one_returns() {
    for details in [true, false] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        let before = crm.clock.now();
        crm.wait(600);
        clear(&crm, "ct1", "tier");
        crm.wait(600);
        mirror.sync(&crm).await;
        let tier = || mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct1'");
        assert_eq!(tier(), "NULL");
        crm.sandbox.faults().add(Rule::new(Fault::AsOf(before)).lists().forever());
        crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Contacts).records().forever());
        // An earlier version is accepted at the second moment.
        for accepted in ["NULL", "'a'"] {
            crm.wait(900);
            let ended = mirror.run(&crm, &Job::resync()).await;
            assert_eq!(tier(), accepted, "details: {details}, {ended:?}");
        }
        crm.sandbox.faults().clear();
        for job in [Job::resync(), Job::sync()] {
            crm.wait(86_400);
            mirror.run(&crm, &job).await.unwrap();
        }
        assert_eq!(tier(), "NULL", "details: {details}");
        mirror.assert_exact_lists(&crm);
    }
}

/// The same where the older version is the one that lacks the value.
#[tokio::test]
async fn value_that_an_older_version_lacks_is_cleared_with_details_off() {
    let (crm, mirror) = mirrored().await;
    clear(&crm, "ct1", "tier");
    crm.wait(600);
    mirror.sync(&crm).await;
    let before = crm.clock.now();
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &json!({"customFields": {"tier": "b"}})));
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(before)).forever());
    for job in [Job::resync(), Job::sync()] {
        crm.wait(900);
        mirror.run(&crm, &job).await.unwrap();
    }
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts WHERE id = 'ct1'"), "NULL");
}
