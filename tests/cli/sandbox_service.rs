//! `sandbox` as a development service: identical bytes for identical commands, a world that survives kills, fixtures,
//! faults, and the admin interface beside the API.
//! faults, and the admin interface beside the API.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::binary::{Going, TestDir};

/// A running `crm-mirror sandbox`.
struct DevService {
    going: Going,
    address: String,
    key: String,
}

/// An answer: status, lower-case headers and body.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

impl DevService {
    fn start(place: &TestDir, line: &str) -> DevService {
        let mut args = vec!["sandbox", "--port", "0"];
        args.extend(line.split_whitespace());
        let mut going = Going::start(place.command(&args));
        let base_url = going.line();
        let address = base_url.strip_prefix("base_url: http://").unwrap().strip_suffix("/v1").unwrap().to_string();
        let key = going.line().strip_prefix("api_key: ").unwrap().to_string();
        DevService { going, address, key }
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}",
            self.key
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_string() }
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    fn admin(&self, verb: &str, body: &Value) -> Answer {
        self.send("POST", &format!("/_sandbox/{verb}"), "", &body.to_string())
    }

    fn stop(self) {
        self.going.signal("-TERM");
        assert_eq!(self.going.end().0, Some(0));
    }

    fn kill(self) {
        self.going.signal("-KILL");
        self.going.end();
    }
}

const NOW: &str = "--now 2026-01-05T10:00:00Z --contacts 40 --companies 6";

/// The answers of a small session: lists, details, updates, replays and refusals.
fn session(service: &DevService) -> Vec<Answer> {
    let mut answers = vec![service.get("/v1/contacts?limit=10&count=exact"), service.get("/v1/team-members")];
    let listed = answers[0].json();
    let next = listed["nextCursor"].as_str().unwrap().replace('+', "%2B").replace('=', "%3D");
    answers.push(service.get(&format!("/v1/contacts?limit=10&count=exact&cursor={next}")));
    let id = listed["data"][0]["id"].as_str().unwrap();
    let etag = listed["data"][0]["etag"].as_str().unwrap();
    let path = format!("/v1/contacts/{id}");
    let headers = format!("If-Match: {etag}\r\nIdempotency-Key: k1\r\n");
    for _ in 0..2 {
        answers.push(service.send("PATCH", &path, &headers, r#"{"position":"CTO"}"#));
    }
    answers.push(service.get(&path));
    answers.push(service.get("/v1/contacts?limit=0"));
    answers
}

#[test]
fn same_command_gives_byte_identical_answers() {
    for line in [format!("{NOW} --seed 3"), format!("{NOW} --seed 3 --nasty")] {
        let lived: Vec<(String, Vec<Answer>)> = (0..2)
            .map(|_| {
                let service = DevService::start(&TestDir::empty(), &line);
                let answers = session(&service);
                let key = service.key.clone();
                service.stop();
                (key, answers)
            })
            .collect();
        assert_eq!(lived[0], lived[1]);
        let statuses: Vec<u16> = lived[0].1.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 400]);
        assert!(lived[0].1[4].head.contains("idempotent-replayed: true"));
        assert!(lived[0].1[3].body.contains("2026-01-05T10:00:00.000Z"), "{}", lived[0].1[3].body);
    }
    let other = DevService::start(&TestDir::empty(), &format!("{NOW} --seed 4"));
    let first = DevService::start(&TestDir::empty(), &format!("{NOW} --seed 3"));
    assert_ne!(other.key, first.key);
    assert_ne!(other.get("/v1/contacts").body, first.get("/v1/contacts").body);
}

