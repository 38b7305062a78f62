//! Team members and definitions: short lists without an id filter. An item that one list lacks is removed when
//! another one lacks it an hour later, and the changes of definitions are counted.

use std::time::Duration;

use crate::clocks::status_of;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::model::{Choice, Clock as _, DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::store::{DefinitionChanges, RunOutcome};
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

fn members(mirror: &Mirror) -> i64 {
    mirror.count("team_members")
}

async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        for n in 0..4 {
            world.create(Resource::TeamMembers, &json!({"id": format!("tm{n}"), "firstName": format!("Member {n}")}));
        }
        for key in ["tier", "rank"] {
            world.fields().define(NewField::new(Object::Contact, key, DataType::SingleSelect).options(&["a", "b"]));
        }
        world.create(Object::Contact, &json!({"id": "ct", "customFields": {"tier": "a", "rank": "b"}}));
        let crm = Crm::serve(world).await;
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        crm.wait(600);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared("short_lists".into(), make).await
}

/// A truncated list: the first item only.
fn cut_short(crm: &Crm) -> Rule {
    let first = crm.sandbox.world().list_json(Resource::TeamMembers, "tm0").unwrap();
    Rule::new(Fault::Body(json!({"data": [first], "nextCursor": null}).to_string())).on(Resource::TeamMembers)
}

#[tokio::test]
async fn single_short_team_list_removes_no_member() {
    let (crm, mirror) = mirrored().await;
    let team = Job::sync().of(&[Resource::TeamMembers]);
    for fault in [cut_short(&crm), Rule::new(Fault::EmptyList).on(Resource::TeamMembers)] {
        crm.sandbox.faults().add(fault);
        crm.wait(600);
        assert_eq!(mirror.run(&crm, &team).await.unwrap().tally.removed, 0);
        assert_eq!(members(&mirror), 4);
        crm.wait(600);
        mirror.sync(&crm).await;
        assert_eq!(members(&mirror), 4);
    }
    // An empty list is no evidence, however often it is returned.
    crm.sandbox.faults().add(Rule::new(Fault::EmptyList).on(Resource::TeamMembers).forever());
    for _ in 0..4 {
        crm.wait(6 * 3600);
        mirror.sync(&crm).await;
    }
    assert_eq!(members(&mirror), 4);
    crm.sandbox.faults().clear();
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn removed_member_is_deleted_an_hour_later_for_one_request() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| world.remove(Resource::TeamMembers, "tm2"));
    crm.wait(6 * 3600);
    assert_eq!(mirror.sync(&crm).await.tally.removed, 0);
    crm.wait(3_590);
    crm.sandbox.clear_log();
    assert_eq!((mirror.sync(&crm).await.tally.removed, crm.charged()), (0, 2), "the list is not read");
    crm.wait(10);
    crm.sandbox.clear_log();
    assert_eq!(mirror.sync(&crm).await.tally.removed, 1);
    assert_eq!(crm.charged(), 3, "the team, and one request per object");
    mirror.assert_exact(&crm);
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

#[tokio::test]
async fn permanently_short_list_is_not_read_in_every_run() {
    let (crm, mirror) = mirrored().await;
    for n in 0..12 {
        // Each time the list has another part of its items.
        let id = format!("tm{}", n % 4);
        let item = crm.sandbox.world().list_json(Resource::TeamMembers, &id).unwrap();
        let body = json!({"data": [item], "nextCursor": null}).to_string();
        crm.sandbox.faults().clear();
        crm.sandbox.faults().add(Rule::new(Fault::Body(body)).on(Resource::TeamMembers).forever());
        crm.wait(600);
        mirror.sync(&crm).await;
    }
    let lists = crm.sandbox.log().lists(Resource::TeamMembers);
    assert!(lists <= 2, "{lists} lists within two hours");
}

/// A list that says nothing of the items that one before it lacked is not read again because of them.
#[tokio::test]
async fn list_that_becomes_empty_is_not_read_in_every_run() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| {
        world.remove(Resource::TeamMembers, "tm1");
        world.fields().undefine(Object::Contact, "tier");
    });
    crm.wait(6 * 3600);
    mirror.sync(&crm).await;
    let empty = json!({"data": [], "nextCursor": null}).to_string();
    for resource in [Resource::TeamMembers, Resource::CustomFields] {
        crm.sandbox.faults().add(Rule::new(Fault::Body(empty.clone())).on(resource).forever());
    }
    crm.sandbox.clear_log();
    let complete_as_of = || [2, 3].map(|list| status_of(&mirror, crm.clock.now(), &[]).objects[list].complete_as_of);
    let before = complete_as_of();
    for _ in 0..30 {
        crm.wait(600);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    let (team, definitions) =
        (crm.sandbox.log().lists(Resource::TeamMembers), crm.sandbox.log().lists(Resource::CustomFields));
    assert_eq!((team, definitions), (1, 4), "within five hours");
    assert_eq!(complete_as_of(), before, "an empty list proves nothing");
}

