//! Publishing in the daemon: a separate task that sends changes within seconds, and retries failures.
//!
//! It watches the mirror's file and is independent of the runs, so a database that is unavailable or slow does not
//! delay a run. The settings are read again with each check: a new URL, or another column to exclude, needs no restart.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::error::PublishError;
use super::run::{Check, PublishSettings, publish};
use super::target::PublishUrl;
use crate::error_chain::error_chain;
use crate::model::{Clock, ClockReading, Instant, Object};
use crate::store::StoreError;
use crate::store::publishing::queue::PublishProgress;
use crate::store::publishing::source::{PageQuery, PublishSource};

/// The interval between two checks of the mirror.
const EVERY: Duration = Duration::from_secs(2);

/// The first and the longest delay after a failure; the delay doubles in between.
const DELAYS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// The interval between two comparisons of every value.
const COMPARED_EVERY: Duration = Duration::from_secs(24 * 3600);

/// What to publish, and where; `None` if nothing is published.
pub type PublishPlan = Option<(PublishUrl, PublishSettings)>;

#[derive(Debug)]
pub struct PublishKeeper(JoinHandle<()>);

impl PublishKeeper {
    /// Starts to publish the mirror at `path`. `plan` reads the settings.
    pub fn start<P>(path: &Path, plan: P, clock: Arc<dyn Clock>) -> PublishKeeper
    where
        P: Fn() -> Result<PublishPlan, String> + Send + 'static,
    {
        let path = path.to_path_buf();
        PublishKeeper(tokio::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut watch = None;
            let mut pace = PublishPace::default();
            loop {
                every.tick().await;
                let (checked, before) = (path.clone(), watch.take());
                let Ok(Some(check)) = tokio::task::spawn_blocking(move || check(&checked, before)).await else {
                    continue;
                };
                let (held, found) = check;
                watch = Some(held);
                if !pace.is_due(&found, &clock.reading()) {
                    continue;
                }
                let Some((url, settings)) = pace.planned(plan()) else { continue };
                let compares = is_comparison_due(&found, clock.now());
                if !compares && pace.is_published(&found, &url, &settings) {
                    continue;
                }
                let check = if compares { Check::Compare } else { Check::None };
                let ended = publish(&url, &PublishSettings { check, ..settings.clone() }, clock.now()).await;
                let (is_published, is_busy) = (ended.is_ok(), ended.as_ref().is_err_and(PublishError::is_busy));
                report(ended, pace.failures(&found));
                if is_published {
                    // Read before the publish, so that changes during it are noticed.
                    pace.mark_published(found.contents, url, settings);
                } else {
                    pace.mark_missed(&found, is_busy, clock.reading());
                }
            }
        }))
    }

    /// Ends the task. A batch in progress is rolled back; the next publish sends it.
    pub async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

fn report(ended: Result<super::PublishReport, PublishError>, failures: u32) {
    match ended {
        Ok(report) => {
            if failures > 0 || report.reloaded.is_some() {
                tracing::info!("Published to {}: cursor {}", report.server, report.cursor);
            }
            for row in &report.refused_rows {
                tracing::warn!("The published database refuses {} {}: {}", row.table, row.name, row.reason);
            }
            if let Some(found) = report.comparison.as_ref().filter(|found| found.left() > 0) {
                let differing = found.differing.first().map(|first| format!(", {first} first")).unwrap_or_default();
                tracing::warn!(
                    "The published copy differs from the mirror in {}{differing}: `crm-mirror publish --verify --repair` repairs it",
                    crate::format::counted(found.left(), "value", "values")
                );
            }
            for left in report.left_behind.iter().filter(|_| report.reloaded.is_some()) {
                tracing::warn!("Left behind in the published schema: {left}");
            }
            for blocked in report.blocked.iter().filter(|_| failures == 0) {
                tracing::warn!("{} is not published, and will be tried again: {}", blocked.table, blocked.reason);
            }
        }
        Err(error) if error.is_busy() => tracing::debug!("Publishing waits: {}", error_chain(&error)),
        Err(error) if failures == 0 => {
            let error = error_chain(&error);
            tracing::warn!(%error, "Publishing failed and will be retried: {error}");
        }
        Err(error) => tracing::debug!("Publishing failed again: {}", error_chain(&error)),
    }
}

