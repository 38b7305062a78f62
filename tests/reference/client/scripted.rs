//! A service with scripted answers, byte for byte, which records its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crm_mirror::api::admission::{Admission, AdmissionError, Attempt, AttemptOutcome, Meter, MeterFuture};
use crm_mirror::api::{ApiKey, Client, ClientSettings};
use crm_mirror::model::{Clock, Instant, RequestRegister, Ru};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::clock::ManualClock;

/// The key of every test.
pub const KEY: &str = "svc_v1_very-secret";

/// One scripted answer.
pub enum Say {
    /// These bytes, then the connection is closed.
    Bytes(Vec<u8>),
    /// No byte: the connection is closed at once.
    Close,
    /// No byte, for as long as the client waits.
    Silence,
}

/// A complete answer with a JSON body.
pub fn answer(status: &str, headers: &str, body: &str) -> Say {
    packed(status, headers, body.as_bytes())
}

/// A complete answer with any body.
pub fn packed(status: &str, headers: &str, body: &[u8]) -> Say {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    Say::Bytes(bytes)
}

/// An empty last page.
pub fn page() -> Say {
    answer("200 OK", "", r#"{"data":[],"nextCursor":null}"#)
}

/// A meter that records its calls and refuses when its allowance is spent.
#[derive(Default)]
pub struct Book {
    pub admitted: Mutex<Vec<Attempt>>,
    pub settled: Mutex<Vec<AttemptOutcome>>,
    pub holds: Mutex<Vec<Option<Duration>>>,
    pub allowance: Mutex<Option<usize>>,
}

impl Meter for Book {
    fn admit(&self, attempt: Attempt) -> MeterFuture<'_, Result<Admission, AdmissionError>> {
        let mut admitted = self.admitted.lock().unwrap();
        let spent = self.allowance.lock().unwrap().is_some_and(|most| admitted.len() >= most);
        if !spent {
            admitted.push(attempt);
        }
        let refused = AdmissionError::Budget { left: Ru::ZERO, refills_at: Instant::EPOCH };
        Box::pin(std::future::ready(if spent {
            Err(refused)
        } else {
            Ok(Admission { attempt, order: RequestRegister::default().begin() })
        }))
    }

    fn settle(&self, _: Admission, outcome: AttemptOutcome) -> MeterFuture<'_, ()> {
        self.settled.lock().unwrap().push(outcome);
        Box::pin(std::future::ready(()))
    }

    fn hold(&self, requested: Option<Duration>) -> MeterFuture<'_, ()> {
        self.holds.lock().unwrap().push(requested);
        Box::pin(std::future::ready(()))
    }
}

/// The service, a client of it, and the records of both.
pub struct Scene {
    pub client: Client,
    pub book: Arc<Book>,
    pub clock: ManualClock,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    /// Starts a service that gives these answers, one per connection.
    pub async fn of(script: Vec<Say>) -> Scene {
        Scene::with(script, |_| {}).await
    }

    /// The same with other settings.
    pub async fn with(script: Vec<Say>, change: impl FnOnce(&mut ClientSettings)) -> Scene {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, script, requests.clone()));
        let mut settings = ClientSettings::new(base_url.parse().unwrap());
        change(&mut settings);
        let clock = ManualClock::at("2026-01-02T03:04:05Z".parse().unwrap());
        let book = Arc::new(Book::default());
        let key = ApiKey::new(KEY).unwrap();
        let client = Client::new(settings, key, Arc::new(clock.clone()), book.clone()).unwrap();
        Scene { client, book, clock, requests }
    }

    /// The requests in order of arrival, with lower-case heads.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The first lines of the requests.
    pub fn first_lines(&self) -> Vec<String> {
        let line = |request: &String| request.lines().next().unwrap().to_string();
        self.requests().iter().map(line).collect()
    }

    /// The outcome of every attempt.
    pub fn outcomes(&self) -> Vec<AttemptOutcome> {
        self.book.settled.lock().unwrap().clone()
    }

    /// The waits that answers requested.
    pub fn holds(&self) -> Vec<Option<Duration>> {
        self.book.holds.lock().unwrap().clone()
    }

    /// How far waiting moved the clock.
    pub fn waited(&self) -> Duration {
        self.clock.now().since("2026-01-02T03:04:05Z".parse().unwrap())
    }
}

async fn serve(listener: TcpListener, script: Vec<Say>, requests: Arc<Mutex<Vec<String>>>) {
    let mut silent = Vec::new();
    for say in script {
        let Ok((mut stream, _)) = listener.accept().await else {
            return;
        };
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !whole(&request) {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => request.extend_from_slice(&piece[..n]),
            }
        }
        requests.lock().unwrap().push(String::from_utf8(request).unwrap());
        match say {
            Say::Bytes(bytes) => {
                // A client that refuses a body stops reading it.
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            }
            Say::Close => {}
            Say::Silence => silent.push(stream),
        }
    }
    std::future::pending::<()>().await;
}

/// Whether a request is complete: its head, and the body of the length that the head announces.
fn whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse::<usize>()));
    length.is_none_or(|length| body.len() >= length.unwrap())
}
