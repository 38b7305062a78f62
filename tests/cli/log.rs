//! The log: one line per run, and at no level any record values or the key.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{SECRET, Service, TestDir};

/// Part of every value that the log must not contain.
const MARK: &str = "Zyxmark";

/// The JSON lines of a log.
fn documents(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_run_is_logged_in_one_line_with_its_numbers() {
    let service = Service::with(230, 20);
    let place = TestDir::of(&service);
    for (number, verb) in ["sync", "sync", "resync contacts", "verify"].into_iter().enumerate() {
        let ended = place.run(&format!("{verb} --log-format json")).done();
        let lines: Vec<Value> = documents(&ended.err).into_iter().filter(|line| line["level"] == "INFO").collect();
        let [line] = &lines[..] else { panic!("{verb}: {lines:?}") };
        let columns = ["id", "kind", "\"trigger\"", "outcome", "ru"].join("|| ' ' ||");
        let entered = place.ask(&format!("SELECT {columns} AS entered FROM sync_runs ORDER BY id DESC LIMIT 1"));
        let field = |name: &str| match &line[name] {
            Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        let logged = ["run", "kind", "trigger", "outcome", "ru"].map(field);
        assert_eq!(logged.join(" "), entered, "{verb}");
        assert_eq!(line["run"], number + 1);
        let spent = service.sandbox.log().ru().get();
        let words = line["message"].as_str().unwrap();
        assert!(words.contains(&format!("{} RU spent, {} left", line["ru"], 10_000 - spent)), "{words}");
    }
}

#[test]
fn failed_or_suspended_run_is_logged_with_its_numbers() {
    let service = Service::with(230, 5);
    let poor = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "10").set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    let paused = poor.run("sync --log-format text").code(75);
    let lines: Vec<&str> = paused.err.lines().filter(|line| line.contains(" INFO ")).collect();
    assert_eq!(lines.len(), 1, "{}", paused.err);
    assert!(lines[0].contains("sync, run 1 (manual): suspended after "), "{}", paused.err);
    assert!(lines[0].ends_with("10 RU spent, 0 left"), "{}", paused.err);
    let refused = TestDir::of(&service).set("CRM_MIRROR_API__KEY", "another");
    let refused = refused.run("sync --log-format text").code(77);
    assert!(refused.err.contains("sync, run 1 (manual): failed after "), "{}", refused.err);
}

/// Cron sends both streams in one mail.
#[test]
fn without_a_terminal_a_result_is_printed_once() {
    let service = Service::with(30, 3);
    let place = TestDir::of(&service);
    let ended = place.run("sync").done();
    assert_eq!((ended.out.lines().next().unwrap().contains("sync finished in"), ended.err.as_str()), (true, ""));
    service.sandbox.faults().add(Rule::new(Fault::Status(400)).forever());
    for level in ["info", "warn"] {
        let failed = place.run(&format!("sync --log-level {level}")).code(69);
        assert_eq!((failed.err.matches("error: ").count(), failed.out.as_str()), (1, ""), "{}", failed.err);
        assert!(!failed.err.contains(" WARN ") && !failed.err.contains("sync, run "), "{}", failed.err);
    }
}

/// The service counts nothing, which nobody can do anything about.
#[test]
fn counts_that_are_refused_are_no_warning() {
    let service = Service::with(230, 5);
    let place = TestDir::of(&service);
    service.sandbox.faults().add(Rule::new(Fault::Status(400)).with_param("count").forever());
    let ended = place.run("sync --log-format text").done();
    assert!(ended.err.contains("could not be counted") && !ended.err.contains("WARN"), "{}", ended.err);
}

#[test]
fn personal_data_and_the_key_are_logged_at_no_level() {
    let service = Service::with(40, 10);
    service.sandbox.with_world(|world| {
        let marked = json!({
            "name": format!("{MARK} One"), "firstName": MARK, "lastName": format!("{MARK}son"),
            "email": format!("{MARK}@people.example"), "phone": MARK, "position": MARK, "notes": format!("{MARK} said"),
            "customFields": {"tier": MARK, "lifetime_value": format!("{MARK}1.50"), "unheard_of": MARK},
        });
        for id in world.ids(Resource::Contacts) {
            world.edit(Object::Contact, &id, &marked);
        }
        for id in world.ids(Resource::Companies) {
            world.edit(Object::Company, &id, &json!({"name": MARK, "website": MARK}));
        }
    });
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let mut edits = 0;
    // The second command names the libraries' level.
    for (level, format) in [
        ("trace", "text"),
        ("trace,hyper=trace,hyper_util=trace,reqwest=trace,h2=trace,rustls=trace,log=trace", "json"),
    ] {
        for fault in [
            Fault::Status(500),
            Fault::Truncated,
            Fault::StatusAfterApply(200),
            Fault::Body(format!(r#"{{"data": "{MARK}"}}"#)),
            Fault::Body(format!(r#"{{"data": [{{"id": "{MARK}", "name": ["{MARK}"]}}]}}"#)),
            Fault::Body(format!("{MARK}: it is not JSON")),
        ] {
            service.sandbox.faults().add(Rule::new(fault).on(Resource::Contacts).lists());
            let log_of = |verb: &[&str]| {
                let args = [verb, &["--log-level", level, "--log-format", format]].concat();
                String::from_utf8(place.command(&args).output().unwrap().stderr).unwrap()
            };
            edits += 1;
            let edit = log_of(&["edit", "contact", &contact, &format!("position={MARK} {edits}")]);
            assert!(!edit.contains(MARK), "{edit}");
            let log = log_of(&["push"]) + &log_of(&["resync"]);
            assert!(log.contains("DEBUG") && log.contains("Retrying in "), "it really is at trace: {log}");
            if format == "json" {
                let is_ours = |line: &Value| line["target"].as_str().unwrap().starts_with("crm_mirror");
                let fine = |line: &Value| line["level"] == "TRACE" || line["level"] == "DEBUG";
                assert!(documents(&log).iter().all(|line| is_ours(line) || !fine(line)), "{log}");
            }
            for secret in [MARK, SECRET, "earer", "people.example"] {
                assert!(!log.contains(secret), "{secret} at {level}: {log}");
            }
        }
    }
    assert_eq!(place.ask("SELECT state, count(*) FROM outbox GROUP BY state"), format!("applied,{edits}"));
    assert_eq!(place.ask(&format!("SELECT count(*) FROM contacts_full WHERE name = '{MARK} One'")), "40");
}
