//! The status page in a real browser: it shows the current state, live, and keeps its content security policy.
//!
//! `tests/page/run` runs this if Chromium is installed; `SCREENSHOTS` names a directory for screenshots.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{Going, Service, TestDir};
use crate::page::{Daemon, shown};

/// An id that would become an element if it were taken for markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Chromium, controlled over a pair of pipes; dropping this ends it.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    asked: u64,
    /// Errors of the pages: exceptions, policy violations, console errors.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads file descriptor 3 and writes file descriptor 4.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1")
            .arg("sh")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Browser {
            to: child.stdin.take().unwrap(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            asked: 0,
            complaints: Vec::new(),
            _profile: profile,
        }
    }

    /// Sends a command to the browser and waits for its result.
    fn ask(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut question = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = session {
            question["sessionId"] = session.into();
        }
        write!(self.to, "{question}\0").unwrap();
        loop {
            let mut bytes = Vec::new();
            assert!(self.from.read_until(0, &mut bytes).unwrap() > 0, "Chromium ended by itself");
            let message: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
            if message["id"] == self.asked {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].clone();
            }
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                    self.complaints.push(message["params"].to_string())
                }
                Some("Runtime.consoleAPICalled") => self.complaints.push(message["params"]["args"].to_string()),
                _ => {}
            }
        }
    }

    /// Opens an address in a window of this width, with this color scheme.
    fn open(&mut self, url: &str, width: u32, scheme: &str) -> Window<'_> {
        let target = self.ask(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.ask(None, "Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_string();
        let mut window = Window { browser: self, session };
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            window.ask(domain, &json!({}));
        }
        window.ask(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}),
        );
        window.ask(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        window.ask("Page.navigate", &json!({"url": url}));
        window
    }

    fn end(mut self) -> Vec<String> {
        self.ask(None, "Browser.close", &json!({}));
        self.child.wait().unwrap();
        std::mem::take(&mut self.complaints)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // After a clean exit there is no process to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser window.
struct Window<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Window<'_> {
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let session = self.session.clone();
        self.browser.ask(Some(&session), method, params)
    }

    /// The value of an expression, with promises awaited.
    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn until(&mut self, expression: &str) {
        let waits = format!(
            "new Promise((done, late) => {{
                 const since = Date.now();
                 const poll = () => {{
                     if ({expression}) done(true);
                     else if (Date.now() - since > 60000) late(new Error('it never held'));
                     else setTimeout(poll, 20);
                 }};
                 poll();
             }})"
        );
        assert_eq!(self.value(&waits), true, "{expression}");
    }

    fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({}).textContent", json!(selector)));
        text.as_str().unwrap().to_string()
    }

    /// Saves a screenshot of the whole page if `SCREENSHOTS` is set.
    fn picture(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("SCREENSHOTS") else {
            return;
        };
        let asked = json!({"captureBeyondViewport": true, "format": "png"});
        let taken = self.ask("Page.captureScreenshot", &asked);
        std::fs::write(Path::new(&dir).join(name), base64(taken["data"].as_str().unwrap())).unwrap();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = (bits << 6 | u32::from(six)) & 0xfff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}

/// A daemon after its first copy and a run with changes.
fn with_a_past(service: &Service) -> (TestDir, Daemon) {
    let place = shown(service);
    let daemon = Daemon::start(&place, &[]);
    place.run("sync").done();
    service.sandbox.with_world(|world| {
        for (place, id) in world.ids(Resource::Contacts).into_iter().take(9).enumerate() {
            let change = json!({"position": format!("Position {place}"), "email": format!("p{place}@example.com")});
            assert!(world.edit(Object::Contact, &id, &change));
        }
    });
    place.run("sync").done();
    (place, daemon)
}

