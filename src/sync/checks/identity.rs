//! Identifies the workspace: before anything is written, known records are looked up with a new key or address.
//!
//! # Invariants
//! - Nothing is written before known records were found with the new key.
//! - A different workspace is concluded from the same evidence at two moments an hour apart: most of the found records
//!   have a creation time that differs from the known one by more than a second, or none of a sample of every object, the
//!   newest and others from all times, exists. One such answer may be an outage: the run fails, and the next one checks
//!   again. A check that could not read one of the objects is no evidence, because that object may have the records that
//!   still exist.
//!
//! An accepted workspace is copied whole: its acceptance empties the tables and holds the edits in one transaction, so no
//! record is ever of another workspace than the one that is mirrored, and no edit made in the one before is sent here unless a
//! person releases it.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{ErrorClass, ListQuery};
use crate::model::{Instant, Object, Purpose, RecordId};
use crate::store::{MirrorTx, StateKey, StoreError};
use crate::sync::checks::lookup_by_id::is_of_ids;
use crate::sync::error::SyncError;
use crate::sync::plan::Step;
use crate::sync::run::Run;
use crate::sync::walks::service_clock;
use crate::sync::walks::short_list::{FetchedPage, ShortList};

/// The number of known records that are looked up: as many as fit one list.
const SAMPLE: usize = 50;

/// An address may show times in whole seconds that another one shows more precisely.
const SAME_TIME: Duration = Duration::from_secs(1);

/// The minimum time between two checks that do not recognise the workspace, for them to be evidence.
const MOMENTS_APART: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub base_url: String,
    pub key: String,
}

/// Forgets the workspace before. Returns how many edits are held. Write it durably.
fn accept(tx: &MirrorTx<'_>, now: Instant) -> Result<u64, StoreError> {
    for key in StateKey::OF_WORKSPACE {
        tx.clear_state(&key)?;
    }
    tx.claims().forget_goals_of_workspace()?;
    tx.knowledge().clear_unlisted()?;
    for object in Object::ALL {
        tx.custom().clear_filled(object)?;
        tx.records().forget_all(object)?;
        tx.knowledge().clear_doubts(object)?;
        tx.claims().mark_first_copy(object)?;
    }
    // The same id may be another record there, and its fields may have the values that the edit was based on.
    tx.edits().hold_for_another_workspace(now)
}

/// Makes sure that the key sees the mirrored workspace, for 1 RU if the key or the address is new.
pub(in crate::sync) async fn check_identity(run: &Run<'_>) -> Result<(), SyncError> {
    let (client, seen_by) = (&run.engine.client, run.engine.seen_by());
    let now = Identity { base_url: client.settings().base_url.as_str().into(), key: client.key_fingerprint().into() };
    let known: Option<Identity> = run.read(|tx| tx.state(&StateKey::Identity)).await?;
    if known.as_ref() == Some(&now) {
        return Ok(());
    }
    // This request is no edit, and has no delays but these.
    if let Some(error) = run.not_due(Step::Identity) {
        return Err(error);
    }
    // Without a known identity there may still be records, because the entry may be lost. What is recognised needs no
    // acceptance: nothing is forgotten then.
    let accepted = match (recognise(run).await, run.job.accept_workspace) {
        (Err(SyncError::NotRecognised { .. } | SyncError::NoScope { .. }), true) => true,
        (Err(SyncError::NotRecognised { asked, met, unread }), _) if unread.is_empty() => {
            let steady = run.steady_time();
            let first = run.write(move |tx| tx.knowledge().not_recognised(&seen_by, steady)).await?;
            return Err(match steady.since(first) >= MOMENTS_APART {
                true => SyncError::OtherWorkspace { asked, met },
                false => SyncError::NotRecognised { asked, met, unread },
            });
        }
        // A key that may only write: the version that an update replaces is all the evidence that there can be, unless the key
        // has shown another workspace before.
        (Err(SyncError::NoScope { .. }), _)
            if run.job.is_push() && !run.read(move |tx| tx.was_not_recognised(&seen_by)).await? =>
        {
            let text = "this key can read no record: edits are sent on the versions that the mirror has";
            run.warn(text.into());
            return Ok(());
        }
        (recognised, _) => {
            recognised?;
            false
        }
    };
    let at = run.now();
    let stored = run.store().write_durably(move |tx| {
        tx.knowledge().recognised()?;
        tx.set_state(&StateKey::Identity, &now)?;
        if accepted { accept(tx, at) } else { Ok(0) }
    });
    let held = stored.await?;
    if accepted {
        // Another service has another clock.
        service_clock::recall_service_time(run).await?;
    }
    if held > 0 {
        run.warn(format!(
            "another workspace was accepted, so {} held: `crm-mirror outbox` shows what was edited before",
            crate::format::counted(held, "edit is", "edits are")
        ));
    }
    Ok(())
}

