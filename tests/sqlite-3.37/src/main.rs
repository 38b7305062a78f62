//! Reads a mirror from end to end with SQLite 3.37.0: every table, every view, every index by an integrity check.
//!
//! One entry of the schema that it does not know makes the whole file unreadable, so that any of this works at all is
//! most of the proof. Prints a line for each table and view with its rows; ends with 1 where anything is refused.

use std::process::ExitCode;

use rusqlite::{Connection, OpenFlags, Result};

const OLDEST: &str = "3.37.0";

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: sqlite-3-37 MIRROR");
        return ExitCode::from(2);
    };
    match read(&path) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("SQLite {}: {what}", rusqlite::version());
            ExitCode::FAILURE
        }
    }
}

fn read(path: &str) -> std::result::Result<Vec<String>, String> {
    if rusqlite::version() != OLDEST {
        return Err(format!("built with another SQLite than {OLDEST}"));
    }
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|e| e.to_string())?;
    let mut lines = vec![format!("sqlite|{}", rusqlite::version())];
    let entries = entries(&conn).map_err(|e| format!("the schema: {e}"))?;
    for (kind, name) in &entries {
        let rows = rows(&conn, name).map_err(|e| format!("{kind} {name}: {e}"))?;
        lines.push(format!("{kind}|{name}|{rows}"));
    }
    if !entries.iter().any(|(_, name)| name == "contacts_full") {
        return Err("there is no view contacts_full".into());
    }
    let checked: String = conn
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|e| format!("integrity check: {e}"))?;
    if checked != "ok" {
        return Err(format!("integrity check: {checked}"));
    }
    lines.push("integrity_check|ok".into());
    Ok(lines)
}

/// Tables and views, the parts of search tables left out: those are read through their table.
fn entries(conn: &Connection) -> Result<Vec<(String, String)>> {
    let mut stmt = conn.prepare("PRAGMA main.table_list")?;
    let rows = stmt.query_map([], |row| Ok((row.get("type")?, row.get("name")?)))?;
    let mut entries = rows.collect::<Result<Vec<(String, String)>>>()?;
    entries.retain(|(kind, name)| kind != "shadow" && !name.starts_with("sqlite_"));
    entries.sort();
    Ok(entries)
}

/// Reads every value of every row.
fn rows(conn: &Connection, name: &str) -> Result<u64> {
    let mut stmt = conn.prepare(&format!("SELECT * FROM \"{}\"", name.replace('"', "\"\"")))?;
    let columns = stmt.column_count();
    let mut rows = stmt.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            row.get_ref(column)?;
        }
        count += 1;
    }
    Ok(count)
}
