//! The control socket, used without the project's client: hand-written HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest wait for anything: longer than the program waits for a locked database.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
    // With HTTP/1.0 the answer ends with the connection, and a stream is not chunked.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server may close before it has read a body that is too large.
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

/// Sends a request and reads the answer.
pub fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> Reply {
    let mut stream = sent(socket, method, path, "*/*", body);
    let head = head_of(&mut stream);
    let mut body = String::new();
    let _ = stream.read_to_string(&mut body);
    Reply { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head: head.to_lowercase(), body }
}

/// Reads from the status page at an address.
pub fn ask_page(at: &str, path: &str) -> Reply {
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {at}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Reply { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head: head.to_lowercase(), body: body.into() }
}

/// The event stream.
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

    /// The next line that is not empty, or `None` at the end.
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

    /// Reads up to the event that satisfies `is`. Returns it and those before it.
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

/// Polls until there is a value.
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
