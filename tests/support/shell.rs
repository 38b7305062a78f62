//! The `sqlite3` installed on the machine: an older parser than the built-in one.

use std::path::Path;
use std::process::Command;

/// Whether it exists. Prints a note if not, so that a skipped test is visible.
pub fn is_there() -> bool {
    let there = Command::new("sqlite3").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no `sqlite3` on the PATH");
    }
    there
}

/// The output of a statement on a file opened read-only.
pub fn run(path: &Path, sql: &str) -> Result<String, String> {
    let ran = Command::new("sqlite3")
        .args(["-batch", "-bail", "-readonly", "-cmd", ".limit column 2000"])
        .arg(path)
        .arg(sql)
        .output()
        .map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // The shell prints the values that it sets.
    let out = text(&ran.stdout);
    let out = out.lines().filter(|line| !line.trim_start().starts_with("column ")).collect::<Vec<_>>().join("\n");
    if ran.status.success() && ran.stderr.is_empty() { Ok(out) } else { Err(format!("{out}{}", text(&ran.stderr))) }
}

/// The output of statements on a file opened for writing, as users edit.
pub fn write(path: &Path, sql: &str) -> Result<String, String> {
    let ran =
        Command::new("sqlite3").args(["-batch", "-bail"]).arg(path).arg(sql).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if ran.status.success() && ran.stderr.is_empty() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) }
}
