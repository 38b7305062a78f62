//! `sync.exclude`: the excluded values are in no byte of anything, whether they were excluded before the first copy or later.

use crm_mirror::model::{DataType, Instant, Object, Resource};
use crm_mirror::sandbox::{NewField, World, generate};
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};
use crate::mcp::McpClient;

/// In every excluded value, in lower case, as a search index has its terms.
pub const MARKER: &str = "zqmarker";
/// In every excluded number. No time and no size has so many of these digits.
const NUMBER: &str = "71550319";
pub const EXCLUDED: &str =
    "contacts.notes,mobile,location_region,cf_salary,contacts.cf_secret,cf_story,cf_vip,cf_former";

pub fn world() -> World {
    let mut world = generate(3, 12, 3, Instant::system_now());
    for (key, data_type) in [
        ("salary", DataType::Decimal),
        ("secret", DataType::ShortText),
        ("story", DataType::LongText),
        ("vip", DataType::MultiSelect),
        ("former", DataType::ShortText),
        ("plain", DataType::ShortText),
    ] {
        world.fields().define(NewField::new(Object::Contact, key, data_type).options(&["zz"]));
    }
    for (n, id) in world.ids(Resource::Contacts).iter().enumerate() {
        world.edit(Object::Contact, id, &secrets(n));
    }
    world
}

fn secrets(n: usize) -> Value {
    let text = format!("{MARKER} {n}");
    json!({"notes": text, "mobile": text, "location": {"region": text, "city": "Bonn"},
           "customFields": {"salary": format!("{NUMBER}{n}.25"), "secret": text, "story": text, "vip": ["zz"], "former": text, "plain": "seen"}})
}

/// Values that no column holds: `extra` keeps what is not excluded.
fn distort(world: &mut World) -> Vec<String> {
    let ids: Vec<String> = world.ids(Resource::Contacts).iter().take(6).map(ToString::to_string).collect();
    let raw = format!("[\"{MARKER}\"]");
    for (id, path) in
        ids.iter().zip(["notes", "mobile", "customFields.secret", "location", "customFields", "location.region"])
    {
        world.set_raw(Object::Contact, id, path, &raw);
    }
    ids
}

/// Makes a history of excluded values in a mirror that has them.
fn disturb(service: &Service, place: &TestDir) {
    service.sandbox.with_world(|world| {
        distort(world);
        let ids = world.ids(Resource::Contacts);
        ids.iter().enumerate().skip(5).for_each(|(n, id)| _ = world.edit(Object::Contact, id, &secrets(n + 50)));
    });
    place.run("sync").done();
}

/// No file of the directory, and none of these texts, has an excluded value.
#[track_caller]
fn assert_nowhere(place: &TestDir, texts: &[&str]) {
    let holds = |bytes: &[u8], what: &str| {
        let lower = bytes.to_ascii_lowercase();
        [MARKER, NUMBER].into_iter().for_each(|part| {
            assert!(!lower.windows(part.len()).any(|window| window == part.as_bytes()), "{part} is in {what}");
        });
    };
    for path in place.files().keys().filter(|path| path.is_file()) {
        holds(&std::fs::read(path).unwrap(), &path.display().to_string());
    }
    texts.iter().for_each(|text| holds(text.as_bytes(), "an answer"));
}

fn assistant(place: &TestDir) -> String {
    let mut client = McpClient::start(place, &["mcp"]);
    client.ask("initialize", &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}));
    let mut all = String::new();
    for sql in ["SELECT * FROM contacts_full", "SELECT * FROM contact_details", "SELECT * FROM changes"] {
        all += &client.answer("query", &json!({"sql": sql})).to_string();
    }
    assert!(all.contains("Bonn") && all.contains("seen"), "{all}");
    all
}

