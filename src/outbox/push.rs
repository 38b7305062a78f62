//! Sends the edits that wait: the awaits. What to send and what an answer means is decided elsewhere.
//!
//! Records go side by side, as the client's pace allows; the edits of one record go one after the other. A request is
//! stored, beyond a power cut, before its first byte is sent; its answer and what the mirror takes from it are one
//! transaction.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::error::OutboxError;
use super::key::Keys;
use super::state::{self, Answered, Next, Sent};
use super::steps::{Desk, Ended, Sending, Todo};
use super::take::Look;
use super::trail;
use crate::api::client::PatchError;
use crate::api::meter::AdmissionError;
use crate::api::{ApiError, Client, ErrorClass};
use crate::model::{Clock, Object, RecordId};
use crate::store::{MirrorTx, Store, StoreError, Tally};

/// Requests for one record in one run at most: a record that others change all the time waits for the next run.
const MOST_REQUESTS: u32 = 5;

/// Records in a row that the service failed to answer for, after which it counts as unavailable.
const MOST_FAILURES: u32 = 3;

/// What a run did with local edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PushTally {
    /// Updates sent; one may carry several edits of a record, and one edit may take several.
    pub sent: u64,
    /// Edits that the service has now.
    pub applied: u64,
    /// Edits that met another's change of the same field and wait for a person.
    pub conflicts: u64,
    /// Edits that the service does not take.
    pub rejected: u64,
    /// Edits still on their way after the run.
    pub waiting: u64,
}

/// What sending edits brought.
#[derive(Clone, Debug, Default)]
pub struct Pushed {
    /// What became of the edits.
    pub push: PushTally,
    /// What the answers did to the mirror.
    pub mirror: Tally,
    /// Objects whose records the key may not update.
    pub unwritable: BTreeSet<Object>,
    /// Objects of which an update was carried out.
    pub written: BTreeSet<Object>,
    /// Records that the service said it does not have.
    pub gone: Vec<(Object, RecordId)>,
    /// Whether an answer had a custom key that no definition explains.
    pub unknown_keys: bool,
    /// What a person should know.
    pub warnings: BTreeSet<String>,
}

/// Enters the ledger in a transaction.
pub type EnterLedger = Arc<dyn Fn(&MirrorTx<'_>) -> Result<(), StoreError> + Send + Sync>;

/// Everything that sending needs.
pub struct Pusher {
    /// The service.
    pub client: Client,
    /// The mirror's file.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where idempotency keys come from.
    pub keys: Keys,
    /// Enters what was spent with whatever is written.
    pub enter: EnterLedger,
    /// How many requests may be under way at once.
    pub workers: usize,
}

impl std::fmt::Debug for Pusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pusher").finish_non_exhaustive()
    }
}

/// What the workers of one run share.
#[derive(Default)]
pub(super) struct Shared {
    records: Mutex<VecDeque<(Object, RecordId)>>,
    pub(super) pushed: Mutex<Pushed>,
    /// Objects whose custom values may not be written.
    no_custom: Mutex<BTreeSet<Object>>,
    failures: Mutex<u32>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn pop(&self) -> Option<(Object, RecordId)> {
        lock(&self.records).pop_front()
    }

    /// Leaves the rest to another run.
    fn close(&self) {
        lock(&self.records).clear();
    }

    pub(super) fn ended(&self, ended: Ended) {
        let push = &mut lock(&self.pushed).push;
        push.applied += ended.applied;
        push.conflicts += ended.conflicts;
        push.rejected += ended.rejected;
    }

    pub(super) fn warn(&self, warning: String) {
        lock(&self.pushed).warnings.insert(warning);
    }

    pub(super) fn answered(&self) {
        *lock(&self.failures) = 0;
    }

    fn failed(&self, error: &ApiError) {
        let mut failures = lock(&self.failures);
        *failures += 1;
        if *failures >= MOST_FAILURES || error.class() == ErrorClass::Hold {
            self.close();
            self.warn(format!("edits wait for the next run: {error}"));
        }
    }

    fn forbidden(&self, object: Object, custom: bool) {
        if custom {
            lock(&self.no_custom).insert(object);
            self.warn(format!(
                "edits of custom fields of a {object} wait: the key lacks the write scope, or the workspace's plan does \
                 not let custom fields be edited"
            ));
        } else {
            lock(&self.pushed).unwritable.insert(object);
        }
    }
}

impl Pusher {
    /// Sends what waits, as far as it goes. What was done is said also where an error ended it.
    pub async fn push(&self) -> (Pushed, Result<(), OutboxError>) {
        let shared = Shared::default();
        let result = self.work(&shared).await;
        let mut pushed = shared.pushed.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A plan that allows no custom values forbids them where others are taken.
        let refused = lock(&shared.no_custom).clone();
        pushed.unwritable.extend(refused.difference(&pushed.written));
        let result = match self.store.read(|tx| tx.open_edits()).await {
            Ok(open) => {
                pushed.push.waiting = open.waiting;
                result
            }
            Err(error) => result.and(Err(error.into())),
        };
        (pushed, result)
    }