/// Decides when to publish, and remembers what the mirror does not show: what this task has published, and attempts that
/// ended before their failure could be stored.
#[derive(Debug, Default)]
struct PublishPace {
    /// What was published last: the contents, to where, and how.
    published: Option<(String, PublishUrl, PublishSettings)>,
    missed: Option<MissedAttempt>,
    /// Why there is no plan, if that was logged.
    logged_error: Option<String>,
}

/// An attempt that published nothing. It counts until the mirror shows another attempt.
#[derive(Clone, Copy, Debug)]
struct MissedAttempt {
    /// The failures in the mirror before the attempt.
    before: (u32, Option<Instant>),
    failures: u32,
    ended: ClockReading,
}

impl PublishPace {
    /// Whether an attempt may be made now.
    fn is_due(&self, found: &PublishDue, now: &ClockReading) -> bool {
        let waits = |missed: MissedAttempt| now.since(&missed.ended) < delay_after(missed.failures);
        is_due(found, now.wall) && !self.missed(found).is_some_and(waits)
    }

    /// The last attempt, unless the mirror shows its failure or a later attempt.
    fn missed(&self, found: &PublishDue) -> Option<MissedAttempt> {
        self.missed.filter(|missed| missed.before == (found.failures, found.failed_at))
    }

    fn failures(&self, found: &PublishDue) -> u32 {
        found.failures.saturating_add(self.missed(found).map_or(0, |missed| missed.failures))
    }

