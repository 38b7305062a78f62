//! A row of `doubts` about the workspace: a key and an address that did not recognise it, which may be an outage.

use crate::model::instant::Instant;
use crate::store::error::StoreError;
use crate::store::sql_types::StoredTime;
use crate::store::statements::Statements;
use crate::store::tx::KnowledgeTx;

const DOING: &str = "read or write whether the workspace is recognised";

impl KnowledgeTx<'_> {
    /// Notes that a key and address did not recognise the workspace. Returns the first such moment; a later one than now was
    /// stored by a clock that was lost.
    pub fn not_recognised(&self, seen_by: &str, steady: Instant) -> Result<Instant, StoreError> {
        let of_sight = "object_type = 'workspace' AND record_id = ?1";
        self.delete_doubts(&format!("{of_sight} AND first_seen > ?2"), (seen_by, steady))?;
        self.tx.conn.run(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why, first_seen)
             VALUES ('workspace', ?1, 'unrecognised', ?2)",
            (seen_by, steady),
            DOING,
        )?;
        let sql = format!("SELECT first_seen FROM doubts WHERE {of_sight}");
        let StoredTime(first) = self.tx.conn.value(&sql, [seen_by], DOING)?;
        Ok(first.unwrap_or(steady))
    }

    /// Notes that the workspace was recognised.
    pub fn recognised(&self) -> Result<(), StoreError> {
        self.delete_doubts("object_type = 'workspace'", [])
    }
}
