//! The status page: served only where configured, only to this machine, and never to other sites.

use std::collections::BTreeSet;
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crm_mirror::model::{Object, Resource};
use serde_json::{Value, json};

use crate::binary::{Going, Service, TestDir};

/// The exact content security policy of every answer.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A daemon that is ready, and the address of its page.
pub struct Daemon {
    pub going: Going,
    pub page: Option<SocketAddr>,
}

impl Daemon {
    /// Starts a daemon and waits until it is ready.
    pub fn start(place: &TestDir, args: &[&str]) -> Daemon {
        let mut going = Going::start(place.command(&[args, &["daemon"]].concat()));
        let page = page_before(&mut going, "The daemon is ready");
        Daemon { going, page }
    }

    pub fn page(&self) -> SocketAddr {
        self.page.unwrap()
    }

    fn ends_well(self) {
        self.going.signal("-TERM");
        let (code, rest) = self.going.end();
        assert_eq!(code, Some(0), "{rest}");
    }
}

/// Reads the log up to a line that contains `part`. Returns the logged address of the page.
fn page_before(going: &mut Going, part: &str) -> Option<SocketAddr> {
    let mut page = None;
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(going.err.read_line(&mut line).unwrap() > 0, "it ended without `{part}`");
        if let Some((_, at)) = line.split_once("The status page is at http://") {
            page = Some(at.trim().trim_end_matches('/').parse().unwrap());
        }
    }
    page
}

/// A directory whose daemon has no schedule and serves its page.
pub fn shown(service: &Service) -> TestDir {
    unscheduled(service).set("CRM_MIRROR_DAEMON__HTTP", "127.0.0.1:0")
}

fn unscheduled(service: &Service) -> TestDir {
    TestDir::of(service)
        .set("CRM_MIRROR_SYNC__SCHEDULE", "off")
        .set("CRM_MIRROR_SYNC__AUDIT_SCHEDULE", "off")
        .set("CRM_MIRROR_SYNC__SWEEP_SCHEDULE", "off")
}

/// An answer as received.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends the head of a request and reads the whole answer.
fn send(at: SocketAddr, lines: &[&str]) -> Answer {
    let mut stream = TcpStream::connect(at).unwrap();
    let head = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head: head.into(), body: body.into() }
}

fn get(at: SocketAddr, path: &str) -> Answer {
    send(at, &[&format!("GET {path} HTTP/1.1"), &format!("Host: {at}")])
}

/// The ports that a process listens on.
fn listens(pid: u32) -> BTreeSet<u16> {
    let mine: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.trim_end_matches(']').to_string())
        })
        .collect();
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        // Without IPv6 the second table does not exist.
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            // State 0A is LISTEN.
            if words[3] == "0A" && mine.contains(words[9]) {
                ports.insert(u16::from_str_radix(words[1].rsplit_once(':').unwrap().1, 16).unwrap());
            }
        }
    }
    ports
}

#[test]
fn page_is_not_served_by_default() {
    let service = Service::with(3, 1);
    let place = unscheduled(&service);
    let daemon = Daemon::start(&place, &[]);
    assert_eq!(daemon.page, None);
    assert_eq!(listens(daemon.going.child.id()), BTreeSet::new());
    daemon.ends_well();
    let place = place.set("CRM_MIRROR_DAEMON__HTTP", "127.0.0.1:0");
    let daemon = Daemon::start(&place, &[]);
    let page = daemon.page();
    assert!(page.ip().is_loopback());
    assert_eq!(listens(daemon.going.child.id()), BTreeSet::from([page.port()]));
    daemon.ends_well();
    assert!(TcpStream::connect(page).is_err(), "it ends with the daemon");
}

#[test]
fn every_answer_has_the_security_headers() {
    let service = Service::with(3, 1);
    let place = shown(&service);
    let daemon = Daemon::start(&place, &[]);
    let page = daemon.page();
    let script = "text/javascript; charset=utf-8";
    for (path, status, kind) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/page.css", 200, "text/css; charset=utf-8"),
        ("/page.js", 200, script),
        ("/text.js", 200, script),
        ("/words.js", 200, script),
        ("/icon.svg", 200, "image/svg+xml"),
        ("/status", 200, "application/json"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", 200, "application/json"),
        ("/readyz", 503, "application/json"),
        ("/sync", 404, "application/json"),
        ("/../page.js", 404, "application/json"),
    ] {
        let answer = get(page, path);
        assert_eq!((path, answer.status), (path, status));
        assert_eq!(answer.header("content-type"), [kind], "{path}");
        assert_headers(&answer);
    }
    let html = get(page, "/").body;
    for forbidden in ["http://", "https://", "<style", " style=", " onclick", "<script>"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    daemon.ends_well();
}

#[track_caller]
fn assert_headers(answer: &Answer) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), [value], "{}", answer.head);
    }
    assert!(answer.header("access-control-allow-origin").is_empty());
}