#[track_caller]
fn assert_not_mirrored(place: &TestDir, service: &Service) {
    let log = place.run("sync").done().err;
    place.run("backup copy.db --force").done();
    let stream = place.run("export --snapshot").done().out;
    assert!(stream.contains("Bonn"));
    assert_nowhere(place, &[&log, &stream, &assistant(place)]);
    assert_eq!(place.ask("SELECT count(*) FROM custom_multi_values WHERE field_key = 'vip'"), "0");
    let id = place.ask("SELECT min(id) FROM contacts");
    for column in ["notes", "cf_salary", "cf_secret"] {
        let edit = ["edit", "contact", &id, &format!("{column}=1")];
        let refused = Ended::from(place.command(&edit).output().unwrap()).code(2);
        assert!(refused.err.contains("`sync.exclude`"), "{}", refused.err);
    }
    place.run("verify --full").done();
    let reads = |log: &crm_mirror::sandbox::Log| log.entries().len();
    let before = reads(&service.sandbox.log());
    place.run("sync").done();
    assert!(reads(&service.sandbox.log()) - before <= 4, "excluded fields cost requests in each run");
}

#[test]
fn excluded_values_never_land() {
    let service = Service::of(world());
    service.sandbox.with_world(distort);
    let place = TestDir::of(&service)
        .set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_LOG__LEVEL", "trace");
    place.run("sync").done();
    assert_not_mirrored(&place, &service);
    service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        ids.iter().enumerate().for_each(|(n, id)| _ = world.edit(Object::Contact, id, &secrets(n + 50)));
        // As new as the removed record: it is removed at once.
        world.remove(Object::Contact, &ids[6]);
        world.edit(Object::Contact, &ids[7], &json!({"position": "Newest"}));
    });
    place.run("resync").done();
    assert_eq!(place.ask("SELECT count(*) FROM removed_records"), "1");
    assert_not_mirrored(&place, &service);
}

/// Nothing but the configuration says then what is excluded.
#[test]
fn values_stay_excluded_although_the_file_does_not_know_what_it_was_built_from() {
    let service = Service::of(world());
    let place =
        TestDir::of(&service).set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    for damaged in ["DELETE FROM state", "UPDATE state SET value = '{\"layout\":18446744073709551615}'"] {
        let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
        conn.execute(&format!("{damaged} WHERE name = 'built_from'"), []).unwrap();
        drop(conn);
        service.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            ids.iter().enumerate().for_each(|(n, id)| _ = world.edit(Object::Contact, id, &secrets(n + 50)));
        });
        place.run("resync").done();
        assert_not_mirrored(&place, &service);
    }
}

#[test]
fn column_that_is_excluded_later_is_erased() {
    let mut world = world();
    let twin = world.ids(Resource::Contacts)[6].to_string();
    world.create(Object::Company, &json!({"id": twin, "name": "Company with the id of a contact"}));
    let service = Service::of(world);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    disturb(&service, &place);
    let [id, other, merged] = service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.remove(Object::Contact, &ids[6]);
        world.edit(Object::Contact, &ids[7], &json!({"position": "Newest"}));
        world.remove(Object::Company, &ids[6]);
        let company = world.ids(Resource::Companies)[0].clone();
        world.edit(Object::Company, &company, &json!({"name": "Newest"}));
        [8, 9, 5].map(|n: usize| ids[n].to_string())
    });
    place.run("resync").done();
    // The values from before its type changed wait for those that take their place.
    service.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "former", |definition| definition.data_type = "LONG_TEXT".into());
    });
    place.run("sync custom-fields").done();
    assert_ne!(place.ask("SELECT count(*) FROM ended_values WHERE column_name = 'cf_former'"), "0");
    let edit = ["edit", "contact", &id, "position=Chief", &format!("cf_secret={MARKER} edited")];
    Ended::from(place.command(&edit).output().unwrap()).done();
    // Two edits of one request, which one of them holds, as it does the answer.
    for change in ["position=Chair".into(), format!("cf_secret={MARKER} merged")] {
        Ended::from(place.command(&["edit", "contact", &merged, &change]).output().unwrap()).done();
    }
    // An edit that is not finished needs its values.
    let excluding = place.set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED);
    let refused = excluding.run("sync").code(78);
    assert!(refused.err.contains("edit 1 changes") && refused.err.contains("outbox drop"), "{}", refused.err);
    let place = excluding.unset("CRM_MIRROR_SYNC__EXCLUDE");
    place.run("push").done();
    // A conflict shows what the service has.
    let edit = ["edit", "contact", &other, &format!("cf_secret={MARKER} ours")];
    Ended::from(place.command(&edit).output().unwrap()).done();
    let theirs = json!({"customFields": {"secret": format!("{MARKER} theirs")}});
    service.sandbox.with_world(|world| world.edit(Object::Contact, &other, &theirs));
    place.run("push").code(1);
    assert!(place.ask("SELECT theirs FROM outbox WHERE id = 4").contains("theirs"));
    place.run("outbox drop 4 --yes").done();
    assert_eq!(place.ask("SELECT group_concat(state) FROM outbox"), "\"applied,applied,applied,dropped\"");
    let removed_company = "SELECT id, record FROM removed_records WHERE object_type = 'company'";
    let before = place.ask(removed_company);
    assert!(before.starts_with(&twin) && before.contains("Company with the id of a contact"), "{before}");
    let place = place.set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED);
    assert_not_mirrored(&place, &service);
    assert_eq!(place.ask("SELECT group_concat(object_type ORDER BY 1) FROM removed_records"), "\"company,contact\"");
    assert_eq!(place.ask(removed_company), before);
    assert_ne!(place.ask("SELECT count(*) FROM changes"), "0");
    assert_eq!(place.ask("SELECT group_concat(f.key) FROM outbox, json_each(fields) AS f"), "\"position,position\"");

    // Mirrored again, it is read again.
    let place = place.unset("CRM_MIRROR_SYNC__EXCLUDE");
    place.run("sync").done();
    place.run("verify --full").done();
    let held = "SELECT count(mobile), count(cf_secret), count(cf_salary_num), count(notes), count(cf_story) FROM contacts_full";
    assert_eq!(place.ask(held), "10,9,10,10,10");
}

