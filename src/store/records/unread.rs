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
    AnswerTime, CustomField, FieldKey, FieldProjection, FieldValue, Instant, Object, Record, RecordId, Ru, SqlValue,
    growing,
};
use crate::store::records::doubts::{Doubt, MAX_WAIT, key_type};
use crate::store::{FieldToBackFill, ReadTx, Result, Shape, Source, Statements, UnreadTx, json_list};

/// How long a record waits after the first failure of its detail, for each request that was made.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(12 * 60);
const HOUR: Duration = Duration::from_secs(3600);
/// How long a record that was read by id is not read again because lists have null for a group of which it has values.
const NULL_GROUP_WAITS: (Duration, Duration) = (Duration::from_secs(24 * 3600), Duration::from_secs(32 * 24 * 3600));
/// The maximum number of keys without a definition per object; beyond that, keys cause no reading.
const MAX_KEYS: usize = 1_000;
/// The maximum number of records that are read again at once because they lack keys, for all fields together.
const MAX_RECORDS: u32 = 200;
/// A key that details still lack after so many readings of the definitions says nothing.
const MAX_READINGS: u32 = 3;
/// After so many readings, about a week, its records are read again: the service may have changed.
const READINGS_OF_A_ROUND: u32 = 34;

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
    let owed = tx.doubt((object.as_str(), "", "failed"))?;
    Ok(owed.and_then(|owed| Some((owed.not_before?, owed.tries))))
}

/// Whether a record had a custom key for which the definitions were not read yet.
pub fn has_unread_keys(tx: &ReadTx<'_>) -> Result<bool> {
    tx.value("SELECT EXISTS (SELECT 1 FROM doubts WHERE why = 'unknown key' AND tries = 0)", [])
}

