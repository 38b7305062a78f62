//! Team members: a short list that is always read whole.

use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::model::record::Record;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::records::upsert::Applied;
use crate::store::runs::entry::Tally;
use crate::store::statements::Statements;
use crate::store::tx::RecordsTx;

impl RecordsTx<'_> {
    /// Stores the whole list of team members: writes changes, deletes those whose removal is known.
    pub fn apply_team(&self, records: &[Record], gone: &[RecordId], asked_at: Instant) -> Result<Tally, StoreError> {
        let shape = self.tx.shapes().team();
        let mut tally = Tally { rows: records.len() as u64, ..Tally::default() };
        for record in records {
            match self.apply_plain(&shape, record, asked_at)? {
                Applied::Inserted => tally.inserted += 1,
                Applied::Updated => tally.updated += 1,
                Applied::Unchanged | Applied::Older => continue,
            }
            tally.warnings += u64::from(record.inexact);
        }
        for id in gone {
            let delete = "DELETE FROM team_members WHERE id = ?1";
            let left = self.tx.conn.change(delete, [id], "delete team members who left")?;
            tally.removed += left as u64;
        }
        Ok(tally)
    }
}

impl ReadTx<'_> {
    pub fn team_ids(&self) -> Result<Vec<RecordId>, StoreError> {
        self.conn.column("SELECT id FROM team_members", [], "read the team members")
    }
}
