//! The `sqlite3` that is installed on the machine, as people use it: an older parser than the one built in.

use std::path::Path;
use std::process::Command;

/// Whether there is one. Says so where there is none, so that a skipped test is seen.
pub fn is_there() -> bool {
    let there = Command::new("sqlite3").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no `sqlite3` on the PATH");
    }
    there
}

/// What the shell prints for a statement on a file that it opens for reading only.
pub fn run(path: &Path, sql: &str) -> Result<String, String> {
    let ran = Command::new("sqlite3")
        .args(["-batch", "-bail", "-readonly", "-cmd", ".limit column 2000"])
        .arg(path)
        .arg(sql)
        .output()
        .map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // The shell prints what it is told to set.
    let out = text(&ran.stdout);
    let out = out.lines().filter(|line| !line.trim_start().starts_with("column ")).collect::<Vec<_>>().join("\n");
    if ran.status.success() && ran.stderr.is_empty() { Ok(out) } else { Err(format!("{out}{}", text(&ran.stderr))) }
}

/// What the shell prints for statements on a file that it opens for writing, as people edit in it.
pub fn write(path: &Path, sql: &str) -> Result<String, String> {
    let ran =
        Command::new("sqlite3").args(["-batch", "-bail"]).arg(path).arg(sql).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if ran.status.success() && ran.stderr.is_empty() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) }
}
