//! `goals`: what the mirror is said to have, as of when, and what is to be read next.
//!
//! A claim is a query over these rows. A row is written with the answer that proves it, and deleted as soon as something
//! contradicts it: what has no row is not known. Some kinds say the contrary, that something is not known although rows are
//! here: unread fields, missing scopes, removals that wait for a person, and the differences that a comparison
//! left open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::params;
use serde::Deserialize;

use crate::model::{CustomField, Instant, Layout, Object, RecordId, Ru, TimeField};
use crate::store::custom::rows::layout;
use crate::store::{ClaimsTx, FieldToBackFill, ReadOf, ReadTx, Result, Statements};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Changes(Object),
    /// All changes are here once the counts that their walk owes are made.
    UncountedChanges(Object),
    Sweep(Object),
    Sweeping(Object),
    Definitions,
    Team,
    /// The first copy is complete, and what is derived from it is built.
    Copied(Object),
    AskedSweep(Object),
    /// Only a sweep can fill a column.
    WantedSweep(Object),
    /// Standard fields that were excluded are mirrored again, and the sweep that reads them has not ended.
    UnreadFields(Object),
    /// Compared record by record, or by counts, with no difference left open.
    Compared(Object),
    Counted(Object),
    /// Compared, with these differences left.
    Differing(Object),
    /// The records were counted, and the service had so many more than a comparison could explain.
    Total(Object),
    /// So many more the service counted soon after a sweep, when a comparison explained the rest.
    WrongTotal(Object),
    /// The nominated removals look like an outage.
    RefusedRemovals(Object),
}

impl Goal {
    fn row(self) -> [&'static str; 2] {
        let (object, kind) = match self {
            Goal::Changes(object) => (object, "changes"),
            Goal::UncountedChanges(object) => (object, "uncounted changes"),
            Goal::Sweep(object) => (object, "sweep"),
            Goal::Sweeping(object) => (object, "sweeping"),
            Goal::Definitions => return ["custom-fields", "list"],
            Goal::Team => return ["team-members", "list"],
            Goal::Copied(object) => (object, "copied"),
            Goal::AskedSweep(object) => (object, "asked sweep"),
            Goal::WantedSweep(object) => (object, "wanted sweep"),
            Goal::UnreadFields(object) => (object, UNREAD_FIELDS),
            Goal::Compared(object) => (object, "compared"),
            Goal::Counted(object) => (object, "counted"),
            Goal::Differing(object) => (object, "differing"),
            Goal::Total(object) => (object, "total"),
            Goal::WrongTotal(object) => (object, "wrong total"),
            Goal::RefusedRemovals(object) => (object, "refused removals"),
        };
        [object.as_str(), kind]
    }
}

const UNREAD_FIELDS: &str = "unread fields";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct LastRead {
    /// Our clock when the read started; [`Instant::EPOCH`] if that clock was wrong. Of a list that proved nothing, it is the
    /// start of the last one that did.
    pub began: Instant,
    pub finished: Instant,
    /// The ledger's steady clock when it started, where that matters: our clock may be set meanwhile.
    pub steady: Option<Instant>,
    /// What the read has cost, where the next one depends on that.
    pub cost: Option<Ru>,
    /// What it left: differences, records that a sweep passed over.
    pub open: i64,
}

impl LastRead {
    pub const fn between(began: Instant, finished: Instant) -> LastRead {
        LastRead { began, finished, steady: None, cost: None, open: 0 }
    }
}

/// A comparison with the service that left no difference open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completeness {
    pub as_of: Instant,
    pub by_record: bool,
}

/// The condition, as SQL, that the column of a custom field does not hold every value; its definition is an SQL expression.
pub(in crate::store) fn is_unfilled(object: Object, definition: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM goals WHERE object = '{object}' AND kind = 'filled' AND definition = {definition})"
    )
}

pub(in crate::store) fn has_unread_fields(object: Object) -> String {
    format!("EXISTS (SELECT 1 FROM goals WHERE object = '{object}' AND kind = '{UNREAD_FIELDS}')")
}

#[derive(Clone, Copy, Debug)]
pub struct Goals<'t> {
    tx: &'t ReadTx<'t>,
}

impl ReadTx<'_> {
    pub const fn goals(&self) -> Goals<'_> {
        Goals { tx: self }
    }
}

