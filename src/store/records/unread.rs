//! Rows of `doubts` about what only a request shows: records that a list says too little about, details that could not be
//! read, and custom keys without a definition.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::params;

use crate::model::catalogue::Object;
use crate::model::ids::{Etag, FieldKey, RecordId};
use crate::model::instant::Instant;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::records::doubts::key_type;
use crate::store::sql_types::{StoredTime, json_list};
use crate::store::statements::Statements;
use crate::store::tx::UnreadTx;

const DOING: &str = "read or write what is not read yet";

/// How long a record waits after the first failure of its detail, for each request that was made.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(12 * 60);
/// The longest wait. A longer one was stored by a clock that was lost.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
/// The maximum number of keys without a definition per object; beyond that, keys cause no reading.
const MAX_KEYS: usize = 1_000;

/// How long a record waits after so many requests that failed, and so many failures before.
fn wait_after(requests: u32, failures: u32) -> Duration {
    // Two attempts with three requests each would exceed five in an hour.
    let first = if requests > 2 { HOUR } else { WAIT_PER_REQUEST.saturating_mul(requests.max(1)) };
    first.saturating_mul(1 << failures.min(10)).min(MAX_WAIT)
}

/// The records to be read by id because a list omitted a value that is stored here.
pub fn omitted(tx: &ReadTx<'_>, object: Object) -> Result<Vec<RecordId>, StoreError> {
    let sql = "SELECT record_id FROM doubts WHERE object_type = ?1 AND why = 'omitted'";
    tx.conn.column(sql, [object], DOING)
}

/// How many records are to be read by id because a list omitted a value.
pub fn count_omitted(tx: &ReadTx<'_>, object: Object) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM doubts WHERE object_type = ?1 AND why = 'omitted'";
    tx.conn.count(sql, [object], DOING)
}

/// The records whose detail could not be read in their present version, and is not requested again yet.
pub fn waiting_details(tx: &ReadTx<'_>, object: Object, steady: Instant) -> Result<HashSet<RecordId>, StoreError> {
    let sql = format!(
        "SELECT record_id FROM doubts AS d JOIN {} AS r ON r.id = d.record_id AND r.etag IS d.etag
         WHERE d.object_type = ?1 AND why = 'failed' AND not_before > ?2 AND not_before <= ?3",
        object.table()
    );
    tx.conn.column(&sql, (object, steady, steady.plus(MAX_WAIT)), DOING)
}

/// How many requests that failed are still to be paid for by the share for them, and since when that share pays.
pub fn failed_owed(tx: &ReadTx<'_>, object: Object) -> Result<Option<(Instant, u32)>, StoreError> {
    let owed: Option<(StoredTime, u32)> = tx.conn.find(
        "SELECT not_before, tries FROM doubts WHERE object_type = ?1 AND record_id = '' AND why = 'failed'",
        [object],
        DOING,
        |row| row.try_into(),
    )?;
    Ok(owed.and_then(|(since, requests)| Some((since.0?, requests))))
}

impl UnreadTx<'_> {
    /// Notes that these records are to be read by id.
    pub fn mark_unread(&self, object: Object, ids: &[RecordId]) -> Result<(), StoreError> {
        self.run(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why) SELECT ?1, value, 'omitted' FROM json_each(?2)",
            params![object, json_list(ids)],
        )
    }

    /// Forgets records to be read by id that were removed meanwhile.
    pub fn forget_removed_unread(&self, object: Object) -> Result<(), StoreError> {
        let table = object.table();
        let is_removed = format!("object_type = ?1 AND why = 'omitted' AND record_id NOT IN (SELECT id FROM {table})");
        self.tx.knowledge().delete_doubts(&is_removed, [object])
    }

    /// Notes that a record's detail was read.
    pub fn was_read(&self, object: Object, id: &RecordId) -> Result<(), StoreError> {
        let of_record = "object_type = ?1 AND record_id = ?2 AND why IN ('omitted', 'failed')";
        self.tx.knowledge().delete_doubts(of_record, (object, id))
    }

    /// Notes that the detail of a record could not be read with so many requests: it waits longer each time until the
    /// record changes. A record that was removed meanwhile is not noted.
    pub fn detail_failed(
        &self,
        object: Object,
        id: &RecordId,
        requests: u32,
        (steady, owed): (Instant, (Instant, u32)),
    ) -> Result<(), StoreError> {
        let Some(etag) = self.tx.versions(object, std::slice::from_ref(id))?.remove(id) else { return Ok(()) };
        let before: Option<(Option<Etag>, u32)> = self.tx.conn.find(
            "SELECT etag, tries FROM doubts WHERE object_type = ?1 AND record_id = ?2 AND why = 'failed'",
            (object, id),
            DOING,
            |row| row.try_into(),
        )?;
        let failures = before.filter(|(of, _)| *of == etag).map_or(0, |(_, failures)| failures);
        let not_before = steady.plus(wait_after(requests, failures));
        let row = "INSERT OR REPLACE INTO doubts (object_type, record_id, why, etag, tries, not_before)
                   VALUES (?1, ?2, 'failed', ?3, ?4, ?5)";
        let failures = failures.saturating_add(1);
        self.run(row, params![object, id, etag, failures, not_before])?;
        let (since, requests) = owed;
        self.run(row, params![object, "", None::<Etag>, requests, since])
    }

    /// Notes custom keys without a definition. Returns whether the definitions were not read since one of them was seen.
    pub fn mark_unknown_keys<'k>(
        &self,
        object: Object,
        keys: impl IntoIterator<Item = &'k FieldKey>,
    ) -> Result<bool, StoreError> {
        let keys: BTreeSet<&str> = keys.into_iter().map(FieldKey::as_str).collect();
        if keys.is_empty() {
            return Ok(false);
        }
        let known: BTreeMap<String, bool> = self.tx.conn.rows(
            "SELECT record_id, tries > 0 FROM doubts WHERE object_type = ?1 AND why = 'unknown key'",
            [key_type(object)],
            DOING,
            |row| row.try_into(),
        )?;
        let room = MAX_KEYS.saturating_sub(known.len());
        let is_unread = |key: &str| known.get(key) == Some(&false);
        let new: Vec<&str> = keys.iter().filter(|key| !known.contains_key(**key)).take(room).copied().collect();
        for key in &new {
            let row = "INSERT INTO doubts (object_type, record_id, why) VALUES (?1, ?2, 'unknown key')";
            self.run(row, [&key_type(object), *key])?;
        }
        Ok(!new.is_empty() || keys.into_iter().any(is_unread))
    }

    /// Notes that the definitions were read: for the keys seen so far, reading them again would be useless. Later definitions
    /// are found by the regular reading.
    pub fn definitions_were_read(&self) -> Result<(), StoreError> {
        self.run("UPDATE doubts SET tries = 1 WHERE why = 'unknown key'", [])
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), StoreError> {
        self.tx.conn.run(sql, values, DOING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_detail_waits_longer_each_time() {
        let minutes = |requests| (0..9).map(move |failures| wait_after(requests, failures).as_secs() / 60);
        assert_eq!(minutes(1).collect::<Vec<_>>(), [12, 24, 48, 96, 192, 384, 768, 1440, 1440]);
        assert_eq!(minutes(2).next(), Some(24));
        for requests in [3, 5] {
            assert_eq!(minutes(requests).take(2).collect::<Vec<_>>(), [60, 120]);
        }
    }
}
