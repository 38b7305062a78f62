//! Reads a mirror from end to end with SQLite 3.37.0: every table, every view, every index by an integrity check; and edits
//! a contact with it.
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
    drop(conn);
    edit(path)?;
    lines.push("edit|ok".into());
    Ok(lines)
}

/// Edits a contact as people do, in a transaction that is taken back.
fn edit(path: &str) -> std::result::Result<(), String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let mut conn = Connection::open_with_flags(path, flags).map_err(|e| e.to_string())?;
    let tx = conn.transaction().map_err(|e| e.to_string())?;
    let run = |sql: &str| tx.execute_batch(sql).map_err(|e| e.to_string());
    let one = "id = (SELECT min(id) FROM contacts)";
    let refused = |set: &str, told: &str| match run(&format!("UPDATE contacts_full SET {set} WHERE {one}")) {
        Err(error) if error.contains(told) => Ok(()),
        other => Err(format!("UPDATE with {set}: {other:?}")),
    };
    refused("email = 'x'", "email is read-only")?;
    refused("cf_birthday = '2023-02-29'", "cf_birthday takes a real date")?;
    refused(
        "cf_next_call = '2023-02-29T00:00:00Z'",
        "cf_next_call takes a timestamp",
    )?;
    refused("cf_topics = '[\"none\"]'", "cf_topics takes a JSON array")?;
    refused("cf_lifetime_value = '1e3'", "cf_lifetime_value takes a decimal")?;
    run(&format!(
        "UPDATE contacts_full SET position = 'One of 3.37', cf_topics = json('[\"api\"]'), cf_birthday = '2024-02-29',
         cf_next_call = '2026-01-02T03:04:05+02:00', cf_lifetime_value = '12.50' WHERE {one}"
    ))?;
    let queued = "SELECT count(*) = 1 AND json_extract(max(fields), '$.cf_topics[1]') = '[\"api\"]'
                  AND json_extract(max(fields), '$.cf_next_call[1]') = '2026-01-02T01:04:05.000000Z'
                  AND (SELECT count(*) FROM outbox_events WHERE outbox_id = max(outbox.id)) = 1
                  AND (SELECT count(*) FROM pending_edits) = 5 FROM outbox WHERE finished_at IS NULL";
    match tx.query_row(queued, [], |row| row.get::<_, bool>(0)) {
        Ok(true) => tx.rollback().map_err(|e| e.to_string()),
        other => Err(format!("the edit was queued otherwise: {other:?}")),
    }
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
