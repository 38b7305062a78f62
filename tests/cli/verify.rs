//! `verify` and `--dry-run`: their output, cost and exit codes.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{Ended, SECRET, Service, TestDir};

#[test]
fn differences_are_listed_exit_with_1_and_are_repaired_on_request() {
    let service = Service::with(120, 10);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let clean = place.run("verify").done();
    assert!(clean.out.contains("contacts: equal to the service"), "{}", clean.out);

    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.pragma_update(None, "foreign_keys", false).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let id: String = conn.query_row("SELECT id FROM contacts WHERE rowid = 7", [], |row| row.get(0)).unwrap();
    conn.execute("UPDATE contacts SET name = 'Nobody' WHERE rowid = 7", []).unwrap();
    conn.execute("DELETE FROM companies WHERE rowid = 3", []).unwrap();
    drop(conn);
    let found = place.run("verify --full").code(1);
    assert!(found.out.contains(&id) && found.out.contains("\"Nobody\""), "{}", found.out);
    assert!(found.err.contains("hint: `crm-mirror verify --repair` repairs"), "{}", found.err);

    let document = place.run("verify --full --repair --json").done().json();
    assert_eq!(document["repaired"], json!(true));
    let stale: Vec<_> =
        document["objects"].as_array().unwrap().iter().map(|object| object["different"].clone()).collect();
    assert_eq!(stale, [json!(1), json!(0)]);
    assert_eq!(document["objects"][1]["missing"], json!(1));
    assert_eq!(document["objects"][0]["differences"][0]["fields"][0]["column"], json!("name"));
    place.run("verify --full").done();
}

/// The newest record is among those that were removed: no answer can be as new as it.
#[test]
fn undecided_records_exit_with_1_and_are_not_equal() {
    let service = Service::with(120, 10);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let contact = crm_mirror::model::Object::Contact;
    let newest = service.sandbox.world().ids(contact.resource())[0].clone();
    service.sandbox.with_world(|world| world.edit(contact, &newest, &json!({ "name": "Newest" })));
    place.run("sync").done();
    service.sandbox.with_world(|world| world.remove(contact, &newest));
    let (again, repair) =
        ("run it again in a quarter of an hour", "`crm-mirror verify --repair`, and again in a quarter");
    for (options, hint) in [("", repair), (" --full", repair), (" --repair", again)] {
        let found = place.run(&format!("verify contacts{options}")).code(1);
        assert!(found.out.contains("0 missing, 0 extra, 0 different; 1 undecided"), "{}", found.out);
        assert!(!found.out.contains("equal"), "{}", found.out);
        assert!(found.err.contains(hint), "{}", found.err);
    }
    let document = place.run("verify contacts --json").code(1).json();
    let contacts = &document["objects"][0];
    assert_eq!((&contacts["clean"], &contacts["undecided"], &contacts["open"]), (&json!(false), &json!(1), &json!(1)));
}

#[test]
fn objects_that_were_not_copied_differ() {
    let service = Service::with(120, 10);
    let place = TestDir::of(&service);
    for options in ["", "--full", "--repair"] {
        let found = place.run(&format!("verify contacts {options}")).code(1);
        assert!(found.out.contains("contacts: 120 missing, 0 extra"), "{}", found.out);
        assert!(!found.out.contains("repaired"), "{}", found.out);
        assert!(found.err.contains("contacts have not been copied yet: run `crm-mirror sync`"), "{}", found.err);
    }
}

#[test]
fn refused_removals_are_neither_equal_nor_repaired() {
    let service = Service::with(20, 40);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let company = crm_mirror::model::Object::Company;
    service.sandbox.with_world(|world| {
        for id in world.ids(company.resource()).iter().skip(10).take(20) {
            world.remove(company, id);
        }
    });
    let refused = place.run("verify companies --repair").code(65);
    assert!(refused.out.contains("companies: 0 missing, 0 extra, 0 different; 20 refused ("), "{}", refused.out);
    assert!(refused.err.contains("error: 20 of 40 companies would be removed at once"), "{}", refused.err);
    let document = place.run("verify companies --repair --json").code(65).json();
    let companies = &document["objects"][0];
    let counts = ["undecided", "open", "missing", "extra", "different"].map(|name| companies[name].clone());
    assert_eq!((&companies["clean"], counts), (&json!(false), [20, 20, 0, 0, 0].map(Value::from)));
    let accepted = place.run("verify companies --repair --accept-removals").done();
    assert!(accepted.out.contains("companies: 0 missing, 20 extra, 0 different, repaired ("), "{}", accepted.out);
}

