//! `doubts`: records that need another look. Whether an answer decides about one says [`AnswerTime`].
//!
//! # The rows
//! A record is `missed` if an answer that should have it did not: it is nominated for removal. It is `older` if an
//! answer showed it in an earlier version than the row has, or although it was removed just before (`gone`). An answer
//! that shows the record, or its version, ends the doubt. One that shows the version that an update of ours has replaced
//! shows an earlier version too, whatever its date.
//! Doubts are looked up by id with increasing delay; one that was refuted keeps its delay, so that answers that
//! contradict each other cost a bounded number of requests.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::params;
use serde::Deserialize;

use crate::model::answer_time::MOMENTS_APART;
use crate::model::ids::MAX_PREDICATE;
use crate::model::{AnswerTime, CustomField, Instant, Object, RecordId, growing};
use crate::store::custom::rows::layout;
use crate::store::records::shape::with_details;
use crate::store::{KnowledgeTx, ReadTx, Result, Statements, StoredTime, Version, fits_a_list, json_list};

/// The first and the longest delay of a lookup.
const WAITS: (Duration, Duration) = (MOMENTS_APART, Duration::from_secs(6 * 3600));
/// How long removals count, and how often a tie is listed.
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest wait of all. A longer one was stored by a clock that was lost.
pub(super) const MAX_WAIT: Duration = DAY;
/// Doubts that a page raises are looked up by the schedule at most once in this time.
const LOOKUPS_APART: Duration = Duration::from_secs(60);
/// How new a row is.
const TIME: &str = "max(coalesce(updated_at, ''), coalesce(created_at, ''))";
/// Why a record is in doubt until it is removed. Rows are found by reason first: no removal looks through all.
const OF_RECORD: &str = "why IN ('missed', 'older', 'omitted', 'null group', 'failed')";
/// What an answer may end or raise: a removal without a version only counts.
const OF_VERSION: &str = "(why IN ('missed', 'older') OR why = 'gone' AND version IS NOT NULL)";
/// A record that may be removed, or have another version or other values.
const IN_DOUBT: &str = "(why IN ('missed', 'omitted') OR why = 'older' AND version IS NOT NULL)";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueDoubts {
    /// Nominated for removal, those that fit a list first.
    pub missed: Vec<RecordId>,
    /// Shown in an earlier version, and not nominated.
    pub older: Vec<RecordId>,
}

/// What a row of `doubts` says, beside what it is about.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Doubt {
    pub etag: Option<String>,
    pub version: Option<String>,
    pub tries: u32,
    pub first_seen: Option<Instant>,
    pub not_before: Option<Instant>,
}

/// How long a lookup waits; `None` if it is due. A longer wait was stored by a clock that was lost.
fn waits(not_before: Option<Instant>, steady: Instant) -> Option<Duration> {
    let wait = not_before?.since(steady);
    (!wait.is_zero() && wait <= WAITS.1).then_some(wait)
}

/// What doubts about fields and keys of an object are noted under: an id of theirs may be that of a record.
pub(super) fn key_type(object: Object) -> String {
    format!("{object}_key")
}

/// A query for the records with a value in a custom column that their last detail should have shown and did not: nothing else
/// shows whether it was cleared.
fn with_unshown_values(tx: &ReadTx<'_>, object: Object) -> Result<String> {
    let layout = layout(&tx.conn)?;
    let value = |field: &CustomField| {
        let table = if field.data_type.detail_only() { "d" } else { "r" };
        format!(" WHEN '{0}' THEN {table}.{0}", field.column)
    };
    let values: String = layout.of(object).fields().iter().map(value).collect();
    // Read in this order: most mirrors have no unshown columns.
    Ok(format!(
        "SELECT u.record_id FROM unshown_columns AS u CROSS JOIN {}, json_each(u.columns) AS c
         WHERE u.object_type = ?1 AND r.id = u.record_id AND CASE c.value WHEN '' THEN NULL{values} END IS NOT NULL",
        with_details(object)
    ))
}

