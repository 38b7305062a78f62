//! Columns of fields that become known: their values come from `extra` first, and one sweep replaces back-fills that would
//! cost more.

use crate::clocks::status_of;
use crate::definitions_over_time::{INTERVAL, field, fill, other_lists, settled};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, DataType, Object, Op, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::{Map, Value, json};

const SOME: [&str; 3] = ["contacts:read", "companies:read", "team-members:read"];

/// Contacts with this many short fields and a long one, mirrored without the scope of definitions.
async fn without_definitions(contacts: usize, fields: usize) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for n in 0..fields {
        world.fields().define(NewField::new(Object::Contact, &format!("f{n}"), DataType::ShortText));
    }
    world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
    for n in 0..contacts {
        let mut values: Map<String, Value> = (0..fields).map(|f| (format!("f{f}"), json!(format!("v{n}")))).collect();
        values.insert("story".into(), json!(format!("Long {n}")));
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}"), "customFields": values}));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(10));
    let mirror = Mirror::one_at_a_time();
    crm.sandbox.set_key(&crm.key, &SOME);
    for _ in 0..2 {
        mirror.sync(&crm).await;
        crm.wait(600);
    }
    crm.sandbox.set_key(&crm.key, &[&SOME[..], &["custom-fields:read"]].concat());
    crm.sandbox.clear_log();
    (crm, mirror)
}

#[tokio::test]
async fn values_that_were_kept_in_extra_cost_one_count_for_each_field() {
    let (crm, mirror) = without_definitions(60, 4).await;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("contacts WHERE extra IS NOT NULL"), 0);
    assert_eq!(mirror.count("contact_details WHERE extra IS NOT NULL"), 0);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0);
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert_eq!(lists, 1 + 5, "changes, and a count of each field");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

#[tokio::test]
async fn a_value_that_came_silently_is_filled_all_the_same() {
    let (crm, mirror) = without_definitions(60, 4).await;
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": "new", "customFields": {"f1": "x"}}));
        let silent = json!({"customFields": {"f0": null, "f2": "other"}});
        world.edit(Object::Contact, "ct007", &silent);
        world.fields().define(NewField::new(Object::Contact, "f9", DataType::ShortText));
        world.edit_silently(Object::Contact, "ct008", &json!({"customFields": {"f9": "silent"}}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn a_sweep_replaces_back_fills_that_would_cost_more() {
    let mut world = World::new(noon());
    for n in 0..150 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for f in 0..9 {
            world.fields().define(NewField::new(Object::Contact, &format!("f{f}"), DataType::ShortText));
            for n in 0..150 {
                let values = json!({"customFields": {format!("f{f}"): format!("v{n}")}});
                world.edit_silently(Object::Contact, &format!("ct{n:03}"), &values);
            }
        }
    });
    crm.wait(6 * 3600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert!(lists <= 1 + 2 + 4, "{lists} lists: a sweep of two pages and its counts, not nine back-fills");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

/// A key with a column is in no `extra`: an edit would take what is left there for a value that does not fit.
#[tokio::test]
async fn values_that_details_showed_first_are_left_in_no_extra() {
    let mut world = World::new(noon());
    for n in 0..20 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    crm.sandbox.set_key(&crm.key, &SOME);
    mirror.settings.details = false;
    for wait in [6 * 3600, 600] {
        mirror.sync(&crm).await;
        crm.wait(wait);
    }
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "late", DataType::ShortText));
        for n in 0..20 {
            world.edit_silently(Object::Contact, &format!("ct{n:03}"), &json!({"customFields": {"late": "first"}}));
        }
    });
    mirror.settings.details = true;
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contact_details WHERE extra IS NOT NULL"), 20);
    // What the detail of an earlier version showed is not the value now.
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct003", &json!({"customFields": {"late": null}})));
    mirror.settings.details = false;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.set_key(&crm.key, &[&SOME[..], &["custom-fields:read"]].concat());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.count("contact_details WHERE extra IS NOT NULL"), 0);
    assert_eq!(crm.sandbox.log().lists(Resource::Contacts), 1 + 1, "changes, and a count of the field");
}

