//! The README's recipes run on the demo's mirror, in the system's own shell, and answer something.

use crate::binary::{Place, has_sqlite3, sqlite3};

const README: &str = include_str!("../../README.md");

/// The blocks of a language, in order.
fn blocks(language: &str) -> Vec<String> {
    let opening = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = README.lines();
    while lines.by_ref().any(|line| line == opening) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

#[test]
fn every_recipe_answers_something() {
    let recipes = blocks("sql");
    assert!(recipes.len() >= 8, "{}", recipes.len());
    let place = Place::empty();
    place.run("demo --path demo.db").done();
    let own = place.set("CRM_MIRROR_DATABASE__PATH", "demo.db");
    for recipe in &recipes {
        let answer = own.ask(recipe.trim().trim_end_matches(';'));
        assert!(!answer.is_empty(), "{recipe}");
        if has_sqlite3() {
            let answer = sqlite3(&own.path("demo.db"), recipe);
            assert!(!answer.trim().is_empty(), "{recipe}");
        }
    }
}

#[test]
fn every_verb_that_is_named_exists_and_every_verb_is_named() {
    let help = Place::empty().run("help").done().out;
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    for verb in &verbs {
        assert!(README.contains(&format!("crm-mirror {verb}")), "{verb} is not in the README");
    }
    // As code: in backticks, or at the beginning of a line of a block.
    for opening in ["`crm-mirror ", "\ncrm-mirror "] {
        for rest in README.split(opening).skip(1) {
            let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            let prose = ["keeps"].contains(&word.as_str());
            assert!(prose || verbs.contains(&word.as_str()), "`crm-mirror {word}` does not exist");
        }
    }
}

#[test]
fn every_guarantee_names_a_test_that_exists() {
    let section = README.split("\n## What is guaranteed").nth(1).unwrap().split("\n## ").next().unwrap();
    let named: Vec<(&str, &str)> = section.split('`').filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() >= 20, "{named:?}");
    for (file, test) in named {
        let path = format!("{}/tests/{file}.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&path).unwrap();
        assert!(source.contains(&format!("fn {test}(")), "{file}::{test}");
    }
}
