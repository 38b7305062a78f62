//! Applies an answer to a record's edits, in the transaction that stores it in the mirror.

use serde_json::{Map, Value};

use super::edit_tx::{EditTx, NextStep, group};
use super::field_verdict::{self, FieldState};
use super::patch_answer::{self, AfterAnswer, PatchOutcome, StoredRequest};
use super::patch_request::{self, RecordStep};
use super::typed_values::Given;
use super::{delay, trail};
use crate::model::{DelayScope, EditState, Editable, Etag, MirroredRecord, Record, RequestStamp};
use crate::store::{Applied, Edit, EditStep, StoreError, record_removed};

impl EditTx<'_, '_> {
    fn all(&mut self, edits: &[Edit], step: &EditStep<'_>) -> Result<(), StoreError> {
        edits.iter().try_for_each(|edit| self.end(edit.id, step))
    }

    /// Processes a missing answer, or one that does not confirm. Returns what it means; the delay says what follows.
    pub(super) fn refused(
        &mut self,
        request: &StoredRequest,
        outcome: PatchOutcome,
        answer_json: &str,
    ) -> Result<AfterAnswer, StoreError> {
        use EditState::{Queued, Rejected, Sending};
        let (status, next) = (outcome.status(), patch_answer::classify(outcome, request));
        let edits = sent_with(&self.edits()?, request);
        // The service accepts updates of this object, even if it refuses the content of this one.
        let is_for_updates = |status| !matches!(status, 0..=399 | 401 | 403 | 404 | 408 | 412 | 425 | 429 | 500..);
        if outcome == PatchOutcome::StoredOtherwise {
            self.accepts_updates(request.custom)?;
        } else if status.is_some_and(is_for_updates) {
            self.end_delay(self.rules.scope)?;
        }
        if status == Some(412) {
            self.tx.records().forget_version(self.object, self.record, &request.if_match)?;
        }
        // How many requests follow at once, if they still fit into the hour: after a refused version the record is read
        // first; after a 429 it is the object that waits.
        let after_hold = u32::from(status == Some(429));
        let (to, why, following) = match next {
            AfterAnswer::ReadBack if status == Some(412) => (Sending, trail::OTHER_VERSION, 2),
            AfterAnswer::ReadBack => (Sending, trail::UNCONFIRMED, 2),
            AfterAnswer::Reread => (Sending, trail::READ_FIRST, 2),
            AfterAnswer::NotFound => (if request.doubt { Sending } else { Queued }, trail::NOT_FOUND, 0),
            AfterAnswer::Rejected => (Rejected, trail::REFUSED, 0),
            AfterAnswer::SendAlone => (Queued, trail::ALONE, 1),
            AfterAnswer::Requeue => (Queued, trail::NOT_SENT, after_hold),
            AfterAnswer::SendAgain => (Sending, trail::IN_DOUBT, after_hold),
        };
        if matches!(next, AfterAnswer::Reread | AfterAnswer::Rejected) {
            self.tx.edits().give_up_request(&ids(&edits), request.doubt && next == AfterAnswer::Reread)?;
        }
        let step = EditStep { status, answer: Some(answer_json), ..EditStep::new(Sending, to, why) };
        self.all(&edits, &step)?;
        if next == AfterAnswer::Requeue && !outcome.was_sent() {
            edits.iter().try_for_each(|edit| self.tx.edits().unsend(edit.id))?;
        }
        if next == AfterAnswer::NotFound {
            self.not_found(status, answer_json)?;
        }
        if following > 0 {
            self.amend(DelayScope::Record, |delay, now| delay::after_progress(delay, following, now))?;
        }
        let is_admitted = outcome != PatchOutcome::NotAdmitted;
        if !is_admitted {
            self.amend(DelayScope::Record, delay::without_request)?;
        }
        if !is_admitted && request.tests_object {
            self.amend(self.rules.scope, delay::without_request)?;
        }
        let is_tried = matches!(next, AfterAnswer::Rejected | AfterAnswer::Requeue | AfterAnswer::SendAgain);
        if request.custom && !(is_tried && is_admitted) {
            // It says nothing about custom fields: the edits of another record may test whether they are refused.
            self.amend(DelayScope::CustomFields, delay::without_request)?;
        }
        match status {
            Some(403) => self.lengthen(if request.custom { DelayScope::CustomFields } else { self.rules.scope })?,
            Some(429) => self.lengthen_after_hold()?,
            _ => {}
        }
        Ok(next)
    }

    /// The service answered that the record does not exist. If the mirror does not have it either, every edit of it is
    /// rejected; otherwise the removal is confirmed as often as the record's delay allows.
    pub(super) fn not_found(&mut self, status: Option<u16>, answer_json: &str) -> Result<(), StoreError> {
        if self.mirrored(&[])?.is_some() {
            let delay = self.tx.edits().delay(self.object, DelayScope::Record, self.record)?;
            if delay.is_none_or(|delay| delay::may_confirm(delay.requests)) {
                self.found.not_found.push((self.object, self.record.clone()));
                // The confirmation counts as a request for this edit.
                self.lengthen(DelayScope::Record)?;
            }
            return Ok(());
        }
        for edit in self.edits()? {
            let step = EditStep::new(edit.state, EditState::Rejected, record_removed(edit.state));
            self.end(edit.id, &EditStep { status, answer: Some(answer_json), ..step })?;
        }
        Ok(())
    }

