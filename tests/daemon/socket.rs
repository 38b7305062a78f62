//! The control socket as any program speaks to it: HTTP by hand, no client of ours.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    #[track_caller]
    pub fn with(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

fn sent(socket: &Path, method: &str, path: &str, accept: &str, body: &[u8]) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // HTTP/1.0: the answer ends with the connection, and a stream comes without chunks.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Whoever is sent too much may close before it has read all.
    let _ = stream.write_all(body);
    BufReader::new(stream)
}

fn head_of(stream: &mut BufReader<UnixStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "no answer: {head}");
    }
    head
}

/// Asks and reads the answer.
pub fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> Reply {
    let mut stream = sent(socket, method, path, "*/*", body);
    let head = head_of(&mut stream);
    let mut body = String::new();
    let _ = stream.read_to_string(&mut body);
    Reply { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head: head.to_lowercase(), body }
}

/// The stream of what happens.
pub struct Events {
    stream: BufReader<UnixStream>,
    pub head: String,
}

impl Events {
    pub fn listen(socket: &Path, accept: &str) -> Events {
        let mut stream = sent(socket, "GET", "/events", accept, b"");
        let head = head_of(&mut stream).to_lowercase();
        Events { stream, head }
    }

    /// The next line that is not empty; `None` at the end.
    pub fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if !line.trim().is_empty() {
                return Some(line.trim_end().to_string());
            }
        }
    }

    pub fn next(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Reads up to the event that `is` looks for; gives it and those before it.
    #[track_caller]
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        while let Some(event) = self.next() {
            if is(&event) {
                return (event, before);
            }
            before.push(event);
        }
        panic!("the stream ended after {before:#?}")
    }

    /// Reads up to the end of a job.
    #[track_caller]
    pub fn finished(&mut self, job: &Value) -> (Value, Vec<Value>) {
        self.until(|event| event["event"] == "finished" && event["job"] == *job)
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
