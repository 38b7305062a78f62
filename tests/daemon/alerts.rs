//! The alert rules on days and weeks of a real daemon in which time passes: nothing fires while all is well, and each
//! trouble fires its own alert and no other, and is told once. The rules need `promtool`, which is named if it is missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, SCOPES, generate};
use serde_json::{Value, json};

use crate::inside::Inside;
use crate::notification::Hook;
use crate::socket;
use crate::support::noon;

/// The seconds between two scrapes.
const STEP: u64 = 300;

/// The schedules of a default installation.
const DEFAULT: [(&str, &str); 4] = [
    ("SYNC__SCHEDULE", "0 */5 * * * *"),
    ("SYNC__AUDIT_SCHEDULE", "0 0 */6 * * *"),
    ("SYNC__SWEEP_SCHEDULE", "0 0 3 * * SUN"),
    ("BUDGET__LIMIT", "10000"),
];

/// The samples of scrapes, by series.
#[derive(Default)]
struct Scraped {
    scrapes: usize,
    series: BTreeMap<String, Vec<Option<f64>>>,
}

impl Scraped {
    /// Lets time pass, and scrapes after each step.
    fn after(inside: &Inside, steps: usize) -> Scraped {
        let mut scraped = Scraped::default();
        for _ in 0..steps {
            inside.crm.wait(STEP);
            // Reading the status makes the daemon read the clock.
            socket::until("the runs under way", || {
                let before = inside.status()["daemon"]["running"].is_null();
                (before && inside.status()["daemon"]["running"].is_null()).then_some(())
            });
            scraped.add(&inside.metrics());
        }
        scraped
    }

    /// The same for a schedule that has one run in each step: waits for the end of that run instead of asking for it.
    fn after_runs(inside: &Inside, steps: usize) -> Scraped {
        let (mut scraped, mut events) = (Scraped::default(), inside.events());
        for _ in 0..steps {
            inside.crm.wait(STEP);
            // As old as it becomes: just before the run, which this request begins.
            scraped.add(&inside.metrics());
            let (started, _) = events.until(|event| event["event"] == "started" && event["work"] == "sync");
            events.finished(&started["job"]);
        }
        scraped
    }

    fn add(&mut self, page: &str) {
        for line in page.lines().filter(|line| !line.starts_with('#') && !line.contains("_duration_seconds")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            // The clock of promtool begins with the first scrape.
            let is_time = name.contains("_timestamp_seconds") && value > 0.0;
            let start = noon().as_micros() as f64 / 1e6 + STEP as f64;
            let value = if is_time { (value - start).max(1.0) } else { value };
            let values = self.series.entry(name.to_string()).or_default();
            values.resize(self.scrapes, None);
            values.push(Some(value));
        }
        self.scrapes += 1;
    }

    /// The first of these scrapes.
    fn first(&self, scrapes: usize) -> Scraped {
        let first = |values: &Vec<Option<f64>>| values[..scrapes.min(values.len())].to_vec();
        let series = self.series.iter().map(|(name, values)| (name.clone(), first(values))).collect();
        Scraped { scrapes, series }
    }

