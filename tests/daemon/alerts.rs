//! The alert rules on days and weeks of a real daemon in which time passes: nothing fires while all is well, and each
//! trouble fires its own alert and no other, and is told once. The rules need `promtool`, which is named if it is missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use crm_mirror::model::{Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, RequestLine, Rule, SCOPES, World, generate};
use serde_json::{Value, json};

use crate::binary::SECRET;
use crate::fixture::{Daemon, DaemonFixture};
use crate::inside::Inside;
use crate::notification::Hook;
use crate::socket;
use crate::support::noon;

/// The seconds between two scrapes where every run of the schedule is of interest.
const STEP: u64 = 300;

/// How long to wait for a message before more time passes.
const LOOK: Duration = Duration::from_millis(500);

/// The schedules of a default installation.
const DEFAULT: [(&str, &str); 4] = [
    ("SYNC__SCHEDULE", "0 */5 * * * *"),
    ("SYNC__AUDIT_SCHEDULE", "0 0 */6 * * *"),
    ("SYNC__SWEEP_SCHEDULE", "0 0 3 * * SUN"),
    ("BUDGET__LIMIT", "10000"),
];

/// The samples of scrapes, by series.
pub struct Scraped {
    /// The seconds between two scrapes.
    step: u64,
    /// The time of the first scrape, in seconds: the clock of promtool begins with it.
    start: f64,
    /// Whether each scrape was answered.
    up: Vec<bool>,
    series: BTreeMap<String, Vec<Option<f64>>>,
}

impl Scraped {
    fn new(step: u64, start: Instant) -> Scraped {
        Scraped { step, start: start.as_micros() as f64 / 1e6, up: Vec::new(), series: BTreeMap::new() }
    }

    /// Scrapes, lets time pass, and scrapes after each step. `rest` waits for what the runs of a step lead to.
    fn after(inside: &Inside, step: u64, steps: usize, rest: impl Fn(&Inside, u64)) -> Scraped {
        let mut scraped = Scraped::new(step, inside.now());
        scraped.add(Some(&inside.metrics()));
        for n in 1..=steps {
            inside.crm.wait(step);
            // Reading the status makes the daemon read the clock.
            socket::until("the runs under way", || {
                let before = inside.status()["daemon"]["running"].is_null();
                (before && inside.status()["daemon"]["running"].is_null()).then_some(())
            });
            rest(inside, n as u64 * step);
            scraped.add(Some(&inside.metrics()));
        }
        scraped
    }

    /// The same for a schedule that has one run in each step: waits for the end of that run instead of asking for it.
    fn after_runs(inside: &Inside, steps: usize) -> Scraped {
        let (mut scraped, mut events) =
            (Scraped::new(STEP, inside.now().plus(Duration::from_secs(STEP))), inside.events());
        for _ in 0..steps {
            inside.crm.wait(STEP);
            // As old as it becomes: just before the run, which this request begins.
            scraped.add(Some(&inside.metrics()));
            let (started, _) = events.until(|event| event["event"] == "started" && event["work"] == "sync");
            events.finished(&started["job"]);
        }
        scraped
    }

