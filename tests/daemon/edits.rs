//! Edits while the daemon runs: whoever makes them, they are at the service within seconds, once.

use crm_mirror::model::Object;
use serde_json::{Value, json};

use crate::scene::{Daemon, Scene};
use crate::socket::until;
use crate::support::shell;

/// A daemon that sends edits, with everything copied. Nothing but edits makes it ask anything.
fn editing() -> (Scene, Daemon, String) {
    let scene = Scene::with(30, 5).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let daemon = scene.start();
    daemon.sync();
    let id = scene.column("SELECT id FROM contacts ORDER BY id LIMIT 1").remove(0);
    scene.service.sandbox.clear_log();
    (scene, daemon, id)
}

/// The updates that the service was sent.
fn patches(scene: &Scene) -> usize {
    scene.service.sandbox.log().patches(Object::Contact)
}

#[track_caller]
fn until_applied(scene: &Scene, edits: usize) {
    until("every edit is applied", || {
        let states = scene.column("SELECT state FROM outbox");
        (states.len() == edits && states.iter().all(|state| state == "applied")).then_some(())
    });
}

fn there(scene: &Scene, id: &str, field: &str) -> Value {
    let sandbox = &scene.service.sandbox;
    let detail = sandbox.with_world(|world| world.detail_json(Object::Contact, id));
    detail.unwrap()[field].clone()
}

#[test]
fn an_update_in_a_stock_shell_is_at_the_service_within_seconds() {
    if !shell::is_there() {
        return;
    }
    let (scene, daemon, id) = editing();
    let change = format!("UPDATE contacts_full SET position = 'CTO' WHERE id = '{id}'");
    shell::write(&scene.place.path("mirror.db"), &change).unwrap();
    until_applied(&scene, 1);
    assert_eq!(there(&scene, &id, "position"), json!("CTO"));
    assert_eq!((patches(&scene), scene.requests()), (1, 1), "one update, and nothing else");
    let here = scene.column(&format!("SELECT position FROM contacts WHERE id = '{id}'"));
    assert_eq!(here, ["CTO"], "the answer is in the mirror at once");
    daemon.stop();
}

#[test]
fn the_socket_takes_edits_and_says_what_is_wrong_with_others() {
    let (scene, daemon, id) = editing();
    let edit = |fields: Value| json!({"object": "contact", "id": id, "fields": fields});
    let queued = daemon.post("/edits", &edit(json!({"position": "CFO"}))).with(202).json();
    assert_eq!((&queued["edit"], &queued["fields"]["position"][1]), (&json!(1), &json!("CFO")));
    until_applied(&scene, 1);
    assert_eq!(there(&scene, &id, "position"), json!("CFO"));
    let again = daemon.post("/edits", &edit(json!({"position": "CFO"}))).with(202).json();
    assert_eq!(again["edit"], Value::Null, "the record holds it already");

    for (body, status, part) in [
        (edit(json!({"email": "x@y.example"})), 422, "`email`"),
        (edit(json!({"nonsense": 1})), 422, "`nonsense`"),
        (json!({"object": "contact", "id": "nobody", "fields": {"position": "x"}}), 404, "nobody"),
        (json!({"object": "contact", "id": id, "fields": {"position": "x"}, "if_match": "\"old\""}), 409, "version"),
        (json!({"object": "lead", "id": id, "fields": {}}), 400, "not understood"),
        (json!({"object": "contact", "id": id}), 400, "fields"),
    ] {
        let error = daemon.post("/edits", &body).with(status).json()["error"].to_string();
        assert!(error.contains(part), "{body}: {error}");
    }
    assert_eq!(scene.column("SELECT count(*) FROM outbox"), ["1"]);
    assert_eq!(scene.requests(), 1);
    daemon.stop();
}

#[test]
fn edits_made_while_it_was_away_are_sent_when_it_is_back_and_not_again() {
    let (scene, daemon, id) = editing();
    daemon.stop();
    assert_eq!(
        scene.place.run(&format!("edit contact {id} position=COO")).done().err,
        "the next `crm-mirror sync` sends it, and `crm-mirror push` at once\n"
    );
    let daemon = scene.start();
    until_applied(&scene, 1);
    assert_eq!((patches(&scene), there(&scene, &id, "position")), (1, json!("COO")));
    daemon.stop();

    let runs = scene.column("SELECT count(*) FROM sync_runs WHERE kind = 'push'");
    let daemon = scene.start();
    daemon.sync();
    daemon.stop();
    assert_eq!(patches(&scene), 1);
    let after = scene.column("SELECT count(*) FROM sync_runs WHERE kind = 'push'");
    assert_eq!(runs, after, "an edit that is applied is no reason for a run");
}

#[test]
fn without_leave_to_write_back_nothing_is_taken() {
    let scene = Scene::with(5, 1);
    let daemon = scene.start();
    daemon.sync();
    let id = scene.column("SELECT id FROM contacts LIMIT 1").remove(0);
    let body = json!({"object": "contact", "id": id, "fields": {"position": "x"}});
    let refused = daemon.post("/edits", &body).with(409).json();
    assert!(refused["hint"].to_string().contains("write_back.enabled"), "{refused}");
    daemon.post("/push", &json!({})).with(409);
    assert_eq!(scene.column("SELECT count(*) FROM outbox"), ["0"]);
    daemon.stop();
}
