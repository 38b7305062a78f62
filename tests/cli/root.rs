//! Root in a folder of another user: no verb follows a link that this user planted, gives a file away, or changes
//! anything outside the folder. Which names are planted is taken from a trace of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::CommandFactory;

use crate::binary::{SECRET, Service};

/// A user without a name, who owns the mirror's folder.
const OWNER: u32 = 4242;

/// The longest time that a verb may take, in seconds.
const LONGEST: &str = "60";

/// The arguments of every verb. `HOME` is the folder of the other user, `ID` a contact.
const VERBS: [(&str, &str); 26] = [
    ("init", "HOME/new.toml"),
    ("check", ""),
    ("sync", ""),
    ("sync", "--dry-run"),
    ("resync", ""),
    ("daemon", ""),
    ("pause", ""),
    ("resume", ""),
    ("backup", "HOME/copy.db"),
    ("show", "contact ID"),
    ("forget", "contact ID --yes"),
    ("resume", "--now"),
    ("status", ""),
    ("verify", ""),
    ("sql", "VALUES(1)"),
    ("edit", "contact ID position=CTO"),
    ("push", ""),
    ("outbox", "list"),
    ("describe", ""),
    ("export", "--snapshot"),
    ("publish", ""),
    ("mcp", ""),
    ("demo", "--path HOME/demo.db"),
    ("sandbox", "--port 0 --state HOME/state.ndjson"),
    ("completions", "bash"),
    ("man", "--dir HOME/man1"),
];

struct Place {
    service: Service,
    dir: tempfile::TempDir,
    contact: String,
}

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of the other user, as a first `sync` of root left it.
    fn fresh(&self) -> PathBuf {
        let (home, template) = (self.at("home"), self.at("template"));
        let _ = std::fs::remove_dir_all(&home);
        let status = Command::new("cp").arg("-a").arg(&template).arg(&home).status().unwrap();
        assert!(status.success());
        home
    }

    fn arguments(&self, (verb, rest): (&str, &str)) -> Vec<String> {
        let home = self.at("home").display().to_string();
        std::iter::once(verb)
            .chain(rest.split_whitespace())
            .map(|word| word.replace("HOME", &home).replace("ID", &self.contact))
            .collect()
    }

    /// A command of root that ends, killed if it has to be.
    fn command(&self, program: &[&str], home: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", LONGEST]).args(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CRM_MIRROR_DATABASE__PATH", home.join("mirror.db"))
            .env("CRM_MIRROR_API__BASE_URL", &self.service.base_url)
            .env("CRM_MIRROR_API__KEY", SECRET)
            .env("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
            .env("CRM_MIRROR_PUBLISH__URL", "postgres://u:p@127.0.0.1:1/d")
            .env("CRM_MIRROR_SYNC__SCHEDULE", "off")
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// Runs a verb to its end; one that serves is ended once it is ready. Returns its exit code.
    fn run(&self, verb: (&str, &str), tracer: &[&str]) -> Option<i32> {
        let home = self.at("home");
        let arguments = self.arguments(verb);
        let mut program: Vec<&str> = tracer.to_vec();
        program.push(env!("CARGO_BIN_EXE_crm-mirror"));
        program.extend(arguments.iter().map(String::as_str));
        let mut command = self.command(&program, &home);
        let notify_path = self.at("notify.sock");
        let _ = std::fs::remove_file(&notify_path);
        let notify = UnixDatagram::bind(&notify_path).unwrap();
        std::fs::set_permissions(&notify_path, PermissionsExt::from_mode(0o777)).unwrap();
        let mut child = command.env("NOTIFY_SOCKET", &notify_path).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        match verb.0 {
            "daemon" => {
                notify.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let mut buffer = [0; 4096];
                let is_ready = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("READY=1");
                while child.try_wait().unwrap().is_none() {
                    if notify.recv(&mut buffer).is_ok_and(|length| is_ready(&buffer[..length])) {
                        end(&child);
                        break;
                    }
                }
            }
            "sandbox" => {
                let mut line = String::new();
                if out.read_line(&mut line).unwrap() > 0 {
                    end(&child);
                }
            }
            _ => {}
        }
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        child.wait().unwrap().code()
    }

    /// Everything outside the folder that must not change: owner, group, mode and content.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        let entries = std::fs::read_dir(self.at("vault")).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let meta = std::fs::symlink_metadata(&path).unwrap();
                let content = std::fs::read(&path).unwrap_or_default();
                (path, (meta.uid(), meta.gid(), meta.mode(), content))
            })
            .collect()
    }
}

