//! A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket, gone with the last test that uses it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crm_mirror::model::Instant;
use crm_mirror::publish::{PublishError, PublishReport, PublishSettings, PublishUrl, publish};
use secrecy::SecretString;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::support::Mirror;

/// One server for all tests that run at the same time.
static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static DATABASES: AtomicU64 = AtomicU64::new(0);

struct Server {
    process: Child,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate: nothing of it is kept.
        let _ = Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// The folder of the server's programs.
fn programs() -> Option<PathBuf> {
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

/// A command that root runs as another user: the server refuses to be root's.
fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/")
}

impl Server {
    fn start() -> Option<Server> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED: there is no PostgreSQL server (Debian's package `postgresql`)");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(dir.path()).status();
            if !owned.is_ok_and(|status| status.success()) {
                eprintln!("SKIPPED: there is no user `postgres` to run a server as");
                return None;
            }
        }
        let data = dir.path().join("data");
        let made = quiet(&mut command(&programs.join("initdb")))
            .args(["-U", "mirror", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&data)
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let mut server = command(&programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        let settings = ["listen_addresses=", "fsync=off", "max_connections=60", "shared_buffers=32MB"];
        server.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let process = quiet(&mut server).spawn().unwrap();
        Some(Server { process, dir })
    }

    async fn connect(&self, database: &str) -> Client {
        let config = format!("host={} user=mirror dbname={database}", self.dir.path().display());
        // It takes a moment until the server listens.
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

/// A database of one test, and a connection that looks at it.
pub struct Postgres {
    server: Arc<Server>,
    pub name: String,
    pub client: Client,
}

impl Postgres {
    /// `None` where there is no server to be had.
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
        let socket = self.server.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://mirror:s3cret@{socket}/{}", self.name)
    }

    /// What is published where nothing else is said.
    pub fn settings(mirror: &Mirror) -> PublishSettings {
        PublishSettings {
            mirror: mirror.path.clone(),
            schema: "crm".into(),
            objects: None,
            exclude: Vec::new(),
            full: false,
        }
    }

    pub async fn try_publish(&self, settings: &PublishSettings) -> Result<PublishReport, PublishError> {
        let url = PublishUrl::new(&SecretString::from(self.url())).unwrap();
        publish(&url, settings, Instant::system_now()).await
    }

    pub async fn publish(&self, mirror: &Mirror) -> PublishReport {
        self.try_publish(&Postgres::settings(mirror)).await.unwrap()
    }

    /// Every row of an answer, as texts.
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

    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}
