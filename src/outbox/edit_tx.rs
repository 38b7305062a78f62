//! A record's edits inside one transaction: decisions are written in the transaction that read their input.
//!
//! A request is claimed here before it is sent: its delay is stored in the transaction that decides on it, so that a
//! process that is killed, or an answer that never arrives, costs one request and not a loop of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::patch_answer::StoredRequest;
use super::patch_request::{self, PatchRequest, RecordStep};
use super::push_progress::Pushed;
use super::{delay, field_verdict, trail};
use crate::format::counted;
use crate::model::{
    AnswerTime, DelayScope, EditState, Editable, Etag, HELD_COMMANDS, Instant, MirroredRecord, Object, RecordId,
    RetryDelay, is_unknown,
};
use crate::store::{Edit, EditStep, MirrorTx, StoreError};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextStep {
    /// Nothing now: they wait.
    Wait,
    /// Nothing now: the service shows the version that it has just refused.
    Refuted,
    /// A decision on their next request.
    Decide,
    /// Read the record, then decide again: on the outcome of this request, if there is one.
    Read(Option<i64>),
    Send(StoredRequest),
}

#[derive(Clone, Debug)]
pub(super) struct PushRules {
    pub max_edits: u64,
    /// The fingerprint of the API key: delays that a different key caused are over.
    pub api_key: String,
    /// The time by the steady clock, which nobody sets: the hour of new edits has elapsed by it.
    pub steady: Instant,
    /// How long no request is sent.
    pub hold: Duration,
    /// Which delay holds the edits of the object, of which this record's are.
    pub scope: DelayScope,
}

pub(super) struct EditTx<'a, 'b> {
    pub tx: &'a MirrorTx<'b>,
    pub object: Object,
    pub record: &'a RecordId,
    pub editable: BTreeMap<String, Editable>,
    pub rules: &'a PushRules,
    pub now: Instant,
    /// What this transaction adds to the result of the push.
    pub found: Pushed,
}

impl<'a, 'b> EditTx<'a, 'b> {
    /// Opens the edits of a record. Unreadable rows are rejected first, so that they do not block others. The request of
    /// one that was being sent is given up: the outcome of its other edits is determined by reading the record.
    pub(super) fn open(
        tx: &'a MirrorTx<'b>,
        object: Object,
        record: &'a RecordId,
        rules: &'a PushRules,
        now: Instant,
    ) -> Result<EditTx<'a, 'b>, StoreError> {
        // What it may show of a record alone says nothing about other records.
        tx.knowledge().answered(AnswerTime { shows: None, steady: rules.steady });
        let editable = tx.edits().editable(object)?;
        let mut edits = EditTx { tx, object, record, editable, rules, now, found: Pushed::default() };
        let open = tx.edits_of(object, record)?.into_iter();
        let (readable, unreadable): (Vec<Edit>, Vec<Edit>) = open.partition(|edit| edit.unreadable.is_none());
        for edit in unreadable {
            let why = edit.unreadable.as_deref().unwrap_or_default();
            let answer = trail::of_text(why);
            let step = EditStep { answer: Some(&answer), ..EditStep::new(edit.state, EditState::Rejected, why) };
            tx.edits().take_step(edit.id, &step, now)?;
            edits.found.ended((object, record), edit.id, EditState::Rejected, why);
            if edit.state == EditState::Sending {
                let request = group(&readable, edit.merged_into.unwrap_or(edit.id));
                let others: Vec<i64> = request.iter().map(|edit| edit.id).collect();
                tx.edits().give_up_request(&others, true)?;
            }
        }
        Ok(edits)
    }

    pub(super) fn edits(&self) -> Result<Vec<Edit>, StoreError> {
        self.tx.edits_of(self.object, self.record)
    }

    pub(super) fn mirrored(&self, edits: &[Edit]) -> Result<Option<MirroredRecord>, StoreError> {
        let columns: Vec<&str> = edits.iter().flat_map(|edit| edit.fields.keys().map(String::as_str)).collect();
        self.tx.edits().mirrored(self.object, self.record, &columns)
    }

