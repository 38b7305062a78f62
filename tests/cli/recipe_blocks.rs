//! The recipes of `docs/sql.md`, parsed from the text itself, so that the documentation and the tests use the same queries.
//!
//! A recipe is an `sql` block. Its title is the heading above it; the sentence in between is its description. A comment
//! `<!-- needs TABLE -->` names a table that it requires.

pub const TEXT: &str = include_str!("../../docs/sql.md");

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    pub section: String,
    pub title: String,
    pub about: String,
    pub sql: String,
    pub needs: Option<String>,
}

pub fn all() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    let mut next = Recipe::default();
    let mut lines = TEXT.lines();
    while let Some(line) = lines.next() {
        if let Some(section) = line.strip_prefix("## ") {
            next = Recipe { section: section.into(), ..Recipe::default() };
        } else if let Some(title) = line.strip_prefix("### ") {
            next.title = title.into();
            next.about.clear();
        } else if let Some(table) = line.strip_prefix("<!-- needs ").and_then(|rest| rest.strip_suffix(" -->")) {
            next.needs = Some(table.into());
        } else if line == "```sql" {
            let sql: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            recipes.push(Recipe { sql: sql.join("\n"), about: next.about.trim().into(), ..next.clone() });
            next.about.clear();
            next.needs = None;
        } else if line.starts_with("```") {
            // A block in another language is not part of the description.
            lines.by_ref().find(|line| line.starts_with("```"));
        } else if !line.is_empty() {
            next.about.push_str(line);
            next.about.push(' ');
        }
    }
    recipes
}

#[test]
fn every_block_is_a_recipe_with_a_unique_title() {
    let recipes = all();
    assert_eq!(recipes.len(), TEXT.matches("\n```sql\n").count());
    let mut titles: Vec<&str> = recipes.iter().map(|recipe| recipe.title.as_str()).collect();
    assert!(titles.iter().all(|title| !title.is_empty()), "{titles:?}");
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), recipes.len());
    let questions = recipes.iter().filter(|recipe| recipe.section == "Twenty questions").count();
    assert_eq!(questions, 20);
}
