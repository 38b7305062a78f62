//! What an answer means for a record's edits, inside the transaction that takes it into the mirror.

use serde_json::Value;

use super::answer::AfterAnswer;
use super::delay;
use super::edit_tx::{EditTx, StoredRequest, group};
use super::rebase::{self, SendEvidence, Verdict};
use super::request;
use super::trail;
use crate::model::{DelayScope, Edit, EditState, Editable, EditedFields, Instant, Record};
use crate::store::{Applied, EditStep, StoreError};

/// What follows once a record was read back.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterReadBack {
    /// Nothing more now: the record's edits wait.
    Wait,
    /// The next request is decided on.
    Continue,
    /// The same request is sent once more: its key tells whether it was carried out.
    Repeat(StoredRequest),
}

/// An answer that is no confirmation.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedAnswer<'a> {
    pub status: Option<u16>,
    /// What the service said, as JSON.
    pub said: &'a str,
    /// Whether the request left this machine.
    pub sent: bool,
    /// Whether the meter admitted it: what the budget or a hold keeps back is no failure.
    pub admitted: bool,
}

impl EditTx<'_, '_> {
    /// Lets a request's edits take the same step.
    fn all(&mut self, edits: &[Edit], to: EditState, step: &EditStep<'_>) -> Result<(), StoreError> {
        for edit in edits {
            self.end(edit.id, &EditStep { to, ..*step })?;
        }
        Ok(())
    }

    /// After an answer that is no confirmation, or none. Says whether the record's next request may follow.
    pub fn refused(
        &mut self,
        request: &StoredRequest,
        next: AfterAnswer,
        answer: RefusedAnswer<'_>,
    ) -> Result<bool, StoreError> {
        let RefusedAnswer { status, said, sent, admitted } = answer;
        let edits = group(&self.edits()?, request.carrier);
        let step = |why| EditStep::new(EditState::Sending, EditState::Queued, why).answered(status, Some(said));
        if status.is_some_and(answers_for_updates) {
            self.end_delay(DelayScope::Object)?;
        }
        match next {
            AfterAnswer::Applied => {}
            AfterAnswer::Read => {
                // Read at once where a read and another request still fit into the hour; else it is read first later.
                let ids: Vec<i64> = edits.iter().map(|edit| edit.id).collect();
                self.tx.give_up_request(&ids, request.doubt)?;
                self.all(&edits, EditState::Sending, &step(trail::READ_FIRST))?;
                self.follow(|delay, now| delay::after_progress(delay, 2, now))?;
            }
            AfterAnswer::Gone => self.gone(status, said)?,
            AfterAnswer::Rejected => self.all(&edits, EditState::Rejected, &step(trail::REFUSED))?,
            AfterAnswer::Alone => {
                self.all(&edits, EditState::Queued, &step(trail::ALONE))?;
                self.follow(|delay, now| delay::after_progress(delay, 1, now))?;
            }
            AfterAnswer::Back => {
                self.all(&edits, EditState::Queued, &step(trail::NOT_SENT))?;
                if !sent {
                    for edit in &edits {
                        self.tx.unsend(edit.id)?;
                    }
                }
            }
            AfterAnswer::Again => self.all(&edits, EditState::Sending, &step(trail::IN_DOUBT))?,
        }
        if !admitted {
            self.follow(delay::without_request)?;
        }
        match status {
            Some(403) if request.custom => self.lengthen(DelayScope::CustomFields)?,
            Some(403) => self.lengthen(DelayScope::Object)?,
            // The hold itself is the meter's to keep.
            Some(429) => self.follow(|delay, now| delay::after_progress(delay, 1, now))?,
            _ => {}
        }
        Ok(match next {
            AfterAnswer::Again => false,
            AfterAnswer::Back => status == Some(429) || status == Some(403) && request.custom,
            _ => true,
        })
    }

    /// The service does not have the record: every edit of it ends.
    pub fn gone(&mut self, status: Option<u16>, said: &str) -> Result<(), StoreError> {
        for edit in self.edits()? {
            let step = EditStep::new(edit.state, EditState::Rejected, trail::GONE).answered(status, Some(said));
            self.end(edit.id, &step)?;
        }
        Ok(())
    }