/// SIGKILL at each of the first writes that reach the disk: before, between and after the erasure and the rewrite.
#[test]
fn erasure_that_a_kill_interrupts_is_finished_by_the_next_run() {
    let strace = std::path::Path::new("/usr/bin/strace");
    if !strace.exists() {
        println!("SKIPPED: strace is missing");
        return;
    }
    let service = Service::of(world());
    let before = TestDir::of(&service);
    before.run("sync").done();
    // A long value that was replaced stays in free pages.
    for notes in [format!("{MARKER} ").repeat(2_000), "short".into()] {
        service.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            ids.iter().for_each(|id| _ = world.edit(Object::Contact, id, &json!({"notes": notes})));
        });
        before.run("sync").done();
    }
    let (mut left, mut erased) = (0, 0);
    for write in 1..=8 {
        let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED);
        std::fs::copy(before.path("mirror.db"), place.path("mirror.db")).unwrap();
        let program = place.command(&["sync"]);
        let mut command = std::process::Command::new(strace);
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
        command.arg(format!("-einject=fsync,fdatasync:signal=KILL:when={write}")).arg(program.get_program());
        command.arg("sync").env_clear().current_dir(place.path("."));
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if command.output().unwrap().status.success() {
            break;
        }
        // Looked at in a copy: the last reader that closes the file changes it.
        let copy = TestDir::of(&service);
        for name in ["mirror.db", "mirror.db-wal"].into_iter().filter(|name| place.path(name).exists()) {
            let bytes = std::fs::read(place.path(name)).unwrap();
            left += usize::from(bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()));
            std::fs::write(copy.path(name), bytes).unwrap();
        }
        let reader = rusqlite::Connection::open(copy.path("mirror.db")).unwrap();
        let values = "SELECT count(mobile) FROM contacts";
        erased += usize::from(reader.query_row(values, [], |row| row.get::<_, i64>(0)).unwrap() == 0);
        place.run("sync").done();
        assert_nowhere(&place, &[]);
    }
    assert!(left > 0 && erased > 0, "no kill came in between: {left}, {erased}");
}