    /// Adds what a scrape was answered, if it was.
    fn add(&mut self, page: Option<&str>) {
        let is_sample = |line: &&str| !line.starts_with('#') && !line.contains("_duration_seconds");
        for line in page.unwrap_or_default().lines().filter(is_sample) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let is_time = name.contains("_timestamp_seconds") && value > 0.0;
            let value = if is_time { (value - self.start).max(1.0) } else { value };
            let values = self.series.entry(name.to_string()).or_default();
            values.resize(self.up.len(), None);
            values.push(Some(value));
        }
        self.up.push(page.is_some());
    }

    /// The first of these scrapes.
    fn first(&self, scrapes: usize) -> Scraped {
        let first = |values: &Vec<Option<f64>>| values[..scrapes.min(values.len())].to_vec();
        let series = self.series.iter().map(|(name, values)| (name.clone(), first(values))).collect();
        Scraped { up: self.up[..scrapes].to_vec(), series, ..*self }
    }

    /// The names of the alerts that fired.
    fn alerts(&self) -> Option<Vec<String>> {
        if Command::new("promtool").arg("--version").output().is_err() {
            println!("promtool is missing: the rules are not tested");
            return None;
        }
        let up: Vec<&str> = self.up.iter().map(|up| if *up { "1" } else { "0" }).collect();
        let mut input = vec![json!({"series": "up{job=\"crm-mirror\",instance=\"a\"}", "values": up.join(" ")})];
        for (name, values) in &self.series {
            let mut text = String::new();
            for at in 0..self.up.len() {
                let _ = match values.get(at).copied().flatten() {
                    Some(value) => write!(text, "{value} "),
                    None => write!(text, "_ "),
                };
            }
            let name = name.replacen('{', "{job=\"crm-mirror\",instance=\"a\",", 1);
            input.push(json!({"series": name, "values": text.trim_end()}));
        }
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring/alerts.yml");
        let end = (self.up.len() as u64 - 1) * self.step;
        let firing = "count by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[30d]))";
        let test = json!({
            "rule_files": [rules],
            "evaluation_interval": format!("{}s", self.step),
            "tests": [{
                "interval": format!("{}s", self.step),
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

fn line(message: &Value) -> String {
    format!("{} {}", message["episode"].as_str().unwrap(), message["state"].as_str().unwrap())
}

/// What people were told, in order.
pub fn told(hook: &Hook) -> Vec<String> {
    hook.messages.try_iter().map(|message| line(&message)).collect()
}

/// A trouble of the list in `docs/operations.md`.
struct Listed {
    name: &'static str,
    alert: &'static str,
    /// Within so many seconds.
    within: u64,
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
        let within = number.parse::<u64>().unwrap() * if unit == "min" { 60 } else { 3600 };
        Listed { name, alert, within, notification }
    })
}

fn listed_as(name: &str) -> Listed {
    listed().find(|listed| listed.name == name).unwrap()
}

impl Listed {
    /// The seconds between two scrapes.
    fn step(&self) -> u64 {
        match self.within {
            ..=18_000 => STEP,
            18_001..=86_400 => 6 * STEP,
            _ => 12 * STEP,
        }
    }

    /// Scrapes within the time of the alert and in the hour after it.
    fn steps(&self) -> usize {
        ((self.within + 3600) / self.step()) as usize
    }

    /// Panics unless exactly this alert fired, within its time and to the end.
    #[track_caller]
    fn fired(&self, scraped: &Scraped, before: usize) {
        scraped.first(before + (self.within / self.step()) as usize).fires(&[self.alert]);
        scraped.fires(&[self.alert]);
    }
}

/// Plants a trouble of the list and mends it: exactly its alert fires, within its time and in the hour after it; people are
/// told once when it begins, once when it is over, and nothing in between.
#[track_caller]
fn plant(name: &str, settings: &[(&str, &str)], trouble: impl FnOnce(&Inside), mend: impl FnOnce(&Inside)) {
    plant_and_wait(name, settings, trouble, |_, _| {}, mend);
}

/// The same, and `rest` waits after each step, by the seconds that have passed, for what follows the clock with a delay.
#[track_caller]
pub fn plant_and_wait(
    name: &str,
    settings: &[(&str, &str)],
    trouble: impl FnOnce(&Inside),
    rest: impl Fn(&Inside, u64),
    mend: impl FnOnce(&Inside),
) {
    let listed = listed_as(name);
    let (inside, hook) = started(settings);
    trouble(&inside);
    let scraped = Scraped::after(&inside, listed.step(), listed.steps(), rest);
    listed.fired(&scraped, 1);
    let mut all = Vec::new();
    // The daemon looks every two seconds of the machine's clock.
    socket::until("the message", || {
        all.extend(hook.messages.recv_timeout(LOOK).iter().map(line));
        inside.crm.wait(if all.is_empty() { STEP } else { 0 });
        (!all.is_empty()).then_some(())
    });
    mend(&inside);
    // Messages are delivered in order: whatever was told meanwhile comes before the end.
    let over = format!("{} over", listed.notification);
    socket::until("the message that it is over", || {
        inside.pass(listed.step());
        all.extend(hook.messages.recv_timeout(LOOK).iter().map(line));
        all.contains(&over).then_some(())
    });
    assert_eq!(all, [format!("{} begins", listed.notification), over]);
}

/// Each trouble of the list is planted, and each alert is in the list and links to what to do about it.
#[test]
fn list_of_troubles_is_planted_and_has_every_alert() {
    let planted = concat!(include_str!("alerts.rs"), include_str!("alerts_publish.rs"));
    for listed in listed() {
        assert!(planted.contains(&format!("\"{}\"", listed.name)), "nobody plants: {}", listed.name);
    }
    let rules = include_str!("../../docs/monitoring/alerts.yml");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(listed().any(|listed| listed.alert == alert), "{alert}");
        assert!(include_str!("../../docs/alerts.md").contains(&format!("\n## {alert}\n")), "{alert}");
        assert!(rules.contains(&format!("runbook: \"docs/alerts.md#{}\"\n", alert.to_lowercase())), "{alert}");
    }
}

/// A week where there is time for it, else half a day.
#[test]
fn healthy_week_fires_nothing() {
    let (inside, hook) = started(&[]);
    let hours = if crate::support::cases::records(10) >= 7 { 168 } else { 13 };
    let week = Scraped::after_runs(&inside, hours * 3600 / STEP as usize);
    let interval = &week.series["crm_mirror_scheduled_interval_seconds{object=\"team-members\",workspace=\"default\"}"];
    assert!(interval.iter().flatten().all(|seconds| *seconds > 5.9 * 3600.0 / 2.0 && *seconds <= 21_600.0));
    week.fires(&[]);
    assert_eq!(told(&hook), Vec::<String>::new());
}

fn answer_again(inside: &Inside) {
    inside.crm.sandbox.faults().clear();
}

fn accept_the_key(inside: &Inside) {
    inside.crm.sandbox.set_key(&inside.crm.key, &SCOPES);
}

#[test]
fn service_that_is_down_fires_one_alert() {
    let down = |inside: &Inside| inside.crm.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    plant("the service does not answer", &[], down, answer_again);
}

#[test]
fn key_that_is_revoked_fires_one_alert() {
    let revoke = |inside: &Inside| inside.crm.sandbox.revoke_key(&inside.crm.key);
    plant("the API key is revoked", &[], revoke, accept_the_key);
}

#[test]
fn one_long_hold_fires_one_alert() {
    let hold = |inside: &Inside| {
        inside
            .crm
            .sandbox
            .faults()
            .add(Rule::new(Fault::Wait { status: 429, body: Some(6 * 3600), header: None }).times(1));
    };
    plant("the service asks for one wait of six hours", &[], hold, |inside| {
        inside.post("/hold/clear", &json!({})).with(200);
    });
}

#[test]
fn holds_that_are_renewed_for_ever_fire_one_alert() {
    let holds = |inside: &Inside| {
        inside
            .crm
            .sandbox
            .faults()
            .add(Rule::new(Fault::Wait { status: 429, body: Some(3000), header: None }).forever());
    };
    plant("the service asks for waits again and again", &[], holds, answer_again);
}

#[test]
fn pause_that_somebody_forgot_fires_one_alert() {
    let pause = |inside: &Inside| _ = inside.post("/pause", &json!({})).with(200);
    plant("somebody pauses the schedule and forgets it", &[], pause, |inside| {
        assert_ne!(inside.status()["daemon"]["paused_since"], Value::Null);
        inside.nudge();
    });
}

#[test]
fn budget_that_is_spent_early_fires_one_alert() {
    plant("the budget is spent", &[("BUDGET__LIMIT", "80"), ("BUDGET__WINDOW", "6h")], |_| {}, |_| {});
}

#[test]
fn records_that_vanish_at_once_fire_one_alert() {
    let vanish = |inside: &Inside| {
        inside.crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            ids[..15].iter().for_each(|id| _ = world.remove(Object::Contact, id));
        });
    };
    plant("half of the contacts vanish", &[], vanish, |inside| {
        inside.post("/resync", &json!({"accept_removals": true})).with(202);
    });
}

