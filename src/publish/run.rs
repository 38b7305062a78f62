//! One run: first the columns, then a whole load or batches of changes, until nothing is left to send.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::PublishError;
use super::compare::{self, Comparison};
use super::database::Database;
use super::sides::{PublishedMirror, Sides};
use super::state::TargetState;
use super::tables;
use super::target::PublishUrl;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource};
use crate::regular_file;
use crate::store::publishing::queue;
use crate::store::{PublishProgress, RefusedRow, StateKey, StoreError, beside};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishSettings {
    pub mirror: PathBuf,
    pub schema: String,
    /// `None` for all.
    pub objects: Option<Vec<Resource>>,
    pub exclude: Vec<String>,
    pub full: bool,
    pub check: Check,
}

/// What to do about equality once everything was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    #[default]
    None,
    Compare,
    Repair,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PublishReport {
    /// The server that was reached, of those in the URL: host, port and database.
    pub server: String,
    pub cursor: String,
    /// Why everything, or some tables, were loaded; `None` if only changes were sent.
    pub reloaded: Option<String>,
    pub loaded: BTreeMap<&'static str, u64>,
    /// Records that were written or deleted.
    pub records: u64,
    /// Entries of the feed that were sent.
    pub changes: u64,
    /// Lists that are not published yet: their first copy is not finished.
    pub not_copied: Vec<Resource>,
    /// What could not follow, and what is kept only because something of a person needs it, one sentence each.
    pub left_behind: Vec<String>,
    /// The tables that the database does not let be brought to shape, or written: nothing is sent to them.
    pub blocked: Vec<BlockedTable>,
    pub refused: u64,
    pub refused_rows: Vec<RefusedRow>,
    pub comparison: Option<Comparison>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedTable {
    pub table: &'static str,
    pub reason: String,
}

/// What is proven of a published copy is about this place.
pub(super) fn target_of(url: &PublishUrl, settings: &PublishSettings) -> String {
    format!("{} {}", url.place, settings.schema)
}

/// Publishes the mirror once, and records in it how far it came or why it failed. The next run continues from there.
pub async fn publish(
    url: &PublishUrl,
    settings: &PublishSettings,
    now: Instant,
) -> Result<PublishReport, PublishError> {
    let lock = PublishLock::take(settings)?;
    let mirror = PublishedMirror::open(&settings.mirror).await?;
    if !mirror.moment(|moment| Ok(queue::is_recording(moment.tx)?)).await? {
        mirror.note(|tx| tx.feed().begin_recording()).await?;
    }
    let ended = run(url, settings, &mirror, now).await;
    if ended.as_ref().is_err_and(PublishError::is_busy) {
        return ended.map(|(report, _)| report);
    }
    let last_error = match &ended {
        Ok((report, _)) => {
            let sentence = |of: &BlockedTable| format!("{} is not published: {}", of.table, of.reason);
            let sentences: Vec<String> = report.blocked.iter().map(sentence).collect();
            (!sentences.is_empty()).then(|| sentences.join("; "))
        }
        Err(error) => Some(error_chain(error)),
    };
    let sent = ended.as_ref().ok().cloned();
    let target = target_of(url, settings);
    let noted = mirror.note(move |tx| {
        let mut progress = queue::progress_of(tx, Some(target))?;
        if let Some((report, state)) = sent {
            // What is not sent to a blocked table is behind, however far the others are.
            if last_error.is_none() {
                let position = state.cursor.map(|(_, seq)| (seq, state.changed));
                let target = progress.target;
                progress = PublishProgress { target, position, published_at: Some(now), ..PublishProgress::default() };
            }
            progress.refused = report.refused;
            progress.refused_rows = report.refused_rows;
            progress.left_behind = report.left_behind;
            progress.proof = state.proof;
        }
        if let Some(why) = last_error {
            progress = progress.failed(why, now);
        }
        tx.set_state(&StateKey::PublishProgress, &progress)
    });
    let noted = noted.await;
    drop(lock);
    let (report, _) = ended?;
    noted?;
    Ok(report)
}

/// Records that a mirror cannot be published, before anything is tried.
pub(super) async fn note_failure(settings: &PublishSettings, why: String, now: Instant) -> Result<(), PublishError> {
    let mirror = PublishedMirror::open(&settings.mirror).await?;
    let note = mirror.note(move |tx| {
        let before = queue::progress_of(tx, None)?;
        tx.set_state(&StateKey::PublishProgress, &before.failed(why, now))
    });
    note.await
}

struct PublishLock(File);

impl Drop for PublishLock {
    /// Closing is not enough: a process that is being started at this moment has a copy of the file until it executes
    /// its program, and would keep the lock for as long.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "the lock of publishing was not released before its file was closed");
        }
    }
}

