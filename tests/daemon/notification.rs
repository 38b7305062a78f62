//! Notification: one message when an episode begins and one when it is over, across restarts, and no secret or value of a
//! record in it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{NewField, SCOPES, generate};
use serde_json::{Value, json};

use crate::binary::SECRET;
use crate::fixture::DaemonFixture;
use crate::inside::Inside;
use crate::socket;
use crate::support::noon;

/// A part of the address that is a secret.
const TOKEN: &str = "T0-hook-4711";

/// An HTTP server that passes on what is posted to it, and refuses the first few messages.
pub struct Hook {
    pub address: String,
    pub messages: Receiver<Value>,
}

impl Hook {
    pub fn listen(mut refusals: u32) -> Hook {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/{TOKEN}", listener.local_addr().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
                let body = loop {
                    let length = stream.read(&mut buffer).unwrap();
                    text.extend_from_slice(&buffer[..length]);
                    let so_far = String::from_utf8_lossy(&text).into_owned();
                    let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(String::from));
                    if length.unwrap().parse::<usize>().unwrap() == body.len() {
                        assert!(head.starts_with(&format!("POST /{TOKEN} ")), "{head}");
                        break body.to_string();
                    }
                };
                let status = if refusals > 0 { "503 Unavailable" } else { "204 No Content" };
                let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                if refusals > 0 {
                    refusals -= 1;
                } else if sender.send(serde_json::from_str(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        Hook { address, messages }
    }

    fn next(&self) -> Value {
        socket::until("a notification", || self.messages.try_recv().ok())
    }
}

#[test]
fn webhook_is_told_once_per_episode_across_restarts() {
    let hook = Hook::listen(0);
    let fixture = DaemonFixture::with(40, 4).set("CRM_MIRROR_NOTIFY__WEBHOOK", &hook.address);
    let daemon = fixture.start();
    daemon.sync();
    let names = fixture
        .column("SELECT name FROM contacts WHERE length(name) > 3 UNION SELECT email FROM contacts WHERE email > ''");
    fixture.service.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts).into_iter().take(20) {
            world.remove(Object::Contact, &id);
        }
    });
    assert_eq!(daemon.job("/resync", &json!({}))["exit"], 65);
    let begins = hook.next();
    assert_eq!((&begins["episode"], &begins["state"]), (&json!("refused-removals"), &json!("begins")));
    assert_eq!(begins["fix"], "if they are really gone, `crm-mirror resync contacts --accept-removals`");
    assert!(begins["text"].as_str().unwrap().contains("20 of 40 contacts vanished"), "{begins}");
    let mut log = daemon.stop();
    // The restarted daemon knows what was told.
    let daemon = fixture.start();
    daemon.sync();
    let body = json!({"accept_removals": true});
    assert_eq!(daemon.job("/resync", &body)["exit"], 0);
    let over = hook.next();
    assert_eq!((&over["episode"], &over["state"]), (&json!("refused-removals"), &json!("over")), "{over}");
    assert_eq!(over["since"], begins["since"]);
    log += &daemon.stop();
    for secret in [TOKEN, SECRET] {
        assert!(!log.contains(secret), "{log}");
    }
    let told = format!("{begins}{over}");
    assert!(names.iter().all(|value| !told.contains(value)) && !told.contains(SECRET), "{told}");
}

#[test]
fn what_begins_while_another_lasts_is_told_too() {
    let hook = Hook::listen(0);
    let fixture = DaemonFixture::with(40, 10).set("CRM_MIRROR_NOTIFY__WEBHOOK", &hook.address);
    let daemon = fixture.start();
    daemon.sync();
    for (resource, said) in [(Resource::Contacts, "20 of 40 contacts"), (Resource::Companies, "5 of 10 companies")] {
        fixture.service.sandbox.with_world(|world| {
            let ids = world.ids(resource);
            ids[..ids.len() / 2].iter().for_each(|id| _ = world.remove(resource.object().unwrap(), id));
        });
        assert_eq!(daemon.job("/resync", &json!({}))["exit"], 65);
        let begins = hook.next();
        assert_eq!((&begins["episode"], &begins["state"]), (&json!("refused-removals"), &json!("begins")));
        assert!(begins["text"].as_str().unwrap().contains(&format!(": {said} vanished")), "{begins}");
    }
    // Each has its own end.
    for (resource, said) in [("contacts", "20 of 40 contacts"), ("companies", "5 of 10 companies")] {
        assert_eq!(daemon.job("/resync", &json!({"objects": [resource], "accept_removals": true}))["exit"], 0);
        let over = hook.next();
        assert_eq!((&over["episode"], &over["state"]), (&json!("refused-removals"), &json!("over")), "{over}");
        assert!(over["text"].as_str().unwrap().contains(&format!(": over: {said} vanished")), "{over}");
    }
    daemon.stop();
}

