//! What strangers write, generated: answers, error bodies, headers, cursors, timestamps and configurations. Nothing panics,
//! nothing hangs, one bad record costs one record, and a secret is never repeated.
//!
//! `PROPTEST_CASES=1000000 cargo test --release --test reference strangers::` runs as long as one likes. What once was a
//! finding, or is odd in a way that chance seldom finds, is a file in `tests/corpus/`.

use std::path::Path;

use crm_mirror::api::decode;
use crm_mirror::api::requested_wait::requested_wait;
use crm_mirror::budget::Hold;
use crm_mirror::config::{Config, Cron, Environment, Sources};
use crm_mirror::model::{Instant, Resource};
use crm_mirror::publish::StreamCursor;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::witness::layout;

const RECORDS: [(Resource, &str); 6] = [
    (Resource::Contacts, include_str!("records/contact_list.json")),
    (Resource::Contacts, include_str!("records/contact_detail.json")),
    (Resource::Companies, include_str!("records/company_list.json")),
    (Resource::Companies, include_str!("records/company_detail.json")),
    (Resource::CustomFields, include_str!("records/definition_list.json")),
    (Resource::TeamMembers, include_str!("records/team_member_list.json")),
];

/// The record in a witness, whatever envelope it has.
fn witness(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap();
    let data = document.get("data").unwrap_or(&document);
    data.get(0).unwrap_or(data).clone()
}

/// Any JSON, from texts that mean something somewhere to nonsense.
fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec![
            "9999-12-31T23:59:59.999999Z",
            "0000-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-06-30T23:59:60Z",
            "2026-01-01T00:00:00+25:00",
            "99999999999999999999.9999999999",
            "-0.0",
            "1e400",
            "\u{0}",
            "true",
            "ACTIVE",
            "MULTI_SELECT",
            "",
            "\"2026-01-01T00:00:00Z\"",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z.]{0,8}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A record of the reference with some of its members replaced, dropped or added.
fn odd_record() -> impl Strategy<Value = (Resource, Value)> {
    let change = (any::<prop::sample::Index>(), 0..4_u8, odd_value(), "[a-zA-Z.]{1,8}");
    (prop::sample::select(RECORDS.to_vec()), prop::collection::vec(change, 0..6)).prop_map(
        |((resource, text), changes)| {
            let mut record = witness(text);
            let fields = record.as_object_mut().unwrap();
            for (at, how, value, name) in changes {
                let names: Vec<String> = fields.keys().cloned().collect();
                let known = names[at.index(names.len())].clone();
                match how {
                    0 if fields.len() > 1 => drop(fields.remove(&known)),
                    1 => drop(fields.insert(name, value)),
                    2 => match fields.get_mut("customFields").and_then(Value::as_object_mut) {
                        Some(values) => drop(
                            values.insert(["decimal", "integer", "multiSelect", "other"][at.index(4)].into(), value),
                        ),
                        None => drop(fields.insert(known, value)),
                    },
                    _ => drop(fields.insert(known, value)),
                }
            }
            (resource, record)
        },
    )
}

/// Decodes a body in every way, and checks what must agree.
fn decode_everything(body: &[u8]) {
    let layout = layout();
    let next = decode::next_cursor(body);
    for resource in Resource::ALL {
        if let Ok(page) = decode::page(resource, body, &layout) {
            assert_eq!(next.as_ref().unwrap(), &page.next);
            let items = serde_json::from_slice::<Value>(body).ok().map(|body| body["data"].as_array().map(Vec::len));
            if let Some(Some(items)) = items {
                assert_eq!(page.records.len() + page.unusable as usize, items);
            }
        }
        let _ = decode::detail(resource, body, &layout);
    }
    let _ = requested_wait(body, None, Instant::EPOCH);
}

#[test]
fn corpus_of_bodies_is_decoded_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/bodies");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        decode_everything(&std::fs::read(file.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 4);
}

#[test]
fn corpus_of_headers_is_a_bounded_wait() {
    for line in include_str!("../corpus/headers/dates.txt").lines() {
        let wait = requested_wait(b"", Some(line), Instant::EPOCH);
        assert!(
            Hold::after(None, Instant::EPOCH, wait).left(Instant::EPOCH).is_some_and(|left| left.as_secs() <= 86_400),
            "{line}"
        );
        let _ = Instant::from_http_date(line);
    }
}