    /// Whether a success shows that the request was carried out.
    pub(super) fn shows(&self, request: &StoredRequest, record: Option<&Record>, status: u16) -> bool {
        let has_value = |(field, sent): &(&Editable, Value)| {
            let shown = record.and_then(|record| self.tx.records().shown_value(self.object, record, &field.column));
            shown.is_some_and(|shown| field_verdict::alike(Some(field), &shown, sent))
        };
        let has_values = self.sent_values(request).is_some_and(|sent| sent.iter().all(has_value));
        has_values && self.new_version(request, record, status).is_some()
    }

    pub(super) fn new_version(&self, request: &StoredRequest, record: Option<&Record>, status: u16) -> Option<Etag> {
        let etag = record.and_then(|record| record.version(self.object)).map(Etag::from);
        patch_answer::new_version(status, etag, &request.if_match)
    }

    /// What the body of a request sets, in the form of the columns, also for edits that were dropped meanwhile; `None` if
    /// it has a member that is no column any more.
    fn sent_values(&self, request: &StoredRequest) -> Option<Vec<(&Editable, Value)>> {
        let mut body: Map<String, Value> = serde_json::from_str(&request.body).ok()?;
        let mut custom = body.remove("customFields").unwrap_or_default();
        let mut values = Vec::new();
        for field in self.editable.values() {
            let members = if field.data_type.is_some() { custom.as_object_mut() } else { Some(&mut body) };
            let sent = members.and_then(|members| members.remove(&*field.wire));
            values.extend(sent.map(|sent| (field, Given::Json(sent).column(field))));
        }
        (body.is_empty() && custom.as_object().is_none_or(Map::is_empty)).then_some(values)
    }

    /// The update is applied: the mirror stores the answer, and later edits are rebased on the record as it is now.
    /// Returns how the row changed.
    pub(super) fn confirmed(
        &mut self,
        request: &StoredRequest,
        record: Option<&Record>,
        replayed: Option<bool>,
        asked: &RequestStamp,
    ) -> Result<Option<Applied>, StoreError> {
        if replayed == Some(false) {
            self.settle_doubts_of(request)?;
        }
        let edits = self.edits()?;
        let sent = sent_with(&edits, request);
        let mut applied = None;
        if let Some(record) = record {
            let sent = self.sent_values(request).unwrap_or_default();
            let columns: Vec<&str> = sent.iter().map(|(field, _)| &*field.column).collect();
            applied = self.tx.records().apply_confirmation(self.object, record, &request.if_match, &columns, asked)?;
        }
        self.accepts_updates(request.custom)?;
        let why = if replayed == Some(true) { trail::REPLAYED } else { trail::CONFIRMED };
        let step = EditStep::new(EditState::Sending, EditState::Applied, why);
        self.all(&sent, &EditStep { status: Some(200), ..step })?;
        let ended = ids(&sent);
        for edit in request.edits.iter().filter(|edit| !ended.contains(edit)) {
            self.tx.edits().note(*edit, why, self.now)?;
        }
        let etag = match applied {
            Some(_) => self.mirrored(&[])?.and_then(|record| record.etag),
            None => None,
        };
        self.decide_later(&edits, &ended, etag.as_ref())?;
        Ok(applied)
    }

    /// The service has accepted an update: nothing of its object waits any more.
    fn accepts_updates(&self, custom: bool) -> Result<(), StoreError> {
        self.end_delay(self.rules.scope)?;
        if custom { self.end_delay(DelayScope::CustomFields) } else { Ok(()) }
    }

    /// A request that was carried out just now found the version that it replaces: no other request on that version was
    /// carried out, nor ever will be. So in a copy, the record's other edits are not in doubt any more.
    fn settle_doubts_of(&mut self, request: &StoredRequest) -> Result<(), StoreError> {
        let edits = self.edits()?;
        // The carrier of a request has the version that its other edits replace, too.
        let carrier = |edit: &Edit| -> Option<Etag> {
            edits.iter().find(|of| Some(of.id) == edit.merged_into).map_or(&edit.if_match, |of| &of.if_match).clone()
        };
        let is_settled = |edit: &&Edit| {
            matches!(edit.state, EditState::Sending | EditState::Held)
                && !request.edits.contains(&edit.id)
                && carrier(edit).as_ref() == Some(&request.if_match)
        };
        let others: Vec<Edit> = edits.iter().filter(is_settled).cloned().collect();
        others.iter().try_for_each(|edit| self.tx.edits().give_up_request(&[edit.id], false))?;
        self.all(&others, &EditStep::new(EditState::Sending, EditState::Queued, trail::OVERTAKEN))
    }

    /// Whether the record has to be read before the next request can be decided on.
    pub(super) fn needs_read(&self) -> Result<bool, StoreError> {
        let edits = self.edits()?;
        let record = self.mirrored(&edits)?;
        // Whether custom values can be written is decided after that.
        let next = patch_request::next(self.object, &edits, record.as_ref(), &self.editable, (true, true));
        Ok(next == RecordStep::Read)
    }

