//! `sync` and `resync`: their output in text and JSON, and their exit codes.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::json;

use crate::binary::{Service, TestDir};

#[test]
fn first_copy_and_idle_run_print_a_summary() {
    let service = Service::with(230, 20);
    let place = TestDir::of(&service);
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
fn only_named_or_configured_objects_are_synced() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync team-members").done();
    let log = service.sandbox.log();
    assert_eq!((log.len(), log.lists(Resource::TeamMembers)), (1, 1));
    let limited = TestDir::of(&service).set("CRM_MIRROR_SYNC__OBJECTS", "companies, team-members");
    limited.run("sync").done();
    limited.run("sync").done();
    assert_eq!(limited.ask("SELECT count(*) FROM contacts"), "0");
    assert_eq!(limited.ask("SELECT count(*) FROM companies"), "5");
    // The configuration names the team, but the command does not: it is read when it is due.
    assert_eq!(service.sandbox.log().lists(Resource::TeamMembers), 2);
}

#[test]
fn exhausted_budget_suspends_the_run_and_shows_when_it_refills() {
    let service = Service::with(230, 5);
    let place = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "10").set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    let ended = place.run("sync --json").code(75);
    assert!(ended.err.contains("the budget of this window is spent; it refills at "), "{}", ended.err);
    assert!(ended.err.contains("`crm-mirror sync` continues from there"), "{}", ended.err);
    let json = ended.json();
    assert_eq!((&json["outcome"], &json["pause"]["reason"]), (&json!("suspended"), &json!("budget")));
    assert_eq!(json["pause"]["until"], json["ru"]["refills_at"]);
    assert_eq!(service.sandbox.log().ru().get(), 10);
    let richer = place.set("CRM_MIRROR_BUDGET__LIMIT", "10000");
    richer.run("sync").done();
    assert_eq!(richer.ask("SELECT count(*) FROM contacts_full WHERE details_current"), "230");
}

#[test]
fn manual_run_reserves_the_units_of_scheduled_runs() {
    let service = Service::with(230, 5);
    // Runs that are due every second would need more than half of the budget in any remaining part of a window.
    let place =
        TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "40").set("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *");
    let ended = place.run("sync --json").code(75);
    assert!(
        ended.err.contains("20 of 40 RU used; 20 are reserved for scheduled runs; the window ends at "),
        "{}",
        ended.err
    );
    assert_eq!(ended.json()["ru"]["left"], json!(20));
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "230", "lists go before details");
    // A run for changes may use the reserve.
    service.sandbox.clear_log();
    place.run("sync").code(75);
    assert_eq!(service.sandbox.log().ru().get(), 2);
    // Also where the run is listed: the budget is not spent.
    let status = place.run("status").done().out;
    assert!(status.contains("the 18 RU that are left in this window are reserved for scheduled runs"), "{status}");
}

#[test]
fn long_hold_suspends_the_run_and_applies_to_the_next_process() {
    let service = Service::with(20, 5);
    let hold = Fault::Wait { status: 429, body: Some(3600), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    let place = TestDir::of(&service);
    let ended = place.run("sync").code(75);
    assert!(ended.err.contains("rate limit: no request is sent before "), "{}", ended.err);
    let asked = service.sandbox.log().len();
    place.run("sync").code(75);
    assert_eq!(service.sandbox.log().len(), asked, "nothing is sent during a hold");
    let status = place.run("status").done();
    assert!(status.out.contains("hold     rate limit: no request before "), "{}", status.out);
}

#[test]
fn short_hold_is_waited_for() {
    let service = Service::with(20, 5);
    let hold = Fault::Wait { status: 429, body: Some(1), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    let place = TestDir::of(&service);
    let ended = place.run("sync").done();
    assert!(ended.err.contains("no request is sent until "), "{}", ended.err);
}

#[test]
fn suspected_outage_exits_with_65_until_accepted() {
    let service = Service::with(200, 5);
    let place = TestDir::of(&service);
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

/// A timer runs what its unit says, again and again. A list that fails is not asked for each time, and the unit has failed until it
/// is read; a person's run asks for it.
#[test]
fn run_of_a_timer_attempts_a_failing_list_only_when_its_delay_is_over() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    service.sandbox.faults().add(Rule::new(Fault::Status(400)).on(Resource::Companies).forever());
    for unit in ["sync", "resync"] {
        let unit = format!("{}/systemd/crm-mirror-{unit}.service", env!("CARGO_MANIFEST_DIR"));
        let unit = std::fs::read_to_string(unit).unwrap();
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/crm-mirror ")).unwrap();
        for run in 0..4 {
            service.sandbox.clear_log();
            let ended = place.run(line).code(69);
            let log = service.sandbox.log();
            assert_eq!(log.lists(Resource::Companies) > 0, run == 0, "{line}");
            assert_eq!(ended.err.contains("the next attempt is due at"), run > 0, "{line}: {}", ended.err);
            assert!(log.lists(Resource::Contacts) > 0, "{line}");
        }
    }
    let kept = "SELECT group_concat(DISTINCT \"trigger\") FROM sync_runs WHERE outcome = 'failed'";
    assert_eq!(place.ask(kept), "schedule");
    service.sandbox.clear_log();
    place.run("sync").code(69);
    assert!(service.sandbox.log().lists(Resource::Companies) > 0);
}
