//! What the mirror tells of its past: what runs spent over time, and what changed lately. Like [`crate::store::read::report`], plain
//! questions to a connection that may only read.

use serde::Serialize;

use crate::model::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;

const DOING: &str = "read the mirror's history";

/// A line of `changes`, without the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecentChange {
    /// Its number.
    pub seq: i64,
    /// `contact` or `company`.
    pub object: String,
    /// The record.
    pub id: String,
    /// `insert`, `update` or `remove`.
    pub kind: String,
    /// The columns of an update that changed; none for a record that came or went as a whole.
    pub columns: Vec<String>,
    /// When the mirror saw it, UTC.
    pub seen_at: String,
}

/// Changes that are looked at for each that is wanted.
const LOOKS: u32 = 10;

/// The last changes, the newest first, without those that moved no more than the record's version: they say nothing to a
/// person. Values are left out: whoever may look at the mirror's health need not be somebody
/// who may look at its people.
///
/// # Errors
/// If SQLite refuses.
pub fn last_changes(tx: &ReadTx<'_>, most: u32) -> Result<Vec<RecentChange>, StoreError> {
    // A record that came or went names every column it has: that says nothing, and may be thousands.
    let sql = "SELECT seq, object_type, record_id, kind, seen_at,
                      CASE kind WHEN 'update' THEN (SELECT json_group_array(f.key) FROM json_each(changes.fields) AS f) END
               FROM (SELECT * FROM changes ORDER BY seq DESC LIMIT ?2) AS changes
               WHERE kind <> 'update'
                  OR EXISTS (SELECT 1 FROM json_each(changes.fields) AS f WHERE f.key NOT IN ('etag', 'updated_at'))
               ORDER BY seq DESC LIMIT ?1";
    let mut stmt = tx.conn.prepare(sql).doing(DOING)?;
    stmt.query_map([most, most.saturating_mul(LOOKS)], |row| {
        let columns: Option<String> = row.get(5)?;
        Ok(RecentChange {
            seq: row.get(0)?,
            object: row.get(1)?,
            id: row.get(2)?,
            kind: row.get(3)?,
            columns: columns.and_then(|names| serde_json::from_str(&names).ok()).unwrap_or_default(),
            seen_at: row.get(4)?,
        })
    })
    .and_then(Iterator::collect)
    .doing(DOING)
}

/// What each run spent that ended at or after an instant, the newest first; a run counts where it ended, and one that is
/// under way has not said yet. `each` gets the end and the request units.
///
/// # Errors
/// If SQLite refuses.
pub fn spent_since(tx: &ReadTx<'_>, since: Instant, mut each: impl FnMut(Instant, u64)) -> Result<(), StoreError> {
    // One run at a time: the numbers grow with the ends, so that only what is asked for is looked at.
    let sql = "SELECT coalesce(finished_at, started_at), ru FROM sync_runs ORDER BY id DESC";
    let mut stmt = tx.conn.prepare(sql).doing(DOING)?;
    let mut rows = stmt.query([]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let ended: String = row.get(0).doing(DOING)?;
        let spent: i64 = row.get(1).doing(DOING)?;
        let Ok(ended) = ended.parse::<Instant>() else { continue };
        if ended < since {
            break;
        }
        each(ended, spent.unsigned_abs());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::reader::Reader;

    fn mirror() -> Reader {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE changes (seq INTEGER PRIMARY KEY, object_type, record_id, kind, fields, seen_at);
             CREATE TABLE sync_runs (id INTEGER PRIMARY KEY, started_at, finished_at, ru);
             INSERT INTO changes VALUES
                 (1, 'contact', 'ct_1', 'insert', '{\"name\": [null, \"Ada\"]}', '2026-03-04T12:00:00.000000Z'),
                 (3, 'contact', 'ct_1', 'update', '{\"etag\": [\"1\", \"2\"], \"updated_at\": [null, null]}', '2026-03-04T12:06:00.000000Z'),
                 (2, 'contact', 'ct_1', 'update', '{\"name\": [\"Ada\", \"Eve\"], \"email\": [null, \"e\"]}', '2026-03-04T12:05:00.000000Z');
             INSERT INTO sync_runs VALUES
                 (1, '2026-03-03T23:00:00.000000Z', '2026-03-03T23:30:00.000000Z', 100),
                 (2, '2026-03-03T23:50:00.000000Z', '2026-03-04T00:10:00.000000Z', 7),
                 (3, '2026-03-04T01:00:00.000000Z', NULL, 0);",
        )
        .unwrap();
        Reader::of(conn)
    }

    #[test]
    fn changes_name_columns_and_no_value() {
        let changes = last_changes(&mirror().begin().unwrap(), 10).unwrap();
        assert_eq!(changes.iter().map(|c| c.seq).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(changes[0].columns, ["name", "email"]);
        assert_eq!((changes[1].kind.as_str(), changes[1].columns.len()), ("insert", 0));
        let told = serde_json::to_string(&changes).unwrap();
        assert!(!told.contains("Ada") && !told.contains("Eve"), "{told}");
        assert_eq!(last_changes(&mirror().begin().unwrap(), 1).unwrap().len(), 1);
    }

    #[test]
    fn a_run_counts_where_it_ended() {
        let mut spent = Vec::new();
        spent_since(&mirror().begin().unwrap(), "2026-03-04T00:00:00Z".parse().unwrap(), |at, ru| {
            spent.push((at.to_string(), ru));
        })
        .unwrap();
        let expected = [("2026-03-04T01:00:00.000000Z", 0), ("2026-03-04T00:10:00.000000Z", 7)];
        assert_eq!(spent, expected.map(|(at, ru)| (at.to_string(), ru)));
    }
}