/// Ends a server as its administrator does; `timeout` passes the signal on.
fn end(child: &Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
}

fn place() -> Option<Place> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let template = dir.path().join("template");
    std::fs::create_dir(&template).unwrap();
    if chown(&template, Some(OWNER), Some(OWNER)).is_err() {
        eprintln!("SKIPPED: only root can try what root does in another user's folder");
        return None;
    }
    std::fs::create_dir(dir.path().join("vault")).unwrap();
    std::fs::write(dir.path().join("vault/victim"), "a file of root, which nobody else may read or change\n").unwrap();
    std::fs::set_permissions(dir.path().join("vault/victim"), PermissionsExt::from_mode(0o600)).unwrap();
    let service = Service::with(12, 3);
    let mut place = Place { service, dir, contact: String::new() };
    // The first copy is made by root, where nothing was planted.
    std::fs::rename(&template, place.at("home")).unwrap();
    assert_eq!(place.run(("sync", ""), &[]), Some(0));
    for entry in std::fs::read_dir(place.at("home")).unwrap() {
        let (path, meta) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (OWNER, OWNER), "{}", path.display());
    }
    std::fs::rename(place.at("home"), &template).unwrap();
    let conn = rusqlite::Connection::open(template.join("mirror.db")).unwrap();
    place.contact = conn.query_row("SELECT min(id) FROM contacts", [], |row| row.get(0)).unwrap();
    drop(conn);
    Some(place)
}

/// Calls that open, create, rename or remove a file, or change its owner or mode.
const CALLS: &str = "trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,link,linkat,symlink,symlinkat,\
     chmod,fchmodat,chown,lchown,fchownat,truncate,bind,setresuid,clone,clone3,fork,vfork";

/// The names in the folder that a verb opens or changes, from a trace of every thread. Requires that each of them had taken
/// the owner's identity before.
fn traced(place: &Place, verb: (&str, &str)) -> BTreeSet<String> {
    let home = place.fresh();
    let folder = place.at("traces");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let into = folder.join("t").display().to_string();
    place.run(verb, &["strace", "-ff", "-qq", "-e", CALLS, "-o", &into]);
    let mut threads: BTreeMap<String, String> = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        let thread = entry.file_name().to_string_lossy().trim_start_matches("t.").to_string();
        threads.insert(thread, std::fs::read_to_string(entry.path()).unwrap());
    }
    let identity = format!("setresuid({OWNER}, {OWNER}, {OWNER})");
    let (mut is_owner, mut todo) = (BTreeMap::new(), Vec::new());
    let children: BTreeSet<String> = threads
        .values()
        .flat_map(|text| text.lines().filter(|line| starts_a_thread(line)).filter_map(result).map(String::from))
        .collect();
    todo.extend(threads.keys().filter(|thread| !children.contains(*thread)).map(|thread| (thread.clone(), false)));
    let mut names = BTreeSet::new();
    while let Some((thread, mut owner)) = todo.pop() {
        for line in threads.get(&thread).map_or("", String::as_str).lines() {
            if line.contains(&identity) {
                owner = true;
            } else if starts_a_thread(line) {
                todo.extend(result(line).map(|child| (child.to_string(), owner)));
            }
            if line.contains("AF_INET") {
                continue;
            }
            for path in line.split('"').skip(1).step_by(2).map(|path| home.join(path)) {
                let Ok(inside) = path.strip_prefix(&home) else { continue };
                let Some(name) = inside.components().next() else { continue };
                assert!(owner, "{verb:?} did this as root: {line}");
                names.insert(name.as_os_str().to_string_lossy().into_owned());
            }
        }
        is_owner.insert(thread, owner);
    }
    assert!(names.is_empty() || is_owner.values().any(|owner| *owner), "{verb:?}");
    // Nobody can foretell a random name. The number of a process is none.
    let parts = |name: &str, is: fn(&str) -> bool| name.split(['.', '-']).any(is);
    names.retain(|name| !parts(name, |part| part.len() >= 16 && part.bytes().all(|b| b.is_ascii_hexdigit())));
    assert!(
        !names.iter().any(|name| parts(name, |part| part.parse().is_ok_and(|n: u64| n > 9))),
        "{verb:?}: {names:?}"
    );
    names
}

fn starts_a_thread(line: &str) -> bool {
    ["clone", "fork", "vfork"].iter().any(|call| line.starts_with(call))
}

fn result(line: &str) -> Option<&str> {
    let (_, result) = line.rsplit_once(" = ")?;
    result.split_whitespace().next()
}

