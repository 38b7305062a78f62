//! Tests the documentation: its queries run on the demo's mirror, its links resolve, and its verbs, settings, metrics
//! and tests exist and are complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::binary::{TestDir, has_sqlite3, sqlite3};

const README: &str = include_str!("../../README.md");

/// The root directory of the checkout.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of the documentation, with its path below the checkout.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "schema/README.md"].iter().map(PathBuf::from).collect();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path.strip_prefix(root()).unwrap().to_path_buf());
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        })
        .collect()
}

/// The blocks of a language, in order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.by_ref().any(|line| line == opening) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

/// The verbs of the program.
fn verbs() -> Vec<String> {
    let help = TestDir::empty().run("help").done().out;
    help.lines()
        .skip_while(|line| *line != "Start:")
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .map(String::from)
        .collect()
}

#[test]
fn readme_is_short_and_its_queries_return_rows() {
    assert!(README.lines().count() <= 150, "{}", README.lines().count());
    let queries = blocks(README, "sql");
    assert!(queries.len() >= 3, "{}", queries.len());
    let place = TestDir::empty();
    place.run("demo --path demo.db").done();
    let own = place.set("CRM_MIRROR_DATABASE__PATH", "demo.db");
    for query in &queries {
        let answer = own.ask(query.trim().trim_end_matches(';'));
        assert!(!answer.is_empty(), "{query}");
        if has_sqlite3() {
            let answer = sqlite3(&own.path("demo.db"), query);
            assert!(!answer.trim().is_empty(), "{query}");
        }
    }
}

#[test]
fn every_verb_is_documented_and_every_documented_verb_exists() {
    let verbs = verbs();
    let all: String = pages().into_iter().map(|(_, text)| text).collect();
    for verb in &verbs {
        assert!(all.contains(&format!("crm-mirror {verb}")), "{verb} is not documented");
    }
    // As code: in backticks, or at the start of a line of a block.
    for opening in ["`crm-mirror ", "\ncrm-mirror ", "$ crm-mirror "] {
        for rest in all.split(opening).skip(1) {
            let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            let prose = ["keeps", "is"].contains(&word.as_str()) || word.is_empty();
            assert!(prose || verbs.contains(&word), "`crm-mirror {word}` does not exist");
        }
    }
}

#[test]
fn every_link_resolves() {
    for (path, text) in pages() {
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(&path) } else { folder.join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            if !anchor.is_empty() {
                assert!(anchors(&target).contains(anchor), "{}: {link} names no heading", path.display());
            }
        }
    }
}

/// The anchors of a page's headings.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap();
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_documentation_page_is_listed_in_the_readme() {
    for (path, _) in pages() {
        let path = path.display().to_string();
        if path.starts_with("docs/") {
            assert!(README.contains(&format!("]({path})")), "{path} is not linked from the README");
        }
    }
}

#[test]
fn every_guarantee_names_a_test_that_exists() {
    let text = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let named: Vec<(&str, &str)> = text.split('`').filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() >= 20, "{named:?}");
    for (file, test) in named {
        let path = root().join(format!("tests/{file}.rs"));
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let exists = source.contains(&format!("fn {test}(")) || source.contains(&format!("    {test},\n    "));
        let in_shards = source.contains(&format!("in_shards!({test},"));
        assert!(exists || in_shards, "{file}::{test}");
    }
}

#[test]
fn every_setting_that_is_named_exists() {
    let defaults = include_str!("../../config/default.toml");
    let mut known = BTreeSet::new();
    let mut section = "";
    for line in defaults.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ")
            && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            known.insert(format!("{section}.{key}"));
        }
    }
    let sections: BTreeSet<&str> = known.iter().filter_map(|key| key.split('.').next()).collect();
    for (path, text) in pages() {
        // A row of a table of members begins with the path of a member, which is not a setting.
        let without_member = |line: &str| match line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
            Some((_, rest)) if path.ends_with("interfaces.md") => rest.to_string(),
            _ => line.to_string(),
        };
        let text: Vec<String> = text.lines().map(without_member).collect();
        for word in text.join("\n").split('`').skip(1).step_by(2) {
            let key = word.split(" = ").next().unwrap_or(word);
            if let Some((section, name)) = key.split_once('.')
                && sections.contains(section)
                && !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                && !["db", "toml", "md"].contains(&name)
            {
                assert!(known.contains(key), "{}: `{key}` is no setting", path.display());
            }
        }
    }
}
