//! `hold clear`: a wait that a person knows is over.

use crm_mirror::sandbox::{Fault, Rule};

use crate::binary::{Place, Service};

#[test]
fn a_cleared_hold_lets_the_next_run_ask() {
    let service = Service::with(20, 5);
    service.sandbox.faults().add(Rule::new(Fault::TooMany { body: Some(3600), header: None }));
    let place = Place::of(&service);
    place.run("sync").code(75);
    let cleared = place.run("hold clear").done();
    assert!(cleared.err.starts_with("hold cleared; it would have ended at "), "{}", cleared.err);
    assert_eq!(cleared.out, "");
    place.run("sync").done();
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "20");
    assert_eq!(place.run("hold clear").done().err, "no hold is in force\n");
}

#[test]
fn without_a_mirror_nothing_is_made() {
    let place = Place::empty();
    let ended = place.run("hold clear").code(74);
    assert!(ended.err.contains("there is no mirror"), "{}", ended.err);
    assert!(place.files().is_empty());
    place.run("hold").code(2);
    place.run("hold start").code(2);
}
