//! `outbox_delays`: the times before which no request is made for edits. `outbox::delay` computes the delays.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::params;

use crate::model::{DelayScope, Instant, Object, RecordId, RetryDelay};
use crate::store::outbox::fields_of;
use crate::store::records::removals::AWAITS_REMOVAL;
use crate::store::{EditsTx, OPEN, ReadTx, Result, Statements, StoredTime};

fn key(scope: DelayScope, record: &RecordId) -> &str {
    if scope == DelayScope::Record { record.as_str() } else { "" }
}

/// Whether an edit `o` waits for the end of a delay `w`: for those of custom fields if it has a column of one, and for those of
/// records that seem to be removed in place of those of its object.
pub(super) static WAITS_FOR: LazyLock<String> = LazyLock::new(|| {
    format!(
        "w.object_type = o.object_type AND w.scope IN ('record', 'object', 'missed', 'custom_fields')
         AND w.record_id IN (o.record_id, '') AND (w.scope <> 'custom_fields'
             OR EXISTS (SELECT 1 FROM {} AS f WHERE substr(f.key, 1, 3) = 'cf_'))
         AND (w.scope NOT IN ('object', 'missed') OR (w.scope = 'missed') = {AWAITS_REMOVAL})",
        fields_of("o")
    )
});

impl EditsTx<'_> {
    /// An unreadable delay counts as none.
    pub fn delay(&self, object: Object, scope: DelayScope, record: &RecordId) -> Result<Option<RetryDelay>> {
        let sql = "SELECT requests, recent, last_at, not_before FROM outbox_delays
             WHERE object_type = ?1 AND scope = ?2 AND record_id = ?3";
        self.find_parsed(sql, params![object, scope, key(scope, record)])
    }

    /// `api_key` is the fingerprint of the current key.
    pub fn set_delay(
        &self,
        object: Object,
        scope: DelayScope,
        record: &RecordId,
        delay: RetryDelay,
        api_key: &str,
    ) -> Result<()> {
        let RetryDelay { requests, recent, last_at, not_before } = delay;
        self.run(
            "INSERT OR REPLACE INTO outbox_delays VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![object, scope, key(scope, record), requests, recent, last_at, not_before, api_key],
        )
    }

    pub fn end_delay(&self, object: Object, scope: DelayScope, record: &RecordId) -> Result<()> {
        self.run(
            "DELETE FROM outbox_delays WHERE object_type = ?1 AND scope = ?2 AND record_id = ?3",
            params![object, scope, key(scope, record)],
        )
    }

    /// Ends the delays that an edit waits for at once, on a person's request.
    pub fn shorten_delays(&self, edit: i64, now: Instant) -> Result<()> {
        let sql = format!(
            "UPDATE outbox_delays AS w SET not_before = ?2, recent = 0 FROM outbox AS o WHERE o.id = ?1 AND {}",
            *WAITS_FOR
        );
        self.run(&sql, params![edit, now])
    }

    /// Ends the delays of a different API key, those of records without edits, and those of removals that are decided.
    pub fn end_obsolete_delays(&self, api_key: &str) -> Result<()> {
        self.run(
            &format!(
                "DELETE FROM outbox_delays WHERE api_key IS NOT ?1
                     OR scope = 'missed' AND NOT EXISTS (SELECT 1 FROM goals
                        WHERE object = object_type AND kind = 'refused removals')
                     OR scope = 'record' AND NOT EXISTS (SELECT 1 FROM outbox AS o
                        WHERE o.object_type = outbox_delays.object_type AND o.record_id = outbox_delays.record_id
                          AND o.{OPEN})"
            ),
            [api_key],
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxOutlook {
    /// For each record with edits to send: the ends of their delays.
    pub waiting: Vec<Vec<Instant>>,
    /// The id of the newest step of an edit: it increases with every change.
    pub newest_step: i64,
}

impl OutboxOutlook {
    pub fn read(tx: &ReadTx<'_>) -> Result<OutboxOutlook> {
        let newest_step = tx.value("SELECT coalesce(max(id), 0) FROM outbox_events", [])?;
        // No push processes a row that is not an edit.
        let sql = format!(
            "SELECT o.id, w.not_before FROM outbox AS o LEFT JOIN outbox_delays AS w ON {}
         WHERE o.object_type IN ('contact', 'company') AND o.{OPEN} AND o.state IN ('queued', 'sending')
           AND o.merged_into IS NULL AND o.id = (
             SELECT min(p.id) FROM outbox AS p WHERE p.object_type = o.object_type AND p.record_id = o.record_id
               AND p.{OPEN} AND p.state IN ('queued', 'sending', 'conflict') AND p.merged_into IS NULL)",
            *WAITS_FOR
        );
        let delays: Vec<(i64, StoredTime)> = tx.tuples(&sql, [])?;
        let mut ends: BTreeMap<i64, Vec<Instant>> = BTreeMap::new();
        for (edit, StoredTime(end)) in delays {
            ends.entry(edit).or_default().extend(end);
        }
        Ok(OutboxOutlook { waiting: ends.into_values().collect(), newest_step })
    }
}
