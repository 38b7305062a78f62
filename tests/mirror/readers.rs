//! Readers while the program writes: as a user of the file's group, after a clean stop, after a kill, briefly and for a
//! very long time.
//!
//! When the tests run as root, the writer and its readers are two users, as under systemd; otherwise they are one.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Crm, Mirror, noon, shell};
use crm_mirror::model::{Instant, Object, Resource, SystemClock};
use crm_mirror::sandbox::{RequestLine, Sandbox, SandboxServer, World, generate};
use crm_mirror::store::{StateKey, Store, ViewOptions, wal};
use crm_mirror::sync::Job;
use rusqlite::{Connection, OpenFlags};

const MIB: u64 = 1024 * 1024;

/// The identity of a process: user, group, and further groups. Users need no entry in the system's database.
#[derive(Clone, Copy)]
struct User(u32, u32, &'static str);

const WRITER: User = User(64_001, 64_000, "--clear-groups");
/// A member of the writer's group, with read access only.
const READER: User = User(64_002, 64_002, "--groups=64000");

/// A directory as created by `StateDirectory`, with the program in a directory beside it, and a service.
struct Place {
    dir: tempfile::TempDir,
    program: PathBuf,
    two_users: bool,
    sandbox: Sandbox,
    running: SandboxServer,
    _runtime: tokio::runtime::Runtime,
}

const CONTACTS: usize = 600;
const PAGE: i64 = 50;

impl Place {
    fn new() -> Place {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let world = generate(61, CONTACTS, 20, Instant::system_now().minus(Duration::from_secs(7_200)));
        let sandbox = Sandbox::new(world, Arc::new(SystemClock));
        sandbox.configure(|settings| settings.page_cap = Some(PAGE as usize));
        let running = runtime.block_on(sandbox.start(0)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let built = PathBuf::from(env!("CARGO_BIN_EXE_crm-mirror"));
        let mut place = Place { program: built.clone(), dir, two_users: false, sandbox, running, _runtime: runtime };
        if place.state().metadata().unwrap().uid() != 0 || !is_there("setpriv") {
            eprintln!("skipped: one user instead of two, for lack of root or of `setpriv`");
            return place;
        }
        // Other users can reach this directory and a copy of the program, wherever it was built.
        chmod(place.dir.path(), 0o755);
        place.program = place.dir.path().join("crm-mirror");
        // By another process: what another test begins while this one has the copy open for writing makes it busy.
        assert!(Command::new("cp").arg(built).arg(&place.program).status().unwrap().success());
        chown(place.state(), Some(WRITER.0), Some(WRITER.1)).unwrap();
        chmod(&place.state(), 0o750);
        let reached = place.command(WRITER, &place.program).arg("--version").output().unwrap();
        place.two_users = reached.status.success();
        assert!(place.two_users, "a user without rights cannot get to {}", place.dir.path().display());
        place
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn mirror(&self) -> PathBuf {
        self.state().join("mirror.db")
    }

    /// A program run as a user with a minimal environment.
    fn command(&self, user: User, program: &Path) -> Command {
        let mut command = if self.program.starts_with(self.dir.path()) {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", user.0)).arg(format!("--regid={}", user.1)).arg(user.2);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.state()).stdin(Stdio::null());
        command
    }

    /// Starts a verb with an empty umask: the program itself sets the permissions for others.
    fn start(&self, verb: &str) -> Child {
        let mut command = self.command(WRITER, Path::new("/bin/sh"));
        command
            .args(["-c", "umask 000; exec \"$0\" \"$@\""])
            .arg(&self.program)
            .args([verb, "--log-level", "error"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CRM_MIRROR_API__BASE_URL", &self.running.base_url)
            .env("CRM_MIRROR_API__KEY", self.sandbox.full_key())
            .env("CRM_MIRROR_API__CONCURRENCY", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn finish(&self, verb: &str) {
        assert!(self.start(verb).wait().unwrap().success(), "{verb}");
    }

    /// What the reader sees with the program and with the machine's shell.
    fn read(&self) -> Reading {
        Reading {
            rows: look(self.reading(), &self.mirror()),
            shell: is_there("sqlite3").then(|| {
                let mut shell = self.command(READER, Path::new("sqlite3"));
                shell.args(["-batch", "-readonly"]).arg(self.mirror());
                count(shell.arg("SELECT count(*) FROM contacts_full; PRAGMA integrity_check"))
            }),
        }
    }

    fn reading(&self) -> Command {
        self.command(READER, &self.program)
    }

    /// The permissions of the directory and everything in it.
    fn rights(&self) -> Vec<(String, u32)> {
        let mut rights: Vec<(String, u32)> = std::fs::read_dir(self.state())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
                (entry.file_name().into_string().unwrap(), mode)
            })
            .collect();
        rights.push((".".into(), self.state().metadata().unwrap().permissions().mode() & 0o7777));
        rights.sort();
        rights
    }
}

/// Rows of contacts as two programs see them.
#[derive(Debug)]
struct Reading {
    rows: Result<i64, String>,
    shell: Option<Result<i64, String>>,
}

impl Reading {
    /// The number of rows, which is the same for all; the shell also verified the file's integrity.
    #[track_caller]
    fn rows(&self) -> i64 {
        let rows = self.rows.clone().unwrap();
        if let Some(shell) = &self.shell {
            assert_eq!(shell.clone().unwrap(), rows);
        }
        rows
    }
}

fn look(mut command: Command, mirror: &Path) -> Result<i64, String> {
    let sql = "SELECT count(*) FROM contacts_full";
    command.args(["sql", "--format", "csv", sql, "--database"]).arg(mirror);
    count(&mut command)
}

/// The first number that a program prints on a line of its own.
fn count(command: &mut Command) -> Result<i64, String> {
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let number = out.lines().find_map(|line| line.trim().parse().ok());
    number.filter(|_| ran.status.success()).ok_or_else(|| format!("{out}{err}"))
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Each page but the first repeats a row.
fn is_of_whole_pages(rows: i64) -> bool {
    rows == 0 || (rows - 1) % (PAGE - 1) == 0
}

#[test]
fn group_member_can_read_during_a_run_after_a_stop_and_after_a_kill() {
    let place = Arc::new(Place::new());
    // During the first copy, with a request in flight; killed at a later one.
    let readings: Arc<Mutex<Vec<Reading>>> = Arc::default();
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let (at, seen, victim, mut pages) = (place.clone(), readings.clone(), child.clone(), 0);
    place.sandbox.before_request(move |_: &mut World, asked: &RequestLine| {
        if !asked.lists(Resource::Contacts) || asked.param("filter[createdAt][gte]").is_none() {
            return;
        }
        pages += 1;
        match pages {
            3 | 6 => seen.lock().unwrap().push(at.read()),
            9 => victim.lock().unwrap().as_mut().unwrap().kill().unwrap(),
            _ => {}
        }
    });
    let mut known = child.lock().unwrap();
    let mut started = place.start("sync");
    let mut out = started.stdout.take().unwrap();
    *known = Some(started);
    drop(known);
    // The hook needs the child to kill it, so its end is seen by the end of its output.
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    child.lock().unwrap().as_mut().unwrap().wait().unwrap();
    place.sandbox.clear_hook();

    let during: Vec<i64> = readings.lock().unwrap().iter().map(Reading::rows).collect();
    assert_eq!(during.len(), 2);
    assert!(during.iter().all(|rows| is_of_whole_pages(*rows)), "{during:?}");
    assert!(0 < during[0] && during[0] < during[1], "{during:?}");
    let killed = place.read().rows();
    assert!(is_of_whole_pages(killed) && during[1] <= killed && killed < CONTACTS as i64, "{killed}");
    assert_rights(&place);

    for verb in ["sync", "resync"] {
        place.finish(verb);
        assert_eq!(place.read().rows(), CONTACTS as i64, "{verb}");
        assert_rights(&place);
        assert_eq!(wal::beside(&place.mirror()).metadata().unwrap().len(), 0);
    }
    if place.two_users {
        let status = place.reading().args(["status", "--database"]).arg(place.mirror()).output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        // Users outside the group have no access.
        let stranger = place.command(User(64_003, 64_003, "--clear-groups"), &place.program);
        assert!(look(stranger, &place.mirror()).is_err());
    }
    // A stop and a kill give nobody new write access, and readers leave no files.
    let owners: Vec<u32> =
        std::fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().uid()).collect();
    let owner = place.state().metadata().unwrap().uid();
    assert!(owners.iter().all(|uid| *uid == owner), "{owners:?}");
    // The cleared hook held the directory, too.
    assert!(Arc::into_inner(place).is_some());
}

#[track_caller]
fn assert_rights(place: &Place) {
    let folder = if place.two_users { 0o750 } else { place.rights()[0].1 };
    let expected = [
        (".", folder),
        ("mirror.db", 0o640),
        ("mirror.db-shm", 0o640),
        ("mirror.db-wal", 0o640),
        ("mirror.db.lock", 0o640),
    ]
    .map(|(name, mode)| (name.to_string(), mode));
    assert_eq!(place.rights(), expected);
    assert_eq!(place.rights()[0].1 & 0o020, 0, "readers must not be able to write to the folder");
}

/// A reader without a busy timeout: blocking is an error.
fn impatient(path: &Path) -> Connection {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    conn.busy_timeout(Duration::ZERO).unwrap();
    conn
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_is_never_blocked_and_never_sees_half_a_page() {
    let crm = Crm::serve(generate(62, 1_000, 0, noon())).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(20));
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    Store::open(&mirror.path).unwrap().close().await;
    let done = Arc::new(AtomicBool::new(false));
    let (path, ended) = (mirror.path.clone(), done.clone());
    let reader = std::thread::spawn(move || {
        let conn = impatient(&path);
        let (mut seen, mut last) = (0, 0);
        while !ended.load(Ordering::Relaxed) {
            let rows: i64 = conn.query_row("SELECT count(*) FROM contacts_full", [], |row| row.get(0)).unwrap();
            assert!(rows == 0 || rows == 1_000 || (rows - 1) % 19 == 0, "each page but the first repeats a row");
            assert!(rows >= last);
            (seen, last) = (seen + 1, rows);
        }
        seen
    });
    mirror.sync(&crm).await;
    done.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn reader_can_read_while_a_transaction_is_open() {
    let crm = Crm::serve(generate(63, 100, 0, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let store = Store::open(&mirror.path).unwrap();
    let path = mirror.path.clone();
    let seen = store
        .write(move |tx| {
            tx.set_state(&StateKey::Reported, &"x".repeat(20 << 20))?;
            // Written, and larger than the cache, so it is in the WAL; not committed, so it is invisible.
            assert!(wal::beside(&path).metadata().unwrap().len() > 8 * MIB);
            let conn = impatient(&path);
            let rows: i64 = conn.query_row("SELECT count(*) FROM contacts", [], |row| row.get(0)).unwrap();
            let half: i64 =
                conn.query_row("SELECT count(*) FROM state WHERE name = 'test'", [], |row| row.get(0)).unwrap();
            Ok((rows, half))
        })
        .await
        .unwrap();
    assert_eq!(seen, (100, 0));
    store.close().await;
}

/// Writes 4 MiB this many times, each in a transaction. Returns the largest observed size of the WAL.
async fn write(store: &Store, rounds: u64) -> u64 {
    let largest = Arc::new(AtomicU64::new(0));
    for round in 0..rounds {
        store
            .write(move |tx| tx.set_state(&StateKey::Reported, &format!("{round:9}").repeat((4 << 20) / 9)))
            .await
            .unwrap();
        let size = wal::beside(&store.path).metadata().unwrap().len();
        largest.fetch_max(size, Ordering::Relaxed);
    }
    largest.load(Ordering::Relaxed)
}

#[tokio::test]
async fn wal_stays_short_without_readers() {
    let mirror = Mirror::empty();
    let store = Store::open(&mirror.path).unwrap();
    let largest = write(&store, 10).await;
    eprintln!("no reader: 40 MiB written, the WAL was at most {} MiB", largest / MIB);
    assert!(largest < 24 * MIB, "{largest}");
    assert!(store.settle().await.unwrap());
    assert_eq!(wal::beside(&mirror.path).metadata().unwrap().len(), 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_readers_do_not_let_the_wal_grow() {
    let mirror = Mirror::empty();
    let store = Store::open(&mirror.path).unwrap();
    write(&store, 1).await;
    let (path, done) = (mirror.path.clone(), Arc::new(AtomicBool::new(false)));
    let ended = done.clone();
    let started = Arc::new(std::sync::Barrier::new(2));
    let starting = started.clone();
    // Two readers alternate, each for longer than a commit takes: there is always at least one, and never do all of
    // them see the newest commit.
    let slow =
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50000) SELECT count(*) FROM n";
    let readers = std::thread::spawn(move || {
        let (one, other) = (impatient(&path), impatient(&path));
        let begin = |conn: &Connection| {
            conn.execute_batch("BEGIN; SELECT count(*) FROM state").unwrap();
        };
        begin(&one);
        starting.wait();
        while !ended.load(Ordering::Relaxed) {
            begin(&other);
            one.execute_batch("COMMIT").unwrap();
            assert_eq!(other.query_row(slow, [], |row| row.get(0)), Ok(50_000));
            begin(&one);
            other.execute_batch("COMMIT").unwrap();
            assert_eq!(one.query_row(slow, [], |row| row.get(0)), Ok(50_000));
        }
    });
    started.wait();
    let largest = write(&store, 30).await;
    done.store(true, Ordering::Relaxed);
    readers.join().unwrap();
    eprintln!("readers that overlap: 120 MiB written, the WAL was at most {} MiB", largest / MIB);
    assert!(largest < 110 * MIB, "{largest}");
    store.close().await;
}

#[tokio::test]
async fn long_reader_blocks_no_writer_and_the_wal_shrinks_afterwards() {
    let crm = Crm::serve(generate(64, 200, 10, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let wal = wal::beside(&mirror.path);
    let store = Store::open(&mirror.path).unwrap();
    let long = impatient(&mirror.path);
    long.execute_batch("BEGIN; SELECT count(*) FROM contacts").unwrap();
    let names = "SELECT group_concat(name) FROM (SELECT name FROM contacts ORDER BY id)";
    let ask = |conn: &Connection| conn.query_row(names, [], |row| row.get::<_, String>(0)).unwrap();
    let before = ask(&long);

    let largest = write(&store, 20).await;
    eprintln!("a long reader: 80 MiB written, the WAL was at most {} MiB", largest / MIB);
    crm.sandbox.with_world(|world| {
        for id in world.ids(Object::Contact.resource()) {
            world.edit(Object::Contact, &id, &serde_json::json!({"name": "New"}));
        }
    });
    crm.wait(120);
    let ran = mirror.run_on_open(store.clone(), &crm, &Job::sync()).await.unwrap();
    assert_eq!(ran.tally.updated, 200);
    // The old reader sees the old state; a new one sees the new state.
    assert_eq!(ask(&long), before);
    assert_ne!(ask(&impatient(&mirror.path)), before);
    assert!(!store.settle().await.unwrap());
    // Everything since then is needed, and nothing is stored twice.
    let held = wal.metadata().unwrap().len();
    assert!((78 * MIB..100 * MIB).contains(&held), "{held}");

    long.execute_batch("COMMIT").unwrap();
    let after = write(&store, 2).await;
    write(&store, 1).await;
    let cut = wal.metadata().unwrap().len();
    eprintln!("after it: {} MiB at first, {} MiB then", after / MIB, cut / MIB);
    assert!(cut <= 64 * MIB, "{cut}");
    crm.wait(120);
    mirror.run_on_open(store.clone(), &crm, &Job::sync()).await.unwrap();
    assert_eq!(wal.metadata().unwrap().len(), 0);
    store.close().await;
    if shell::is_there() {
        assert_eq!(shell::run(&mirror.path, "PRAGMA integrity_check").unwrap(), "ok");
    }
}

#[tokio::test]
async fn erasure_beside_a_long_reader_waits_for_it_instead_of_filling_the_disk() {
    let crm = Crm::serve(generate(66, 600, 20, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let long = impatient(&mirror.path);
    long.execute_batch("BEGIN; SELECT count(*) FROM contacts").unwrap();
    mirror.views = Some(ViewOptions { exclude: vec!["contacts.notes".into()], ..ViewOptions::default() });
    for _ in 0..5 {
        crm.wait(120);
        mirror.sync(&crm).await;
    }
    let (file, wal) = (mirror.path.metadata().unwrap().len(), wal::beside(&mirror.path).metadata().unwrap().len());
    assert!(wal < 2 * file, "{wal} beside {file}");
    drop(long);
    crm.wait(120);
    mirror.sync(&crm).await;
    let erased = "SELECT value ->> '$.erased' FROM state WHERE name = 'built_from'";
    assert_eq!(mirror.one(erased), "'[\"contacts.notes\"]'");
}

#[tokio::test]
async fn stop_does_not_wait_for_a_long_reader_and_keeps_its_snapshot() {
    let crm = Crm::serve(generate(65, 50, 0, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let long = impatient(&mirror.path);
    long.execute_batch("BEGIN; SELECT count(*) FROM contacts").unwrap();
    let store = Store::open(&mirror.path).unwrap();
    write(&store, 1).await;
    store.close().await;
    assert!(wal::beside(&mirror.path).metadata().unwrap().len() > 0);
    let rows = |conn: &Connection| conn.query_row("SELECT count(*) FROM contacts", [], |row| row.get::<_, i64>(0));
    assert_eq!(rows(&long).unwrap(), 50);
    drop(long);
    // The written data is in the WAL only and is read from there.
    let kept = mirror.one("SELECT length(value) FROM state WHERE name = 'reported'");
    assert!(kept.parse::<u64>().unwrap() >= MIB, "{kept}");
    mirror.sync(&crm).await;
    assert_eq!(wal::beside(&mirror.path).metadata().unwrap().len(), 0);
}
