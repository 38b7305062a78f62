//! `outbox` and `push`: waiting edits, their outcomes, and the decisions of users.

use crm_mirror::model::Object;
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};

struct EditingMirror {
    service: Service,
    place: TestDir,
    contact: String,
}

impl EditingMirror {
    fn new() -> EditingMirror {
        let service = Service::with(12, 3);
        let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        place.run("sync").done();
        let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
        EditingMirror { service, place, contact }
    }

    fn edit(&self, change: &str) {
        Ended::from(self.place.command(&["edit", "contact", &self.contact, change]).output().unwrap()).done();
    }

    /// Changes the record at the service, as another client.
    fn elsewhere(&self, change: &Value) {
        self.service.sandbox.with_world(|world| world.edit(Object::Contact, &self.contact, change));
    }

    /// The service's value of a field.
    fn there(&self, field: &str) -> Value {
        let detail = self.service.sandbox.with_world(|world| world.detail_json(Object::Contact, &self.contact));
        detail.unwrap()[field].clone()
    }

    /// Creates an edit in conflict: `mine` here, `theirs` at the service.
    fn conflict(&self) {
        self.edit("position=mine");
        self.elsewhere(&json!({"position": "theirs"}));
        self.place.run("push").code(1);
        assert_eq!(self.states(), "conflict");
    }

    fn states(&self) -> String {
        self.place.ask("SELECT group_concat(state) FROM (SELECT state FROM outbox ORDER BY id)").replace('"', "")
    }
}

#[test]
fn waiting_edits_are_listed_and_push_sends_them() {
    let desk = EditingMirror::new();
    let nothing = desk.place.run("outbox").done();
    assert_eq!(nothing.out, "no edits are waiting\n");
    desk.edit("position=Chief Data Officer");
    let list = desk.place.run("outbox").done().out;
    let line = list.lines().nth(1).unwrap();
    for part in ["contact", &desk.contact, "queued", "position = \"Chief Data Officer\""] {
        assert!(line.contains(part), "{part}: {list}");
    }
    let document = desk.place.run("outbox list --json").done().json();
    assert_eq!(document["edits"][0]["state"], json!("queued"));
    assert_eq!(document["edits"][0]["fields"]["position"][1], json!("Chief Data Officer"));

    let pushed = desk.place.run("push --json").done().json();
    assert_eq!((&pushed["kind"], &pushed["push"]["applied"]), (&json!("push"), &json!(1)));
    assert_eq!(desk.there("position"), json!("Chief Data Officer"));
    assert_eq!(desk.place.run("outbox").done().out, "no edits are waiting\n");
    let all = desk.place.run("outbox list --all --json").done().json();
    assert_eq!(all["edits"][0]["state"], json!("applied"));
    let shown = desk.place.run("outbox show 1 --json").done().json();
    let steps: Vec<&str> = shown["trail"].as_array().unwrap().iter().filter_map(|step| step["to"].as_str()).collect();
    assert_eq!(steps, ["queued", "sending", "applied"]);
    let who: Vec<&Value> = shown["trail"].as_array().unwrap().iter().map(|step| &step["who"]).collect();
    assert_eq!(who, [&json!(crm_mirror::app::person()), &Value::Null, &Value::Null]);
    // An applied edit takes no further decision.
    for (line, message) in [
        ("outbox drop 1 --yes", "is already applied"),
        ("outbox retry 1", "is already applied"),
        ("outbox resolve 1 --mine --yes", "is not in conflict"),
        ("outbox show 9", "there is no edit 9"),
        ("outbox drop 9 --yes", "there is no edit 9"),
        ("outbox resolve 1", "--mine"),
    ] {
        let ended = desk.place.run(line).code(2);
        assert!(ended.err.contains(message), "{line}: {}", ended.err);
    }
    let text = desk.place.run("push").done().out;
    assert!(text.contains("edits      0 applied, 0 in conflict, 0 rejected, 0 waiting; 0 updates sent"), "{text}");
}