proptest! {
    #[test]
    fn odd_record_costs_no_other_record((resource, odd) in odd_record()) {
        let layout = layout();
        let (_, good) = RECORDS.iter().find(|(of, _)| *of == resource).unwrap();
        let (mut first, mut last) = (witness(good), witness(good));
        first["id"] = json!("first");
        last["id"] = json!("last");
        let body = json!({ "data": [first, odd.clone(), last], "nextCursor": "next" }).to_string();
        let page = decode::page(resource, body.as_bytes(), &layout).unwrap();
        prop_assert_eq!(page.records.len() + page.unusable as usize, 3);
        let ids: Vec<&str> = page.records.iter().map(|record| record.id.as_str()).collect();
        prop_assert_eq!((ids[0], ids[ids.len() - 1]), ("first", "last"));
        let alone = decode::page(resource, json!({ "data": [last], "nextCursor": null }).to_string().as_bytes(), &layout).unwrap();
        prop_assert_eq!(page.records.last(), alone.records.last());
        decode_everything(json!({ "data": odd }).to_string().as_bytes());
    }

    #[test]
    fn damaged_body_is_decoded_or_refused((resource, odd) in odd_record(), cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5)) {
        let mut body = json!({ "data": [odd], "nextCursor": null, "total": 1 }).to_string().into_bytes();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        decode_everything(&body);
        let cut = cut.index(body.len());
        let page = decode::page(resource, &body[..cut], &layout());
        prop_assert!(page.is_err(), "a body that is cut is no page");
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(body in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_everything(&body);
    }

    #[test]
    fn any_wait_is_read(body in odd_value(), header in ".{0,40}", at in any::<i64>()) {
        let now = Instant::from_micros(at).unwrap_or(Instant::EPOCH);
        let body = json!({ "error": "E", "message": "m", "retryAfter": body }).to_string();
        let wait = requested_wait(body.as_bytes(), Some(&header), now);
        prop_assert!(wait.is_some(), "{header:?} is no wait, but something was asked for");
        let _ = Instant::from_http_date(&header);
    }

    #[test]
    fn any_timestamp_is_canonical_or_refused(text in "[-+0-9T:.Z ]{0,32}|.{0,20}") {
        if let Ok(at) = text.parse::<Instant>() {
            prop_assert_eq!(at.to_string().parse::<Instant>().ok(), Some(at));
        }
        if let Ok((canonical, _)) = Instant::canonical(&text) {
            prop_assert_eq!(Instant::canonical(&canonical).map(|(again, _)| again).ok(), Some(canonical));
        }
    }

    #[test]
    fn any_cursor_is_itself_or_refused(text in "[0-9a-f-]{0,36}:[-0-9]{0,22}:[-0-9]{0,22}:[0-9a-f]{0,12}-[0-9a-f]{0,12}|.{0,30}") {
        if let Ok(cursor) = text.parse::<StreamCursor>() {
            prop_assert_eq!(cursor.to_string().parse::<StreamCursor>().map(|again| again.to_string()).ok(), Some(cursor.to_string()));
        }
    }

    #[test]
    fn any_schedule_is_later_than_now_or_refused(line in "([0-9*/,LW#?-]{1,5} ){4,6}[0-9*]{1,2}|.{0,20}", at in 0_i64..4_000_000_000) {
        let now = Instant::from_secs(at).unwrap();
        if let Ok(cron) = Cron::parse(&line) {
            prop_assert!(cron.next_after(now, &jiff::tz::TimeZone::UTC).is_none_or(|next| next > now));
        }
    }
}

/// The settings of the default configuration: section and key.
fn keys() -> Vec<(String, String)> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in include_str!("../../config/default.toml").lines() {
        let line = line.trim_start_matches('#').trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_string();
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            keys.push((section.clone(), key.to_string()));
        }
    }
    keys
}

proptest! {
    #[test]
    fn any_configuration_is_valid_or_refused_without_its_secret(
        settings in prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 0..6),
        variable in "[A-Z_]{1,20}",
        value in ".{0,20}",
    ) {
        let keys = keys();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let lines = settings.iter().map(|(at, value)| {
            let (section, key) = &keys[at.index(keys.len())];
            format!("{section}.{key} = {value}\n")
        });
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let variables = [
            (format!("CRM_MIRROR_{variable}"), value),
            ("CRM_MIRROR_API__KEY".to_string(), "svc_v1_very-secret".to_string()),
        ];
        let environment: Environment = variables.into_iter().collect();
        let sources = Sources { file: Some(file), default_file: "/nowhere".into(), environment, flags: Vec::new() };
        if let Err(error) = Config::load(&sources) {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains("very-secret"), "{}", shown);
        }
    }
}
