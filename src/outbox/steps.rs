//! The steps of a record's edits inside one transaction: what was decided is written where it was read, so nothing can
//! come between.

use std::collections::BTreeMap;

use serde_json::Value;

use super::body::{self, Step};
use super::key::Keys;
use super::rebase::{self, Evidence, Verdict};
use super::state::{self, Next};
use super::trail;
use crate::model::{Edit, EditState, Editable, EditedFields, Etag, Instant, MirroredRecord, Object, Record, RecordId};
use crate::store::{Applied, EditStep, MirrorTx, StoreError};

/// What became of edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    pub applied: u64,
    pub conflicts: u64,
    pub rejected: u64,
}

/// A request as it is stored, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sending {
    pub carrier: i64,
    pub edits: usize,
    pub body: String,
    pub if_match: Etag,
    pub key: String,
    /// Whether an earlier sending may have been carried out.
    pub doubt: bool,
    /// The status of the last answer, to a request before this one.
    pub last_status: Option<u16>,
    pub custom: bool,
}

/// What is to be done outside the transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Todo {
    Rest,
    /// Read the record, then ask again.
    Read,
    /// Read the record to find out what became of this request.
    Look(i64),
    Send(Sending),
}

/// A record's edits, in one transaction.
pub(super) struct Desk<'a, 'b> {
    pub tx: &'a MirrorTx<'b>,
    pub object: Object,
    pub record: &'a RecordId,
    pub editable: BTreeMap<String, Editable>,
    pub now: Instant,
    pub ended: Ended,
}

impl<'a, 'b> Desk<'a, 'b> {
    pub fn open(
        tx: &'a MirrorTx<'b>,
        object: Object,
        record: &'a RecordId,
        now: Instant,
    ) -> Result<Desk<'a, 'b>, StoreError> {
        Ok(Desk { editable: tx.editable(object)?, tx, object, record, now, ended: Ended::default() })
    }

    fn edits(&self) -> Result<Vec<Edit>, StoreError> {
        self.tx.edits_of(self.object, self.record)
    }

    fn held(&self, edits: &[Edit]) -> Result<Option<MirroredRecord>, StoreError> {
        let columns: Vec<&str> = edits.iter().flat_map(|edit| edit.fields.keys().map(String::as_str)).collect();
        self.tx.held(self.object, self.record, &columns)
    }

    /// Takes every step that needs no request, and fixes the request that comes next.
    pub fn plan(&mut self, keys: &Keys, custom: bool) -> Result<Todo, StoreError> {
        loop {
            let edits = self.edits()?;
            let held = self.held(&edits)?;
            let queued = |to, why| EditStep::new(EditState::Queued, to, why);
            match body::next(self.object, &edits, held.as_ref(), &self.editable, custom) {
                Step::Rest => return Ok(Todo::Rest),
                Step::Read => return Ok(Todo::Read),
                Step::Resume(id) => return self.resume(&edits, id, custom),
                Step::Settled(id) => {
                    self.end(id, &queued(EditState::Applied, trail::SHOWN))?;
                    self.settle_later(&edits, &[id], held.as_ref())?;
                }
                Step::Refuse(id, why) => {
                    let answer = trail::of_text(&why);
                    self.end(id, &queued(EditState::Rejected, &why).answered(None, Some(&answer)))?;
                }
                Step::Conflict(id) => {
                    let fields = edits.iter().find(|edit| edit.id == id).map(|edit| &edit.fields);
                    let values = held.map(|held| held.values).unwrap_or_default();
                    let theirs = fields.map(|fields| rebase::theirs(fields, &values)).unwrap_or_default();
                    self.end(id, &queued(EditState::Conflict, trail::CONFLICT).theirs(&theirs))?;
                }
                Step::Gone(id) => self.end(id, &queued(EditState::Rejected, trail::GONE))?,
                Step::Send(request) => {
                    let key = keys.make();
                    self.tx.fix_request(&request.edits, &request.body, &request.if_match, &key, self.now)?;
                    let carrier = request.edits.first().copied().unwrap_or_default();
                    let status = edits.iter().find(|edit| edit.id == carrier).and_then(|edit| edit.status);
                    return Ok(Todo::Send(Sending {
                        carrier,
                        edits: request.edits.len(),
                        custom: has_custom(&request.body),
                        body: request.body,
                        if_match: request.if_match,
                        key,
                        doubt: false,
                        last_status: status,
                    }));
                }
            }
        }
    }

