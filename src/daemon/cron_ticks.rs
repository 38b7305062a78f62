//! The scheduler: `tokio-cron-scheduler` determines when to check the timetable.
//!
//! It keeps a fixed offset for a time zone, so it gets one: the tables of all zones would be a megabyte of memory. It also
//! relies on the time of its last check. So the jobs are configured again when the zone's offset changes and when the
//! clock was moved. Its ticks only cause a check: the timetable decides what is due.

use std::time::Duration;

use chrono::{FixedOffset, Offset as _, Utc};
use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use uuid::Uuid;

use super::error::DaemonError;
use super::handler_state::LoopMessage;
use super::inputs_and_effects::Input;
use super::timetable::{ScheduleKind, Timetable};
use crate::model::Instant;

pub(super) struct CronTicks {
    scheduler: JobScheduler,
    inbox: mpsc::Sender<LoopMessage>,
    jobs: Vec<Uuid>,
    offset: Option<i32>,
}

impl CronTicks {
    pub(super) async fn start(inbox: mpsc::Sender<LoopMessage>) -> Result<CronTicks, DaemonError> {
        let scheduler = JobScheduler::new().await.map_err(|error| failed(&error))?;
        scheduler.start().await.map_err(|error| failed(&error))?;
        Ok(CronTicks { scheduler, inbox, jobs: Vec::new(), offset: None })
    }

    pub(super) async fn set(&mut self, timetable: &Timetable, now: Instant) -> Result<(), DaemonError> {
        for job in self.jobs.drain(..) {
            self.scheduler.remove(&job).await.map_err(|error| failed(&error))?;
        }
        let offset = timetable.offset(now);
        // An offset of a day or more is in no zone.
        let zone = FixedOffset::east_opt(offset).unwrap_or(Utc.fix());
        for kind in ScheduleKind::ALL {
            let Some(line) = timetable.line(kind) else { continue };
            let job = self.job(line.as_str(), zone, timetable.delay)?;
            self.jobs.push(self.scheduler.add(job).await.map_err(|error| failed(&error))?);
        }
        self.offset = Some(offset);
        Ok(())
    }

    pub(super) fn is_stale(&self, timetable: &Timetable, now: Instant) -> bool {
        self.offset != Some(timetable.offset(now))
    }

    fn job(&self, line: &str, zone: FixedOffset, delay: Duration) -> Result<Job, DaemonError> {
        let inbox = self.inbox.clone();
        Job::new_async_tz(line, zone, move |_, _| {
            let inbox = inbox.clone();
            Box::pin(async move {
                tokio::time::sleep(delay).await;
                // A full inbox causes a check soon anyway; a closed one belongs to a stopped daemon.
                let _ = inbox.try_send(LoopMessage::Input(Input::Tick));
            })
        })
        .map_err(|error| failed(&error))
    }

    pub(super) async fn end(mut self) {
        if let Err(error) = self.scheduler.shutdown().await {
            tracing::debug!(%error, "The scheduler failed to stop: {error}");
        }
    }
}

fn failed(error: &JobSchedulerError) -> DaemonError {
    DaemonError::Scheduler { why: error.to_string() }
}
