//! Team members: a short list that is always read whole.

use crate::model::instant::Instant;
use crate::model::record::Record;
use crate::store::error::{Doing, StoreError};
use crate::store::records::upsert::Applied;
use crate::store::runs::entry::Tally;
use crate::store::tx::MirrorTx;

impl MirrorTx<'_> {
    /// Takes the whole list of team members: writes what changed, deletes who is no longer listed.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn apply_team(&self, records: &[Record], asked_at: Instant) -> Result<Tally, StoreError> {
        let shape = self.shapes.team();
        let mut tally = Tally { rows: records.len() as u64, ..Tally::default() };
        for record in records {
            match self.apply_plain(&shape, record, asked_at)? {
                Applied::Inserted => tally.inserted += 1,
                Applied::Updated => tally.updated += 1,
                Applied::Unchanged | Applied::Older => continue,
            }
            tally.warnings += u64::from(record.odd);
        }
        let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
        // An empty answer is no proof that everyone left.
        if !ids.is_empty() {
            let ids = serde_json::Value::from(ids).to_string();
            let left = self
                .conn
                .execute("DELETE FROM team_members WHERE id NOT IN (SELECT value FROM json_each(?1))", [ids])
                .doing("delete team members who left")?;
            tally.removed += left as u64;
        }
        Ok(tally)
    }
}