impl Goals<'_> {
    pub fn is_set(&self, goal: Goal) -> Result<bool> {
        self.tx.value("SELECT EXISTS (SELECT 1 FROM goals WHERE object = ?1 AND kind = ?2)", goal.row())
    }

    /// A row that cannot be parsed is none.
    pub fn last_read(&self, goal: Goal) -> Result<Option<LastRead>> {
        let sql = "SELECT since AS began, finished, steady, cost, open FROM goals WHERE object = ?1 AND kind = ?2";
        self.tx.find_parsed(sql, goal.row())
    }

    /// The last comparison of an object with the service that left no difference open; `None` while a part of a list is not
    /// proven, because a sweep of several pages is not relied on before it was counted.
    pub fn complete_as_of(&self, object: Object) -> Result<Option<Completeness>> {
        if self.tx.unproven(object, TimeField::CreatedAt)?.is_some() {
            return Ok(None);
        }
        let counted = self.last_read(Goal::Counted(object))?.map(|read| (read.began, false));
        let compared = self.last_read(Goal::Compared(object))?.map(|read| (read.began, true));
        Ok(counted.max(compared).map(|(as_of, by_record)| Completeness { as_of, by_record }))
    }

    /// Our clock when the last walk began that has read all changes, or sweep that has read every record.
    pub fn changes_as_of(&self, object: Object) -> Result<Option<Instant>> {
        let is_counted = self.tx.unproven(object, TimeField::CreatedAt)?.is_none();
        let (changes, swept) = (self.last_read(Goal::Changes(object))?, self.last_read(Goal::Sweep(object))?);
        let known = changes.into_iter().chain(swept.filter(|_| is_counted)).map(|read| read.began);
        Ok(known.filter(|began| *began > Instant::EPOCH).max())
    }

    /// What the key cannot read, or write while an edit waits, and the scope that it lacks: by the resource for reading, by the
    /// scope for writing.
    pub fn missing_scopes(&self) -> Result<Vec<(String, String)>> {
        let sql = "SELECT object, definition FROM goals WHERE kind = 'missing scope' AND (definition NOT LIKE '%:write'
                OR EXISTS (SELECT 1 FROM outbox WHERE finished_at IS NULL AND state IN ('queued', 'sending')
                    AND definition = iif(object_type = 'contact', 'contacts:write', 'companies:write'))) ORDER BY object";
        self.tx.tuples(sql, [])
    }

    /// The last step of an edit before another workspace was accepted; 0 if none was.
    pub(in crate::store) fn accepted_after(&self) -> Result<i64> {
        self.tx.value("SELECT coalesce(max(open), 0) FROM goals WHERE kind = 'accepted'", [])
    }

    /// The definitions of custom fields of an object whose columns hold every value that lists tell; also since when, but for
    /// those of a first copy: a filter may know less than a detail, a sweep may leave a record out, and a detail that was read
    /// before shows nothing of the field.
    pub(in crate::store) fn filled_fields(&self, object: Object) -> Result<BTreeMap<RecordId, Option<String>>> {
        self.tx.tuples("SELECT definition, since FROM goals WHERE object = ?1 AND kind = 'filled'", [object])
    }

    fn fields(&self, object: Object, kind: &str) -> Result<BTreeSet<RecordId>> {
        self.tx.column("SELECT definition FROM goals WHERE object = ?1 AND kind = ?2", (object, kind))
    }

    /// The fields whose columns lack values that are mirrored: without `details`, no long text is.
    pub fn unfilled(&self, layout: &Layout, object: Object, details: bool) -> Result<Vec<CustomField>> {
        let (filled, mut fields) = (self.fields(object, "filled")?, layout.of(object).fields().to_vec());
        fields.retain(|field| !filled.contains(&field.definition) && (details || !field.data_type.detail_only()));
        Ok(fields)
    }

    /// The rows of an object whose values are known to be incomplete: all, while a column is not filled.
    pub fn count_lacking(&self, object: Object, details: bool) -> Result<u64> {
        let is_swept = self.is_set(Goal::UnreadFields(object))? || self.is_set(Goal::WantedSweep(object))?;
        if is_swept || !self.unfilled(&layout(&self.tx.conn)?, object, details)?.is_empty() {
            self.tx.count_rows(object)
        } else {
            Ok(0)
        }
    }

    /// The fields whose columns have values of an earlier time and are not complete, as far as lists contain them.
    pub fn restored(&self, layout: &Layout, object: Object) -> Result<Vec<CustomField>> {
        let (made, mut fields) = (self.fields(object, "made")?, self.unfilled(layout, object, false)?);
        fields.retain(|field| !made.contains(&field.definition));
        Ok(fields)
    }

    /// Whether a column was made empty and has been filled from answers alone since.
    pub fn was_made(&self, object: Object, definition: &RecordId) -> Result<bool> {
        Ok(self.fields(object, "made")?.contains(definition))
    }

    /// The fields whose columns the sweep in progress completes: those that were not complete when it began.
    pub fn being_filled(&self, object: Object) -> Result<BTreeSet<RecordId>> {
        self.fields(object, "filling")
    }
}

