//! The keys that `config/default.toml` documents, and suggestions for misspelt ones.

use super::DEFAULT_TOML;
use crate::format::distance;

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
    let near = keys.iter().map(|known| (distance(key, known), known)).min();
    let near = near.filter(|(edits, _)| *edits <= 3).map(|(_, known)| known);
    near.or_else(|| keys.iter().find(|known| known.ends_with(&format!(".{name}")))).cloned()
}
