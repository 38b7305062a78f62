//! What answers did not show: rows of `doubts` about records that a list says too little about, details that could not
//! be read, and custom keys without a definition; and the columns that an answer should have shown.
//!
//! A field that is missing from an answer is not a field without a value: what the service has in its column is unknown
//! from then on, until an answer shows it. Lists omit custom values, and what only details have; nothing else may be
//! missing from any answer, as far as it can be edited.
//!
//! # Active custom keys that a detail lacked
//! A detail lists every active key, with null for a missing value (reference, *Custom values*, rules 3 and 4), so a
//! field whose key is not there was archived when the detail was read. If it is active again when the definitions are
//! read, nothing else shows that, and the record may have changed its value before: its detail is read once more.
//!
//! A service whose details omit nulls, or a key that may not see a field, costs a bounded number of requests.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::params;
use rusqlite::types::ValueRef;

use crate::model::{
    AnswerTime, CustomField, Etag, FieldKey, FieldProjection, FieldValue, Instant, Object, Record, RecordId, SqlValue,
    growing,
};
use crate::store::records::doubts::{MAX_WAIT, key_type};
use crate::store::{FieldToBackFill, ReadTx, Result, Shape, Source, Statements, StoredTime, UnreadTx, json_list};

/// How long a record waits after the first failure of its detail, for each request that was made.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(12 * 60);
const HOUR: Duration = Duration::from_secs(3600);
/// How long a record that was read by id is not read again because lists have null for a group of which it has values.
const NULL_GROUP_WAITS: (Duration, Duration) = (Duration::from_secs(24 * 3600), Duration::from_secs(32 * 24 * 3600));
/// The maximum number of keys without a definition per object; beyond that, keys cause no reading.
const MAX_KEYS: usize = 1_000;
/// The maximum number of records that are noted at once, for all fields together. If there were more, the columns that
/// they lacked are filled again.
const MAX_RECORDS: u32 = 200;
/// A key that details still lack after so many readings of the definitions says nothing.
const MAX_READINGS: u8 = 3;
/// After so many more readings it is noted again, about a week later: the service may have changed.
const READINGS_WITHOUT: u8 = 30;

fn wait_after(requests: u32, failures: u32) -> Duration {
    // Two attempts with three requests each would exceed five in an hour.
    let first =
        if requests > 2 { HOUR * requests.div_ceil(5) } else { WAIT_PER_REQUEST.saturating_mul(requests.max(1)) };
    growing((first, MAX_WAIT), failures.saturating_add(1))
}

/// The records to be read by id because a list omitted a value that is stored here.
pub fn omitted(tx: &ReadTx<'_>, object: Object) -> Result<Vec<RecordId>> {
    let sql = "SELECT record_id FROM doubts WHERE object_type = ?1 AND why = 'omitted'";
    tx.column(sql, [object])
}

/// The records whose detail could not be read, and is not requested again yet. A new version is requested at once, but an
/// hour later if the last attempt was repeated: a record that changes all the time costs no more than another.
pub fn waiting_details(tx: &ReadTx<'_>, object: Object, steady: Instant) -> Result<HashSet<RecordId>> {
    let sql = format!(
        "SELECT record_id FROM doubts AS d JOIN {} AS r ON r.id = d.record_id
         WHERE d.object_type = ?1 AND why = 'failed'
         AND (r.etag IS d.etag AND not_before > ?2 AND not_before <= ?3 OR first_seen > ?4 AND first_seen <= ?2)",
        object.table()
    );
    tx.column(&sql, (object, steady, steady.plus(MAX_WAIT), steady.minus(HOUR)))
}

/// How many requests that failed are still to be paid for by the share for them, and since when that share pays.
pub fn failed_owed(tx: &ReadTx<'_>, object: Object) -> Result<Option<(Instant, u32)>> {
    let owed: Option<(StoredTime, u32)> = tx.doubt("not_before, tries", (object.as_str(), "", "failed"))?;
    Ok(owed.and_then(|(since, requests)| Some((since.0?, requests))))
}