#[test]
fn counts_that_are_refused_fire_nothing() {
    let (inside, hook) = started(&[]);
    for name in ["count", "filter[createdAt][gte]", "filter[createdAt][lt]"] {
        inside.crm.sandbox.faults().add(Rule::new(Fault::Status(400)).with_param(name).forever());
    }
    Scraped::after(&inside, 6 * STEP, 13 * 2, |_, _| {}).fires(&[]);
    assert_eq!(told(&hook), Vec::<String>::new());
}

#[test]
fn service_that_only_lists_changes_fires_one_alert() {
    let refuse = |inside: &Inside| {
        let faults = inside.crm.sandbox.faults().clone();
        inside.crm.sandbox.before_request(move |_: &mut World, asked: &RequestLine| {
            let follows = asked.query.iter().any(|(name, _)| name == "filter[updatedAt][gt]");
            let is_record = [Resource::Contacts, Resource::Companies].into_iter().any(|object| asked.lists(object));
            if is_record && !follows {
                faults.next(Fault::Status(400));
            }
        });
    };
    let mend = |inside: &Inside| {
        inside.crm.sandbox.clear_hook();
        inside.post("/verify", &json!({})).with(202);
    };
    plant("the service answers nothing but lists of changes", &[], refuse, mend);
}

#[test]
fn removal_that_nothing_proves_fires_one_alert() {
    let refuse = |inside: &Inside| {
        let lookups = Rule::new(Fault::Status(400)).on(Resource::Contacts).with_param("filter[id][in]").forever();
        inside.crm.sandbox.faults().add(lookups);
        inside.crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            world.remove(Object::Contact, &ids[3]);
        });
    };
    plant("the service lacks a contact and refuses to say whether it exists", &[], refuse, |inside| {
        answer_again(inside);
        inside.post("/resync", &json!({})).with(202);
    });
}