/// A reader keeps the file from being rewritten.
#[test]
fn erasure_that_was_not_finished_is_finished_by_the_next_run() {
    let service = Service::of(world());
    let place = TestDir::of(&service);
    place.run("sync").done();
    let reader = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM contacts").unwrap();
    let place = place.set("CRM_MIRROR_SYNC__EXCLUDE", EXCLUDED);
    let said = place.run("sync").done().err;
    assert!(said.contains("may still be in the file"), "{said}");
    let holds = |name: &str| {
        let bytes = std::fs::read(place.path(name)).unwrap();
        bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
    };
    assert!(holds("mirror.db") || holds("mirror.db-wal"));
    drop(reader);
    place.run("sync").done();
    assert_nowhere(&place, &[]);
}

/// A field that is made again under its key, and one whose column another field's name forces to move.
#[test]
fn field_stays_excluded_whatever_its_column_is_called() {
    let change = |world: &mut World, deal: Value| {
        let fields = json!({"salary": format!("{MARKER} of {deal}"), "deal": deal, "deal_num": 3});
        let ids = world.ids(Resource::Contacts);
        ids.iter().for_each(|id| _ = world.edit(Object::Contact, id, &json!({ "customFields": fields })));
    };
    let mut world = generate(3, 4, 1, Instant::system_now());
    for (key, data_type) in
        [("salary", DataType::ShortText), ("deal", DataType::Integer), ("deal_num", DataType::Integer)]
    {
        world.fields().define(NewField::new(Object::Contact, key, data_type));
    }
    change(&mut world, json!(71_550_319));
    let service = Service::of(world);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__EXCLUDE", "contacts.cf_salary,contacts.cf_deal");
    place.run("sync").done();
    service.sandbox.with_world(|world| {
        world.fields().undefine(Object::Contact, "salary");
        world.fields().define(NewField::new(Object::Contact, "salary", DataType::ShortText));
        world.fields().redefine(Object::Contact, "deal", |field| field.data_type = "DECIMAL".into());
        change(world, json!("71550319.5"));
    });
    for verb in ["sync custom-fields", "sync", "resync"] {
        place.run(verb).done();
        assert_nowhere(&place, &[]);
    }
    // Mirrored again, each has a name of its own, by which it can be excluded.
    let place = place.set("CRM_MIRROR_SYNC__EXCLUDE", "");
    place.run("sync").done();
    let shown = "SELECT count(cf_salary_2), count(cf_deal_2), count(cf_deal_2_num), sum(cf_deal_num) FROM contacts";
    assert_eq!(place.ask(shown), "4,4,4,12");
    let place = place.set("CRM_MIRROR_SYNC__EXCLUDE", "contacts.cf_salary_2,contacts.cf_deal_2");
    place.run("sync").done();
    assert_nowhere(&place, &[]);
}

#[test]
fn field_with_a_key_like_a_companion_of_an_excluded_one_stays() {
    let change = |world: &mut World, n: usize| {
        let fields = json!({"near": format!("{MARKER} {n}"), "near_num": format!("kept {n}"), "near_label": "kept"});
        let ids = world.ids(Resource::Contacts);
        ids.iter().for_each(|id| _ = world.edit(Object::Contact, id, &json!({ "customFields": fields })));
    };
    let mut world = generate(3, 4, 1, Instant::system_now());
    for key in ["near", "near_num", "near_label"] {
        world.fields().define(NewField::new(Object::Contact, key, DataType::ShortText));
    }
    change(&mut world, 0);
    let service = Service::of(world);
    let place = TestDir::of(&service);
    place.run("sync").done();
    service.sandbox.with_world(|world| change(world, 1));
    place.run("sync").done();
    service.sandbox.with_world(|world| world.fields().archive(Object::Contact, "near_label"));
    place.run("sync custom-fields").done();
    let place = place.set("CRM_MIRROR_SYNC__EXCLUDE", "contacts.cf_near");
    place.run("sync").done();
    assert_nowhere(&place, &[]);
    service.sandbox.with_world(|world| change(world, 2));
    place.run("sync").done();
    assert_nowhere(&place, &[]);
    let kept = "SELECT count(cf_near_num), count(archived_cf_near_label) FROM contacts";
    assert_eq!(place.ask(kept), "4,4");
    let history = "SELECT value, count(*) FROM contact_history WHERE column_name = 'cf_near_num' GROUP BY 1 ORDER BY 1";
    assert_eq!(place.ask(history), "kept 0,4\nkept 1,4\nkept 2,4");
}

