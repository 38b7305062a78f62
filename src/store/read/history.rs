//! Reads the mirror's history: RU spent over time, and recent changes. Like [`crate::store::read::report`], these are
//! plain queries on a read-only connection.

use serde::Serialize;

use crate::model::Instant;
use crate::store::{Doing, ReadTx, Statements, StoreError};

const DOING: &str = "read the mirror's history";

/// A line of `changes`, without the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecentChange {
    pub seq: i64,
    pub object: String,
    pub id: String,
    pub kind: String,
    /// The columns of an update that changed; empty for an insert or removal.
    pub columns: Vec<String>,
    pub seen_at: String,
}

/// The number of entries that are examined for each wanted one.
const LOOKS: u32 = 10;

/// The last changes, the newest first, without those that changed only the record's version. Values are omitted: users
/// who can see the status page need not have access to personal data.
pub fn last_changes(tx: &ReadTx<'_>, most: u32) -> Result<Vec<RecentChange>, StoreError> {
    // Inserts and removals list every column, which may be thousands and says nothing.
    let sql = "SELECT seq, object_type, record_id, kind, seen_at,
                      CASE kind WHEN 'update' THEN (SELECT json_group_array(f.key) FROM json_each(changes.fields) AS f) END
               FROM (SELECT * FROM changes ORDER BY seq DESC LIMIT ?2) AS changes
               WHERE kind <> 'update'
                  OR EXISTS (SELECT 1 FROM json_each(changes.fields) AS f WHERE f.key NOT IN ('etag', 'updated_at'))
               ORDER BY seq DESC LIMIT ?1";
    tx.conn.rows(sql, [most, most.saturating_mul(LOOKS)], DOING, |row| {
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
}

/// The RU of each run that ended at or after an instant, the newest first; an unfinished run is not included. `each`
/// gets the end and the RU.
pub fn spent_since(tx: &ReadTx<'_>, since: Instant, mut each: impl FnMut(Instant, u64)) -> Result<(), StoreError> {
    // One run at a time: ids and end times increase together, so only the wanted runs are read.
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
        let json = serde_json::to_string(&changes).unwrap();
        assert!(!json.contains("Ada") && !json.contains("Eve"), "{json}");
        assert_eq!(last_changes(&mirror().begin().unwrap(), 1).unwrap().len(), 1);
    }

    #[test]
    fn run_counts_in_the_window_in_which_it_ended() {
        let mut spent = Vec::new();
        spent_since(&mirror().begin().unwrap(), "2026-03-04T00:00:00Z".parse().unwrap(), |at, ru| {
            spent.push((at.to_string(), ru));
        })
        .unwrap();
        let expected = [("2026-03-04T01:00:00.000000Z", 0), ("2026-03-04T00:10:00.000000Z", 7)];
        assert_eq!(spent, expected.map(|(at, ru)| (at.to_string(), ru)));
    }
}
