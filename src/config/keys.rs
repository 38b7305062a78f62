//! The keys that `config/default.toml` documents, and suggestions for misspelt ones.

use super::DEFAULT_TOML;

/// Every documented key as `section.key`, in the order of the document; keys without a default are commented out there.
pub(super) fn documented() -> Vec<String> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ")
            && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        {
            keys.push(format!("{section}.{key}"));
        }
    }
    keys
}

/// The key that was most likely meant: a similar name, or the same name in another section.
pub(super) fn closest(key: &str) -> Option<String> {
    let name = key.rsplit('.').next().unwrap_or(key);
    let keys = documented();
    let near = keys.iter().map(|known| (edits(key, known), known)).min();
    let near = near.filter(|(edits, _)| *edits <= 3).map(|(_, known)| known);
    near.or_else(|| keys.iter().find(|known| known.ends_with(&format!(".{name}")))).cloned()
}

/// The Levenshtein distance of two short texts.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