    /// The names of the alerts that fired.
    fn alerts(&self) -> Option<Vec<String>> {
        if Command::new("promtool").arg("--version").output().is_err() {
            println!("promtool is missing: the rules are not tested");
            return None;
        }
        let mut input = vec![
            json!({"series": "up{job=\"crm-mirror\",instance=\"a\"}", "values": format!("1x{}", self.scrapes - 1)}),
        ];
        for (name, values) in &self.series {
            let mut text = String::new();
            for at in 0..self.scrapes {
                let _ = match values.get(at).copied().flatten() {
                    Some(value) => write!(text, "{value} "),
                    None => write!(text, "_ "),
                };
            }
            let name = name.replacen('{', "{job=\"crm-mirror\",instance=\"a\",", 1);
            input.push(json!({"series": name, "values": text.trim_end()}));
        }
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring/alerts.yml");
        let end = (self.scrapes as u64 - 1) * STEP;
        let firing = "count by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[30d]))";
        let test = json!({
            "rule_files": [rules],
            "evaluation_interval": format!("{STEP}s"),
            "tests": [{
                "interval": format!("{STEP}s"),
                "input_series": input,
                "promql_expr_test": [{"expr": firing, "eval_time": format!("{end}s"), "exp_samples": [{"value": 0}]}],
            }],
        });
        let file = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
        // JSON is YAML too.
        std::fs::write(file.path(), test.to_string()).unwrap();
        let ran = Command::new("promtool").args(["test", "rules"]).arg(file.path()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        // The expectation is never met: what is there instead is in the message.
        let got = said.split("got:").nth(1).unwrap_or_else(|| panic!("{said}"));
        Some(got.split("alertname=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_string()).collect())
    }

    /// Panics unless exactly these alerts fired.
    #[track_caller]
    fn fires(&self, expected: &[&str]) {
        if let Some(alerts) = self.alerts() {
            assert_eq!(alerts, expected);
        }
    }
}

fn started(settings: &[(&str, &str)]) -> (Inside, Hook) {
    let hook = Hook::listen(0);
    let all = [&DEFAULT[..], &[("NOTIFY__WEBHOOK", &hook.address)], settings].concat();
    let inside = Inside::start(generate(5, 30, 4, noon()), &all);
    inside.settle();
    (inside, hook)
}

/// What people were told, in order.
fn told(hook: &Hook) -> Vec<String> {
    let word = |message: &Value, name: &str| message[name].as_str().unwrap().to_string();
    hook.messages.try_iter().map(|message| word(&message, "episode") + " " + &word(&message, "state")).collect()
}

/// A trouble of the list in `docs/operations.md`.
struct Listed {
    name: &'static str,
    alert: &'static str,
    /// Within so many steps.
    within: usize,
    notification: &'static str,
}

/// The list in `docs/operations.md`.
fn listed() -> impl Iterator<Item = Listed> {
    let page = include_str!("../../docs/operations.md");
    let (_, table) = page.split_once("\n| trouble | alert | within | notification |\n").unwrap();
    table.lines().skip(1).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [name, alert, within, notification] = cells[..] else { panic!("{line}") };
        let (number, unit) = within.split_once(' ').unwrap();
        let seconds = number.parse::<u64>().unwrap() * if unit == "min" { 60 } else { 3600 };
        Listed { name, alert, within: (seconds / STEP) as usize, notification }
    })
}

/// Plants a trouble of the list: exactly its alert fires, within its time and in the hour after it, and people are told
/// once.
#[track_caller]
fn plant(name: &str, settings: &[(&str, &str)], trouble: impl FnOnce(&Inside)) -> Inside {
    let listed = listed().find(|listed| listed.name == name).unwrap();
    let (inside, hook) = started(settings);
    trouble(&inside);
    let scraped = Scraped::after(&inside, listed.within + 3600 / STEP as usize);
    scraped.first(listed.within).fires(&[listed.alert]);
    scraped.fires(&[listed.alert]);
    let mut told = told(&hook);
    socket::until("the message", || {
        told.extend(self::told(&hook));
        (!told.is_empty()).then_some(())
    });
    assert_eq!(told, [format!("{} begins", listed.notification)]);
    inside
}

/// Each trouble of the list is planted, here or in a process of its own, and each alert is in the list, but those of which
/// the page says why they are tested on made-up series only.
#[test]
fn list_of_troubles_is_planted_and_has_every_alert() {
    let planted = concat!(include_str!("alerts.rs"), include_str!("../monitoring/planted.py"));
    for listed in listed() {
        assert!(planted.contains(&format!("\"{}\"", listed.name)), "nobody plants: {}", listed.name);
    }
    let rules = include_str!("../../docs/monitoring/alerts.yml");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let is_listed = listed().any(|listed| listed.alert == alert);
        let is_made_up = alert == "CrmMirrorIncomplete" || alert.starts_with("CrmMirrorPublish");
        assert!(is_listed != is_made_up, "{alert}");
    }
}

