//! A service, a directory, and a daemon in it.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::binary::{Ended, SECRET, Service, TestDir};
use crate::socket::{self, Events, PATIENCE, Reply};
use crate::support::truth;

/// The longest time that a stop may take, on which systemd and users rely.
pub const END: Duration = Duration::from_secs(5);

pub struct DaemonFixture {
    pub service: Service,
    pub place: TestDir,
}

impl DaemonFixture {
    /// A service and a directory for a daemon without a schedule.
    pub fn with(contacts: usize, companies: usize) -> DaemonFixture {
        let service = Service::with(contacts, companies);
        let place = TestDir::of(&service)
            .set("CRM_MIRROR_SYNC__SCHEDULE", "off")
            .set("CRM_MIRROR_SYNC__AUDIT_SCHEDULE", "off")
            .set("CRM_MIRROR_SYNC__SWEEP_SCHEDULE", "off")
            .set("CRM_MIRROR_BUDGET__LIMIT", "1000000000");
        DaemonFixture { service, place }
    }

    pub fn set(mut self, name: &str, value: &str) -> DaemonFixture {
        self.place = self.place.set(name, value);
        self
    }

    /// Queues an edit of a contact's position.
    #[track_caller]
    pub fn edit(&self, id: &str, position: &str) {
        self.place.run(&format!("edit contact {id} position={position}")).done();
    }

    /// Starts the daemon and waits until it is ready.
    pub fn start(&self) -> Daemon {
        let daemon = self.spawn(&["daemon"]);
        daemon.until_notified("READY=1");
        daemon
    }

    /// Starts the daemon with these arguments and does not wait.
    pub fn spawn(&self, args: &[&str]) -> Daemon {
        self.spawn_command(self.place.command(args))
    }

    pub fn spawn_command(&self, mut command: Command) -> Daemon {
        let notify_path = self.place.path("notify.sock");
        let _ = std::fs::remove_file(&notify_path);
        let notify = UnixDatagram::bind(&notify_path).unwrap();
        let (sender, notifications) = channel();
        // Received continuously, as systemd does: a full socket blocks the sender.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = notify.recv(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).trim_end().to_string()).is_err() {
                    return;
                }
            }
        });
        let mut child =
            command.env("NOTIFY_SOCKET", &notify_path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().unwrap(), log.clone());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = into.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Daemon { child, notifications, reader: Some(reader), log, socket: self.place.path("mirror.db.sock") }
    }

    pub fn conn(&self) -> rusqlite::Connection {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(self.place.path("mirror.db"), flags).unwrap()
    }

    /// The first column of every row as text.
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

    /// Requests that the service has received.
    pub fn requests(&self) -> usize {
        self.service.sandbox.log().len()
    }
}

/// A running daemon.
pub struct Daemon {
    pub child: Child,
    pub notifications: Receiver<String>,
    reader: Option<std::thread::JoinHandle<()>>,
    pub log: Arc<Mutex<String>>,
    pub socket: PathBuf,
}

impl Daemon {
    /// The next notification to systemd.
    pub fn next_notification(&self) -> String {
        let message = self.notifications.recv_timeout(PATIENCE);
        message.unwrap_or_else(|e| panic!("no notification ({e}); the log:\n{}", self.log()))
    }

    /// Reads notifications to systemd up to one that begins like this. Returns it and those before it.
    #[track_caller]
    pub fn until_notified(&self, beginning: &str) -> (String, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let message = self.next_notification();
            if message.starts_with(beginning) {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn until_logged(&self, part: &str) {
        socket::until(part, || self.log().contains(part).then_some(()));
    }

    /// Where the status page is, as the log says it.
    pub fn page(&self) -> String {
        socket::until("the status page", || {
            let log = self.log();
            Some(log.split_once("The status page is at http://")?.1.split('/').next()?.to_string())
        })
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

    /// Requests a job and waits for its end, which it returns.
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

    /// Waits for the end. Returns the exit code.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let status = socket::until("the end of the daemon", || self.child.try_wait().unwrap());
        // Its last lines may not have been read yet.
        self.reader.take().map(std::thread::JoinHandle::join);
        assert!(!self.log().contains(SECRET));
        status.code()
    }

    /// Stops the daemon and asserts that it ends in time.
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
        // A process that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a verb to its end.
pub fn verb(fixture: &DaemonFixture, line: &str) -> Ended {
    fixture.place.run(line)
}
