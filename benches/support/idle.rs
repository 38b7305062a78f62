//! The memory of a daemon that has nothing to do: the program itself, with the settings of its unit, on its own sandbox.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Outcome;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crm-mirror");
/// After this time a daemon has opened its mirror, completed its first run and released what that took.
const REST: Duration = Duration::from_secs(15);

/// A program that ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Ending what has ended already is no failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies so many contacts into a folder, and gives the MiB that the daemon of this mirror has resident at rest.
pub fn daemon_mib(rows: usize, dir: &Path) -> Outcome<f64> {
    let mut sandbox = Command::new(PROGRAM)
        .args(["sandbox", "--port", "0", "--contacts", &rows.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Running)?;
    let mut lines = BufReader::new(sandbox.0.stdout.take().ok_or("the sandbox says nothing")?).lines();
    let mut told = |name: &str| -> Outcome<String> {
        let line = lines.next().ok_or("the sandbox did not start")??;
        Ok(line.strip_prefix(name).ok_or_else(|| format!("`{line}` is not `{name}…`"))?.to_string())
    };
    let (base_url, key) = (told("base_url: ")?, told("api_key: ")?);
    let config = dir.join("crm-mirror.toml");
    fs::write(
        &config,
        format!(
            "[api]\nbase_url = \"{base_url}\"\nkey_file = \"api-key\"\n[database]\npath = \"idle.db\"\n\
             [budget]\nlimit = 1000000\n[sync]\ndetails = \"off\"\n"
        ),
    )?;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join("api-key"))?
        .write_all(key.as_bytes())?;
    let command = |verb: &str| {
        let mut command = Command::new(PROGRAM);
        command.arg(verb).arg("--config").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    if !command("sync").status()?.success() {
        return Err("the first copy failed".into());
    }
    let daemon = command("daemon")
        .envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "131072")])
        .spawn()
        .map(Running)?;
    std::thread::sleep(REST);
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.0.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the daemon has ended")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no figure")?.parse()?;
    Ok(kib / 1024.0)
}
