//! Publishing beside the daemon: a task of its own that sends what changed within seconds, and retries by itself.
//!
//! It watches the mirror's file and asks nothing of the runs, so a database that is away or slow delays no run by a
//! request. The settings are read again before each publish: a new URL needs no restart.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::error::PublishError;
use super::run::{PublishSettings, publish};
use super::target::PublishUrl;
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant, Object};
use crate::store::StoreError;
use crate::store::publishing::queue::PublishProgress;
use crate::store::publishing::source::{PageQuery, PublishSource};

/// Between two looks at the mirror.
const EVERY: Duration = Duration::from_secs(2);

/// The first and the longest delay after a failure, doubled in between.
const DELAYS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// What is to be published, and where; `None` while nothing is.
pub type PublishPlan = Option<(PublishUrl, PublishSettings)>;

/// A task that publishes until it is ended.
#[derive(Debug)]
pub struct PublishKeeper(JoinHandle<()>);

impl PublishKeeper {
    /// Begins to publish the mirror at `path`. `plan` reads the settings.
    pub fn start<P>(path: &Path, plan: P, clock: Arc<dyn Clock>) -> PublishKeeper
    where
        P: Fn() -> Result<PublishPlan, String> + Send + 'static,
    {
        let path = path.to_path_buf();
        PublishKeeper(tokio::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut watch = None;
            let mut seen = None;
            loop {
                every.tick().await;
                let (looked, before) = (path.clone(), watch.take());
                let Ok(Some(look)) = tokio::task::spawn_blocking(move || look(&looked, before)).await else { continue };
                let (held, found) = look;
                watch = Some(held);
                let is_due = found.failures == 0 || clock.now() >= next_try(&found);
                if !is_due || found.failures == 0 && seen.as_ref() == Some(&found.contents) {
                    continue;
                }
                match plan() {
                    Ok(Some((url, settings))) => {
                        report(publish(&url, &settings, clock.now()).await, &url, found.failures);
                        // Read before the publish: what changed meanwhile is another content.
                        seen = Some(found.contents);
                    }
                    Ok(None) => seen = Some(found.contents),
                    Err(error) => {
                        tracing::warn!(%error, "The mirror is not published: {error}");
                        seen = Some(found.contents);
                    }
                }
            }
        }))
    }

    /// Ends it. A batch under way never happened; the next publish sends it.
    pub async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

fn report(ended: Result<super::PublishReport, PublishError>, url: &PublishUrl, failures: u32) {
    match ended {
        Ok(report) => {
            if failures > 0 || report.reloaded.is_some() {
                tracing::info!("Published to {}: cursor {}", url.place(), report.cursor);
            }
            for left in report.left_behind {
                tracing::warn!("Left behind while publishing: {left}");
            }
        }
        // The verb is at it.
        Err(PublishError::Busy { .. }) => {}
        Err(error) if failures == 0 => {
            let error = error_chain(&error);
            tracing::warn!(%error, "The mirror could not be published, and is tried again: {error}");
        }
        Err(error) => tracing::debug!("Publishing failed again: {}", error_chain(&error)),
    }
}

/// When a failed publish is tried again.
fn next_try(found: &PublishDue) -> Instant {
    let (first, longest) = DELAYS;
    let doubled = first.saturating_mul(1 << (found.failures - 1).min(16)).min(longest);
    found.failed_at.map_or(Instant::EPOCH, |at| at.plus(doubled))
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PublishDue {
    failures: u32,
    failed_at: Option<Instant>,
    /// Changes whenever there is something new to publish.
    contents: String,
}

/// An open mirror, the file it is, and what was found in it.
#[derive(Debug)]
struct WatchedMirror {
    source: PublishSource,
    file: (u64, u64),
    version: i64,
    found: PublishDue,
}

/// Looks whether anything was committed. A mirror that cannot be read now is looked at again.
fn look(path: &Path, before: Option<WatchedMirror>) -> Option<(WatchedMirror, PublishDue)> {
    let meta = std::fs::metadata(path).ok()?;
    let file = (meta.dev(), meta.ino());
    if let Some(mut watch) = before.filter(|watch| watch.file == file) {
        let version = watch.source.version().ok()?;
        if version != watch.version {
            watch.found = find(&watch.source).ok()?;
            watch.version = version;
        }
        let found = watch.found.clone();
        return Some((watch, found));
    }
    let source = PublishSource::open(path).ok()?;
    let (version, found) = (source.version().ok()?, find(&source).ok()?);
    Some((WatchedMirror { source, file, version, found: found.clone() }, found))
}

fn find(source: &PublishSource) -> Result<PublishDue, StoreError> {
    source.moment(|moment| {
        let progress: PublishProgress = moment.progress()?.unwrap_or_default();
        let copied = (moment.is_copied(Object::Contact)?, moment.is_copied(Object::Company)?);
        let newest = (moment.span()?.newest, moment.newest_changed()?, moment.layout()?);
        let contents = format!("{copied:?} {newest:?} {:?}", moment.page(&team(), None, u32::MAX)?);
        Ok(PublishDue { failures: progress.failures, failed_at: progress.failed_at, contents })
    })
}

/// The team members: neither the feed nor the changed records tell of them.
fn team() -> PageQuery {
    let columns = ["id", "first_name", "last_name", "username", "email", "status", "updated_at"];
    PageQuery { table: "team_members".into(), columns: columns.map(String::from).to_vec(), key: vec!["id".into()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_up_to_ten_minutes() {
        let at = Instant::EPOCH.plus(Duration::from_secs(1_000));
        let wait = |failures| {
            let found = PublishDue { failures, failed_at: Some(at), contents: String::new() };
            next_try(&found).since(at).as_secs()
        };
        assert_eq!([1, 2, 3, 8, 60].map(wait), [5, 10, 20, 600, 600]);
    }
}