impl UnreadTx<'_> {
    pub fn mark_unread(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        let sql = format!(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why)
             SELECT ?1, id, 'omitted' FROM {} WHERE id IN (SELECT value FROM json_each(?2))",
            object.table()
        );
        self.run(&sql, params![object, json_list(ids)])
    }

    pub fn was_read(&self, object: Object, id: &RecordId) -> Result<()> {
        let of_record = "object_type = ?1 AND record_id = ?2 AND why IN ('omitted', 'failed')";
        self.tx.knowledge().delete_doubts(of_record, (object, id))?;
        let groups = (object.as_str(), id.as_str(), "null group");
        let asked = self.tx.doubt(groups)?.filter(|asked| asked.not_before.is_none());
        let Some((asked, answer)) = asked.zip(self.tx.answer.get()) else { return Ok(()) };
        let tries = asked.tries + 1;
        let not_before = Some(answer.steady.plus(growing(NULL_GROUP_WAITS, tries)));
        self.tx.knowledge().set_doubt(groups, &Doubt { tries, not_before, ..asked })
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
        let known = self.tx.doubt((object.as_str(), id, "null group"))?.unwrap_or_default();
        let (Some(decided), Some(until)) = (known.version, known.not_before) else { return Ok(true) };
        let waits = |answer: AnswerTime| answer.steady < until && until.since(answer.steady) <= NULL_GROUP_WAITS.1;
        let is_decided = |group: &String| decided.split(',').any(|decided| decided == group);
        Ok(known.etag.as_deref() != etag || !groups.iter().all(is_decided) || !self.tx.answer.get().is_none_or(waits))
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
        let of_record = (object.as_str(), id, "null group");
        let known = self.tx.doubt(of_record)?.unwrap_or_default();
        let tries = if known.etag.as_deref() == etag { known.tries } else { 0 };
        let version = Some(Vec::from_iter(groups.iter().map(String::as_str)).join(","));
        let doubt = Doubt { etag: etag.map(Into::into), version, tries, ..Doubt::default() };
        self.tx.knowledge().set_doubt(of_record, &doubt)
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
        let (failed, etag) = ((object.as_str(), id.as_str(), "failed"), etag.map(|etag| etag.as_str().to_string()));
        let failures = self.tx.doubt(failed)?.filter(|before| before.etag == etag).map_or(0, |before| before.tries);
        let not_before = Some(steady.plus(wait_after(requests, failures)));
        let (tries, first_seen) = (failures.saturating_add(1), (requests > 2).then_some(steady));
        let doubt = Doubt { etag, tries, first_seen, not_before, ..Doubt::default() };
        self.tx.knowledge().set_doubt(failed, &doubt)?;
        self.failures_owe(object, owed)
    }

    /// Stores how many failed requests of the object's details are still to be paid for, and since when.
    pub fn failures_owe(&self, object: Object, (since, tries): (Instant, u32)) -> Result<()> {
        let owed = Doubt { tries, not_before: Some(since), ..Doubt::default() };
        self.tx.knowledge().set_doubt((object.as_str(), "", "failed"), &owed)
    }

    /// Notes custom keys without a definition. Returns whether the definitions were not read since one was seen.
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
            self.tx.knowledge().set_doubt((&key_type(object), key, "unknown key"), &Doubt::default())?;
        }
        Ok(!new.is_empty() || keys.into_iter().any(is_unread))
    }

    /// Notes that the definitions were read: for the keys seen so far, reading them again would be useless, unless they have a
    /// field now: it may be archived, and return. Later definitions are found by the regular reading.
    pub fn definitions_were_read(&self) -> Result<()> {
        self.tx.knowledge().delete_doubts(
            "why = 'unknown key' AND EXISTS (SELECT 1 FROM custom_field_definitions AS d
             WHERE d.key = record_id AND d.object_type || '_key' = doubts.object_type AND d.status = 'ACTIVE')",
            [],
        )?;
        self.run("UPDATE doubts SET tries = 1 WHERE why = 'unknown key'", [])
    }

    /// Notes which columns that can be edited an answer shows, and which it should have shown.
    pub(in crate::store) fn mark_unshown(&self, object: Object, record: &Record, shows: Shows) -> Result<()> {
        let layout = self.tx.layout();
        let standard = object.fields().iter().zip(&record.fields).enumerate();
        let standard = standard
            .filter(|(place, (field, _))| field.writable && !layout.exclusions.takes_field(object, *place))
            .map(|(_, (field, value))| (field.column, value, field.projection == FieldProjection::Detail, false));
        let custom = layout.of(object).fields().iter().zip(&record.custom);
        let custom = custom.map(|(field, value)| (field.column.as_str(), value, field.data_type.detail_only(), true));
        let columns = standard.chain(custom).map(|(column, value, of_detail, is_custom)| {
            let is_due = match shows {
                Shows::List => !of_detail && !is_custom,
                Shows::ListOfDetail => !of_detail,
                Shows::Detail => true,
                Shows::Nothing => false,
            };
            let is_shown = !matches!(value, FieldValue::Absent | FieldValue::Omitted | FieldValue::Withheld);
            (column, is_shown, is_due || is_custom && *value == FieldValue::Withheld)
        });
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

    /// The records that must be read again, now that the definitions were read and their columns updated: those whose last
    /// answer lacked the key of an active field, some at a time. As long as most of those that were read had the key, four
    /// times as many others are: a service that omits it would be asked for the same values again and again. A column that
    /// lists show is filled again where more records lack it than `price`, which is that of a sweep.
    pub fn take_lacking(&self, object: Object, price: Ru) -> Result<(Vec<RecordId>, Vec<FieldToBackFill>)> {
        let (layout, keys, mut again, mut to_fill) = (self.tx.layout(), key_type(object), Vec::new(), Vec::new());
        let mut most = MAX_RECORDS;
        let lacking: BTreeMap<String, u32> = self.tuples(
            "SELECT value, count(*) FROM unshown_columns, json_each(columns) WHERE object_type = ?1 GROUP BY value",
            [object],
        )?;
        let of = |field: &CustomField| lacking.get(field.column.as_str()).copied();
        let fields = layout.of(object).fields();
        let lacked = json_list(fields.iter().filter(|field| of(field).is_some()).map(|field| &field.definition));
        let is_over = "object_type = ?1 AND why = 'lacked' AND record_id NOT IN (SELECT value FROM json_each(?2))";
        self.tx.knowledge().delete_doubts(is_over, [&keys, &lacked])?;
        for (field, records) in fields.iter().filter_map(|field| Some((field, of(field)?))) {
            let of_field = (keys.as_str(), field.definition.as_str(), "lacked");
            let known = self.tx.doubt(of_field)?.unwrap_or_default();
            let before: u32 = known.version.and_then(|records| records.parse().ok()).unwrap_or_default();
            // Some of them may have been removed meanwhile.
            let had_it = before > 0 && records + before.min(MAX_RECORDS).div_ceil(2) <= before;
            if had_it {
                most = most.max((before - records).saturating_mul(4));
            }
            let readings = if had_it { 0 } else { known.tries };
            match readings < MAX_READINGS {
                true if !field.data_type.detail_only() && u64::from(records) > price.get() => {
                    // One reads all records: another at once shows nothing else.
                    let again = FieldToBackFill { definition: field.definition.clone(), is_new: false };
                    to_fill.extend((readings == 0).then_some(again));
                }
                true => again.push(field.column.as_str()),
                false => {}
            }
            let (tries, version) = ((readings + 1) % READINGS_OF_A_ROUND, Some(records.to_string()));
            self.tx.knowledge().set_doubt(of_field, &Doubt { tries, version, ..Doubt::default() })?;
        }
        let records = self.column(
            "SELECT DISTINCT record_id FROM unshown_columns, json_each(columns) WHERE object_type = ?1
             AND value IN (SELECT value FROM json_each(?2)) ORDER BY record_id LIMIT ?3",
            params![object, serde_json::json!(again).to_string(), most],
        );
        Ok((records?, to_fill))
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
            Source::Extra => false,
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