    async fn work(&self, shared: &Shared) -> Result<(), OutboxError> {
        let records = self.store.read(|tx| tx.edited_records()).await?;
        let workers = self.workers.clamp(1, records.len().max(1));
        *lock(&shared.records) = records.into();
        let work = (0..workers).map(|_| async {
            while let Some((object, id)) = shared.pop() {
                if let Err(error) = self.record(shared, object, &id).await {
                    shared.close();
                    return Err(error);
                }
            }
            Ok(())
        });
        // Each finishes the request that it has sent, whatever became of another.
        join_all(work).await.into_iter().collect()
    }

    /// Sends a record's edits, one request after the other.
    async fn record(&self, shared: &Shared, object: Object, id: &RecordId) -> Result<(), OutboxError> {
        let (mut sent, mut read) = (0, 0);
        while sent < MOST_REQUESTS && read < MOST_REQUESTS && !lock(&shared.pushed).unwritable.contains(&object) {
            let custom = !lock(&shared.no_custom).contains(&object);
            let (keys, now, record) = (self.keys.clone(), self.clock.now(), id.clone());
            let (todo, ended) = self
                .store
                .write_durably(move |tx| {
                    let mut desk = Desk::open(tx, object, &record, now)?;
                    let todo = desk.plan(&keys, custom)?;
                    Ok((todo, desk.ended))
                })
                .await?;
            shared.ended(ended);
            let goes_on = match todo {
                Todo::Rest => false,
                Todo::Read => {
                    read += 1;
                    self.look(shared, object, id, None).await?
                }
                Todo::Look(carrier) => {
                    let look = Look { carrier, doubt: true, refusal: None };
                    read += 1;
                    self.look(shared, object, id, Some(look)).await?
                }
                Todo::Send(sending) => {
                    sent += 1;
                    self.send(shared, object, id, sending).await?
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Sends a request and takes what comes of it. Says whether the record's next edit may follow.
    async fn send(
        &self,
        shared: &Shared,
        object: Object,
        id: &RecordId,
        sending: Sending,
    ) -> Result<bool, OutboxError> {
        let answer = self.client.patch(object, id, &sending.body, &sending.if_match, &sending.key).await;
        let failed = match answer {
            Ok(answer) => {
                {
                    let mut pushed = lock(&shared.pushed);
                    pushed.push.sent += 1;
                    pushed.written.insert(object);
                }
                shared.answered();
                self.confirm(shared, object, id, sending, answer).await?;
                return Ok(true);
            }
            Err(failed) => failed,
        };
        let PatchError { why, unanswered } = failed;
        let answered = answered(&why, unanswered);
        lock(&shared.pushed).push.sent += u64::from(answered != Answered::NotSent);
        let doubt = sending.doubt || unanswered;
        let facts = Sent { doubt, edits: sending.edits, last_status: sending.last_status };
        let next = state::after(answered, facts);
        let status = why.status();
        let custom = sending.custom;
        if next == Next::Read {
            let look = Look { carrier: sending.carrier, doubt, refusal: Some((status, trail::of_error(&why))) };
            shared.answered();
            return self.look(shared, object, id, Some(look)).await;
        }
        let (now, record, said, enter) = (self.clock.now(), id.clone(), trail::of_error(&why), self.enter.clone());
        let ended = self
            .store
            .write_durably(move |tx| {
                let mut desk = Desk::open(tx, object, &record, now)?;
                desk.refused(&sending, next, status, &said)?;
                enter(tx)?;
                Ok(desk.ended)
            })
            .await?;
        shared.ended(ended);
        if next == Next::Gone {
            lock(&shared.pushed).gone.push((object, id.clone()));
        }
        match next {
            Next::Gone | Next::Rejected | Next::Alone => {
                shared.answered();
                Ok(true)
            }
            _ if why.class() == ErrorClass::SkipObject => {
                shared.answered();
                shared.forbidden(object, custom);
                // What holds no custom values may still go.
                Ok(custom)
            }
            _ => failing(shared, "update", object, why),
        }
    }
}

fn answered(error: &ApiError, unanswered: bool) -> Answered {
    match (error, error.status()) {
        // A gateway's answer says nothing about the edit.
        (ApiError::Status(rejection), _) if unanswered && !rejection.envelope => Answered::Silence,
        (_, Some(status)) => Answered::Refused(status),
        (ApiError::NotAdmitted(_), _) => Answered::NotSent,
        (ApiError::Unsendable { .. }, _) => Answered::Refused(400),
        _ if unanswered => Answered::Silence,
        _ => Answered::NotSent,
    }
}

/// After a failure that says nothing about the edit: whether sending ends here, for this run or with an error.
pub(super) fn failing(
    shared: &Shared,
    doing: &'static str,
    object: Object,
    source: ApiError,
) -> Result<bool, OutboxError> {
    let ends = match &source {
        ApiError::NotAdmitted(AdmissionError::Ledger) | ApiError::Redirected { .. } | ApiError::Setup { .. } => true,
        other => matches!(other.class(), ErrorClass::StopAll | ErrorClass::Pause),
    };
    if ends {
        return Err(OutboxError::Api { doing, object, source });
    }
    shared.failed(&source);
    Ok(false)
}