    /// Takes steps that need no request, then claims and stores the next. `just_read`: the record was read for this.
    pub(super) fn next_request(&mut self, just_read: bool) -> Result<NextStep, StoreError> {
        if !self.is_due(DelayScope::Record)? || !self.is_due(self.rules.scope)? {
            return Ok(NextStep::Wait);
        }
        let custom = self.is_due(DelayScope::CustomFields)?;
        loop {
            let mut edits = self.edits()?;
            let record = self.mirrored(&edits)?;
            let queued = |to, why| EditStep::new(EditState::Queued, to, why);
            match patch_request::next(self.object, &edits, record.as_ref(), &self.editable, (custom, just_read)) {
                RecordStep::Nothing => return Ok(NextStep::Wait),
                RecordStep::Read => return self.read(None),
                RecordStep::Resume(id) => {
                    // What was sent is read back before anything else.
                    let request = self.stored_request(&edits, id);
                    let waits = request.is_some_and(|request| request.custom) && !custom;
                    return if waits { Ok(NextStep::Wait) } else { self.read(Some(id)) };
                }
                RecordStep::Settled(id) => {
                    self.end(id, &queued(EditState::Applied, trail::SHOWN))?;
                    self.decide_later(&edits, &[id], record.and_then(|record| record.etag).as_ref())?;
                }
                RecordStep::Refuse(id, why) => {
                    let answer = trail::of_text(&why);
                    self.end(id, &EditStep { answer: Some(&answer), ..queued(EditState::Rejected, &why) })?;
                }
                RecordStep::Conflict(id) => {
                    let record = record.unwrap_or_default();
                    let is_unshown = |column| record.values.get(column).is_some_and(is_unknown);
                    for edit in edits.iter().filter(|edit| edit.id == id) {
                        let why = match edit.fields.keys().any(is_unshown) {
                            true => trail::UNSHOWN,
                            false if self.is_stored_otherwise(id, &record)? => trail::STORED_OTHERWISE,
                            false => trail::CONFLICT,
                        };
                        let theirs = field_verdict::theirs(&edit.fields, &record.values);
                        self.end(id, &EditStep { theirs: Some(&theirs), ..queued(EditState::Conflict, why) })?;
                    }
                }
                // The copy of an accepted workspace has not come to it yet.
                RecordStep::Gone(_) if !self.tx.is_copied(self.object)? => {
                    self.lengthen(DelayScope::Record)?;
                    return Ok(NextStep::Wait);
                }
                RecordStep::Gone(id) => self.end(id, &queued(EditState::Rejected, trail::GONE))?,
                RecordStep::Replaced(id) => {
                    let values = record.map(|record| record.values).unwrap_or_default();
                    for edit in edits.iter_mut().filter(|edit| edit.id == id) {
                        // A later edit of a value that the record has already is based on that value.
                        edit.fields.retain(|column, (before, after)| {
                            let now = values.get(column).unwrap_or(&Value::Null);
                            let state = field_verdict::field_state(self.editable.get(column), (before, after), now);
                            state != field_verdict::FieldState::Ours
                        });
                    }
                    // Nothing was sent, so the record's delay stays.
                    self.tx.edits().take_step(id, &queued(EditState::Replaced, trail::REPLACED), self.now)?;
                    self.rebase(&edits, &[id], |(before, _)| before, None)?;
                }
                RecordStep::Send(request) => {
                    // If edits are held, decide again without them.
                    let ids: Vec<i64> = request.carried.iter().map(|(id, _)| *id).collect();
                    if !self.is_held(&ids)? {
                        return self.fix(&edits, request);
                    }
                }
            }
        }
    }

    /// Holds new edits if there are too many. Returns whether it held any.
    fn is_held(&mut self, edits: &[i64]) -> Result<bool, StoreError> {
        if !self.tx.edits().any_unreleased(edits)? {
            return Ok(false);
        }
        let PushRules { max_edits, steady, .. } = *self.rules;
        if !self.tx.holds_new_edits(steady, max_edits)? {
            return Ok(false);
        }
        let why = format!("more than {max_edits} new edits within an hour: a person drops or releases it");
        let held = self.tx.edits().hold_new_edits(&why, self.now)?;
        if held > 0 {
            let held = counted(held, "edit is", "edits are");
            let why = format!("there are more than {max_edits} new edits within an hour: {HELD_COMMANDS}");
            self.found.warnings.insert(format!("{held} held, because {why}"));
        }
        Ok(held > 0)
    }

