//! Kills and stops during a first copy: nothing is lost, and no completed page is requested again.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use crm_mirror::model::Resource;

use crate::binary::{Going, Service, TestDir};

/// Five pages of contacts, with a gate before the third.
const CONTACTS: usize = 450;

/// Blocks the service before its third page of contacts. The receiver reports the block; the sender ends it.
fn gate(service: &Service) -> (Receiver<()>, Sender<()>) {
    let (reached, at_gate) = channel();
    let (open, opened) = channel::<()>();
    let mut pages = 0;
    service.sandbox.before_request(move |_, asked| {
        pages += usize::from(asked.lists(Resource::Contacts));
        if pages == 3 && asked.lists(Resource::Contacts) {
            reached.send(()).unwrap();
            // A dropped sender opens the gate.
            let _ = opened.recv();
        }
    });
    (at_gate, open)
}

/// Asserts that a run completes the copy without requesting a page of contacts that was stored before.
fn assert_continues(service: &Service, place: &TestDir, most_pages: usize) {
    service.sandbox.clear_hook();
    service.sandbox.clear_log();
    place.run("sync").done();
    let log = service.sandbox.log();
    // Neither a question for rows without a date nor one for changes is a page of the copy. The request that was cut off may
    // be answered only now: the same page, once more.
    let pages: BTreeSet<String> = log
        .entries()
        .iter()
        .filter(|entry| entry.asked.lists(Resource::Contacts) && entry.asked.param("count").is_none())
        .map(|entry| entry.asked.line())
        .filter(|line| !line.contains("isNull") && !line.contains("filter[updatedAt]"))
        .collect();
    assert!((1..=most_pages).contains(&pages.len()), "{pages:#?}");
    assert!(pages.iter().all(|page| page.contains("filter[createdAt][gte]=")), "{pages:#?}");
    assert_eq!(place.ask("SELECT count(*), count(DISTINCT id) FROM contacts"), format!("{CONTACTS},{CONTACTS}"));
    assert_eq!(place.ask("SELECT count(*) FROM contacts_full WHERE details_current"), CONTACTS.to_string());
    assert_eq!(place.ask("PRAGMA integrity_check"), "ok");
}

#[test]
fn kill_during_a_first_copy_repeats_at_most_one_page() {
    let service = Service::with(CONTACTS, 10);
    let place = TestDir::of(&service);
    let (at_gate, open) = gate(&service);
    let mut sync = Going::start(place.command(&["sync"]));
    at_gate.recv().unwrap();
    sync.child.kill().unwrap();
    sync.child.wait().unwrap();
    drop(open);
    // A reader sees whole pages and an unfinished run.
    assert_eq!(place.ask("SELECT (count(*) - 1) % 99 FROM contacts"), "0");
    assert!(place.run("status").done().out.contains("in progress: first copy of contacts"));
    // Sent requests are counted, also for a killed process.
    let asked = service.sandbox.log().len() as u64;
    let used = place.run("status --json").json()["ru"]["used"].as_u64().unwrap();
    assert!(used >= asked, "{used} of {asked}");
    assert_continues(&service, &place, 4);
}

#[test]
fn ctrl_c_stores_the_page_in_progress_and_exits_with_75() {
    for signal in ["-INT", "-TERM"] {
        let service = Service::with(CONTACTS, 10);
        let place = TestDir::of(&service);
        let (at_gate, open) = gate(&service);
        let mut sync = Going::start(place.command(&["sync"]));
        at_gate.recv().unwrap();
        sync.signal(signal);
        sync.until_logged("stopping after the page in progress");
        drop(open);
        let (code, rest) = sync.end();
        assert_eq!(code, Some(75), "{rest}");
        assert!(rest.contains("hint: `crm-mirror sync` continues from there"), "{rest}");
        assert_eq!(place.ask("SELECT outcome FROM sync_runs"), "suspended");
        // Three pages were answered, two of which repeat a row; all three are stored.
        assert_eq!(place.ask("SELECT count(*) FROM contacts"), "298");
        assert_continues(&service, &place, 2);
    }
}

#[test]
fn second_ctrl_c_ends_at_once() {
    let service = Service::with(CONTACTS, 10);
    let place = TestDir::of(&service);
    let (at_gate, open) = gate(&service);
    let mut sync = Going::start(place.command(&["sync"]));
    at_gate.recv().unwrap();
    sync.signal("-INT");
    sync.until_logged("stopping after the page in progress");
    sync.signal("-INT");
    let (code, rest) = sync.end();
    assert_eq!(code, Some(75), "{rest}");
    assert!(rest.contains("stopped in the middle of a request"), "{rest}");
    drop(open);
    assert_continues(&service, &place, 4);
}

#[test]
fn daemon_listens_to_signals_before_it_reads_anything() {
    let place = crate::binary::TestDir::empty();
    let (config, trace) = (place.path("broken.toml"), place.path("trace"));
    std::fs::write(&config, "[nonsense]").unwrap();
    let traced = std::process::Command::new("strace")
        .args(["-f", "-o", trace.to_str().unwrap(), "-e", "trace=open,openat,rt_sigaction"])
        .args([env!("CARGO_BIN_EXE_crm-mirror"), "daemon", "--config", config.to_str().unwrap()])
        .output();
    let Ok(traced) = traced else { return eprintln!("SKIPPED: there is no strace on the PATH") };
    assert_eq!(traced.status.code(), Some(78));
    let trace = std::fs::read_to_string(trace).unwrap();
    let place = |part: &str| trace.find(part).unwrap_or_else(|| panic!("{part} is not in the trace"));
    for signal in ["SIGTERM", "SIGINT", "SIGHUP"] {
        assert!(place(&format!("rt_sigaction({signal}, {{")) < place("broken.toml"), "{signal}");
    }
}