#[test]
fn assistant_does_not_see_withheld_columns_and_its_calls_are_recorded() {
    let service = Service::of(world());
    let place = TestDir::of(&service)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_MCP__EXCLUDE", EXCLUDED)
        .set("CRM_MIRROR_MCP__LOG", "calls.log");
    place.run("sync").done();
    disturb(&service, &place);
    let id = place.ask("SELECT max(id) FROM contacts");
    let edit = ["edit", "contact", &id, &format!("cf_secret={MARKER} edited")];
    Ended::from(place.command(&edit).output().unwrap()).done();
    let tables = place.ask(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE '%search%' ORDER BY name",
    );
    assert!(tables.contains("contact_history") && tables.contains("pending_edits"), "{tables}");

    let mut client = McpClient::start(&place, &["mcp"]);
    let about = json!({"name": "a client", "version": "7"});
    client.ask("initialize", &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": about}));
    let mut seen = String::new();
    for table in tables.lines() {
        seen += &client.answer("query", &json!({"sql": format!("SELECT * FROM {table}")})).to_string();
    }
    let star =
        client.answer("query", &json!({"sql": "SELECT id, notes, name FROM contacts_full WHERE mobile IS NOT NULL"}));
    assert_eq!(star["withheld"], json!(["contacts_full.mobile", "contacts_full.notes"]));
    assert_eq!(star["rows"], json!([]));
    let whole = format!("SELECT * FROM contacts_full WHERE id = '{id}'");
    seen += &client.answer("query", &json!({"sql": whole})).to_string();
    for sql in [
        format!("SELECT name FROM contacts_full WHERE notes LIKE '{MARKER}%'"),
        format!("SELECT count(*) FROM contact_details AS d WHERE d.cf_story GLOB '{MARKER}*'"),
        format!("SELECT rowid FROM contact_search WHERE contact_search MATCH '{MARKER}'"),
        "SELECT * FROM contact_search_content".into(),
        "SELECT * FROM contact_search_data".into(),
    ] {
        let (_, text) = client.call("query", &json!({"sql": sql}));
        assert!(
            text.contains("prohibited")
                || text.contains("mcp.exclude")
                || text.contains("not authorized")
                || text.contains("\"rows\":[]")
                || text.contains("[[0]]"),
            "{sql}: {text}"
        );
    }
    let search = format!("SELECT record_id FROM contact_search WHERE contact_search MATCH '\"{MARKER}\"*'");
    let (failed, text) = client.call("query", &json!({"sql": search}));
    assert!(failed && text.contains("mcp.exclude"), "{text}");
    let proposed = json!({"object": "contact", "id": id, "fields": {"notes": "new"}});
    let (failed, text) = client.call("propose_edit", &proposed);
    assert!(failed && text.contains("`mcp.exclude` withholds notes"), "{text}");
    let columns = client.answer("describe", &json!({"table": "contacts_full"})).to_string();
    assert!(
        columns.contains("\"email\"") && !columns.contains("\"notes\"") && !columns.contains("cf_salary"),
        "{columns}"
    );
    let lower = seen.to_lowercase();
    assert!(!lower.contains(MARKER) && !lower.contains(NUMBER), "{lower}");
    assert!(seen.contains("Bonn") && seen.contains("\"seen\""));

    let log = std::fs::read_to_string(place.path("calls.log")).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&first["client"], &first["tool"]), (&about, &json!("query")));
    assert!(first["user"].is_number() && first["at"].is_string(), "{first}");
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(last["arguments"], json!({"table": "contacts_full"}));
    // Without a record there is no answer.
    std::fs::remove_file(place.path("calls.log")).unwrap();
    std::os::unix::fs::symlink("elsewhere", place.path("calls.log")).unwrap();
    let (failed, text) = client.call("query", &json!({"sql": "SELECT 1"}));
    assert!(failed && text.contains("mcp.log"), "{text}");
    let place = place.set("CRM_MIRROR_MCP__EXCLUDE", "contacts.nots");
    assert!(place.run("mcp").code(78).err.contains("contacts.nots"));
}