    /// Stores a request, and in each of its edits what the request carries of it: that is what it may have changed.
    fn fix(&mut self, edits: &[Edit], request: PatchRequest) -> Result<NextStep, StoreError> {
        let PatchRequest { carried, body, if_match } = request;
        let (idle, carried): (Vec<_>, Vec<_>) = carried.into_iter().partition(|(_, fields)| fields.is_empty());
        for (id, _) in idle {
            self.end(id, &EditStep::new(EditState::Queued, EditState::Applied, trail::SHOWN))?;
            self.decide_later(edits, &[id], Some(&if_match))?;
        }
        for (id, fields) in &carried {
            self.tx.edits().set_edited_fields(*id, fields, None)?;
        }
        let ids: Vec<i64> = carried.into_iter().map(|(id, _)| id).collect();
        let carrier = ids.first().copied().unwrap_or_default();
        let last_status = edits.iter().find(|edit| edit.id == carrier).and_then(|edit| edit.status);
        let tests_object = self.claim_update(has_custom(&body))?;
        self.tx.edits().fix_request(&ids, &body, &if_match, &idempotency_key(), (self.now, self.rules.steady))?;
        let Some(request) = self.stored_request(&self.edits()?, carrier) else { return Ok(NextStep::Wait) };
        let number = self.tx.number_request()?;
        Ok(NextStep::Send(StoredRequest { doubt: false, last_status, tests_object, number, ..request }))
    }

    /// The stored request of an edit; `None` if the edit was dropped.
    pub(super) fn stored_request(&self, edits: &[Edit], carrier: i64) -> Option<StoredRequest> {
        let group = group(edits, carrier);
        let first = group.first()?;
        let (body, if_match, key) = (first.body.clone()?, first.if_match.clone()?, first.idempotency_key.clone()?);
        Some(StoredRequest {
            carrier,
            edits: group.iter().map(|edit| edit.id).collect(),
            custom: has_custom(&body),
            body,
            if_match,
            key,
            doubt: true,
            last_status: first.status,
            tests_object: false,
            number: 0,
        })
    }

    pub(super) fn repeat(&self, request: StoredRequest) -> Result<StoredRequest, StoreError> {
        let tests_object = self.claim_update(request.custom)?;
        self.tx.edits().send_again(request.carrier, self.now)?;
        Ok(StoredRequest { tests_object, number: self.tx.number_request()?, ..request })
    }

    pub(super) fn is_due(&self, scope: DelayScope) -> Result<bool, StoreError> {
        let delay = self.tx.edits().delay(self.object, scope, self.record)?;
        // One that begins at the end of the hold is no longer than others from there on.
        let (now, ends) = (self.now, self.now.plus(self.rules.hold));
        let is_over = |at| delay::is_over(at, now) && (at <= now || delay::is_over(at, ends));
        Ok(delay.is_none_or(|delay| is_over(delay.not_before)))
    }

    /// Stores the delay for one more read of the record, before it is sent. A read does not show whether updates of the
    /// object are accepted, so it must not use up the attempt that the object's delay allows: a record that can only be
    /// read would block all others.
    fn read(&self, carrier: Option<i64>) -> Result<NextStep, StoreError> {
        self.lengthen(DelayScope::Record)?;
        Ok(NextStep::Read(carrier))
    }

    /// Stores the delays for one more update, before it is sent. If an object or its custom fields were refused, this
    /// request tests whether they still are. Returns whether the object was.
    fn claim_update(&self, custom: bool) -> Result<bool, StoreError> {
        self.lengthen(DelayScope::Record)?;
        let test = |scope| {
            let is_refused = self.tx.edits().delay(self.object, scope, self.record)?.is_some();
            if is_refused { self.lengthen(scope).map(|()| true) } else { Ok(false) }
        };
        if custom {
            test(DelayScope::CustomFields)?;
        }
        test(self.rules.scope)
    }

