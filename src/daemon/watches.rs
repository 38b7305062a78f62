//! Beside the daemon's loop: the tasks that watch files, and the scheduler.
//!
//! A file system that stays read-only ends the daemon: the system makes it so after an error, and its administrator makes it
//! writable again. A unit keeps the mounts that it started with, so the daemon may not see that: only a new start does.
//!
//! An edit that any process queues in the mirror's file is sent within seconds, and a failed edit is sent again when its
//! delays are over. [`EditWatch`] decides when that is. It is asked once a second, on a thread where blocking is allowed,
//! and only if write-back is on.
//!
//! `tokio-cron-scheduler` determines when to check the timetable. It keeps a fixed offset for a time zone, so it gets one:
//! the tables of all zones would be a megabyte of memory. It also relies on the time of its last check. So the jobs are
//! configured again when the clock was moved. Its ticks only cause a check: the timetable decides what is due, and after a
//! change of the offset the loop wakes by the timetable itself.

use std::path::Path;
use std::time::Duration;

use chrono::{FixedOffset, Offset as _, Utc};
use rustix::fs::{StatVfsMountFlags, statvfs};
use tokio::sync::mpsc;
use tokio::time::Instant as Monotonic;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use uuid::Uuid;

use super::error::DaemonError;
use super::handler_state::{Control, LoopMessage};
use super::inputs_and_effects::Input;
use super::timetable::{ScheduleKind, Timetable};
use crate::error_chain::error_chain;
use crate::model::Instant;
use crate::outbox::EditWatch;
use crate::store::beside;

const LOOK_EVERY: Duration = Duration::from_secs(15);

/// How long it may be read-only: as long as somebody who is there needs to repair it.
const MAX_READ_ONLY: Duration = Duration::from_secs(5 * 60);

pub(super) async fn watch_file_system(control: Control) {
    let database = beside(&control.config().database, "");
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.to_path_buf();
    let looked_at = folder.clone();
    let is_read_only = move || statvfs(&looked_at).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY));
    watch(is_read_only, LOOK_EVERY, MAX_READ_ONLY).await;
    control.send(LoopMessage::Failed(DaemonError::ReadOnly { folder })).await;
}

async fn watch(is_read_only: impl Fn() -> bool + Clone + Send + 'static, every: Duration, longest: Duration) {
    let mut since: Option<Monotonic> = None;
    loop {
        // A file system that never answers occupies one thread, and is not known to be read-only.
        let look = tokio::task::spawn_blocking(is_read_only.clone());
        since = look.await.unwrap_or(false).then(|| since.unwrap_or_else(Monotonic::now));
        if since.is_some_and(|since| since.elapsed() >= longest) {
            return;
        }
        tokio::time::sleep(every).await;
    }
}

const EDITS_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn watch_edits(control: Control) {
    let mut last = None;
    loop {
        tokio::time::sleep(EDITS_EVERY).await;
        let (config, now) = (control.config(), control.now());
        if !config.write_back.enabled {
            last = None;
            continue;
        }
        let mut watch = last.take().unwrap_or_else(|| EditWatch::new(&config.database));
        let look = tokio::task::spawn_blocking(move || (watch.is_due(now), watch));
        let Ok((due, watch)) = look.await else { return };
        last = Some(watch);
        let is_due = due.unwrap_or_else(|error| {
            // The file may be missing for a while; the next check opens it again.
            tracing::debug!("The outbox could not be read: {}", error_chain(&error));
            false
        });
        if is_due && control.send(LoopMessage::Input(Input::EditsDue)).await.is_none() {
            return;
        }
    }
}

pub(super) struct CronTicks {
    scheduler: JobScheduler,
    inbox: mpsc::Sender<LoopMessage>,
    jobs: Vec<Uuid>,
}

impl CronTicks {
    pub(super) async fn start(inbox: mpsc::Sender<LoopMessage>) -> Result<CronTicks, JobSchedulerError> {
        let scheduler = JobScheduler::new().await?;
        scheduler.start().await?;
        Ok(CronTicks { scheduler, inbox, jobs: Vec::new() })
    }

    pub(super) async fn set(&mut self, timetable: &Timetable, now: Instant) -> Result<(), JobSchedulerError> {
        for job in self.jobs.drain(..) {
            self.scheduler.remove(&job).await?;
        }
        // An offset of a day or more is in no zone.
        let zone = FixedOffset::east_opt(timetable.offset(now)).unwrap_or(Utc.fix());
        for line in ScheduleKind::ALL.into_iter().filter_map(|kind| timetable.line(kind)) {
            let (inbox, delay) = (self.inbox.clone(), timetable.delay);
            let job = Job::new_async_tz(line.as_str(), zone, move |_, _| {
                let inbox = inbox.clone();
                Box::pin(async move {
                    tokio::time::sleep(delay).await;
                    // A full inbox causes a check soon anyway; a closed one belongs to a stopped daemon.
                    let _ = inbox.try_send(LoopMessage::Input(Input::Tick));
                })
            })?;
            self.jobs.push(self.scheduler.add(job).await?);
        }
        Ok(())
    }

    pub(super) async fn end(mut self) {
        if let Err(error) = self.scheduler.shutdown().await {
            tracing::debug!(%error, "The scheduler failed to stop: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn only_a_file_system_that_stays_read_only_counts() {
        let looks = Arc::new(AtomicU32::new(0));
        let counted = looks.clone();
        // Writable at every other look at first, then no more.
        let is_read_only = move || {
            let look = counted.fetch_add(1, Ordering::Relaxed);
            look.is_multiple_of(2) || look >= 10
        };
        watch(is_read_only, Duration::from_millis(2), Duration::from_millis(1)).await;
        assert!(looks.load(Ordering::Relaxed) > 10);
    }
}
