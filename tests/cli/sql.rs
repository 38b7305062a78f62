//! `sql`: the built-in SQLite, read-only.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::binary::{Ended, Service, TestDir};

fn mirrored() -> (Service, TestDir) {
    let service = Service::with(40, 6);
    let place = TestDir::of(&service);
    place.run("sync").done();
    (service, place)
}

fn sql(place: &TestDir, args: &[&str]) -> Ended {
    let args: Vec<&str> = ["sql"].iter().chain(args).copied().collect();
    place.command(&args).output().unwrap().into()
}

#[test]
fn rows_are_printed_as_table_json_or_csv() {
    let (_service, place) = mirrored();
    let statement = "SELECT 'a,b' AS x, NULL AS y, count(*) AS n FROM contacts";
    let table = sql(&place, &[statement]).done();
    assert_eq!(table.out, "x    y      n\na,b  NULL  40\n");
    let csv = sql(&place, &["--format", "csv", statement]).done();
    assert_eq!(csv.out, "x,y,n\r\n\"a,b\",,40\r\n");
    let found = sql(&place, &["--json", statement]).done().json();
    assert_eq!(found, json!([{"x": "a,b", "y": null, "n": 40}]));
    let nothing = sql(&place, &["--json", "SELECT 1 WHERE 0"]).done();
    assert_eq!(nothing.out, "[]\n");
    for both in [["--json", "sql", "--format", "csv", statement], ["sql", "--json", "--format", "csv", statement]] {
        let ended = Ended::from(place.command(&both).output().unwrap()).code(2);
        assert!(ended.err.contains("exclude each other"), "{}", ended.err);
    }
}

#[test]
fn sums_are_exact() {
    let (_service, place) = mirrored();
    assert_eq!(place.ask("SELECT decimal_sum(column1) FROM (VALUES ('0.1'), ('0.2'), (NULL))"), "0.3");
    assert_eq!(
        place.ask("SELECT decimal_sum(column1) FROM (VALUES ('99999999999999999999.9999999999'), (1))"),
        "100000000000000000000.9999999999"
    );
    let refused = sql(&place, &["SELECT decimal_sum('1e38')"]).code(2);
    assert!(refused.err.contains("not a decimal number"), "{}", refused.err);
}

#[test]
fn invalid_statement_is_a_usage_error() {
    let (_service, place) = mirrored();
    let before = std::fs::read(place.path("mirror.db")).unwrap();
    for (statement, part) in [
        ("SELEKT 1", "syntax error"),
        ("SELECT nme FROM contacts", "no such column: nme"),
        ("SELECT \"nme\" FROM contacts", "no such column"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "the statement is empty"),
        ("DELETE FROM contacts", "read-only"),
        ("UPDATE contacts SET name = NULL RETURNING id", "readonly"),
        ("ATTACH 'new.db' AS n", "error: "),
    ] {
        let ended = sql(&place, &[statement]).code(2);
        assert!(ended.err.contains(part) && ended.err.starts_with("error: "), "{statement}: {}", ended.err);
        assert!(ended.out.is_empty(), "{statement}: {}", ended.out);
    }
    assert_eq!(std::fs::read(place.path("mirror.db")).unwrap(), before);
    assert!(!place.path("new.db").exists());
}

#[test]
fn statement_can_be_read_from_stdin() {
    let (_service, place) = mirrored();
    let mut child =
        place.command(&["sql", "--format", "csv", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 7 AS x\n").unwrap();
    assert_eq!(Ended::from(child.wait_with_output().unwrap()).done().out, "x\r\n7\r\n");
}

#[test]
fn database_option_needs_no_configuration() {
    let (_service, place) = mirrored();
    let elsewhere = TestDir::empty().set("CRM_MIRROR_SYNC__NONSENSE", "1");
    let path = place.path("mirror.db");
    let ended = sql(&elsewhere, &["--database", path.to_str().unwrap(), "SELECT count(*) AS n FROM companies"]);
    assert_eq!(ended.done().out, "n\n6\n");
    sql(&elsewhere, &["SELECT 1"]).code(78);
    sql(&TestDir::empty(), &["SELECT 1"]).code(74);
}

#[test]
fn closed_stdout_ends_sql_silently() {
    let (_service, place) = mirrored();
    // More than a pipe's buffer.
    let many = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n";
    for format in ["--format=table", "--json", "--format=csv"] {
        let mut child =
            place.command(&["sql", format, many]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::from(child.wait_with_output().unwrap()).done();
        assert!(ended.err.is_empty(), "{format}: {}", ended.err);
    }
}

#[test]
fn damaged_file_is_no_mistake_of_the_statement() {
    let (_service, place) = mirrored();
    let path = place.path("mirror.db");
    let ask = |sql: &str| place.ask(sql).parse::<usize>().unwrap();
    let root = ask("SELECT rootpage FROM sqlite_schema WHERE name = 'contacts'");
    let size = ask("SELECT page_size FROM pragma_page_size");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(root - 1) * size..root * size].fill(0xFF);
    std::fs::write(&path, bytes).unwrap();
    let ended = sql(&place, &["SELECT name FROM contacts NOT INDEXED"]).code(74);
    assert!(ended.err.contains("malformed\nhint: ") && ended.err.contains("restore a backup"), "{}", ended.err);
    sql(&place, &["SELECT nothing FROM contacts"]).code(2);
}
