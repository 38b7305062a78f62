//! The status page in a real browser: that it shows what is so, live, and that nothing on it breaks its own policy.
//!
//! `tests/page/run` runs this, where Chromium is; `SCREENSHOTS` names a folder for pictures.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crm_mirror::model::{Object, Resource};
use serde_json::{Value, json};

use crate::binary::{Place, Service};
use crate::page::{Daemon, shown};

/// An id that would be an element, were it taken for markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Chromium, spoken to over a pair of pipes; it ends with this.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    asked: u64,
    /// What went wrong on the pages: exceptions, refusals of the policy, errors on the console.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads its third file and writes its fourth.
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

    /// Asks the browser for something and waits for its answer.
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
            let told: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
            if told["id"] == self.asked {
                assert_eq!(told["error"], Value::Null, "{method}");
                return told["result"].clone();
            }
            match told["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => self.complaints.push(told["params"].to_string()),
                Some("Runtime.consoleAPICalled") => self.complaints.push(told["params"]["args"].to_string()),
                _ => {}
            }
        }
    }

    /// Opens an address in a window of a width, light or dark.
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
        // One that ended well is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One window.
struct Window<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Window<'_> {
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let session = self.session.clone();
        self.browser.ask(Some(&session), method, params)
    }

    /// The value of an expression, or what its promise comes to.
    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression holds.
    fn until(&mut self, expression: &str) {
        let waits = format!(
            "new Promise((done, late) => {{
                 const since = Date.now();
                 const look = () => {{
                     if ({expression}) done(true);
                     else if (Date.now() - since > 60000) late(new Error('it never held'));
                     else setTimeout(look, 20);
                 }};
                 look();
             }})"
        );
        assert_eq!(self.value(&waits), true, "{expression}");
    }

    fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({}).textContent", json!(selector)));
        text.as_str().unwrap().to_string()
    }

    /// Keeps a picture of all of it, where pictures are wanted.
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

/// A daemon that has made its first copy and seen changes.
fn with_a_past(service: &Service) -> (Place, Daemon) {
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
fn the_page_shows_what_is_so_and_keeps_to_its_policy() {
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
    assert_eq!(window.text("#now"), "Up to date; waiting to be asked");
    assert_eq!(window.value("document.querySelectorAll('#strip g.run.done').length"), 2);
    assert_eq!(window.value("document.querySelectorAll('#changes tbody tr').length"), 9);
    assert!(window.text("#changes tbody tr td:nth-child(4)").contains("position"));
    assert!(window.text("#spent svg .value").starts_with(&used.to_string()[..1]));
    assert_eq!(window.value("document.querySelectorAll('#windows .bar').length"), 7);
    window.picture("wide-light.png");

    // Live: what is new appears without anybody's doing.
    service.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": HOSTILE, "firstName": "Ada"}));
    });
    place.run("sync").done();
    window.until("document.querySelector('#fresh tbody td').textContent === '261'");
    place.run("pause").done();
    window.until("document.querySelector('#notices').textContent.includes('The schedule rests since')");
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

    // A text of the mirror is a text, whatever it looks like.
    let mut window = browser.open(&url, 800, "light");
    window.until("document.body?.dataset.read");
    assert_eq!(window.text("#changes tbody code"), HOSTILE);
    assert_eq!(window.value("document.querySelectorAll('img').length"), 0);

    // The daemon goes: the page says so, and keeps what it knows.
    daemon.going.signal("-TERM");
    let (code, _) = daemon.going.end();
    assert_eq!(code, Some(0));
    window.until("document.querySelector('#notices').textContent.includes('The daemon does not answer')");
    assert_eq!(window.text("#fresh tbody td"), "261");
    window.picture("silent.png");

    // Without a daemon requests fail, which the browser itself notes; nothing else may go wrong.
    let complaints = browser.end();
    assert!(complaints.iter().all(|told| told.contains("net::ERR_")), "{complaints:#?}");
}
