//! `sync` and `resync`: what they say, in text and JSON, and how they end.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::json;

use crate::binary::{Place, Service};

#[test]
fn a_first_copy_and_an_idle_run_are_summed_up() {
    let service = Service::with(230, 20);
    let place = Place::of(&service);
    let first = place.run("sync").done();
    let charged = service.sandbox.log().ru().get();
    assert!(first.out.starts_with("sync finished in "), "{}", first.out);
    assert!(first.out.contains("250 read, none pending"), "{}", first.out);
    assert!(first.out.contains(&format!("{charged} spent; ")), "{charged} RU: {}", first.out);
    assert!(first.out.lines().count() <= 5, "{}", first.out);
    service.sandbox.clear_log();
    let idle = place.run("sync --json").done().json();
    assert_eq!(idle["outcome"], "done");
    assert_eq!((&idle["rows_read"], &idle["ru"]["spent"]), (&json!(0), &json!(2)));
    assert_eq!(service.sandbox.log().ru().get(), 2);
}

#[test]
fn only_what_is_named_or_configured_runs() {
    let service = Service::with(20, 5);
    let place = Place::of(&service);
    place.run("sync team-members").done();
    let log = service.sandbox.log();
    assert_eq!((log.len(), log.lists(Resource::TeamMembers)), (1, 1));
    let limited = Place::of(&service).set("CRM_MIRROR_SYNC__OBJECTS", "companies, team-members");
    limited.run("sync").done();
    limited.run("sync").done();
    assert_eq!(limited.ask("SELECT count(*) FROM contacts"), "0");
    assert_eq!(limited.ask("SELECT count(*) FROM companies"), "5");
    // Named by the configuration is not asked for by name: the team is read when it is due.
    assert_eq!(service.sandbox.log().lists(Resource::TeamMembers), 2);
}

#[test]
fn a_spent_budget_pauses_and_says_when_it_goes_on() {
    let service = Service::with(230, 5);
    let place = Place::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "9");
    let ended = place.run("sync --json").code(75);
    assert!(ended.err.contains("the budget of this window is spent; it refills at "), "{}", ended.err);
    assert!(ended.err.contains("`crm-mirror sync` goes on from there"), "{}", ended.err);
    let json = ended.json();
    assert_eq!((&json["outcome"], &json["pause"]["reason"]), (&json!("suspended"), &json!("budget")));
    assert_eq!(json["pause"]["until"], json["ru"]["refills_at"]);
    assert_eq!(service.sandbox.log().ru().get(), 9);
    let richer = place.set("CRM_MIRROR_BUDGET__LIMIT", "10000");
    richer.run("sync").done();
    assert_eq!(richer.ask("SELECT count(*) FROM contacts_full WHERE details_current"), "230");
}

#[test]
fn a_long_hold_pauses_and_binds_the_next_process() {
    let service = Service::with(20, 5);
    let hold = Fault::TooMany { body: Some(3600), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    let place = Place::of(&service);
    let ended = place.run("sync").code(75);
    assert!(ended.err.contains("the service asked for quiet until "), "{}", ended.err);
    let asked = service.sandbox.log().len();
    place.run("sync").code(75);
    assert_eq!(service.sandbox.log().len(), asked, "nothing is sent during a hold");
    let status = place.run("status").done();
    assert!(status.out.contains("hold     rate limit: no request before "), "{}", status.out);
}

#[test]
fn a_short_hold_is_waited_for() {
    let service = Service::with(20, 5);
    let hold = Fault::TooMany { body: Some(1), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    let place = Place::of(&service);
    let ended = place.run("sync").done();
    assert!(ended.err.contains("the service asked to wait until "), "{}", ended.err);
}

#[test]
fn what_looks_like_an_outage_is_65_until_a_person_accepts_it() {
    let service = Service::with(200, 5);
    let place = Place::of(&service);
    place.run("sync").done();
    service.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts).iter().take(90) {
            world.remove(Object::Contact, id);
        }
    });
    let ended = place.run("resync").code(65);
    assert!(ended.err.contains("error: 90 of 200 contacts would be removed at once"), "{}", ended.err);
    assert!(ended.err.contains("`crm-mirror resync contacts --accept-removals`"), "{}", ended.err);
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "200");
    let status = place.run("status").done();
    assert!(status.out.contains("refused: 90 of 200 contacts would be removed at once"), "{}", status.out);
    place.run("resync contacts --accept-removals").done();
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "110");
    assert_eq!(place.ask("SELECT count(*) FROM removed_records"), "90");
    assert!(!place.run("status").out.contains("refused:"));
}
