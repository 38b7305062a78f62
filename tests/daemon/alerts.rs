//! The alert rules on days and weeks of a real daemon in which time passes: nothing fires while all is well, and each
//! trouble fires its own alert and no other, and is told once. The rules need `promtool`, which is named if it is missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use crm_mirror::model::{Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, generate};
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
    fn after(inside: &Inside, steps: u64) -> Scraped {
        Scraped::after_each(inside, steps, |_| true)
    }

    /// Lets time pass as far as the daemon keeps up: until its status is `ready` after each step.
    fn after_each(inside: &Inside, steps: u64, ready: impl Fn(&Value) -> bool) -> Scraped {
        let mut scraped = Scraped::default();
        for _ in 0..steps {
            inside.crm.wait(STEP);
            // Reading the status makes the daemon read the clock.
            socket::until("the runs under way", || {
                let before = inside.status()["daemon"]["running"].is_null();
                let status = inside.status();
                (before && status["daemon"]["running"].is_null() && ready(&status)).then_some(())
            });
            scraped.add(&socket::ask(&inside.socket, "GET", "/metrics", b"").with(200).body);
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
    fn first(&self, scrapes: u64) -> Scraped {
        let scrapes = scrapes as usize;
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

/// A week where there is time for it, else a day.
#[test]
fn healthy_week_fires_nothing() {
    let (inside, hook) = started(&[]);
    let days = crate::support::cases::records(7) as u64;
    // A slow machine must not let hours pass before a run has begun.
    let is_fresh = |status: &Value| {
        let contacts =
            status["objects"].as_array().unwrap().iter().find(|object| object["object"] == "contacts").unwrap();
        let read: Option<Instant> = contacts["changes_as_of"].as_str().and_then(|at| at.parse().ok());
        read.is_some_and(|read| inside.now().since(read).as_secs() < 3 * STEP)
    };
    let week = Scraped::after_each(&inside, days * 86_400 / STEP, is_fresh);
    let interval = &week.series["crm_mirror_scheduled_interval_seconds{object=\"team-members\",workspace=\"default\"}"];
    assert!(interval.iter().flatten().all(|seconds| *seconds > 5.9 * 3600.0 / 2.0 && *seconds <= 21_600.0));
    week.fires(&[]);
    assert_eq!(told(&hook), Vec::<String>::new());
}

#[test]
fn holds_that_are_renewed_for_ever_fire_one_alert() {
    let (inside, hook) = started(&[]);
    inside.crm.sandbox.faults().add(Rule::new(Fault::TooMany { body: Some(3000), header: None }).forever());
    Scraped::after(&inside, 8 * 3600 / STEP).fires(&["CrmMirrorHold"]);
    assert_eq!(told(&hook), ["stale begins"]);
}

#[test]
fn service_that_is_down_fires_one_alert() {
    let (inside, hook) = started(&[]);
    inside.crm.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    Scraped::after(&inside, 8 * 3600 / STEP).fires(&["CrmMirrorStale"]);
    assert_eq!(told(&hook), ["stale begins"]);
}

#[test]
fn pause_that_somebody_forgot_fires_one_alert() {
    let (inside, hook) = started(&[]);
    inside.post("/pause", &json!({})).with(200);
    let scraped = Scraped::after(&inside, 26 * 3600 / STEP);
    scraped.first(23 * 3600 / STEP).fires(&[]);
    scraped.fires(&["CrmMirrorPaused"]);
    assert_eq!(told(&hook), ["stale begins"]);
    assert_ne!(inside.status()["daemon"]["paused_since"], Value::Null);
}

#[test]
fn budget_that_is_spent_early_fires_one_alert() {
    let (inside, hook) = started(&[("BUDGET__LIMIT", "120")]);
    Scraped::after(&inside, 10 * 3600 / STEP).fires(&["CrmMirrorBudgetExhausted"]);
    assert_eq!(told(&hook), ["budget-spent begins"]);
}

#[test]
fn records_that_vanish_at_once_fire_one_alert() {
    let (inside, hook) = started(&[]);
    inside.crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        ids[..15].iter().for_each(|id| _ = world.remove(Object::Contact, id));
    });
    Scraped::after(&inside, 8 * 3600 / STEP).fires(&["CrmMirrorRemovalRefused"]);
    assert_eq!(told(&hook), ["refused-removals begins"]);
}
