//! `resume --now`: ends a rate limit hold early.

use crm_mirror::sandbox::{Fault, Rule};

use crate::binary::{Service, TestDir};

#[test]
fn next_run_sends_requests_after_resume_now() {
    let service = Service::with(20, 5);
    service.sandbox.faults().add(Rule::new(Fault::TooMany { body: Some(3600), header: None }));
    let place = TestDir::of(&service);
    place.run("sync").code(75);
    let cleared = place.run("resume --now").done();
    assert!(cleared.err.starts_with("the rate limit's hold has ended; it would have lasted until "), "{}", cleared.err);
    assert_eq!(cleared.out, "");
    place.run("sync").done();
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "20");
    assert_eq!(place.run("resume --now").done().err, "there is no hold of a rate limit\n");
}

#[test]
fn without_a_mirror_nothing_is_made() {
    let place = TestDir::empty();
    let ended = place.run("resume --now").code(74);
    assert!(ended.err.contains("there is no mirror"), "{}", ended.err);
    assert!(place.files().is_empty());
    place.run("resume").code(69);
}