impl UnreadTx<'_> {
    pub fn mark_unread(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        self.run(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why) SELECT ?1, value, 'omitted' FROM json_each(?2)",
            params![object, json_list(ids)],
        )
    }

    pub fn forget_removed_unread(&self, object: Object) -> Result<()> {
        let table = object.table();
        let is_removed = format!("object_type = ?1 AND why = 'omitted' AND record_id NOT IN (SELECT id FROM {table})");
        self.tx.knowledge().delete_doubts(&is_removed, [object])
    }

    pub fn was_read(&self, object: Object, id: &RecordId) -> Result<()> {
        let of_record = "object_type = ?1 AND record_id = ?2 AND why IN ('omitted', 'failed')";
        self.tx.knowledge().delete_doubts(of_record, (object, id))?;
        let asked: Option<(u32, StoredTime)> =
            self.tx.doubt("tries, not_before", (object.as_str(), id.as_str(), "null group"))?;
        let (Some((tries, StoredTime(None))), Some(answer)) = (asked, self.tx.answer.get()) else { return Ok(()) };
        self.run(
            "UPDATE doubts SET tries = ?3, not_before = ?4 WHERE object_type = ?1 AND record_id = ?2 AND why = 'null group'",
            params![object, id, tries + 1, answer.steady.plus(growing(NULL_GROUP_WAITS, tries + 1))],
        )
    }

    /// Whether null in place of a group says something new of a record: it was not read by id in this version since, or long
    /// ago. A doubt about a version is decided once, however often lists repeat it.
    pub(super) fn are_groups_in_doubt(
        &self,
        object: Object,
        id: &str,
        etag: Option<&str>,
        groups: &BTreeSet<String>,
    ) -> Result<bool> {
        if groups.is_empty() {
            return Ok(false);
        }
        let known: Option<(Option<String>, Option<String>, StoredTime)> =
            self.tx.doubt("etag, version, not_before", (object.as_str(), id, "null group"))?;
        let Some((of, Some(decided), StoredTime(Some(until)))) = known else { return Ok(true) };
        let waits = |answer: AnswerTime| answer.steady < until && until.since(answer.steady) <= NULL_GROUP_WAITS.1;
        let is_decided = |group: &String| decided.split(',').any(|decided| decided == group);
        Ok(of.as_deref() != etag || !groups.iter().all(is_decided) || !self.tx.answer.get().is_none_or(waits))
    }

    pub(super) fn doubt_groups(
        &self,
        object: Object,
        id: &str,
        etag: Option<&str>,
        groups: &BTreeSet<String>,
    ) -> Result<()> {
        if !self.are_groups_in_doubt(object, id, etag, groups)? {
            return Ok(());
        }
        self.note_omitted(object, id);
        self.run(
            "INSERT INTO doubts (object_type, record_id, why, etag, version) VALUES (?1, ?2, 'null group', ?3, ?4)
             ON CONFLICT DO UPDATE SET tries = iif(etag IS ?3, tries, 0), etag = ?3, version = ?4, not_before = NULL",
            params![object, id, etag, Vec::from_iter(groups.iter().map(String::as_str)).join(",")],
        )
    }

    /// Notes that the detail of a record could not be read with so many requests: it waits longer each time while the
    /// record does not change. A record that was removed meanwhile is not noted.
    pub fn detail_failed(
        &self,
        object: Object,
        id: &RecordId,
        requests: u32,
        (steady, owed): (Instant, (Instant, u32)),
    ) -> Result<()> {
        let Some(etag) = self.tx.versions(object, std::slice::from_ref(id))?.remove(id) else { return Ok(()) };
        let before: Option<(Option<Etag>, u32)> =
            self.tx.doubt("etag, tries", (object.as_str(), id.as_str(), "failed"))?;
        let failures = before.filter(|(of, _)| *of == etag).map_or(0, |(_, failures)| failures);
        let not_before = steady.plus(wait_after(requests, failures));
        let row = "INSERT OR REPLACE INTO doubts (object_type, record_id, why, etag, tries, not_before, first_seen)
                   VALUES (?1, ?2, 'failed', ?3, ?4, ?5, ?6)";
        let (failures, retried) = (failures.saturating_add(1), (requests > 2).then_some(steady));
        self.run(row, params![object, id, etag, failures, not_before, retried])?;
        let (since, requests) = owed;
        self.run(row, params![object, "", None::<Etag>, requests, since, None::<Instant>])
    }

    /// Notes custom keys without a definition. Returns whether the definitions were not read since one of them was
    /// seen.
    pub fn mark_unknown_keys<'k>(&self, object: Object, keys: impl IntoIterator<Item = &'k FieldKey>) -> Result<bool> {
        let keys: BTreeSet<&str> = keys.into_iter().map(FieldKey::as_str).collect();
        if keys.is_empty() {
            return Ok(false);
        }
        let known: BTreeMap<String, bool> = self.tuples(
            "SELECT record_id, tries > 0 FROM doubts WHERE object_type = ?1 AND why = 'unknown key'",
            [key_type(object)],
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

    /// Notes that the definitions were read: for the keys seen so far, reading them again would be useless. Later
    /// definitions are found by the regular reading.
    pub fn definitions_were_read(&self) -> Result<()> {
        self.run("UPDATE doubts SET tries = 1 WHERE why = 'unknown key'", [])
    }

    /// Notes which columns that can be edited an answer shows, and which it should have shown.
    pub(in crate::store) fn mark_unshown(&self, object: Object, record: &Record, shows: Shows) -> Result<()> {
        let layout = self.tx.layout();
        let standard = object.fields().iter().zip(&record.fields).enumerate();
        let standard =
            standard.filter(|(place, (field, _))| field.writable && !layout.exclusions.takes_field(object, *place));
        let standard = standard.map(|(_, (field, value))| {
            let is_due = match shows {
                Shows::List | Shows::ListOfDetail => field.projection == FieldProjection::List,
                Shows::Detail => true,
                Shows::Nothing => false,
            };
            (field.column, value, is_due)
        });
        let custom = layout.of(object).fields().iter().zip(&record.custom).map(|(field, value)| {
            let is_due = match shows {
                Shows::ListOfDetail => !field.data_type.detail_only(),
                Shows::Detail => true,
                Shows::List | Shows::Nothing => false,
            };
            (field.column.as_str(), value, is_due || *value == FieldValue::Withheld)
        });
        let is_unshown = |value: &FieldValue<SqlValue>| {
            matches!(value, FieldValue::Absent | FieldValue::Omitted | FieldValue::Withheld)
        };
        let columns = standard.chain(custom).map(|(column, value, is_due)| (column, !is_unshown(value), is_due));
        let has_unshown = &self.tx.pending.unshown;
        if has_unshown.get().is_none() {
            let sql = "SELECT EXISTS (SELECT 1 FROM unshown_columns)";
            has_unshown.set(Some(self.value(sql, [])?));
        }
        if has_unshown.get() == Some(false) && columns.clone().all(|(_, is_shown, is_due)| is_shown || !is_due) {
            return Ok(());
        }
        let before = unshown_columns(self.tx, object, &record.id)?;
        let mut unshown = before.clone();
        for (column, is_shown, is_due) in columns {
            if is_shown {
                unshown.remove(column);
            } else if is_due {
                unshown.insert(column.to_string());
            }
        }
        if unshown == before {
            return Ok(());
        }
        has_unshown.set(Some(true));
        if unshown.is_empty() {
            let sql = "DELETE FROM unshown_columns WHERE object_type = ?1 AND record_id = ?2";
            return self.run(sql, (object, &record.id));
        }
        let (sql, columns) = ("INSERT OR REPLACE INTO unshown_columns VALUES (?1, ?2, ?3)", serde_json::json!(unshown));
        self.run(sql, params![object, record.id, columns.to_string()])
    }

    /// Notes the active keys that a detail lacked, of long texts only if the whole detail is stored.
    pub(in crate::store) fn mark_lacking(&self, object: Object, record: &Record, shows: Shows) -> Result<()> {
        self.mark_unshown(object, record, shows)?;
        let whole = shows == Shows::Detail;
        let is_lacking = |(slot, field): &(usize, &CustomField)| {
            (whole || !field.data_type.detail_only())
                && matches!(record.custom.get(*slot), None | Some(FieldValue::Absent | FieldValue::Withheld))
        };
        let layout = self.tx.layout().clone();
        let fields = layout.of(object).fields().iter().enumerate().filter(is_lacking);
        let mut lacking: Vec<&RecordId> = fields.map(|(_, field)| &field.definition).collect();
        let keys = key_type(object);
        if !lacking.is_empty() {
            let sql = "SELECT record_id FROM doubts WHERE object_type = ?1 AND why = 'lacked' AND tries >= ?2";
            let say_nothing: HashSet<RecordId> = self.column(sql, params![keys, MAX_READINGS])?;
            lacking.retain(|definition| !say_nothing.contains(*definition));
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let has_room = self.value(
            "SELECT count(*) < ?3 OR coalesce(max(record_id = ?2), 0) FROM doubts WHERE object_type = ?1 AND why = 'lacks'",
            params![object, record.id, MAX_RECORDS],
        )?;
        let lacking = json_list(lacking);
        let noted =
            "INSERT OR IGNORE INTO doubts (object_type, why, record_id) SELECT ?1, ?2, value FROM json_each(?3)";
        for why in ["lacked", "lacked now", "lacked by more"].into_iter().take(if has_room { 2 } else { 3 }) {
            self.run(noted, params![keys, why, lacking])?;
        }
        if has_room {
            let sql = "INSERT INTO doubts (object_type, record_id, why, version) VALUES (?1, ?2, 'lacks', ?3)
                 ON CONFLICT DO UPDATE SET version = (SELECT json_group_array(value) FROM
                 (SELECT value FROM json_each(version) UNION SELECT value FROM json_each(?3)))";
            self.run(sql, params![object, record.id, lacking])?;
        }
        Ok(())
    }

    /// What must be read again, now that the definitions were read and their columns updated.
    ///
    /// A column is filled only after the details that were read again had its key: a service that omits it would be
    /// asked for the same values again and again. The column of a field that is not active any more is filled when it
    /// is restored.
    pub fn take_lacking(&self, object: Object) -> Result<LackedValues> {
        let layout = self.tx.layout().clone();
        let (mut out, mut again) = (LackedValues::default(), Vec::new());
        // With the readings of the definitions since, whether a detail lacked it since the last one, and whether more
        // records did than are noted.
        let fields: Vec<(RecordId, u8, bool, bool)> = self.tuples(
            "SELECT record_id, max(tries), max(why = 'lacked now'), max(why = 'lacked by more') FROM doubts
             WHERE object_type = ?1 AND why IN ('lacked', 'lacked now', 'lacked by more') GROUP BY record_id",
            [key_type(object)],
        )?;
        for (definition, readings, lacked, more) in fields {
            let is_active = layout.of(object).fields().iter().any(|field| field.definition == definition);
            if !is_active || readings < MAX_READINGS && !lacked {
                let refilled = FieldToBackFill { definition: definition.clone(), is_new: false };
                out.fields.extend((is_active && more).then_some(refilled));
                self.forget_lacked(object, &definition, "'lacked', 'lacked now', 'lacked by more'")?;
                continue;
            }
            again.push(definition.clone());
            self.forget_lacked(object, &definition, "'lacked now'")?;
            if readings + 1 >= MAX_READINGS + READINGS_WITHOUT {
                self.forget_lacked(object, &definition, "'lacked', 'lacked by more'")?;
            }
            self.run(
                "UPDATE doubts SET tries = tries + 1 WHERE object_type = ?1 AND record_id = ?2 AND why = 'lacked'",
                [&key_type(object), definition.as_str()],
            )?;
        }
        out.records = self.column(
            "SELECT DISTINCT record_id FROM doubts, json_each(version) WHERE object_type = ?1 AND why = 'lacks'
             AND value IN (SELECT value FROM json_each(?2)) ORDER BY record_id",
            (object, json_list(&again)),
        )?;
        self.tx.knowledge().delete_doubts("object_type = ?1 AND why = 'lacks'", [object])?;
        Ok(out)
    }

    fn forget_lacked(&self, object: Object, definition: &RecordId, why: &str) -> Result<()> {
        let of_field = format!("object_type = ?1 AND record_id = ?2 AND why IN ({why})");
        self.tx.knowledge().delete_doubts(&of_field, [&key_type(object), definition.as_str()])
    }

    /// Notes a changed record if the list omitted a stored value: a missing key is no information about the value
    /// (reference, *Custom values*, rule 5), so only the detail shows whether it was cleared.
    pub(in crate::store) fn mark_omitted(
        &self,
        object: Object,
        shape: &Shape,
        id: &str,
        incoming: &[Option<ValueRef<'_>>],
        old: &[SqlValue],
    ) {
        // Lists leave fields of a group out. One that can be edited must not keep an old value that is called current.
        let may_be_omitted = |source: Source| match source {
            Source::Slot(_) => true,
            Source::Field(index) => object.fields()[index].wire.contains('.') || object.fields()[index].writable,
            Source::FieldNum(_) | Source::SlotNum(_) | Source::Extra => false,
        };
        let is_omitted = |(place, new): (usize, &Option<ValueRef<'_>>)| {
            new.is_none() && old[place] != SqlValue::Null && may_be_omitted(shape.columns[place].source)
        };
        if incoming.iter().enumerate().any(is_omitted) {
            self.note_omitted(object, id);
        }
    }

    pub(in crate::store) fn note_omitted(&self, object: Object, id: &str) {
        self.tx.pending.omitted.borrow_mut().insert((object, id.to_string()));
    }

    /// The records that this transaction noted.
    pub fn take_omitted(&self, object: Object) -> Vec<RecordId> {
        let taken = self.tx.pending.omitted.take();
        taken.into_iter().filter(|(of, _)| *of == object).map(|(_, id)| RecordId::new(id)).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Shows {
    /// The fields of a list, of which custom values may be missing.
    List,
    /// The fields of a list, from a detail.
    ListOfDetail,
    /// All of it.
    Detail,
    /// Only what it shows: the answer to an update.
    Nothing,
}

/// The columns of a record that the last answer should have shown and did not.
pub(in crate::store) fn unshown_columns(tx: &ReadTx<'_>, object: Object, id: &RecordId) -> Result<BTreeSet<String>> {
    let found: Option<String> =
        tx.find_value("SELECT columns FROM unshown_columns WHERE object_type = ?1 AND record_id = ?2", (object, id))?;
    Ok(found.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

#[derive(Debug, Default)]
pub struct LackedValues {
    pub records: Vec<RecordId>,
    /// Fields of which more records may lack values.
    pub fields: Vec<FieldToBackFill>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_detail_waits_longer_each_time() {
        let minutes = |requests| (0..9).map(move |failures| wait_after(requests, failures).as_secs() / 60);
        assert_eq!(minutes(1).collect::<Vec<_>>(), [12, 24, 48, 96, 192, 384, 768, 1440, 1440]);
        assert_eq!(minutes(2).next(), Some(24));
        for (requests, hours) in [(3, 1), (5, 1), (8, 2)] {
            assert_eq!(minutes(requests).take(2).collect::<Vec<_>>(), [60 * hours, 120 * hours]);
        }
    }
}
