//! Publishing in the daemon: a separate task that sends changes within seconds, and retries failures.
//!
//! It watches the mirror's file and is independent of the runs, so a database that is unavailable or slow does not
//! delay a run. The settings are read again with each check: a new URL, or another column to exclude, needs no restart.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::PublishError;
use super::run::{Check, PublishReport, PublishSettings, note_failure, publish, target_of};
use super::target::PublishUrl;
use crate::error_chain::error_chain;
use crate::format::{HIDDEN, counted};
use crate::model::{Clock, ClockReading, Instant, Object, growing};
use crate::store::publishing::queue;
use crate::store::{KeptReader, Moment, PageQuery, PublishProgress, ReadTx, StoreError, feed};

const EVERY: Duration = Duration::from_secs(2);

const DELAYS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

const COMPARED_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Where to publish, and what; `None` if nothing is published.
pub type PublishPlan = Option<(Result<PublishUrl, PublishError>, PublishSettings)>;

/// Publishes the mirror of the settings that `plan` reads, for ever. If it ends, the next publish sends what is left.
pub async fn keep_published(plan: impl Fn() -> PublishPlan, clock: Arc<dyn Clock>) {
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = KeptReader::default();
    let mut pace = PublishPace::default();
    loop {
        every.tick().await;
        let planned = plan();
        let Some((Ok(url), settings)) = planned else {
            // A mirror that is not published is not kept open: that takes half a megabyte.
            watch = KeptReader::default();
            pace.cannot_begin(planned, clock.now()).await;
            continue;
        };
        pace.known_error = None;
        let (checked, mut held) = (settings.mirror.clone(), std::mem::take(&mut watch));
        let check = move || (held.watch(&checked, find, PublishDue::clone).ok(), held);
        let Ok((found, held)) = tokio::task::spawn_blocking(check).await else { continue };
        watch = held;
        // A mirror that cannot be read now is checked again later.
        let Some(found) = found else { continue };
        let now = clock.reading();
        if !pace.is_due(&found, &now) {
            continue;
        }
        let is_elsewhere = found.progress.target.as_ref().is_some_and(|target| *target != target_of(&url, &settings));
        let compares = !is_elsewhere && is_comparison_due(found.progress.proof.compared_at, now.wall);
        if !is_elsewhere && !compares && pace.is_published(&found, &url, &settings) {
            continue;
        }
        let check = if compares { Check::Compare } else { Check::None };
        let ended = publish(&url, &PublishSettings { check, ..settings.clone() }, now.wall).await;
        report(&ended, pace.failures());
        match ended {
            // Read before the publish, so that changes during it are noticed.
            Ok(report) if report.blocked.is_empty() => {
                (pace.published, pace.failed) = (Some((found.contents, url, settings)), None);
            }
            ended => pace.fail(ended.is_err_and(|error| error.is_busy()), now),
        }
    }
}

fn report(ended: &Result<PublishReport, PublishError>, failures: u32) {
    match ended {
        Ok(report) => {
            if failures > 0 || report.reloaded.is_some() {
                tracing::info!("Published to {}: cursor {}", report.server, report.cursor);
            }
            for row in &report.refused_rows {
                tracing::warn!("The published database refuses {} {}; {HIDDEN}", row.table, row.name);
            }
            if let Some(found) = report.comparison.as_ref().filter(|found| found.left() > 0) {
                let differing = found.differing.first().map(|first| format!(", {first} first")).unwrap_or_default();
                tracing::warn!(
                    "The published copy differs from the mirror in {}{differing}: `crm-mirror publish --verify --repair` repairs it",
                    counted(found.left(), "value", "values")
                );
            }
            if report.reloaded.is_some() && !report.left_behind.is_empty() {
                let count = counted(report.left_behind.len() as u64, "object was", "objects were");
                tracing::warn!("{count} left behind in the published schema; {HIDDEN}");
            }
            for blocked in report.blocked.iter().filter(|_| failures == 0) {
                tracing::warn!("{} is not published, and will be tried again; {HIDDEN}", blocked.table);
            }
        }
        Err(error) if error.is_busy() => tracing::debug!("Publishing waits: {}", error_chain(error)),
        Err(error) if failures == 0 => {
            let error = error.without_server_text();
            tracing::warn!(%error, "Publishing failed and will be retried: {error}");
        }
        Err(error) => tracing::debug!("Publishing failed again: {}", error.without_server_text()),
    }
}

#[derive(Debug, Default)]
struct PublishPace {
    /// What was published: the contents, to where, and how.
    published: Option<(String, PublishUrl, PublishSettings)>,
    /// The failures since then, and when the last attempt began.
    failed: Option<(u32, ClockReading)>,
    /// Why there is no URL, once that was recorded.
    known_error: Option<String>,
}

impl PublishPace {
    /// A success of another process ends the delay.
    fn is_due(&self, found: &PublishDue, now: &ClockReading) -> bool {
        self.failed.is_none_or(|(failures, at)| {
            let has_succeeded = found.progress.failures == 0 && found.progress.published_at > Some(at.wall);
            has_succeeded || now.since(&at) >= growing(DELAYS, failures)
        })
    }

    fn failures(&self) -> u32 {
        self.failed.map_or(0, |(failures, _)| failures)
    }

    /// An error is recorded and logged once, as soon as there is a mirror; the settings are read again with the next check.
    async fn cannot_begin(&mut self, plan: PublishPlan, now: Instant) {
        let Some((Err(error), settings)) = plan else { return };
        let error = error_chain(&error);
        if self.known_error.as_ref() != Some(&error) && note_failure(&settings, error.clone(), now).await.is_ok() {
            tracing::warn!(%error, "Publishing is not possible: {error}");
            self.known_error = Some(error);
        }
    }