#[test]
#[ignore = "needs Chromium: tests/page/run"]
fn page_shows_the_current_state_and_keeps_its_policy() {
    let service = Service::with(260, 40);
    let (place, daemon) = with_a_past(&service);
    let url = format!("http://{}/", daemon.page());
    let mut browser = Browser::start();

    let mut window = browser.open(&url, 1200, "light");
    window.until("document.body?.dataset.read");
    let used = place.run("status --json").done().json()["ru"]["used"].as_u64().unwrap();
    assert_eq!(window.text("#fresh tbody tr:nth-child(1) td:nth-child(2)"), "260");
    assert_eq!(window.text("#fresh tbody tr:nth-child(2) td:nth-child(2)"), "40");
    assert_eq!(window.text("#ru strong").replace(',', ""), (10_000 - used).to_string());
    assert_eq!(window.text("#now"), "Up to date; nothing is scheduled");
    assert_eq!(window.value("document.querySelectorAll('#runs tbody .tone-done').length"), 2);
    window.picture("wide-light.png");

    // Live: new data appears without interaction.
    service.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": HOSTILE, "firstName": "Ada"}));
    });
    place.run("sync").done();
    window.until("document.querySelector('#fresh tbody td').textContent === '261'");
    place.run("pause").done();
    window.until("document.querySelector('#notices').textContent.includes('The schedule has been paused since')");
    place.run("resume").done();
    window.until("document.querySelector('#now').textContent.startsWith('Up to date')");
    window.until("document.querySelectorAll('#notices p').length === 0");

    for (name, width, scheme) in
        [("wide-dark.png", 1200, "dark"), ("narrow-light.png", 380, "light"), ("narrow-dark.png", 380, "dark")]
    {
        let mut window = browser.open(&url, width, scheme);
        window.until("document.body?.dataset.read");
        assert_eq!(window.value("document.documentElement.scrollWidth"), width, "nothing sticks out");
        window.picture(name);
    }
    assert_eq!(browser.complaints, Vec::<String>::new());

    let mut window = browser.open(&url, 800, "light");
    window.until("document.body?.dataset.read");
    assert_eq!(window.value("document.querySelectorAll('img').length"), 0, "no text is treated as markup");

    // The daemon stops: the page reports it and keeps the last known state.
    daemon.going.signal("-TERM");
    let (code, _) = daemon.going.end();
    assert_eq!(code, Some(0));
    window.until("document.querySelector('#notices').textContent.includes('The daemon does not answer')");
    assert_eq!(window.text("#fresh tbody td"), "261");
    window.picture("unreachable.png");

    // Without a daemon requests fail and the browser reports that; there must be no other error.
    let complaints = browser.end();
    assert!(complaints.iter().all(|error| error.contains("net::ERR_")), "{complaints:#?}");
}

#[test]
#[ignore = "needs Chromium: tests/page/run"]
fn page_of_an_empty_mirror_a_first_copy_edits_and_publishing_is_true() {
    let service = Service::with(900, 5);
    let place = shown(&service)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_SYNC__DETAILS", "off")
        .set("CRM_MIRROR_API__CONCURRENCY", "1")
        .set("CRM_MIRROR_PUBLISH__URL", "postgres://u:p@127.0.0.1:1/d");
    let daemon = Daemon::start(&place, &[]);
    let url = format!("http://{}/", daemon.page());
    let mut browser = Browser::start();

    // Without data no bar is full, and nothing is up to date.
    for (name, width, scheme) in [
        ("empty-light.png", 1200, "light"),
        ("empty-dark.png", 1200, "dark"),
        ("empty-narrow-light.png", 375, "light"),
        ("empty-narrow-dark.png", 375, "dark"),
    ] {
        let mut window = browser.open(&url, width, scheme);
        window.until("document.body?.dataset.read");
        assert_eq!(window.text("#now"), "Nothing is copied yet");
        assert_eq!(window.text("#fresh tbody td.wide"), "not copied yet");
        assert_eq!(window.value("document.querySelectorAll('.meter').length"), 0);
        assert_eq!(window.value("document.querySelector('#no-runs').hidden"), false);
        assert_eq!(window.value("document.querySelector('#all-runs').hidden"), true);
        assert_eq!(window.value("document.querySelector('#edits').hidden"), true);
        assert_eq!(window.value("document.querySelector('#publish').hidden"), false);
        assert_eq!(window.value("document.documentElement.scrollWidth"), width, "nothing sticks out");
        window.picture(name);
    }

    let mut window = browser.open(&url, 1200, "light");
    window.until("document.body?.dataset.read");
    service.sandbox.faults().add(
        Rule::new(Fault::Slow(std::time::Duration::from_millis(500), std::time::Duration::from_millis(500))).forever(),
    );
    let sync = Going::start(place.command(&["sync"]));
    // Stored data is shown at the next refresh, ten seconds later at most.
    window.until("document.querySelector('#fresh tbody')?.textContent.includes('first copy: ')");
    assert!(window.text("#now").starts_with("Sync running: first copy of contacts"), "{}", window.text("#now"));
    window.picture("first-copy.png");
    service.sandbox.faults().clear();
    assert_eq!(sync.end().0, Some(0));
    window.until("document.querySelector('#now').textContent.startsWith('Up to date')");
    assert!(!window.text("#fresh tbody").contains("first copy"));

    place.run("pause").done();
    let id = service.sandbox.with_world(|world| world.ids(Resource::Contacts)[0].clone());
    place.run(&format!("edit contact {id} position=Director")).done();
    for (name, width, scheme) in [("edits-light.png", 1200, "light"), ("edits-narrow-dark.png", 375, "dark")] {
        let mut window = browser.open(&url, width, scheme);
        window.until("document.body?.dataset.read");
        assert!(window.text("#edit-states").starts_with("1 queued; the oldest was created "));
        assert_eq!(window.value("document.documentElement.scrollWidth"), width, "nothing sticks out");
        window.until("document.querySelector('#publish-state').textContent.includes(' failed attempts since: ')");
        assert!(window.text("#publish-state").starts_with("Never published as a whole; last published never"));
        window.picture(name);
    }
    assert_eq!(browser.end(), Vec::<String>::new());
    daemon.going.signal("-TERM");
    assert_eq!(daemon.going.end().0, Some(0));
}