#[tokio::test]
async fn definition_missing_in_two_lists_an_hour_apart_is_archived() {
    let (crm, mirror) = mirrored().await;
    let status = "SELECT group_concat(key || ' ' || status, ', ' ORDER BY key) FROM custom_field_definitions";
    crm.sandbox.with_world(|world| world.fields().undefine(Object::Contact, "tier"));
    crm.wait(6 * 3600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one(status), "'rank ACTIVE, tier ACTIVE'");
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts_full"), "'a'");
    crm.wait(3_600);
    let report = mirror.sync(&crm).await;
    assert_eq!(mirror.one(status), "'rank ACTIVE, tier ARCHIVED'");
    assert_eq!(mirror.one("SELECT archived_cf_tier FROM contacts"), "'a'");
    assert_eq!(report.definitions, DefinitionChanges { changed: 1, ..DefinitionChanges::default() });
    crm.wait(3_600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "what is archived is not looked for again");
}

/// A list may have rows of the other object: a field with the same key there replaces nothing, and gets its column with
/// its own list.
#[tokio::test]
async fn definition_of_the_other_object_on_a_list_is_evidence_for_neither() {
    let (crm, mirror) = mirrored().await;
    let status = "SELECT group_concat(object_type || ' ' || key || ' ' || status, ', ' ORDER BY object_type, key)
                  FROM custom_field_definitions WHERE key = 'tier'";
    crm.sandbox.with_world(|world| {
        world.fields().undefine(Object::Contact, "tier");
        world.fields().define(NewField::new(Object::Company, "tier", DataType::ShortText));
        world.create(Object::Company, &json!({"id": "co", "customFields": {"tier": "gold"}}));
    });
    crm.sandbox.faults().add(Rule::new(Fault::RowOutsideFilter).on(Resource::CustomFields).forever());
    crm.wait(6 * 3600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one(status), "'company tier ACTIVE, contact tier ACTIVE'");
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts_full"), "'a'");
    assert_eq!(mirror.one("SELECT cf_tier FROM companies_full"), "'gold'");
}