    /// The service has it: the mirror takes what the answer says, and later edits are of the record as it is now. Gives
    /// what became of the row.
    pub fn confirmed(
        &mut self,
        request: &StoredRequest,
        record: Option<&Record>,
        replayed: bool,
        asked_at: Instant,
    ) -> Result<Option<Applied>, StoreError> {
        let edits = self.edits()?;
        let sent = group(&edits, request.carrier);
        let mut applied = None;
        if let Some(record) = record {
            let fields = request::union(&sent);
            let complete = self.tx.shows_all(self.object, record, fields.keys().map(String::as_str));
            let phase = self.tx.phase(self.object)?;
            applied = self.tx.apply_confirmation(self.object, record, &request.if_match, complete, asked_at, phase)?;
        }
        self.end_delay(DelayScope::Object)?;
        if request.custom {
            self.end_delay(DelayScope::CustomFields)?;
        }
        let why = if replayed { trail::REPLAYED } else { trail::CONFIRMED };
        let step = EditStep::new(EditState::Sending, EditState::Applied, why).answered(Some(200), None);
        self.all(&sent, EditState::Applied, &step)?;
        let mirrored = match applied {
            Some(_) => self.mirrored(&edits)?,
            None => None,
        };
        let ids: Vec<i64> = sent.iter().map(|edit| edit.id).collect();
        self.settle_later(&edits, &ids, mirrored.as_ref())?;
        Ok(applied)
    }

    /// After the record was read because of no request: the request that follows belongs to the same try.
    pub fn was_read(&self) -> Result<(), StoreError> {
        self.follow(delay::after_read)
    }

    /// The meter did not let the record be read: that is no failure.
    pub fn was_not_asked(&self) -> Result<(), StoreError> {
        self.follow(delay::without_request)
    }

    /// After the record was read back and the mirror has it: what it says about a request whose outcome is not known.
    pub fn was_read_back(&mut self, carrier: i64) -> Result<AfterReadBack, StoreError> {
        let edits = self.edits()?;
        let sent = group(&edits, carrier);
        let Some(record) = self.mirrored(&edits)? else {
            return Ok(AfterReadBack::Wait);
        };
        let fields = request::union(&sent);
        let detail = fields.keys().any(|column| self.editable.get(column).is_some_and(Editable::detail_only));
        if sent.is_empty() || detail && !record.details_current {
            return Ok(AfterReadBack::Wait);
        }
        self.was_read()?;
        let doubt = sent.first().is_some_and(|edit| edit.first_sent_at.is_some());
        let seen = doubt && self.saw(&sent, &fields)?;
        let standings = rebase::standings(&fields, &self.editable, &record.values);
        let step = |why| EditStep::new(EditState::Sending, EditState::Queued, why);
        match rebase::verdict(&standings, SendEvidence { doubt, seen }) {
            Verdict::Applied => {
                let why = if doubt { trail::FOUND } else { trail::SHOWN };
                self.all(&sent, EditState::Applied, &step(why))?;
                let ids: Vec<i64> = sent.iter().map(|edit| edit.id).collect();
                self.settle_later(&edits, &ids, Some(&record))?;
            }
            verdict => {
                if let Some(request) = self.repeat(&edits, carrier)? {
                    return Ok(AfterReadBack::Repeat(request));
                }
                if doubt && verdict == Verdict::Conflict {
                    for edit in &sent {
                        let theirs = rebase::theirs(&edit.fields, &record.values);
                        let step = step(trail::CONFLICT).theirs(&theirs);
                        self.end(edit.id, &EditStep { to: EditState::Conflict, ..step })?;
                    }
                } else {
                    // Nothing was done: each edit is compared with the record by itself.
                    let why = if doubt { trail::NOT_DONE } else { trail::REBASED };
                    self.all(&sent, EditState::Queued, &step(why))?;
                }
            }
        }
        Ok(AfterReadBack::Continue)
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
}

/// Whether a status shows that the service takes updates of this object, whatever it says about this one.
const fn answers_for_updates(status: u16) -> bool {
    !matches!(status, 0..=399 | 401 | 403 | 408 | 425 | 429 | 500..)
}