/// Requests known records by id and compares the creation time, which never changes: ids may be equal in two
/// workspaces, creation times are not. The first object with existing records decides.
///
/// # Errors
/// [`SyncError::NotRecognised`] if they are other records, or none of those exists that the key may read;
/// [`SyncError::NoScope`] if the key may read none of them.
async fn recognise(run: &Run<'_>) -> Result<(), SyncError> {
    let (mut unread, mut asked) = (Vec::new(), 0);
    for object in Object::ALL {
        let sample = run.read(move |tx| tx.sample_created(object, SAMPLE)).await?;
        let ids: Vec<RecordId> = sample.iter().map(|(id, _)| id.clone()).collect();
        let sample = &sample[..ListQuery::ids_that_fit(&ids)];
        if sample.is_empty() {
            continue;
        }
        match look_for(run, object, sample).await {
            Err(error) if error.class() == Some(ErrorClass::SkipObject) => unread.push(object.resource().read_scope()),
            Err(error) => return Err(error),
            Ok((some, 0, 0)) => asked += some,
            // Whatever the others may show.
            Ok((asked, met, others)) if others > met => {
                return Err(SyncError::NotRecognised { asked, met, unread: Vec::new() });
            }
            Ok(_) => return Ok(()),
        }
    }
    match (asked, unread.is_empty()) {
        // There is no known record to overwrite.
        (0, true) => Ok(()),
        // There are records, but the key may not read any of them, so the workspace cannot be identified.
        (0, false) => Err(SyncError::NoScope { scopes: unread.join(", ") }),
        (asked, _) => Err(SyncError::NotRecognised { asked, met: 0, unread }),
    }
}

/// Looks up known records of an object: how many were asked for, exist as known, and exist with another creation time.
async fn look_for(
    run: &Run<'_>,
    object: Object,
    sample: &[(RecordId, String)],
) -> Result<(usize, usize, usize), SyncError> {
    let (mut met, mut others, mut asked) = (HashSet::new(), HashSet::new(), 0);
    let mut open = vec![sample];
    while let Some(some) = open.pop().filter(|_| met.is_empty() && others.is_empty()) {
        asked += some.len();
        let ids: Vec<RecordId> = some.iter().map(|(id, _)| id.clone()).collect();
        let query = ListQuery::new(object.resource()).ids(&ids);
        let mut list = ShortList::new(run, query, Purpose::Changes, "recognise the workspace by");
        // One page, unless the service uses smaller pages than requested. Records that are known are enough, so
        // that a budget window may pay for fewer requests than there are pages.
        while met.len() <= others.len() {
            let page = match list.page().await {
                // What it has shown is known, whatever keeps the rest of it from being read.
                Err(SyncError::Api { .. }) if others.len() > met.len() => break,
                // A service that limits the length of the whole list, or a record that cannot be read. The other half is
                // needed only if none of this one exists.
                Err(error) if is_of_ids(&error) && some.len() > 1 => {
                    let (low, high) = some.split_at(some.len() / 2);
                    open.extend([high, low]);
                    asked -= some.len();
                    break;
                }
                fetched => fetched?,
            };
            let Some(FetchedPage { page, .. }) = page else { break };
            for record in page.records {
                let created = record.created_at;
                let is_of = |known: &str| {
                    created.zip(known.parse().ok()).is_some_and(|(created, known): (Instant, Instant)| {
                        created.since(known).max(known.since(created)) <= SAME_TIME
                    })
                };
                match some.iter().find(|(id, _)| *id == record.id) {
                    Some((_, known)) if is_of(known) => met.insert(record.id),
                    Some(_) => others.insert(record.id),
                    None => false,
                };
            }
        }
    }
    Ok((asked, met.len(), others.len()))
}