/// The old definition is on no list any more, and the new one has its key: the old one is archived at once, and not
/// looked for again.
#[tokio::test]
async fn field_made_again_under_its_key_takes_the_place_of_the_one_before() {
    let mut world = World::new(noon());
    let tags = || NewField::new(Object::Contact, "tags", DataType::MultiSelect).options(&["a", "b"]);
    let others = ["rank", "note", "size"].map(|key| NewField::new(Object::Contact, key, DataType::ShortText));
    [tags()].into_iter().chain(others).for_each(|field| _ = world.fields().define(field));
    world.create(Object::Contact, &json!({"id": "ct", "customFields": {"tags": ["a"], "rank": "1"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        world.fields().undefine(Object::Contact, "tags");
        world.fields().define(tags());
        world.edit(Object::Contact, "ct", &json!({"customFields": {"tags": ["b"]}}));
    });
    for (hours, lists) in [(6, 2 + 2), (1, 0), (6, 2 + 2)] {
        crm.wait(hours * 3_600);
        if hours > 1 {
            crm.sandbox.with_world(|world| {
                world.fields().redefine(Object::Contact, "rank", |field| field.label += " again");
            });
        }
        crm.sandbox.clear_log();
        assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
        assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), lists, "after {hours} hours more");
        let differences = mirror.differences(&crm);
        assert_eq!(differences.len(), 1, "{differences:?}");
        assert_eq!(mirror.one("SELECT cf_tags_2 FROM contacts_full"), r#"'["b"]'"#);
        assert_eq!(mirror.one("SELECT archived_cf_tags FROM contacts"), r#"'["a"]'"#);
        assert_eq!(mirror.one("SELECT group_concat(value) FROM custom_multi_values"), "'b'");
    }
    // Two on one list.
    for _ in 0..2 {
        crm.sandbox.with_world(|world| _ = world.fields().define(tags()));
        crm.wait(6 * 3_600);
        assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
    }
}

/// Lists of both kinds that are cut short for two hours.
#[tokio::test]
async fn short_lists_that_lack_too_much_are_refused() {
    let mut world = World::new(noon());
    (0..60).for_each(|n| {
        _ = world.create(Resource::TeamMembers, &json!({"id": format!("tm{n:02}"), "firstName": "Member"}))
    });
    (0..37).for_each(|n| {
        _ = world.fields().define(NewField::new(Object::Contact, &format!("f{n:02}"), DataType::ShortText))
    });
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let members_gone = crm_mirror::sandbox::Hidden::ids((12..60).map(|n| format!("tm{n:02}")));
    let fields: Vec<String> = crm.sandbox.world().definitions.iter().map(|d| d.id.to_string()).skip(7).collect();
    for (resource, hidden) in
        [(Resource::TeamMembers, members_gone), (Resource::CustomFields, crm_mirror::sandbox::Hidden::ids(fields))]
    {
        crm.sandbox.faults().add(Rule::new(Fault::Hide(hidden)).on(resource).forever());
    }
    crm.wait(6 * 3_600);
    let lists = Job::sync().of(&[Resource::TeamMembers, Resource::CustomFields]);
    let active = "SELECT count(*) FROM custom_field_definitions WHERE status = 'ACTIVE'";
    for outages in [0, 2, 2] {
        let report = mirror.run(&crm, &lists).await.unwrap();
        let refused = if outages > 0 { RunOutcome::Refused } else { RunOutcome::Done };
        assert_eq!((report.outcome, report.outages.len()), (refused, outages));
        assert_eq!((members(&mirror), mirror.one(active)), (60, "37".into()));
        crm.wait(3_600);
    }
    let going: Vec<(Resource, u64, u64)> = {
        let report = mirror.run(&crm, &lists).await.unwrap();
        report.outages.iter().map(|(resource, outage)| (*resource, outage.going, outage.of)).collect()
    };
    assert_eq!(going, [(Resource::CustomFields, 30, 37), (Resource::TeamMembers, 48, 60)]);
    // A person says that they are gone.
    let report = mirror.run(&crm, &lists.clone().accepting_removals()).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 48));
    assert_eq!((members(&mirror), mirror.one(active)), (12, "7".into()));
    // And they return by themselves.
    crm.sandbox.faults().clear();
    mirror.run(&crm, &lists).await.unwrap();
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn changes_of_definitions_and_options_are_counted() {
    let (crm, mirror) = mirrored().await;
    let fields = Job::sync().of(&[Resource::CustomFields]);
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Company, "size", DataType::Integer));
        world.fields().archive(Object::Contact, "rank");
        world.fields().redefine(Object::Contact, "tier", |d| d.label = "The tier".into());
        let choice = |value: &str, label: &str| Choice { value: value.into(), label: Some(label.into()) };
        world.fields().redefine(Object::Contact, "tier", |d| d.options = vec![choice("a", "Best"), choice("c", "New")]);
    });
    crm.wait(600);
    let report = mirror.run(&crm, &fields).await.unwrap();
    let expected = DefinitionChanges { added: 1, changed: 2 };
    assert_eq!(report.definitions, expected);
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "rank"));
    crm.wait(600);
    let report = mirror.run(&crm, &fields).await.unwrap();
    assert_eq!(report.definitions, DefinitionChanges { changed: 1, ..DefinitionChanges::default() });
    crm.wait(600);
    assert_eq!(mirror.run(&crm, &fields).await.unwrap().definitions, DefinitionChanges::default());
}

#[tokio::test]
async fn definitions_on_many_pages_are_complete() {
    let fields: Vec<NewField> = (0..23)
        .map(|n| NewField::new(Object::Contact, &format!("f{n:02}"), DataType::ALL[n % 9]).options(&["a", "b"]))
        .collect();
    let mut world = World::new(noon());
    for field in fields {
        world.fields().define(field);
    }
    world.create(Object::Contact, &json!({"id": "ct", "customFields": {"f00": "x", "f22": true}}));
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(4));
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("custom_field_definitions"), 23);
    assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 6 + 3);
}

/// Each page has members that no page before it had, without end as it seems.
#[tokio::test]
async fn list_of_very_many_pages_is_given_up() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| {
        for n in 4..501 {
            world.create(Resource::TeamMembers, &json!({"id": format!("tm{n}"), "firstName": "Ann"}));
        }
    });
    crm.sandbox.configure(|settings| settings.page_cap = Some(1));
    let team = Job::sync().of(&[Resource::TeamMembers]);
    assert!(matches!(mirror.run(&crm, &team).await, Err(SyncError::NotAdvancing { resource: Resource::TeamMembers })));
    assert_eq!((crm.sandbox.log().lists(Resource::TeamMembers), members(&mirror)), (500, 4));
    crm.sandbox.with_world(|world| world.remove(Resource::TeamMembers, "tm500"));
    mirror.run(&crm, &team).await.unwrap();
    assert_eq!(members(&mirror), 500);
}

