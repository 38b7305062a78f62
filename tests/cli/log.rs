//! The log: one line a run, and at no level anything of people or the key.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{Place, SECRET, Service};

/// Stands in every value that a person would not want to find in a log.
const MARK: &str = "Zyxmark";

/// The documents of a log.
fn documents(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_run_ends_with_one_line_that_has_its_numbers() {
    let service = Service::with(230, 20);
    let place = Place::of(&service);
    for (number, verb) in ["sync", "sync", "resync contacts", "verify"].into_iter().enumerate() {
        let ended = place.run(&format!("{verb} --log-format json")).done();
        let lines: Vec<Value> = documents(&ended.err).into_iter().filter(|line| line["level"] == "INFO").collect();
        let [line] = &lines[..] else { panic!("{verb}: {lines:?}") };
        let columns =
            ["id", "kind", "\"trigger\"", "outcome", "\"rows\"", "inserted", "details", "ru"].join("|| ' ' ||");
        let entered = place.ask(&format!("SELECT {columns} AS entered FROM sync_runs ORDER BY id DESC LIMIT 1"));
        let field = |name: &str| match &line[name] {
            Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        let told = ["run", "kind", "trigger", "outcome", "rows", "inserted", "details", "ru"].map(field);
        assert_eq!(told.join(" "), entered, "{verb}");
        assert_eq!(line["run"], number + 1);
        let spent = service.sandbox.log().ru().get();
        assert_eq!(line["ru_left"], 10_000 - spent, "{verb}");
        assert!(line["took_ms"].is_u64(), "{line}");
        let words = line["message"].as_str().unwrap();
        assert!(words.contains(&format!("{} RU spent, {} left", line["ru"], line["ru_left"])), "{words}");
    }
}

#[test]
fn a_run_that_fails_or_pauses_ends_with_its_line_too() {
    let service = Service::with(230, 5);
    let poor = Place::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "9");
    let paused = poor.run("sync --log-format text").code(75);
    let lines: Vec<&str> = paused.err.lines().filter(|line| line.contains(" INFO ")).collect();
    assert_eq!(lines.len(), 1, "{}", paused.err);
    assert!(lines[0].contains("sync, run 1 (manual): suspended after "), "{}", paused.err);
    assert!(lines[0].ends_with("9 RU spent, 0 left"), "{}", paused.err);
    let refused = Place::of(&service).set("CRM_MIRROR_API__KEY", "another");
    let refused = refused.run("sync --log-format text").code(77);
    assert!(refused.err.contains("sync, run 1 (manual): failed after "), "{}", refused.err);
}

#[test]
fn nothing_of_people_or_the_key_is_logged_at_any_level() {
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
    let place = Place::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let mut edits = 0;
    // The second asks for the libraries by name.
    for (level, format) in [
        ("trace", "text"),
        ("trace,hyper=trace,hyper_util=trace,reqwest=trace,h2=trace,rustls=trace,log=trace", "json"),
    ] {
        for fault in [
            Fault::Status(500),
            Fault::Truncated,
            Fault::NotJson,
            Fault::Body(format!(r#"{{"data": "{MARK}"}}"#)),
            Fault::Body(format!(r#"{{"data": [{{"id": "{MARK}", "name": ["{MARK}"]}}]}}"#)),
            Fault::Body(format!("{MARK}: it is not JSON")),
        ] {
            service.sandbox.faults().add(Rule::new(fault).on(Resource::Contacts).lists());
            let told = |verb: &[&str]| {
                let args = [verb, &["--log-level", level, "--log-format", format]].concat();
                String::from_utf8(place.command(&args).output().unwrap().stderr).unwrap()
            };
            edits += 1;
            let edit = told(&["edit", "contact", &contact, &format!("position={MARK} {edits}")]);
            assert!(!edit.contains(MARK), "{edit}");
            let log = told(&["push"]) + &told(&["resync"]);
            assert!(log.contains("DEBUG") && log.contains("Trying again in "), "it really is at trace: {log}");
            if format == "json" {
                let told_by = |line: &Value| line["target"].as_str().unwrap().starts_with("crm_mirror");
                let fine = |line: &Value| line["level"] == "TRACE" || line["level"] == "DEBUG";
                assert!(documents(&log).iter().all(|line| told_by(line) || !fine(line)), "{log}");
            }
            for secret in [MARK, SECRET, "earer", "people.example"] {
                assert!(!log.contains(secret), "{secret} at {level}: {log}");
            }
        }
    }
    assert_eq!(place.ask("SELECT state, count(*) FROM outbox GROUP BY state"), format!("applied,{edits}"));
    assert_eq!(place.ask(&format!("SELECT count(*) FROM contacts_full WHERE name = '{MARK} One'")), "40");
}