    pub(super) fn lengthen(&self, scope: DelayScope) -> Result<(), StoreError> {
        let known = self.tx.edits().delay(self.object, scope, self.record)?;
        self.set_delay(scope, delay::after_request(known, scope, self.now))
    }

    /// The service limits the rate: updates of the object wait from the end of the hold on, for longer each time, so that the reads
    /// that are due come first. Of several that were under way, one counts.
    pub(super) fn lengthen_after_hold(&self) -> Result<(), StoreError> {
        let PushRules { scope, hold, .. } = *self.rules;
        if self.is_due(scope)? {
            self.lengthen(scope)?;
        }
        self.amend(scope, |delay, now| delay::after_hold(delay, scope, now.plus(hold)))
    }

    /// Decides again on a delay, if there is one: the next request may be made at once, or the attempt that the delay
    /// allowed is given back, because its answer says nothing about what the delay is for.
    pub(super) fn amend(
        &self,
        scope: DelayScope,
        decide: impl Fn(RetryDelay, Instant) -> RetryDelay,
    ) -> Result<(), StoreError> {
        let known = self.tx.edits().delay(self.object, scope, self.record)?;
        known.map_or(Ok(()), |delay| self.set_delay(scope, decide(delay, self.now)))
    }

    fn set_delay(&self, scope: DelayScope, delay: RetryDelay) -> Result<(), StoreError> {
        self.tx.edits().set_delay(self.object, scope, self.record, delay, &self.rules.api_key)
    }

    /// Ends the delay: the service accepts updates of this object again.
    pub(super) fn end_delay(&self, scope: DelayScope) -> Result<(), StoreError> {
        self.tx.edits().end_delay(self.object, scope, self.record)
    }

    /// Takes a step of an edit. A final step ends the record's delay.
    pub(super) fn end(&mut self, id: i64, step: &EditStep<'_>) -> Result<(), StoreError> {
        if self.tx.edits().take_step(id, step, self.now)? && (step.to.is_final() || step.to == EditState::Conflict) {
            self.found.ended((self.object, self.record), id, step.to, step.why);
            self.end_delay(DelayScope::Record)?;
        }
        Ok(())
    }

    /// Later edits of the record were made on the values before these edits, so the values of these edits do not count
    /// as changes by somebody else. What the record has by now may be one, so it is not taken for a value that was seen.
    pub(super) fn decide_later(&self, edits: &[Edit], ended: &[i64], etag: Option<&Etag>) -> Result<(), StoreError> {
        self.rebase(edits, ended, |(_, last)| last, etag)
    }

    /// Rebases later edits of the record on the values that these edits leave there.
    fn rebase(
        &self,
        edits: &[Edit],
        ended: &[i64],
        left: impl Fn(&(Value, Value)) -> &Value,
        etag: Option<&Etag>,
    ) -> Result<(), StoreError> {
        let fields = patch_request::union(edits.iter().filter(|edit| ended.contains(&edit.id)));
        let waits = |edit: &&Edit| matches!(edit.state, EditState::Queued | EditState::Held);
        for edit in edits.iter().filter(waits).filter(|edit| !ended.contains(&edit.id)) {
            let mut settled = edit.fields.clone();
            for (column, (before, _)) in &mut settled {
                let Some(change @ (first, last)) = fields.get(column) else {
                    continue;
                };
                let field = self.editable.get(column);
                if field_verdict::same(field, before, first) || field_verdict::same(field, before, last) {
                    before.clone_from(left(change));
                }
            }
            if settled != edit.fields {
                self.tx.edits().set_edited_fields(edit.id, &settled, etag)?;
            }
        }
        Ok(())
    }
}

/// The edits of one request, the first one first.
pub(super) fn group(edits: &[Edit], carrier: i64) -> Vec<Edit> {
    edits
        .iter()
        .filter(|edit| edit.state == EditState::Sending && (edit.id == carrier || edit.merged_into == Some(carrier)))
        .cloned()
        .collect()
}

fn has_custom(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok_and(|body| body.get("customFields").is_some())
}

/// 122 random bits, so that two updates of a workspace never share a key.
pub(super) fn idempotency_key() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
#[path = "edit_tx_tests.rs"]
mod tests;