/// A run was interrupted at the team list, and no later one reads that.
#[tokio::test]
async fn team_list_that_nobody_goes_on_with_holds_up_no_definitions() {
    let (crm, mirror) = mirrored().await;
    crm.wait(6 * 3600);
    let day = Fault::Wait { status: 429, body: Some(3_600), header: None };
    crm.sandbox.faults().add(Rule::new(day).on(Resource::TeamMembers));
    assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Suspended);
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.label = "Another".into());
    });
    crm.wait(7 * 3600);
    let job = Job::sync().of(&[Resource::Contacts, Resource::Companies]);
    mirror.scheduled(&crm, &job).await;
    assert_eq!(mirror.one("SELECT label FROM custom_field_definitions WHERE key = 'tier'"), "'Another'");
}

/// One item of 132 makes every page that shows it unreadable: the first, the last, or one in the middle. All others are here,
/// nothing is removed, and the lists are not read in every run. A cursor may be followed in smaller pages, or not.
#[tokio::test]
async fn item_that_cannot_be_read_takes_no_other_with_it() {
    for (bad, follows_any_size) in [(0, true), (57, true), (100, true), (131, true), (100, false)] {
        let mut world = World::new(noon());
        let at = |n: usize| noon().minus(Duration::from_secs(100_000 - n as u64)).to_wire();
        for n in 0..132 {
            let member = json!({"id": format!("tm{n:03}"), "firstName": "Member", "createdAt": at(n)});
            world.create(Resource::TeamMembers, &member);
            let mut field = NewField::new(Object::Contact, &format!("f{n:03}"), DataType::ShortText);
            (field.id, field.created_at) = (format!("cf{n:03}"), Some(at(n)));
            world.fields().define(field);
        }
        world.fields().define(NewField::new(Object::Company, "size", DataType::Integer));
        let spoilt = bodies::bad_number(&format!("tm{bad:03} cf{bad:03}"));
        let crm = Crm::serve(world).await;
        crm.sandbox.configure(|settings| settings.follows_any_size = follows_any_size);
        crm.sandbox.faults().add(Rule::new(spoilt.clone()).forever());
        let mirror = Mirror::one_at_a_time();
        for hour in 0..3 {
            crm.sandbox.clear_log();
            mirror.scheduled(&crm, &Job::sync()).await;
            let here = (members(&mirror), mirror.count("custom_field_definitions"));
            assert_eq!(here, (131, 132), "{bad} {hour}");
            let log = crm.sandbox.log();
            let lists = [Resource::TeamMembers, Resource::CustomFields].map(|list| log.lists(list));
            let most = if hour > 0 {
                0
            } else if follows_any_size {
                30
            } else {
                110
            };
            assert!(lists.iter().all(|lists| *lists <= most), "{bad} {hour}: {lists:?}");
            crm.wait(3_600);
        }
        let proven = [2, 3].map(|list| status_of(&mirror, crm.clock.now(), &[]).objects[list].complete_as_of);
        assert_eq!(proven, [None, None], "{bad}");
        crm.sandbox.faults().clear();
        crm.wait(6 * 3_600);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        // What is here stays where it cannot be read any more.
        crm.sandbox.faults().add(Rule::new(spoilt).forever());
        for _ in 0..2 {
            crm.wait(7 * 3_600);
            mirror.sync(&crm).await;
        }
        crm.sandbox.faults().clear();
        mirror.assert_exact(&crm);
    }
}

/// A service may say with an empty text that no page follows.
#[tokio::test]
async fn cursor_without_a_text_ends_a_list() {
    let (crm, mirror) = mirrored().await;
    let end = |body: &str, _: &str| body.replace("\"nextCursor\":null", "\"nextCursor\":\"\"");
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(end, String::new())).lists().forever());
    crm.sandbox.with_world(|world| {
        world.create(Resource::TeamMembers, &json!({"id": "new", "firstName": "Member"}));
        world.edit(Object::Contact, "ct", &json!({"name": "Changed"}));
    });
    crm.wait(6 * 3600);
    mirror.sync(&crm).await;
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
    assert!(crm.charged() <= 20, "{} RU", crm.charged());
}
