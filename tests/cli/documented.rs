//! Compares JSON documents with their tables in `docs/interfaces.md`: every member that is printed is documented with its
//! type, and every documented member is printed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const PAGE: &str = include_str!("../../docs/interfaces.md");

/// The members of a document: their types by path.
pub struct DocumentTable {
    types: BTreeMap<String, String>,
}

impl DocumentTable {
    /// The table of members below a heading; several positions are merged into one table.
    #[track_caller]
    pub fn read(heading: &str, positions: &[usize]) -> DocumentTable {
        let title = format!("\n## {heading}\n");
        let (_, rest) = PAGE.split_once(&title).unwrap_or_else(|| panic!("no heading `{heading}`"));
        let section = rest.split("\n## ").next().unwrap();
        let mut tables: Vec<BTreeMap<String, String>> = Vec::new();
        for line in section.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            match cells[..] {
                ["member", "type", "meaning"] => tables.push(BTreeMap::new()),
                [member, kind, _] if member.starts_with('`') => {
                    let table = tables.last_mut().unwrap();
                    table.insert(member.trim_matches('`').to_string(), kind.to_string());
                }
                _ => {}
            }
        }
        let types = positions.iter().flat_map(|&position| tables[position].clone()).collect();
        DocumentTable { types }
    }

    /// Compares documents of this kind with the table. A member that no document prints is an error unless its parent
    /// was null or empty in all documents or the table marks it as optional.
    #[track_caller]
    pub fn check(&self, documents: &[Value]) {
        let mut seen = BTreeSet::new();
        let mut problems = Vec::new();
        for document in documents {
            self.walk("", document, &mut seen, &mut problems);
        }
        for (path, kind) in &self.types {
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent.trim_end_matches("[]"));
            if seen.contains(path) || kind.ends_with("may be absent") {
                continue;
            }
            let filled = |document: &Value| !at(document, parent).is_empty();
            if parent.is_empty() || documents.iter().any(filled) {
                problems.push(format!("`{path}` is documented and not printed"));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    fn walk(&self, path: &str, value: &Value, seen: &mut BTreeSet<String>, problems: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let join = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
                    let Some(member) = [join(name), join("*")].into_iter().find(|path| self.types.contains_key(path))
                    else {
                        // A group such as `ru` or `labels.*` has no row; its members do.
                        let groups = [join(name), join("*")];
                        let known = |group: &&String| self.types.keys().any(|k| k.starts_with(&format!("{group}.")));
                        match groups.iter().find(known) {
                            Some(group) => self.walk(group, value, seen, problems),
                            None => problems.push(format!("`{}` is printed and not documented", groups[0])),
                        }
                        continue;
                    };
                    let kind = &self.types[&member];
                    if !fits(kind, value) {
                        problems.push(format!("`{member}` is documented as {kind} and is {value}"));
                    }
                    seen.insert(member.clone());
                    let has_members = self.types.keys().any(|known| {
                        known.strip_prefix(&member).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]."))
                    });
                    if has_members {
                        self.walk(&member, value, seen, problems);
                    }
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    self.walk(&format!("{path}[]"), element, seen, problems);
                }
            }
            _ => {}
        }
    }
}

/// The members of the objects at a path, `[]` and `*` included.
fn at<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut values = vec![document];
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let name = step.trim_end_matches("[]");
        values = values
            .into_iter()
            .flat_map(|value| match value {
                Value::Object(members) if name == "*" => members.values().collect(),
                Value::Object(members) => members.get(name).into_iter().collect(),
                _ => Vec::new(),
            })
            .flat_map(|value| match value {
                Value::Array(elements) => elements.iter().collect(),
                value => vec![value],
            })
            .collect();
    }
    values.into_iter().filter(|value| !value.is_null() && **value != Value::Object(serde_json::Map::new())).collect()
}

/// Whether a value is of a documented type.
fn fits(kind: &str, value: &Value) -> bool {
    let kind = kind.trim_end_matches(", may be absent");
    kind.split(" or ").any(|kind| match kind {
        "any" => true,
        "null" => value.is_null(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "list" => value.is_array(),
        "list of texts" => value.as_array().is_some_and(|elements| elements.iter().all(Value::is_string)),
        "text" => value.is_string(),
        "time" => value.as_str().is_some_and(|text| text.len() == 27 && text.ends_with('Z')),
        _ => false,
    })
}