#[tokio::test]
async fn field_without_a_filter_is_filled_by_a_sweep() {
    for operators in [&[][..], &[Op::Eq]] {
        let (crm, mirror) = settled(250, &[]).await;
        crm.sandbox.with_world(|world| world.fields().define(field("tier", DataType::ShortText).operators(operators)));
        fill(&crm, 0..120, "tier", &json!("gold"));
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        let asked = other_lists(&crm);
        assert!(asked.iter().all(|entry| entry.asked.query.iter().all(|(name, _)| !name.contains("customFields"))));
        let of_range = |(name, _): &(String, String)| name.starts_with("filter[createdAt]");
        let pages = asked.iter().filter(|entry| entry.asked.param("limit") == Some("100"));
        let of_sweep = pages.filter(|entry| !entry.asked.query.iter().any(of_range));
        assert_eq!(of_sweep.count(), 3, "every record, once");
    }
}

/// Only the list without a filter says what the key may read.
#[tokio::test]
async fn field_whose_filter_is_refused_is_filled_by_a_sweep() {
    for (status, failing) in [(403, 0), (404, 0), (422, 0), (503, 1)] {
        let (crm, mirror) = settled(250, &[]).await;
        crm.sandbox.with_world(|world| world.fields().define(field("tier", DataType::SingleSelect)));
        fill(&crm, 0..120, "tier", &json!("gold"));
        let filtered = Rule::new(Fault::Status(status)).with_param("filter[customFields.tier][isNull]");
        crm.sandbox.faults().add(filtered.forever());
        for _ in 0..failing {
            mirror.run(&crm, &Job::sync()).await.unwrap_err();
        }
        let report = mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_eq!((report.outcome, report.missing_scopes), (RunOutcome::Done, vec![]), "{status}");
        assert_eq!(mirror.one("SELECT count(*) FROM state WHERE name = 'step_failures'"), "0", "{status}");
    }
}

/// Where a sweep is asked for, it fills the column; and without details, no list shows a long text.
#[tokio::test]
async fn nothing_is_listed_for_a_column_that_it_does_not_fill() {
    for (key, data_type, details) in [("tier", DataType::SingleSelect, true), ("story", DataType::LongText, false)] {
        let (crm, mut mirror) = settled(150, &[]).await;
        mirror.settings.details = details;
        crm.sandbox.with_world(|world| world.fields().define(field(key, data_type)));
        fill(&crm, 0..120, key, &json!("gold"));
        mirror.run(&crm, &if details { Job::resync() } else { Job::sync() }).await.unwrap();
        mirror.assert_exact_lists(&crm);
        let is_filtered =
            |entry: &LoggedRequest| entry.asked.query.iter().any(|(name, _)| name.contains("customFields"));
        assert!(!other_lists(&crm).iter().any(is_filtered), "{key}");
        mirror.settings.details = true;
        crm.wait(600);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

/// While a column lacks values, neither `status` nor `verify` says that all is here.
#[tokio::test]
async fn column_that_is_not_filled_is_undecided_until_it_is() {
    for data_type in [DataType::SingleSelect, DataType::LongText] {
        let (crm, mirror) = settled(150, &[]).await;
        crm.sandbox.with_world(|world| world.fields().define(field("late", data_type)));
        fill(&crm, 0..120, "late", &json!("gold"));
        mirror.run(&crm, &Job::sync().of(&[Resource::CustomFields])).await.unwrap();
        for (undecided, all_is_here) in [(150, false), (0, true)] {
            let found = mirror.verify(&crm, &Job::verify()).await.1;
            let status = status_of(&mirror, crm.clock.now(), &[]);
            assert_eq!(status.objects[0].undecided.map_or(0, |undecided| undecided.items), undecided, "{data_type:?}");
            assert_eq!((found[0].1.open, found[0].1.is_clean()), (undecided, all_is_here), "{data_type:?}");
            assert_eq!(status.up_to_date, all_is_here, "{data_type:?}");
            crm.wait(600);
            mirror.sync(&crm).await;
        }
        mirror.assert_exact(&crm);
    }
}

/// Its key is seen in details, which are read after all columns were filled.
#[tokio::test]
async fn field_that_becomes_known_at_the_end_of_a_run_is_filled_in_it() {
    let mut world = World::new(noon());
    for n in 0..20 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    for wait in [INTERVAL, 600] {
        mirror.sync(&crm).await;
        crm.wait(wait);
    }
    crm.sandbox.with_world(|world| world.fields().define(field("late", DataType::SingleSelect)));
    fill(&crm, 0..20, "late", &json!("gold"));
    mirror.settings.details = true;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("contact_details WHERE extra IS NOT NULL"), 0);
}
