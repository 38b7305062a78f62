//! Runs the binary in its own directory, against its own service.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use crm_mirror::model::{Instant, SystemClock};
use crm_mirror::sandbox::{SCOPES, Sandbox, SandboxServer, World, generate};
use serde_json::Value;

/// The key of every service in these tests. No output may contain it.
pub const SECRET: &str = "crm_secret_b7f3aa90e1";

/// A sandbox served on loopback.
pub struct Service {
    pub sandbox: Sandbox,
    pub base_url: String,
    _running: SandboxServer,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    pub fn of(world: World) -> Service {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let sandbox = Sandbox::new(world, Arc::new(SystemClock));
        sandbox.set_key(SECRET, &SCOPES);
        let running = runtime.block_on(sandbox.start(0)).unwrap();
        Service { sandbox, base_url: running.base_url.clone(), _running: running, _runtime: runtime }
    }

    pub fn with(contacts: usize, companies: usize) -> Service {
        Service::of(generate(3, contacts, companies, Instant::system_now()))
    }
}

/// A directory and the environment of the commands that run in it.
pub struct TestDir {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

/// The output of a command and its exit code.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ended = Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ended.out.contains(SECRET) && !ended.err.contains(SECRET), "{}{}", ended.out, ended.err);
        ended
    }
}

impl Ended {
    #[track_caller]
    pub fn done(self) -> Ended {
        self.code(0)
    }

    #[track_caller]
    pub fn code(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

impl TestDir {
    pub fn empty() -> TestDir {
        TestDir { dir: tempfile::tempdir().unwrap(), env: BTreeMap::new() }
    }

    /// Configured for a service.
    pub fn of(service: &Service) -> TestDir {
        TestDir::empty().set("CRM_MIRROR_API__BASE_URL", &service.base_url).set("CRM_MIRROR_API__KEY", SECRET)
    }

    pub fn set(mut self, name: &str, value: &str) -> TestDir {
        self.env.insert(name.into(), value.into());
        self
    }

    pub fn unset(mut self, name: &str) -> TestDir {
        self.env.remove(name);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
        command.args(args).env_clear().envs(&self.env).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// A command of another user, as only root can begin one. They need not be able to open the folder that the program is
    /// built in.
    pub fn command_as(&self, (user, group): (u32, u32), args: &[&str]) -> Command {
        use std::os::unix::process::CommandExt;
        let ours = self.command(args);
        let program = self.path("program");
        if !program.exists() {
            // By another process: a program that one of ours has open for writing, as a copy made here would be in each process
            // that another test begins meanwhile, cannot be run.
            let copied = Command::new("cp").arg(ours.get_program()).arg(&program).status().unwrap();
            assert!(copied.success());
        }
        let mut theirs = Command::new(program);
        theirs.args(args).env_clear().envs(&self.env).current_dir(self.dir.path()).stdin(Stdio::null());
        theirs.uid(user).gid(group);
        theirs
    }

    /// Runs a command line, split at spaces.
    pub fn run(&self, line: &str) -> Ended {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.command(&words).output().unwrap().into()
    }

    /// Runs a query on the mirror. Returns CSV without the header.
    pub fn ask(&self, sql: &str) -> String {
        let ended = Ended::from(self.command(&["sql", "--format", "csv", sql]).output().unwrap()).done();
        let answer = ended.out.replace("\r\n", "\n");
        answer.split_once('\n').unwrap().1.trim_end().to_string()
    }

    /// Every file with a hash of its bytes.
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        files(self.dir.path())
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let mut number = DefaultHasher::new();
            std::fs::read(&path).unwrap_or_default().hash(&mut number);
            (path, number.finish())
        })
        .collect()
}

/// A running process whose stdout and stderr are read line by line.
pub struct Going {
    pub child: Child,
    pub out: BufReader<std::process::ChildStdout>,
    pub err: BufReader<std::process::ChildStderr>,
}

impl Going {
    pub fn start(mut command: Command) -> Going {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Going {
            out: BufReader::new(child.stdout.take().unwrap()),
            err: BufReader::new(child.stderr.take().unwrap()),
            child,
        }
    }

    /// The next line of stdout.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// Reads stderr up to a line that contains `part`.
    pub fn until_logged(&mut self, part: &str) {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.err.read_line(&mut line).unwrap() > 0, "it ended without `{part}`");
        }
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end. Returns the exit code and the rest of stderr.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.err.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Going {
    /// Leaves no process behind, however a test ends.
    fn drop(&mut self) {
        // After a clean exit there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a `sqlite3` shell is installed; prints a note if not.
pub fn has_sqlite3() -> bool {
    let found = Command::new("sqlite3").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no sqlite3 on the PATH");
    }
    found
}

/// The output of the system's `sqlite3`.
pub fn sqlite3(database: &Path, sql: &str) -> String {
    let output = Command::new("sqlite3").arg("-readonly").arg(database).arg(sql).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && err.is_empty(), "{sql}\n{err}");
    String::from_utf8(output.stdout).unwrap()
}