/// A week where there is time for it, else two days.
#[test]
fn healthy_week_fires_nothing() {
    let (inside, hook) = started(&[]);
    let days = crate::support::cases::records(10).min(7);
    let week = Scraped::after_runs(&inside, days * 86_400 / STEP as usize);
    let interval = &week.series["crm_mirror_scheduled_interval_seconds{object=\"team-members\",workspace=\"default\"}"];
    assert!(interval.iter().flatten().all(|seconds| *seconds > 5.9 * 3600.0 / 2.0 && *seconds <= 21_600.0));
    week.fires(&[]);
    assert_eq!(told(&hook), Vec::<String>::new());
}

#[test]
fn service_that_is_down_fires_one_alert() {
    plant("the service does not answer", &[], |inside| {
        inside.crm.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    });
}

#[test]
fn key_that_is_revoked_fires_one_alert() {
    plant("the API key is revoked", &[], |inside| inside.crm.sandbox.revoke_key(&inside.crm.key));
}

#[test]
fn one_long_hold_fires_one_alert() {
    plant("the service asks for one wait of six hours", &[], |inside| {
        inside.crm.sandbox.faults().add(Rule::new(Fault::TooMany { body: Some(6 * 3600), header: None }).times(1));
    });
}

#[test]
fn holds_that_are_renewed_for_ever_fire_one_alert() {
    plant("the service asks for waits again and again", &[], |inside| {
        inside.crm.sandbox.faults().add(Rule::new(Fault::TooMany { body: Some(3000), header: None }).forever());
    });
}

#[test]
fn pause_that_somebody_forgot_fires_one_alert() {
    let inside = plant("somebody pauses the schedule and forgets it", &[], |inside| {
        inside.post("/pause", &json!({})).with(200);
    });
    assert_ne!(inside.status()["daemon"]["paused_since"], Value::Null);
}

#[test]
fn budget_that_is_spent_early_fires_one_alert() {
    plant("the budget is spent", &[("BUDGET__LIMIT", "120")], |_| {});
}

#[test]
fn records_that_vanish_at_once_fire_one_alert() {
    plant("half of the contacts vanish", &[], |inside| {
        inside.crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            ids[..15].iter().for_each(|id| _ = world.remove(Object::Contact, id));
        });
    });
}

#[test]
fn counts_that_are_refused_fire_nothing() {
    let (inside, hook) = started(&[]);
    for name in ["count", "filter[createdAt][gte]", "filter[createdAt][lt]"] {
        inside.crm.sandbox.faults().add(Rule::new(Fault::Status(400)).with_param(name).forever());
    }
    Scraped::after(&inside, 13 * 3600 / STEP as usize).fires(&[]);
    assert_eq!(told(&hook), Vec::<String>::new());
}

#[test]
fn removal_that_nothing_proves_fires_one_alert() {
    plant("the service lacks a contact and refuses to say whether it exists", &[], |inside| {
        let lookups = Rule::new(Fault::Status(400)).on(Resource::Contacts).with_param("filter[id][in]").forever();
        inside.crm.sandbox.faults().add(lookups);
        inside.crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            world.remove(Object::Contact, &ids[3]);
        });
    });
}

#[test]
fn edit_in_conflict_fires_one_alert() {
    plant("an edit is in conflict", &[("WRITE_BACK__ENABLED", "true")], |inside| {
        let id = inside.crm.sandbox.with_world(|world| world.ids(Resource::Contacts)[0].to_string());
        inside.crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({"position": "Theirs"})));
        let edit = json!({"object": "contact", "id": id, "fields": {"position": "Ours"}});
        inside.post("/edits", &edit).with(202);
    });
}

#[test]
fn scope_that_the_key_lacks_fires_one_alert() {
    plant("the API key loses a scope", &[], |inside| {
        let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "companies:read").collect();
        inside.crm.sandbox.set_key(&inside.crm.key, &scopes);
    });
}