impl PublishLock {
    fn take(settings: &PublishSettings) -> Result<PublishLock, PublishError> {
        if !settings.mirror.exists() {
            return Err(StoreError::Missing { path: settings.mirror.clone() }.into());
        }
        let path = beside(&settings.mirror, ".publish.lock");
        let failed = |source| StoreError::Io { path: path.clone(), source };
        let file = regular_file::open_or_create_own(&path, 0o600).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(PublishLock(file)),
            Err(TryLockError::WouldBlock) => Err(PublishError::Busy { schema: settings.schema.clone() }),
            Err(TryLockError::Error(source)) => Err(failed(source).into()),
        }
    }
}

async fn run(
    url: &PublishUrl,
    settings: &PublishSettings,
    mirror: &PublishedMirror,
    now: Instant,
) -> Result<(PublishReport, TargetState), PublishError> {
    // An invalid configuration is found before anything is sent.
    let (resources, exclude) = (settings.objects.clone(), settings.exclude.clone());
    let publication = mirror.moment(move |moment| tables::publication(moment, resources.as_deref(), &exclude)).await?;
    let publication = Arc::new(publication);
    let database = &Database::connect(url, &settings.schema).await?;
    database.prepare().await?;
    let state = database.state().await?;
    let why = if settings.full { Some("it was requested") } else { state.why_reload(&publication) };
    let state = if why.is_some() { state.after_load(&publication) } else { state };
    let (refused, left_behind) = (Vec::new(), Vec::new());
    let mut sides = Sides { database, mirror, publication, state, refused, left_behind };
    let reloads = sides.reconcile(settings.full).await?;
    let mut report = PublishReport { server: database.place.clone(), ..PublishReport::default() };
    let tables = sides.publication.chosen_tables().filter(|table| !sides.state.is_loaded(table));
    report.not_copied = tables.filter_map(|table| table.object()).map(Object::resource).collect();
    report.loaded = sides.load(&reloads).await?;
    let reasons = reloads.iter().filter(|(table, _)| report.loaded.contains_key(*table));
    let reasons: Vec<String> = reasons.map(|(table, reload)| format!("{table}: {}", reload.why)).collect();
    report.reloaded = why.map(String::from).or((!reasons.is_empty()).then(|| reasons.join("; ")));
    sides.finish().await?;
    (report.records, report.changes) = sides.send_all().await?;
    if settings.check != Check::None {
        report.comparison = Some(compare::prove(&mut sides, settings.check == Check::Repair, now).await?);
    }
    sides.name_left_behind().await?;
    report.cursor = sides.state.cursor_text();
    let Sides { state, refused, left_behind, .. } = sides;
    report.blocked = refused.iter().map(|(table, error)| BlockedTable { table, reason: error_chain(error) }).collect();
    report.left_behind = left_behind;
    (report.refused, report.refused_rows) = state.refused_rows();
    Ok((report, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_free_although_a_process_that_starts_has_a_copy_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let mirror = directory.path().join("mirror.db");
        std::fs::write(&mirror, "").unwrap();
        let settings = PublishSettings {
            mirror,
            schema: "crm".into(),
            objects: None,
            exclude: Vec::new(),
            full: false,
            check: Check::None,
        };
        let lock = PublishLock::take(&settings).unwrap();
        let _inherited = lock.0.try_clone().unwrap();
        assert!(matches!(PublishLock::take(&settings), Err(PublishError::Busy { .. })));
        drop(lock);
        PublishLock::take(&settings).unwrap();
    }
}
