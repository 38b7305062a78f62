//! The tokenization for full-text search: words, or sequences of three characters.

use serde::{Deserialize, Serialize};

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::file::migrate;
use crate::store::state_keys::StateKey;
use crate::store::statements::Statements;
use crate::store::tx::DerivedTx;

const DOING: &str = "make the search index";

/// The tables of a search table.
pub(super) const PARTS: [&str; 5] = ["data", "idx", "content", "docsize", "config"];

/// The text before the tokenizer in the statement that creates a search table.
const TOKENIZE: &str = "tokenize =";

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

impl DerivedTx<'_> {
    /// Recreates the search tables if the tokenization changed. They are filled if the first copy is complete.
    pub(in crate::store) fn set_search_form(&self, form: SearchForm) -> Result<(), StoreError> {
        for object in Object::ALL {
            let sql: Option<String> = self.tx.conn.find_value(
                "SELECT sql FROM sqlite_schema WHERE name = ?1",
                [object.search_table()],
                DOING,
            )?;
            if sql.is_some_and(|sql| sql.contains(&format!("{TOKENIZE} '{}'", form.tokenizer()))) {
                continue;
            }
            self.recreate_search(object, form)?;
            self.tx.clear_state(&StateKey::Searched(object))?;
        }
        Ok(())
    }

    /// Recreates the search table of an object, empty, whatever is left of it.
    pub(in crate::store) fn recreate_search(&self, object: Object, form: SearchForm) -> Result<(), StoreError> {
        let table = object.search_table();
        let begin = format!("CREATE VIRTUAL TABLE {table} ");
        let made = migrate::TABLES.split_once(&begin).and_then(|(_, rest)| rest.split_once(TOKENIZE));
        let columns = made.map_or("", |(columns, _)| columns);
        // Without its parts SQLite can neither open the table nor drop it. Nor can it where documents of this transaction
        // are still to be written, and have to go where a damaged index has others.
        let openable = format!(
            "CREATE TABLE IF NOT EXISTS {table}_data (id INTEGER PRIMARY KEY, block BLOB);
             CREATE TABLE IF NOT EXISTS {table}_idx (segid, term, pgno, PRIMARY KEY (segid, term)) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS {table}_content (id INTEGER PRIMARY KEY);
             CREATE TABLE IF NOT EXISTS {table}_docsize (id INTEGER PRIMARY KEY, sz BLOB);
             CREATE TABLE IF NOT EXISTS {table}_config (k PRIMARY KEY, v) WITHOUT ROWID;
             INSERT OR REPLACE INTO {table}_config VALUES ('version', 4);
             DELETE FROM {table}_idx"
        );
        let is_there: bool =
            self.tx.conn.value("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)", [table], DOING)?;
        if is_there {
            self.tx.conn.execute_batch(&format!("{openable}; DROP TABLE {table}")).doing(DOING)?;
        }
        // Another program may have dropped the table and left its parts.
        for part in PARTS {
            self.tx.conn.execute_batch(&format!("DROP TABLE IF EXISTS {table}_{part}")).doing(DOING)?;
        }
        self.tx.conn.execute_batch(&format!("{begin}{columns}{TOKENIZE} '{}')", form.tokenizer())).doing(DOING)
    }
}