    /// The record was read back and is stored in the mirror: decides on a request of unknown outcome. One that was read
    /// `at_once`, and has the version from before an answer, decides nothing: the next read does.
    pub(super) fn was_read_back(&mut self, carrier: i64, at_once: bool) -> Result<NextStep, StoreError> {
        let edits = self.edits()?;
        let sent = group(&edits, carrier);
        let Some(record) = self.mirrored(&edits)? else { return Ok(NextStep::Wait) };
        let fields = patch_request::union(&sent);
        let detail = fields.keys().any(|column| self.editable.get(column).is_some_and(|field| field.detail_only));
        if sent.is_empty() || detail && !record.details_current {
            return Ok(NextStep::Wait);
        }
        let replaced = sent.iter().find_map(|edit| edit.if_match.as_ref());
        let is_same_version = replaced.is_some() && replaced == record.etag.as_ref();
        let states = field_verdict::field_states(&fields, &self.editable, &record.values);
        let is_every = |wanted: FieldState| states.iter().all(|state| *state == wanted);
        let is_old = is_same_version && !is_every(FieldState::Ours);
        if at_once && is_old && sent.iter().any(|edit| edit.status == Some(412)) {
            return Ok(NextStep::Refuted);
        }
        if at_once && is_old && sent.iter().any(|edit| matches!(edit.status, Some(200..=299))) {
            return Ok(NextStep::Wait);
        }
        self.amend(DelayScope::Record, delay::after_read)?;
        // The edits of a request have the same time; without one, the request was never applied.
        if sent.iter().all(|edit| edit.first_sent_at.is_none()) {
            if field_verdict::deciding(&states) == FieldState::Ours {
                self.settle(&edits, &sent, trail::SHOWN, &record)?;
            } else {
                // Each edit is compared with the record separately.
                self.all(&sent, &EditStep::new(EditState::Sending, EditState::Queued, trail::REBASED))?;
            }
            return Ok(NextStep::Decide);
        }
        let request = self.stored_request(&edits, carrier);
        let verdict = field_verdict::after_doubt(
            request.is_some(),
            sent.first().and_then(|edit| edit.status),
            is_every(FieldState::Ours),
            is_same_version && is_every(FieldState::Unchanged),
        );
        let step = |to, why| EditStep::new(EditState::Sending, to, why);
        match (verdict, request) {
            // Its key tells whether it was applied.
            (None, Some(request)) => return self.repeat(request).map(NextStep::Send),
            (Some((EditState::Applied, why)), _) => self.settle(&edits, &sent, why, &record)?,
            (Some((to @ (EditState::Rejected | EditState::Queued), why)), _) => self.all(&sent, &step(to, why))?,
            _ if fields.keys().any(|column| !self.editable.contains_key(column)) => {
                self.all(&sent, &step(EditState::Rejected, trail::NOT_SHOWN))?;
            }
            _ => {
                // Where every value is the one from before, nothing shows that the update has made this version.
                let is_accepted = !is_every(FieldState::Unchanged) && self.is_stored_otherwise(carrier, &record)?;
                let why = if is_accepted { trail::STORED_OTHERWISE } else { trail::UNCERTAIN };
                for edit in &sent {
                    let own = field_verdict::field_states(&edit.fields, &self.editable, &record.values);
                    if is_accepted && own.iter().all(|state| *state == FieldState::Ours) {
                        self.settle(&edits, std::slice::from_ref(edit), trail::FOUND, &record)?;
                        continue;
                    }
                    let theirs = field_verdict::theirs(&edit.fields, &record.values);
                    self.end(edit.id, &EditStep { theirs: Some(&theirs), ..step(EditState::Conflict, why) })?;
                }
            }
        }
        Ok(NextStep::Decide)
    }

    /// Whether a record still has the version that the answer to an edit's update showed, with another value.
    pub(super) fn is_stored_otherwise(&self, edit: i64, record: &MirroredRecord) -> Result<bool, StoreError> {
        Ok(record.etag.is_some() && self.tx.edits().answered_version(edit)? == record.etag)
    }

    fn settle(&mut self, edits: &[Edit], sent: &[Edit], why: &str, record: &MirroredRecord) -> Result<(), StoreError> {
        self.all(sent, &EditStep::new(EditState::Sending, EditState::Applied, why))?;
        self.decide_later(edits, &ids(sent), record.etag.as_ref())
    }
}

/// The edits of a request that still wait for its answer: the others were dropped or rejected after it was sent.
fn sent_with(edits: &[Edit], request: &StoredRequest) -> Vec<Edit> {
    let waits = |edit: &&Edit| edit.state == EditState::Sending && request.edits.contains(&edit.id);
    edits.iter().filter(waits).cloned().collect()
}

fn ids(edits: &[Edit]) -> Vec<i64> {
    edits.iter().map(|edit| edit.id).collect()
}

#[cfg(test)]
#[path = "edit_outcome_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "edit_evidence_tests.rs"]
mod evidence_tests;
