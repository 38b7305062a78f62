//! Tools of the cases: a client, hand-made worlds, and a report that lists every failure of a run.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use crm_mirror::model::{Instant, Object};
use crm_mirror::sandbox::{Sandbox, SandboxServer, World, generate};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::support::clock::ManualClock;

pub type Outcome = Result<(), String>;

/// Fails the case unless the condition is true.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition { return Err(format!($($why)+)); }
    };
}

#[expect(clippy::needless_pass_by_value, reason = "cases read better without ampersands")]
pub fn same<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Outcome {
    ensure!(got == wanted, "{what}: got {got:?}, wanted {wanted:?}");
    Ok(())
}

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn rows(&self) -> &[Value] {
        self.json["data"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn ids(&self) -> Vec<String> {
        self.rows().iter().map(|row| text(&row["id"])).collect()
    }

    /// The values of one field in the order of the rows.
    pub fn column(&self, field: &str) -> Vec<Value> {
        self.rows().iter().map(|row| row[field].clone()).collect()
    }

    pub fn next(&self) -> Option<String> {
        self.json["nextCursor"].as_str().map(String::from)
    }

    pub fn must(self, status: u16) -> Result<Answer, String> {
        ensure!(
            self.status == status,
            "got {} instead of {status}: {}",
            self.status,
            self.text.chars().take(300).collect::<String>()
        );
        Ok(self)
    }

    /// Asserts an error envelope of this status (reference, *Errors*).
    pub fn refused(self, status: u16) -> Result<Answer, String> {
        let answer = self.must(status)?;
        let json = &answer.json;
        ensure!(json["error"].is_string(), "no `error` in {json}");
        ensure!(json["message"].is_string(), "no `message` in {json}");
        same("code", json["code"].as_u64(), Some(u64::from(status)))?;
        let details = &json["details"];
        let listed = |d: &Value| d["field"].is_string() && d["message"].is_string();
        let fits = details.is_null()
            || details.is_string()
            || details.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(listed));
        ensure!(fits, "odd `details` in {json}");
        Ok(answer)
    }

    pub fn has_complaint_about(&self, field: &str) -> bool {
        let details = self.json["details"].as_array();
        details.is_some_and(|all| all.iter().any(|d| d["field"] == field))
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// A service under test and a key for it.
pub struct Crm {
    pub base: String,
    pub key: String,
    pub clock: ManualClock,
    client: reqwest::Client,
    running: Option<SandboxServer>,
}

/// The time at which hand-made worlds begin.
pub const NOON: &str = "2026-03-01T12:00:00Z";

pub fn at(text: &str) -> Instant {
    text.parse().unwrap()
}

pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_gzip().build().unwrap()
}

impl Crm {
    /// A remote service.
    pub fn remote(base: &str, key: &str) -> Crm {
        Crm {
            base: base.trim_end_matches('/').to_string(),
            key: key.to_string(),
            clock: ManualClock::at(at(NOON)),
            client: client(),
            running: None,
        }
    }

    /// A sandbox in this process with this world.
    pub async fn of(world: World) -> Crm {
        let clock = ManualClock::at(world.now);
        let sandbox = Sandbox::new(world, Arc::new(clock.clone()));
        let running = sandbox.start(0).await.unwrap();
        Crm { base: running.base_url.clone(), key: sandbox.full_key(), clock, client: client(), running: Some(running) }
    }

    /// A sandbox with a generated workspace.
    pub async fn generated() -> Crm {
        Crm::of(generate(11, 260, 70, at(NOON))).await
    }

    /// A sandbox with a hand-made world.
    pub async fn with(make: impl FnOnce(&mut World)) -> Crm {
        let mut world = World::new(at(NOON));
        make(&mut world);
        Crm::of(world).await
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.running.as_ref().expect("a case for sandboxes only").sandbox
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, String> {
        let response = request.send().await.map_err(|e| format!("no answer: {e}"))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.map_err(|e| format!("no whole answer: {e}"))?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, json })
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get_as(&self, key: &str, path: &str) -> Result<Answer, String> {
        self.send(self.request("GET", path).bearer_auth(key)).await
    }

    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.get_as(&self.key, path).await
    }

    /// A page of a list, from a cursor if given.
    pub async fn page(&self, path: &str, cursor: Option<&str>) -> Result<Answer, String> {
        match cursor {
            None => self.get(path).await,
            Some(cursor) => {
                let cursor = encoded(cursor);
                self.get(&format!("{path}{}cursor={cursor}", if path.contains('?') { '&' } else { '?' })).await
            }
        }
    }

    /// Every page of a list.
    pub async fn pages(&self, path: &str) -> Result<Vec<Answer>, String> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = self.page(path, cursor.as_deref()).await?.must(200)?;
            cursor = page.next();
            pages.push(page);
            ensure!(pages.len() < 10_000, "the list does not end");
            if cursor.is_none() {
                return Ok(pages);
            }
        }
    }

    /// The ids of a whole list, in order.
    pub async fn all(&self, path: &str) -> Result<Vec<String>, String> {
        Ok(self.pages(path).await?.iter().flat_map(Answer::ids).collect())
    }

    pub async fn patch(&self, object: Object, id: &str, edit: Edit<'_>) -> Result<Answer, String> {
        let path = format!("{}/{}", object.resource().path(), encoded(id));
        let mut request = self
            .request("PATCH", &path)
            .bearer_auth(edit.as_key.unwrap_or(&self.key))
            .header("content-type", "application/json")
            .body(edit.body.to_string());
        if let Some(etag) = edit.if_match {
            request = request.header("if-match", etag);
        }
        if let Some(key) = edit.key {
            request = request.header("idempotency-key", key);
        }
        self.send(request).await
    }
}

/// One PATCH.
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    pub body: Value,
    pub if_match: Option<&'a str>,
    pub key: Option<&'a str>,
    pub as_key: Option<&'a str>,
}

pub fn edit<'a>(body: Value, if_match: &'a str, key: &'a str) -> Edit<'a> {
    Edit { body, if_match: Some(if_match), key: Some(key), as_key: None }
}

pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The cases that ran, and their failures.
#[derive(Default)]
pub struct Report {
    pub ran: Vec<String>,
    pub skipped: Vec<String>,
    pub failed: Vec<String>,
    /// Whether the service is remote; hand-made worlds do not apply to it.
    pub remote: bool,
}

impl Report {
    /// A case for any service.
    pub async fn any(&mut self, name: &str, case: impl Future<Output = Outcome>) {
        let outcome = case.await;
        let twice = self.ran.iter().any(|ran| ran == name);
        if twice {
            self.failed.push(format!("{name}: there are two cases of this name"));
        }
        self.ran.push(name.to_string());
        if let Err(why) = outcome {
            self.failed.push(format!("{name}: {why}"));
        }
    }

    /// Whether a group of cases that share a hand-made world can run; reports the group as skipped if not.
    pub fn hand_made(&mut self, group: &str) -> bool {
        if self.remote {
            self.skipped.push(format!("all of: {group}"));
        }
        !self.remote
    }

    /// A case that needs its own world, key or fault.
    pub async fn local(&mut self, name: &str, case: impl Future<Output = Outcome>) {
        if self.remote {
            self.skipped.push(name.to_string());
        } else {
            self.any(name, case).await;
        }
    }
}
