//! `GET /metrics`: every line parses, and every number equals the one in `status`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

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
                    assert!(["gauge", "counter"].contains(&rest), "{line}");
                    assert_eq!(kinds.insert(name.to_string(), rest), None, "{line}");
                    assert_eq!(rest == "counter", name.ends_with("_total"), "{line}");
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (family, labels) = name.split_once('{').unwrap();
        assert!(kinds.contains_key(family), "{line} comes before its TYPE");
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
    }
    let ru = &status["ru"];
    for (name, value) in [
        ("ru_left", ru["left"].as_f64().unwrap()),
        ("ru_spent_total", ru["total"].as_f64().unwrap()),
        ("hold_until_timestamp_seconds", 0.0),
        ("file_bytes", status["bytes"].as_f64().unwrap()),
        ("wal_bytes", status["wal_bytes"].as_f64().unwrap()),
        ("failing_runs", 0.0),
        ("paused", 0.0),
        ("paused_since_timestamp_seconds", 0.0),
    ] {
        assert_eq!(samples.get(&format!("crm_mirror_{name}")), Some(&value), "{name}");
    }
    assert_eq!(samples["crm_mirror_rows{object=\"contacts\"}"], 70.0);
    for family in &families {
        assert!(INTERFACES.contains(&format!("`{family}`")), "{family} is not documented");
    }
    // Nothing is published here, so these metrics are absent.
    let documented: BTreeSet<String> = INTERFACES
        .split('`')
        .filter(|word| word.starts_with("crm_mirror_"))
        .filter(|word| !word.starts_with("crm_mirror_publish_"))
        .map(String::from)
        .collect();
    assert_eq!(documented, families, "the documented metrics are those on the page");
    daemon.post("/pause", &json!({})).with(200);
    assert!(daemon.get("/metrics").body.contains("\ncrm_mirror_paused{workspace=\"default\"} 1\n"));
    daemon.stop();
}
