//! A PostgreSQL server for the tests: in a temporary directory, on a Unix socket, stopped after the last test that uses
//! it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crm_mirror::model::Instant;
use crm_mirror::publish::{Check, PublishError, PublishReport, PublishSettings, PublishUrl, publish};
use secrecy::SecretString;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::support::Mirror;

/// One server for all tests that run at the same time.
static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static DATABASES: AtomicU64 = AtomicU64::new(0);

pub struct Server {
    process: Child,
    port: u16,
    pub dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate shutdown: nothing is kept.
        let _ = Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// The directory of the server's programs.
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

/// A command that root runs as another user, because the server refuses to run as root.
pub fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

/// A temporary directory of the server's user.
pub fn private_dir() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    if is_root() {
        assert!(Command::new("chown").arg("postgres").arg(dir.path()).status().unwrap().success());
    }
    dir
}

pub fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/")
}

impl Server {
    pub fn start() -> Option<Server> {
        Server::start_with(5432, &["listen_addresses="], |_| Some(()))
    }

    /// A server that also listens on `localhost`, for encrypted connections only. `prepare` makes `server.key` and
    /// `server.crt` in its folder.
    pub fn start_encrypted(port: u16, prepare: impl FnOnce(&Path) -> Option<()>) -> Option<Server> {
        let settings =
            ["listen_addresses=localhost", "ssl=on", "ssl_key_file=../server.key", "ssl_cert_file=../server.crt"];
        Server::start_with(port, &settings, |dir| {
            prepare(dir)?;
            let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n";
            std::fs::write(dir.join("data/pg_hba.conf"), rules).unwrap();
            let key = dir.join("server.key");
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
            if is_root() {
                let files = [key, dir.join("server.crt")];
                assert!(Command::new("chown").arg("postgres").args(files).status().unwrap().success());
            }
            Some(())
        })
    }

    fn start_with(port: u16, settings: &[&str], prepare: impl FnOnce(&Path) -> Option<()>) -> Option<Server> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED: there is no PostgreSQL server (Debian's package `postgresql`)");
            return None;
        };
        if is_root() && !Command::new("id").arg("postgres").output().is_ok_and(|found| found.status.success()) {
            eprintln!("SKIPPED: there is no user `postgres` to run a server as");
            return None;
        }
        let dir = private_dir();
        let data = dir.path().join("data");
        let made = quiet(&mut command(&programs.join("initdb")))
            .args(["-U", "mirror", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&data)
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        prepare(dir.path())?;
        Some(Server::run(&programs, dir, port, settings))
    }

    fn run(programs: &Path, dir: tempfile::TempDir, port: u16, settings: &[&str]) -> Server {
        let mut server = command(&programs.join("postgres"));
        server.arg("-D").arg(dir.path().join("data")).arg("-k").arg(dir.path()).arg("-p").arg(port.to_string());
        let common = ["fsync=off", "max_connections=60", "shared_buffers=32MB"];
        server.args(settings.iter().chain(&common).flat_map(|setting| ["-c", setting]));
        let process = quiet(&mut server).spawn().unwrap();
        Server { process, port, dir }
    }

    /// A standby that receives everything that is committed on this server.
    pub fn standby(&self) -> Server {
        let programs = programs().unwrap();
        let dir = private_dir();
        let copied = quiet(&mut command(&programs.join("pg_basebackup")))
            .args(["-U", "mirror", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "-h"])
            .arg(self.dir.path())
            .arg("-D")
            .arg(dir.path().join("data"))
            .status()
            .unwrap();
        assert!(copied.success(), "pg_basebackup failed");
        Server::run(&programs, dir, self.port, &["listen_addresses="])
    }

    /// The host of a URL for its socket.
    pub fn host(&self) -> String {
        self.dir.path().display().to_string().replace('/', "%2F")
    }

    pub async fn connect(&self, database: &str) -> Client {
        let (socket, port) = (self.dir.path().display(), self.port);
        let config = format!("host={socket} port={port} user=mirror dbname={database}");
        // The server needs a moment until it listens.
        for _ in 0..600 {
            if let Ok((client, connection)) = tokio_postgres::connect(&config, NoTls).await {
                tokio::spawn(connection);
                return client;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the server does not listen");
    }
}

/// A test's database and a connection to it.
pub struct Postgres {
    server: Arc<Server>,
    pub name: String,
    pub client: Client,
}

impl Postgres {
    /// `None` without an installed server.
    pub async fn start() -> Option<Postgres> {
        let server = {
            let mut running = SERVER.lock().unwrap();
            match running.upgrade() {
                Some(server) => server,
                None => {
                    let server = Arc::new(Server::start()?);
                    *running = Arc::downgrade(&server);
                    server
                }
            }
        };
        let name = format!("d{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let first = server.connect("postgres").await;
        first.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let client = server.connect(&name).await;
        Some(Postgres { server, name, client })
    }

    pub fn url(&self) -> String {
        format!("postgres://mirror:s3cret@{}/{}", self.server.host(), self.name)
    }

    /// The directory of the server's socket.
    pub fn socket(&self) -> &Path {
        self.server.dir.path()
    }

    /// A database on a server of the test's own.
    pub async fn on(server: Arc<Server>) -> Postgres {
        let client = server.connect("postgres").await;
        Postgres { server, name: "postgres".into(), client }
    }

    /// The default publish settings.
    pub fn settings(mirror: &Mirror) -> PublishSettings {
        PublishSettings {
            mirror: mirror.path.clone(),
            schema: "crm".into(),
            objects: None,
            exclude: Vec::new(),
            full: false,
            check: Check::None,
        }
    }

    pub async fn try_publish(&self, settings: &PublishSettings) -> Result<PublishReport, PublishError> {
        let url = PublishUrl::new(&SecretString::from(self.url())).unwrap();
        publish(&url, settings, Instant::system_now()).await
    }

    pub async fn publish(&self, mirror: &Mirror) -> PublishReport {
        self.try_publish(&Postgres::settings(mirror)).await.unwrap()
    }

    /// Every row of a query as texts.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let answer = self.client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        answer
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|place| row.get(place).map(String::from)).collect())
                }
                _ => None,
            })
            .collect()
    }

    /// The first column of the first row.
    pub async fn one(&self, sql: &str) -> String {
        self.rows(sql).await[0][0].clone().unwrap_or_else(|| "NULL".into())
    }

    /// Runs a statement in another database of the server.
    pub async fn administer(&self, sql: &str) {
        let client = self.server.connect("postgres").await;
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}
