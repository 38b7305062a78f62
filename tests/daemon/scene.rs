//! A service, a folder, and the program's daemon in it.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::binary::{Ended, Place, SECRET, Service};
use crate::socket::{self, Events, PATIENCE, Reply};
use crate::support::truth;

/// The longest that an end may take: what systemd and people count on.
pub const END: Duration = Duration::from_secs(5);

pub struct Scene {
    pub service: Service,
    pub place: Place,
}

impl Scene {
    /// A service, and a daemon's folder in which nothing runs by the clock.
    pub fn with(contacts: usize, companies: usize) -> Scene {
        let service = Service::with(contacts, companies);
        service.sandbox.configure(|settings| settings.gzip = false);
        let place = Place::of(&service)
            .set("CRM_MIRROR_SYNC__SCHEDULE", "off")
            .set("CRM_MIRROR_SYNC__AUDIT_SCHEDULE", "off")
            .set("CRM_MIRROR_SYNC__SWEEP_SCHEDULE", "off")
            .set("CRM_MIRROR_SYNC__JITTER", "0s")
            .set("CRM_MIRROR_BUDGET__LIMIT", "1000000000");
        Scene { service, place }
    }

    pub fn set(mut self, name: &str, value: &str) -> Scene {
        self.place = self.place.set(name, value);
        self
    }

    /// Starts the daemon and waits until it is ready.
    pub fn start(&self) -> Daemon {
        let daemon = self.spawn(&["daemon"]);
        daemon.until_told("READY=1");
        daemon
    }

    /// Starts it with these arguments and waits for nothing.
    pub fn spawn(&self, args: &[&str]) -> Daemon {
        self.spawn_command(self.place.command(args))
    }

    pub fn spawn_command(&self, mut command: Command) -> Daemon {
        let told_at = self.place.path("notify.sock");
        let _ = std::fs::remove_file(&told_at);
        let told = UnixDatagram::bind(&told_at).unwrap();
        let (heard, told_to) = channel();
        // Read as it comes, as systemd does: whoever tells waits where nobody listens.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = told.recv(&mut buffer) {
                if heard.send(String::from_utf8_lossy(&buffer[..length]).trim_end().to_string()).is_err() {
                    return;
                }
            }
        });
        let mut child =
            command.env("NOTIFY_SOCKET", &told_at).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().unwrap(), log.clone());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = into.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Daemon { child, told: told_to, reader: Some(reader), log, socket: self.place.path("mirror.db.sock") }
    }

    pub fn conn(&self) -> rusqlite::Connection {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(self.place.path("mirror.db"), flags).unwrap()
    }

    /// The first column of every row, as text.
    pub fn column(&self, sql: &str) -> Vec<String> {
        let conn = self.conn();
        let mut stmt = conn.prepare(sql).unwrap();
        let rows = stmt.query_map([], |row| row.get::<_, rusqlite::types::Value>(0));
        rows.unwrap()
            .map(|value| match value.unwrap() {
                rusqlite::types::Value::Text(text) => text,
                other => truth::shown(other),
            })
            .collect()
    }

    #[track_caller]
    pub fn assert_consistent(&self) {
        assert_eq!(self.column("PRAGMA integrity_check"), ["ok"]);
    }

    #[track_caller]
    pub fn assert_exact(&self) {
        let differences = truth::differences(&self.conn(), &self.service.sandbox, true);
        let first = &differences[..differences.len().min(12)];
        assert!(differences.is_empty(), "{}", first.join("\n"));
    }

    /// Requests that the service has seen.
    pub fn requests(&self) -> usize {
        self.service.sandbox.log().len()
    }
}

/// The program's daemon.
pub struct Daemon {
    pub child: Child,
    pub told: Receiver<String>,
    reader: Option<std::thread::JoinHandle<()>>,
    pub log: Arc<Mutex<String>>,
    pub socket: PathBuf,
}

impl Daemon {
    /// The next thing that systemd is told.
    pub fn next_told(&self) -> String {
        let told = self.told.recv_timeout(PATIENCE);
        told.unwrap_or_else(|e| panic!("nothing was told ({e}); the log:\n{}", self.log()))
    }

    /// Reads what systemd is told up to a line that begins so; gives it and those before it.
    #[track_caller]
    pub fn until_told(&self, beginning: &str) -> (String, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let told = self.next_told();
            if told.starts_with(beginning) {
                return (told, before);
            }
            before.push(told);
        }
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn until_logged(&self, part: &str) {
        socket::until(part, || self.log().contains(part).then_some(()));
    }

    pub fn get(&self, path: &str) -> Reply {
        socket::ask(&self.socket, "GET", path, b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        socket::ask(&self.socket, "POST", path, body.to_string().as_bytes())
    }

    pub fn events(&self) -> Events {
        Events::listen(&self.socket, "*/*")
    }

    pub fn status(&self) -> Value {
        self.get("/status").with(200).json()
    }

    /// Asks for a job and waits for its end; gives that.
    #[track_caller]
    pub fn job(&self, path: &str, body: &Value) -> Value {
        let mut events = self.events();
        let accepted = self.post(path, body).with(202).json();
        events.finished(&accepted["job"]).0
    }

    #[track_caller]
    pub fn sync(&self) {
        let ended = self.job("/sync", &json!({}));
        assert_eq!(ended["exit"], 0, "{ended}");
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end; gives the code.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let status = socket::until("the end of the daemon", || self.child.try_wait().unwrap());
        // Its last words may still be on their way.
        self.reader.take().map(std::thread::JoinHandle::join);
        assert!(!self.log().contains(SECRET));
        status.code()
    }

    /// Asks it to end, and holds it to its word.
    #[track_caller]
    pub fn stop(mut self) -> String {
        let began = Instant::now();
        self.signal("-TERM");
        let code = self.end();
        let took = began.elapsed();
        assert_eq!(code, Some(0), "{}", self.log());
        assert!(took < END, "it took {took:?}\n{}", self.log());
        self.log()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a verb to its end.
pub fn verb(scene: &Scene, line: &str) -> Ended {
    scene.place.run(line)
}
