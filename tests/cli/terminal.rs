//! What asks on a terminal: the question has the price, and any answer but yes changes nothing.

use std::io::Write;
use std::process::{Command, Stdio};

use crm_mirror::model::Object;
use crm_mirror::sandbox::{Fault, Rule};

use crate::binary::{Service, TestDir};

/// Runs a command line on a terminal of its own, by `script` of util-linux, and answers it. Returns what it printed.
fn answered(place: &TestDir, line: &str, answer: &str) -> String {
    let plain = place.command(&[]);
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &format!("'{}' {line}", env!("CARGO_BIN_EXE_crm-mirror")), "/dev/null"]);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("SHELL", "/bin/sh");
    command.current_dir(plain.get_current_dir().unwrap()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not ask ends without reading it.
    let _ = child.stdin.take().unwrap().write_all(format!("{answer}\n").as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}: {text}");
    text
}

#[test]
fn edits_are_sent_reverted_and_dropped_only_after_a_yes_to_their_price() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no script of util-linux on the PATH");
        return;
    }
    let service = Service::with(12, 3);
    let place = TestDir::of(&service)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_WRITE_BACK__MAX_EDITS", "5");
    place.run("sync").done();
    let contact = place.ask("SELECT min(id) FROM contacts");
    place.run(&format!("edit contact {contact} timezone=Europe/Paris")).done();
    place.run("push").done();
    place.run("sync").done();
    std::fs::write(place.path("rows.csv"), format!("id,language\n{contact},de\n")).unwrap();
    let all = "UPDATE contacts_full SET position = 'everybody'";
    rusqlite::Connection::open(place.path("mirror.db")).unwrap().execute_batch(all).unwrap();
    place.run("push").code(1);

    let stored = || {
        let events = "(SELECT count(*) FROM outbox_events)";
        place.ask(&format!(
            "SELECT group_concat(id || state || fields || ifnull(released_at, '')), {events} FROM outbox"
        ))
    };
    let before = stored();
    for (line, question, price) in [
        ("outbox release --all", "Send 12 edits? [y/N]", Some("sending takes up to 24 RU; ")),
        ("outbox release 2", "Send 1 edit? [y/N]", Some("sending takes up to 2 RU; ")),
        ("outbox undo 1", "Revert 1 edit? [y/N]", Some("sending takes up to 2 RU; ")),
        ("outbox drop --all", "Discard 12 edits? [y/N]", None),
        ("edit contact --from rows.csv", "Queue 1 edit? [y/N]", Some("sending takes up to 2 RU; ")),
    ] {
        for answer in ["n", "", "why"] {
            let text = answered(&place, line, answer);
            assert!(text.contains(question) && text.contains("nothing was changed"), "{line}: {text}");
            if let Some(price) = price {
                let left = text.split_once(price).unwrap_or_else(|| panic!("{line}: {text}")).1;
                assert!(left.contains(" RU are left for edits until "), "{line}: {text}");
                assert!(text.find(price) < text.find(question), "{line}: {text}");
            }
            assert_eq!(stored(), before, "{line}, {answer}");
        }
    }
    assert_eq!(service.sandbox.log().patches(Object::Contact), 1);
    for (line, done) in [("outbox release --all", "12 edits are queued"), ("outbox undo 1", "edit 14 is queued")] {
        let text = answered(&place, line, "y");
        assert!(text.contains(done), "{line}: {text}");
    }
}

#[test]
fn edit_that_may_have_been_applied_begins_anew_only_after_a_yes() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no script of util-linux on the PATH");
        return;
    }
    let service = Service::with(3, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let contact = place.ask("SELECT min(id) FROM contacts");
    // One was sent, and its answer was lost; the other one was never sent.
    place.run(&format!("edit contact {contact} position=CTO")).done();
    let lost = Rule::new(Fault::ResetAfterApply).method("PATCH");
    service.sandbox.faults().add(lost);
    service.sandbox.faults().add(Rule::new(Fault::Status(503)).method("GET"));
    let _ = place.run("push");
    service.sandbox.faults().clear();
    place.run("outbox drop 1 --yes").done();
    place.run(&format!("edit contact {contact} language=de")).done();
    place.run("outbox drop 2 --yes").done();
    let edits = || place.ask("SELECT count(*) FROM outbox");

    let asked = place.run("outbox retry 1").code(2);
    assert!(asked.err.contains("pass `--yes` to confirm"), "{}", asked.err);
    let text = answered(&place, "outbox retry 1", "n");
    assert!(text.contains("It may have been applied before.") && text.contains("nothing was changed"), "{text}");
    assert_eq!(edits(), "2");
    let text = answered(&place, "outbox retry 1", "y");
    assert!(text.contains("edit 1 is queued"), "{text}");
    place.run("outbox retry 2").done();
    assert_eq!(edits(), "2");
    // A copy says what releasing its edits means.
    place.run("backup copy.db").done();
    let text = answered(&place, "outbox release --all --database copy.db", "n");
    assert!(text.contains("this file is a copy: release its edits only if the original"), "{text}");
}
