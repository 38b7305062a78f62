//! `resume --now`: ends a rate limit hold early.

use crm_mirror::sandbox::{Fault, Rule};

use crate::binary::{Service, TestDir};

#[test]
fn next_run_sends_requests_after_resume_now() {
    let service = Service::with(20, 5);
    service.sandbox.faults().add(Rule::new(Fault::Wait { status: 429, body: Some(3600), header: None }));
    let place = TestDir::of(&service);
    place.run("sync").code(75);
    let cleared = place.run("resume --now").done();
    assert_eq!(cleared.err, "no request waits for a rate limit\n");
    assert_eq!(cleared.out, "");
    place.run("sync").done();
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "20");
}

#[test]
fn without_a_mirror_nothing_is_made() {
    let place = TestDir::empty();
    let ended = place.run("resume --now").code(74);
    assert!(ended.err.contains("there is no mirror"), "{}", ended.err);
    assert!(place.files().is_empty());
    place.run("resume").code(69);
}

/// A restore as documented: the mirror is away, and its lock file knows the hold and what was spent.
#[test]
fn hold_and_what_was_spent_outlive_the_file_of_the_mirror() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    place.run("backup before.db").done();
    service.sandbox.faults().add(Rule::new(Fault::Wait { status: 429, body: Some(3600), header: None }));
    place.run("sync").code(75);
    let remove = || std::fs::remove_file(place.path("mirror.db")).unwrap();
    let requests = || service.sandbox.log().len();
    let before = requests();
    remove();
    place.run("check").code(75);
    place.run("sync --dry-run").code(75);
    assert_eq!(requests(), before, "neither asks during the hold");
    std::fs::copy(place.path("before.db"), place.path("mirror.db")).unwrap();
    let out = place.run("sync").code(75);
    assert_eq!(requests(), before, "{}{}", out.out, out.err);
    place.run("resume --now").done();
    let used = || place.run("status --json").done().json()["ru"]["used"].as_u64().unwrap();
    let before = used();
    remove();
    let spent = service.sandbox.log().ru().get();
    place.run("check").done();
    place.run("sync --dry-run").done();
    let of_both = service.sandbox.log().ru().get() - spent;
    assert!(of_both > 0);
    std::fs::copy(place.path("before.db"), place.path("mirror.db")).unwrap();
    assert_eq!(used(), before + of_both);
}
