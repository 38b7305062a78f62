//! `GET /metrics`: every line parses, and every number equals the one in `status`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::fixture::DaemonFixture;

const INTERFACES: &str = include_str!("../../docs/interfaces.md");

/// The samples by name and labels. Panics at a line that Prometheus would reject.
fn samples(page: &str) -> (BTreeMap<String, f64>, BTreeSet<String>) {
    let mut kinds = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let [word, name, rest] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            match word {
                "HELP" => assert!(rest.ends_with('.'), "{line}"),
                "TYPE" => {
                    assert!(["gauge", "counter", "summary"].contains(&rest), "{line}");
                    assert_eq!(kinds.insert(name.to_string(), rest), None, "{line}");
                    assert_eq!(rest == "counter", name.ends_with("_total"), "{line}");
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (family, labels) = name.split_once('{').unwrap();
        let of_summary = ["_sum", "_count"].iter().find_map(|part| family.strip_suffix(part));
        let is_summary = |name: &str| kinds.get(name) == Some(&"summary");
        assert!(kinds.contains_key(family) || of_summary.is_some_and(is_summary), "{line} comes before its TYPE");
        let labels: Vec<&str> = labels.strip_suffix('}').unwrap().split(',').collect();
        for label in &labels {
            let (key, value) = label.split_once('=').unwrap();
            assert!(key.chars().all(|c| c.is_ascii_lowercase()), "{line}");
            assert!(value.len() > 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
        // Every sample names its workspace; these have no configuration file.
        let (workspace, own) = labels.split_last().unwrap();
        assert_eq!(*workspace, "workspace=\"default\"", "{line}");
        let name = if own.is_empty() { family.to_string() } else { format!("{family}{{{}}}", own.join(",")) };
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite());
        assert_eq!(samples.insert(name, value), None, "{line} twice");
    }
    (samples, kinds.into_keys().collect())
}

fn seconds(at: &Value) -> f64 {
    let at: crm_mirror::model::Instant = at.as_str().unwrap().parse().unwrap();
    at.as_micros() as f64 / 1e6
}

#[test]
fn every_metric_equals_status() {
    let fixture = DaemonFixture::with(70, 5);
    let daemon = fixture.start();
    daemon.sync();
    daemon.job("/verify", &json!({}));
    let reply = daemon.get("/metrics").with(200);
    assert!(reply.head.contains("content-type: text/plain; version=0.0.4"), "{}", reply.head);
    let (samples, families) = samples(&reply.body);
    let status = daemon.status();
    for object in status["objects"].as_array().unwrap() {
        let of = |name: &str| samples.get(&format!("crm_mirror_{name}{{object={}}}", object["object"])).copied();
        assert_eq!(of("rows"), object["rows"].as_f64());
        assert_eq!(of("details_pending"), object["details_pending"].as_f64());
        let at = |value: &Value| value.is_string().then(|| seconds(value));
        assert_eq!(of("changes_as_of_timestamp_seconds"), at(&object["changes_as_of"]));
        assert_eq!(of("complete_as_of_timestamp_seconds"), at(&object["complete_as_of"]));
    }
    let ru = &status["ru"];
    for (name, value) in [
        ("ru_used", ru["used"].as_f64().unwrap()),
        ("ru_left", ru["left"].as_f64().unwrap()),
        ("ru_limit", ru["limit"].as_f64().unwrap()),
        ("ru_spent_total", ru["total"].as_f64().unwrap()),
        ("ru_refills_timestamp_seconds", seconds(&ru["refills_at"])),
        ("hold_until_timestamp_seconds", 0.0),
        ("file_bytes", status["bytes"].as_f64().unwrap()),
        ("wal_bytes", status["wal_bytes"].as_f64().unwrap()),
        ("last_success_timestamp_seconds", seconds(&status["last_success"])),
        ("failing_runs", 0.0),
        ("start_timestamp_seconds", seconds(&status["daemon"]["since"])),
        ("paused", 0.0),
        ("paused_since_timestamp_seconds", 0.0),
        ("jobs_total{work=\"resync\",exit=\"69\"}", 0.0),
        ("run_duration_seconds_count{work=\"sync\"}", 1.0),
        ("run_duration_seconds_count{work=\"push\"}", 0.0),
        ("jobs_total{work=\"sync\",exit=\"0\"}", 1.0),
        ("jobs_total{work=\"verify\",exit=\"0\"}", 1.0),
    ] {
        assert_eq!(samples.get(&format!("crm_mirror_{name}")), Some(&value), "{name}");
    }
    assert_eq!(samples["crm_mirror_rows{object=\"contacts\"}"], 70.0);
    for family in &families {
        assert!(INTERFACES.contains(&format!("`{family}`")), "{family} is not documented");
    }
    // Nothing is published here and the schedule is not automatic, so these metrics are absent.
    let documented: BTreeSet<String> = INTERFACES
        .split('`')
        .filter(|word| word.starts_with("crm_mirror_"))
        .filter(|word| !word.starts_with("crm_mirror_publish_") && *word != "crm_mirror_poll_interval_seconds")
        .map(String::from)
        .collect();
    assert_eq!(documented, families, "the documented metrics are those on the page");
    daemon.post("/pause", &json!({})).with(200);
    assert!(daemon.get("/metrics").body.contains("\ncrm_mirror_paused{workspace=\"default\"} 1\n"));
    daemon.stop();
}