    fn resume(&self, edits: &[Edit], id: i64, custom: bool) -> Result<Todo, StoreError> {
        let group = group(edits, id);
        let Some(carrier) = group.first() else {
            return Ok(Todo::Rest);
        };
        let (Some(body), Some(if_match), Some(key)) = (&carrier.body, &carrier.if_match, &carrier.idempotency_key)
        else {
            // Half a request was never sent: all three are stored at once.
            return Ok(Todo::Look(id));
        };
        let sending = Sending {
            carrier: id,
            edits: group.len(),
            custom: has_custom(body),
            body: body.clone(),
            if_match: if_match.clone(),
            key: key.clone(),
            doubt: true,
            last_status: carrier.status,
        };
        if !state::may_repeat(carrier.first_sent_at, self.now) {
            return Ok(Todo::Look(id));
        }
        if sending.custom && !custom {
            return Ok(Todo::Rest);
        }
        self.tx.send_again(id, self.now)?;
        Ok(Todo::Send(sending))
    }

    fn end(&mut self, id: i64, step: &EditStep<'_>) -> Result<(), StoreError> {
        if self.tx.take_step(id, step, self.now)? {
            match step.to {
                EditState::Applied => self.ended.applied += 1,
                EditState::Conflict => self.ended.conflicts += 1,
                EditState::Rejected => self.ended.rejected += 1,
                EditState::Queued | EditState::Sending | EditState::Dropped => {}
            }
        }
        Ok(())
    }

    /// Lets a request's edits take the same step.
    fn all(&mut self, edits: &[Edit], to: EditState, step: &EditStep<'_>) -> Result<(), StoreError> {
        for edit in edits {
            self.end(edit.id, &EditStep { to, ..*step })?;
        }
        Ok(())
    }

    /// After an answer that is no confirmation, or none.
    pub fn refused(
        &mut self,
        sending: &Sending,
        next: Next,
        status: Option<u16>,
        answer: &str,
    ) -> Result<(), StoreError> {
        let edits = group(&self.edits()?, sending.carrier);
        let step = |why| EditStep::new(EditState::Sending, EditState::Queued, why).answered(status, Some(answer));
        match next {
            Next::Applied | Next::Read => Ok(()),
            Next::Gone => self.gone(status, answer),
            Next::Rejected => self.all(&edits, EditState::Rejected, &step("the service does not take it")),
            Next::Alone => self.all(&edits, EditState::Queued, &step(trail::ALONE)),
            Next::Back => self.all(&edits, EditState::Queued, &step(trail::NOT_SENT)),
            Next::Again => self.all(
                &edits,
                EditState::Sending,
                &step("it may have been carried out: the same request is sent again later"),
            ),
        }
    }

    /// The service does not have the record: every edit of it ends.
    pub fn gone(&mut self, status: Option<u16>, answer: &str) -> Result<(), StoreError> {
        for edit in self.edits()? {
            let step = EditStep::new(edit.state, EditState::Rejected, trail::GONE).answered(status, Some(answer));
            self.end(edit.id, &step)?;
        }
        Ok(())
    }

    /// The service has it: the mirror takes what the answer says, and later edits are of the record as it is now. Gives
    /// what became of the row.
    pub fn confirmed(
        &mut self,
        sending: &Sending,
        record: Option<&Record>,
        replayed: bool,
        asked_at: Instant,
    ) -> Result<Option<Applied>, StoreError> {
        let edits = self.edits()?;
        let sent = group(&edits, sending.carrier);
        let mut applied = None;
        if let Some(record) = record {
            let fields = body::union(&sent);
            let complete = self.tx.shows_all(self.object, record, fields.keys().map(String::as_str));
            let phase = self.tx.phase(self.object)?;
            applied = self.tx.apply_confirmation(self.object, record, &sending.if_match, complete, asked_at, phase)?;
        }
        let why = if replayed { trail::REPLAYED } else { trail::CONFIRMED };
        let step = EditStep::new(EditState::Sending, EditState::Applied, why).answered(Some(200), None);
        self.all(&sent, EditState::Applied, &step)?;
        let held = match applied {
            Some(_) => self.held(&edits)?,
            None => None,
        };
        let ids: Vec<i64> = sent.iter().map(|edit| edit.id).collect();
        self.settle_later(&edits, &ids, held.as_ref())?;
        Ok(applied)
    }