#[test]
fn command_reads_the_message_and_gets_no_secret() {
    let fixture = DaemonFixture::with(6, 2);
    let (told, environment) = (fixture.place.path("reported"), fixture.place.path("environment"));
    let script = format!("cat >>{}; env >>{}", told.display(), environment.display());
    let file = fixture.place.path("notify.toml");
    let write = |rest: &str| {
        let text = format!("{rest}[notify]\ncommand = [\"/bin/sh\", \"-c\", {}]\n", json!(script));
        std::fs::write(fixture.place.path("notify.toml"), text).unwrap();
    };
    write("");
    let file = file.display().to_string();
    let daemon = fixture.spawn(&["-c", &file, "daemon"]);
    daemon.until_notified("READY=1");
    daemon.sync();
    fixture.service.sandbox.revoke_key(SECRET);
    assert_eq!(daemon.job("/sync", &json!({}))["exit"], 77);
    let messages = |count: usize| {
        socket::until("the messages", || {
            let text = std::fs::read_to_string(&told).unwrap_or_default();
            let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            (lines.len() >= count).then_some(lines)
        })
    };
    assert_eq!(messages(1)[0]["fix"], format!("`crm-mirror -c {file} check`"));
    // A reload knows nothing of the key, and no run says anything about it during a pause.
    daemon.post("/pause", &json!({})).with(200);
    daemon.signal("-HUP");
    daemon.until_logged("Configuration reloaded");
    for rest in ["wrong = 1\n", ""] {
        write(rest);
        daemon.signal("-HUP");
        messages(if rest.is_empty() { 3 } else { 2 });
    }
    fixture.service.sandbox.set_key(SECRET, &SCOPES);
    daemon.sync();
    let told: Vec<String> = messages(4)
        .iter()
        .map(|m| format!("{} {}", m["episode"].as_str().unwrap(), m["state"].as_str().unwrap()))
        .collect();
    assert_eq!(told, ["key-refused begins", "reload-failed begins", "reload-failed over", "key-refused over"]);
    assert!(!std::fs::read_to_string(&environment).unwrap().contains(SECRET));
    daemon.stop();
}

#[test]
fn message_that_is_refused_is_sent_again_and_new_fields_are_told() {
    let hook = Hook::listen(1);
    let inside = Inside::start(generate(9, 10, 2, noon()), &[("NOTIFY__WEBHOOK", &hook.address)]);
    inside.settle();
    assert_eq!(inside.job("/sync")["exit"], 0);
    // What the first copy finds is not new.
    socket::until("the fields of the first copy", || {
        (inside.mirror.count("state WHERE name = 'reported'") == 1).then_some(())
    });
    inside.crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "brand_new", DataType::ShortText));
    });
    assert_eq!(inside.job("/resync")["exit"], 0);
    let message = socket::until("the second attempt", || {
        inside.crm.wait(2);
        hook.messages.try_recv().ok()
    });
    assert_eq!((&message["episode"], &message["state"]), (&json!("fields"), &json!("begins")));
    assert!(message["text"].as_str().unwrap().contains("new: contact.cf_brand_new"), "{message}");
}

#[test]
fn new_fields_are_told_where_the_key_may_read_one_object_only() {
    let hook = Hook::listen(0);
    let inside = Inside::start(generate(9, 10, 2, noon()), &[("NOTIFY__WEBHOOK", &hook.address)]);
    let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "companies:read").collect();
    inside.crm.sandbox.set_key(&inside.crm.key, &scopes);
    inside.settle();
    assert_eq!(inside.job("/sync")["exit"], 0);
    let next = || {
        socket::until("a message", || {
            inside.crm.wait(2);
            inside.status();
            hook.messages.try_recv().ok()
        })
    };
    assert_eq!(next()["episode"], "missing-scope");
    socket::until("the fields of the first copy", || {
        let known = "state WHERE name = 'reported' AND json_extract(value, '$.fields_after') IS NOT NULL";
        (inside.mirror.count(known) == 1).then_some(())
    });
    inside.crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "brand_new", DataType::ShortText));
    });
    assert_eq!(inside.job("/resync")["exit"], 0);
    let message = next();
    assert!(message["text"].as_str().unwrap().contains(" new: contact.cf_brand_new;"), "{message}");
}

/// A person's shell with an open transaction keeps the daemon from writing anything.
#[test]
fn trouble_is_told_once_while_another_program_locks_the_file() {
    let hook = Hook::listen(0);
    let settings = [("SYNC__SCHEDULE", "*/5 * * * *"), ("NOTIFY__WEBHOOK", &*hook.address)];
    let inside = Inside::start(generate(9, 10, 2, noon()), &settings);
    inside.settle();
    assert_eq!(inside.job("/sync")["exit"], 0);
    let shell = rusqlite::Connection::open(&inside.mirror.path).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let next = |seconds: u64| {
        socket::until("a message", || {
            inside.crm.wait(seconds);
            inside.status();
            hook.messages.try_recv().ok()
        })
    };
    let begins = next(300);
    shell.execute_batch("COMMIT").unwrap();
    inside.settle();
    inside.pass(300);
    let all = [begins, next(1)];
    let all: Vec<_> = all.iter().map(|message| (&message["episode"], &message["state"])).collect();
    assert_eq!(all, [(&json!("stale"), &json!("begins")), (&json!("stale"), &json!("over"))]);
}
