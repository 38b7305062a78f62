//! The exact output of the verbs: `tests/golden/*.txt`. `UPDATE_GOLDEN=1 cargo test --test cli golden` rewrites the
//! files; review the difference.

use std::path::PathBuf;

use crate::binary::{Service, TestDir};

/// The verbs with a golden help text.
const VERBS: [&str; 17] = [
    "backup",
    "check",
    "completions",
    "daemon",
    "demo",
    "describe",
    "forget",
    "init",
    "man",
    "pause",
    "resume",
    "resync",
    "show",
    "sql",
    "status",
    "sync",
    "verify",
];

#[track_caller]
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "{} differs; UPDATE_GOLDEN=1 rewrites it", path.display());
}

/// Replaces what differs between runs: times, ages, sizes, ports, directories and processes.
fn steady(text: &str, place: &TestDir) -> String {
    let folder = std::fs::canonicalize(place.path("")).unwrap();
    let text = text.replace(&folder.display().to_string(), "FOLDER");
    let lines = text.lines().map(|line| {
        let words: Vec<String> = line.split(' ').map(steady_word).collect();
        let line = words.join(" ").trim_end().to_string();
        ["just now", "now", "1 s ago", "2 s ago", "3 s ago", "in 23 h", "in 1 d"]
            .iter()
            .fold(line, |line, age| line.replace(&format!("({age})"), "(AGE)"))
    });
    lines.collect::<Vec<String>>().join("\n") + "\n"
}

fn steady_word(word: &str) -> String {
    let is = |shape: &str, c: char| shape.contains(c);
    let core = word.trim_end_matches([',', ';', ':', ')', '.']);
    let rest = &word[core.len()..];
    let dated = core.len() == 10 && core.chars().all(|c| c.is_ascii_digit() || is("-", c)) && core.contains('-');
    let timed = core.len() == 8 && core.chars().all(|c| c.is_ascii_digit() || is(":", c)) && core.contains(':');
    match core {
        _ if dated => format!("DATE{rest}"),
        _ if timed => format!("TIME{rest}"),
        _ if core.starts_with("http://127.0.0.1:") => format!("http://127.0.0.1:PORT/v1{rest}"),
        _ => word.into(),
    }
}

/// The columns of tables, whose widths depend on ages.
fn columns(text: &str) -> String {
    let column = |cell: &str| match cell.trim() {
        "just now" => "AGE".to_string(),
        cell if cell.ends_with(" s ago") => "AGE".into(),
        cell if cell.len() >= 20 && cell.starts_with("20") && cell.ends_with('Z') => "TIME".into(),
        cell => cell.into(),
    };
    let line = |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).map(column).collect::<Vec<_>>().join("  ");
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn help_of_each_verb_equals_its_golden_file() {
    let place = TestDir::empty();
    for verb in VERBS {
        golden(&format!("help-{verb}"), &place.run(&format!("{verb} --help")).done().out);
    }
}

#[test]
fn outbox_equals_the_golden_files() {
    let service = Service::with(30, 4);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    golden("outbox-empty", &place.run("outbox").done().out);
    let id = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let edit = |line: &str| drop(place.run(&line.replace("ID", &id)).done());
    edit("edit contact ID position=Chief");
    edit("edit contact ID position=Head");
    golden("outbox", &columns(&place.run("outbox").done().out));
    edit("outbox drop 2 --yes");
    let all = columns(&place.run("outbox list --all").done().out);
    let who = place.ask("SELECT DISTINCT who FROM outbox_events");
    let shown = columns(&place.run("outbox show 2").done().out).replace(&format!("  {who}  "), "  USER  ");
    golden("outbox-all", &format!("{all}\n{shown}"));
}

#[test]
fn output_equals_the_golden_files() {
    let service = Service::with(30, 4);
    let place = TestDir::of(&service);
    let synced = place.run("sync").done();
    // The duration and the rest of the budget differ between runs.
    let synced = synced.out.lines().filter(|line| !line.starts_with("  RU"));
    let synced: Vec<&str> = synced.map(|line| line.split(" in ").next().unwrap_or_default()).collect();
    golden("sync", &steady(&synced.join("\n"), &place));
    golden("describe-table", &place.run("describe custom_multi_values").done().out);
    let status = place.run("status").done().out;
    let head: Vec<&str> =
        status.lines().filter(|line| line.starts_with("daemon") || line.starts_with("service")).collect();
    golden("status-head", &steady(&head.join("\n"), &place));
    let check = place.run("check --offline").done().out;
    let stable = ["config.", "key.", "service."];
    let kept = check.lines().filter(|line| stable.iter().any(|group| line.contains(group)));
    golden("check", &steady(&kept.collect::<Vec<&str>>().join("\n"), &place));
}