    /// Whether exactly this was published last, and nothing failed since, here or in another process.
    fn is_published(&self, found: &PublishDue, url: &PublishUrl, settings: &PublishSettings) -> bool {
        let is_same = |(known, to, how): &_| *known == found.contents && to == url && how == settings;
        found.progress.failures == 0 && self.failed.is_none() && self.published.as_ref().is_some_and(is_same)
    }

    /// `at` is when the attempt began. Another publisher at work, or a locked mirror, is no failure.
    fn fail(&mut self, is_busy: bool, at: ClockReading) {
        self.failed = Some((self.failures().saturating_add(u32::from(!is_busy)), at));
    }
}

/// A comparison in the future was stored under a different clock, and counts as none.
fn is_comparison_due(compared_at: Option<Instant>, now: Instant) -> bool {
    compared_at.is_none_or(|at| at > now || now >= at.plus(COMPARED_EVERY))
}

#[derive(Clone, Debug, Default)]
struct PublishDue {
    /// What any process noted of publishing last.
    progress: PublishProgress,
    /// Changes whenever there is something new to publish.
    contents: String,
}

fn find(tx: &ReadTx<'_>) -> Result<PublishDue, StoreError> {
    let moment = Moment { tx };
    let copied = (tx.is_copied(Object::Contact)?, tx.is_copied(Object::Company)?);
    let newest = (feed::span(tx)?.newest, moment.newest_changed()?, moment.layout()?);
    // They are neither in the feed nor among the changed records.
    let columns = ["id", "first_name", "last_name", "username", "email", "status", "updated_at"].map(String::from);
    let team = PageQuery { table: "team_members".into(), columns: columns.to_vec(), key: vec!["id".into()] };
    let contents = format!("{copied:?} {newest:?} {:?}", moment.whole(&team)?);
    Ok(PublishDue { progress: queue::progress(tx)?, contents })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MonotonicReading;

    #[test]
    fn every_value_is_compared_once_a_day() {
        let at = |hours: u64| Instant::EPOCH.plus(Duration::from_secs(1_000_000 + hours * 3600));
        assert!(is_comparison_due(None, at(0)));
        assert_eq!([0, 23, 24].map(|hours| is_comparison_due(Some(at(0)), at(hours))), [false, false, true]);
        assert!(is_comparison_due(Some(at(1)), at(0)), "the clock was set back");
    }

    fn due(contents: &str) -> PublishDue {
        PublishDue { contents: contents.into(), ..PublishDue::default() }
    }

    #[test]
    fn failed_attempt_is_repeated_after_a_growing_delay_or_a_success_elsewhere() {
        // The wall clock stands still or is set back, and measures nothing.
        let after = |seconds: u64| {
            let monotonic = Some(MonotonicReading { boot: 1, micros: seconds * 1_000_000 });
            ClockReading { wall: Instant::EPOCH, monotonic }
        };
        let noted = |failures, published_at| {
            let progress = PublishProgress { failures, published_at, ..PublishProgress::default() };
            PublishDue { progress, ..due("a") }
        };
        let failing = noted(1, None);
        let mut pace = PublishPace::default();
        let mut delay = |is_busy| {
            pace.fail(is_busy, after(0));
            let due = |seconds: &u64| pace.is_due(&failing, &after(*seconds));
            ((1..=601).find(due), pace.failures())
        };
        assert_eq!(delay(true), (Some(5), 0));
        assert_eq!([1, 2, 3].map(|_| delay(false)), [(Some(5), 1), (Some(10), 2), (Some(20), 3)]);
        let (before, later) = (Some(Instant::EPOCH), Some(Instant::EPOCH.plus(Duration::from_secs(1))));
        for (failures, published_at, is_due) in [(0, before, false), (1, later, false), (0, later, true)] {
            assert_eq!(pace.is_due(&noted(failures, published_at), &after(0)), is_due, "{failures} {published_at:?}");
        }
    }

    #[test]
    fn nothing_is_published_again_unless_the_mirror_or_the_settings_changed() {
        let url = |host: &str| PublishUrl::new(&format!("postgres://u:p@{host}/d").into()).unwrap();
        let (mirror, schema) = ("mirror.db".into(), "crm".into());
        let settings =
            PublishSettings { mirror, schema, objects: None, exclude: Vec::new(), full: false, check: Check::None };
        let mut pace = PublishPace::default();
        assert!(!pace.is_published(&due("a"), &url("h"), &settings));
        pace.published = Some(("a".into(), url("h"), settings.clone()));
        assert!(pace.is_published(&due("a"), &url("h"), &settings));
        assert!(!pace.is_published(&due("b"), &url("h"), &settings));
        assert!(!pace.is_published(&due("a"), &url("other"), &settings));
        let excluding = PublishSettings { exclude: vec!["notes".into()], ..settings.clone() };
        assert!(!pace.is_published(&due("a"), &url("h"), &excluding));
        let progress = PublishProgress { failures: 1, ..PublishProgress::default() };
        let failed = PublishDue { progress, ..due("a") };
        assert!(!pace.is_published(&failed, &url("h"), &settings), "it failed elsewhere");
        pace.fail(false, Instant::EPOCH.into());
        assert!(!pace.is_published(&due("a"), &url("h"), &settings), "it failed since");
    }
}