#[test]
fn other_host_names_sites_and_methods_are_refused() {
    let service = Service::with(3, 1);
    let place = shown(&service);
    let daemon = Daemon::start(&place, &[]);
    let page = daemon.page();
    let port = page.port();
    let ask = |line: &str, headers: &[&str]| {
        let answer = send(page, &[&[line], headers].concat());
        assert_headers(&answer);
        answer.status
    };
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
        assert_eq!(ask("GET /status HTTP/1.1", &[&format!("Host: {host}:{port}")]), 200);
    }
    let other = port.wrapping_add(1);
    for host in [
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("127.0.0.1:{other}"),
        "localhost".into(),
        String::new(),
    ] {
        for path in ["/", "/status", "/page.js"] {
            let status = ask(&format!("GET {path} HTTP/1.1"), &[&format!("Host: {host}")]);
            assert_eq!((path, host.as_str(), status), (path, host.as_str(), 403));
        }
    }
    let ours = format!("Host: 127.0.0.1:{port}");
    assert_eq!(ask("GET /status HTTP/1.1", &[&ours, "Sec-Fetch-Site: cross-site"]), 403);
    assert_eq!(ask("GET /status HTTP/1.1", &[&ours, "Sec-Fetch-Site: same-origin"]), 200);
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
        for path in ["/", "/status", "/sync", "/pause"] {
            let answer = send(page, &[&format!("{method} {path} HTTP/1.1"), &ours]);
            assert_eq!((method, path, answer.status), (method, path, 405));
            assert_eq!(answer.header("allow"), ["GET, HEAD"]);
            assert_headers(&answer);
        }
    }
    let daemon_status = &get(page, "/status").json()["daemon"];
    assert_eq!((&daemon_status["paused_since"], &daemon_status["running"]), (&Value::Null, &Value::Null));
    assert_eq!(daemon_status["waiting"], json!([]));
    assert_eq!(service.sandbox.log().len(), 0, "the service received no request");
    daemon.ends_well();
}

#[test]
fn page_shows_no_values_of_records() {
    let service = Service::with(120, 10);
    let place = shown(&service);
    let daemon = Daemon::start(&place, &[]);
    let page = daemon.page();
    place.run("sync").done();
    service.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        assert!(world.edit(Object::Contact, &id, &json!({"position": "Quuxmaster"})));
    });
    place.run("sync").done();

    let status = get(page, "/status");
    assert!(!status.body.contains("Quuxmaster"), "{}", status.body);
    assert_eq!(place.ask("SELECT count(*) FROM contacts WHERE position = 'Quuxmaster'"), "1");
    // The page has the same document as the control socket, which `status` prints.
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let (status, mut printed) = (status.json(), place.run("status --json").done().json());
    // Only a process beside the daemon can determine this.
    assert!(printed.as_object_mut().unwrap().remove("daemon_state").is_some());
    assert_eq!(keys(&status), keys(&printed));
    for key in ["objects", "ru", "runs", "base_url"] {
        assert_eq!(status[key], printed[key]);
    }
    assert_eq!(status["daemon"]["pid"], daemon.going.child.id());

    let runs = status["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let spent: u64 = runs.iter().map(|run| run["ru"].as_u64().unwrap()).sum();
    assert_eq!(status["ru"]["used"], spent);
    daemon.ends_well();
}

#[test]
fn port_in_use_does_not_stop_mirroring_and_is_retried() {
    let service = Service::with(3, 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let place = unscheduled(&service).set("CRM_MIRROR_DAEMON__HTTP", &at.to_string());
    let mut daemon = Daemon::start(&place, &[]);
    assert_eq!(daemon.page, None);
    place.run("sync").done();
    drop(taken);
    assert_eq!(page_before(&mut daemon.going, "The status page is at"), Some(at));
    assert_eq!(get(at, "/").status, 200);
    daemon.ends_well();
}

#[test]
fn page_address_beyond_loopback_exits_with_78() {
    let service = Service::with(3, 1);
    let ended = unscheduled(&service).set("CRM_MIRROR_DAEMON__HTTP", "0.0.0.0:8787").run("daemon").code(78);
    assert!(ended.err.contains("0.0.0.0:8787, which other machines could reach"), "{}", ended.err);
}
