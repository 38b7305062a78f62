//! Kills and stops in the middle of a first copy: nothing is lost, and no finished page is read again.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use crm_mirror::model::Resource;

use crate::binary::{Going, Place, Service};

/// Five pages of contacts, and a gate before the third.
const CONTACTS: usize = 450;

/// Lets the service stand still before its third page of contacts; says so, and waits for the word to go on.
fn gate(service: &Service) -> (Receiver<()>, Sender<()>) {
    let (reached, at_gate) = channel();
    let (open, opened) = channel::<()>();
    let mut pages = 0;
    service.sandbox.before_request(move |_, asked| {
        pages += usize::from(asked.lists(Resource::Contacts));
        if pages == 3 && asked.lists(Resource::Contacts) {
            reached.send(()).unwrap();
            // A gate whose keeper went away is open.
            let _ = opened.recv();
        }
    });
    (at_gate, open)
}

/// A run that must find everything, and read no page of contacts that was stored before.
fn goes_on(service: &Service, place: &Place, most_pages: usize) {
    service.sandbox.clear_hook();
    service.sandbox.clear_log();
    place.run("sync").done();
    let log = service.sandbox.log();
    // Counts, which make sure of the copy afterwards, read no rows. A request of the run that was cut off may be
    // answered only now: the same page, once more.
    let pages: BTreeSet<String> = log
        .entries()
        .iter()
        .filter(|entry| entry.asked.lists(Resource::Contacts) && entry.asked.param("count").is_none())
        .map(|entry| entry.asked.line())
        .collect();
    assert!(pages.len() <= most_pages, "{pages:#?}");
    assert!(pages.iter().all(|page| page.contains("cursor=")), "{pages:#?}");
    assert_eq!(place.ask("SELECT count(*), count(DISTINCT id) FROM contacts"), format!("{CONTACTS},{CONTACTS}"));
    assert_eq!(place.ask("SELECT count(*) FROM contacts_full WHERE details_current"), CONTACTS.to_string());
    assert_eq!(place.ask("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_kill_in_a_first_copy_repeats_one_page_at_most() {
    let service = Service::with(CONTACTS, 10);
    let place = Place::of(&service);
    let (at_gate, open) = gate(&service);
    let mut sync = Going::start(place.command(&["sync"]));
    at_gate.recv().unwrap();
    sync.child.kill().unwrap();
    sync.child.wait().unwrap();
    drop(open);
    // Whoever looks now sees whole pages, and an unfinished run.
    assert_eq!(place.ask("SELECT count(*) % 100 FROM contacts"), "0");
    assert!(place.run("status").done().out.contains("in progress: first copy of contacts"));
    // What was sent is counted, also by a process that had no time to say so.
    let asked = service.sandbox.log().len() as u64;
    let used = place.run("status --json").json()["ru"]["used"].as_u64().unwrap();
    assert!(used >= asked, "{used} of {asked}");
    goes_on(&service, &place, 4);
}

#[test]
fn ctrl_c_stores_the_page_in_hand_and_ends_with_75() {
    for signal in ["-INT", "-TERM"] {
        let service = Service::with(CONTACTS, 10);
        let place = Place::of(&service);
        let (at_gate, open) = gate(&service);
        let mut sync = Going::start(place.command(&["sync"]));
        at_gate.recv().unwrap();
        sync.signal(signal);
        sync.until_told("stopping after the page in hand");
        drop(open);
        let (code, rest) = sync.end();
        assert_eq!(code, Some(75), "{rest}");
        assert!(rest.contains("hint: `crm-mirror sync` goes on from there"), "{rest}");
        assert_eq!(place.ask("SELECT outcome FROM sync_runs"), "suspended");
        // Three pages were answered, and all three are here.
        assert_eq!(place.ask("SELECT count(*) FROM contacts"), "300");
        goes_on(&service, &place, 2);
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let service = Service::with(CONTACTS, 10);
    let place = Place::of(&service);
    let (at_gate, open) = gate(&service);
    let mut sync = Going::start(place.command(&["sync"]));
    at_gate.recv().unwrap();
    sync.signal("-INT");
    sync.until_told("stopping after the page in hand");
    sync.signal("-INT");
    let (code, rest) = sync.end();
    assert_eq!(code, Some(75), "{rest}");
    assert!(rest.contains("stopped in the middle of a request"), "{rest}");
    drop(open);
    goes_on(&service, &place, 4);
}
