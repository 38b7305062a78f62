//! The revision of the code that makes derived data: a mirror that another revision derived is derived again when it is
//! opened.
//!
//! # Why the source text
//! The statements of views, triggers and indexes are assembled from the layout, so no constant holds them, and a number
//! that is raised by hand is forgotten. A change of the text that does not change a statement derives the data once more
//! than necessary.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use crate::store::file::migrate;

/// The sources of everything that is derived.
const SOURCES: [(&str, &str); 12] = [
    ("build.rs", include_str!("build.rs")),
    ("dictionary.rs", include_str!("dictionary.rs")),
    ("indexes.rs", include_str!("indexes.rs")),
    ("options.rs", include_str!("options.rs")),
    ("search.rs", include_str!("search.rs")),
    ("search_document.rs", include_str!("search_document.rs")),
    ("views.rs", include_str!("views.rs")),
    ("../claims.rs", include_str!("../claims.rs")),
    ("../outbox/accepted_values.rs", include_str!("../outbox/accepted_values.rs")),
    ("../outbox/known_values.rs", include_str!("../outbox/known_values.rs")),
    ("../outbox/queue.rs", include_str!("../outbox/queue.rs")),
    ("../outbox/triggers.rs", include_str!("../outbox/triggers.rs")),
];

/// The revision: the schema, and a digest of the sources.
pub(super) static REVISION: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for (name, source) in SOURCES {
        digest.update(name);
        digest.update(source);
    }
    let digest = digest.finalize();
    format!("{}-{:02x}{:02x}{:02x}{:02x}", migrate::KNOWN, digest[0], digest[1], digest[2], digest[3])
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_derived_data_is_named() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/derived");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !["mod.rs", "revision.rs"].contains(&name.as_str()))
            .collect();
        there.sort();
        let named: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("..")).collect();
        assert_eq!(named, there);
    }
}