    /// After the record was read and the mirror has it: what it says about a request whose outcome is not known, or that
    /// met another version. Says whether that could be decided.
    pub fn looked(
        &mut self,
        carrier: i64,
        doubt: bool,
        status: Option<u16>,
        answer: Option<&str>,
    ) -> Result<bool, StoreError> {
        let edits = self.edits()?;
        let sent = group(&edits, carrier);
        let Some(held) = self.held(&edits)? else {
            return Ok(false);
        };
        let fields = body::union(&sent);
        let detail = fields.keys().any(|column| self.editable.get(column).is_some_and(Editable::detail_only));
        if sent.is_empty() || detail && !held.details_current {
            return Ok(false);
        }
        let seen = doubt && self.saw(&sent, &fields)?;
        let standings = rebase::standings(&fields, &self.editable, &held.values);
        let step = |why| EditStep::new(EditState::Sending, EditState::Queued, why).answered(status, answer);
        match rebase::verdict(&standings, Evidence { doubt, seen }) {
            Verdict::Applied => {
                let why = if doubt { trail::FOUND } else { trail::SHOWN };
                self.all(&sent, EditState::Applied, &step(why))?;
                let ids: Vec<i64> = sent.iter().map(|edit| edit.id).collect();
                self.settle_later(&edits, &ids, Some(&held))?;
            }
            Verdict::Conflict if doubt => {
                for edit in &sent {
                    let theirs = rebase::theirs(&edit.fields, &held.values);
                    let step = step(trail::CONFLICT).theirs(&theirs);
                    self.end(edit.id, &EditStep { to: EditState::Conflict, ..step })?;
                }
            }
            // Nothing was done: each edit is held against the record by itself.
            Verdict::Conflict | Verdict::Anew => {
                let why = if doubt { trail::NOT_DONE } else { trail::REBASED };
                self.all(&sent, EditState::Queued, &step(why))?;
            }
        }
        Ok(true)
    }

    /// Whether the mirror's history has our values since the request was first sent.
    fn saw(&self, sent: &[Edit], fields: &EditedFields) -> Result<bool, StoreError> {
        let Some(since) = sent.first().and_then(|edit| edit.first_sent_at) else {
            return Ok(false);
        };
        let is_ours = |column: &str, new: &Value| {
            fields.get(column).is_some_and(|(_, after)| rebase::same(self.editable.get(column), new, after))
        };
        self.tx.saw_values(self.object, self.record, since, is_ours, fields.len())
    }

    /// Later edits of the record were made on what the mirror showed before these: what these put there is no change by
    /// somebody else.
    fn settle_later(&self, edits: &[Edit], ended: &[i64], held: Option<&MirroredRecord>) -> Result<(), StoreError> {
        let fields = body::union(edits.iter().filter(|edit| ended.contains(&edit.id)));
        let later = edits.iter().filter(|edit| edit.state == EditState::Queued && !ended.contains(&edit.id));
        for edit in later {
            let mut settled = edit.fields.clone();
            for (column, (before, _)) in &mut settled {
                let Some((first, last)) = fields.get(column) else {
                    continue;
                };
                let field = self.editable.get(column);
                if rebase::same(field, before, first) || rebase::same(field, before, last) {
                    let now = held.and_then(|held| held.values.get(column));
                    before.clone_from(now.unwrap_or(last));
                }
            }
            if settled != edit.fields {
                let etag = held.and_then(|held| held.etag.as_ref());
                self.tx.set_edited_fields(edit.id, &settled, etag)?;
            }
        }
        Ok(())
    }
}

/// The edits of one request, its carrier first.
fn group(edits: &[Edit], carrier: i64) -> Vec<Edit> {
    edits
        .iter()
        .filter(|edit| edit.state == EditState::Sending && (edit.id == carrier || edit.merged_into == Some(carrier)))
        .cloned()
        .collect()
}

fn has_custom(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok_and(|body| body.get("customFields").is_some())
}