/// Who closes stdout, as `| head` does, wants no more of the text; what was found is said on stderr and by the code.
#[test]
fn closed_stdout_does_not_replace_the_verdict() {
    let service = Service::with(20, 40);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let company = crm_mirror::model::Object::Company;
    service.sandbox.with_world(|world| {
        for id in world.ids(company.resource()).iter().skip(10).take(20) {
            world.remove(company, id);
        }
    });
    let unread = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Ended::from(place.command(&words).stdout(writer).stderr(Stdio::piped()).output().unwrap())
    };
    for line in ["resync companies", "resync companies --json", "verify companies --repair"] {
        let refused = unread(line).code(65);
        assert!(refused.err.contains("error: 20 of 40 companies would be removed at once"), "{line}: {}", refused.err);
    }
    for line in ["verify companies", "verify companies --json"] {
        assert!(unread(line).code(1).err.contains("hint: "), "{line}");
    }
    unread("sync").done();
    service.sandbox.set_key(SECRET, &[]);
    unread("check").code(77);
}

#[test]
fn verification_that_was_served_nothing_is_not_done() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    // No short list is due.
    service.sandbox.set_key(SECRET, &["custom-fields:read", "team-members:read"]);
    for line in ["verify", "verify --json", "verify --full --repair", "verify contacts", "sync --dry-run", "sync"] {
        let ended = place.run(line).code(77);
        assert!(ended.err.contains("cannot read any of the requested objects; it lacks "), "{line}: {}", ended.err);
        assert!(ended.err.contains("contacts:read") && ended.out.is_empty(), "{line}: {}{}", ended.out, ended.err);
    }
    service.sandbox.set_key(SECRET, &["companies:read"]);
    place.run("verify").done();
    place.run("verify contacts").code(77);
    place.run("sync --dry-run").done();
    let lists = place.set("CRM_MIRROR_SYNC__OBJECTS", "team-members");
    let refused = lists.run("verify").code(2);
    assert!(refused.err.starts_with("error: `contacts` is not among `sync.objects`"), "{}", refused.err);
}

#[test]
fn objects_that_are_not_configured_are_not_compared() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    place.run("sync").done();
    let verified = place.run("verify").done();
    assert!(verified.out.contains("contacts: equal") && !verified.out.contains("companies"), "{}", verified.out);
}

#[test]
fn dry_run_shows_the_cost_and_changes_nothing() {
    let service = Service::with(230, 20);
    let place = TestDir::of(&service);
    let ended = place.run("sync --dry-run").done();
    assert!(ended.out.contains("contacts: 230 rows read whole, 4 RU for lists, 230 RU for details"), "{}", ended.out);
    assert_eq!(service.sandbox.log().ru().get(), 2, "1 RU an object");
    assert!(place.files().is_empty(), "no mirror is made");
    let document = place.run("sync --dry-run --json").done().json();
    assert_eq!(document["total"], json!(4 + 1 + 230 + 20 + 5));
    place.run("sync").done();
    let spent = service.sandbox.log().ru().get() - 4;
    let total = document["total"].as_u64().unwrap();
    assert!(spent.abs_diff(total) * 20 <= spent, "{spent} of {total}");
    costs_what_it_says(&service, &place, "resync");
}

#[test]
fn dry_run_says_how_many_windows_the_run_takes() {
    let service = Service::with(230, 20);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    assert_eq!(place.run("sync --dry-run --json").done().json()["windows"], json!(1));
    let place = place.set("CRM_MIRROR_BUDGET__LIMIT", "100").set("CRM_MIRROR_BUDGET__WINDOW", "2h");
    let cost = place.run("sync --dry-run --json").done().json();
    // Of 260 RU, this window pays for 98, and two more for the rest.
    assert_eq!((&cost["total"], &cost["left"], &cost["windows"]), (&json!(260), &json!(98), &json!(3)));
    let text = place.run("sync --dry-run").done().out;
    assert!(text.ends_with("in this window, so it takes about 3 windows of 2 h\n"), "{text}");
}