impl ClaimsTx<'_> {
    pub fn reach(&self, goal: Goal, read: LastRead) -> Result<()> {
        let [object, kind] = goal.row();
        let cost = read.cost.map(|cost| cost.get().cast_signed());
        self.run(
            "INSERT OR REPLACE INTO goals (object, kind, since, finished, steady, cost, open)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![object, kind, read.began, read.finished, read.steady, cost, read.open],
        )
    }

    pub fn set(&self, goal: Goal) -> Result<()> {
        self.run("INSERT OR IGNORE INTO goals (object, kind) VALUES (?1, ?2)", goal.row())?;
        let Goal::Copied(object) = goal else { return Ok(()) };
        // The history begins with the newest answer of the copy.
        let finished = format!("(SELECT max(synced_at) FROM {})", object.table());
        self.run(&format!("UPDATE goals SET finished = {finished} WHERE object = ?1 AND kind = ?2"), goal.row())
    }

    pub fn set_missing_scope(&self, what: &str, scope: Option<&str>) -> Result<()> {
        self.run("DELETE FROM goals WHERE object = ?1 AND kind = 'missing scope'", [what])?;
        let Some(scope) = scope else { return Ok(()) };
        let sql = "INSERT INTO goals (object, kind, definition) VALUES (?1, 'missing scope', ?2)";
        self.run(sql, [what, scope])
    }

    pub fn leave_records_out(&self, object: Object, count: u32) -> Result<()> {
        let [object, kind] = Goal::Sweeping(object).row();
        self.run("UPDATE goals SET open = open + ?3 WHERE object = ?1 AND kind = ?2", params![object, kind, count])
    }

    pub fn discard_sweep(&self, object: Object) -> Result<()> {
        self.unset(Goal::Sweeping(object))?;
        self.end_read(ReadOf::Sweep(object))
    }

    pub fn unset(&self, goal: Goal) -> Result<()> {
        self.run("DELETE FROM goals WHERE object = ?1 AND kind = ?2", goal.row())
    }

    pub fn replace(&self, goal: Goal, by: Goal) -> Result<()> {
        let ([object, kind], [_, new]) = (goal.row(), by.row());
        self.run("UPDATE OR REPLACE goals SET kind = ?3 WHERE object = ?1 AND kind = ?2", [object, kind, new])
    }

    /// What a comparison left may have been explained since.
    pub fn forget_left(&self, object: Object) -> Result<()> {
        self.run("UPDATE goals SET open = 0 WHERE object = ?1 AND kind = 'total'", [object])
    }

    /// A comparison whose time nobody knows says nothing, unless it left differences.
    pub fn compared(&self, object: Object, complete: Completeness, open: u64) -> Result<()> {
        if complete.as_of <= Instant::EPOCH && open == 0 {
            return Ok(());
        }
        self.unset(Goal::Differing(object))?;
        let goal = match (open, complete.by_record) {
            (0, true) => Goal::Compared(object),
            (0, false) => Goal::Counted(object),
            _ => Goal::Differing(object),
        };
        self.reach(goal, LastRead { open: open.cast_signed(), ..LastRead::between(complete.as_of, complete.as_of) })
    }

    /// Dates everything that is said earlier, after the clock was set back by so much: what was read while it was ahead is
    /// older than it says. What was read before that becomes too old, which is true as well. From when a column is filled is
    /// no claim: a later time is the safe one.
    pub fn date_claims_back(&self, by: Duration) -> Result<()> {
        // To the whole second, rounded down.
        let earlier = |at: &str| format!("{at} = strftime('%Y-%m-%dT%H:%M:%S', {at}, ?1) || '.000000Z'");
        let by = format!("-{} seconds", by.as_secs() + u64::from(by.subsec_nanos() > 0));
        self.run(&format!("UPDATE reads SET {} WHERE purpose = 'changes'", earlier("as_of")), [&by])?;
        let claims = format!("UPDATE goals SET {}, {}", earlier("since"), earlier("finished"));
        self.run(&format!("{claims} WHERE since > ?2 AND kind <> 'filled'"), params![by, Instant::EPOCH])
    }

    /// Withdraws what is said as of a time after `now`: the clock that dated it was ahead, so it would become a wrong claim
    /// as time passes. The object stays copied; nobody knows when it was.
    pub fn withdraw_future_claims(&self, now: Instant) -> Result<()> {
        self.run("UPDATE reads SET as_of = NULL WHERE purpose = 'changes' AND as_of > ?1", [now])?;
        self.run(
            "DELETE FROM goals WHERE kind IN ('changes', 'uncounted changes', 'counted', 'compared', 'total') AND since > ?1",
            [now],
        )?;
        self.run(
            "UPDATE goals SET since = ?2, finished = ?2 WHERE kind IN ('sweep', 'sweeping') AND since > ?1",
            [now, Instant::EPOCH],
        )
    }

    pub fn forget_goals_of_workspace(&self) -> Result<()> {
        self.run("DELETE FROM goals WHERE kind <> 'missing scope'", [])?;
        self.run("DELETE FROM reads", [])?;
        self.run("DELETE FROM frontier", [])
    }

    /// Says that nothing is known of fields of an object that were excluded: only a sweep shows them.
    pub fn forget_fields(&self, object: Object) -> Result<()> {
        self.run("DELETE FROM goals WHERE object = ?1 AND kind IN ('counted', 'compared', 'differing')", [object])?;
        if self.tx.count_rows(object)? == 0 {
            return Ok(());
        }
        self.set(Goal::UnreadFields(object))?;
        self.set(Goal::WantedSweep(object))
    }

    /// A table without rows has nothing that could be missing: its first copy brings the values with it. A sweep in
    /// progress has pages behind it that were read without them.
    pub fn fill_again(&self, object: Object, columns: &[FieldToBackFill]) -> Result<()> {
        if self.tx.count_rows(object)? == 0 {
            return self.mark_first_copy(object);
        }
        for column in columns {
            self.forget_column(object, &column.definition)?;
            if column.is_new {
                self.add_column(object, "made", &column.definition, None)?;
            }
        }
        Ok(())
    }

    /// Notes that a first copy begins: it brings the values of every column that there is.
    pub fn mark_first_copy(&self, object: Object) -> Result<()> {
        self.run(
            &format!("DELETE FROM goals WHERE object = ?1 AND kind IN ('filled', 'made', '{UNREAD_FIELDS}')"),
            [object],
        )?;
        let layout = self.tx.layout();
        let mut fields = layout.of(object).fields().iter();
        fields.try_for_each(|field| self.add_column(object, "filled", &field.definition, None))
    }

    /// A detail shows its value if it is read later than now, and later than all that there are, whose clock may have
    /// been ahead.
    pub fn mark_column_filled(&self, object: Object, definition: &RecordId, now: Instant) -> Result<()> {
        self.forget_column(object, definition)?;
        let latest = format!("SELECT max(fetched_at) FROM {}", object.detail_table());
        let latest: Option<String> = self.value(&latest, [])?;
        let since = latest.max(Some(now.to_string()));
        self.add_column(object, "filled", definition, since.as_deref())
    }

    /// Notes which columns a sweep that begins completes; none if it is discarded.
    pub fn begin_filling(&self, object: Object, columns: &[CustomField]) -> Result<()> {
        self.run("DELETE FROM goals WHERE object = ?1 AND kind = 'filling'", [object])?;
        columns.iter().try_for_each(|field| self.add_column(object, "filling", &field.definition, None))
    }

    /// Notes that a sweep has ended, which completes its columns and those of all standard fields.
    pub fn end_filling(&self, object: Object, now: Instant) -> Result<()> {
        self.unset(Goal::UnreadFields(object))?;
        let completed = self.tx.goals().being_filled(object)?;
        completed.iter().try_for_each(|definition| self.mark_column_filled(object, definition, now))
    }

    fn add_column(&self, object: Object, kind: &str, definition: &RecordId, since: Option<&str>) -> Result<()> {
        self.run(
            "INSERT OR IGNORE INTO goals (object, kind, definition, since) VALUES (?1, ?2, ?3, ?4)",
            params![object, kind, definition, since],
        )
    }

    fn forget_column(&self, object: Object, definition: &RecordId) -> Result<()> {
        self.run(
            "DELETE FROM goals WHERE object = ?1 AND kind IN ('filled', 'made', 'filling') AND definition = ?2",
            (object, definition),
        )
    }
}