impl ReadTx<'_> {
    pub fn count_nominated(&self, object: Object) -> Result<u64> {
        self.count_doubts(object, "why = 'missed'")
    }

    /// The records in doubt, all or without those of which a list omitted something: where `details` are read, they decide.
    /// So is one with a custom value whose key its last detail lacked.
    pub fn count_open(&self, object: Object, details: bool) -> Result<u64> {
        let but = if details { "why <> 'omitted'" } else { "true" };
        let lacking = with_unshown_values(self, object)?;
        let doubts = format!("SELECT record_id FROM doubts WHERE object_type = ?1 AND {IN_DOUBT} AND {but}");
        self.count(&format!("SELECT count(*) FROM ({doubts} UNION {lacking})"), [object])
    }

    /// Whether a lookup has left nominations of an object undecided.
    pub fn has_undecided(&self, object: Object) -> Result<bool> {
        Ok(self.count_doubts(object, "why = 'missed' AND tries > 0")? > 0)
    }

    fn count_doubts(&self, object: Object, condition: &str) -> Result<u64> {
        let sql = format!("SELECT count(DISTINCT record_id) FROM doubts WHERE object_type = ?1 AND {condition}");
        self.count(&sql, [object])
    }

    /// Whether a key and address did not recognise the workspace, and have not since.
    pub fn was_not_recognised(&self, seen_by: &str) -> Result<bool> {
        Ok(self.doubt(("workspace", seen_by, "unrecognised"))?.is_some())
    }

    /// The doubt with this object type, record and reason.
    pub(super) fn doubt(&self, of: (&str, &str, &str)) -> Result<Option<Doubt>> {
        let sql = "SELECT etag, version, tries, first_seen, not_before FROM doubts
                   WHERE object_type = ?1 AND record_id = ?2 AND why = ?3";
        self.find_parsed(sql, of)
    }

    /// The records whose lookup is due, or with `at_once` every record in doubt.
    pub fn due_doubts(&self, object: Object, steady: Instant, at_once: bool, by_person: bool) -> Result<DueDoubts> {
        let sql = format!(
            "SELECT record_id, why = 'missed', version IS NOT NULL, tries, not_before FROM doubts
             WHERE object_type = ?1 AND why IN ('missed', 'older') ORDER BY NOT {}, record_id",
            fits_a_list("record_id")
        );
        let doubts: Vec<(RecordId, bool, bool, u32, StoredTime)> = self.tuples(&sql, [object])?;
        let (mut due, mut last_lookup) = (DueDoubts::default(), None);
        for (id, missed, open, tries, StoredTime(not_before)) in doubts {
            if let Some(not_before) = not_before.filter(|_| !missed && tries > 0) {
                last_lookup = last_lookup.max(Some(not_before.minus(growing(WAITS, tries))));
            }
            if !at_once && waits(not_before, steady).is_some() {
                continue;
            }
            if missed {
                due.missed.push(id);
            } else if open {
                due.older.push(id);
            }
        }
        let was_just_now = |at: Instant| at <= steady && steady.since(at) < LOOKUPS_APART;
        if !by_person && last_lookup.is_some_and(was_just_now) {
            due.older.clear();
        }
        let missed: HashSet<&RecordId> = due.missed.iter().collect();
        due.older.retain(|id| !missed.contains(id));
        Ok(due)
    }

    pub fn wait_of_doubts(&self, object: Object, steady: Instant) -> Result<Option<Duration>> {
        let sql = format!(
            "SELECT min(not_before) FROM doubts WHERE object_type = ?1 AND why IN ('missed', 'older', 'failed') AND tries > 0
             AND record_id IN (SELECT record_id FROM doubts WHERE object_type = ?1 AND {IN_DOUBT})"
        );
        let wait = self.find_time(&sql, [object])?.map(|at| at.since(steady));
        Ok(wait.filter(|wait| *wait <= MAX_WAIT))
    }

    /// The later of `updatedAt` and `createdAt` of these records, of those that are mirrored.
    pub fn times_of(&self, object: Object, ids: &[RecordId]) -> Result<HashMap<RecordId, Option<Instant>>> {
        let sql = format!(
            "SELECT id, nullif({TIME}, '') FROM {} WHERE id IN (SELECT value FROM json_each(?1))",
            object.table()
        );
        self.rows(&sql, [json_list(ids)], |row| Ok((row.get(0)?, row.get::<_, StoredTime>(1)?.0)))
    }

    /// The witness of a lookup by id: the newest record that fits a list, is not in doubt and not dated after `latest`.
    pub fn witness(&self, object: Object, latest: Option<Instant>) -> Result<Option<RecordId>> {
        let (table, latest) = (object.table(), latest.unwrap_or(Instant::MAX));
        // A witness with a comma costs a request of its own.
        for commas in ["=", ">"] {
            let newest_by = |column: &str| {
                format!(
                    "SELECT * FROM (SELECT id, {TIME} AS time FROM {table} WHERE instr(id, ',') {commas} 0
                     AND length(id) <= {MAX_PREDICATE} AND coalesce(updated_at, '') <= ?2 AND coalesce(created_at, '') <= ?2
                     AND id NOT IN (SELECT record_id FROM doubts WHERE object_type = ?1 AND {OF_VERSION})
                     ORDER BY {column} DESC, id DESC LIMIT 1)"
                )
            };
            let (updated, created) = (newest_by("updated_at"), newest_by("created_at"));
            let sql = format!("SELECT id FROM ({updated} UNION ALL {created}) ORDER BY time DESC, id DESC LIMIT 1");
            let found = self.find_value(&sql, (object, latest))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl KnowledgeTx<'_> {
    /// Says how new the answer is that this transaction applies. Without it, no doubt is raised or decided.
    pub fn answered(&self, answer: AnswerTime) {
        self.tx.answer.set(Some(answer));
    }

    /// Forgets every doubt about records, keys and ranges of an object. Its removals of the last day still count.
    pub fn clear_doubts(&self, object: Object) -> Result<()> {
        self.settle_removals(object, "true", &[])?;
        let of_object = "object_type = ?1 AND why <> 'gone' OR object_type IN (?1 || '_key', ?1 || '_range')";
        self.delete_doubts(of_object, [object])
    }

    pub(in crate::store) fn forget_doubts(&self, object: Object, id: &str) -> Result<()> {
        self.delete_doubts(&format!("object_type = ?1 AND {OF_RECORD} AND record_id = ?2"), (object, id))
    }

    /// Enters a doubt in place of the one with the same object type, record and reason.
    pub(super) fn set_doubt(&self, (of, record, why): (&str, &str, &str), doubt: &Doubt) -> Result<()> {
        let Doubt { etag, version, tries, first_seen, not_before } = doubt;
        self.run(
            "INSERT OR REPLACE INTO doubts (object_type, record_id, why, etag, version, tries, first_seen, not_before)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![of, record, why, etag, version, tries, first_seen, not_before],
        )?;
        if let Ok(object) = of.parse::<Object>() {
            self.tx.pending.doubts[object as usize].set(Some(true));
        }
        Ok(())
    }

    pub(super) fn delete_doubts(&self, condition: &str, values: impl rusqlite::Params) -> Result<()> {
        self.run(&format!("DELETE FROM doubts WHERE {condition}"), values)
    }

    /// Looked up once in a transaction, for most objects have none.
    pub(super) fn has_doubts(&self, object: Object) -> Result<bool> {
        let known = &self.tx.pending.doubts[object as usize];
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let has = self.tx.count_doubts(object, OF_VERSION)? > 0;
        known.set(Some(has));
        Ok(has)
    }

    /// Forgets what was refuted an hour after it would have been looked up again. A removal that no lagging answer
    /// precedes, or that was dated by a clock that was lost, only counts from then on.
    pub fn forget_old_doubts(&self, object: Object) -> Result<()> {
        let Some(AnswerTime { steady, .. }) = self.tx.answer.get() else { return Ok(()) };
        if !self.has_doubts(object)? {
            return Ok(());
        }
        let (refuted, settled) = (steady.minus(4 * MOMENTS_APART), steady.minus(MOMENTS_APART));
        self.delete_doubts(
            "object_type = ?1 AND why = 'older' AND version IS NULL AND not_before <= ?2",
            (object, refuted),
        )?;
        self.settle_removals(object, "(first_seen <= ?2 OR first_seen > ?3)", &[&settled, &steady])
    }

    /// Ends the doubts that an answer refutes which shows a record, in the version of the row or a later one if it
    /// `is_current`.
    pub fn was_shown(&self, object: Object, id: &str, is_current: bool) -> Result<()> {
        if !self.has_doubts(object)? {
            return Ok(());
        }
        self.delete_doubts("object_type = ?1 AND record_id = ?2 AND why = 'missed'", (object, id))?;
        if is_current {
            let of_record = "object_type = ?1 AND record_id = ?2 AND why = 'older' AND version IS NOT NULL";
            self.delete_doubts(&format!("{of_record} AND tries = 0 AND not_before IS NULL"), (object, id))?;
            // The delay stays, in case that other answers contradict this one; so does what was replaced.
            self.run(&format!("UPDATE doubts SET version = NULL, first_seen = NULL WHERE {of_record}"), (object, id))?;
        }
        Ok(())
    }

    /// Notes that an update of ours has replaced this version of a record, although its date is not the earlier one. For
    /// an hour, an answer that shows it is a doubt; until one does, nothing needs to be looked up.
    pub fn was_replaced(&self, object: Object, id: &str, etag: Option<&str>) -> Result<()> {
        let Some(AnswerTime { steady, .. }) = self.tx.answer.get() else { return Ok(()) };
        let older = (object.as_str(), id, "older");
        let Doubt { tries, not_before, .. } = self.tx.doubt(older)?.unwrap_or_default();
        let (etag, not_before) = (etag.map(Into::into), not_before.max(Some(steady)));
        self.set_doubt(older, &Doubt { etag, tries, not_before, ..Doubt::default() })
    }

    pub(in crate::store) fn is_replaced(&self, object: Object, id: &str, etag: Option<&str>) -> Result<bool> {
        if etag.is_none() || !self.has_doubts(object)? {
            return Ok(false);
        }
        let known = self.tx.doubt((object.as_str(), id, "older"))?;
        Ok(known.is_some_and(|known| known.etag.as_deref() == etag))
    }

    /// Whether this answer decides that a record is earlier than its row, of the time `here`. If not, that is a doubt.
    pub(in crate::store) fn decide_older(
        &self,
        object: Object,
        id: &str,
        seen: Version<'_>,
        here: Option<Instant>,
    ) -> Result<bool> {
        let Some(answer) = self.tx.answer.get() else { return Ok(false) };
        let is_as_new = answer.is_as_new_as(here);
        if is_as_new || self.is_older_again(object, id, seen, answer)? {
            self.delete_doubts("object_type = ?1 AND record_id = ?2 AND why = 'older'", (object, id))?;
            // No list of changes shows a version without a date.
            let accepted = seen.updated_at.and_then(|at| at.parse().ok()).or(here);
            let lowest = &self.tx.pending.accepted_older[object as usize];
            lowest.set(lowest.get().into_iter().chain(accepted.map(|at| (at, is_as_new))).min());
            return Ok(true);
        }
        Ok(false)
    }

    /// A detail showed an earlier version: if the service has dated the record back behind what is known, no list of
    /// changes shows that.
    pub(in crate::store) fn doubt_older(&self, object: Object, id: &str, seen: Version<'_>) -> Result<()> {
        if let (Some(answer), Some(_)) = (self.tx.answer.get(), seen.updated_at) {
            self.is_older_again(object, id, seen, answer)?;
        }
        Ok(())
    }

    /// Notes that an answer showed an earlier version of a record. Returns whether it was seen at two moments.
    pub(super) fn is_older_again(
        &self,
        object: Object,
        id: &str,
        Version { etag, updated_at }: Version<'_>,
        answer: AnswerTime,
    ) -> Result<bool> {
        let (older, version) = ((object.as_str(), id, "older"), updated_at.unwrap_or_default());
        let known = self.tx.doubt(older)?.unwrap_or_default();
        if (known.etag.as_deref(), known.version.as_deref()) == (etag, Some(version)) {
            return Ok(answer.is_second_moment(known.first_seen));
        }
        let (etag, version) = (etag.map(Into::into), Some(version.into()));
        self.set_doubt(older, &Doubt { etag, version, first_seen: Some(answer.steady), ..known })?;
        Ok(false)
    }

    /// Ends the doubts about versions of records that were looked up and are not there.
    pub fn forget_versions(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        let of_records = "object_type = ?1 AND why = 'older' AND record_id IN (SELECT value FROM json_each(?2))";
        self.delete_doubts(of_records, (object, &json_list(ids)))
    }

    /// The earliest of the earlier versions that this transaction accepted so far, and whether its answer was as new as
    /// the record.
    pub fn take_accepted_older(&self, object: Object) -> Option<(Instant, bool)> {
        self.tx.pending.accepted_older[object as usize].take()
    }

    /// Notes that a lookup lacked these records while the service lists others. Returns those lacked at two moments.
    pub fn doubt_not_found(&self, object: Object, ids: &[RecordId], answer: AnswerTime) -> Result<Vec<RecordId>> {
        let mut again = Vec::new();
        for id in ids {
            let missed = (object.as_str(), id.as_str(), "missed");
            let known = self.tx.doubt(missed)?.unwrap_or_default();
            if answer.is_second_moment(known.first_seen) {
                again.push(id.clone());
            }
            // A time in the future was stored by a clock that was lost.
            if known.first_seen.is_none_or(|first| first > answer.steady) {
                self.set_doubt(missed, &Doubt { first_seen: Some(answer.steady), ..known })?;
            }
        }
        Ok(again)
    }

    /// Those that are still in doubt wait.
    pub fn were_looked_up(&self, object: Object, ids: &[RecordId], steady: Instant) -> Result<()> {
        let tried: Vec<(String, String, u32, StoredTime)> = self.tuples(
            "SELECT record_id, why, tries, not_before FROM doubts WHERE object_type = ?1 AND why IN ('missed', 'older')
             AND record_id IN (SELECT value FROM json_each(?2))",
            params![object, json_list(ids)],
        )?;
        // One that was looked up before its time waits as long as before.
        for (id, why, tries, _) in tried.into_iter().filter(|(.., not_before)| waits(not_before.0, steady).is_none()) {
            let tries = tries.saturating_add(1);
            self.run(
                "UPDATE doubts SET tries = ?4, not_before = ?5 WHERE object_type = ?1 AND record_id = ?2 AND why = ?3",
                params![object, id, why, tries, steady.plus(growing(WAITS, tries))],
            )?;
        }
        Ok(())
    }

    /// Notes that a key and address did not recognise the workspace, which may be an outage. Returns the first such
    /// moment; a later one than now was stored by a clock that was lost.
    pub fn not_recognised(&self, seen_by: &str, steady: Instant) -> Result<Instant> {
        let unrecognised = ("workspace", seen_by, "unrecognised");
        let known = self.tx.doubt(unrecognised)?.and_then(|doubt| doubt.first_seen);
        let first = known.filter(|first| *first <= steady).unwrap_or(steady);
        self.set_doubt(unrecognised, &Doubt { first_seen: Some(first), ..Doubt::default() })?;
        Ok(first)
    }

    pub fn recognised(&self) -> Result<()> {
        self.delete_doubts("object_type = 'workspace'", [])
    }
}

#[cfg(test)]
#[path = "doubts_tests.rs"]
mod tests;