/// Runs a verb, and compares what it spends with its dry run.
#[track_caller]
fn costs_what_it_says(service: &Service, place: &TestDir, verb: &str) -> u64 {
    let forecast = place.run(&format!("{verb} --dry-run --json")).done().json()["total"].as_u64().unwrap();
    let before = service.sandbox.log().ru().get();
    place.run(verb).done();
    let spent = service.sandbox.log().ru().get() - before;
    assert!(spent.abs_diff(forecast) * 20 <= spent, "{spent} of {forecast}");
    spent
}

#[test]
fn dry_run_prices_every_step_that_the_run_takes() {
    let service = Service::with(450, 60);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    // A resync that stopped before its sweeps: the next run begins them.
    let few = service.sandbox.log().ru().get() + 5;
    let place = place.set("CRM_MIRROR_BUDGET__LIMIT", &few.to_string());
    place.run("resync").code(75);
    let place = place.set("CRM_MIRROR_BUDGET__LIMIT", "10000");
    assert!(costs_what_it_says(&service, &place, "sync") >= 8, "with the sweeps that are wanted");
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let at = "SET fetched_at = '2001-01-01T00:00:00.000000Z'";
    conn.execute_batch(&format!("UPDATE contact_details {at}; UPDATE company_details {at}")).unwrap();
    drop(conn);
    assert_eq!(costs_what_it_says(&service, &place, "sync"), 4, "with an old detail of each object");
    let place = place.set("CRM_MIRROR_SYNC__DETAIL_MAX_AGE", "0");
    let ids = service.sandbox.world().ids(crm_mirror::model::Resource::Contacts);
    for id in ids.iter().take(40) {
        place.run(&format!("edit contact {id} notes=Seen")).done();
    }
    assert!(costs_what_it_says(&service, &place, "sync") >= 120, "with the edits that wait");
}

#[test]
fn dry_run_leaves_out_what_is_reserved() {
    let service = Service::with(60, 0);
    let place =
        TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "100").set("CRM_MIRROR_SYNC__SCHEDULE", "0 * * * * *");
    let cost = place.run("sync --dry-run --json").done().json();
    assert!(cost["left"].as_u64().unwrap() + 20 < 100, "{cost}");
}

#[test]
fn missing_scope_skips_its_object_in_verify() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let key = service.sandbox.add_key(&["companies:read"]);
    let other = TestDir::of(&service)
        .set("CRM_MIRROR_API__KEY", &key)
        .set("CRM_MIRROR_DATABASE__PATH", place.path("mirror.db").to_str().unwrap());
    let ended = other.run("verify").done();
    assert!(ended.err.contains("contacts were not verified: the key lacks `contacts:read`"), "{}", ended.err);
    assert!(ended.out.contains("companies: equal"), "{}", ended.out);
    let document = other.run("verify --json").done().json();
    assert_eq!(document["notes"], json!(["contacts were not verified: the key lacks `contacts:read`"]));
}

/// What only details show was not compared.
#[test]
fn details_that_are_not_current_are_not_called_equal() {
    let service = Service::with(60, 5);
    let place = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "25").set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    place.run("resync").code(75);
    let place = place.set("CRM_MIRROR_BUDGET__LIMIT", "10000");
    let verified = place.run("verify contacts").done();
    assert!(verified.out.contains("contacts: its lists are equal; "), "{}", verified.out);
    assert!(verified.out.contains(" details are not current"), "{}", verified.out);
    let document = place.run("verify contacts --json").done().json();
    let pending = document["objects"][0]["details_pending"].as_u64().unwrap();
    let note = format!("contacts: {pending} details are not current; `crm-mirror sync` reads them");
    assert!(pending > 20 && document["notes"] == json!([note]), "{document}");
    place.run("sync").done();
    let verified = place.run("verify contacts --json").done().json();
    assert_eq!((&verified["objects"][0]["details_pending"], &verified["notes"]), (&json!(0), &json!([])));
}