#[test]
fn edit_in_conflict_fires_one_alert() {
    let conflict = |inside: &Inside| {
        let id = inside.crm.sandbox.with_world(|world| world.ids(Resource::Contacts)[0].to_string());
        inside.crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({"position": "Theirs"})));
        inside.verb(&["edit", "contact", &id, "position=Ours"], &[("WRITE_BACK__ENABLED", "true")]);
    };
    plant("an edit is in conflict", &[("WRITE_BACK__ENABLED", "true")], conflict, |inside| {
        inside.verb(&["outbox", "drop", "1", "--yes"], &[]);
    });
}

#[test]
fn scope_that_the_key_lacks_fires_one_alert() {
    let lose = |inside: &Inside| {
        let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "companies:read").collect();
        inside.crm.sandbox.set_key(&inside.crm.key, &scopes);
    };
    plant("the API key loses a scope", &[], lose, accept_the_key);
}

/// The process that a signal reaches is the real one, on the machine's clock, without a schedule: each scrape stands for a
/// step.
fn scrape_process(scraped: &mut Scraped, daemon: &Daemon, scrapes: usize) {
    for _ in 0..scrapes {
        let is_up = UnixStream::connect(&daemon.socket).is_ok();
        let page = is_up.then(|| daemon.get("/metrics").with(200).body);
        scraped.add(page.as_deref());
    }
}

pub fn process() -> (DaemonFixture, Daemon, Hook, Scraped) {
    let hook = Hook::listen(0);
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_NOTIFY__WEBHOOK", &hook.address);
    std::fs::write(fixture.place.path("c.toml"), "").unwrap();
    let daemon = fixture.spawn(&["daemon", "--config", "c.toml"]);
    daemon.until_notified("READY=1");
    daemon.sync();
    let mut scraped = Scraped::new(STEP, Instant::system_now());
    scrape_process(&mut scraped, &daemon, 3);
    (fixture, daemon, hook, scraped)
}

#[test]
fn invalid_configuration_fires_one_alert() {
    let listed = listed_as("the configuration on disk is invalid");
    let (fixture, daemon, hook, mut scraped) = process();
    let reload = |text: &str| {
        std::fs::write(fixture.place.path("c.toml"), text).unwrap();
        daemon.signal("-HUP");
        daemon.until_notified("RELOADING=1");
        daemon.until_notified("READY=1");
    };
    reload("[sync]\nshedule = 1\n");
    scrape_process(&mut scraped, &daemon, listed.steps());
    listed.fired(&scraped, 3);
    let mut all = Vec::new();
    socket::until("the message", || {
        all.extend(told(&hook));
        (!all.is_empty()).then_some(())
    });
    reload("");
    socket::until("the message that it is over", || {
        all.extend(told(&hook));
        all.contains(&"reload-failed over".to_string()).then_some(())
    });
    assert_eq!(all, ["reload-failed begins", "reload-failed over"]);
    daemon.stop();
}

#[test]
fn daemon_that_is_killed_fires_one_alert() {
    let listed = listed_as("the daemon is killed");
    let (fixture, mut daemon, hook, mut scraped) = process();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    scrape_process(&mut scraped, &daemon, listed.steps());
    listed.fired(&scraped, 3);
    // Neither a dead daemon nor the next one tells of it: the first message is that of another trouble.
    let daemon = fixture.start();
    daemon.sync();
    fixture.service.sandbox.revoke_key(SECRET);
    assert_eq!(daemon.job("/sync", &json!({}))["exit"], 77);
    let first = socket::until("the message", || told(&hook).into_iter().next());
    assert_eq!(first, "key-refused begins");
    daemon.stop();
}