    /// The plan, if there is one. An error is logged once; the settings are read again with the next check.
    fn planned(&mut self, plan: Result<PublishPlan, String>) -> PublishPlan {
        let (plan, error) = match plan {
            Ok(plan) => (plan, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(error) = error.as_ref().filter(|error| self.logged_error.as_ref() != Some(error)) {
            tracing::warn!(%error, "Publishing is not possible: {error}");
        }
        self.logged_error = error;
        plan
    }

    /// Whether exactly this was published last, and nothing failed since.
    fn is_published(&self, found: &PublishDue, url: &PublishUrl, settings: &PublishSettings) -> bool {
        found.failures == 0
            && self
                .published
                .as_ref()
                .is_some_and(|(contents, to, how)| *contents == found.contents && to == url && how == settings)
    }

    fn mark_published(&mut self, contents: String, url: PublishUrl, settings: PublishSettings) {
        self.published = Some((contents, url, settings));
        self.missed = None;
    }

    /// Notes an attempt that published nothing. Another publisher at work, or a locked mirror, is no failure.
    fn mark_missed(&mut self, found: &PublishDue, is_busy: bool, ended: ClockReading) {
        let known = self.missed(found).map_or(0, |missed| missed.failures);
        let failures = if is_busy { 0 } else { known.saturating_add(1) };
        self.missed = Some(MissedAttempt { before: (found.failures, found.failed_at), failures, ended });
    }
}

/// Whether a failed publish is to be retried now. A failure in the future was stored under a different clock, and delays
/// nothing.
fn is_due(found: &PublishDue, now: Instant) -> bool {
    let Some(failed_at) = found.failed_at.filter(|at| found.failures > 0 && *at <= now) else { return true };
    now >= failed_at.plus(delay_after(found.failures))
}

/// Whether every value is to be compared. A comparison in the future was stored under a different clock, and counts as none.
fn is_comparison_due(found: &PublishDue, now: Instant) -> bool {
    found.compared_at.is_none_or(|at| at > now || now >= at.plus(COMPARED_EVERY))
}

/// How long to wait after so many failures.
fn delay_after(failures: u32) -> Duration {
    let (first, longest) = DELAYS;
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PublishDue {
    failures: u32,
    failed_at: Option<Instant>,
    compared_at: Option<Instant>,
    /// Changes whenever there is something new to publish.
    contents: String,
}

/// An open mirror, the identity of its file, and the last result.
#[derive(Debug)]
struct WatchedMirror {
    source: PublishSource,
    file: (u64, u64),
    version: i64,
    found: PublishDue,
}

/// Checks whether anything was committed. A mirror that cannot be read now is checked again later.
fn check(path: &Path, before: Option<WatchedMirror>) -> Option<(WatchedMirror, PublishDue)> {
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
        Ok(PublishDue {
            failures: progress.failures,
            failed_at: progress.failed_at,
            compared_at: progress.proof.compared_at,
            contents,
        })
    })
}

/// Reads the team members, which are neither in the feed nor among the changed records.
fn team() -> PageQuery {
    let columns = ["id", "first_name", "last_name", "username", "email", "status", "updated_at"];
    PageQuery { table: "team_members".into(), columns: columns.map(String::from).to_vec(), key: vec!["id".into()] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ManualClock;

    fn due(contents: &str) -> PublishDue {
        PublishDue { failures: 0, failed_at: None, compared_at: None, contents: contents.into() }
    }

    #[test]
    fn every_value_is_compared_once_a_day() {
        let at = |hours: u64| Instant::EPOCH.plus(Duration::from_secs(1_000_000 + hours * 3600));
        let compared = |hours| PublishDue { compared_at: Some(at(hours)), ..due("") };
        assert!(is_comparison_due(&due(""), at(0)));
        assert_eq!([0, 23, 24].map(|hours| is_comparison_due(&compared(0), at(hours))), [false, false, true]);
        assert!(is_comparison_due(&compared(1), at(0)), "the clock was set back");
    }

    #[test]
    fn delay_grows_up_to_ten_minutes() {
        assert_eq!([1, 2, 3, 8, 60].map(|failures| delay_after(failures).as_secs()), [5, 10, 20, 600, 600]);
    }

    #[test]
    fn attempt_that_the_mirror_does_not_show_is_repeated_after_a_growing_delay() {
        let clock = ManualClock::at(Instant::EPOCH.plus(Duration::from_secs(1_000_000)));
        let found = due("a");
        let mut pace = PublishPace::default();
        let mut delay = |is_busy, found: &PublishDue| {
            pace.mark_missed(found, is_busy, clock.reading());
            let due = |_: &u64| {
                clock.advance(Duration::from_secs(1));
                pace.is_due(found, &clock.reading())
            };
            ((1..=601).find(due), pace.failures(found))
        };
        assert_eq!(delay(true, &found), (Some(5), 0));
        assert_eq!([1, 2, 3].map(|_| delay(false, &found)), [(Some(5), 1), (Some(10), 2), (Some(20), 3)]);
        let noted = PublishDue { failures: 1, failed_at: Some(Instant::EPOCH), ..found };
        assert_eq!(delay(false, &noted), (Some(5), 2), "the mirror shows another failure");
        assert!(pace.is_due(&PublishDue { failures: 2, ..noted }, &clock.reading()));
    }

    #[test]
    fn nothing_is_published_again_unless_the_mirror_or_the_settings_changed() {
        let url = |host: &str| PublishUrl::new(&format!("postgres://u:p@{host}/d").into()).unwrap();
        let (mirror, schema) = ("mirror.db".into(), "crm".into());
        let settings =
            PublishSettings { mirror, schema, objects: None, exclude: Vec::new(), full: false, check: Check::None };
        let found = due;
        let mut pace = PublishPace::default();
        assert!(!pace.is_published(&found("a"), &url("h"), &settings));
        pace.mark_published("a".into(), url("h"), settings.clone());
        assert!(pace.is_published(&found("a"), &url("h"), &settings));
        assert!(!pace.is_published(&found("b"), &url("h"), &settings));
        assert!(!pace.is_published(&found("a"), &url("other"), &settings));
        let excluding = PublishSettings { exclude: vec!["notes".into()], ..settings.clone() };
        assert!(!pace.is_published(&found("a"), &url("h"), &excluding));
        let failed = PublishDue { failures: 1, ..found("a") };
        assert!(!pace.is_published(&failed, &url("h"), &settings), "it failed elsewhere");
    }

    #[test]
    fn failure_delays_a_retry_unless_the_clock_was_set_back() {
        let at = |seconds: u64| Instant::EPOCH.plus(Duration::from_secs(1_000_000 + seconds));
        let found = PublishDue { failures: 2, failed_at: Some(at(0)), ..due("") };
        for (now, expected) in [(at(0), false), (at(9), false), (at(10), true), (at(0).minus(DELAYS.1), true)] {
            assert_eq!(is_due(&found, now), expected, "{now}");
        }
        assert!(is_due(&PublishDue { failures: 0, ..found.clone() }, at(0)));
        assert!(is_due(&PublishDue { failed_at: None, ..found }, at(0)));
    }
}
