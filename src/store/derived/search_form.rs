//! The tokenization for full-text search: words, or sequences of three characters.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "make the search index";

/// The text before the tokenizer in the statement that creates a search table.
const TOKENIZE: &str = "tokenize =";

/// The tokenization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchForm {
    /// Words, ignoring accents and case.
    #[default]
    Words,
    /// Every sequence of three characters: finds parts of words, and texts without spaces between words.
    Trigram,
}

impl SearchForm {
    /// The tokenizer argument of SQLite's FTS5.
    const fn tokenizer(self) -> &'static str {
        match self {
            SearchForm::Words => "unicode61 remove_diacritics 2",
            SearchForm::Trigram => "trigram",
        }
    }
}

impl MirrorTx<'_> {
    /// Recreates the search tables if the tokenization changed. They are filled if the first copy is complete.
    pub(in crate::store) fn set_search_form(&self, form: SearchForm) -> Result<(), StoreError> {
        for object in Object::ALL {
            let table = object.search_table();
            let sql: Option<String> = self
                .conn
                .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
                .optional()
                .doing(DOING)?;
            let Some(sql) = sql else { continue };
            let Some((columns, _)) = sql.split_once(TOKENIZE) else { continue };
            let made = format!("{columns}{TOKENIZE} '{}')", form.tokenizer());
            if sql.contains(&format!("{TOKENIZE} '{}'", form.tokenizer())) {
                continue;
            }
            self.conn.execute_batch(&format!("DROP TABLE {table}; {made}")).doing(DOING)?;
            self.clear_state(&StateKey::Searched(object))?;
        }
        Ok(())
    }
}