#[test]
fn no_verb_of_root_touches_anything_outside_a_folder_of_another_user() {
    let Some(place) = place() else { return };
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIPPED: there is no strace on the PATH to take the names of files from");
        return;
    }
    for command in crm_mirror::cli::Cli::command().get_subcommands() {
        let name = command.get_name();
        assert!(VERBS.iter().any(|(verb, _)| *verb == name), "the verb {name} is not tried");
    }
    let before = place.outside();
    let mut tried = 0;
    for verb in VERBS {
        // A demo takes long, and all pages of the manual are written alike: their links lead to one or the other in turn.
        let in_turn = ["demo", "man"].contains(&verb.0);
        for (number, name) in traced(&place, verb).into_iter().enumerate() {
            let targets = ["victim", "absent"];
            for target in if in_turn { &targets[number % 2..][..1] } else { &targets[..] } {
                let planted = place.fresh().join(&name);
                let _ = std::fs::remove_file(&planted);
                let _ = std::fs::remove_dir_all(&planted);
                symlink(place.at("vault").join(target), &planted).unwrap();
                lchown(&planted, Some(OWNER), Some(OWNER)).unwrap();
                let code = place.run(verb, &[]);
                assert!(code.is_some_and(|code| code < 128), "{verb:?} with {name} as a link: {code:?}");
                assert!(place.outside() == before, "{verb:?} with {name} as a link to {target}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    eprintln!("{tried} links planted");
}

/// Nobody's identity protects root in a folder that belongs to root and that others may write.
#[test]
fn root_follows_no_link_in_a_folder_of_its_own_that_others_may_write() {
    let Some(place) = place() else { return };
    let before = place.outside();
    let beside = ["", "-wal", "-shm", "-journal", ".lock"];
    let mut planted: Vec<((&str, &str), String)> = Vec::new();
    for (verb, file) in [
        (("sync", ""), "mirror.db"),
        (("demo", "--path HOME/demo.db"), "demo.db"),
        (("backup", "HOME/copy.db"), "copy.db"),
        (("sandbox", "--port 0 --state HOME/state.ndjson"), "state.ndjson"),
    ] {
        planted.extend(beside.map(|suffix| (verb, format!("{file}{suffix}"))));
    }
    for (verb, name) in [
        (("publish", ""), "mirror.db.publish.lock"),
        (("daemon", ""), "mirror.db.sock"),
        (("init", "HOME/new.toml"), "new.toml"),
        (("man", "--dir HOME/man1"), "man1"),
    ] {
        planted.push((verb, name.into()));
    }
    for (verb, name) in planted {
        // Whether there is a mirror makes no difference to what makes a file of its own.
        let has_mirror: &[bool] = if ["demo", "sandbox"].contains(&verb.0) { &[false] } else { &[true, false] };
        let cases = has_mirror.iter().flat_map(|has| ["victim", "absent"].map(|target| (target, !has)));
        for (target, is_new) in cases {
            let home = place.fresh();
            for entry in std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()) {
                if is_new { std::fs::remove_file(&entry) } else { chown(&entry, Some(0), Some(0)) }.unwrap();
            }
            chown(&home, Some(0), Some(0)).unwrap();
            std::fs::set_permissions(&home, PermissionsExt::from_mode(0o777)).unwrap();
            let link = home.join(&name);
            let _ = std::fs::remove_file(&link);
            symlink(place.at("vault").join(target), &link).unwrap();
            lchown(&link, Some(OWNER), Some(OWNER)).unwrap();
            let code = place.run(verb, &[]);
            assert!(code.is_some_and(|code| code < 128), "{verb:?} with {name} as a link: {code:?}");
            assert!(place.outside() == before, "{verb:?} with {name} as a link to {target}");
        }
    }
}

#[test]
fn fifo_in_place_of_a_file_blocks_no_verb_of_root() {
    let Some(place) = place() else { return };
    for name in ["mirror.db", "mirror.db-wal", "mirror.db-shm", "mirror.db.lock", "mirror.db.publish.lock"] {
        for verb in [("sync", ""), ("status", ""), ("check", "--offline"), ("publish", ""), ("sql", "VALUES(1)")] {
            let planted = place.fresh().join(name);
            let _ = std::fs::remove_file(&planted);
            assert!(Command::new("mkfifo").arg(&planted).status().unwrap().success());
            lchown(&planted, Some(OWNER), Some(OWNER)).unwrap();
            let code = place.run(verb, &[]);
            assert!(code.is_some_and(|code| code < 124), "{verb:?} with {name} as a FIFO: {code:?}");
        }
    }
}