#[test]
fn world_with_a_state_file_survives_kills() {
    let place = TestDir::empty();
    let state = place.path("crm.state");
    let line = format!("{NOW} --state {}", state.display());
    let service = DevService::start(&place, &line);
    let listed = service.get("/v1/contacts?limit=2").json();
    let id = listed["data"][0]["id"].as_str().unwrap();
    let gone = listed["data"][1]["id"].as_str().unwrap();
    let headers = format!("If-Match: {}\r\nIdempotency-Key: k\r\n", listed["data"][0]["etag"].as_str().unwrap());
    let patch =
        |service: &DevService| service.send("PATCH", &format!("/v1/contacts/{id}"), &headers, r#"{"notes":"x"}"#);
    let first = patch(&service);
    assert_eq!(first.status, 200);
    assert_eq!(service.admin("delete", &json!({"object": "contact", "id": gone})).status, 200);
    let created = service.admin("create", &json!({"object": "company", "fields": {"name": "New"}}));
    let field =
        json!({"object": "custom-field", "fields": {"key": "shoe", "dataType": "INTEGER", "objectType": "contact"}});
    assert_eq!(service.admin("create", &field).status, 200);
    let shoe = json!({"object": "contact", "id": id, "fields": {"customFields": {"shoe": 42}}});
    assert_eq!(service.admin("change", &shoe).status, 200);
    assert_eq!(service.admin("clock", &json!({"advance": "1h30m"})).json()["data"]["now"], "2026-01-05T11:30:00.000Z");
    let (contacts, definitions) = (
        service.get("/v1/contacts?limit=100").body,
        service.get("/v1/custom-field-definitions?objectType=contact").body,
    );
    let detail = service.get(&format!("/v1/contacts/{id}")).body;
    let taken = place.run(&format!("sandbox --port 0 --state {}", state.display())).code(74);
    assert!(taken.err.contains("in use"), "{}", taken.err);
    service.kill();
    for _ in 0..2 {
        let service = DevService::start(&place, &line);
        assert_eq!(service.get("/v1/contacts?limit=100").body, contacts);
        assert_eq!(service.get("/v1/custom-field-definitions?objectType=contact").body, definitions);
        assert_eq!(service.get(&format!("/v1/contacts/{id}")).body, detail);
        assert_eq!(service.get(&format!("/v1/contacts/{gone}")).status, 404);
        let again = patch(&service);
        assert_eq!((again.status, &again.body), (200, &first.body), "the update is replayed");
        assert!(again.head.contains("idempotent-replayed: true"));
        let company = service.get(&format!("/v1/companies/{}", created.json()["data"]["id"].as_str().unwrap()));
        assert_eq!(company.json()["data"]["name"], "New");
        service.kill();
    }
    let other = place.path("other");
    std::fs::write(&other, "something else").unwrap();
    let refused = place.run(&format!("sandbox --port 0 --state {}", other.display())).code(74);
    assert!(refused.err.contains("is not a state file"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "something else");
}

#[test]
fn fixture_is_served_verbatim() {
    let place = TestDir::empty();
    let fixture = place.path("crm.json");
    let text =
        r#"{"contacts": [{"id": "c1", "name": "Ada", "etag": "\"v-7\"", "createdAt": "2026-01-01T00:00:00.000Z"}]}"#;
    std::fs::write(&fixture, text).unwrap();
    let service = DevService::start(&place, &format!("--fixture {}", fixture.display()));
    let detail = service.get("/v1/contacts/c1");
    assert_eq!(detail.json()["data"]["etag"], "\"v-7\"");
    assert!(detail.head.contains("etag: \"v-7\""), "{}", detail.head);
    assert_eq!(service.get("/v1/companies?count=exact").json()["total"], 0);
    let head = service.send("HEAD", "/v1/contacts/c1", "", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.head.contains(&format!("content-length: {}", detail.body.len())), "{}", head.head);
    for (text, part) in [("{", "the file"), (r#"{"contacts": [7]}"#, "contacts[0]"), (r#"{"people": []}"#, "people")] {
        std::fs::write(&fixture, text).unwrap();
        let ended = place.run(&format!("sandbox --port 0 --fixture {}", fixture.display())).code(2);
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    place.run("sandbox --port 0 --fixture /nowhere/crm.json").code(2);
}

#[test]
fn invalid_arguments_of_sandbox_are_usage_errors() {
    for junk in [
        "--fault 503",
        "--fault 503:200%",
        "--fault nope:1%",
        "--churn 5",
        "--churn 0/s",
        "--now yesterday",
        "--fault ,",
    ] {
        TestDir::empty().run(&format!("sandbox --port 0 {junk}")).code(2);
    }
}

#[test]
fn admin_interface_changes_the_world_the_faults_and_the_clock() {
    let service = DevService::start(&TestDir::empty(), &format!("{NOW} --fault 503:100%"));
    assert_eq!(service.get("/v1/contacts").status, 503);
    assert_eq!(service.admin("faults", &json!({"fault": ""})).status, 200);
    let fields = json!({"name": "Zoe", "location": {"city": "Paris"}, "customFields": {"tier": "gold"}});
    let created = service.admin("create", &json!({"object": "contact", "id": "z1", "fields": fields})).json();
    assert_eq!(created["data"]["createdAt"], "2026-01-05T10:00:00.000Z");
    service.admin("clock", &json!({"advance": "1d"}));
    let changed = service.admin("change", &json!({"object": "contact", "id": "z1", "fields": {"name": "Zoë"}})).json();
    assert_eq!(changed["data"]["updatedAt"], "2026-01-06T10:00:00.000Z");
    assert_ne!(changed["data"]["etag"], created["data"]["etag"]);
    assert_eq!(service.get("/v1/contacts/z1").json(), changed);
    let log = service.get("/_sandbox/log");
    let lines = log.json()["data"].as_array().unwrap().clone();
    let line =
        |n: usize| format!("{} {} {}", lines[n]["method"], lines[n]["path"], lines[n]["status"]).replace('"', "");
    assert_eq!([line(0), line(1)], ["GET /contacts 503", "GET /contacts/z1 200"]);
    assert!(!log.body.contains(&service.key));
    assert_eq!(service.admin("delete", &json!({"object": "contact", "id": "z1"})).status, 200);
    assert_eq!(service.get("/v1/contacts/z1").status, 404);
    for (verb, body) in [
        ("create", json!([])),
        ("create", json!({"fields": {}})),
        ("create", json!({"object": "dog"})),
        ("create", json!({"object": "contact", "fields": {"nmae": "x"}})),
        ("create", json!({"object": "contact", "fields": {"customFields": {"nope": 1}}})),
        ("create", json!({"object": "contact", "fields": {"id": "x"}})),
        (
            "create",
            json!({"object": "custom-field", "fields": {"id": "d1", "key": "b", "dataType": "INTEGER", "objectType": "contact"}}),
        ),
        ("create", json!({"object": "contact", "id": 7})),
        ("create", json!({"object": "contact", "id": ""})),
        ("create", json!({"object": "custom-field", "fields": {"key": "x"}})),
        ("change", json!({"object": "contact", "fields": {}})),
        ("delete", json!({"object": "contact"})),
        ("delete", json!({"object": "contact", "id": "a", "extra": 1})),
        ("faults", json!({"fault": "503"})),
        ("faults", json!({})),
        ("clock", json!({"advance": "soon"})),
        ("clock", json!({"advance": "-1h"})),
        ("clock", json!({"advance": "99999999d"})),
        ("faults", json!({"fault": "", "now": true})),
    ] {
        let answer = service.admin(verb, &body);
        assert_eq!(answer.status, 400, "{verb} {body}: {}", answer.body);
        assert_eq!(answer.json()["code"], 400);
        assert!(answer.json()["message"].as_str().is_some_and(|message| message.len() > 10));
    }
    assert_eq!(service.send("POST", "/_sandbox/create", "", "{").status, 400);
    assert_eq!(service.admin("change", &json!({"object": "contact", "id": "nobody"})).status, 404);
    assert_eq!(service.get("/_sandbox/create").status, 405);
    assert_eq!(service.admin("nothing", &json!({})).status, 404);
}

#[test]
fn churn_changes_records_at_the_requested_rate() {
    let service = DevService::start(&TestDir::empty(), "--contacts 30 --companies 5 --churn 500/s");
    let latest = |service: &DevService| service.get("/v1/contacts?sort=-updatedAt&limit=1").body;
    let first = latest(&service);
    let changed = (0..10_000).any(|_| latest(&service) != first);
    service.stop();
    assert!(changed);
}

/// The first block of this language on the sandbox page.
fn block(language: &str) -> String {
    let page = include_str!("../../docs/sandbox.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_string()
}

#[test]
fn examples_of_the_documentation_run() {
    let place = TestDir::empty();
    std::fs::write(place.path("test.py"), block("python")).unwrap();
    std::fs::write(place.path("test.mjs"), block("javascript")).unwrap();
    std::fs::write(place.path("crm.json"), block("json")).unwrap();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_crm-mirror")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    for (program, file) in [("python3", "test.py"), ("node", "test.mjs")] {
        let ran = std::process::Command::new(program).arg(place.path(file)).env("PATH", &path).output();
        let Ok(ran) = ran else {
            println!("{program} is not installed: {file} was not run");
            continue;
        };
        assert!(ran.status.success(), "{file}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let service = DevService::start(&place, &format!("--fixture {}", place.path("crm.json").display()));
    assert_eq!(service.get("/v1/contacts/c1").json()["data"]["customFields"]["tier"], "gold");
}