#[test]
fn conflict_shows_all_values_and_is_resolved_as_mine() {
    let desk = EditingMirror::new();
    desk.conflict();
    let shown = desk.place.run("outbox show 1").done().out;
    for part in ["    after   \"mine\"", "    theirs  \"theirs\"", "somebody else changed the same fields"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(desk.place.ask("SELECT after, theirs, state FROM pending_edits"), "mine,theirs,conflict");
    // A retry without a resolution conflicts again: another client's change is never overwritten blindly.
    desk.place.run("outbox retry 1").done();
    desk.place.run("push").code(1);
    assert_eq!((desk.states().as_str(), desk.there("position")), ("conflict", json!("theirs")));

    let refused = desk.place.run("outbox resolve 1 --mine").code(2);
    assert!(refused.err.contains("hint: pass `--yes`"), "{}", refused.err);
    let document = desk.place.run("outbox resolve 1 --mine --yes --json").done().json();
    assert_eq!(
        document,
        json!({"edit": 1, "state": "queued", "in_doubt": false,
               "fields": {"position": ["theirs", "mine"]}})
    );
    desk.place.run("push").done();
    assert_eq!((desk.states().as_str(), desk.there("position")), ("applied", json!("mine")));
    assert_eq!(desk.place.ask("SELECT status, answer, theirs FROM outbox"), "200,,", "nothing of the conflict is left");
    let why = desk
        .place
        .ask("SELECT count(*) FROM outbox_events WHERE why = 'resolved by a person: it replaces the service''s value'");
    assert_eq!(why, "1");
}

#[test]
fn resolving_as_mine_applies_only_to_the_values_that_were_shown() {
    let desk = EditingMirror::new();
    desk.conflict();
    desk.place.run("outbox resolve 1 --mine --yes").done();
    desk.elsewhere(&json!({"position": "a third"}));
    desk.place.run("push").code(1);
    assert_eq!((desk.states().as_str(), desk.there("position")), ("conflict", json!("a third")));
}

#[test]
fn conflict_resolved_as_theirs_sends_nothing() {
    let desk = EditingMirror::new();
    desk.conflict();
    desk.place.run("outbox resolve 1 --theirs").code(2);
    let ended = desk.place.run("outbox resolve 1 --theirs --yes").done();
    assert_eq!(ended.out, "edit 1 is dropped\n");
    let patches = desk.service.sandbox.log().patches(Object::Contact);
    desk.place.run("push").done();
    assert_eq!(desk.service.sandbox.log().patches(Object::Contact), patches);
    assert_eq!((desk.states().as_str(), desk.there("position")), ("dropped", json!("theirs")));
}

#[test]
fn dropped_edit_is_never_sent_and_can_be_retried() {
    let desk = EditingMirror::new();
    desk.edit("position=never");
    desk.place.run("outbox drop 1").code(2);
    assert_eq!(desk.states(), "queued");
    desk.place.run("outbox drop 1 --yes").done();
    desk.place.run("push").done();
    assert_ne!(desk.there("position"), json!("never"));
    let ended = desk.place.run("outbox retry 1").done();
    assert!(ended.out.starts_with("edit 1 is queued\n"), "{}", ended.out);
    assert_eq!(desk.states(), "queued");
    desk.place.run("outbox drop 1 --yes").done();
    desk.edit("position=last");
    let refused = desk.place.run("outbox retry 1").code(2).err;
    assert!(refused.contains("edit 1 has a field that a waiting edit changes"), "{refused}");
    desk.place.run("outbox drop 2 --yes").done();
    desk.place.run("outbox retry 1").done();
    desk.place.run("push").done();
    assert_eq!((desk.states().as_str(), desk.there("position")), ("applied,dropped", json!("never")));
}

#[test]
fn without_write_back_edits_can_be_listed_and_dropped_but_not_sent() {
    let desk = EditingMirror::new();
    desk.edit("position=CTO");
    let place = desk.place.unset("CRM_MIRROR_WRITE_BACK__ENABLED");
    let off = place.run("push").code(78);
    assert!(off.err.contains("hint: set `enabled = true` under `[write_back]`"), "{}", off.err);
    place.run("outbox retry 1").code(78);
    assert!(place.run("outbox").done().out.contains("queued"));
    place.run("outbox drop 1 --yes").done();
    assert_eq!(place.run("outbox").done().out, "no edits are waiting\n");
}

#[test]
fn rejected_edit_shows_the_reason_and_can_be_retried() {
    let desk = EditingMirror::new();
    let tier = desk.place.ask(&format!("SELECT coalesce(cf_tier, '') FROM contacts WHERE id = '{}'", desk.contact));
    let wanted = if tier == "gold" { "silver" } else { "gold" };
    desk.edit(&format!("cf_tier={wanted}"));
    let writable = |flag| {
        desk.service
            .sandbox
            .with_world(|world| world.fields().redefine(Object::Contact, "tier", |field| field.writable = flag));
    };
    // The mirror's definitions still show the field as writable.
    writable(false);
    desk.place.run("push").code(1);
    assert_eq!(desk.states(), "rejected");
    let list = desk.place.run("outbox").done();
    assert!(list.out.contains("rejected"), "{}", list.out);
    assert!(list.err.contains("1 edit is rejected: `crm-mirror outbox show ID` says why"), "{}", list.err);
    let shown = desk.place.run("outbox show 1").done().out;
    assert!(
        shown.contains("answer of the service: ") && shown.contains("customFields.tier is not writable"),
        "{shown}"
    );
    writable(true);
    let ended = desk.place.run("outbox retry 1").done();
    assert!(ended.out.starts_with("edit 1 is queued\n"), "{}", ended.out);
    desk.place.run("push").done();
    assert_eq!(desk.states(), "applied");
    assert_eq!(desk.there("customFields")["tier"], json!(wanted));
    let list = desk.place.run("outbox").done();
    assert_eq!((list.out.as_str(), list.err.as_str()), ("no edits are waiting\n", ""));
}

#[test]
fn rejected_edit_that_nobody_wants_ends() {
    let desk = EditingMirror::new();
    let rejected = |desk: &EditingMirror| desk.place.run("status --json").done().json()["edits"]["rejected"].clone();
    let refuse = || {
        desk.service.sandbox.faults().add(Rule::new(Fault::Status(422)).method("PATCH").times(1));
        desk.place.run("push").code(1);
        assert_eq!(rejected(&desk), json!(1));
    };
    desk.edit("position=mine");
    refuse();
    // A retry that has nothing left to send ends it too.
    desk.elsewhere(&json!({"position": "mine"}));
    desk.place.run("sync").done();
    desk.place.run("outbox retry 1").done();
    desk.place.run("push").done();
    assert_eq!((desk.states().as_str(), rejected(&desk)), ("applied", json!(0)));
    desk.edit("position=other");
    refuse();
    desk.elsewhere(&json!({"position": "third"}));
    desk.place.run("outbox drop 2 --yes").done();
    assert_eq!((desk.states().as_str(), rejected(&desk)), ("applied,dropped", json!(0)));
}

#[test]
fn too_many_edits_are_held_released_and_undone() {
    let mirror = EditingMirror::new();
    let place = &mirror.place;
    let limit = |place: &TestDir| place.run("push --json").code(1).json()["push"]["held"].clone();
    let edits = |sql: &str| {
        rusqlite::Connection::open(place.path("mirror.db")).unwrap().execute_batch(sql).unwrap();
    };
    edits("UPDATE contacts_full SET position = 'everybody'");
    let small = TestDir::of(&mirror.service)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_WRITE_BACK__MAX_EDITS", "5")
        .set("CRM_MIRROR_DATABASE__PATH", place.path("mirror.db").to_str().unwrap());
    assert_eq!(limit(&small), json!(12));
    assert_eq!(mirror.service.sandbox.log().patches(Object::Contact), 0);
    let status = small.run("status --json").done().json();
    assert_eq!((&status["edits"]["held"], &status["edits"]["queued"]), (&json!(12), &json!(0)));
    assert!(small.run("status").done().out.contains("edits: 12 held; the oldest was created"));
    let list = small.run("outbox").done();
    assert!(list.err.contains("12 edits are held"), "{}", list.err);

    let refused = small.run("outbox release --all").code(2);
    assert!(
        refused.err.contains("stdin is not a terminal") && refused.err.contains("hint: pass `--yes`"),
        "{}",
        refused.err
    );
    small.run("outbox release").code(2);
    small.run("outbox drop 1 --all --yes").code(2);
    small.run("outbox drop 1 2 --yes").done();
    assert_eq!(small.run("outbox release 3 --yes").done().out.lines().next(), Some("edit 3 is queued"));
    assert_eq!(small.run("outbox release --all --yes").done().out, "9 edits are queued\n");
    small.run("push").done();
    assert_eq!(mirror.service.sandbox.log().patches(Object::Contact), 10);

    let refused = small.run("outbox undo --since 2026-01-01T00:00:00Z").code(2);
    assert!(refused.err.contains("stdin is not a terminal"), "{}", refused.err);
    small.run("outbox undo --since yesterday --yes").code(2);
    small.run("outbox undo 1 --yes").code(2);
    let undone = small.run("outbox undo --since 2026-01-01T00:00:00Z --yes --json").done().json();
    assert_eq!(undone["edits"].as_array().unwrap().len(), 10);
    small.run("push").done();
    let still = place.ask("SELECT count(*) FROM contacts WHERE position = 'everybody'");
    assert_eq!(still, "0");
    assert_eq!(small.run("outbox undo --since 2026-01-01T00:00:00Z --yes").done().out.lines().count(), 1);
    // Two edits of a record that one undo reverts are both reverted.
    for change in ["position=one", "language=xx"] {
        small.run(&format!("edit contact {} {change}", mirror.contact)).done();
        place.run("push").done();
    }
    // One that is reverted by itself reverts none before it.
    for reverts_last in [false, true] {
        if reverts_last {
            for change in ["position=one", "position=two", "position=one", "position=two"] {
                small.run(&format!("edit contact {} {change}", mirror.contact)).done();
                place.run("push").done();
            }
            small.run(&format!("outbox undo {} --yes", place.ask("SELECT max(id) FROM outbox"))).done();
            place.run("push").done();
        }
        for undone in [1, 0] {
            let document = small.run("outbox undo --since 2026-01-01T00:00:00Z --yes --json").done().json();
            assert_eq!(document["edits"].as_array().unwrap().len(), undone, "{document}");
            place.run("push").done();
        }
    }
    for change in ["position=sent", "position=waits"] {
        small.run(&format!("edit contact {} {change}", mirror.contact)).done();
        place.run(if change.ends_with("sent") { "push" } else { "outbox" }).done();
    }
    let left = small.run("outbox undo --since 2026-01-01T00:00:00Z --yes").done().out;
    assert!(left.contains("nothing to do") && left.contains("another edit waits: position"), "{left}");
}

/// An accident that is released leaves the mirror what it needs to stay current.
#[test]
fn released_edits_leave_what_scheduled_runs_need() {
    let service = Service::with(12, 3);
    // So long that its end is not near.
    let dir = || {
        let dir = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        dir.set("CRM_MIRROR_BUDGET__WINDOW", "365d")
    };
    let place = dir();
    place.run("sync").done();
    let used = place.run("status --json").done().json()["ru"]["used"].as_u64().unwrap();
    let file = place.path("mirror.db");
    let statement = "UPDATE contacts_full SET position = 'everybody'";
    rusqlite::Connection::open(&file).unwrap().execute_batch(statement).unwrap();
    // Half of the budget is for the runs of the schedule.
    let small = dir()
        .set("CRM_MIRROR_BUDGET__LIMIT", &(2 * used + 20).to_string())
        .set("CRM_MIRROR_DATABASE__PATH", file.to_str().unwrap());
    small.run("push").code(75);
    assert_eq!(service.sandbox.log().patches(Object::Contact), 5);
    let edit = place.ask("SELECT id FROM outbox WHERE state = 'queued' AND answer IS NOT NULL LIMIT 1");
    let shown = place.run(&format!("outbox show {edit}")).done().out;
    let is_own = shown.contains("\nreason: the ") && shown.contains("reserved for scheduled runs");
    assert!(is_own && !shown.contains("next attempt"), "{shown}");
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    service.sandbox.with_world(|world| world.edit(Object::Contact, &contact, &json!({"name": "Changed"})));
    small.run("sync").code(75);
    assert_eq!(place.ask("SELECT count(*) FROM contacts WHERE name = 'Changed'"), "1");
    assert_eq!(service.sandbox.log().patches(Object::Contact), 5);
}

#[test]
fn rows_of_a_file_are_queued_all_or_none() {
    let mirror = EditingMirror::new();
    let place = &mirror.place;
    let other = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1 OFFSET 1");
    let file = |name: &str, text: &str| std::fs::write(place.path(name), text).unwrap();
    let edit = |name: &str, more: &str| {
        let path = place.path(name).to_str().unwrap().to_string();
        place.run(&format!("edit contact --from {path} {more}"))
    };
    file("bad.csv", &format!("id,position\n{},CTO\nnobody,CFO\n", mirror.contact));
    let refused = edit("bad.csv", "").code(2);
    assert!(refused.err.contains("1 of 2 rows cannot be queued, so none was queued"), "{}", refused.err);
    assert!(refused.err.contains("line 3: there is no contact `nobody`"), "{}", refused.err);
    assert_eq!(place.run("outbox").done().out, "no edits are waiting\n");

    file("good.csv", &format!("id,position,language\n{},\"Chief, Data\",de\n{other},CFO,\n", mirror.contact));
    assert!(edit("good.csv", "--dry-run").done().out.starts_with("2 edits would be queued"));
    assert_eq!(place.run("outbox").done().out, "no edits are waiting\n");
    let unasked = edit("good.csv", "").code(2);
    assert!(unasked.err.contains("stdin is not a terminal") && unasked.err.contains("`--yes`"), "{}", unasked.err);
    assert_eq!(place.run("outbox").done().out, "no edits are waiting\n");
    assert!(edit("good.csv", "--yes").done().out.starts_with("2 edits queued"));
    file("more.csv", &format!("id,notes\n{other},hello\n"));
    let document = edit("more.csv", "--yes --json").done().json();
    assert_eq!(document["edits"][0]["fields"]["notes"][1], json!("hello"));
    place.run("push").done();
    assert_eq!((mirror.there("position"), mirror.there("language")), (json!("Chief, Data"), json!("de")));
    // A cell with the service's value cancels what waits, which is said and asked.
    place.run(&format!("edit contact {other} position=Waiting")).done();
    file("back.csv", &format!("id,position,language\n{other},CFO,fr\n"));
    let planned = edit("back.csv", "--dry-run").done().out;
    assert!(planned.starts_with("1 edit would be queued; 1 waiting change cancelled; 0 rows"), "{planned}");
    file("back.csv", &format!("id,position\n{other},CFO\n"));
    assert!(edit("back.csv", "").code(2).err.contains("stdin is not a terminal"));
    let document = edit("back.csv", "--yes --json").done().json();
    assert_eq!(
        (&document["edits"][0]["edit"], &document["edits"][0]["cancelled"]),
        (&json!(null), &json!(["position"]))
    );
    for (name, text) in [("rows.txt", ""), ("rows.csv", "position\nx\n")] {
        file(name, text);
        edit(name, "").code(2);
    }
    for (name, text) in [
        ("rows-twice.csv", format!("id,notes\n{other},first\n{other},last\n")),
        ("twice.csv", format!("id,notes,notes\n{other},first,last\n")),
    ] {
        file(name, &text);
        let refused = edit(name, "").code(2);
        assert!(refused.err.contains("twice"), "{name}: {}", refused.err);
    }
    assert_eq!(place.run("outbox").done().out, "no edits are waiting\n");
}

#[test]
fn what_waits_for_a_person_or_a_time_is_named() {
    let desk = EditingMirror::new();
    desk.conflict();
    let status = desk.place.run("status").done().out;
    assert!(status.contains("edits: 1 in conflict"), "{status}");
    desk.place.run("outbox resolve 1 --theirs --yes").done();
    assert!(!desk.place.run("status").done().out.contains("edits:"), "nothing waits");
    let all = "UPDATE contacts_full SET position = 'everybody'";
    let place = desk.place.set("CRM_MIRROR_WRITE_BACK__MAX_EDITS", "1");
    rusqlite::Connection::open(place.path("mirror.db")).unwrap().execute_batch(all).unwrap();
    place.run("push").code(1);
    let status = place.run("status").done().out;
    for part in [" held;", "outbox list", "outbox drop --all", "outbox release --all"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let why = place.run("outbox show 2").done().out;
    assert!(why.contains("a person drops or releases it"), "{why}");
    place.run("outbox drop --all --yes").done();

    let place = place.set("CRM_MIRROR_WRITE_BACK__MAX_EDITS", "100");
    // A redirect concerns every edit of the object, and says when they go on.
    let redirect = Fault::Redirect { status: 302, location: "https://example.com/".into() };
    desk.service.sandbox.faults().add(Rule::new(redirect).method("PATCH"));
    place.run(&format!("edit contact {} language=de", desk.contact)).done();
    place.run("push").code(69);
    let edit = place.ask("SELECT max(id) FROM outbox");
    let waiting = place.run(&format!("outbox show {edit}")).done().out;
    assert!(waiting.contains("next attempt at 2") && waiting.contains("answer of the service: "), "{waiting}");
    assert_eq!(place.ask(&format!("SELECT state FROM outbox WHERE id = {edit}")), "queued");
    place.run(&format!("outbox retry {edit}")).done();
    place.run("push").done();
    assert_eq!(place.ask(&format!("SELECT state, answer FROM outbox WHERE id = {edit}")), "applied,");
}

#[test]
fn retried_edit_replaces_only_the_value_that_its_author_was_shown() {
    let desk = EditingMirror::new();
    desk.edit("position=mine");
    desk.place.run("outbox drop 1 --yes").done();
    desk.elsewhere(&json!({"position": "theirs"}));
    desk.place.run("sync").done();
    desk.place.run("outbox retry 1").done();
    desk.place.run("push").code(1);
    assert_eq!((desk.states().as_str(), desk.there("position")), ("conflict", json!("theirs")));
}

#[test]
fn edit_that_may_have_been_applied_asks_although_it_was_rejected_since() {
    let desk = EditingMirror::new();
    desk.edit("position=mine");
    desk.service.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    desk.service.sandbox.faults().add(Rule::new(Fault::Status(503)).method("GET").forever());
    let _ = desk.place.run("push");
    desk.service.sandbox.faults().clear();
    // The record is gone, and comes back.
    let record = desk.service.sandbox.with_world(|world| {
        let record = world.detail_json(Object::Contact, &desk.contact).unwrap();
        world.remove(Object::Contact, &desk.contact);
        record
    });
    desk.place.run("outbox retry 1").done();
    let _ = desk.place.run("push");
    desk.place.run("sync").done();
    assert_eq!(desk.states(), "rejected");
    desk.service.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": desk.contact, "name": record["name"]}));
    });
    desk.place.run("sync").done();
    let asked = desk.place.run("outbox retry 1").code(2);
    assert!(asked.err.contains("pass `--yes` to confirm"), "{}", asked.err);
}

#[test]
fn edit_that_changed_nothing_cannot_be_undone() {
    let desk = EditingMirror::new();
    desk.edit("position=theirs");
    desk.elsewhere(&json!({"position": "theirs"}));
    desk.place.run("sync").done();
    desk.place.run("push").done();
    assert_eq!(desk.states(), "applied");
    let refused = desk.place.run("outbox undo 1 --yes").code(2);
    assert!(refused.err.contains("there is nothing to undo"), "{}", refused.err);
    desk.place.run("outbox undo --since 2020-01-01T00:00:00Z --yes").done();
    assert_eq!((desk.states().as_str(), desk.there("position")), ("applied", json!("theirs")));
}

#[test]
fn push_that_leaves_edits_waiting_is_not_done() {
    let desk = EditingMirror::new();
    desk.edit("position=mine");
    desk.service.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    for _ in 0..2 {
        let pushed = desk.place.run("push").code(75);
        assert!(pushed.err.contains("1 edit is still waiting"), "{}", pushed.err);
    }
    let shown = desk.place.run("outbox show 1").done();
    assert!(shown.out.contains("next attempt at"), "{}", shown.out);
}
